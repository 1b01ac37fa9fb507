//! What a processing call gave: checked against the plugin's descriptor, emitted chunks first.

use crate::batch::{Cells, Malformed, RecordBatch};
use crate::error::CallErrorKind;
use crate::store::HostState;
use crate::timers::TimerChange;
use crate::wire::{CellsLift, ErrorLift, OutputLift};

/// Up to this size chunks are joined: what a channel carries well.
const JOINED_BYTES: usize = 64 << 10;

/// What one call gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Chunks for the main output, in order; none is empty.
    pub main: Vec<RecordBatch>,
    /// Chunks for side outputs, by index, ascending; each index once, with at least one chunk, and none is empty.
    pub sides: Vec<(u32, Vec<RecordBatch>)>,
    /// Timers that it set and took away, in order.
    pub timers: Vec<TimerChange>,
}

impl Output {
    /// Appends what a later call gave. Small chunks grow together, so that a replay record by record does not leave a
    /// batch for each record.
    pub fn append(&mut self, later: Output) {
        for chunk in later.main {
            join(&mut self.main, chunk);
        }
        self.timers.extend(later.timers);
        for (side, chunks) in later.sides {
            let own = self.side(side);
            for chunk in chunks {
                join(own, chunk);
            }
        }
    }

    /// Chunks of one side output, made if it had none.
    fn side(&mut self, side: u32) -> &mut Vec<RecordBatch> {
        let at = match self.sides.binary_search_by_key(&side, |(side, _)| *side) {
            Ok(at) => at,
            Err(at) => {
                self.sides.insert(at, (side, Vec::new()));
                at
            }
        };
        &mut self.sides[at].1
    }

    fn push(&mut self, side: Option<u32>, chunk: RecordBatch) {
        match side {
            _ if chunk.is_empty() => {}
            None => self.main.push(chunk),
            Some(side) => self.side(side).push(chunk),
        }
    }
}

/// Appends a chunk, to the last one if both are small and have no blocks that belong to a whole batch.
fn join(chunks: &mut Vec<RecordBatch>, chunk: RecordBatch) {
    match chunks.last_mut() {
        Some(last)
            if !last.has_foreign_aux() && !chunk.has_foreign_aux() && last.size_bytes() + chunk.size_bytes() <= JOINED_BYTES =>
        {
            last.append(&chunk);
        }
        _ => chunks.push(chunk),
    }
}

/// What an answer must fit.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// Records of the call's batch: what `bad-input` may name.
    pub(crate) records: usize,
    /// Prefetched states, and distinct keys: what `updates` must hold.
    pub(crate) prefetched: usize,
    pub(crate) keys: usize,
}

/// Checks the whole answer of a call before anything of it is used, and joins it with what the call emitted.
pub(crate) fn take(
    state: &mut HostState,
    answer: Result<OutputLift, ErrorLift>,
    expected: Expected,
) -> Result<(Output, Vec<Cells>), CallErrorKind> {
    let lift = answer.map_err(|error| error.check(expected.records))?;
    state.count_staged(lift.bytes()).map_err(CallErrorKind::Limit)?;
    let mut output = Output { timers: std::mem::take(&mut state.running.timers), ..Output::default() };
    for (port, chunk) in std::mem::take(&mut state.running.emitted) {
        output.push(port.checked_sub(1), chunk);
    }
    output.push(None, lift.main.check()?);
    for side in lift.sides {
        if side.port as usize >= state.side_outputs {
            let declared = state.side_outputs;
            return Err(CallErrorKind::Malformed(format!(
                "it gave records for side output {}, but declares {declared}",
                side.port
            )));
        }
        output.push(Some(side.port), side.records.check()?);
    }
    Ok((output, check_updates(lift.updates, expected)?))
}

fn check_updates(updates: Vec<CellsLift>, expected: Expected) -> Result<Vec<Cells>, Malformed> {
    if !updates.is_empty() && updates.len() != expected.prefetched {
        let (got, wanted) = (updates.len(), expected.prefetched);
        return Err(Malformed(format!("updates of {got} states, but {wanted} are prefetched (or none for no change)")));
    }
    let check = |(i, lift): (usize, CellsLift)| {
        let cells = lift.check().map_err(|Malformed(why)| Malformed(format!("update {i}: {why}")))?;
        match cells.len() == expected.keys {
            true => Ok(cells),
            false => Err(Malformed(format!("update {i}: {} cells for {} keys", cells.len(), expected.keys))),
        }
    };
    updates.into_iter().enumerate().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_join_in_order_and_drop_empty_chunks() {
        let chunk = |text: &str| {
            let mut batch = RecordBatch::new();
            batch.push(b"", text.as_bytes(), 0);
            batch
        };
        let mut first = Output::default();
        first.push(Some(2), chunk("b"));
        first.push(None, RecordBatch::new());
        first.push(Some(0), chunk("a"));
        let mut second = Output::default();
        second.push(None, chunk("m"));
        second.push(Some(2), chunk("c"));
        first.append(second);
        let mut joined = chunk("b");
        joined.append(&chunk("c"));
        let expected =
            Output { main: vec![chunk("m")], sides: vec![(0, vec![chunk("a")]), (2, vec![joined])], ..Output::default() };
        assert_eq!(first, expected);
    }

    #[test]
    fn small_chunks_join_with_their_headers_and_not_with_what_belongs_to_a_batch() {
        let chunk = |name: &[u8]| {
            let mut batch = RecordBatch::new();
            batch.push_nullable(None, None, 0);
            batch.push_header(name, None);
            batch
        };
        let mut chunks = Vec::new();
        join(&mut chunks, chunk(b"a"));
        join(&mut chunks, chunk(b"b"));
        let names: Vec<_> = (0..2).flat_map(|i| chunks[0].headers(i).map(|(name, _)| name.to_vec())).collect();
        assert_eq!((chunks.len(), names), (1, vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(chunks[0].value_or_null(1), None);
        let unknown = vec![9, 0, 0, 0, 0, 0];
        let foreign = RecordBatch::from_parts(0, Vec::new(), Vec::new(), Vec::new(), unknown).expect("it is whole");
        join(&mut chunks, foreign);
        assert_eq!(chunks.len(), 2);
    }
}
