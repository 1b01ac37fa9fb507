//! The `weir` binary.

use std::process::ExitCode;
use weir_host::cli;
use weir_host::coordinator::prepare::{LazyRuntime, default_cache};

fn main() -> ExitCode {
    cli::main(&LazyRuntime::new(default_cache()))
}
