//! Cuts a stream of bytes into lines, without copying one before it lies in a batch.
//!
//! Invariants: `tail <= at <= end <= buffer.len()`; `position` is the offset of `buffer[at]` in the stream; the bytes of
//! `tail..at` are the last ones consumed, at least `TAIL_BYTES` of them if there were as many.

use super::Budget;
use super::file_input::TAIL_BYTES;
use std::io::{self, ErrorKind, Read};
use weir_plugin::batch::RecordBatch;

/// Length of the buffer, unless a line is longer.
const BUFFER_BYTES: usize = 256 << 10;
/// Length of a record at most.
pub(super) const RECORD_BYTES_MAX: usize = 16 << 20;

/// Why no record could be read.
#[derive(Debug)]
pub(super) enum ReadFault {
    /// The stream failed.
    Io(io::Error),
    /// The record that begins at the position is longer than [`RECORD_BYTES_MAX`].
    TooLong,
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        ReadFault::Io(error)
    }
}

/// Lines that were read, all with the same line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// Position of the first line.
    pub(super) first: u64,
    /// Position of the last line.
    pub(super) last: u64,
    /// Bytes between two lines: 1 for `\n`, 2 for `\r\n`.
    pub(super) separator: u8,
}

/// A window on a stream of bytes.
pub(super) struct LineReader {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    tail: usize,
    at: usize,
    end: usize,
    position: u64,
    ended: bool,
    /// Met after records that were given out first; the next read gives it.
    pending: Option<ReadFault>,
}

impl LineReader {
    /// Reads `input`, whose first byte has the offset `position`.
    pub(super) fn new(input: Box<dyn Read + Send>, position: u64) -> Self {
        LineReader { input, buffer: vec![0; BUFFER_BYTES], tail: 0, at: 0, end: 0, position, ended: false, pending: None }
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The bytes consumed last, `TAIL_BYTES` at most.
    pub(super) fn tail(&self) -> &[u8] {
        &self.buffer[self.at - (self.at - self.tail).min(TAIL_BYTES)..self.at]
    }

    /// Skips up to `bytes`; fewer at the end of the stream or of the buffer. Gives their number, 0 only at the end.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<u64, ReadFault> {
        if self.at == self.end && bytes > 0 && !self.ended {
            self.fill()?;
        }
        let n = (self.end - self.at).min(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.consume(n);
        Ok(n as u64)
    }

    /// Skips the line at the position, with its end.
    pub(super) fn skip_line(&mut self) -> Result<(), ReadFault> {
        let mut searched = 0;
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.at + searched..self.end]) {
                Some(found) => {
                    self.consume(searched + found + 1);
                    return Ok(());
                }
                None if self.ended => {
                    self.consume(self.end - self.at);
                    return Ok(());
                }
                None => {
                    searched = self.end - self.at;
                    self.fill()?;
                }
            }
        }
    }

    /// Appends the next lines to an empty batch; none at the end of the stream.
    ///
    /// 1. Take every line that ends inside the buffer, while the budget lasts and the line end stays the same.
    /// 2. Nothing left to take: read more, and go on from where the search stopped.
    /// 3. At the end of the stream, what follows the last line end is a line too.
    pub(super) fn lines(&mut self, out: &mut RecordBatch, budget: Budget) -> Result<Option<Lines>, ReadFault> {
        debug_assert!(out.is_empty(), "a batch holds lines of one reader");
        let mut taken: Option<Lines> = None;
        let mut searched = 0;
        loop {
            if self.take_lines(out, budget, searched, &mut taken)? {
                return Ok(taken);
            }
            if self.ended {
                self.take_rest(out, budget, &mut taken)?;
                return Ok(taken);
            }
            searched = self.end - self.at;
            match self.fill() {
                Ok(()) => {}
                Err(fault) if taken.is_some() => {
                    self.pending = Some(fault);
                    return Ok(taken);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Appends all bytes up to the end of the stream as one record.
    pub(super) fn rest(&mut self, out: &mut RecordBatch) -> Result<(), ReadFault> {
        while !self.ended {
            self.fill()?;
        }
        if self.end - self.at > RECORD_BYTES_MAX {
            return Err(ReadFault::TooLong);
        }
        out.push(&[], &self.buffer[self.at..self.end], 0);
        self.consume(self.end - self.at);
        Ok(())
    }

    /// Step 1 of [`lines`](Self::lines); `searched` bytes after the position hold no line end. True if the batch is complete.
    #[inline]
    fn take_lines(
        &mut self,
        out: &mut RecordBatch,
        budget: Budget,
        searched: usize,
        taken: &mut Option<Lines>,
    ) -> Result<bool, ReadFault> {
        let (mut at, base) = (self.at, self.position - self.at as u64);
        let from = at + searched;
        let mut outcome = Ok(false);
        for found in memchr::memchr_iter(b'\n', &self.buffer[from..self.end]) {
            let end = from + found;
            let mut line = &self.buffer[at..end];
            let mut separator = 1;
            if let [rest @ .., b'\r'] = line {
                (line, separator) = (rest, 2);
            }
            if line.len() > RECORD_BYTES_MAX {
                outcome = if taken.is_some() { Ok(true) } else { Err(ReadFault::TooLong) };
                break;
            }
            match taken {
                None => *taken = Some(Lines { first: base + at as u64, last: base + at as u64, separator }),
                Some(lines) if lines.separator != separator || out.data().len() + line.len() > budget.bytes => {
                    outcome = Ok(true);
                    break;
                }
                Some(lines) => lines.last = base + at as u64,
            }
            out.push(&[], line, 0);
            at = end + 1;
            if out.len() >= budget.records {
                outcome = Ok(true);
                break;
            }
        }
        self.consume(at - self.at);
        outcome
    }

    /// Step 3 of [`lines`](Self::lines).
    fn take_rest(&mut self, out: &mut RecordBatch, budget: Budget, taken: &mut Option<Lines>) -> Result<(), ReadFault> {
        let line = &self.buffer[self.at..self.end];
        let too_long = line.len() > RECORD_BYTES_MAX;
        match taken {
            _ if line.is_empty() => return Ok(()),
            Some(_) if too_long || out.data().len() + line.len() > budget.bytes => return Ok(()),
            None if too_long => return Err(ReadFault::TooLong),
            Some(lines) => lines.last = self.position,
            None => *taken = Some(Lines { first: self.position, last: self.position, separator: 1 }),
        }
        out.push(&[], line, 0);
        self.consume(self.end - self.at);
        Ok(())
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        self.position += bytes as u64;
        debug_assert!(self.at <= self.end, "only bytes that are there are consumed");
    }

    /// Reads once, into a buffer that has room; notices the end. What is unread belongs to one record.
    fn fill(&mut self) -> Result<(), ReadFault> {
        if let Some(fault) = self.pending.take() {
            return Err(fault);
        }
        // Two more than a record has: its line end is among them, if it has one.
        if self.end - self.at >= RECORD_BYTES_MAX + 2 {
            return Err(ReadFault::TooLong);
        }
        if self.end == self.buffer.len() {
            self.make_room();
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(n) => {
                    self.end += n;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves the unread bytes and the tail to the front; if they fill more than half of the buffer, doubles it.
    fn make_room(&mut self) {
        let unread = self.end - self.at;
        let kept = (self.at - self.tail).min(TAIL_BYTES);
        self.buffer.copy_within(self.at - kept..self.end, 0);
        (self.tail, self.at, self.end) = (0, kept, kept + unread);
        let wanted = (2 * self.end).max(BUFFER_BYTES);
        if self.end > self.buffer.len() / 2 {
            self.buffer.resize(wanted, 0);
        } else if self.buffer.len() > 2 * wanted {
            // A long line is over.
            self.buffer.truncate(wanted);
            self.buffer.shrink_to_fit();
        }
    }
}
