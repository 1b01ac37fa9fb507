//! A start that the job's log does not allow, told to the user: where, what, what next. The one place for these texts.

use crate::graph::Problem;
use crate::job::JobOutcome;
use weir_protocol::recovery::{Refusal, Repeats, StartPoint};
use weir_protocol::{CheckpointId, TransactionId};

fn listed(ids: &[CheckpointId]) -> String {
    if ids.is_empty() { "none".into() } else { ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") }
}

/// Transactions that are named for each sink; the rest is counted.
const NAMED_MAX: usize = 3;

fn repeated(repeats: &Repeats) -> String {
    let sink = |(sink, transactions): (&String, &Vec<TransactionId>)| {
        let named: Vec<String> = transactions.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        let more = transactions.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("sink '{sink}' ({}{more})", named.join(", "))
    };
    if repeats.is_empty() {
        return "output of checkpoints that are not kept any more".to_owned();
    }
    repeats.iter().map(sink).collect::<Vec<_>>().join("; ")
}

/// What is said of a refusal. `storage`: where the log lies; `older`: the newest checkpoint that can be restored.
pub fn outcome(job: &str, storage: &str, refusal: Refusal, older: Option<CheckpointId>) -> JobOutcome {
    let problem = match refusal {
        Refusal::ForeignLog { slot, job: theirs } => Problem::new(
            storage,
            format!("entry {slot} of this checkpoint storage belongs to job '{theirs}', not to '{job}'"),
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
            Problem::new(
                place,
                format!(
                    "committed output would be written again: {}. Completed checkpoints after this start: {}",
                    repeated(&repeats),
                    listed(&after)
                ),
                "say --allow-duplicates if that is what you want; what is committed stays",
            )
        }
        Refusal::NewestUnreadable { slot, reason, available: _ } => {
            return JobOutcome::CannotRestore {
                checkpoint: None,
                why: format!(
                    "entry {slot} of the job's log may be the newest checkpoint and can't be read: {reason}. Restore that file \
                     from a backup, or go on without it: nothing would be lost then, but committed output may be written again"
                ),
                older,
            };
        }
    };
    JobOutcome::Refused { problems: vec![problem] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_protocol::log::Slot;
    use weir_protocol::{Generation, Lineage};

    fn id(text: &str) -> CheckpointId {
        text.parse().expect("an id")
    }

    fn transaction(number: u64) -> TransactionId {
        TransactionId { lineage: Lineage(7), generation: Generation(1), sink: "out".to_owned(), writer: 0, number }
    }

    #[track_caller]
    fn check(refusal: Refusal, said: &[&str]) {
        let text = match outcome("flights", "/data/checkpoints", refusal, None) {
            JobOutcome::Refused { problems } => problems[0].to_string(),
            JobOutcome::CannotRestore { why, .. } => why,
            other => panic!("{other:?}"),
        };
        for part in said {
            assert!(text.contains(part), "'{part}' is not said: {text}");
        }
    }

    #[test]
    fn each_refusal_says_where_what_and_what_next() {
        let available = vec![id("1-1"), id("1-2")];
        check(
            Refusal::ForeignLog { slot: Slot(3), job: "weather".to_owned() },
            &["/data/checkpoints", "job 'weather'", "'flights'", "[checkpoint].storage of its own"],
        );
        check(Refusal::NoSuchCheckpoint { id: id("1-9"), available: available.clone() }, &["--from 1-9", "1-1, 1-2", "list"]);
        check(
            Refusal::WouldRepeat {
                start: StartPoint::Scratch,
                repeats: [("out".to_owned(), (1..=5).map(transaction).collect())].into(),
                after: available.clone(),
            },
            &["--fresh", "sink 'out'", ".out.0.3 and 2 more", "1-1, 1-2", "--allow-duplicates"],
        );
        check(
            Refusal::NewestUnreadable { slot: Slot(3), reason: "torn".to_owned(), available },
            &["0003 of the job's log", "torn", "backup", "written again"],
        );
    }
}
