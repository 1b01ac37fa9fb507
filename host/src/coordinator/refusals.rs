//! A start that the job's log does not allow, in the user's words.

use crate::graph::{JobGraph, Problem};
use crate::job::JobOutcome;
use weir_protocol::CheckpointId;
use weir_protocol::recovery::{Refusal, StartPoint};

fn listed(ids: &[CheckpointId]) -> String {
    if ids.is_empty() { "none".into() } else { ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") }
}

/// What is said of a refusal. `storage`: where the log lies; `older`: the newest checkpoint that can be restored.
pub fn outcome(graph: &JobGraph, storage: &str, refusal: Refusal, older: Option<CheckpointId>) -> JobOutcome {
    let problem = match refusal {
        Refusal::ForeignLog { slot, job } => Problem::new(
            storage,
            format!("entry {slot} of this checkpoint storage belongs to job '{job}', not to '{}'", graph.name),
            "give each job a [checkpoint].storage of its own",
        ),
        Refusal::NoSuchCheckpoint { id, available } => Problem::new(
            format!("--from {id}"),
            format!("there is no such checkpoint; there are: {}", listed(&available)),
            "`weir checkpoint list` shows them",
        ),
        Refusal::WouldRepeat { start, repeats, after } => {
            let place = match start {
                StartPoint::Scratch => "--fresh".to_owned(),
                StartPoint::Checkpoint(id) => format!("--from {id}"),
            };
            let sinks: Vec<String> =
                repeats.iter().map(|(sink, transactions)| format!("{sink} ({} transactions)", transactions.len())).collect();
            let sinks = if sinks.is_empty() { "every sink".to_owned() } else { sinks.join(", ") };
            Problem::new(
                place,
                format!(
                    "committed output would be written again: {sinks}, of the intervals up to checkpoints {}",
                    listed(&after)
                ),
                "say --allow-duplicates if that is what you want; what is committed stays",
            )
        }
        Refusal::NewestUnreadable { slot, reason, available: _ } => {
            return JobOutcome::CannotRestore {
                checkpoint: None,
                why: format!("entry {slot} of the job's log may be the newest checkpoint and can't be read: {reason}"),
                older,
            };
        }
    };
    JobOutcome::Refused { problems: vec![problem] }
}
