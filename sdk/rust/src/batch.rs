//! Reading a columnar batch record by record, without copying any.

use crate::bindings::types;
use crate::error::Error;
use crate::meta::{self, Headers, RecordParts};

/// One record of a batch. It borrows the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Key and value.
    bytes: &'a [u8],
    /// The two apart.
    key: &'a [u8],
    value: &'a [u8],
    time: i64,
    port: u32,
    /// The batch it is of: what it has beside these is looked up there.
    batch: &'a types::Batch,
    index: usize,
}

impl PartialEq for Record<'_> {
    /// Whether all that they have is the same, and their input.
    fn eq(&self, other: &Self) -> bool {
        (self.parts(), self.port) == (other.parts(), other.port)
    }
}

impl Eq for Record<'_> {}

impl<'a> Record<'a> {
    /// The key; empty if none was set.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value; empty if it is null.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The key; none if it is null. State knows no difference between a null key and an empty one.
    #[inline]
    pub fn key_or_null(&self) -> Option<&'a [u8]> {
        (!self.key.is_empty() || self.marks() & meta::EMPTY_KEY != 0).then_some(self.key)
    }

    /// The value; none if it is null, which is not the empty value.
    #[inline]
    pub fn value_or_null(&self) -> Option<&'a [u8]> {
        (self.marks() & meta::NULL_VALUE == 0).then_some(self.value)
    }

    /// Its headers.
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        match self.has_meta() {
            false => Headers::default(),
            true => Headers::of(&self.batch.aux, self.index, self.batch.count as usize),
        }
    }

    /// All that it has, to be emitted with changes.
    #[inline]
    pub fn parts(&self) -> RecordParts<'a> {
        RecordParts { key: self.key_or_null(), value: self.value_or_null(), time: self.time, headers: self.headers() }
    }

    /// Whether it may have more than key, value and time.
    #[inline]
    pub(crate) fn has_meta(&self) -> bool {
        !self.batch.aux.is_empty()
    }

    #[inline]
    pub(crate) fn marks(&self) -> u8 {
        if self.has_meta() { meta::marks(&self.batch.aux, self.index) } else { 0 }
    }

    /// Key and value in one piece.
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value as text; a bad record if it is not UTF-8.
    #[inline]
    pub fn text(&self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.value).map_err(|e| Error::BadRecord(format!("the value is not UTF-8: {e}")))
    }

    /// Event time in milliseconds since the Unix epoch.
    #[inline]
    pub fn time(&self) -> i64 {
        self.time
    }

    /// Which input it came from, in the order of the job file's `from`.
    #[inline]
    pub fn port(&self) -> u32 {
        self.port
    }
}

/// The records of one call.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    wire: &'a types::Batch,
    port: u32,
}

impl<'a> Batch<'a> {
    /// Looks at a batch of the contract. Its columns must fit together: then every offset taken from it can be trusted but
    /// for its order, which slicing checks.
    pub(crate) fn new(wire: &'a types::Batch, port: u32) -> Result<Self, Error> {
        let n = wire.count as usize;
        if wire.times.len() != n * 8 || wire.index.len() != (2 * n + 1) * 4 {
            return Err(Error::Fatal(format!(
                "the host's batch of {n} records has {} bytes of index and {} of times",
                wire.index.len(),
                wire.times.len()
            )));
        }
        Ok(Batch { wire, port })
    }

    /// Number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.wire.count as usize
    }

    /// True if there is no record.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.wire.count == 0
    }

    /// Bytes of all keys and values.
    #[inline]
    pub fn data_len(&self) -> usize {
        self.wire.data.len()
    }

    /// The records in order.
    #[inline]
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let Batch { wire, port } = *self;
        let mut start = 0usize;
        // An empty batch may come without any offset.
        let offsets = wire.index.get(4..).unwrap_or_default().chunks_exact(8);
        offsets.zip(wire.times.chunks_exact(8)).enumerate().map(move |(index, (ends, time))| {
            let (key_end, value_end) = (u32_of(&ends[..4]), u32_of(&ends[4..]));
            let bytes = &wire.data[start..value_end];
            let (key, value) = bytes.split_at(key_end - start);
            let time = i64::from_le_bytes(time.try_into().expect("chunks of eight"));
            let record = Record { bytes, key, value, time, port, batch: wire, index };
            start = value_end;
            record
        })
    }
}

/// A little-endian `u32` as an index.
#[inline]
pub(crate) fn u32_of(four: &[u8]) -> usize {
    u32::from_le_bytes(four.try_into().expect("four bytes were sliced")) as usize
}

/// Reads a packed column: string `i` of `data`, delimited by the `u32` offsets of `index`.
#[inline]
pub(crate) fn string_at<'a>(data: &'a [u8], index: &[u8], i: usize) -> &'a [u8] {
    &data[u32_of(&index[i * 4..i * 4 + 4])..u32_of(&index[i * 4 + 4..i * 4 + 8])]
}
