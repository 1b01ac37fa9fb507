//! The writing half of the file sink: one staged file for each transaction that has records.
//!
//! Invariants:
//! - A transaction without a record leaves nothing: its file is created by the first write.
//! - When the durable step has succeeded, content, name and marker of the staged file survive a crash of the machine.
//! - Before the marker is durable the transaction is open, and any recovery gives it up.

use super::durable::{create_folder, disk_error, exists, remove, sync_file, sync_folder};
use super::file_staging::{PART, Staging};
use super::{ConnectorError, DurableStep, Prepared, SinkWriter};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use weir_plugin::batch::RecordBatch;
use weir_protocol::{CheckpointId, TransactionId};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Version of [`StagedFile`] as committable.
pub(super) const COMMITTABLE_VERSION: u32 = 1;
/// Times that a staged file is created anew when another process removes its empty folder in between.
const CREATE_ATTEMPTS: u32 = 10;

/// The committable, as JSON: all that another process needs, with the sink's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StagedFile {
    /// Name of the file once it is committed.
    pub(super) part: String,
    /// The folder of final files when it was prepared, for messages.
    pub(super) folder: PathBuf,
    /// Length.
    pub(super) bytes: u64,
    /// XXH3-128 of the content, 32 hexadecimal digits.
    pub(super) checksum: String,
}

/// One writer of a file sink.
pub(super) struct FileWriter {
    staging: Staging,
    subtask: u32,
    /// Between `begin` and `prepare`.
    transaction: Option<TransactionId>,
    /// From the first record on.
    open: Option<OpenFile>,
    /// Whether the names of the staging folders are known durable.
    path_synced: bool,
}

struct OpenFile {
    id: TransactionId,
    path: PathBuf,
    file: File,
    /// Not written yet.
    buffer: Vec<u8>,
    /// Of what is written.
    bytes: u64,
    checksum: Box<Xxh3>,
}

impl FileWriter {
    /// A writer without a transaction.
    pub(super) fn new(staging: Staging, subtask: u32) -> Self {
        FileWriter { staging, subtask, transaction: None, open: None, path_synced: false }
    }
}

impl SinkWriter for FileWriter {
    fn begin(&mut self, transaction: &TransactionId) -> Result<(), ConnectorError> {
        assert!(self.open.is_none(), "{transaction} begins before the transaction before it is prepared");
        self.transaction = Some(transaction.clone());
        Ok(())
    }

    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        if records.is_empty() {
            return Ok(());
        }
        if records.first_null_value().is_some() {
            let why = "a record's value is null, which a line can't say: have an operator leave such records out, or write them otherwise";
            return Err(ConnectorError::permanent(format!("sink {}: {why}", self.staging.sink())));
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let id = self.transaction.as_ref().expect("records follow a begin");
                self.open.insert(OpenFile::create(&self.staging, id)?)
            }
        };
        open.append(records)
    }

    fn prepare(&mut self, checkpoint: CheckpointId, _end_of_input: bool) -> Result<Option<DurableStep>, ConnectorError> {
        self.transaction = None;
        let Some(open) = self.open.take() else { return Ok(None) };
        let staging = self.staging.clone();
        let part = format!("{PART}{}-{checkpoint}", self.subtask);
        let sync_path = !std::mem::replace(&mut self.path_synced, true);
        Ok(Some(Box::new(move || open.prepare(&staging, part, sync_path).map(Some))))
    }
}

impl OpenFile {
    /// Creates the staged file, and the folders above it if they are missing.
    fn create(staging: &Staging, id: &TransactionId) -> Result<Self, ConnectorError> {
        let path = staging.staged(id);
        let mut attempt = 1;
        let file = loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break file,
                Err(error) if error.kind() == ErrorKind::NotFound && attempt < CREATE_ATTEMPTS => {
                    attempt += 1;
                    // A process that ends removes empty folders, so one may go again before the file is in it.
                    match create_folder(&staging.folder(id.lineage)) {
                        Err(error) if attempt == CREATE_ATTEMPTS => return Err(error),
                        Ok(()) | Err(_) => {}
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(ConnectorError::permanent(format!(
                        "sink {}: the staged file {} is there already, though its transaction has just begun: do two processes run on copies of one data folder? Nothing was changed",
                        staging.sink(),
                        path.display()
                    )));
                }
                Err(error) => return Err(disk_error("create the staged file", &path, &error)),
            }
        };
        let buffer = Vec::with_capacity(2 * BUFFER_BYTES);
        Ok(OpenFile { id: id.clone(), path, file, buffer, bytes: 0, checksum: Box::default() })
    }

    fn append(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        for i in 0..records.len() {
            self.buffer.extend_from_slice(records.value(i));
            self.buffer.push(b'\n');
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ConnectorError> {
        self.file.write_all(&self.buffer).map_err(|error| disk_error("write the staged file", &self.path, &error))?;
        self.checksum.update(&self.buffer);
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The durable step.
    ///
    /// 1. Content to the disk: a marker must never stand beside a file that is not whole.
    /// 2. The marker.
    /// 3. The staged file must still be there: a newer process that took this job over may have aborted it, and a marker
    ///    alone would say "committed". (Its abort looks for the marker again afterwards; one of the two sees the other.)
    /// 4. Both names to the disk, the first time with those of the folders above.
    fn prepare(mut self, staging: &Staging, part: String, sync_path: bool) -> Result<Prepared, ConnectorError> {
        self.flush()?;
        sync_file(&self.file, &self.path)?;
        let marker = staging.marker(&self.id);
        File::create_new(&marker).map_err(|error| disk_error("create the marker", &marker, &error))?;
        if !exists(&self.path)? {
            remove(&marker)?;
            return Err(ConnectorError::restart(format!(
                "the staged file {} was removed while it was written: another process has taken this job over, or someone cleaned up",
                self.path.display()
            )));
        }
        sync_folder(&staging.folder(self.id.lineage))?;
        if sync_path {
            staging.sync_path(self.id.lineage)?;
        }
        let staged = StagedFile {
            part,
            folder: staging.target().to_owned(),
            bytes: self.bytes,
            checksum: format!("{:032x}", self.checksum.digest128()),
        };
        let bytes = serde_json::to_vec(&staged).map_err(|error| {
            ConnectorError::permanent(format!("sink {}: its folder can't be noted in a checkpoint: {error}", staging.sink()))
        })?;
        Ok(Prepared { version: COMMITTABLE_VERSION, bytes, valid_until: None })
    }
}
