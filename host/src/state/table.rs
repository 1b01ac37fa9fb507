//! The index of the cache: open addressing over (tag, cell id), small enough that a batch of look-ups can be prefetched.
//!
//! Invariants. **I1** a slot's home is its tag modulo the size, so rehash and removal never touch a cell. **I2** between a slot
//! and its home no slot is empty (linear probing; removal shifts back). **I3** at most 5/8 of the slots are used.

use super::hints;

/// 32 bits that stand for (state, key) in the table: the low half of the key's hash, mixed with the state.
/// The key group is taken from the other end of the hash.
#[inline(always)]
pub(super) fn tag(hash: u64, state: u16) -> u32 {
    (hash as u32) ^ u32::from(state).wrapping_mul(0x9E37_79B1)
}

/// Maps tags to cell ids; several cells may share a tag.
pub(super) struct SlotTable {
    /// tag << 32 | id + 1; 0 is empty.
    slots: Vec<u64>,
    used: usize,
}

const SMALLEST: usize = 1 << 10;

#[inline(always)]
fn slot(tag: u32, id: u32) -> u64 {
    u64::from(tag) << 32 | (u64::from(id) + 1)
}

impl SlotTable {
    pub(super) fn new() -> Self {
        SlotTable { slots: vec![0; SMALLEST], used: 0 }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// Pass 1 of a batch: asks for the home slot.
    #[inline(always)]
    pub(super) fn prefetch(&self, tag: u32) {
        hints::prefetch(&self.slots[tag as usize & self.mask()]);
    }

    /// The first cell of this tag: nearly always the only one.
    #[inline(always)]
    pub(super) fn first(&self, tag: u32) -> Option<u32> {
        self.find(tag, |_| true)
    }

    /// The cell of this tag that is the wanted one.
    #[inline(always)]
    pub(super) fn find(&self, tag: u32, mut is_wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let mut at = tag as usize & mask;
        loop {
            let slot = self.slots[at & mask];
            if slot == 0 {
                return None;
            }
            let id = (slot as u32).wrapping_sub(1);
            if (slot >> 32) as u32 == tag && is_wanted(id) {
                return Some(id);
            }
            at += 1;
        }
    }

    /// Adds a cell that is not in the table.
    pub(super) fn insert(&mut self, tag: u32, id: u32) {
        if (self.used + 1) * 8 > self.slots.len() * 5 {
            self.grow();
        }
        self.place(slot(tag, id));
        self.used += 1;
    }

    /// Removes a cell, and shifts back what probed past it (I2).
    ///
    /// # Panics
    /// If it is not there: the table and the pool would disagree.
    pub(super) fn remove(&mut self, tag: u32, id: u32) {
        let mask = self.mask();
        let wanted = slot(tag, id);
        let mut hole = tag as usize & mask;
        while self.slots[hole] != wanted {
            assert!(self.slots[hole] != 0, "I2: cell {id} is not in the table");
            hole = (hole + 1) & mask;
        }
        let mut next = (hole + 1) & mask;
        while self.slots[next] != 0 {
            let home = (self.slots[next] >> 32) as usize & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[hole] = 0;
        self.used -= 1;
    }

    fn place(&mut self, slot: u64) {
        let mask = self.mask();
        let mut at = (slot >> 32) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let mut larger = vec![0u64; self.slots.len() * 2];
        hints::huge_pages(&mut larger);
        let old = std::mem::replace(&mut self.slots, larger);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            self.place(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map_through_collisions_growth_and_removal() {
        // Few distinct tags, close together and at the wrap-around, so that runs form and removals shift.
        let mut table = SlotTable::new();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        let mut random = 0x2545_F491_4F6C_DD1Du64;
        for step in 0..200_000u32 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let id = (random >> 40) as u32 % 3000;
            match model.remove(&id) {
                Some(tag) => table.remove(tag, id),
                None => {
                    let tag = ((random as u32) % 64).wrapping_sub(32).wrapping_mul(1 + step % 3);
                    table.insert(tag, id);
                    model.insert(id, tag);
                }
            }
            if step % 5000 == 0 {
                for id in 0..3000 {
                    let tag = model.get(&id).copied();
                    let found = tag.and_then(|tag| table.find(tag, |other| other == id));
                    assert_eq!(found, tag.map(|_| id), "step {step}, cell {id}");
                }
                assert_eq!(table.used, model.len());
            }
        }
    }
}
