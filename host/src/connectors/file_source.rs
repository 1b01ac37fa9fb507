//! Connector `file` as a source: the files of a glob in name order, one split each, read one after the other.
//!
//! Positions are byte offsets of line starts, of decompressed bytes in a `.gz`; the lines of a header count. A record's event
//! time is 0 and its key is empty: a file has neither.

use super::file_input::{FileDetail, Growth, bytes_before, changed, examine, fingerprint, is_gz, read_error, reopen};
use super::line_reader::{LineReader, RECORD_BYTES_MAX, ReadFault};
use super::{Budget, ConnectorError, Source, SourceConnector, SourcePoll, SourceTask, SplitState};
use crate::channel::{PositionStep, Provenance, SourceSpan};
use crate::graph::FileFormat;
use std::collections::BTreeSet;
use std::time::Duration;
use weir_plugin::batch::RecordBatch;

/// Bytes that one poll skips on the way to the position of a `.gz`: a few ten milliseconds.
const SKIP_BYTES: u64 = 8 << 20;

/// The files of a glob.
pub(super) struct FileSourceConnector {
    /// Name of the source, for messages.
    pub(super) name: String,
    /// Absolute glob.
    pub(super) pattern: String,
    /// How bytes become records.
    pub(super) format: FileFormat,
    /// Whether the first line of each file is left out.
    pub(super) skip_header: bool,
}

impl FileSourceConnector {
    /// The files that match now, in name order. Names that begin with a dot must be asked for by a dot.
    fn files(&self) -> Result<BTreeSet<String>, ConnectorError> {
        let options =
            glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
        let invalid = |error| ConnectorError::permanent(format!("'{}' is no glob: {error}", self.pattern));
        let mut files = BTreeSet::new();
        for entry in glob::glob_with(&self.pattern, options).map_err(invalid)? {
            let path = entry.map_err(|error| {
                ConnectorError::permanent(format!("cannot list {}: {}", error.path().display(), error.error()))
            })?;
            if path.is_dir() {
                continue;
            }
            let path = path
                .into_os_string()
                .into_string()
                .map_err(|path| ConnectorError::permanent(format!("the file name {path:?} is not UTF-8: rename the file")))?;
            files.insert(path);
        }
        Ok(files)
    }
}

fn and_more(count: usize) -> &'static str {
    if count > 1 { ", …" } else { "" }
}

impl SourceConnector for FileSourceConnector {
    fn enumerate(&self) -> Result<Vec<SplitState>, ConnectorError> {
        let files = self.files()?;
        if files.is_empty() {
            return Err(ConnectorError::permanent(format!(
                "no file matches {}. The list of files is fixed at the first start, so there must be one by then",
                self.pattern
            )));
        }
        files
            .into_iter()
            .map(|split| Ok(SplitState { detail: to_json(&examine(&split)?), split, position: 0, ended: false }))
            .collect()
    }

    /// The list of files is fixed, so another glob and files that came later change nothing: that must not pass in silence.
    fn differs(&self, splits: &[SplitState]) -> Result<Vec<String>, ConnectorError> {
        let (name, pattern) = (&self.name, &self.pattern);
        let mut files = self.files()?;
        let mut told = Vec::new();
        let left: Vec<&str> =
            splits.iter().filter(|split| !files.remove(&split.split) && !split.ended).map(|split| split.split.as_str()).collect();
        if let Some(first) = left.first() {
            told.push(format!(
                "source {name}: {} file(s) of the first start are read to their end although {pattern} does not match them (any more): {first}{}",
                left.len(),
                and_more(left.len())
            ));
        }
        if let Some(first) = files.first() {
            told.push(format!(
                "source {name}: {} file(s) that match {pattern} are not read, as the list of files is fixed at the first start: {first}{}; a source of another name reads them, or --fresh",
                files.len(),
                and_more(files.len())
            ));
        }
        Ok(told)
    }

    fn open(&self, source: u16, splits: Vec<(u32, SplitState)>, _: SourceTask) -> Result<Box<dyn Source>, ConnectorError> {
        let splits = splits.into_iter().map(|(index, state)| Split::of(index, state)).collect::<Result<Vec<_>, _>>()?;
        // All are looked at before the first record: better a refusal now than after hours.
        for split in splits.iter().filter(|split| !split.state.ended) {
            if self.format == FileFormat::Raw && split.state.position > 0 {
                return Err(ConnectorError::permanent(format!(
                    "source {}: {} was read as lines up to byte {}, so it can't be read on with format = \"raw\": set \"lines\" again, or start over with --fresh",
                    self.name, split.state.split, split.state.position
                )));
            }
            reopen(&split.state.split, &split.detail).map_err(|error| before_position(error, split.state.position))?;
        }
        Ok(Box::new(FileReader {
            source,
            format: self.format,
            skip_header: self.skip_header,
            next: 0,
            splits,
            phase: Phase::Closed,
            bytes_before: 0,
        }))
    }
}

/// A file of this reader, in the state in which it was opened or has ended.
struct Split {
    index: u32,
    state: SplitState,
    detail: FileDetail,
}

impl Split {
    fn of(index: u32, state: SplitState) -> Result<Self, ConnectorError> {
        let detail = serde_json::from_value(state.detail.clone()).map_err(|error| {
            ConnectorError::permanent(format!(
                "the checkpoint's notes on source file {} can't be read ({error}): another version wrote them",
                state.split
            ))
        })?;
        Ok(Split { index, state, detail })
    }

    /// Its state when a reader has given all records before its position.
    fn at(&self, reader: &LineReader) -> SplitState {
        let position = reader.position();
        let tail = (position > 0).then(|| fingerprint(reader.tail()));
        let detail = to_json(&self.detail.with_tail(tail));
        SplitState { split: self.state.split.clone(), position, ended: false, detail }
    }

    /// Notes that a reader has given all its records.
    fn end(&mut self, reader: &LineReader) {
        self.state = SplitState { ended: true, ..self.at(reader) };
    }

    fn provenance(&self, source: u16, first: u64, last: u64, step: PositionStep) -> Provenance {
        Provenance::of_source(SourceSpan { source, split: self.index, first, last }, step)
    }
}

/// How far the reader is in the file `next`.
enum Phase {
    /// Not open.
    Closed,
    /// Open, before the position.
    Skipping(LineReader),
    /// At the position.
    Reading(LineReader),
}

struct FileReader {
    source: u16,
    format: FileFormat,
    skip_header: bool,
    splits: Vec<Split>,
    /// The split that is read; those before it have ended.
    next: usize,
    phase: Phase,
    /// Bytes of the last batch: what the next one is likely to need.
    bytes_before: usize,
}

/// Ask again at once: this poll only worked.
const AGAIN: SourcePoll = SourcePoll::Pending(Duration::ZERO);

impl Source for FileReader {
    fn poll(&mut self, budget: Budget) -> Result<SourcePoll, ConnectorError> {
        while self.splits.get(self.next).is_some_and(|split| split.state.ended) {
            self.next += 1;
        }
        let Some(split) = self.splits.get_mut(self.next) else { return Ok(SourcePoll::End) };
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Closed => {
                self.phase = Phase::Skipping(open(split, self.format)?);
                Ok(AGAIN)
            }
            Phase::Skipping(mut reader) => {
                let there = skip(split, &mut reader)?;
                if there && self.skip_header && split.state.position == 0 {
                    reader.skip_line().map_err(|fault| read_fault(split, &reader, fault))?;
                }
                self.phase = if there { Phase::Reading(reader) } else { Phase::Skipping(reader) };
                Ok(AGAIN)
            }
            Phase::Reading(mut reader) => match self.format {
                FileFormat::Lines => {
                    let mut records = RecordBatch::with_capacity(budget.records, self.bytes_before);
                    let lines = reader.lines(&mut records, budget).map_err(|fault| read_fault(split, &reader, fault))?;
                    let Some(lines) = lines else {
                        split.end(&reader);
                        return Ok(AGAIN);
                    };
                    self.bytes_before = records.data().len();
                    self.phase = Phase::Reading(reader);
                    let step = PositionStep::Bytes { separator: lines.separator };
                    Ok(SourcePoll::Batch { records, provenance: split.provenance(self.source, lines.first, lines.last, step) })
                }
                FileFormat::Raw => {
                    let mut records = RecordBatch::new();
                    reader.rest(&mut records).map_err(|fault| read_fault(split, &reader, fault))?;
                    split.end(&reader);
                    Ok(SourcePoll::Batch { records, provenance: split.provenance(self.source, 0, 0, PositionStep::One) })
                }
            },
        }
    }

    fn positions(&self) -> Vec<(u32, SplitState)> {
        let state = |(i, split): (usize, &Split)| match &self.phase {
            // The reader before the position has given nothing yet.
            Phase::Reading(reader) if i == self.next => split.at(reader),
            Phase::Reading(_) | Phase::Skipping(_) | Phase::Closed => split.state.clone(),
        };
        self.splits.iter().enumerate().map(|(i, split)| (split.index, state((i, split)))).collect()
    }
}

/// Opens a split, before its position.
fn open(split: &Split, format: FileFormat) -> Result<LineReader, ConnectorError> {
    let path = &split.state.split;
    let growth = match format {
        FileFormat::Lines => Growth::TearsLastLine,
        FileFormat::Raw => Growth::TearsFile,
    };
    let file = reopen(path, &split.detail)?;
    let (bytes, start) = bytes_before(path, file, &split.detail, split.state.position, growth)?;
    Ok(LineReader::new(bytes, start))
}

/// Skips towards the position of a split; true when it is reached and the bytes before it are those of the checkpoint.
fn skip(split: &Split, reader: &mut LineReader) -> Result<bool, ConnectorError> {
    let (path, position) = (&split.state.split, split.state.position);
    let goal = position.min(reader.position() + SKIP_BYTES);
    while reader.position() < goal {
        let skipped = reader.skip(goal - reader.position()).map_err(|fault| read_fault(split, reader, fault))?;
        if skipped == 0 {
            return Err(changed(
                path,
                &format!("it ends at byte {}, and was read up to byte {position} before", reader.position()),
            ));
        }
    }
    if reader.position() < position {
        return Ok(false);
    }
    let tail = (position > 0).then(|| fingerprint(reader.tail()));
    if !split.detail.is_tail(tail) {
        return Err(changed(path, &format!("the bytes before byte {position} are not those that were read before")));
    }
    Ok(true)
}

fn read_fault(split: &Split, reader: &LineReader, fault: ReadFault) -> ConnectorError {
    let path = &split.state.split;
    match fault {
        ReadFault::Io(error) => read_error(path, reader.position(), &error),
        ReadFault::TooLong => ConnectorError::permanent(format!(
            "source file {path}: the record at byte {} is longer than {} MiB, the longest that a record may be{}",
            reader.position(),
            RECORD_BYTES_MAX >> 20,
            if is_gz(path) { " (bytes are decompressed ones)" } else { "; is this a text file?" }
        )),
    }
}

/// A file that can't be read on: where it would have been.
fn before_position(error: ConnectorError, position: u64) -> ConnectorError {
    match position {
        0 => error,
        _ => ConnectorError { message: format!("{} (it was read up to byte {position})", error.message), ..error },
    }
}

fn to_json(detail: &FileDetail) -> serde_json::Value {
    serde_json::to_value(detail).expect("strings and numbers are always JSON")
}

#[cfg(test)]
#[path = "file_source_tests.rs"]
mod tests;
