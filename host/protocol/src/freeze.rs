//! The order of freeze, ingest and link in one state backend's store.
//!
//! The machine knows no cells and no bytes: only frozen sets, how many cells each has left to copy, and files. Its driver is
//! the backend (data thread: freeze, copy; store writer's thread: ingest, link).
//!
//! Life of a set: `Freeze` → copying (cells are copied by the sweep, and before they are overwritten) → all copied →
//! `Ingest` (write one file, ingest it) → `Unpin` (cells may be evicted) → for a checkpoint that begins a new base
//! `Link` → `Snapshot`.
//!
//! As long as all of the state is in memory ([`Residence::Memory`]) nothing is ingested, since nobody would read it: sets are only
//! written, and a new base is a set of all cells. `Spill` ends that: the next set has all cells and makes the store.
//!
//! Invariants: **S1** a file that a pending snapshot needs is not deleted. **S2** a snapshot lists a base and *every* delta
//! since, those of aborted checkpoints and of freezes without a checkpoint included. **S3** a file is never used for two
//! things. **S5** a freeze is never cancelled; sets are ingested in order, and nothing is between an ingest and its link. **S6** the
//! store holds all that the sets up to the ingested one hold: the first set that it gets has all cells.

mod events;
mod files;
mod queue;
#[cfg(test)]
mod tests;

pub use events::{Cause, Effect, Event, FileId, FreezePolicy, LocalFile, Residence, Scope, SetId, SnapshotEntry, SnapshotList};
pub use queue::FreezeQueue;
