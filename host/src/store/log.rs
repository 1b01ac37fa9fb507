//! Reading and writing the job's log: `log/<slot>.json`, one record each, slots zero-padded so that name order is slot order.
//!
//! - **L1** A slot is written by create-if-absent only, whole or not at all, durable when the answer is `Created` or `Exists`.
//! - **L2** What a read has shown is durable before its answer is given: decisions rest upon it. (On a mere listing rests only
//!   that a slot is taken, or that a publisher stops.)
//! - **L3** An entry that can't be read is known to exist, and is reported as such.

use super::contents::LogContents;
use super::durable::CrashPoint;
use super::error::StoreError;
use super::manifest::{Manifest, ManifestError};
use super::record::{LogRecord, RecordError};
use super::storage::{CheckpointStore, LOG};
use object_store::path::Path as ObjectPath;
use object_store::{PutMode, PutOptions};
use weir_protocol::CheckpointId;
use weir_protocol::log::{LogEntry, Slot};

/// Digits of a slot's name.
const SLOT_DIGITS: usize = 20;

/// Reading the log failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The storage refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry exists and can't be read.
    #[error("entry {path} of the job's log can't be read: {why}")]
    Corrupt {
        /// Its slot.
        slot: Slot,
        /// Its path.
        path: String,
        /// What is wrong with it, and what to do.
        why: ManifestError,
    },
    /// The log is another job's.
    #[error("{place} holds the log of job '{theirs}', not of '{ours}': give this job a [checkpoint].storage of its own")]
    OtherJob {
        /// The storage.
        place: String,
        /// Its job.
        theirs: String,
        /// This job.
        ours: String,
    },
    /// The log has no checkpoint at all.
    #[error("job '{job}' has no completed checkpoint yet")]
    NoCheckpoint {
        /// The job.
        job: String,
    },
    /// The log has no such checkpoint.
    #[error("there is no checkpoint {id}; there are: {}", listed(available))]
    NoSuchCheckpoint {
        /// What was asked for.
        id: CheckpointId,
        /// Those that can be read.
        available: Vec<CheckpointId>,
    },
}

pub(super) fn listed(ids: &[CheckpointId]) -> String {
    if ids.is_empty() { "none".to_owned() } else { ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") }
}

/// What became of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It was absent, and is this record now, durably.
    Created,
    /// Something stands there.
    Exists,
    /// No usable answer: it may stand, may still come to stand, or never.
    Unknown(StoreError),
}

/// The log of one job.
#[derive(Clone, Debug)]
pub struct LogStore {
    store: CheckpointStore,
    job: String,
}

impl LogStore {
    /// The log of `job` in this storage. Nothing is read yet.
    pub fn new(store: CheckpointStore, job: &str) -> Self {
        LogStore { store, job: job.to_owned() }
    }

    /// The job whose log lies in this storage; none if there is none.
    pub async fn job_in(store: &CheckpointStore) -> Result<Option<String>, StoreError> {
        // No job has this name.
        let log = LogStore::new(store.clone(), "");
        for slot in log.list().await? {
            match log.read(slot).await {
                Err(LogError::OtherJob { theirs, .. }) => return Ok(Some(theirs)),
                Err(LogError::Store(error)) => return Err(error),
                // A damaged entry tells nothing.
                Ok(_) | Err(LogError::Corrupt { .. } | LogError::NoCheckpoint { .. } | LogError::NoSuchCheckpoint { .. }) => {}
            }
        }
        Ok(None)
    }

    /// The storage that it lies in.
    pub fn storage(&self) -> &CheckpointStore {
        &self.store
    }

    /// The job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Writes a record into a slot, if nothing stands there.
    ///
    /// # Panics
    /// If it is a manifest that is not sealed, or another job's.
    pub async fn create(&self, slot: Slot, record: &LogRecord) -> CreateOutcome {
        let mut options = PutOptions::from(PutMode::Create);
        if let LogRecord::Checkpoint(_) = record {
            options.extensions.insert(CrashPoint("manifest-partial"));
        }
        let location = location(slot);
        match self.store.objects.put_opts(&location, record.to_bytes(&self.job).into(), options).await {
            Ok(_) => CreateOutcome::Created,
            Err(object_store::Error::AlreadyExists { .. }) => CreateOutcome::Exists,
            Err(error) => CreateOutcome::Unknown(StoreError::object("write", &self.store.shown(&location), error)),
        }
    }

    /// Every slot that exists, ascending.
    pub async fn list(&self) -> Result<Vec<Slot>, StoreError> {
        let files = self.store.list(LOG).await?;
        Ok(files.iter().filter_map(|file| parse_slot(&file.name)).collect())
    }

    /// The record in a slot; none if nothing stands there.
    pub async fn read(&self, slot: Slot) -> Result<Option<LogRecord>, LogError> {
        let location = location(slot);
        let Some(bytes) = self.store.get(&location).await? else { return Ok(None) };
        self.store.settle(LOG).await?;
        match LogRecord::parse(&bytes, &self.job) {
            Ok(record) => Ok(Some(record)),
            Err(RecordError::Unreadable(why)) => Err(LogError::Corrupt { slot, path: self.store.shown(&location), why }),
            Err(RecordError::Foreign { job }) => {
                Err(LogError::OtherJob { place: self.store.place().to_owned(), theirs: job, ours: self.job.clone() })
            }
        }
    }

    /// The entry in a slot as the machines see it; none if nothing stands there. Only a storage that gives no answer is an
    /// error.
    pub async fn read_entry(&self, slot: Slot) -> Result<Option<LogEntry>, StoreError> {
        match self.read(slot).await {
            Ok(record) => Ok(record.map(|record| record.entry())),
            Err(LogError::Store(error)) => Err(error),
            Err(LogError::OtherJob { theirs, .. }) => Ok(Some(LogEntry::Foreign { job: theirs })),
            Err(error @ LogError::Corrupt { .. }) => Ok(Some(LogEntry::Unreadable { reason: error.to_string() })),
            Err(LogError::NoCheckpoint { .. } | LogError::NoSuchCheckpoint { .. }) => {
                unreachable!("reading a slot asks for no checkpoint")
            }
        }
    }

    /// Every entry, in slot order. One that is deleted meanwhile is left out.
    pub async fn read_entries(&self) -> Result<Vec<(Slot, LogEntry)>, StoreError> {
        let slots = self.list().await?;
        let mut entries = Vec::with_capacity(slots.len());
        for slot in slots {
            if let Some(entry) = self.read_entry(slot).await? {
                entries.push((slot, entry));
            }
        }
        Ok(entries)
    }

    /// The manifest of a checkpoint that counts.
    pub async fn manifest(&self, id: CheckpointId) -> Result<Manifest, LogError> {
        LogContents::read(self).await?.find(id).map(|(_, manifest)| manifest.clone())
    }

    /// Removes an entry for good; fine if it is gone already. Only retention may ask for this.
    pub(super) async fn delete(&self, slot: Slot) -> Result<(), StoreError> {
        self.store.delete(&location(slot)).await
    }
}

fn location(slot: Slot) -> ObjectPath {
    ObjectPath::from_iter([LOG.to_owned(), format!("{slot}.json")])
}

fn parse_slot(name: &str) -> Option<Slot> {
    let digits = name.strip_suffix(".json").filter(|digits| digits.len() == SLOT_DIGITS)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok().map(Slot)).flatten()
}
