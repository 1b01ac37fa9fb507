//! Every rule of "who may decide" as a named case.
//!
//! A log is written as text, one word for each slot from 1: `c2` a claim of generation 2, `c2fresh`, `c2from1-1` (with `!`:
//! duplicates are allowed), `1-3` a checkpoint, `1-3[0.1,0.2]` with what it contains (transactions of its generation; `g:w.n`
//! of another), `1-3last` the final one, `t1-3` a tombstone, `f1-3` finished, `?` unreadable, `alien` another job's, `_` nothing.

mod claimant;
mod publisher;
mod recovery;
mod retention;

use super::{CheckpointEntry, Claim, ClaimFacts, LogEntry, LogView, Slot, Start};
use crate::{CheckpointId, Generation, Lineage, TransactionId};

pub(crate) fn id(text: &str) -> CheckpointId {
    text.parse().expect("a checkpoint id")
}

pub(crate) fn tx(text: &str, default: Generation) -> TransactionId {
    let (generation, rest) = text.split_once(':').unwrap_or((text, text));
    let (writer, number) = rest.split_once('.').expect("w.n");
    TransactionId {
        lineage: Lineage(1),
        generation: generation.parse().map_or(default, Generation),
        sink: "out".to_owned(),
        writer: writer.parse().expect("a writer"),
        number: number.parse().expect("a number"),
    }
}

pub(crate) fn checkpoint(text: &str) -> CheckpointEntry {
    let (head, contains) = text.split_once('[').unwrap_or((text, "]"));
    let id = id(head.trim_end_matches("last"));
    let contains = contains.trim_end_matches("last").trim_end_matches(']');
    let contains = contains.split(',').filter(|text| !text.is_empty()).map(|text| tx(text, id.generation()));
    CheckpointEntry { id, digest: u128::from(id.as_u64()), contains: contains.collect(), last: text.ends_with("last") }
}

pub(crate) fn claim(text: &str) -> Claim {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let generation = Generation(text[..digits].parse().expect("a generation"));
    let rest = &text[digits..];
    let start = match rest.trim_end_matches('!') {
        "" => Start::Newest,
        "fresh" => Start::Scratch,
        from => Start::From(id(from.strip_prefix("from").expect("fresh or from"))),
    };
    let facts = ClaimFacts { sink_paths: ["out".to_owned()].into(), lineages: [Lineage(1)].into(), ..ClaimFacts::default() };
    let nonce = u128::from(generation.0);
    Claim { generation, nonce, lineage: Lineage(1), start, allow_duplicates: rest.ends_with('!'), facts }
}

fn entry(word: &str) -> Option<LogEntry> {
    Some(match (word, word.as_bytes()[0]) {
        ("_", _) => return None,
        ("?", _) => LogEntry::Unreadable { reason: "torn".to_owned() },
        ("alien", _) => LogEntry::Foreign { job: "other".to_owned() },
        (_, b'c') => LogEntry::Claim(claim(&word[1..])),
        (_, b't') => LogEntry::Tombstone { id: id(&word[1..]) },
        (_, b'f') => LogEntry::Finished { generation: id(&word[1..]).generation(), id: id(&word[1..]) },
        _ => LogEntry::Checkpoint(checkpoint(word)),
    })
}

pub(crate) fn entries(text: &str) -> Vec<(Slot, LogEntry)> {
    let words = text.split_whitespace().enumerate();
    words.filter_map(|(index, word)| Some((Slot(index as u64 + 1), entry(word)?))).collect()
}

pub(crate) fn view(text: &str) -> LogView {
    LogView::new(entries(text))
}
