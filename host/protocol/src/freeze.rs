//! The order of freeze, ingest and link in one state backend's store.
//!
//! The machine knows no cells and no bytes: only frozen sets, how many cells each has left to copy, and files. Its driver is
//! the backend (data thread: freeze, copy; store writer's thread: ingest, link).
//!
//! Life of a set: `Freeze` → copying (cells are copied by the sweep, and before they are overwritten) → all copied →
//! `Ingest` (sort, write one delta file, ingest it) → `Unpin` (cells may be evicted) → for a checkpoint that begins a new
//! base `Link` → `Snapshot`.
//!
//! Invariants: **S1** a file that a pending snapshot needs is not deleted. **S2** a snapshot lists a base and *every* delta
//! since, those of aborted checkpoints and of freezes without a checkpoint included. **S3** a file is never used for two
//! things. **S5** a freeze is never cancelled; sets are ingested in order, and nothing is between an ingest and its link.

mod events;
mod files;
mod queue;
#[cfg(test)]
mod tests;

pub use events::{Cause, Effect, Event, FileId, FreezePolicy, LocalFile, SetId, SnapshotEntry, SnapshotList};
pub use queue::FreezeQueue;
