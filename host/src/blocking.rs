//! Waits of commands that have no runtime of their own.

use crate::graph::Problem;

/// Runs a future to its end on this thread.
///
/// # Errors
/// If this machine has no thread or open file left for it.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Problem::new("this machine", error.to_string(), "raise the limit on threads or open files"))?;
    Ok(runtime.block_on(work))
}
