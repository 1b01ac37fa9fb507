//! Looks for splits that a source has got since it was enumerated: new partitions of a topic.

use super::attempt::Event;
use super::deploy::JobParts;
use crate::connectors::SplitState;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Starts a task for each source that may grow. It tells the attempt once, and ends.
pub(super) fn start(parts: &Arc<JobParts>, splits: &[Vec<SplitState>], events: &UnboundedSender<Event>) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for (source, own) in splits.iter().enumerate() {
        let Some(every) = parts.sources[source].discovery() else { continue };
        let (parts, splits, events) = (Arc::clone(parts), own.clone(), events.clone());
        tasks.push(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first one is now, when nothing can have come.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let (asked, known) = (Arc::clone(&parts), splits.clone());
                let found = tokio::task::spawn_blocking(move || asked.sources[source].added(&known)).await;
                match found.expect("a look for splits does not panic") {
                    Ok(added) if added.is_empty() => {}
                    Ok(added) => {
                        let names: Vec<&str> = added.iter().map(|split| split.split.as_str()).collect();
                        let name = &parts.graph.sources[source].name;
                        let what = format!("source {name}: {} came: the job goes on with it", names.join(", "));
                        // Nobody listens once the attempt has ended.
                        let _ = events.send(Event::Grown(what));
                        return;
                    }
                    // What is being read goes on; the next look may say more.
                    Err(error) => tracing::warn!("looking for new partitions: {error}"),
                }
            }
        }));
    }
    tasks
}
