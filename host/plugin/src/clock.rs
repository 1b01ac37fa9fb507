//! The only file of this crate that reads a clock.

use std::time::Instant;

/// Now, on the clock that never goes back.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// Spans that follow each other without a gap: the end of one is the beginning of the next, for one reading each.
pub(crate) struct Laps(Instant);

impl Laps {
    /// The first one begins.
    pub(crate) fn begin() -> Self {
        Laps(monotonic())
    }

    /// Ends a span and gives its nanoseconds.
    pub(crate) fn lap(&mut self) -> u64 {
        let now = monotonic();
        let span = now.saturating_duration_since(self.0);
        self.0 = now;
        span.as_nanos() as u64
    }
}
