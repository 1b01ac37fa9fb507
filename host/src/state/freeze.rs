//! Copy on update: which cells belong to which set, and what each frozen set has copied already. No I/O.
//!
//! Writes go to the *open* set. A freeze closes it; from then on its cells keep their values for it until they are copied,
//! by the sweep or because they are about to be overwritten. What follows (ingest, link) is ordered by
//! [`weir_protocol::freeze::FreezeQueue`].
//!
//! Invariants. **F1** a cell needs copying for at most one set, the one that wrote it last (`cell.written`): whoever writes it in
//! a newer set copies it first. **F2** a cell in the list of a set that is not ingested is never evicted, so its id stays its own.
//! **F3** each set's copies hold every cell of its list exactly once.

use super::cell::CellPool;
use super::copies::Copies;
use std::collections::VecDeque;

/// How far ahead the sweep asks for cells.
const AHEAD: usize = 16;

/// The open set and the frozen ones that are still being copied.
pub(super) struct FrozenSets {
    /// Number of the open set, from 1.
    open: u32,
    /// Cells written in the open set.
    dirty: Vec<u32>,
    /// The list of a set that is all copied, to be used again: memory that is mapped already.
    spare: Vec<u32>,
    /// Frozen sets, oldest first, consecutive.
    copying: VecDeque<CopyingSet>,
    /// Sets up to this number are ingested.
    ingested: u32,
    /// How many cells were last written in set `ingested + 1 + i`, up to the open one: these are pinned.
    last_written: VecDeque<usize>,
}

struct CopyingSet {
    number: u32,
    cells: Vec<u32>,
    /// Cells before it in the list are copied.
    cursor: usize,
    /// Cells not copied yet.
    left: usize,
    copies: Copies,
}

impl FrozenSets {
    pub(super) fn new() -> Self {
        FrozenSets {
            open: 1,
            dirty: Vec::new(),
            spare: Vec::new(),
            copying: VecDeque::new(),
            ingested: 0,
            last_written: VecDeque::from([0]),
        }
    }

    /// Cells written in the open set.
    pub(super) fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Cells that may not be evicted.
    pub(super) fn pinned(&self) -> usize {
        self.last_written.iter().sum()
    }

    /// True if a cell last written in this set may be evicted.
    #[inline(always)]
    pub(super) fn is_clean(&self, written: u32) -> bool {
        written <= self.ingested
    }

    /// True if a cell last written in this set is in the dirty list already.
    #[inline(always)]
    pub(super) fn is_dirty(&self, written: u32) -> bool {
        written == self.open
    }

    /// Bytes of lists and copies.
    pub(super) fn bytes(&self) -> usize {
        let of_list = |list: &Vec<u32>| list.len() * size_of::<u32>();
        of_list(&self.dirty) + self.copying.iter().map(|set| of_list(&set.cells) + set.copies.bytes()).sum::<usize>()
    }

    /// The first write of a cell in the open set: copies its old value if a frozen set still needs it.
    #[inline]
    pub(super) fn first_write(&mut self, pool: &mut CellPool, id: u32) {
        let written = pool.get(id).written;
        debug_assert!(written != self.open, "the cell is in the dirty list already");
        if written > self.ingested {
            self.last_written[(written - self.ingested - 1) as usize] -= 1;
            if pool.get(id).copied != written {
                self.copy_before_write(pool, id, written);
            }
        }
        pool.get_mut(id).written = self.open;
        self.last_written[(self.open - self.ingested - 1) as usize] += 1;
        self.dirty.push(id);
    }

    fn copy_before_write(&mut self, pool: &mut CellPool, id: u32, number: u32) {
        let oldest = self.copying.front().map_or(self.open, |set| set.number);
        assert!(number >= oldest && number < self.open, "F1: set {number} needs a copy, but is not being copied");
        self.copying[(number - oldest) as usize].copy(pool, id);
    }

    /// Closes the open set and begins the next. Its number, and how many cells it has.
    pub(super) fn freeze(&mut self) -> (u32, usize) {
        let number = self.open;
        // The next interval likely writes as many cells; memory that is not touched costs nothing.
        let mut next = std::mem::take(&mut self.spare);
        next.reserve(self.dirty.len());
        let cells = std::mem::replace(&mut self.dirty, next);
        let count = cells.len();
        self.copying.push_back(CopyingSet { number, cells, cursor: 0, left: count, copies: Copies::default() });
        self.open += 1;
        self.last_written.push_back(0);
        (number, count)
    }

    /// Number of the oldest set that is being copied.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.copying.front().map(|set| set.number)
    }

    /// True if a set is all copied and not ingested yet: the store writer has it.
    pub(super) fn is_waiting(&self) -> bool {
        self.oldest().unwrap_or(self.open) - 1 > self.ingested
    }

    /// Sets up to this number are ingested.
    pub(super) fn ingested(&self) -> u32 {
        self.ingested
    }

    /// Copies at most `cells` cells of the oldest set.
    pub(super) fn sweep(&mut self, pool: &mut CellPool, cells: usize) {
        if let Some(set) = self.copying.front_mut() {
            set.sweep(pool, cells);
        }
    }

    /// Takes the oldest set's copies, if it is all copied: number, cells, copies.
    pub(super) fn take_copied(&mut self) -> Option<(u32, usize, Copies)> {
        let CopyingSet { number, mut cells, copies, .. } = self.copying.pop_front_if(|set| set.left == 0)?;
        let count = cells.len();
        cells.clear();
        self.spare = cells;
        Some((number, count, copies))
    }

    /// The sets up to `number` are ingested: their cells may be evicted.
    pub(super) fn unpin(&mut self, number: u32) {
        assert!(self.oldest().is_none_or(|oldest| number < oldest), "S5: set {number} is ingested before it is copied");
        while self.ingested < number {
            self.last_written.pop_front();
            self.ingested += 1;
        }
    }
}

impl CopyingSet {
    fn sweep(&mut self, pool: &mut CellPool, cells: usize) {
        let end = self.cells.len().min(self.cursor.saturating_add(cells));
        for at in self.cursor..end {
            if let Some(&ahead) = self.cells.get(at + AHEAD) {
                pool.prefetch(ahead);
            }
            let id = self.cells[at];
            // One that was written since was copied before that (F1).
            if pool.get(id).written == self.number {
                self.copy(pool, id);
            }
        }
        self.cursor = end;
        assert!(end < self.cells.len() || self.left == 0, "F3: {} cells of set {} are not copied", self.left, self.number);
    }

    fn copy(&mut self, pool: &mut CellPool, id: u32) {
        let cell = pool.get(id);
        self.copies.push(cell.group, cell.state, pool.key(id), pool.value(id));
        pool.get_mut(id).copied = self.number;
        self.left -= 1;
    }
}
