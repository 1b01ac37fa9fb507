//! Counters of a stage, shared by its subtasks and read by the progress display.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one stage (a source, operator or sink), summed over its subtasks.
#[derive(Debug, Default)]
pub struct StageMetrics {
    /// Records that came in (for a source: records read).
    pub records_in: AtomicU64,
    /// Records given out, all outputs together.
    pub records_out: AtomicU64,
    /// Those of them that left the thread through a channel.
    pub records_exchanged: AtomicU64,
    /// Bad records that were dropped.
    pub records_dropped: AtomicU64,
    /// Bad records that went to the dead letter.
    pub records_dead: AtomicU64,
}

impl StageMetrics {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
