//! The cells of the cache: key and value of one state in one cache line, large ones beside it.
//!
//! Invariants. **P1** a cell of kind `Free` is in the free list and nowhere else. **P2** an id stays the same cell until it is
//! removed. **P3** `copied >= written`, or the set `written` is open or frozen and not swept past this cell.

use super::hints;

/// Longest key and value that lie inside the cell.
const INLINE: usize = 24;
/// Length byte of bytes that lie in the heap; the first four inline bytes are then their slot.
const IN_HEAP: u8 = u8::MAX;
/// Cells in one allocation (16 MiB): growth never copies cells, and most of it can lie on huge pages.
const CHUNK_BITS: u32 = 18;
const CHUNK: usize = 1 << CHUNK_BITS;

/// What a cell knows about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Not in use.
    Free,
    /// The key has no value. If the cell is not ingested yet, this is a tombstone, and is written as a delete.
    Absent,
    /// The key has a value (an empty one is a value).
    Present,
}

/// One state of one key.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Cell {
    key: [u8; INLINE],
    value: [u8; INLINE],
    /// The set in which it was written last; 0: never since it was read from the store.
    pub(super) written: u32,
    /// The newest set for which it was copied out.
    pub(super) copied: u32,
    /// Key group.
    pub(super) group: u16,
    /// State of the operator.
    pub(super) state: u16,
    key_len: u8,
    value_len: u8,
    /// See [`Kind`].
    pub(super) kind: Kind,
    /// Second chance: used since the clock's hand passed.
    pub(super) referenced: bool,
}

const EMPTY: Cell = Cell {
    key: [0; INLINE],
    value: [0; INLINE],
    written: 0,
    copied: 0,
    group: 0,
    state: 0,
    key_len: 0,
    value_len: 0,
    kind: Kind::Free,
    referenced: false,
};

/// All cells of one cache, by id.
pub(super) struct CellPool {
    chunks: Vec<Vec<Cell>>,
    free: Vec<u32>,
    /// Ids ever given out.
    len: u32,
    heap: Heap,
}

impl CellPool {
    pub(super) fn new() -> Self {
        CellPool { chunks: Vec::new(), free: Vec::new(), len: 0, heap: Heap::default() }
    }

    /// Bytes of all cells in use, with their large keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.live() * size_of::<Cell>() + self.free.len() * size_of::<u32>() + self.heap.bytes
    }

    /// Cells in use.
    pub(super) fn live(&self) -> usize {
        self.len as usize - self.free.len()
    }

    /// One above the largest id ever given out.
    pub(super) fn id_bound(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> &Cell {
        &self.chunks[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Cell {
        &mut self.chunks[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)]
    }

    /// Pass 2 of a batch: asks for the cell.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: u32) {
        hints::prefetch(self.get(id));
    }

    /// True if the cell is this state of this key.
    #[inline(always)]
    pub(super) fn is(&self, id: u32, state: u16, key: &[u8]) -> bool {
        let cell = self.get(id);
        cell.state == state && same(self.bytes_of(&cell.key, cell.key_len), key)
    }

    #[inline]
    pub(super) fn key(&self, id: u32) -> &[u8] {
        let cell = self.get(id);
        self.bytes_of(&cell.key, cell.key_len)
    }

    #[inline(always)]
    pub(super) fn value(&self, id: u32) -> Option<&[u8]> {
        let cell = self.get(id);
        match cell.kind {
            Kind::Present => Some(self.bytes_of(&cell.value, cell.value_len)),
            Kind::Absent | Kind::Free => None,
        }
    }

    /// True if the cell's value is this one.
    #[inline(always)]
    pub(super) fn holds(&self, id: u32, value: Option<&[u8]>) -> bool {
        match (self.value(id), value) {
            (Some(a), Some(b)) => same(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    #[inline(always)]
    fn bytes_of<'a>(&'a self, inline: &'a [u8; INLINE], len: u8) -> &'a [u8] {
        if len == IN_HEAP { self.heap.get(heap_slot(inline)) } else { &inline[..len as usize] }
    }

    /// A new cell, clean.
    pub(super) fn insert(&mut self, group: u16, state: u16, key: &[u8], value: Option<&[u8]>) -> u32 {
        let mut cell = Cell { group, state, kind: Kind::Absent, referenced: true, ..EMPTY };
        self.heap.store(&mut cell.key, &mut cell.key_len, key);
        if let Some(value) = value {
            cell.kind = Kind::Present;
            self.heap.store(&mut cell.value, &mut cell.value_len, value);
        }
        if let Some(id) = self.free.pop() {
            *self.get_mut(id) = cell;
            return id;
        }
        let id = self.len;
        if id as usize >> CHUNK_BITS == self.chunks.len() {
            let mut chunk = Vec::with_capacity(CHUNK);
            hints::huge_pages(&mut chunk);
            self.chunks.push(chunk);
        }
        self.chunks[(id >> CHUNK_BITS) as usize].push(cell);
        self.len += 1;
        id
    }

    /// Sets or deletes the value. The caller has copied the old one if a frozen set needs it.
    #[inline(always)]
    pub(super) fn set_value(&mut self, id: u32, value: Option<&[u8]>) {
        let cell = &mut self.chunks[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)];
        match value {
            Some(value) => {
                cell.kind = Kind::Present;
                self.heap.store(&mut cell.value, &mut cell.value_len, value);
            }
            None => {
                cell.kind = Kind::Absent;
                self.heap.store(&mut cell.value, &mut cell.value_len, &[]);
            }
        }
    }

    /// Gives the id back.
    pub(super) fn remove(&mut self, id: u32) {
        let cell = &mut self.chunks[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)];
        debug_assert!(cell.kind != Kind::Free, "P1: cell {id} is removed twice");
        self.heap.store(&mut cell.key, &mut cell.key_len, &[]);
        self.heap.store(&mut cell.value, &mut cell.value_len, &[]);
        *cell = EMPTY;
        self.free.push(id);
    }
}

/// Equality without a call for the usual length of short keys.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    match (<&[u8; 8]>::try_from(a), <&[u8; 8]>::try_from(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[inline(always)]
fn heap_slot(inline: &[u8; INLINE]) -> u32 {
    u32::from_le_bytes([inline[0], inline[1], inline[2], inline[3]])
}

/// Keys and values too large for a cell.
#[derive(Default)]
struct Heap {
    items: Vec<Vec<u8>>,
    free: Vec<u32>,
    /// Bytes of capacity, with what each item costs itself.
    bytes: usize,
}

/// What one item costs beyond its capacity: the vector's header and the allocator's.
const ITEM_BYTES: usize = size_of::<Vec<u8>>() + 16;

impl Heap {
    #[inline]
    fn get(&self, slot: u32) -> &[u8] {
        &self.items[slot as usize]
    }

    /// Stores bytes inline or here, and lets go of what was there.
    #[inline(always)]
    fn store(&mut self, inline: &mut [u8; INLINE], len: &mut u8, bytes: &[u8]) {
        if *len == IN_HEAP || bytes.len() > INLINE {
            return self.store_large(inline, len, bytes);
        }
        match <&[u8; 8]>::try_from(bytes) {
            // A counter: one move instead of a call.
            Ok(word) => inline[..8].copy_from_slice(word),
            Err(_) => inline[..bytes.len()].copy_from_slice(bytes),
        }
        *len = bytes.len() as u8;
    }

    #[cold]
    fn store_large(&mut self, inline: &mut [u8; INLINE], len: &mut u8, bytes: &[u8]) {
        match (*len == IN_HEAP, bytes.len() > INLINE) {
            (true, true) => self.replace(heap_slot(inline), bytes),
            (true, false) => {
                self.release(heap_slot(inline));
                *len = 0;
                self.store(inline, len, bytes);
            }
            (false, _) => {
                let slot = self.add(bytes);
                inline[..4].copy_from_slice(&slot.to_le_bytes());
                *len = IN_HEAP;
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) -> u32 {
        let item = bytes.to_vec();
        self.bytes += item.capacity() + ITEM_BYTES;
        match self.free.pop() {
            Some(slot) => {
                self.items[slot as usize] = item;
                slot
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u32
            }
        }
    }

    fn replace(&mut self, slot: u32, bytes: &[u8]) {
        let item = &mut self.items[slot as usize];
        self.bytes -= item.capacity();
        item.clear();
        item.extend_from_slice(bytes);
        // A value that was large once must not hold its memory for ever.
        if item.capacity() > bytes.len() * 2 {
            item.shrink_to_fit();
        }
        self.bytes += item.capacity();
    }

    fn release(&mut self, slot: u32) {
        let item = std::mem::take(&mut self.items[slot as usize]);
        self.bytes -= item.capacity() + ITEM_BYTES;
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cache_line() {
        assert_eq!(size_of::<Cell>(), 64);
        assert_eq!(align_of::<Cell>(), 64);
    }

    #[test]
    fn keys_and_values_of_every_size_come_back() {
        let mut pool = CellPool::new();
        let sizes = [0, 1, 23, 24, 25, 254, 255, 256, 70_000];
        for &key_len in &sizes {
            let key = vec![b'k'; key_len];
            let id = pool.insert(7, 3, &key, None);
            assert!(pool.is(id, 3, &key) && !pool.is(id, 2, &key));
            assert_eq!(pool.value(id), None);
            // From every size to every other one, and through absence.
            for &a in &sizes {
                for &b in &sizes {
                    for value in [Some(vec![1u8; a]), Some(vec![2u8; b]), None] {
                        pool.set_value(id, value.as_deref());
                        assert_eq!(pool.value(id), value.as_deref());
                        assert_eq!(pool.key(id), &key[..]);
                    }
                }
            }
            pool.remove(id);
        }
        assert_eq!(pool.live(), 0);
        assert_eq!(pool.heap.bytes, 0, "nothing is left in the heap");
    }

    #[test]
    fn ids_are_given_again_after_removal() {
        let mut pool = CellPool::new();
        let ids: Vec<u32> = (0..10u8).map(|i| pool.insert(0, 0, &[i], Some(&[i]))).collect();
        pool.remove(ids[4]);
        assert_eq!(pool.insert(0, 0, b"new", None), ids[4]);
        assert_eq!(pool.id_bound(), 10);
    }
}
