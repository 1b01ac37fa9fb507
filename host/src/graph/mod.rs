//! What the user wrote (JobGraph), checked, and what runs (ExecutionGraph), derived.
//!
//! Knows no runtime, no Wasm and no connector: paths in, plain data and problems out.

mod job_graph;
mod problem;
pub mod execution;

pub use execution::{ExecutionGraph, PluginFacts};
pub use job_graph::*;
pub use problem::Problem;
