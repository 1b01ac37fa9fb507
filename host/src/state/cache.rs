//! Cells by key: the pool and its index together, with look-ups of a whole batch in passes, so that the latencies of memory
//! overlap: slots, cells, compare.

use super::cell::CellPool;
use super::table::{SlotTable, tag};
use std::ops::Range;
use weir_plugin::state::{Keys, StateId, cell_hash, key_group};

/// Keys of one pass: their slots and cells stay in the nearest caches until the last pass.
pub(super) const PASS_KEYS: usize = 1024;
/// No cell: a key that is not here.
pub(super) const NONE: u32 = u32::MAX;

/// See the module.
pub(super) struct CellCache {
    pub(super) pool: CellPool,
    table: SlotTable,
    /// Likely cells of a pass, or tags of one; kept for its memory.
    likely: Vec<u32>,
    /// Keys of the last pass without a cell, counted from its first key.
    misses: Vec<u32>,
}

impl CellCache {
    pub(super) fn new() -> Self {
        CellCache { pool: CellPool::new(), table: SlotTable::new(), likely: Vec::new(), misses: Vec::new() }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.pool.bytes() + self.table.bytes()
    }

    /// Appends the cell of each key in the range, or [`NONE`]; [`Self::misses`] says which.
    pub(super) fn find_all(&mut self, state: StateId, keys: Keys<'_>, range: Range<usize>, ids: &mut Vec<u32>) {
        let CellCache { pool, table, likely, misses } = self;
        // Pass 1: slots.
        for &hash in &keys.hashes[range.clone()] {
            table.prefetch(tag(hash, state));
        }
        // Pass 2: the likely cells.
        likely.clear();
        misses.clear();
        for &hash in &keys.hashes[range.clone()] {
            let id = table.first(tag(hash, state)).unwrap_or(NONE);
            if id != NONE {
                pool.prefetch(id);
            }
            likely.push(id);
        }
        // Pass 3: is it the key? If not, another cell of the same tag may be.
        for (at, i) in range.enumerate() {
            let (mut id, key) = (likely[at], keys.key(i));
            if id != NONE && !pool.is(id, state, key) {
                id = table.find(tag(keys.hashes[i], state), |id| pool.is(id, state, key)).unwrap_or(NONE);
            }
            match id {
                NONE => misses.push(at as u32),
                id => pool.get_mut(id).referenced = true,
            }
            ids.push(id);
        }
    }

    /// Keys of the last [`Self::find_all`] without a cell, counted from the first one of its range.
    pub(super) fn misses(&self) -> &[u32] {
        &self.misses
    }

    /// The cell of one key.
    #[inline]
    pub(super) fn find(&self, state: StateId, key: &[u8], hash: u64) -> Option<u32> {
        self.table.find(tag(hash, state), |id| self.pool.is(id, state, key))
    }

    /// Makes a clean cell for a key that has none.
    pub(super) fn insert(&mut self, state: StateId, key: &[u8], hash: u64, value: Option<&[u8]>) -> u32 {
        let id = self.pool.insert(key_group(hash), state, key, value);
        self.table.insert(tag(hash, state), id);
        id
    }

    /// The cell of a key that had none when its batch was looked up. It has one now if it stands twice in the batch.
    pub(super) fn find_or_insert(&mut self, state: StateId, key: &[u8], hash: u64, value: Option<&[u8]>) -> u32 {
        match self.find(state, key, hash) {
            Some(id) => id,
            None => self.insert(state, key, hash, value),
        }
    }

    /// Takes a cell away.
    pub(super) fn remove(&mut self, id: u32) {
        self.remove_all(&[id]);
    }

    /// Takes cells away, each of which stands here once; their slots are asked for first.
    pub(super) fn remove_all(&mut self, ids: &[u32]) {
        let CellCache { pool, table, likely, .. } = self;
        likely.clear();
        likely.extend(ids.iter().map(|&id| {
            let state = pool.get(id).state;
            tag(cell_hash(state, pool.key(id)), state)
        }));
        likely.iter().for_each(|&tag| table.prefetch(tag));
        for (&id, &tag) in ids.iter().zip(&*likely) {
            table.remove(tag, id);
            pool.remove(id);
        }
    }
}
