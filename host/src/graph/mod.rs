//! What the user wrote (JobGraph), checked, and what runs (ExecutionGraph), derived.
//!
//! Knows no runtime, no Wasm and no connector: paths in, plain data and problems out.

mod cycles;
mod derive;
pub mod describe;
mod document;
mod edges;
mod environment;
pub mod execution;
pub mod folders;
mod grants;
pub mod job_file;
mod job_graph;
mod kafka_settings;
mod kafka_spec;
mod names;
mod nodes;
mod notes;
mod paths;
mod plugin_settings;
mod problem;
pub mod units;

pub use document::Setting;
pub(crate) use document::suggestion;
pub use execution::{ExecutionGraph, PluginFacts};
pub use job_graph::*;
pub(crate) use kafka_settings::is_topic;
pub use kafka_spec::*;
pub use problem::Problem;

#[cfg(test)]
mod derive_tests;
#[cfg(test)]
mod guide_tests;
#[cfg(test)]
mod job_file_tests;
#[cfg(test)]
mod kafka_tests;
