//! The job's log: who may decide which checkpoint counts.
//!
//! One log for each job, in its checkpoint storage. A slot is written once, by create-if-absent, and holds a claim, a
//! checkpoint, a tombstone or `finished`. Order in the log is the order of slots, whatever the clocks say.
//!
//! - [`claimant::Claimant`] starts a generation: lists, judges, claims, looks again, judges again.
//! - [`publisher::Publisher`] writes that generation's checkpoints, and finds out when it has been fenced.
//! - [`LogView`] reads a listing: newest checkpoint, start in force, finished.
//! - [`retention::retention`] says which entries may go.
//!
//! Invariants: **C5** generations and ids are never used twice. **C7** no checkpoint of a generation counts after a newer
//! claim. **T1** a permit needs a manifest that stands and a look above it that found nothing.

pub mod claimant;
mod entry;
pub mod publisher;
mod questions;
pub mod retention;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub use claimant::Claimant;
pub use entry::{CheckpointEntry, Claim, ClaimFacts, CreateOutcome, LogEntry, Request, Slot, Start};
pub use publisher::Publisher;
pub use retention::retention;
pub use view::{LogView, StartInForce};
