//! What records have beside key, value and event time: null values, keys of no bytes, headers. In the contract: `types.batch.aux`.
//!
//! Invariants of a `Meta`: a column is as long as the batch or shorter, and what it does not reach has nothing; a record that is
//! marked as a key of no bytes has an empty key, one that is marked as a null value an empty value; `headers` is a row of whole
//! headers, and no record's end lies inside one. A batch whose records have nothing beside has none, and pays one branch.

use super::{Malformed, RecordBatch, check_index, u32_at};
use std::borrow::Cow;

/// Tag of the block with one byte of marks for each record.
const MARKS: u16 = 1;
/// Tag of the block with the headers of each record.
const HEADERS: u16 = 2;
/// Tag and length of a block.
const HEAD_BYTES: usize = 6;

/// Mark: the key is there and has no bytes. Without it an empty key is no key.
const EMPTY_KEY: u8 = 1;
/// Mark: the value is null, which is not the empty value.
const NULL_VALUE: u8 = 2;

/// The length that says null.
const NULL: u32 = u32::MAX;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    marks: Vec<u8>,
    /// Where the headers of each record end in `headers`; they begin where those of the record before end.
    ends: Vec<u32>,
    headers: Vec<u8>,
    /// Blocks with other tags, as they came.
    foreign: Vec<u8>,
}

/// The headers of one record, in order: names, which may repeat, and values, which may be null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the last header of this name, as Kafka's `lastHeader` chooses; none: there is none.
    pub fn last_of(self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.filter(|(own, _)| *own == name).last().map(|(_, value)| value)
    }

    /// Takes a length and so many bytes; an outer none: they are not all there; an inner one: null.
    fn part(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        if length == NULL {
            self.0 = rest;
            return Some(None);
        }
        let (bytes, rest) = rest.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(Some(bytes))
    }
}

impl<'a> Iterator for Headers<'a> {
    /// Name and value.
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let (name, value) = self.part().flatten().zip(self.part()).expect("foreign headers were checked");
        Some((name, value))
    }
}

fn put(bytes: Option<&[u8]>, into: &mut Vec<u8>) {
    let length = bytes.map_or(NULL, |bytes| bytes.len() as u32);
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(bytes.unwrap_or_default());
}

impl Meta {
    #[inline]
    fn marks(&self, record: usize) -> u8 {
        self.marks.get(record).copied().unwrap_or(0)
    }

    #[inline]
    fn headers(&self, record: usize) -> Headers<'_> {
        let Some(end) = self.ends.get(record) else { return Headers::default() };
        let start = record.checked_sub(1).map_or(0, |before| self.ends[before]);
        Headers(&self.headers[start as usize..*end as usize])
    }

    /// Adds marks to a record behind which none has any.
    fn mark(&mut self, record: usize, marks: u8) {
        self.marks.resize(record + 1, 0);
        self.marks[record] |= marks;
    }

    /// Adds headers to a record behind which none has any.
    fn add_headers(&mut self, record: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.headers.len() as u32;
        self.ends.resize(record + 1, before);
        write(&mut self.headers);
        self.ends[record] = u32::try_from(self.headers.len()).expect("a batch stays far below 4 GiB");
    }

    /// Gives a record what record `i` of another batch has.
    fn copy(&mut self, record: usize, other: &Meta, i: usize) {
        let (marks, headers) = (other.marks(i), other.headers(i));
        if marks != 0 {
            self.mark(record, marks);
        }
        if !headers.is_empty() {
            self.add_headers(record, |into| into.extend_from_slice(headers.0));
        }
    }

    /// Whether a record may have something.
    fn is_of_records(&self) -> bool {
        !self.marks.is_empty() || !self.headers.is_empty()
    }

    /// Takes foreign blocks over, after checking them. `columns`: the batch's, which are checked.
    fn parse(aux: &[u8], columns: &RecordBatch) -> Result<Self, Malformed> {
        let mut meta = Meta::default();
        let (mut has_marks, mut has_headers) = (false, false);
        let mut rest = aux;
        while !rest.is_empty() {
            let at = aux.len() - rest.len();
            let fault = |why: String| Err(Malformed(format!("batch: {why}")));
            let Some((head, body)) = rest.split_at_checked(HEAD_BYTES) else {
                return fault(format!("aux ends inside the head of the block at {at}"));
            };
            let (tag, length) = (u16::from_le_bytes([head[0], head[1]]), u32_at(&head[2..], 0));
            let Some((block, next)) = body.split_at_checked(length as usize) else {
                return fault(format!("the aux block at {at} says {length} bytes, {} are left", body.len()));
            };
            let seen = match tag {
                MARKS => std::mem::replace(&mut has_marks, true),
                HEADERS => std::mem::replace(&mut has_headers, true),
                _ => false,
            };
            if seen {
                return fault(format!("aux has a second block of tag {tag} at {at}"));
            }
            match tag {
                MARKS => meta.marks = parse_marks(block, columns)?,
                HEADERS => (meta.ends, meta.headers) = parse_headers(block, columns.len())?,
                _ => meta.foreign.extend_from_slice(&rest[..HEAD_BYTES + block.len()]),
            }
            rest = next;
        }
        Ok(meta)
    }

    /// As blocks; those that would say nothing are left out.
    fn blocks(&self, records: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() + 4 * HEAD_BYTES + 4);
        let head = |tag: u16, length: usize, out: &mut Vec<u8>| {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&u32::try_from(length).expect("a batch stays far below 4 GiB").to_le_bytes());
        };
        if !self.marks.is_empty() {
            head(MARKS, records, &mut out);
            out.extend_from_slice(&self.marks);
            out.resize(out.len() + records - self.marks.len(), 0);
        }
        if !self.headers.is_empty() {
            head(HEADERS, (records + 1) * 4 + self.headers.len(), &mut out);
            out.extend_from_slice(&[0; 4]);
            out.extend(self.ends.iter().flat_map(|end| end.to_le_bytes()));
            let last = (self.headers.len() as u32).to_le_bytes();
            (self.ends.len()..records).for_each(|_| out.extend_from_slice(&last));
            out.extend_from_slice(&self.headers);
        }
        out.extend_from_slice(&self.foreign);
        out
    }

    /// Bytes that it weighs.
    fn bytes(&self) -> usize {
        self.marks.len() + self.ends.len() * 4 + self.headers.len() + self.foreign.len()
    }
}

/// Checks a block of marks.
fn parse_marks(block: &[u8], columns: &RecordBatch) -> Result<Vec<u8>, Malformed> {
    let fault = |why: String| Err(Malformed(format!("batch: the aux block of marks (tag {MARKS}) {why}")));
    if block.len() != columns.len() {
        return fault(format!("has {} bytes for {} records", block.len(), columns.len()));
    }
    for (i, &marks) in block.iter().enumerate() {
        if marks & !(EMPTY_KEY | NULL_VALUE) != 0 {
            return fault(format!("marks record {i} with {marks:#04x}: bits 0 and 1 alone mean something"));
        }
        if marks & EMPTY_KEY != 0 && !columns.key(i).is_empty() {
            return fault(format!("says that the key of record {i} has no bytes; it has {}", columns.key(i).len()));
        }
        if marks & NULL_VALUE != 0 && !columns.value(i).is_empty() {
            return fault(format!("says that the value of record {i} is null; it has {} bytes", columns.value(i).len()));
        }
    }
    Ok(block.to_vec())
}

/// Checks a block of headers. Gives where each record's end, and all of them.
fn parse_headers(block: &[u8], records: usize) -> Result<(Vec<u32>, Vec<u8>), Malformed> {
    let what = format!("batch: the aux block of headers (tag {HEADERS})");
    let Some((index, headers)) = block.split_at_checked((records + 1) * 4) else {
        return Err(Malformed(format!("{what} has {} bytes, too few for the offsets of {records} records", block.len())));
    };
    check_index(&what, index, records + 1, headers.len())?;
    let ends: Vec<u32> = index[4..].chunks_exact(4).map(|end| u32_at(end, 0)).collect();
    let mut start = 0;
    for (i, &end) in ends.iter().enumerate() {
        let mut rest = Headers(&headers[start..end as usize]);
        while !rest.is_empty() {
            let cut = |part: &str| Malformed(format!("{what}: a header of record {i} ends inside its {part}"));
            if rest.part().ok_or_else(|| cut("name"))?.is_none() {
                return Err(Malformed(format!("{what}: a header of record {i} has a null name")));
            }
            rest.part().ok_or_else(|| cut("value"))?;
        }
        start = end as usize;
    }
    Ok((ends, headers.to_vec()))
}

impl RecordBatch {
    /// Takes foreign extension blocks over; the columns are checked already.
    pub(super) fn take_aux(&mut self, aux: &[u8]) -> Result<(), Malformed> {
        if !aux.is_empty() {
            self.meta = Some(Box::new(Meta::parse(aux, self)?));
        }
        Ok(())
    }

    /// The extension blocks, as they cross the plugin boundary. Empty, and no work, for records that have nothing beside.
    pub fn aux(&self) -> Cow<'_, [u8]> {
        match &self.meta {
            None => Cow::Borrowed(&[]),
            Some(meta) if !meta.is_of_records() => Cow::Borrowed(&meta.foreign),
            Some(meta) => Cow::Owned(meta.blocks(self.len())),
        }
    }

    /// Whether the batch has blocks that nobody here knows: they belong to the batch and to no record of it.
    pub fn has_foreign_aux(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| !meta.foreign.is_empty())
    }

    /// The key of record `i`; none if it is null. An empty key is, unless it is marked as a key of no bytes.
    #[inline]
    pub fn key_or_null(&self, i: usize) -> Option<&[u8]> {
        let key = self.key(i);
        (!key.is_empty() || self.meta.as_ref().is_some_and(|meta| meta.marks(i) & EMPTY_KEY != 0)).then_some(key)
    }

    /// The value of record `i`; none if it is null, which is not the empty value.
    #[inline]
    pub fn value_or_null(&self, i: usize) -> Option<&[u8]> {
        let is_null = self.meta.as_ref().is_some_and(|meta| meta.marks(i) & NULL_VALUE != 0);
        (!is_null).then(|| self.value(i))
    }

    /// The headers of record `i`.
    #[inline]
    pub fn headers(&self, i: usize) -> Headers<'_> {
        self.meta.as_ref().map_or(Headers::default(), |meta| meta.headers(i))
    }

    /// Whether some record may have headers.
    pub fn has_headers(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| !meta.headers.is_empty())
    }

    /// The first record whose value is null.
    pub fn first_null_value(&self) -> Option<usize> {
        self.meta.as_ref()?.marks.iter().position(|marks| marks & NULL_VALUE != 0)
    }

    /// Appends a record whose key or value may be null. `time`: event time, ms since the Unix epoch.
    ///
    /// # Panics
    /// As [`Self::push`].
    #[inline]
    pub fn push_nullable(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, time: i64) {
        self.push(key.unwrap_or_default(), value.unwrap_or_default(), time);
        let is_empty_key = key.is_some_and(<[u8]>::is_empty);
        if is_empty_key || value.is_none() {
            let marks = if is_empty_key { EMPTY_KEY } else { 0 } | if value.is_none() { NULL_VALUE } else { 0 };
            let last = self.len() - 1;
            self.meta_mut().mark(last, marks);
        }
    }

    /// Adds a header to the last record.
    ///
    /// # Panics
    /// If there is no record, or the headers would pass 4 GiB.
    pub fn push_header(&mut self, name: &[u8], value: Option<&[u8]>) {
        let last = self.len().checked_sub(1).expect("a header belongs to a record");
        self.meta_mut().add_headers(last, |into| {
            put(Some(name), into);
            put(value, into);
        });
    }

    fn meta_mut(&mut self) -> &mut Meta {
        self.meta.get_or_insert_default()
    }

    /// Gives record `record`, the last one that has anything, what record `i` of another batch has.
    #[inline]
    pub(super) fn copy_meta(&mut self, record: usize, other: &RecordBatch, i: usize) {
        if let Some(meta) = &other.meta
            && meta.is_of_records()
        {
            self.meta_mut().copy(record, meta, i);
        }
    }

    /// The same for all records of another batch, which are the last ones here.
    pub(super) fn append_meta(&mut self, other: &RecordBatch) {
        if other.meta.is_some() {
            let before = self.len() - other.len();
            (0..other.len()).for_each(|i| self.copy_meta(before + i, other, i));
        }
    }

    /// Takes the blocks over that belong to no record.
    pub(super) fn copy_foreign(&mut self, other: &RecordBatch) {
        if other.has_foreign_aux() {
            let foreign = other.meta.as_ref().map(|meta| meta.foreign.clone()).unwrap_or_default();
            self.meta_mut().foreign = foreign;
        }
    }

    /// Bytes of all that is beside the columns.
    #[inline]
    pub(super) fn meta_bytes(&self) -> usize {
        self.meta.as_ref().map_or(0, |meta| meta.bytes())
    }

    /// Whether records of the same number have the same beside their columns.
    pub(super) fn same_meta(&self, other: &RecordBatch) -> bool {
        if self.meta.is_none() && other.meta.is_none() {
            return true;
        }
        let empty = Meta::default();
        let [a, b] = [self, other].map(|batch| batch.meta.as_deref().unwrap_or(&empty));
        a.foreign == b.foreign && (0..self.len()).all(|i| a.marks(i) == b.marks(i) && a.headers(i) == b.headers(i))
    }
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
