//! Checkpoint storage: immutable state files, the job's log, plugins; and the lock of a data folder.
//!
//! File formats: `docs/formats.md`. Start with [`CheckpointStore`] (files), [`LogStore`] (the log, to read), [`claim`] (the
//! right to write it).

mod checksum;
mod contents;
mod durable;
mod error;
pub mod fsck;
pub mod gc;
pub mod inspect;
mod job_log;
pub mod lock;
mod log;
pub mod manifest;
mod record;
mod storage;
mod transfer;

#[cfg(test)]
mod tests;

pub use contents::{Leftover, References};
pub use error::StoreError;
pub use job_log::{Backoff, ClaimError, Claimed, Claiming, FinishOutcome, JobLog, PublishOutcome, claim, claim_for_maintenance};
pub use log::{CreateOutcome, LogError, LogStore};
pub use record::{LogRecord, RecordError};
pub use storage::{CheckpointStore, StoredFile, sha256_hex};
pub use transfer::Transfer;
