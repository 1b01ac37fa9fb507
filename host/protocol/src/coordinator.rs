//! The checkpoint coordinator: one for each job and attempt.
//!
//! Invariants:
//! - C1: completed ids strictly increase.
//! - C2: a checkpoint completes only after every subtask acknowledged it exactly once; ended ones are expected too.
//! - C3: no `NotifyComplete(n)` before manifest n is durable.
//! - C4: complete and aborted exclude each other.
//! - C5: ids are never used again.
//! - C6: checkpoints under way are at most `max_concurrent`.

mod advance;
mod decide;
mod events;
mod machine;
mod pending;
mod permit;

#[cfg(test)]
mod bound_tests;
#[cfg(test)]
mod hole_tests;
#[cfg(test)]
mod mutant_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod random_world;
#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;

pub use events::{
    AbortReason, AckOutcome, CheckpointKind, Committable, CompletedCheckpoint, CoordEffect, CoordEvent, CoordinatorConfig,
    FailOverReason,
};
pub use machine::CheckpointCoordinator;
pub use permit::CommitPermit;
