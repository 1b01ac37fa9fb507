//! Lists and maps of the running call's keys.

use super::{CallScope, Refusal};
use crate::batch::{Cells, Column};
use crate::collections::{CollectionError, ListPage, MAX_MAP_KEY, MapPage, PAGE_BYTES, StagedCells, View};
use crate::describe::StateKind;
use crate::state::StateId;

/// Elements of some lists: how many each has (u32 little-endian), and all of them.
pub(crate) struct Lists {
    pub(crate) counts: Vec<u8>,
    pub(crate) values: Column,
}

impl CallScope<'_> {
    /// Runs `call` on the lists or maps of a state. `budget`: bytes of cells that may still be staged; what is left of it is
    /// written there.
    fn staged<R>(
        &mut self,
        state: StateId,
        budget: &mut usize,
        call: impl FnOnce(&mut StagedCells, &mut View<'_>) -> Result<R, CollectionError>,
    ) -> Result<R, Refusal> {
        let keys = self.grouping.keys(self.batch);
        let staged = self.collections.entry(state).or_insert_with(|| StagedCells::new(state));
        let mut view = View { backend: &mut *self.backend, keys, budget: *budget };
        let done = call(staged, &mut view);
        *budget = view.budget;
        Ok(done?)
    }

    /// Runs a call that only reads.
    fn looked_at<R>(
        &mut self,
        state: StateId,
        call: impl FnOnce(&mut StagedCells, &mut View<'_>) -> Result<R, CollectionError>,
    ) -> Result<R, Refusal> {
        self.staged(state, &mut 0, call)
    }

    /// The call's index of one key.
    fn one(&self, key: &[u8]) -> Result<u32, Refusal> {
        let mut column = Column::new();
        column.push(key);
        Ok(self.distinct(&column)?[0])
    }

    pub(crate) fn list_append_many(
        &mut self,
        state: u32,
        keys: &Column,
        values: &Column,
        budget: &mut usize,
    ) -> Result<(), Refusal> {
        let state = self.check_state(state, StateKind::List)?;
        same_length("append-many", keys, &[("values", values)])?;
        let distinct = self.distinct(keys)?;
        let values = (0..values.len()).map(|i| values.get(i));
        self.staged(state, budget, |lists, view| lists.append_many(view, &distinct, values))
    }

    /// Whole lists, of at most `bytes` bytes.
    pub(crate) fn list_get_many(&mut self, state: u32, keys: &Column, bytes: usize) -> Result<Lists, Refusal> {
        let state = self.check_state(state, StateKind::List)?;
        let distinct = self.distinct(keys)?;
        self.looked_at(state, |lists, view| {
            lists.load_roots(view, &distinct)?;
            let (mut counts, mut values) = (Vec::new(), Column::new());
            for &key in &distinct {
                counts.extend(lists.whole_list(view, key, &mut values, bytes)?.to_le_bytes());
            }
            Ok(Lists { counts, values })
        })
    }

    pub(crate) fn list_page(&mut self, state: u32, key: &[u8], start: u64, limit: u32) -> Result<ListPage, Refusal> {
        let state = self.check_state(state, StateKind::List)?;
        let key = self.one(key)?;
        self.looked_at(state, |lists, view| lists.list_page(view, key, start, limit as usize, PAGE_BYTES))
    }

    /// u64 little-endian for each key.
    pub(crate) fn list_len_many(&mut self, state: u32, keys: &Column) -> Result<Vec<u8>, Refusal> {
        let state = self.check_state(state, StateKind::List)?;
        let distinct = self.distinct(keys)?;
        self.looked_at(state, |lists, view| {
            lists.load_roots(view, &distinct)?;
            let mut lengths = Vec::with_capacity(distinct.len() * 8);
            for &key in &distinct {
                lengths.extend(lists.list_len(view, key)?.to_le_bytes());
            }
            Ok(lengths)
        })
    }

    /// Clears lists or maps.
    pub(crate) fn clear_many(&mut self, kind: StateKind, state: u32, keys: &Column, budget: &mut usize) -> Result<(), Refusal> {
        let state = self.check_state(state, kind)?;
        let distinct = self.distinct(keys)?;
        self.staged(state, budget, |staged, view| {
            staged.load_roots(view, &distinct)?;
            distinct.iter().try_for_each(|&key| match kind {
                StateKind::Map => staged.clear_map(view, key),
                StateKind::List | StateKind::Value => staged.clear_list(view, key),
            })
        })
    }

    /// Values of at most `bytes` bytes.
    pub(crate) fn map_get_many(&mut self, state: u32, keys: &Column, map_keys: &Column, bytes: usize) -> Result<Cells, Refusal> {
        let state = self.check_state(state, StateKind::Map)?;
        check_map_keys("get-many", keys, map_keys)?;
        let distinct = self.distinct(keys)?;
        self.looked_at(state, |maps, view| maps.map_get_many(view, &distinct, map_keys, bytes))
    }

    pub(crate) fn map_put_many(
        &mut self,
        state: u32,
        keys: &Column,
        (map_keys, values): (&Column, &Column),
        budget: &mut usize,
    ) -> Result<(), Refusal> {
        let state = self.check_state(state, StateKind::Map)?;
        check_map_keys("put-many", keys, map_keys)?;
        same_length("put-many", keys, &[("values", values)])?;
        let distinct = self.distinct(keys)?;
        self.staged(state, budget, |maps, view| maps.map_put_many(view, &distinct, map_keys, values))
    }

    pub(crate) fn map_remove_many(
        &mut self,
        state: u32,
        keys: &Column,
        map_keys: &Column,
        budget: &mut usize,
    ) -> Result<(), Refusal> {
        let state = self.check_state(state, StateKind::Map)?;
        check_map_keys("remove-many", keys, map_keys)?;
        let distinct = self.distinct(keys)?;
        self.staged(state, budget, |maps, view| maps.map_remove_many(view, &distinct, map_keys))
    }

    /// `end`: empty for none.
    pub(crate) fn map_scan(&mut self, state: u32, key: &[u8], start: &[u8], end: &[u8], limit: u32) -> Result<MapPage, Refusal> {
        let state = self.check_state(state, StateKind::Map)?;
        let key = self.one(key)?;
        let end = (!end.is_empty()).then_some(end);
        self.looked_at(state, |maps, view| maps.map_scan(view, key, (start, end), limit as usize, PAGE_BYTES))
    }

    /// One byte a key.
    pub(crate) fn map_is_empty_many(&mut self, state: u32, keys: &Column) -> Result<Vec<u8>, Refusal> {
        let state = self.check_state(state, StateKind::Map)?;
        let distinct = self.distinct(keys)?;
        self.looked_at(state, |maps, view| {
            maps.load_roots(view, &distinct)?;
            distinct.iter().map(|&key| maps.map_is_empty(view, key).map(u8::from)).collect()
        })
    }
}

fn same_length(function: &str, keys: &Column, others: &[(&str, &Column)]) -> Result<(), Refusal> {
    match others.iter().find(|(_, other)| other.len() != keys.len()) {
        Some((what, other)) => Err(Refusal::Guest(format!("{function}: {} keys and {} {what}", keys.len(), other.len()))),
        None => Ok(()),
    }
}

fn check_map_keys(function: &str, keys: &Column, map_keys: &Column) -> Result<(), Refusal> {
    same_length(function, keys, &[("map keys", map_keys)])?;
    match (0..map_keys.len()).find(|&i| map_keys.get(i).len() > MAX_MAP_KEY) {
        Some(i) => {
            let bytes = map_keys.get(i).len();
            Err(Refusal::Guest(format!("{function}: map key {i} has {bytes} bytes, more than {MAX_MAP_KEY}")))
        }
        None => Ok(()),
    }
}
