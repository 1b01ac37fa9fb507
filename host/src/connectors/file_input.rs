//! The bytes of one source file as they were when its job first started: plain or `.gz`, with every change noticed.
//!
//! Invariants:
//! - The list of files and the length of each are fixed at the first start: what is appended later is never read.
//! - A file that ends early is an error, never the end: not in a plain file, not between two members of a `.gz`.
//! - A file that is not the one that was read before (shorter, other bytes at its start or just before the position) is an
//!   error at resume. A change of other bytes, with the same length, can't be seen without reading the whole file again.

use super::ConnectorError;
use super::durable::disk_error;
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes at a file's start that tell it from another one.
const HEAD_BYTES: u64 = 64 << 10;
/// Bytes before the position that do the same; decompressed ones in a `.gz`.
pub(super) const TAIL_BYTES: usize = 4 << 10;
/// Compressed bytes read at once.
const GZ_READ_BYTES: usize = 128 << 10;

/// What the checkpoint keeps about a file, beside its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileDetail {
    /// Its length on disk at the first start.
    size: u64,
    /// XXH3-64 of its first 64 KiB on disk, 16 hexadecimal digits.
    head: String,
    /// XXH3-64 of the 4 KiB that were read last; none at position 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tail: Option<String>,
}

impl FileDetail {
    /// Whether these are the bytes read last.
    pub(super) fn is_tail(&self, tail: Option<String>) -> bool {
        self.tail == tail
    }

    /// The same file, read up to a position with this tail before it.
    pub(super) fn with_tail(&self, tail: Option<String>) -> Self {
        FileDetail { tail, ..self.clone() }
    }
}

/// When growth since the first start means that a record was cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Never: what grew is a new member of a `.gz`.
    Harmless,
    /// If the last line had no end at the first start.
    TearsLastLine,
    /// Always: the file is one record.
    TearsFile,
}

/// The fingerprint of some bytes.
pub(super) fn fingerprint(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// Whether positions in a file count decompressed bytes.
pub(super) fn is_gz(path: &str) -> bool {
    path.ends_with(".gz")
}

/// Looks at a file at the first start.
pub(super) fn examine(path: &str) -> Result<FileDetail, ConnectorError> {
    let file = open(path)?;
    let size = regular(path, &file)?.len();
    Ok(FileDetail { size, head: head(path, &file, size)?, tail: None })
}

/// Opens a file that was examined at the first start, and refuses one that is another by now.
pub(super) fn reopen(path: &str, detail: &FileDetail) -> Result<File, ConnectorError> {
    let file = open(path)?;
    let size = regular(path, &file)?.len();
    if size < detail.size {
        return Err(changed(path, &format!("it has {size} bytes, and had {} at the first start of this job", detail.size)));
    }
    if head(path, &file, detail.size)? != detail.head {
        return Err(changed(path, "its first bytes are not those of the first start of this job"));
    }
    if size > detail.size {
        tracing::warn!(
            path,
            size,
            read_up_to = detail.size,
            "a source file grew after the job's first start; what was appended is not read"
        );
    }
    Ok(file)
}

/// The bytes of an open file from where a reader must begin to see `position` with its tail; gives that place too.
pub(super) fn bytes_before(
    path: &str,
    mut file: File,
    detail: &FileDetail,
    position: u64,
    growth: Growth,
) -> Result<(Box<dyn Read + Send>, u64), ConnectorError> {
    if is_gz(path) {
        let stored = Stored { file, size: detail.size, left: detail.size, last: b'\n', growth: Growth::Harmless };
        return Ok((Box::new(MultiGzDecoder::new(BufReader::with_capacity(GZ_READ_BYTES, stored))), 0));
    }
    if position > detail.size {
        return Err(changed(path, &format!("the checkpoint stands at byte {position} of {}", detail.size)));
    }
    let start = position.saturating_sub(TAIL_BYTES as u64);
    file.seek(SeekFrom::Start(start)).map_err(|error| disk_error("read", Path::new(path), &error))?;
    Ok((Box::new(Stored { file, size: detail.size, left: detail.size - start, last: b'\n', growth }), start))
}

/// The error of a file that is not the one that was read before.
pub(super) fn changed(path: &str, how: &str) -> ConnectorError {
    ConnectorError::permanent(format!(
        "source file {path} changed: {how}. Its positions mean nothing any more: put the old file back, or start over with --fresh --allow-duplicates (what was committed is then written again)"
    ))
}

/// The error of a read that failed at `offset` of the file's (decompressed) bytes.
pub(super) fn read_error(path: &str, offset: u64, error: &io::Error) -> ConnectorError {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            let what = if is_gz(path) { "truncated or corrupt (decompressed) " } else { "not what it was: " };
            ConnectorError::permanent(format!(
                "source file {path} is {what}at byte {offset}: {error}. Nothing after this byte was read: put the whole file there and start again"
            ))
        }
        _ => disk_error(&format!("read on from byte {offset} of"), Path::new(path), error),
    }
}

/// Opens without waiting: a pipe that nobody writes to would hang otherwise. Files don't care.
fn open(path: &str) -> Result<File, ConnectorError> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| cannot_open(path, &error))
}

fn cannot_open(path: &str, error: &io::Error) -> ConnectorError {
    match error.kind() {
        ErrorKind::NotFound => ConnectorError::permanent(format!(
            "source file {path} is gone: the list of files is fixed at the first start of a job. Put it back, or start over with --fresh --allow-duplicates (what was committed is then written again)"
        )),
        _ => disk_error("open the source file", Path::new(path), error),
    }
}

fn regular(path: &str, file: &File) -> Result<Metadata, ConnectorError> {
    let data = file.metadata().map_err(|error| disk_error("look at", Path::new(path), &error))?;
    if !data.is_file() {
        return Err(ConnectorError::permanent(format!(
            "{path} is not a regular file: it can't be read again from a position. Make the glob narrower"
        )));
    }
    Ok(data)
}

fn head(path: &str, file: &File, size: u64) -> Result<String, ConnectorError> {
    let mut bytes = vec![0; size.min(HEAD_BYTES) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|error| read_error(path, 0, &error))?;
    Ok(fingerprint(&bytes))
}

/// The stored bytes of a file up to the length that it had at the first start.
struct Stored {
    file: File,
    /// That length.
    size: u64,
    /// Bytes up to it.
    left: u64,
    /// The byte read last; at the start of a file a line end, since nothing is cut there.
    last: u8,
    growth: Growth,
}

impl Stored {
    /// All is read: was the end of what was read the end of a record?
    fn check_end(&self) -> io::Result<()> {
        let torn = match self.growth {
            Growth::Harmless => false,
            Growth::TearsLastLine => self.last != b'\n',
            Growth::TearsFile => true,
        };
        if torn && self.file.metadata()?.len() > self.size {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the file grew after the first start of this job, which cut its last record in two; start over with --fresh when it is complete",
            ));
        }
        Ok(())
    }
}

impl Read for Stored {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            self.check_end()?;
            return Ok(0);
        }
        let wanted = usize::try_from(self.left).map_or(into.len(), |left| left.min(into.len()));
        let n = self.file.read(&mut into[..wanted])?;
        if n == 0 {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                format!("{} bytes are missing that it had at the first start of this job", self.left),
            ));
        }
        self.left -= n as u64;
        self.last = into[n - 1];
        Ok(n)
    }
}
