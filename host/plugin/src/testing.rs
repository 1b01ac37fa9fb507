//! For tests of plugins and hosts: keyed state in memory that watches over its caller.

use crate::batch::{CellOp, Cells};
use crate::state::{KeyedStateBackend, Keys, StateError, StateId};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Keyed state in a map: simple enough to be the truth that others are compared with.
#[derive(Clone, Debug, Default)]
pub struct MemoryState {
    cells: BTreeMap<(StateId, Vec<u8>), Vec<u8>>,
    /// Fails calls from this one on; for tests of broken disks.
    fail_after: Option<u64>,
    /// Calls of each kind so far.
    pub calls: MemoryStateCalls,
    /// Keys of the last `prefetch`, until the `apply` that belongs to it.
    prefetched: Option<Vec<Vec<u8>>>,
}

/// How often a [`MemoryState`] was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStateCalls {
    /// `prefetch`.
    pub prefetch: u64,
    /// `apply`.
    pub apply: u64,
    /// `get_many`.
    pub get_many: u64,
    /// `put_many`.
    pub put_many: u64,
}

impl MemoryStateCalls {
    fn all(&self) -> u64 {
        self.prefetch + self.apply + self.get_many + self.put_many
    }
}

impl MemoryState {
    /// No state.
    pub fn new() -> Self {
        MemoryState::default()
    }

    /// Fails every call after the next `calls`.
    pub fn fail_after(&mut self, calls: u64) {
        self.fail_after = Some(self.calls.all() + calls);
    }

    /// The value of a key.
    pub fn value(&self, state: StateId, key: &[u8]) -> Option<&[u8]> {
        self.cells.get(&(state, key.to_vec())).map(Vec::as_slice)
    }

    /// Sets the value of a key.
    pub fn set(&mut self, state: StateId, key: &[u8], value: &[u8]) {
        self.cells.insert((state, key.to_vec()), value.to_vec());
    }

    /// All cells, by state and key.
    pub fn cells(&self) -> &BTreeMap<(StateId, Vec<u8>), Vec<u8>> {
        &self.cells
    }

    fn check_alive(&self, what: &str) -> Result<(), StateError> {
        match self.fail_after {
            Some(last) if self.calls.all() > last => {
                Err(StateError { what: format!("{what} in memory"), source: "told to fail".into() })
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, state: StateId, keys: Keys<'_>, cells: &Cells) {
        assert_eq!(cells.len(), keys.len(), "one cell for each key");
        for i in 0..keys.len() {
            match cells.op(i) {
                CellOp::None => {}
                CellOp::Put => self.set(state, keys.key(i), cells.value(i)),
                CellOp::Delete => drop(self.cells.remove(&(state, keys.key(i).to_vec()))),
            }
        }
    }

    fn read(&self, state: StateId, keys: Keys<'_>, cells: &mut Cells) {
        for i in 0..keys.len() {
            match self.value(state, keys.key(i)) {
                Some(value) => cells.push_put(value),
                None => cells.push_none(),
            }
        }
    }
}

fn own(keys: Keys<'_>) -> Vec<Vec<u8>> {
    (0..keys.len()).map(|i| keys.key(i).to_vec()).collect()
}

impl KeyedStateBackend for MemoryState {
    fn prefetch(&mut self, keys: Keys<'_>, states: &[StateId], out: &mut Vec<Cells>) -> Result<(), StateError> {
        self.calls.prefetch += 1;
        self.check_alive("prefetch")?;
        self.prefetched = Some(own(keys));
        out.clear();
        for &state in states {
            let mut cells = Cells::new();
            self.read(state, keys, &mut cells);
            out.push(cells);
        }
        Ok(())
    }

    /// # Panics
    /// If it does not follow a `prefetch` of the same keys, with no write in between.
    fn apply(&mut self, keys: Keys<'_>, states: &[StateId], updates: &[Cells]) -> Result<(), StateError> {
        self.calls.apply += 1;
        self.check_alive("apply")?;
        assert_eq!(self.prefetched.take(), Some(own(keys)), "apply belongs to the prefetch of the same keys");
        assert!(updates.is_empty() || updates.len() == states.len(), "one column of updates for each state, or none");
        for (&state, cells) in states.iter().zip(updates) {
            self.write(state, keys, cells);
        }
        Ok(())
    }

    fn get_many(&mut self, state: StateId, keys: Keys<'_>, out: &mut Cells) -> Result<(), StateError> {
        self.calls.get_many += 1;
        self.check_alive("get")?;
        self.read(state, keys, out);
        Ok(())
    }

    fn put_many(&mut self, state: StateId, keys: Keys<'_>, cells: &Cells) -> Result<(), StateError> {
        self.calls.put_many += 1;
        self.check_alive("put")?;
        self.prefetched = None;
        self.write(state, keys, cells);
        Ok(())
    }

    fn scan_keys(&mut self, states: &[StateId], after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, StateError> {
        self.check_alive("scan")?;
        let mut keys = std::collections::BTreeSet::new();
        for &state in states {
            let from = match after {
                Some(key) => Bound::Excluded((state, key.to_vec())),
                None => Bound::Included((state, Vec::new())),
            };
            let of_state = self.cells.range((from, Bound::Unbounded)).take_while(|((s, _), _)| *s == state);
            keys.extend(of_state.take(limit).map(|((_, key), _)| key.clone()));
        }
        Ok(keys.into_iter().take(limit).collect())
    }
}
