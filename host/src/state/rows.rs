//! Rows: what is copied out of the cells, and the files that hold them as long as no store is needed.
//!
//! `docs/state.md` has the format. A row names its state, its key and its value; the key group follows from the key. Rows of one
//! shape (state, length of key and value) after one another take one byte more than what they hold.

use super::{files, state_error};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use weir_plugin::state::{StateError, StateId};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"WEIRROW1";
/// The same shape as the last `PUT` of the block.
const SAME: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
/// Bytes of a `PUT` before key and value.
const HEADER: usize = 11;
/// Rows that are shorter on average are not compressed: that would cost more than all else that is done for them.
const COMPRESSED_FROM: usize = 64;

/// Rows after one another in memory. Each block can be read by itself.
pub(super) struct Block {
    bytes: Vec<u8>,
    rows: usize,
    shape: Option<Shape>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    state: StateId,
    key: u32,
    value: u32,
}

/// A row's key and value, as spans of its block. No value: it is deleted.
pub(super) struct Row {
    pub(super) state: StateId,
    pub(super) key: (u32, u32),
    pub(super) value: Option<(u32, u32)>,
}

impl Block {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Block { bytes: Vec::with_capacity(bytes), rows: 0, shape: None }
    }

    /// Bytes that a row takes at most.
    #[inline(always)]
    pub(super) fn row_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
        HEADER + key.len() + value.map_or(0, <[u8]>::len)
    }

    /// True if it takes this many bytes more without growing.
    #[inline(always)]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= bytes
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a row; no value is a delete.
    #[inline]
    pub(super) fn push(&mut self, state: StateId, key: &[u8], value: Option<&[u8]>) {
        self.rows += 1;
        let Some(value) = value else { return self.push_delete(state, key) };
        let shape = Shape { state, key: key.len() as u32, value: value.len() as u32 };
        if self.shape == Some(shape) {
            self.bytes.push(SAME);
        } else {
            self.begin_shape(shape);
        }
        self.append(key);
        self.append(value);
    }

    #[inline(always)]
    fn append(&mut self, bytes: &[u8]) {
        match <&[u8; 8]>::try_from(bytes) {
            // A number: one move instead of a call.
            Ok(word) => self.bytes.extend_from_slice(word),
            Err(_) => self.bytes.extend_from_slice(bytes),
        }
    }

    #[cold]
    fn begin_shape(&mut self, shape: Shape) {
        self.bytes.push(PUT);
        self.bytes.extend_from_slice(&shape.state.to_le_bytes());
        self.bytes.extend_from_slice(&shape.key.to_le_bytes());
        self.bytes.extend_from_slice(&shape.value.to_le_bytes());
        self.shape = Some(shape);
    }

    fn push_delete(&mut self, state: StateId, key: &[u8]) {
        self.bytes.push(DELETE);
        self.bytes.extend_from_slice(&state.to_le_bytes());
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
    }
}

/// The rows of a block's bytes. `Err`: they are no rows.
pub(super) struct Rows<'a> {
    bytes: &'a [u8],
    at: usize,
    shape: Option<Shape>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Rows { bytes, at: 0, shape: None }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(taken)
    }

    #[inline]
    fn span(&mut self, len: u32) -> Option<(u32, u32)> {
        let end = self.at.checked_add(len as usize).filter(|end| *end <= self.bytes.len())?;
        let span = (self.at as u32, end as u32);
        self.at = end;
        Some(span)
    }

    #[inline]
    fn row(&mut self) -> Option<Row> {
        match self.take::<1>()?[0] {
            SAME => {}
            PUT => {
                let state = StateId::from_le_bytes(self.take()?);
                let (key, value) = (u32::from_le_bytes(self.take()?), u32::from_le_bytes(self.take()?));
                self.shape = Some(Shape { state, key, value });
            }
            DELETE => {
                let state = StateId::from_le_bytes(self.take()?);
                let len = u32::from_le_bytes(self.take()?);
                return Some(Row { state, key: self.span(len)?, value: None });
            }
            _ => return None,
        }
        let Shape { state, key, value } = self.shape?;
        Some(Row { state, key: self.span(key)?, value: Some(self.span(value)?) })
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, NoRows>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.bytes.len()).then(|| self.row().ok_or(NoRows))
    }
}

/// Bytes that are no rows.
#[derive(Debug)]
pub(super) struct NoRows;

/// The bytes of a span.
#[inline(always)]
pub(super) fn of(bytes: &[u8], span: (u32, u32)) -> &[u8] {
    &bytes[span.0 as usize..span.1 as usize]
}

/// A row file being written.
pub(super) struct RowFile {
    path: PathBuf,
    file: File,
    hash: Xxh3,
    bytes: u64,
    raw: u64,
    compressed: Vec<u8>,
}

/// A row file that is written.
pub(super) struct WrittenRows {
    pub(super) path: PathBuf,
    /// Length of the file.
    pub(super) bytes: u64,
    pub(super) checksum: String,
}

impl RowFile {
    pub(super) fn create(path: PathBuf) -> Result<Self, StateError> {
        let file = File::create(&path).map_err(|e| writing(&path, e))?;
        let mut file = RowFile { path, file, hash: Xxh3::new(), bytes: 0, raw: 0, compressed: Vec::new() };
        file.write(MAGIC)?;
        Ok(file)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|e| writing(&self.path, e))
    }

    pub(super) fn push(&mut self, block: &Block) -> Result<(), StateError> {
        if block.rows == 0 {
            return Ok(());
        }
        self.raw += block.bytes.len() as u64;
        let raw = &block.bytes[..];
        let mut compressed = std::mem::take(&mut self.compressed);
        let mut stored = raw;
        if raw.len() / block.rows >= COMPRESSED_FROM {
            compressed.resize(lz4_flex::block::get_maximum_output_size(raw.len()), 0);
            let len = lz4_flex::block::compress_into(raw, &mut compressed).map_err(|e| writing(&self.path, e))?;
            if len < raw.len() {
                stored = &compressed[..len];
            }
        }
        let mut header = [0; 8];
        header[..4].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        header[4..].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        self.write(&header)?;
        self.write(stored)?;
        self.compressed = compressed;
        Ok(())
    }

    /// Writes the end, and makes the file durable.
    pub(super) fn finish(mut self) -> Result<WrittenRows, StateError> {
        self.write(&[0; 8])?;
        self.write(&self.raw.to_le_bytes())?;
        self.file.sync_all().map_err(|e| writing(&self.path, e))?;
        Ok(WrittenRows { path: self.path, bytes: self.bytes, checksum: files::checksum_text(&self.hash) })
    }
}

fn writing(path: &Path, e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StateError {
    state_error(format!("writing state file {}", path.display()), e)
}

/// True for the name of a row file.
pub(super) fn is_rows(what: &str) -> bool {
    what.ends_with(".rows")
}

/// What a row file says of itself at its end: bytes of its blocks, not compressed.
pub(super) fn raw_bytes(path: &Path) -> Result<u64, StateError> {
    let read = || {
        let (mut file, mut bytes) = (File::open(path)?, [0; 8]);
        file.seek(SeekFrom::End(-8))?;
        file.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    read().map_err(|e: std::io::Error| reading(path, e))
}

fn reading(path: &Path, e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StateError {
    state_error(format!("reading state file {}", path.display()), e)
}

/// Calls `each` with the bytes of each block of a row file and its rows, until it answers false.
pub(super) fn read(path: &Path, mut each: impl FnMut(&[u8], Rows<'_>) -> Result<bool, ReadError>) -> Result<bool, StateError> {
    let corrupt = |why: &str| reading(path, format!("{why}: it is corrupt"));
    let file = File::open(path).map_err(|e| reading(path, e))?;
    let length = file.metadata().map_err(|e| reading(path, e))?.len();
    let mut left = length;
    let mut file = BufReader::with_capacity(256 << 10, file);
    let mut take = |bytes: &mut [u8]| match left.checked_sub(bytes.len() as u64) {
        Some(rest) => {
            left = rest;
            file.read_exact(bytes).map_err(|e| reading(path, e))
        }
        None => Err(corrupt("it is cut")),
    };
    let mut magic = [0; MAGIC.len()];
    take(&mut magic)?;
    if magic != *MAGIC {
        return Err(corrupt("it does not begin with WEIRROW1"));
    }
    let (mut stored, mut block, mut raw_bytes) = (Vec::new(), Vec::new(), 0);
    loop {
        let mut header = [[0; 4]; 2];
        take(header.as_flattened_mut())?;
        let [stored_len, raw_len] = header.map(|len| u32::from_le_bytes(len) as usize);
        if stored_len == 0 {
            break;
        }
        // A length that the file can't have must not be allocated.
        if stored_len as u64 > length || raw_len / 256 > stored_len {
            return Err(corrupt("a block has an impossible length"));
        }
        stored.resize(stored_len, 0);
        take(&mut stored)?;
        let bytes = if stored_len == raw_len {
            &stored
        } else {
            block.resize(raw_len, 0);
            match lz4_flex::block::decompress_into(&stored, &mut block) {
                Ok(len) if len == raw_len => &block,
                Ok(_) => return Err(corrupt("a block is too short")),
                Err(e) => return Err(corrupt(&format!("a block can't be decompressed ({e})"))),
            }
        };
        raw_bytes += bytes.len() as u64;
        match each(bytes, Rows::of(bytes)) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(ReadError::NoRows) => return Err(corrupt("a row is cut")),
            Err(ReadError::Other(e)) => return Err(e),
        }
    }
    let mut end = [0; 8];
    take(&mut end)?;
    if u64::from_le_bytes(end) != raw_bytes || left > 0 {
        return Err(corrupt("its end does not fit what precedes it"));
    }
    Ok(true)
}

/// Why reading ends.
pub(super) enum ReadError {
    NoRows,
    Other(StateError),
}

impl From<NoRows> for ReadError {
    fn from(_: NoRows) -> Self {
        ReadError::NoRows
    }
}

impl From<StateError> for ReadError {
    fn from(e: StateError) -> Self {
        ReadError::Other(e)
    }
}
