//! Weir's plugin host as a library: loads, limits and drives Wasm components.
//!
//! It knows no runtime, no checkpoint protocol and no connector: a host of another kind can embed it.

mod cache;
mod committer;
mod contract;
mod describe;
mod engine;
mod error;
mod exports;
mod folder;
mod grants;
mod host_calls;
mod limits;
mod load;
mod loan;
mod log_budget;
mod operator;
mod output;
mod scope;
mod sink;
mod store;
mod wire;

pub mod batch;
pub mod state;

pub use committer::{CommitterInstance, CommitterSetup};
pub use contract::PluginKind;
pub use describe::{Descriptor, OperatorDescriptor, SinkDescriptor, StateDescriptor, StateKind};
pub use engine::{EngineConfig, PluginEngine};
pub use error::{CallError, CallErrorKind, CallSite, EngineError, Function, LoadError};
pub use grants::Grants;
pub use limits::{LimitBreach, LimitKind, Limits};
pub use load::{LoadOptions, Plugin, sha256_hex};
pub use operator::{OperatorInstance, TaskSetup};
pub use output::Output;
pub use sink::SinkWriterInstance;
pub use wire::{AbortOutcome, Committable, Outcome, Prepared, TaskInfo};
