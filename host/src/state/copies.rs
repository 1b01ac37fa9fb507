//! What was copied out of the cells for one frozen set: rows in blocks.
//!
//! Rows for a row file go out block by block, in any order. Rows for the store stay until all are there, and are sorted by
//! their store key, `key group (u16 big-endian) · state (u16 big-endian) · user key`, so that its byte order is the logical order.

use super::hints;
use super::rows::{Block, Row, Rows, of};
use weir_plugin::state::{KEY_GROUPS, StateId, cell_hash, key_group};

/// Bytes of a store key before the user's key.
pub(super) const PREFIX: usize = 4;
/// Large enough to be cheap, small enough that growth never stalls a batch.
const BLOCK: usize = 256 << 10;
/// The first block of a part.
const SMALLEST_BLOCK: usize = 4 << 10;
/// Rows that are sorted are kept in parts, by the top of their key group: each is sorted by itself, in memory for a part alone.
pub(super) const PARTS: usize = 16;
/// How far ahead rows are asked for.
const AHEAD: usize = 16;

/// The part of a store key before the user's key.
#[inline(always)]
pub(super) fn key_prefix(group: u16, state: StateId) -> [u8; PREFIX] {
    let (group, state) = (group.to_be_bytes(), state.to_be_bytes());
    [group[0], group[1], state[0], state[1]]
}

/// Takes a store key apart: group, state, user key. None if it is too short to be one.
pub(super) fn split_key(store_key: &[u8]) -> Option<(u16, StateId, &[u8])> {
    let (prefix, key) = store_key.split_first_chunk::<PREFIX>()?;
    Some((u16::from_be_bytes([prefix[0], prefix[1]]), u16::from_be_bytes([prefix[2], prefix[3]]), key))
}

/// The part that a key group's rows are in.
#[inline(always)]
pub(super) fn part_of(group: u16) -> usize {
    usize::from(group) * PARTS / KEY_GROUPS as usize
}

/// Copied cells, each (state, key) once.
pub(super) struct Copies {
    /// By part; one alone if they are not sorted.
    parts: Vec<Vec<Block>>,
    rows: usize,
    bytes: usize,
}

impl Copies {
    /// For a row file.
    pub(super) fn in_any_order() -> Self {
        Copies { parts: vec![Vec::new()], rows: 0, bytes: 0 }
    }

    /// For the store.
    pub(super) fn to_be_sorted() -> Self {
        Copies { parts: (0..PARTS).map(|_| Vec::new()).collect(), rows: 0, bytes: 0 }
    }

    /// True for [`Self::to_be_sorted`].
    pub(super) fn are_to_be_sorted(&self) -> bool {
        self.parts.len() > 1
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if nothing was copied.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends one cell; no value is a delete.
    #[inline]
    pub(super) fn push(&mut self, group: u16, state: StateId, key: &[u8], value: Option<&[u8]>) {
        let part = if self.parts.len() == 1 { 0 } else { part_of(group) };
        let needed = Block::row_bytes(key, value);
        let block = match self.parts[part].last_mut() {
            Some(block) if block.has_room(needed) => block,
            _ => self.add_block(part, needed),
        };
        block.push(state, key, value);
        self.rows += 1;
    }

    #[cold]
    fn add_block(&mut self, part: usize, needed: usize) -> &mut Block {
        // A few rows need no large block; many are to have few.
        let usual = (self.rows * needed / self.parts.len()).clamp(SMALLEST_BLOCK, BLOCK);
        let block = Block::with_capacity(needed.max(usual));
        self.bytes += block.memory();
        let blocks = &mut self.parts[part];
        blocks.push(block);
        blocks.last_mut().expect("a block was just pushed")
    }

    /// Takes the blocks that are full, of rows in any order.
    pub(super) fn take_full(&mut self) -> impl Iterator<Item = Block> {
        let full = match &mut self.parts[..] {
            [blocks] => blocks.len().saturating_sub(1),
            _ => 0,
        };
        self.bytes -= self.parts[0][..full].iter().map(Block::memory).sum::<usize>();
        self.parts[0].drain(..full)
    }

    /// All blocks.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = Block> {
        self.parts.into_iter().flatten()
    }

    /// Calls `each` with store keys and values (or deletes), ascending.
    pub(super) fn in_order<E>(&self, mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>) -> Result<(), E> {
        let mut store_key = Vec::new();
        for blocks in &self.parts {
            let order = order(blocks);
            for (at, entry) in order.iter().enumerate() {
                // In this order the rows lie anywhere.
                // An empty row at the end of its block has no first byte.
                let first = |ahead: &Entry| blocks[ahead.block as usize].bytes().get(ahead.row.key.0 as usize);
                if let Some(first) = order.get(at + AHEAD).and_then(first) {
                    hints::prefetch(first);
                }
                let bytes = blocks[entry.block as usize].bytes();
                store_key.clear();
                store_key.extend_from_slice(&entry.head[..PREFIX]);
                store_key.extend_from_slice(of(bytes, entry.row.key));
                each(&store_key, entry.row.value.map(|value| of(bytes, value)))?;
            }
        }
        Ok(())
    }
}

/// The rows of a part in the order of their store keys.
fn order(blocks: &[Block]) -> Vec<Entry> {
    let mut order = Vec::new();
    for (block, bytes) in blocks.iter().map(Block::bytes).enumerate() {
        for row in Rows::of(bytes) {
            let row = row.expect("a block holds the rows that were pushed");
            order.push(Entry { head: head(row.state, of(bytes, row.key)), block: block as u32, row });
        }
    }
    let key = |entry: &Entry| of(blocks[entry.block as usize].bytes(), entry.row.key);
    order.sort_unstable_by(|a, b| {
        let heads = u64::from_be_bytes(a.head).cmp(&u64::from_be_bytes(b.head));
        heads.then_with(|| key(a).cmp(key(b)))
    });
    order
}

/// A row by its place, with the first bytes of its store key: most comparisons end there.
struct Entry {
    head: [u8; 8],
    block: u32,
    row: Row,
}

/// The first eight bytes of a store key (a shorter one is padded; ties are decided by the whole key).
fn head(state: StateId, key: &[u8]) -> [u8; 8] {
    let mut head = [0; 8];
    head[..PREFIX].copy_from_slice(&key_prefix(key_group(cell_hash(state, key)), state));
    let len = key.len().min(head.len() - PREFIX);
    head[PREFIX..PREFIX + len].copy_from_slice(&key[..len]);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_plugin::state::key_hash;

    #[test]
    fn rows_come_out_in_the_order_of_the_store_with_deletes_and_empty_values() {
        let large = vec![9u8; 3 << 20];
        let keys: [&[u8]; 9] = [b"b", b"", b"b\0", b"a", b"zzzzzzzzzzzz2", b"zzzzzzzzzzzz1", b"12345678", b"12345679", b"last"];
        let values: [Option<&[u8]>; 9] =
            [Some(b""), Some(b"v"), Some(&large), None, Some(b"2"), Some(b"1"), Some(b"same"), Some(b"long"), None];
        let mut copies = Copies::to_be_sorted();
        let mut expected = Vec::new();
        for state in [300, 0, 7] {
            for (key, value) in keys.into_iter().zip(values) {
                let group = key_group(key_hash(key));
                copies.push(group, state, key, value);
                expected.push(([&key_prefix(group, state), key].concat(), value.map(<[u8]>::to_vec)));
            }
        }
        expected.sort();
        let mut rows = Vec::new();
        let done: Result<(), ()> = copies.in_order(|key, value| {
            rows.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok(())
        });
        done.expect("nothing fails");
        assert!(rows == expected);
    }

    #[test]
    fn an_empty_key_without_a_value_may_be_the_last_of_its_block() {
        let mut copies = Copies::to_be_sorted();
        let empty_part = part_of(key_group(key_hash(b"")));
        let others = (0u32..).map(u32::to_le_bytes).filter(|key| part_of(key_group(key_hash(key))) == empty_part);
        for key in others.take(200) {
            copies.push(key_group(key_hash(&key)), 0, &key, Some(b"v"));
        }
        copies.push(key_group(key_hash(b"")), 0, b"", None);
        let mut rows = 0;
        let done: Result<(), ()> = copies.in_order(|_, _| {
            rows += 1;
            Ok(())
        });
        done.expect("nothing fails");
        assert_eq!(rows, 201);
    }

    #[test]
    fn full_blocks_go_out_one_after_the_other() {
        let mut copies = Copies::in_any_order();
        let (mut rows, mut blocks) = (0, 0);
        let mut look = |block: &Block| {
            for row in Rows::of(block.bytes()) {
                let row = row.expect("it was pushed");
                assert_eq!(of(block.bytes(), row.key), u64::to_be_bytes(rows));
                rows += 1;
            }
        };
        for n in 0..100_000u64 {
            copies.push(0, 1, &n.to_be_bytes(), Some(&n.to_le_bytes()));
            for block in copies.take_full() {
                blocks += 1;
                look(&block);
            }
            assert!(copies.bytes() <= BLOCK);
        }
        copies.into_blocks().for_each(|block| look(&block));
        assert!(rows == 100_000 && blocks > 5);
    }
}
