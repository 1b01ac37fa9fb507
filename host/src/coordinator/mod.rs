//! The control plane: drives the pure machines of `weir-protocol`. It talks to subtasks by messages and never touches a record.
//!
//! Start with [`prepare::HostRuntime`], then `run` (a job over its attempts), `recovery`, `attempt` (the event loop).

mod assemble;
pub mod attempt;
mod commits;
mod committers;
mod compat;
mod deploy;
mod discovery;
mod ended_inputs;
mod ending;
mod figures;
mod keeper;
mod losses;
mod outside;
mod plugins;
pub mod prepare;
pub mod provider;
mod recovery;
mod refusals;
mod run;
mod staging;
mod swap;
mod targets;
mod transactions;
mod upload;
pub mod working_state;

pub use prepare::HostRuntime;
