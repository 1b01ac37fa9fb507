//! The outside at the start of an attempt: what the newest checkpoint contains is committed, the rest is aborted.

use super::attempt::Event;
use super::commits::{SinkCommits, SinkNews};
use super::deploy::JobParts;
use super::losses::lost_transaction;
use super::targets::Target;
use crate::connectors::{CommitterContext, SplitState};
use crate::crash;
use crate::job::{LostTransaction, StopSignal};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use weir_protocol::recovery::RecoveryPlan;

/// Why recovery of the outside did not succeed.
#[derive(Debug)]
pub enum RecoveryError {
    /// Exit 3.
    Lost(Vec<LostTransaction>),
    /// The attempt fails; a restart may help.
    Failed(String),
    /// The user wants to stop. What is not ended yet is ended by the next start.
    Stopped,
}

/// Commits and aborts of a recovery.
pub struct OutsideRecovery<'a> {
    /// The job.
    pub parts: &'a JobParts,
    /// Splits for the names of lost ranges.
    pub splits: &'a [Vec<SplitState>],
    /// What has to be done.
    pub plan: &'a RecoveryPlan,
    /// Origin of the monotonic times that the machines see.
    pub origin: Instant,
}

impl OutsideRecovery<'_> {
    /// Ends every transaction of this job: commits what the newest checkpoint contains, aborts the rest, before any new input
    /// is read (T3). Gives the commits of the targets, in their order, and what the user should hear.
    pub async fn run(
        self,
        targets: Vec<Target>,
        events: &UnboundedSender<Event>,
        inbox: &mut UnboundedReceiver<Event>,
        stop: &mut StopSignal,
    ) -> Result<(Vec<SinkCommits>, Vec<String>), RecoveryError> {
        let mut commits = Vec::new();
        for (index, target) in targets.into_iter().enumerate() {
            let answers = events.clone();
            let context = CommitterContext {
                job: self.parts.graph.name.clone(),
                lineages: self.plan.lineages.iter().copied().collect(),
                generation: self.plan.up_to,
                plugin: target.connector.plugin_digest().map(str::to_owned),
            };
            let mut sink = SinkCommits::start(
                index,
                target.place,
                &target.name,
                self.plan.up_to,
                target.connector,
                context,
                Arc::new(move |index, answer| {
                    // Nobody listens once the attempt has ended.
                    let _ = answers.send(Event::Sink(index, answer));
                }),
            );
            sink.recover(target.contained, self.plan);
            commits.push(sink);
        }
        let notices = self.drive(&mut commits, inbox, stop).await?;
        crash::point("recover-aborted");
        Ok((commits, notices))
    }

    async fn drive(
        &self,
        commits: &mut [SinkCommits],
        inbox: &mut UnboundedReceiver<Event>,
        stop: &mut StopSignal,
    ) -> Result<Vec<String>, RecoveryError> {
        let (mut owed, mut notices, mut lost) = (commits.len(), Vec::new(), Vec::new());
        while owed > 0 {
            let wake = commits.iter().filter_map(SinkCommits::wake_at).min();
            let wait = wake.map_or(self.origin + std::time::Duration::from_secs(3600), |at| self.origin + at);
            let news: Vec<SinkNews> = tokio::select! {
                event = inbox.recv() => match event {
                    Some(Event::Sink(sink, answer)) => commits[sink].answered(self.origin.elapsed(), answer),
                    // Nothing else runs yet.
                    Some(Event::Task(_) | Event::Uploaded(..) | Event::Log(_) | Event::Grown(_) | Event::Swap(_)) | None => Vec::new(),
                },
                _ = stop.changed() => return Err(RecoveryError::Stopped),
                () = tokio::time::sleep_until(wait.into()) => {
                    let now = self.origin.elapsed();
                    commits.iter_mut().flat_map(|commit| commit.tick(now)).collect()
                }
            };
            for item in news {
                match item {
                    SinkNews::RecoveryAborted => owed -= 1,
                    SinkNews::RecoveryCommitted | SinkNews::Committed(_) | SinkNews::PermitDone(_) => {}
                    SinkNews::Notice(text) => notices.push(text),
                    SinkNews::RecoveryFailed(message) => return Err(RecoveryError::Failed(message)),
                    SinkNews::Lost { committable, id, reason } => {
                        lost.push(lost_transaction(&self.parts.graph, self.splits, committable.as_deref(), id, &reason));
                    }
                }
            }
            // All that one answer named is reported together.
            if !lost.is_empty() {
                return Err(RecoveryError::Lost(lost));
            }
        }
        Ok(notices)
    }
}
