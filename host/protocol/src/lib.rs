//! Weir's protocols as pure state machines: no I/O, no clock, no randomness, no threads.

pub mod ids;

pub use ids::{ChannelIndex, CheckpointId, Generation, Lineage, ParseIdError, SubtaskIndex, TransactionId};
