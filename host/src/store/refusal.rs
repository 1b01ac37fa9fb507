//! A refused start, told to the user: what, whose fault, what next.

use super::log::listed;
use weir_protocol::recovery::{Refusal, Repeats, StartPoint};

/// Transactions that are named for each sink; the rest is counted.
const NAMED_MAX: usize = 3;

/// The text of a refusal.
pub(super) fn told(refusal: &Refusal) -> String {
    match refusal {
        Refusal::ForeignLog { slot, job } => format!(
            "the checkpoint storage holds the log of job '{job}' (entry {slot}): give this job a [checkpoint].storage of its own"
        ),
        Refusal::NoSuchCheckpoint { id, available } => {
            format!("there is no checkpoint {id} to start from; there are: {}", listed(available))
        }
        Refusal::WouldRepeat { start, repeats, after } => format!(
            "a start at {} would write committed output again: {}. Completed checkpoints after it: {}. \
             --allow-duplicates accepts the repeats",
            start_text(start),
            repeats_text(repeats),
            listed(after)
        ),
        Refusal::NewestUnreadable { slot, reason, available } => format!(
            "entry {slot} of the job's log may be the newest checkpoint, and can't be read: {reason}. Restore that file from a \
             backup; or go on without it by --from ID --allow-duplicates, with one of: {}. Nothing would be lost then, but \
             committed output may be written again",
            listed(available)
        ),
    }
}

fn start_text(start: &StartPoint) -> String {
    match start {
        StartPoint::Scratch => "the beginning".to_owned(),
        StartPoint::Checkpoint(id) => format!("checkpoint {id}"),
    }
}

fn repeats_text(repeats: &Repeats) -> String {
    let sink = |(sink, transactions): (&String, &Vec<weir_protocol::TransactionId>)| {
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
