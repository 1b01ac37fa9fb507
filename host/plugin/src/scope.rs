//! State of keys as one call sees it: what is prefetched, what the call wrote so far, and the backend below both.
//!
//! Invariants:
//! - *own keys*: nothing is read or written but keys of the running call;
//! - *staged*: a write reaches the backend only through [`CallScope::apply`], after the call has succeeded;
//! - *pair*: the backend sees no write between `prefetch` and `apply`.

mod collections;

use crate::batch::{CellOp, Cells, Column, RecordBatch};
use crate::collections::{CollectionError, StagedCells};
use crate::describe::{StateDescriptor, StateKind};
use crate::state::{KeyGrouping, KeyedStateBackend, Keys, StateError, StateId};
use std::collections::BTreeMap;

/// State of one running call, lent to its host calls by [`crate::loan::lend`].
pub(crate) struct CallScope<'a> {
    backend: &'a mut (dyn KeyedStateBackend + 'a),
    /// The keys of the call: its batch, and how it is grouped.
    batch: &'a RecordBatch,
    grouping: &'a KeyGrouping,
    /// States whose cells were prefetched, ascending, and the cells.
    prefetched: &'a [StateId],
    cells: &'a [Cells],
    /// What the operator declares.
    states: &'a [StateDescriptor],
    /// Writes of the call, one for each value state that it wrote.
    writes: Vec<Option<StagedWrites>>,
    /// Lists and maps that the call has looked at or changed.
    collections: BTreeMap<StateId, StagedCells>,
}

/// Why a host call on state is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The guest's fault: it traps.
    Guest(String),
    /// The answer would pass the limit on transfers.
    TooLarge,
    /// What is staged would pass the limit on it.
    TooMuch,
    /// The backend failed.
    Backend(StateError),
}

impl From<CollectionError> for Refusal {
    fn from(error: CollectionError) -> Self {
        match error {
            CollectionError::State(error) => Refusal::Backend(error),
            CollectionError::TooLarge => Refusal::TooLarge,
            CollectionError::TooMuch => Refusal::TooMuch,
        }
    }
}

impl<'a> CallScope<'a> {
    /// `states`: those that the operator declares.
    pub(crate) fn new(
        backend: &'a mut (dyn KeyedStateBackend + 'a),
        batch: &'a RecordBatch,
        grouping: &'a KeyGrouping,
        prefetched: &'a [StateId],
        cells: &'a [Cells],
        states: &'a [StateDescriptor],
    ) -> Self {
        let writes = states.iter().map(|_| None).collect();
        CallScope { backend, batch, grouping, prefetched, cells, states, writes, collections: BTreeMap::new() }
    }

    /// Values of `keys`, in their order, as the call would see them. At most `budget` bytes of values.
    pub(crate) fn get_many(&mut self, state: u32, keys: &Column, budget: usize) -> Result<Cells, Refusal> {
        let state = self.check_state(state, StateKind::Value)?;
        let wanted = self.distinct(keys)?;
        let fetched = self.fetch(state, &wanted)?;
        let mut answer = Cells::new();
        let mut bytes = 0;
        for &key in &wanted {
            let value = match self.written(state, key) {
                Some(written) => written,
                None => fetched.get(key),
            };
            bytes += value.map_or(0, <[u8]>::len);
            if bytes > budget {
                return Err(Refusal::TooLarge);
            }
            match value {
                Some(value) => answer.push_put(value),
                None => answer.push_none(),
            }
        }
        Ok(answer)
    }

    /// Stages values for `keys`.
    pub(crate) fn put_many(&mut self, state: u32, keys: &Column, values: &Column) -> Result<(), Refusal> {
        if keys.len() != values.len() {
            return Err(Refusal::Guest(format!("put-many: {} keys and {} values", keys.len(), values.len())));
        }
        let state = self.check_state(state, StateKind::Value)?;
        let distinct = self.distinct(keys)?;
        let writes = self.writes_to(state);
        for (i, key) in distinct.into_iter().enumerate() {
            writes.put(key, values.get(i));
        }
        Ok(())
    }

    /// Stages deletes of `keys`.
    pub(crate) fn delete_many(&mut self, state: u32, keys: &Column) -> Result<(), Refusal> {
        let state = self.check_state(state, StateKind::Value)?;
        let distinct = self.distinct(keys)?;
        let writes = self.writes_to(state);
        for key in distinct {
            writes.ops[key as usize] = Staged::Delete;
        }
        Ok(())
    }

    /// The call has succeeded: its own writes, then its updates of the prefetched states, reach the backend.
    ///
    /// 1. Writes to prefetched states are folded below the updates: the backend sees one `apply`, right after `prefetch`.
    /// 2. Writes to other states follow, lists and maps last; they are other cells, so the order between them does not show.
    pub(crate) fn apply(&mut self, updates: Vec<Cells>) -> Result<(), StateError> {
        let updates = self.fold_updates(updates);
        let keys = self.grouping.keys(self.batch);
        if !updates.is_empty() {
            self.backend.apply(keys, self.prefetched, &updates)?;
        }
        for (state, writes) in (0..).zip(&self.writes) {
            if let (Some(writes), false) = (writes, self.prefetched.contains(&state)) {
                let (spans, hashes, cells) = writes.pack(keys);
                self.backend.put_many(state, Keys { data: keys.data, spans: &spans, hashes: &hashes }, &cells)?;
            }
        }
        for staged in self.collections.values() {
            staged.flush(self.backend, keys)?;
        }
        Ok(())
    }

    /// Updates with the call's own writes below them: an update that keeps leaves the write standing.
    fn fold_updates(&self, updates: Vec<Cells>) -> Vec<Cells> {
        if self.prefetched.iter().all(|&state| self.writes[usize::from(state)].is_none()) {
            return updates;
        }
        let keys = self.grouping.spans.len() as u32;
        let fold = |(i, &state): (usize, &StateId)| {
            let mut folded = Cells::new();
            for key in 0..keys {
                let update = updates.get(i);
                match update.map_or(CellOp::None, |cells| cells.op(key as usize)) {
                    CellOp::Put => folded.push_put(update.map_or(&[], |cells| cells.value(key as usize))),
                    CellOp::Delete => folded.push_delete(),
                    CellOp::None => match self.written(state, key) {
                        Some(Some(value)) => folded.push_put(value),
                        Some(None) => folded.push_delete(),
                        None => folded.push_none(),
                    },
                }
            }
            folded
        };
        self.prefetched.iter().enumerate().map(fold).collect()
    }

    /// Whether every key of these records is one of the call; the error names the first that is not.
    pub(crate) fn check_keys(&self, records: &RecordBatch) -> Result<(), String> {
        let strange = (0..records.len()).map(|i| records.key(i)).find(|key| self.grouping.find(self.batch, key).is_none());
        strange.map_or(Ok(()), |key| Err(format!("key {} is none of the running call's keys", key_text(key))))
    }

    fn check_state(&self, state: u32, wanted: StateKind) -> Result<StateId, Refusal> {
        let id = StateId::try_from(state).ok().filter(|id| usize::from(*id) < self.states.len());
        let undeclared = || Refusal::Guest(format!("state {state}: the plugin declares {} states", self.states.len()));
        let id = id.ok_or_else(undeclared)?;
        let StateDescriptor { name, kind, .. } = &self.states[usize::from(id)];
        if *kind != wanted {
            let (kind, interface) = (kind.name(), kind.interface());
            return Err(Refusal::Guest(format!("state {state} (`{name}`) is a {kind}, which is reached through {interface}")));
        }
        Ok(id)
    }

    /// Indices of `keys` among the call's distinct keys.
    fn distinct(&self, keys: &Column) -> Result<Vec<u32>, Refusal> {
        let find = |i| {
            let key = keys.get(i);
            self.grouping
                .find(self.batch, key)
                .ok_or_else(|| Refusal::Guest(format!("key {} is none of the running call's keys", key_text(key))))
        };
        (0..keys.len()).map(find).collect()
    }

    /// What the call itself wrote: some value, deleted, or nothing (outer none).
    fn written(&self, state: StateId, key: u32) -> Option<Option<&[u8]>> {
        self.writes[usize::from(state)].as_ref().and_then(|writes| writes.get(key))
    }

    fn writes_to(&mut self, state: StateId) -> &mut StagedWrites {
        let keys = self.grouping.spans.len();
        self.writes[usize::from(state)].get_or_insert_with(|| StagedWrites::new(keys))
    }

    /// Stored values of the wanted keys: the prefetched cells, or one read of each key that the call did not write.
    fn fetch(&mut self, state: StateId, wanted: &[u32]) -> Result<Fetched<'a>, Refusal> {
        if let Ok(i) = self.prefetched.binary_search(&state) {
            let cells: &'a [Cells] = self.cells;
            return Ok(Fetched::Prefetched(&cells[i]));
        }
        let keys = self.grouping.keys(self.batch);
        let mut slots = vec![u32::MAX; keys.len()];
        let (mut spans, mut hashes) = (Vec::new(), Vec::new());
        for &key in wanted {
            if slots[key as usize] == u32::MAX && self.written(state, key).is_none() {
                slots[key as usize] = spans.len() as u32;
                spans.push(keys.spans[key as usize]);
                hashes.push(keys.hashes[key as usize]);
            }
        }
        let mut cells = Cells::new();
        if !spans.is_empty() {
            let missing = Keys { data: keys.data, spans: &spans, hashes: &hashes };
            self.backend.get_many(state, missing, &mut cells).map_err(Refusal::Backend)?;
            assert_eq!(cells.len(), spans.len(), "a backend answers one cell for each key");
        }
        Ok(Fetched::Read { slots, cells })
    }
}

/// Values from below the call's own writes.
enum Fetched<'a> {
    /// Cells of all distinct keys.
    Prefetched(&'a Cells),
    /// Cells of some, and where they lie for each distinct key.
    Read { slots: Vec<u32>, cells: Cells },
}

impl Fetched<'_> {
    fn get(&self, key: u32) -> Option<&[u8]> {
        match self {
            Fetched::Prefetched(cells) => cells.get(key as usize),
            Fetched::Read { slots, cells } => cells.get(slots[key as usize] as usize),
        }
    }
}

/// Writes of one call to one state, by distinct key; the last one wins.
struct StagedWrites {
    ops: Vec<Staged>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Staged {
    Untouched,
    Delete,
    /// A value, where it lies in `bytes`.
    Put {
        start: usize,
        end: usize,
    },
}

impl StagedWrites {
    fn new(keys: usize) -> Self {
        StagedWrites { ops: vec![Staged::Untouched; keys], bytes: Vec::new() }
    }

    fn put(&mut self, key: u32, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ops[key as usize] = Staged::Put { start, end: self.bytes.len() };
    }

    fn get(&self, key: u32) -> Option<Option<&[u8]>> {
        match self.ops[key as usize] {
            Staged::Untouched => None,
            Staged::Delete => Some(None),
            Staged::Put { start, end } => Some(Some(&self.bytes[start..end])),
        }
    }

    /// The keys that were written, and what to write.
    fn pack(&self, keys: Keys<'_>) -> (Vec<(u32, u32)>, Vec<u64>, Cells) {
        let (mut spans, mut hashes, mut cells) = (Vec::new(), Vec::new(), Cells::new());
        for key in 0..keys.len() {
            match self.get(key as u32) {
                None => continue,
                Some(None) => cells.push_delete(),
                Some(Some(value)) => cells.push_put(value),
            }
            spans.push(keys.spans[key]);
            hashes.push(keys.hashes[key]);
        }
        (spans, hashes, cells)
    }
}

/// A key for people: text if it is some, shortened.
fn key_text(key: &[u8]) -> String {
    let shown = &key[..key.len().min(40)];
    let more = if shown.len() < key.len() { "…" } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
