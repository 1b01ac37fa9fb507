//! The `weir` binary.

use std::process::ExitCode;
use weir_host::cli;
use weir_host::coordinator::prepare::{LazyRuntime, default_cache};

/// Batches are made in one thread and freed in another, some hundred kilobytes at a time: the C library's allocator gives such
/// memory back to the kernel again and again, and each page then costs a fault.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(&LazyRuntime::new(default_cache()))
}
