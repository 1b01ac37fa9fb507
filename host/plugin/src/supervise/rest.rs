//! What is left of a batch while bad records are taken out of it.

use super::{BadRecord, Failure};
use crate::batch::RecordBatch;
use crate::error::CallError;
use std::borrow::Cow;

/// Records still to be processed, and where each stood in the batch that was handed in.
pub(super) struct Rest<'a> {
    batch: Cow<'a, RecordBatch>,
    /// Original index of each record; empty while nothing was removed.
    original: Vec<u32>,
}

impl<'a> Rest<'a> {
    pub(super) fn all(batch: &'a RecordBatch) -> Self {
        Rest { batch: Cow::Borrowed(batch), original: Vec::new() }
    }

    pub(super) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Index in the batch that was handed in.
    pub(super) fn original(&self, index: u32) -> u32 {
        self.original.get(index as usize).copied().unwrap_or(index)
    }

    /// Takes records out. `bad`: by index, ascending.
    pub(super) fn remove(&mut self, bad: Vec<(u32, String)>, skipped: &mut Vec<BadRecord>) {
        let is_bad = |i: usize| bad.binary_search_by_key(&(i as u32), |(index, _)| *index).is_ok();
        let original = (0..self.batch.len()).filter(|&i| !is_bad(i)).map(|i| self.original(i as u32)).collect();
        let batch = self.batch.filter(|i| !is_bad(i));
        skipped.extend(bad.iter().map(|(index, reason)| BadRecord { index: self.original(*index), reason: reason.clone() }));
        *self = Rest { batch: Cow::Owned(batch), original };
    }

    /// The first of some bad records as a failure. `bad`: never empty.
    pub(super) fn failure(&self, bad: Vec<(u32, String)>, error: CallError) -> Failure {
        let (index, reason) = bad.into_iter().next().expect("bad-input that names no record is malformed");
        Failure::BadRecord { record: BadRecord { index: self.original(index), reason }, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_stay_those_of_the_batch_handed_in() {
        let mut batch = RecordBatch::new();
        for value in ["a", "b", "c", "d", "e"] {
            batch.push(b"", value.as_bytes(), 0);
        }
        let mut rest = Rest::all(&batch);
        let mut skipped = Vec::new();
        rest.remove(vec![(1, "x".into()), (3, "y".into())], &mut skipped);
        rest.remove(vec![(1, "z".into())], &mut skipped);
        assert_eq!(skipped.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 3, 2]);
        let left: Vec<_> = (0..rest.batch().len()).map(|i| (rest.original(i as u32), rest.batch().value(i))).collect();
        assert_eq!(left, [(0, &b"a"[..]), (4, &b"e"[..])]);
    }
}
