//! The Weir host: runtime, state, storage, connectors and the command line.

mod blocking;
pub mod channel;
pub mod cli;
pub mod clock;
pub mod connectors;
pub mod control;
pub mod coordinator;
pub mod crash;
pub mod disk;
pub mod drill;
pub mod graph;
pub mod job;
pub mod kit;
mod memory;
pub mod scaffold;
pub mod state;
pub mod store;
pub mod task;
pub mod transactions;
