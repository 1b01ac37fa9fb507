//! Copy on update: which cells belong to which set, and what each frozen set has copied already. No I/O.
//!
//! Writes go to the *open* set. A freeze closes it; from then on its cells keep their values for it until they are copied,
//! by the sweep or because they are about to be overwritten. What follows (ingest, link) is ordered by
//! [`weir_protocol::freeze::FreezeQueue`].
//!
//! A set of changes has a list of its cells, in the order in which they were written. If it has many of all cells, and if it has all
//! of them, it passes over the ids that there were instead: the next cell is next in memory, then.
//!
//! Invariants. **F1** whoever writes a cell copies it first for each set that needs it: the set of changes that wrote it last
//! (`cell.written`), and each set of all cells that has not come to it yet. `cell.copied` is the newest set that has. **F2** a cell in
//! the list of a set that is not ingested is never evicted, so its id stays its own; a cell without a value may be, and its id is
//! another key's then, which has no value in any frozen set either. **F3** each set's copies hold every cell of it exactly once.

use super::cell::{Cell, CellPool};
use super::copies::Copies;
use super::rows::Block;
use std::collections::VecDeque;
use weir_protocol::freeze::Scope;

/// How far ahead the sweep asks for cells.
const AHEAD: usize = 16;
/// Sets with more than one in so many cells pass over all of them: a look at one that comes by is that much cheaper than a jump.
const DENSE: usize = 4;

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
    members: Members,
    /// Cells before it, in the list or by id, are copied.
    cursor: usize,
    copies: Copies,
}

/// The cells of a frozen set.
enum Members {
    Changed {
        list: Vec<u32>,
        /// If the sweep passes over the cells and not over the list: those below this id.
        bound: Option<u32>,
        /// Cells not copied yet.
        left: usize,
    },
    /// All below this id that have a value.
    All { bound: u32 },
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
        let lists = self.dirty.len() + self.copying.iter().map(|set| set.members.list_len()).sum::<usize>();
        lists * size_of::<u32>() + self.copying.iter().map(|set| set.copies.bytes()).sum::<usize>()
    }

    /// The first write of a cell in the open set: copies its old value for the frozen sets that still need it.
    #[inline]
    pub(super) fn first_write(&mut self, pool: &mut CellPool, id: u32) {
        let written = pool.get(id).written;
        debug_assert!(written != self.open, "the cell is in the dirty list already");
        if written > self.ingested {
            self.last_written[(written - self.ingested - 1) as usize] -= 1;
        }
        for set in &mut self.copying {
            if set.needs(pool.get(id), id) {
                set.copy(pool, id);
            }
        }
        let is_copied = written <= self.ingested || pool.get(id).copied >= written;
        assert!(is_copied, "F1: set {written} needs a copy, but is not being copied");
        pool.get_mut(id).written = self.open;
        self.last_written[(self.open - self.ingested - 1) as usize] += 1;
        self.dirty.push(id);
    }

    /// Closes the open set and begins the next. Its number, and how many cells it has at most. `to_store`: its copies are to be sorted.
    pub(super) fn freeze(&mut self, scope: Scope, pool: &CellPool, to_store: bool) -> (u32, usize) {
        let number = self.open;
        // The next interval likely writes as many cells; memory that is not touched costs nothing.
        let mut next = std::mem::take(&mut self.spare);
        next.reserve(self.dirty.len());
        let list = std::mem::replace(&mut self.dirty, next);
        let (left, bound) = (list.len(), pool.id_bound());
        let (members, count) = match scope {
            Scope::Changes => {
                let is_dense = left > bound as usize / DENSE;
                (Members::Changed { list, bound: is_dense.then_some(bound), left }, left)
            }
            Scope::All => (Members::All { bound }, bound as usize),
        };
        let copies = if to_store { Copies::to_be_sorted() } else { Copies::in_any_order() };
        self.copying.push_back(CopyingSet { number, members, cursor: 0, copies });
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

    /// Takes blocks of copies that are full and go into a row file: by set.
    pub(super) fn take_full(&mut self) -> impl Iterator<Item = (u32, Block)> {
        self.copying.iter_mut().flat_map(|set| {
            let number = set.number;
            set.copies.take_full().map(move |block| (number, block))
        })
    }

    /// Takes the oldest set's copies, if it is all copied: number, cells, copies.
    pub(super) fn take_copied(&mut self) -> Option<(u32, usize, Copies)> {
        let CopyingSet { number, members, copies, .. } = self.copying.pop_front_if(|set| set.is_copied())?;
        let cells = match members {
            Members::Changed { mut list, .. } => {
                let cells = list.len();
                list.clear();
                self.spare = list;
                cells
            }
            Members::All { bound } => bound as usize,
        };
        Some((number, cells, copies))
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

impl Members {
    fn list_len(&self) -> usize {
        match self {
            Members::Changed { list, .. } => list.len(),
            Members::All { .. } => 0,
        }
    }

    /// How many cells the sweep passes.
    fn sweep_len(&self) -> usize {
        match self {
            Members::Changed { list, bound: None, .. } => list.len(),
            Members::Changed { bound: Some(bound), .. } | Members::All { bound } => *bound as usize,
        }
    }
}

impl CopyingSet {
    fn is_copied(&self) -> bool {
        match self.members {
            Members::Changed { left, .. } => left == 0,
            Members::All { .. } => self.cursor == self.members.sweep_len(),
        }
    }

    /// F1: true if the cell is to be copied for this set before its value changes.
    #[inline(always)]
    fn needs(&self, cell: &Cell, id: u32) -> bool {
        match self.members {
            Members::Changed { .. } => cell.written == self.number && cell.copied < self.number,
            Members::All { bound } => cell.copied < self.number && id < bound && id as usize >= self.cursor,
        }
    }

    fn sweep(&mut self, pool: &mut CellPool, cells: usize) {
        let CopyingSet { number, members, cursor, copies } = self;
        let length = members.sweep_len();
        let end = length.min(cursor.saturating_add(cells));
        // A cell of a set of changes that was written since was copied before that (F1). A free one names no set.
        match members {
            Members::Changed { bound: Some(_), left, .. } => {
                for id in pool.ids(*cursor as u32..end as u32) {
                    if pool.get(id).written == *number {
                        copy(pool, id, *number, copies);
                        *left -= 1;
                    }
                }
            }
            Members::Changed { list, bound: None, left } => {
                for at in *cursor..end {
                    if let Some(&ahead) = list.get(at + AHEAD) {
                        pool.prefetch(ahead);
                    }
                    if pool.get(list[at]).written == *number {
                        copy(pool, list[at], *number, copies);
                        *left -= 1;
                    }
                }
            }
            Members::All { .. } => {
                for id in pool.ids(*cursor as u32..end as u32) {
                    if pool.get(id).copied < *number {
                        copy_value(pool, id, *number, copies);
                    }
                }
            }
        }
        self.cursor = end;
        assert!(end < length || self.is_copied(), "F3: cells of set {} are not copied", self.number);
    }

    /// Copies a cell before its turn.
    fn copy(&mut self, pool: &mut CellPool, id: u32) {
        match &mut self.members {
            Members::Changed { left, .. } => {
                copy(pool, id, self.number, &mut self.copies);
                *left -= 1;
            }
            Members::All { .. } => copy_value(pool, id, self.number, &mut self.copies),
        }
    }
}

#[inline]
fn copy(pool: &mut CellPool, id: u32, set: u32, copies: &mut Copies) {
    let cell = pool.get(id);
    copies.push(cell.group, cell.state, pool.key(id), pool.value(id));
    pool.get_mut(id).copied = set;
}

/// The same, without deletes: there is nothing before a set of all cells.
fn copy_value(pool: &mut CellPool, id: u32, set: u32, copies: &mut Copies) {
    match pool.value(id) {
        Some(_) => copy(pool, id, set, copies),
        None => pool.get_mut(id).copied = set,
    }
}
