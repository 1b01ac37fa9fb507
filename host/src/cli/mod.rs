//! The `weir` command: the only place that prints and that knows exit codes.

mod args;
mod check;
mod checkpoint;
mod exit;
mod json;
mod logging;
mod main;
mod output;
mod profile;
mod progress;
mod run;
mod signals;

pub use exit::Exit;
pub use main::main;

#[cfg(test)]
mod tests;
