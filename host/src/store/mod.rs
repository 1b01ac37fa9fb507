//! Checkpoint storage: immutable state files, the job's log, plugins. File formats: `docs/formats.md`.

mod checksum;
mod durable;
mod error;
pub mod log;
pub mod manifest;
mod record;
mod storage;
mod transfer;

pub use error::StoreError;
pub use log::{CreateOutcome, LogError, LogStore};
pub use record::{LogRecord, RecordError};
pub use storage::{CheckpointStore, StoredFile, sha256_hex};
pub use transfer::Transfer;
