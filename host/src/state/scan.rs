//! Scans over keys: the store, with what is written and not ingested laid over it. Without a store that is all there is.
//!
//! A cell that is not ingested is still cached and holds the newest value (F2), so live cells stand for the frozen sets as
//! well. The order is that of the store: key group, then key.

use super::cell::{Cell, CellPool, Kind};
use super::copies::{key_prefix, split_key};
use super::rocks::RocksStore;
use std::collections::BTreeSet;
use weir_plugin::state::{StateError, StateId, key_group, key_hash};

/// The cells that were not in the store when a scan began. One scan's pages share it, since between them only keys that were
/// returned already may be written.
#[derive(Default)]
pub(super) struct ScanOverlay {
    states: Vec<StateId>,
    /// The last key of the page before: what the next page must begin after. None: there is no scan.
    last: Option<Vec<u8>>,
    /// Sorted by group, key, state.
    rows: Vec<Row>,
    keys: Vec<u8>,
}

struct Row {
    group: u16,
    state: StateId,
    present: bool,
    start: usize,
    end: usize,
}

impl ScanOverlay {
    /// Lays the cells of `states` that are not in the store out in order.
    pub(super) fn of(pool: &CellPool, states: &[StateId], is_above: impl Fn(&Cell) -> bool) -> Self {
        let mut overlay = ScanOverlay { states: states.to_vec(), ..ScanOverlay::default() };
        for id in pool.ids(0..pool.id_bound()) {
            let cell = pool.get(id);
            if cell.kind != Kind::Free && is_above(cell) && states.contains(&cell.state) {
                let start = overlay.keys.len();
                overlay.keys.extend_from_slice(pool.key(id));
                let (group, state, present) = (cell.group, cell.state, cell.kind == Kind::Present);
                overlay.rows.push(Row { group, state, present, start, end: overlay.keys.len() });
            }
        }
        let ScanOverlay { rows, keys, .. } = &mut overlay;
        let order = |row: &Row| (row.group, &keys[row.start..row.end], row.state);
        rows.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
        overlay
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.keys.capacity()
    }

    /// True if this is the scan of which the next page begins after that key.
    pub(super) fn covers(&self, states: &[StateId], after: Option<&[u8]>) -> bool {
        after.is_some() && self.last.as_deref() == after && self.states == states
    }

    /// The next page.
    pub(super) fn page(
        &mut self,
        store: Option<&RocksStore>,
        states: &[StateId],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StateError> {
        let after = after.map(|key| (key_group(key_hash(key)), key));
        let from = after.map_or(0, |(group, _)| group);
        let mut page = Page { overlay: self, at: 0, after, limit, keys: Vec::new() };
        page.at = page.overlay.rows.partition_point(|row| row.group < from);
        let (mut group, mut stored) = (from, BTreeSet::new());
        if limit > 0 {
            let mut each = |store_key: &[u8]| {
                let Some((of, state, key)) = split_key(store_key) else { return true };
                if of != group {
                    page.add_group(group, std::mem::take(&mut stored));
                    page.add_groups_below(of);
                    group = of;
                }
                if states.contains(&state) && page.overlay.says(of, state, key) != Some(false) {
                    stored.insert(key.to_vec());
                }
                page.keys.len() < limit
            };
            if let Some(store) = store {
                store.scan(&key_prefix(from, 0), |store_key, _| each(store_key))?;
            }
            page.add_group(group, stored);
            page.add_groups_below(u32::MAX);
        }
        let keys = page.keys;
        self.last = keys.last().cloned();
        Ok(keys)
    }

    /// Whether this cell is present, if it is one of the overlay.
    fn says(&self, group: u16, state: StateId, key: &[u8]) -> Option<bool> {
        let order = |row: &Row| (row.group, &self.keys[row.start..row.end], row.state);
        let found = self.rows.binary_search_by(|row| order(row).cmp(&(group, key, state)));
        found.ok().map(|at| self.rows[at].present)
    }
}

/// A page in the making.
struct Page<'a> {
    overlay: &'a ScanOverlay,
    /// Rows of the overlay before it are done.
    at: usize,
    /// Group and key that the page begins after.
    after: Option<(u16, &'a [u8])>,
    limit: usize,
    keys: Vec<Vec<u8>>,
}

impl Page<'_> {
    /// Adds a group's keys: those of the store, and those of the overlay.
    fn add_group(&mut self, group: u16, mut keys: BTreeSet<Vec<u8>>) {
        let overlay = self.overlay;
        while let Some(row) = overlay.rows.get(self.at).filter(|row| row.group <= group) {
            if row.present && row.group == group {
                keys.insert(overlay.keys[row.start..row.end].to_vec());
            }
            self.at += 1;
        }
        for key in keys {
            let passed = self.after.is_some_and(|(of, after)| of == group && key.as_slice() <= after);
            if !passed && self.keys.len() < self.limit {
                self.keys.push(key);
            }
        }
    }

    /// Adds the groups below `bound` of which the store has nothing.
    fn add_groups_below(&mut self, bound: impl Into<u32>) {
        let bound = bound.into();
        while let Some(row) = self.overlay.rows.get(self.at).filter(|row| u32::from(row.group) < bound) {
            if self.keys.len() >= self.limit {
                return;
            }
            self.add_group(row.group, BTreeSet::new());
        }
    }
}
