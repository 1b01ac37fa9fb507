//! Runs operators and sinks in native unit tests, without a host.
//!
//! [`Harness`] keeps an operator's state in memory and calls it as the host does: whole batches, prefetched state, nothing
//! applied of a call that fails. [`MemoryFolders`] is a granted folder that can lose power, [`FakeHttp`] a
//! granted origin. Only outside of Wasm.

mod folders;
mod harness;
mod http;
mod memory_state;
mod sink;
mod timers;

pub use folders::MemoryFolders;
pub use harness::{BadRecord, Emitted, EmittedParts, Harness, HarnessError, task};
pub use http::FakeHttp;
pub use memory_state::MemoryState;
pub use sink::SinkHarness;

use crate::host::Level;
use std::cell::RefCell;

thread_local! {
    static LOG: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a message that has no host to go to.
pub(crate) fn keep_log(level: Level, message: &str) {
    LOG.with_borrow_mut(|log| log.push((level, message.to_owned())));
}

/// What this thread has logged since the last time.
pub fn take_log() -> Vec<(Level, String)> {
    LOG.take()
}
