//! What was copied out of the cache for one frozen set: rows in an arena, sorted when they are written.
//!
//! A row is `key length (u32) · value length (u32, MAX = deleted) · store key · value`. The store key is
//! `key group (u16 big-endian) · state (u16 big-endian) · user key`, so that its byte order is the logical order.

use super::hints;
use weir_plugin::state::{KEY_GROUPS, StateId};

/// Bytes of a store key before the user's key.
pub(super) const PREFIX: usize = 4;
/// Arena block: large enough to be cheap, small enough that growth never stalls a batch.
const BLOCK: usize = 1 << 20;
/// The first block of a part.
const SMALLEST_BLOCK: usize = 4 << 10;
const HEADER: usize = 8;
const DELETED: u32 = u32::MAX;
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

/// Parts in which rows are kept, by the top of their key group: each is sorted by itself, in memory for a part alone.
const PARTS: usize = 16;

/// Copied cells, each (state, key) once.
#[derive(Default)]
pub(super) struct Copies {
    parts: [Vec<Vec<u8>>; PARTS],
    rows: usize,
    bytes: usize,
}

impl Copies {
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Cells copied.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// True if nothing was copied.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends one cell; no value is a delete.
    #[inline]
    pub(super) fn push(&mut self, group: u16, state: StateId, key: &[u8], value: Option<&[u8]>) {
        let needed = HEADER + PREFIX + key.len() + value.map_or(0, <[u8]>::len);
        let part = usize::from(group) * PARTS / KEY_GROUPS as usize;
        let block = match self.parts[part].last_mut() {
            Some(block) if block.capacity() - block.len() >= needed => block,
            _ => self.add_block(part, needed),
        };
        let value_len = value.map_or(DELETED, |value| value.len() as u32);
        block.extend_from_slice(&((PREFIX + key.len()) as u32).to_le_bytes());
        block.extend_from_slice(&value_len.to_le_bytes());
        block.extend_from_slice(&key_prefix(group, state));
        block.extend_from_slice(key);
        block.extend_from_slice(value.unwrap_or_default());
        self.rows += 1;
    }

    #[cold]
    fn add_block(&mut self, part: usize, needed: usize) -> &mut Vec<u8> {
        let blocks = &mut self.parts[part];
        // A few rows need no large block; many are to have few.
        let size = needed.max((SMALLEST_BLOCK << blocks.len().min(8)).min(BLOCK));
        blocks.push(Vec::with_capacity(size));
        self.bytes += size;
        blocks.last_mut().expect("a block was just pushed")
    }

    /// (store key, value or delete), ascending.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Row<'_>> {
        self.parts.iter().flat_map(|blocks| {
            let order = order(blocks);
            (0..order.len()).map(move |at| {
                // In this order the rows lie anywhere in the arena.
                if let Some(ahead) = order.get(at + AHEAD) {
                    hints::prefetch(&blocks[ahead.block as usize][ahead.offset as usize]);
                }
                row_at(&blocks[order[at].block as usize], order[at].offset as usize).0
            })
        })
    }
}

/// The rows of a part in the order of their store keys.
fn order(blocks: &[Vec<u8>]) -> Vec<Entry> {
    let mut order = Vec::new();
    for (block, bytes) in blocks.iter().enumerate() {
        let mut offset = 0;
        while offset < bytes.len() {
            let (row, end) = row_at(bytes, offset);
            order.push(Entry { head: head(row.0), block: block as u32, offset: offset as u32 });
            offset = end;
        }
    }
    order.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| a.key(blocks).cmp(b.key(blocks))));
    order
}

/// A row by its place, with the first bytes of its key: most comparisons end there.
struct Entry {
    head: u64,
    block: u32,
    offset: u32,
}

impl Entry {
    fn key<'a>(&self, blocks: &'a [Vec<u8>]) -> &'a [u8] {
        row_at(&blocks[self.block as usize], self.offset as usize).0.0
    }
}

type Row<'a> = (&'a [u8], Option<&'a [u8]>);

/// The row that starts at `offset`, and where it ends.
fn row_at(block: &[u8], offset: usize) -> (Row<'_>, usize) {
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes were sliced"));
    let (key_len, value_len) = (word(offset), word(offset + 4));
    let key_at = offset + HEADER;
    let value_at = key_at + key_len as usize;
    let key = &block[key_at..value_at];
    match value_len {
        DELETED => ((key, None), value_at),
        len => ((key, Some(&block[value_at..value_at + len as usize])), value_at + len as usize),
    }
}

/// The first eight bytes as a number that orders like them (a shorter key is padded; ties are decided by the whole key).
fn head(key: &[u8]) -> u64 {
    let mut bytes = [0u8; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_in_byte_order_with_deletes_and_empty_values() {
        let mut copies = Copies::default();
        let large = vec![9u8; 3 << 20];
        copies.push(32_767, 0, b"last", Some(b"in another part"));
        copies.push(2, 0, b"b", Some(b""));
        copies.push(1, 7, b"", None);
        copies.push(2, 0, b"", Some(b"v"));
        copies.push(2, 0, b"b\0", Some(&large));
        copies.push(2, 0, b"a", None);
        copies.push(1, 300, b"zzzzzzzzzzzz2", Some(b"2"));
        copies.push(1, 300, b"zzzzzzzzzzzz1", Some(b"1"));
        let rows: Vec<_> = copies.in_order().map(|(key, value)| (split_key(key).expect("long enough"), value)).collect();
        let expected: [((u16, u16, &[u8]), Option<&[u8]>); 8] = [
            ((1, 7, b""), None),
            ((1, 300, b"zzzzzzzzzzzz1"), Some(b"1")),
            ((1, 300, b"zzzzzzzzzzzz2"), Some(b"2")),
            ((2, 0, b""), Some(b"v")),
            ((2, 0, b"a"), None),
            ((2, 0, b"b"), Some(b"")),
            ((2, 0, b"b\0"), Some(&large)),
            ((32_767, 0, b"last"), Some(b"in another part")),
        ];
        assert_eq!(rows, expected);
    }
}
