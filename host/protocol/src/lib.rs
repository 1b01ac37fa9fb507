//! Weir's protocols as pure state machines: no I/O, no clock, no randomness, no threads.
//!
//! Each is a plain value with one mutator, `handle(event, effects)`. Time comes in with the event, effects are a totally
//! ordered list that the driver executes, disorder from outside is an outcome, and our own bugs are assertions that carry the
//! name of the broken invariant.

pub mod align;
pub mod bounds;
pub mod commit;
pub mod coordinator;
pub mod freeze;
pub mod ids;
pub mod log;
pub mod mutant;
pub mod parts;
pub mod recovery;
pub mod restart;
pub mod shared;
pub mod swap;
pub mod timers;
pub mod trigger;
pub mod watermark;

#[cfg(test)]
mod testkit;

pub use ids::{ChannelIndex, CheckpointId, Generation, Lineage, ParseIdError, SubtaskIndex, TransactionId};
