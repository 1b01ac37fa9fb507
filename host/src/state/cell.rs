//! The cells of the cache: key and value of one state in half a cache line or in a whole one, large ones beside it.
//!
//! Invariants. **P1** a cell of kind `Free` is in the free list of its width and nowhere else. **P2** an id stays the same cell, of the
//! same width, until it is removed. **P3** `copied >= written`, or the set `written` is open or frozen and not swept past this cell.

use super::hints;
use std::ops::Range;

/// Longest key and value that lie inside a narrow cell.
const NARROW: usize = 8;
/// The same of a wide one.
const WIDE: usize = 24;
/// Length byte of bytes that lie in the heap; the first four inline bytes are then their slot.
const IN_HEAP: u8 = u8::MAX;
/// Cells in one allocation (8 or 16 MiB): growth never copies cells, and most of it can lie on huge pages.
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

/// One state of one key, without their bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Cell {
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

/// A cell with its bytes, aligned like `A`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Filled<const N: usize, A> {
    alignment: [A; 0],
    cell: Cell,
    key: [u8; N],
    value: [u8; N],
}

/// Alignments: no cell lies in two cache lines.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct HalfLine;
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line;

type Narrow = Filled<NARROW, HalfLine>;
type Wide = Filled<WIDE, Line>;

const EMPTY: Cell =
    Cell { written: 0, copied: 0, group: 0, state: 0, key_len: 0, value_len: 0, kind: Kind::Free, referenced: false };
/// What stands for an id that was never given out. No set needs a copy of it.
const NO_CELL: &Cell = &Cell { copied: u32::MAX, ..EMPTY };

/// Cells of one width, whose ids follow one another.
enum Chunk {
    Narrow(Vec<Narrow>),
    Wide(Vec<Wide>),
}

/// All cells of one cache, by id.
pub(super) struct CellPool {
    chunks: Vec<Chunk>,
    narrow: Width,
    wide: Width,
    /// By state: whether a value came that lies in a wide cell, but not in a narrow one.
    has_wide_values: Vec<bool>,
    heap: Heap,
}

/// What the pool knows of the cells of one width.
#[derive(Default)]
struct Width {
    /// Cells in use.
    live: usize,
    /// Ids that were given back.
    free: Vec<u32>,
    /// The chunk that new ids come from.
    open: Option<usize>,
}

impl CellPool {
    pub(super) fn new() -> Self {
        let (narrow, wide) = (Width::default(), Width::default());
        CellPool { chunks: Vec::new(), narrow, wide, has_wide_values: Vec::new(), heap: Heap::default() }
    }

    /// Bytes of all cells in use, with their large keys and values.
    pub(super) fn bytes(&self) -> usize {
        let free = (self.narrow.free.len() + self.wide.free.len()) * size_of::<u32>();
        self.narrow.live * size_of::<Narrow>() + self.wide.live * size_of::<Wide>() + free + self.heap.bytes
    }

    /// Cells in use.
    pub(super) fn live(&self) -> usize {
        self.narrow.live + self.wide.live
    }

    /// One above the largest id ever given out. Not every one below was: see [`Self::ids`].
    pub(super) fn id_bound(&self) -> u32 {
        match self.chunks.last() {
            Some(last) => ((self.chunks.len() - 1) << CHUNK_BITS) as u32 + last.len() as u32,
            None => 0,
        }
    }

    /// The ids of a range that were given out.
    pub(super) fn ids(&self, range: Range<u32>) -> impl Iterator<Item = u32> + use<> {
        let given = self.chunks.iter().enumerate().map(|(i, chunk)| {
            let first = (i << CHUNK_BITS) as u32;
            first.max(range.start)..(first + chunk.len() as u32).min(range.end)
        });
        // A range lies in a chunk or two: no more than an array of them.
        given.filter(|ids| !ids.is_empty()).collect::<Vec<_>>().into_iter().flatten()
    }

    /// The cell of an id; one of kind `Free` if the id was never given out.
    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> &Cell {
        let at = id as usize & (CHUNK - 1);
        match &self.chunks[(id >> CHUNK_BITS) as usize] {
            Chunk::Narrow(cells) => cells.get(at).map_or(NO_CELL, |filled| &filled.cell),
            Chunk::Wide(cells) => cells.get(at).map_or(NO_CELL, |filled| &filled.cell),
        }
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Cell {
        let at = id as usize & (CHUNK - 1);
        match &mut self.chunks[(id >> CHUNK_BITS) as usize] {
            Chunk::Narrow(cells) => &mut cells[at].cell,
            Chunk::Wide(cells) => &mut cells[at].cell,
        }
    }

    /// Pass 2 of a batch: asks for the cell.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: u32) {
        hints::prefetch(self.get(id));
    }

    /// The cell with its key's bytes and its value's.
    #[inline(always)]
    fn filled(&self, id: u32) -> (&Cell, &[u8], &[u8]) {
        let at = id as usize & (CHUNK - 1);
        match &self.chunks[(id >> CHUNK_BITS) as usize] {
            Chunk::Narrow(cells) => cells[at].parts(),
            Chunk::Wide(cells) => cells[at].parts(),
        }
    }

    /// True if the cell is this state of this key.
    #[inline(always)]
    pub(super) fn is(&self, id: u32, state: u16, key: &[u8]) -> bool {
        let (cell, inline, _) = self.filled(id);
        cell.state == state && same(self.heap.bytes_of(inline, cell.key_len), key)
    }

    #[inline]
    pub(super) fn key(&self, id: u32) -> &[u8] {
        let (cell, inline, _) = self.filled(id);
        self.heap.bytes_of(inline, cell.key_len)
    }

    #[inline(always)]
    pub(super) fn value(&self, id: u32) -> Option<&[u8]> {
        let (cell, _, inline) = self.filled(id);
        match cell.kind {
            Kind::Present => Some(self.heap.bytes_of(inline, cell.value_len)),
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

    /// A new cell, clean.
    pub(super) fn insert(&mut self, group: u16, state: u16, key: &[u8], value: Option<&[u8]>) -> u32 {
        let cell = Cell { group, state, kind: Kind::Absent, referenced: true, ..EMPTY };
        let has_wide_value = match value {
            Some(value) => needs_wide(value.len()),
            // What comes is likely like what came to others.
            None => self.has_wide_values.get(usize::from(state)).is_some_and(|&has| has),
        };
        let id = match has_wide_value || needs_wide(key.len()) {
            false => self.narrow.id(&mut self.chunks, Chunk::Narrow),
            true => self.wide.id(&mut self.chunks, Chunk::Wide),
        };
        match self.at(id) {
            (At::Narrow(filled), heap) => filled.fill(cell, key, value, heap),
            (At::Wide(filled), heap) => filled.fill(cell, key, value, heap),
        }
        id
    }

    #[inline(always)]
    fn at(&mut self, id: u32) -> (At<'_>, &mut Heap) {
        let at = id as usize & (CHUNK - 1);
        match &mut self.chunks[(id >> CHUNK_BITS) as usize] {
            Chunk::Narrow(cells) => (At::Narrow(&mut cells[at]), &mut self.heap),
            Chunk::Wide(cells) => (At::Wide(&mut cells[at]), &mut self.heap),
        }
    }

    /// Sets or deletes the value. The caller has copied the old one if a frozen set needs it.
    #[inline(always)]
    pub(super) fn set_value(&mut self, id: u32, value: Option<&[u8]>) {
        match self.at(id) {
            (At::Narrow(filled), heap) => {
                filled.set_value(value, heap);
                let state = filled.cell.state;
                if value.is_some_and(|value| needs_wide(value.len())) {
                    self.learn_wide(state);
                }
            }
            (At::Wide(filled), heap) => filled.set_value(value, heap),
        }
    }

    /// The next cells of this state are wide: this value lies in the heap, for more bytes than a wide cell has.
    #[cold]
    fn learn_wide(&mut self, state: u16) {
        let state = usize::from(state);
        if self.has_wide_values.len() <= state {
            self.has_wide_values.resize(state + 1, false);
        }
        self.has_wide_values[state] = true;
    }

    /// Gives the id back.
    pub(super) fn remove(&mut self, id: u32) {
        debug_assert!(self.get(id).kind != Kind::Free, "P1: cell {id} is removed twice");
        let width = match self.at(id) {
            (At::Narrow(filled), heap) => {
                filled.clear(heap);
                &mut self.narrow
            }
            (At::Wide(filled), heap) => {
                filled.clear(heap);
                &mut self.wide
            }
        };
        width.live -= 1;
        width.free.push(id);
    }
}

/// True if bytes of this length lie in a wide cell, and in the heap beside a narrow one.
#[inline(always)]
fn needs_wide(len: usize) -> bool {
    NARROW < len && len <= WIDE
}

/// A cell of either width.
enum At<'a> {
    Narrow(&'a mut Narrow),
    Wide(&'a mut Wide),
}

impl Chunk {
    #[inline(always)]
    fn len(&self) -> usize {
        match self {
            Chunk::Narrow(cells) => cells.len(),
            Chunk::Wide(cells) => cells.len(),
        }
    }
}

impl Width {
    /// An id that is not in use, of a cell that is empty.
    fn id<const N: usize, A: Copy>(&mut self, chunks: &mut Vec<Chunk>, chunk: fn(Vec<Filled<N, A>>) -> Chunk) -> u32 {
        self.live += 1;
        if let Some(id) = self.free.pop() {
            return id;
        }
        let open = match self.open {
            Some(open) if chunks[open].len() < CHUNK => open,
            _ => {
                let mut cells = Vec::with_capacity(CHUNK);
                hints::huge_pages(&mut cells);
                chunks.push(chunk(cells));
                chunks.len() - 1
            }
        };
        self.open = Some(open);
        let at = chunks[open].len();
        match &mut chunks[open] {
            Chunk::Narrow(cells) => cells.push(Filled::EMPTY),
            Chunk::Wide(cells) => cells.push(Filled::EMPTY),
        }
        (open << CHUNK_BITS | at) as u32
    }
}

impl<const N: usize, A> Filled<N, A> {
    const EMPTY: Self = Filled { alignment: [], cell: EMPTY, key: [0; N], value: [0; N] };

    #[inline(always)]
    fn parts(&self) -> (&Cell, &[u8], &[u8]) {
        (&self.cell, &self.key, &self.value)
    }

    /// Fills an empty cell.
    #[inline]
    fn fill(&mut self, cell: Cell, key: &[u8], value: Option<&[u8]>, heap: &mut Heap) {
        self.cell = cell;
        heap.store(&mut self.key, &mut self.cell.key_len, key);
        if value.is_some() {
            self.set_value(value, heap);
        }
    }

    #[inline(always)]
    fn set_value(&mut self, value: Option<&[u8]>, heap: &mut Heap) {
        self.cell.kind = if value.is_some() { Kind::Present } else { Kind::Absent };
        heap.store(&mut self.value, &mut self.cell.value_len, value.unwrap_or_default());
    }

    fn clear(&mut self, heap: &mut Heap) {
        heap.store(&mut self.key, &mut self.cell.key_len, &[]);
        heap.store(&mut self.value, &mut self.cell.value_len, &[]);
        *self = Self::EMPTY;
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
fn heap_slot(inline: &[u8]) -> u32 {
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
    /// Bytes of a cell, in it or here.
    #[inline(always)]
    fn bytes_of<'a>(&'a self, inline: &'a [u8], len: u8) -> &'a [u8] {
        if len == IN_HEAP { &self.items[heap_slot(inline) as usize] } else { &inline[..len as usize] }
    }

    /// Stores bytes inline or here, and lets go of what was there.
    #[inline(always)]
    fn store<const N: usize>(&mut self, inline: &mut [u8; N], len: &mut u8, bytes: &[u8]) {
        if *len == IN_HEAP || bytes.len() > N {
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
    fn store_large<const N: usize>(&mut self, inline: &mut [u8; N], len: &mut u8, bytes: &[u8]) {
        match (*len == IN_HEAP, bytes.len() > N) {
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
    fn a_cell_is_one_cache_line_or_half_of_one() {
        assert_eq!((size_of::<Wide>(), align_of::<Wide>()), (64, 64));
        assert_eq!((size_of::<Narrow>(), align_of::<Narrow>()), (32, 32));
    }

    #[test]
    fn keys_and_values_of_every_size_come_back() {
        let mut pool = CellPool::new();
        let sizes = [0, 1, 7, 8, 9, 23, 24, 25, 254, 255, 256, 70_000];
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

    #[test]
    fn a_cell_is_narrow_unless_its_bytes_or_its_state_s_values_want_it_wide() {
        let bytes_of = |state, key: usize, value: Option<usize>, pool: &mut CellPool| {
            let before = pool.bytes() - pool.heap.bytes;
            pool.insert(0, state, &vec![b'k'; key], value.map(|len| vec![b'v'; len]).as_deref());
            pool.bytes() - pool.heap.bytes - before
        };
        let mut pool = CellPool::new();
        for (key, value, bytes) in [
            (8, Some(8), 32),
            (8, None, 32),
            (9, Some(0), 64),
            (24, None, 64),
            (8, Some(9), 64),
            (25, Some(24), 64),
            // In the heap in any case.
            (25, Some(25), 32),
            (8, Some(25), 32),
        ] {
            assert_eq!(bytes_of(0, key, value, &mut pool), bytes, "key of {key}, value of {value:?} bytes");
        }
        // One value of state 3 was too wide for its cell: later cells are wide from the start. Those of other states are not.
        let id = pool.insert(0, 3, b"key", None);
        pool.set_value(id, Some(&[1; 24]));
        assert_eq!(pool.value(id), Some(&[1; 24][..]));
        assert_eq!([bytes_of(3, 3, None, &mut pool), bytes_of(2, 3, None, &mut pool)], [64, 32]);
    }

    #[test]
    fn ids_that_were_never_given_out_are_free_and_passed_over() {
        let mut pool = CellPool::new();
        let (narrow, wide) = ([1, 2].map(|i: u8| pool.insert(0, 0, &[i], None)), pool.insert(0, 0, &[3; 9], None));
        let (second, bound) = (CHUNK as u32, CHUNK as u32 + 1);
        assert_eq!((narrow, wide, pool.id_bound()), ([0, 1], second, bound));
        assert!(pool.get(2).kind == Kind::Free && pool.get(second - 1).kind == Kind::Free);
        assert_eq!(pool.ids(0..bound).collect::<Vec<_>>(), [0, 1, second]);
        assert_eq!(pool.ids(1..second).collect::<Vec<_>>(), [1]);
        assert_eq!(pool.ids(2..second).count(), 0);
    }
}
