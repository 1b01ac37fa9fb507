//! Weir's plugin host as a library: loads, limits and drives Wasm components.
//!
//! It knows no runtime, no checkpoint protocol and no connector: a host of another kind can embed it. What a plugin is
//! stands in the `wit/` package; this crate is the host's side of it.
//!
//! # Embedding it
//!
//! ```no_run
//! use weir_plugin::batch::RecordBatch;
//! use weir_plugin::testing::MemoryState;
//! use weir_plugin::*;
//!
//! fn run() -> Result<(), Box<dyn std::error::Error>> {
//!     // One engine a process. It compiles plugins, keeps the results and runs the clock of the call limit.
//!     let cache = Some("/var/cache/host/plugins".into());
//!     let engine = PluginEngine::new(&EngineConfig { cache, ..EngineConfig::default() })?;
//!     // Everything that can be refused is refused here: a wrong world, an import nobody grants, a bad descriptor.
//!     let plugin = engine.load_file("count.wasm".as_ref(), &LoadOptions::default())?;
//!     let setup = TaskSetup {
//!         task: TaskInfo { job: "j".into(), operator: "count".into(), subtask: 0, parallelism: 1, attempt: 1 },
//!         config: "{}".into(),
//!         limits: Limits::default(),
//!         grants: Grants::default(),
//!     };
//!     // One operator a subtask, on its thread. State is a trait of the embedder; this one is in memory.
//!     let mut operator = SupervisedOperator::new(OperatorSpec { plugin, setup, retries: Retries::default() })?;
//!     let mut state = MemoryState::new();
//!     let mut batch = RecordBatch::new();
//!     batch.push(b"key", b"value", 0);
//!     let done = operator.process(0, &batch, Some(&mut state), BadRecordPolicy::Skip)?;
//!     for chunk in done.output.main {
//!         // … send it on
//!     }
//!     operator.close()?;
//!     Ok(())
//! }
//! ```
//!
//! # What holds
//!
//! - A call that fails has changed nothing: output, state writes and a sink's appends are staged until all that the guest
//!   gave is checked. The exceptions are named where they are (a failing disk, files outside of a sink's `write`).
//! - A guest can't crash, stall or exhaust its host: memory, time, bytes handed over, host calls, log lines and transfers
//!   are bounded, and each bound has a name in the job file. Time spent in the host does not count against the guest; a
//!   disk that hangs, hangs the call.
//! - Whose fault it is can be told from the type: [`LoadError`] and [`CallErrorKind`] name guest, user and environment.
//! - Threads that run guests need 1 MiB of stack.

mod cache;
mod clock;
mod committer;
mod contract;
mod describe;
mod engine;
mod error;
mod exports;
mod folder;
mod grants;
mod host_calls;
mod http;
mod limits;
mod load;
mod loan;
mod log_budget;
mod operator;
mod output;
mod parts;
mod scope;
mod setup;
mod sink;
mod store;
mod supervise;
mod timers;
mod times;
mod wasi;
mod wire;

pub mod batch;
pub mod collections;
pub mod state;
pub mod testing;

pub use committer::{CommitterInstance, CommitterSetup};
pub use contract::PluginKind;
pub use describe::{Descriptor, OperatorDescriptor, SinkDescriptor, StateDescriptor, StateKind};
pub use engine::{EngineConfig, PluginEngine};
pub use error::{CallError, CallErrorKind, CallSite, EngineError, Function, LoadError};
pub use grants::{Grants, Hidden, HttpGrant};
pub use limits::{LimitBreach, LimitKind, Limits};
pub use load::{LoadOptions, Plugin, sha256_hex};
pub use operator::OperatorInstance;
pub use output::Output;
pub use parts::{PartMode, StatePart};
pub use setup::TaskSetup;
pub use sink::SinkWriterInstance;
pub use supervise::{
    BadRecord, BadRecordPolicy, Failure, OperatorSpec, Processed, Retries, SupervisedOperator, SupervisedWriter, SupervisorCounts,
};
pub use timers::{TimerChange, TimerClocks, TimerKind, TimerOp};
pub use times::CallTimes;
pub use wasi::Surroundings;
pub use wire::{AbortOutcome, Committable, Outcome, Prepared, TaskInfo};
