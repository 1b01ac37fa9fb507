//! The table of decisions: every error code of EndTxn with every state that can be described after it.

use crate::code;
use crate::describe::{Described, Description, TransactionState};
use crate::end::{End, EndOutcome, Fate, TransactionHandle, Verdict, judge, needs_description};
use crate::error::KafkaError;
use std::time::Duration;

const PRODUCER: i64 = 7;
const EPOCH: i16 = 3;

fn handle() -> TransactionHandle {
    TransactionHandle { transactional_id: "t".to_owned(), producer_id: PRODUCER, epoch: EPOCH }
}

/// `Ongoing`: by our producer and epoch; `Ongoing+1`: at the next epoch; `Ongoing/9`: by producer 9; `unknown`; `-`: not asked.
fn described(text: &str) -> Option<Described> {
    let (word, producer_id, epoch) = match text {
        "-" => return None,
        "unknown" => return Some(Described::UnknownId),
        _ if text.ends_with("+1") => (&text[..text.len() - 2], PRODUCER, EPOCH + 1),
        _ if text.ends_with("+2") => (&text[..text.len() - 2], PRODUCER, EPOCH + 2),
        _ if text.ends_with("-1") => (&text[..text.len() - 2], PRODUCER, EPOCH - 1),
        _ if text.ends_with("/9") => (&text[..text.len() - 2], 9, EPOCH),
        _ => (text, PRODUCER, EPOCH),
    };
    let state = TransactionState::from_word(word);
    let timeout = Duration::from_secs(60);
    Some(Described::Known(Description { state, producer_id, epoch, timeout, start_ms: None, partitions: Vec::new() }))
}

/// In one word; what may have been done although nobody said so has a `?`.
fn word(verdict: Verdict) -> String {
    match verdict {
        Verdict::Again { maybe_done: true, .. } => "again?".to_owned(),
        Verdict::Again { maybe_done: false, .. } => "again".to_owned(),
        Verdict::Is(outcome) => match outcome {
            EndOutcome::Committed => "committed".to_owned(),
            EndOutcome::Aborted => "aborted".to_owned(),
            EndOutcome::Fenced { now: None, unanswered: false } => "fenced".to_owned(),
            EndOutcome::Fenced { now: Some(now), unanswered: false } => format!("fenced by {}", now.epoch),
            EndOutcome::Lost(_) => "lost".to_owned(),
            EndOutcome::UnknownId { now: None } => "unknown id".to_owned(),
            EndOutcome::UnknownId { now: Some(now) } => format!("unknown id, {} has it", now.producer_id),
            EndOutcome::Refused(KafkaError::NotAuthorized { .. }) => "not authorised".to_owned(),
            EndOutcome::Refused(KafkaError::Rejected { .. }) => "rejected".to_owned(),
            other => format!("{other:?}"),
        },
    }
}

/// (answer, described, after a commit, after an abort)
const TABLE: &[(i16, &str, &str, &str)] = &[
    // Done now, or done before.
    (0, "-", "committed", "aborted"),
    // The coordinator is loading, has moved, or could not write its decision to enough replicas in time.
    (14, "-", "again", "again"),
    (15, "-", "again?", "again?"),
    (16, "-", "again?", "again?"),
    // The broker does not know itself what became of it.
    (-1, "-", "again?", "again?"),
    (7, "-", "again?", "again?"),
    // A decision is under way; whose, its description says.
    (51, "-", "again?", "again?"),
    (51, "unknown", "again?", "again?"),
    (51, "Empty", "again?", "again?"),
    (51, "Ongoing", "again?", "again?"),
    (51, "PrepareCommit", "committed", "committed"),
    (51, "CompleteCommit", "committed", "committed"),
    (51, "PrepareAbort", "lost", "aborted"),
    (51, "CompleteAbort", "lost", "aborted"),
    (51, "PrepareEpochFence", "again?", "again?"),
    (51, "SomethingNew", "again?", "again?"),
    (51, "PrepareCommit+1", "again?", "again?"),
    (51, "PrepareAbort+1", "again?", "again?"),
    (51, "CompleteCommit/9", "again?", "again?"),
    // The epoch moved on: by a timeout, or because somebody took the id. What was before can't be derived from it.
    (90, "-", "fenced", "fenced"),
    (90, "unknown", "fenced", "fenced"),
    (90, "Empty+1", "fenced by 4", "fenced by 4"),
    (90, "Ongoing+1", "fenced by 4", "fenced by 4"),
    (90, "PrepareCommit+1", "fenced by 4", "fenced by 4"),
    (90, "CompleteCommit+1", "fenced by 4", "fenced by 4"),
    (90, "PrepareAbort+1", "fenced by 4", "fenced by 4"),
    (90, "CompleteAbort+1", "fenced by 4", "fenced by 4"),
    (90, "CompleteAbort+2", "fenced by 5", "fenced by 5"),
    (90, "Empty-1", "fenced by 2", "fenced by 2"),
    (90, "Ongoing/9", "fenced by 3", "fenced by 3"),
    (90, "CompleteCommit", "committed", "committed"),
    (90, "PrepareCommit", "committed", "committed"),
    (90, "CompleteAbort", "lost", "aborted"),
    (90, "PrepareAbort", "lost", "aborted"),
    (90, "Ongoing", "again?", "again?"),
    (90, "Empty", "again?", "again?"),
    (47, "-", "fenced", "fenced"),
    (47, "CompleteAbort+1", "fenced by 4", "fenced by 4"),
    (47, "CompleteCommit", "committed", "committed"),
    // At our epoch nothing is open.
    (48, "-", "lost", "again?"),
    (48, "unknown", "lost", "again?"),
    (48, "Empty", "lost", "aborted"),
    (48, "PrepareAbort", "lost", "aborted"),
    (48, "CompleteAbort", "lost", "aborted"),
    (48, "PrepareCommit", "committed", "committed"),
    (48, "CompleteCommit", "committed", "committed"),
    (48, "Ongoing", "again?", "again?"),
    (48, "PrepareEpochFence", "again?", "again?"),
    (48, "SomethingNew", "again?", "again?"),
    (48, "Empty+1", "lost", "again?"),
    (48, "Ongoing+1", "lost", "again?"),
    (48, "Empty/9", "lost", "again?"),
    // The id has expired, was never used, or is another producer's.
    (49, "-", "unknown id", "unknown id"),
    (49, "unknown", "unknown id", "unknown id"),
    (49, "Empty/9", "unknown id, 9 has it", "unknown id, 9 has it"),
    (49, "CompleteCommit/9", "unknown id, 9 has it", "unknown id, 9 has it"),
    (49, "CompleteCommit", "committed", "committed"),
    (49, "CompleteAbort", "lost", "aborted"),
    (49, "Ongoing", "again?", "again?"),
    // Only an abort is possible.
    (120, "-", "again?", "again?"),
    (120, "unknown", "again?", "again?"),
    (120, "Ongoing", "lost", "again?"),
    (120, "CompleteCommit", "committed", "committed"),
    (120, "PrepareCommit", "committed", "committed"),
    (120, "CompleteAbort", "lost", "aborted"),
    (120, "Ongoing+1", "fenced by 4", "fenced by 4"),
    // Rights, and answers that this client has no business with.
    (53, "-", "not authorised", "not authorised"),
    (31, "-", "not authorised", "not authorised"),
    (29, "-", "not authorised", "not authorised"),
    (35, "-", "rejected", "rejected"),
    (42, "-", "rejected", "rejected"),
    (999, "-", "rejected", "rejected"),
];

#[test]
fn every_row_of_the_table_is_decided_as_it_says() {
    for (error, state, commit, abort) in TABLE {
        let described = described(state);
        for (end, expected) in [(End::Commit, commit), (End::Abort, abort)] {
            let verdict = judge(end, &handle(), *error, described.as_ref());
            assert_eq!(word(verdict), *expected, "{end:?} answered by {error}, described as {state}");
        }
    }
}

#[test]
fn a_description_is_asked_for_where_it_decides_and_nowhere_else() {
    for (error, state, _, _) in TABLE {
        assert!(needs_description(*error) || *state == "-", "{error} is decided without one, so the row with {state} is idle");
    }
    for error in -1..200 {
        let without = judge(End::Commit, &handle(), error, None);
        let with = judge(End::Commit, &handle(), error, described("PrepareCommit").as_ref());
        let differs = word(without) != word(with);
        assert_eq!(differs, needs_description(error), "{}", code::named(error));
    }
}

#[test]
fn a_description_tells_the_fate_of_our_own_transaction_only() {
    for (state, fate) in [
        ("PrepareCommit", Fate::Committed),
        ("CompleteCommit", Fate::Committed),
        ("PrepareAbort", Fate::Aborted),
        ("CompleteAbort", Fate::Aborted),
        ("Ongoing", Fate::Open),
        ("Empty", Fate::Empty),
        ("PrepareEpochFence", Fate::Changing),
        ("SomethingNew", Fate::Changing),
        ("CompleteCommit+1", Fate::Taken),
        ("CompleteAbort+1", Fate::Taken),
        ("Empty-1", Fate::Taken),
        ("Ongoing/9", Fate::Taken),
        ("unknown", Fate::UnknownId),
    ] {
        assert_eq!(described(state).map(|described| described.fate_of(&handle())), Some(fate), "{state}");
    }
}

/// Whatever is answered and described: a commit is never "aborted", "lost" never stands beside our own commit, and nothing but a
/// 0 or a description of our own commit makes it "committed".
#[test]
fn no_answer_says_more_than_the_broker_said() {
    let states =
        ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "X"];
    for error in -1..200 {
        for state in states {
            for suffix in ["", "+1", "+2", "-1", "/9"] {
                let now = described(&format!("{state}{suffix}"));
                let is_our_commit = suffix.is_empty() && state.ends_with("Commit");
                for end in [End::Commit, End::Abort] {
                    let case = format!("{end:?} {error} {state}{suffix}");
                    match judge(end, &handle(), error, now.as_ref()) {
                        Verdict::Is(EndOutcome::Committed) => assert!(error == 0 || is_our_commit, "{case}"),
                        Verdict::Is(EndOutcome::Aborted) => {
                            assert!(end == End::Abort && !(is_our_commit && error != 0), "{case}")
                        }
                        Verdict::Is(EndOutcome::Lost(_)) => assert!(end == End::Commit && !is_our_commit, "{case}"),
                        Verdict::Is(_) | Verdict::Again { .. } => {}
                    }
                }
            }
        }
    }
}
