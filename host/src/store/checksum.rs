//! XXH3-128: of files, and of JSON documents that carry their own checksum.
//!
//! A sealed document is one compact JSON object whose last member is `"checksum"`. The checksum is taken of the very bytes
//! that are written, with 32 hexadecimal digits left out of `"checksum":"…"`; so a reader needs no second serializer that
//! agrees to the byte (numbers!), and any changed byte shows.

use std::io::{self, Read};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes read at a time from a file.
const READ_BYTES: usize = 1 << 20;

/// Hexadecimal digits of a checksum.
const DIGITS: usize = 32;

/// How a sealed document ends, before and after its digits.
const SEAL_HEAD: &[u8] = b"\"checksum\":\"";
const SEAL_TAIL: &[u8] = b"\"}";

/// A checksum as text.
pub(super) fn hex(checksum: u128) -> String {
    format!("{checksum:032x}")
}

/// Whether a text is a checksum: 32 lower-case hexadecimal digits.
pub(super) fn is_checksum(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Length and checksum of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Length.
    pub bytes: u64,
    /// XXH3-128, hexadecimal.
    pub checksum: String,
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes with XXH3-128 {}", self.bytes, self.checksum)
    }
}

/// Takes a content in pieces.
#[derive(Default)]
pub(super) struct ContentHasher {
    hash: Xxh3,
    bytes: u64,
}

impl ContentHasher {
    /// The next piece.
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
    }

    /// All pieces together.
    pub(super) fn finish(&self) -> Content {
        Content { bytes: self.bytes, checksum: hex(self.hash.digest128()) }
    }
}

/// Reads to the end, gives every piece to `sink`, and says what was read.
pub(super) fn read_through(mut from: impl Read, mut sink: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Content> {
    let mut hasher = ContentHasher::default();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..n]);
        sink(&buffer[..n])?;
    }
}

/// Checksum of a document that ends in an empty `"checksum":""`, put into it.
///
/// # Panics
/// If the document does not end so: the caller's `checksum` must be its last member, and empty.
pub(super) fn seal(mut document: Vec<u8>) -> Vec<u8> {
    let checksum = of_unsealed(&document);
    document.truncate(document.len() - SEAL_TAIL.len());
    document.extend_from_slice(checksum.as_bytes());
    document.extend_from_slice(SEAL_TAIL);
    document
}

/// Checksum of a document that ends in an empty `"checksum":""`.
///
/// # Panics
/// As [`seal`].
pub(super) fn of_unsealed(document: &[u8]) -> String {
    assert!(
        document.strip_suffix(SEAL_TAIL).is_some_and(|head| head.ends_with(SEAL_HEAD)),
        "a document to be sealed ends in an empty checksum"
    );
    hex(xxh3_128(document))
}

/// Why a document is not what was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SealError {
    /// It does not end as a sealed document does: cut short, or edited.
    NotSealed,
    /// Another checksum.
    Mismatch {
        /// As the document says.
        expected: String,
        /// As its bytes say.
        found: String,
    },
}

impl std::fmt::Display for SealError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SealError::NotSealed => f.write_str("it does not end in a checksum (cut short, or edited)"),
            SealError::Mismatch { expected, found } => {
                write!(f, "its bytes have XXH3-128 {found}, its checksum says {expected}")
            }
        }
    }
}

/// Checks a sealed document.
pub(super) fn verify(document: &[u8]) -> Result<(), SealError> {
    let body = document.strip_suffix(SEAL_TAIL).ok_or(SealError::NotSealed)?;
    let at = body.len().checked_sub(DIGITS).ok_or(SealError::NotSealed)?;
    let (head, digits) = body.split_at(at);
    let expected = std::str::from_utf8(digits).ok().filter(|digits| is_checksum(digits)).ok_or(SealError::NotSealed)?;
    if !head.ends_with(SEAL_HEAD) {
        return Err(SealError::NotSealed);
    }
    let mut hash = Xxh3::new();
    hash.update(head);
    hash.update(SEAL_TAIL);
    let found = hex(hash.digest128());
    if found == expected { Ok(()) } else { Err(SealError::Mismatch { expected: expected.to_owned(), found }) }
}
