//! Subtasks: one OS thread each, running a chain of nodes.

pub mod event_time;
pub mod messages;
pub mod metrics;
pub mod node;
pub mod operator;
pub mod run;
pub mod sink;
pub mod snapshot;
pub mod timers;
pub mod times;
pub mod wasm_operator;
