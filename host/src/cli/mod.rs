//! The `weir` command: the only place that prints and that knows exit codes.

mod args;
mod check;
mod checkpoint;
mod daemon;
mod drill;
mod exit;
mod json;
mod logging;
mod main;
mod output;
mod plugin_project;
mod profile;
mod progress;
mod run;
mod serve;
mod signals;
mod swap;
mod test;
mod txn;

pub use exit::Exit;
pub use main::main;

#[cfg(test)]
mod tests;
