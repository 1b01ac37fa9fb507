//! Columnar record batches: the same bytes in a channel, in a guest's memory and in a snapshot.
//!
//! Invariants of a `RecordBatch` (checked where foreign bytes come in, by [`RecordBatch::from_parts`]):
//! `index` has `2 * count + 1` ascending offsets, the last one is `data.len()`, and `times` has `count` entries.

mod meta;
mod split;

pub use meta::Headers;

use meta::Meta;
use std::fmt;

/// A batch of records (key, value, event time), in columns; and what some records have beside these, such as headers.
///
/// `index` and `times` are packed little-endian bytes, not integers, since that is what crosses the plugin boundary with
/// one copy.
#[derive(Clone, Debug)]
pub struct RecordBatch {
    count: u32,
    data: Vec<u8>,
    index: Vec<u8>,
    times: Vec<u8>,
    /// What records have beside the columns; none: nothing.
    meta: Option<Box<Meta>>,
    /// Hashes of the first keys; see [`RecordBatch::key_hashes`].
    hashes: Vec<u64>,
}

impl PartialEq for RecordBatch {
    /// Whether the records are the same; hashes follow from the keys.
    fn eq(&self, other: &Self) -> bool {
        (self.count, &self.data, &self.index, &self.times) == (other.count, &other.data, &other.index, &other.times)
            && self.same_meta(other)
    }
}

impl Eq for RecordBatch {}

/// Why foreign bytes are not a batch or a column. The text is meant for the plugin's author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// The `i`-th little-endian `u32` of a packed column.
#[inline]
pub fn u32_at(packed: &[u8], i: usize) -> u32 {
    let at = i * 4;
    u32::from_le_bytes(packed[at..at + 4].try_into().expect("four bytes were sliced"))
}

/// Checks that `index` holds `entries` ascending offsets that end at `length`.
///
/// Two passes: the first says only whether, without a branch, so that the compiler makes it wide; the second, on a fault,
/// says where.
pub(crate) fn check_index(what: &str, index: &[u8], entries: usize, length: usize) -> Result<(), Malformed> {
    if entries == 0 || index.len() != entries * 4 {
        return Err(Malformed(format!("{what}: the index has {} bytes, {} were expected", index.len(), entries * 4)));
    }
    let mut falls = false;
    for (before, after) in index.chunks_exact(4).zip(index[4..].chunks_exact(4)) {
        falls |= u32_at(after, 0) < u32_at(before, 0);
    }
    if falls || u32_at(index, 0) != 0 || u32_at(index, entries - 1) as usize != length {
        return Err(index_fault(what, index, entries, length));
    }
    Ok(())
}

/// What is wrong with an index that failed the check.
#[cold]
fn index_fault(what: &str, index: &[u8], entries: usize, length: usize) -> Malformed {
    if u32_at(index, 0) != 0 {
        return Malformed(format!("{what}: the first offset is {}, not 0", u32_at(index, 0)));
    }
    for i in 1..entries {
        let (before, offset) = (u32_at(index, i - 1), u32_at(index, i));
        if offset < before {
            return Malformed(format!("{what}: offset {i} is {offset}, below the one before it, {before}"));
        }
    }
    let last = u32_at(index, entries - 1);
    Malformed(format!("{what}: the last offset is {last}, but there are {length} bytes of data"))
}

impl RecordBatch {
    /// An empty batch.
    pub fn new() -> Self {
        RecordBatch { count: 0, data: Vec::new(), index: vec![0; 4], times: Vec::new(), meta: None, hashes: Vec::new() }
    }

    /// An empty batch with room for `records` records of `bytes` bytes in all.
    pub fn with_capacity(records: usize, bytes: usize) -> Self {
        let mut index = Vec::with_capacity(records * 8 + 4);
        index.extend_from_slice(&[0; 4]);
        let (data, times) = (Vec::with_capacity(bytes), Vec::with_capacity(records * 8));
        RecordBatch { count: 0, data, index, times, meta: None, hashes: Vec::new() }
    }

    /// Takes foreign columns over, after checking the invariants.
    pub fn from_parts(count: u32, data: Vec<u8>, index: Vec<u8>, times: Vec<u8>, aux: Vec<u8>) -> Result<Self, Malformed> {
        let n = count as usize;
        // An empty output needs no index: guests may leave it out.
        let is_left_out = n == 0 && index.is_empty() && data.is_empty() && times.is_empty();
        let index = if is_left_out { vec![0; 4] } else { index };
        check_index("batch", &index, 2 * n + 1, data.len())?;
        if times.len() != n * 8 {
            return Err(Malformed(format!("batch: times has {} bytes, {} were expected", times.len(), n * 8)));
        }
        let mut batch = RecordBatch { count, data, index, times, meta: None, hashes: Vec::new() };
        batch.take_aux(&aux)?;
        Ok(batch)
    }

    /// Appends one record. `time`: event time, ms since the Unix epoch.
    ///
    /// # Panics
    /// If `data` would pass 4 GiB; writers cut batches long before.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8], time: i64) {
        self.push_parts(key, &[value], time);
    }

    /// Appends one record whose value is these parts, one after the other.
    ///
    /// # Panics
    /// As [`Self::push`].
    #[inline]
    pub fn push_parts(&mut self, key: &[u8], value: &[&[u8]], time: i64) {
        self.data.extend_from_slice(key);
        self.index.extend_from_slice(&(self.data.len() as u32).to_le_bytes());
        value.iter().for_each(|part| self.data.extend_from_slice(part));
        let end = u32::try_from(self.data.len()).expect("a batch stays far below 4 GiB");
        self.index.extend_from_slice(&end.to_le_bytes());
        self.times.extend_from_slice(&time.to_le_bytes());
        self.count += 1;
    }

    /// Number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no record.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the batch weighs in a channel.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.data.len() + self.index.len() + self.times.len() + self.meta_bytes() + self.hashes.len() * 8
    }

    /// [`key_hash`](crate::state::key_hash) of every key, if this batch was split by them. A record is only ever appended, so
    /// that hashes are those of the first keys, and as many as there are records are those of all.
    #[inline]
    pub fn key_hashes(&self) -> Option<&[u64]> {
        (self.hashes.len() == self.len()).then_some(&self.hashes)
    }

    /// Where key `i` lies in [`data`](Self::data), as (start, end).
    #[inline]
    pub fn key_span(&self, i: usize) -> (u32, u32) {
        (u32_at(&self.index, 2 * i), u32_at(&self.index, 2 * i + 1))
    }

    /// Key of record `i`.
    #[inline]
    pub fn key(&self, i: usize) -> &[u8] {
        let (start, end) = self.key_span(i);
        &self.data[start as usize..end as usize]
    }

    /// Value of record `i`.
    #[inline]
    pub fn value(&self, i: usize) -> &[u8] {
        &self.data[u32_at(&self.index, 2 * i + 1) as usize..u32_at(&self.index, 2 * i + 2) as usize]
    }

    /// Event time of record `i`, ms since the Unix epoch.
    #[inline]
    pub fn time(&self, i: usize) -> i64 {
        i64::from_le_bytes(self.times[i * 8..i * 8 + 8].try_into().expect("eight bytes were sliced"))
    }

    /// The column of keys and values.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The offsets, u32 little-endian × (2n + 1).
    pub fn index(&self) -> &[u8] {
        &self.index
    }

    /// The event times, i64 little-endian × n.
    pub fn times(&self) -> &[u8] {
        &self.times
    }

    /// Appends all records of another batch, with all that they have; not the blocks of `aux` that belong to no record.
    ///
    /// # Panics
    /// If `data` would pass 4 GiB; writers cut batches long before.
    pub fn append(&mut self, other: &RecordBatch) {
        let base = u32::try_from(self.data.len()).expect("a batch stays far below 4 GiB");
        u32::try_from(self.data.len() + other.data.len()).expect("a batch stays far below 4 GiB");
        self.data.extend_from_slice(&other.data);
        self.index.extend(other.index[4..].chunks_exact(4).flat_map(|offset| (u32_at(offset, 0) + base).to_le_bytes()));
        self.times.extend_from_slice(&other.times);
        self.count += other.count;
        self.append_meta(other);
    }

    /// Forgets all records and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.data.clear();
        self.index.truncate(4);
        self.times.clear();
        self.meta = None;
        self.hashes.clear();
    }

    /// Appends record `i` of another batch, with all that it has.
    #[inline]
    pub fn push_from(&mut self, other: &RecordBatch, i: usize) {
        self.push(other.key(i), other.value(i), other.time(i));
        self.copy_meta(self.len() - 1, other, i);
    }

    /// The records whose index satisfies `keep`, in order, with all that they have.
    pub fn filter(&self, mut keep: impl FnMut(usize) -> bool) -> RecordBatch {
        let mut out = RecordBatch::with_capacity(self.len(), self.data.len());
        out.copy_foreign(self);
        for i in 0..self.len() {
            if keep(i) {
                out.push_from(self, i);
            }
        }
        out
    }

    /// Records `start .. start + len` as a batch of their own.
    ///
    /// # Panics
    /// If the range leaves the batch.
    pub fn slice(&self, start: usize, len: usize) -> RecordBatch {
        assert!(start + len <= self.len(), "slice {start}+{len} of a batch of {}", self.len());
        let mut out = RecordBatch::with_capacity(len, self.size_bytes() * len / self.len().max(1));
        out.copy_foreign(self);
        for i in start..start + len {
            out.push_from(self, i);
        }
        out
    }
}

impl Default for RecordBatch {
    fn default() -> Self {
        RecordBatch::new()
    }
}

/// Byte strings, packed: `index` has n + 1 ascending offsets, the last one is `data.len()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    data: Vec<u8>,
    index: Vec<u8>,
}

impl Column {
    /// An empty column.
    pub fn new() -> Self {
        Column { data: Vec::new(), index: vec![0; 4] }
    }

    /// Takes foreign bytes over, after checking them.
    pub fn from_parts(data: Vec<u8>, index: Vec<u8>) -> Result<Self, Malformed> {
        if index.len() < 4 || !index.len().is_multiple_of(4) {
            return Err(Malformed(format!("column: the index has {} bytes, not a multiple of 4 above 0", index.len())));
        }
        check_index("column", &index, index.len() / 4, data.len())?;
        Ok(Column { data, index })
    }

    /// Appends one string.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.index.extend_from_slice(&(self.data.len() as u32).to_le_bytes());
    }

    /// Number of strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len() / 4 - 1
    }

    /// True if there is no string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `i`.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        &self.data[u32_at(&self.index, i) as usize..u32_at(&self.index, i + 1) as usize]
    }

    /// All strings, one after the other.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The offsets, u32 little-endian × (n + 1).
    pub fn index(&self) -> &[u8] {
        &self.index
    }

    /// Data and offsets, for who sends them on.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.data, self.index)
    }

    /// Forgets all strings and keeps the memory.
    pub fn clear(&mut self) {
        self.data.clear();
        self.index.truncate(4);
    }
}

impl Default for Column {
    fn default() -> Self {
        Column::new()
    }
}

/// State values with one operation byte each; see [`CellOp`]. An empty value is a value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cells {
    ops: Vec<u8>,
    column: Column,
}

/// What a cell says. To the guest 0 is *absent* and 1 is *present*; from the guest 0 is *keep*, 1 *put*, 2 *delete*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CellOp {
    /// Absent (to the guest), or leave as it is (from the guest).
    None = 0,
    /// Present, or set to this value.
    Put = 1,
    /// Delete.
    Delete = 2,
}

impl Cells {
    /// No cells.
    pub fn new() -> Self {
        Cells::default()
    }

    /// Takes foreign bytes over, after checking them.
    pub fn from_parts(ops: Vec<u8>, data: Vec<u8>, index: Vec<u8>) -> Result<Self, Malformed> {
        let column = Column::from_parts(data, index)?;
        if column.len() != ops.len() {
            return Err(Malformed(format!("cells: {} operations for {} values", ops.len(), column.len())));
        }
        let cells = Cells { ops, column };
        for (i, &op) in cells.ops.iter().enumerate() {
            match op {
                1 => {}
                0 | 2 if cells.column.get(i).is_empty() => {}
                0 | 2 => return Err(Malformed(format!("cells: cell {i} has operation {op}, which takes no value, and a value"))),
                _ => return Err(Malformed(format!("cells: operation {op} is none of 0, 1, 2"))),
            }
        }
        Ok(cells)
    }

    /// Appends a present value.
    #[inline]
    pub fn push_put(&mut self, value: &[u8]) {
        self.ops.push(CellOp::Put as u8);
        self.column.push(value);
    }

    /// Appends absent / keep.
    #[inline]
    pub fn push_none(&mut self) {
        self.ops.push(CellOp::None as u8);
        self.column.push(&[]);
    }

    /// Appends a delete.
    #[inline]
    pub fn push_delete(&mut self) {
        self.ops.push(CellOp::Delete as u8);
        self.column.push(&[]);
    }

    /// Number of cells.
    #[inline]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True if there is no cell.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// What cell `i` says.
    #[inline]
    pub fn op(&self, i: usize) -> CellOp {
        match self.ops[i] {
            0 => CellOp::None,
            1 => CellOp::Put,
            _ => CellOp::Delete,
        }
    }

    /// Value of cell `i`; empty unless its operation is `Put`.
    #[inline]
    pub fn value(&self, i: usize) -> &[u8] {
        self.column.get(i)
    }

    /// The value, if cell `i` is present.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        (self.ops[i] == CellOp::Put as u8).then(|| self.column.get(i))
    }

    /// The operation bytes.
    pub fn ops(&self) -> &[u8] {
        &self.ops
    }

    /// The values as a column.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// Operations and values, for who sends them on.
    pub fn into_parts(self) -> (Vec<u8>, Column) {
        (self.ops, self.column)
    }

    /// Forgets all cells and keeps the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.column.clear();
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
