//! The only file of this crate that reads a clock.

use cpu_time::ThreadTime;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Now, on the clock that never goes back.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// Now, in nanoseconds since the Unix epoch: for guests that were granted the time. A clock before 1970 reads 0.
pub(crate) fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

/// CPU time of this thread so far: what a guest has computed, however busy the machine is. One system call.
pub(crate) fn cpu_of_this_thread() -> Duration {
    // Through the C library: rustix looks for the kernel's own code at first, which crashes under Valgrind.
    ThreadTime::now().as_duration()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work_and_not_with_waiting() {
        let begun = cpu_of_this_thread();
        std::thread::park_timeout(Duration::from_millis(30));
        let waited = cpu_of_this_thread() - begun;
        assert!(waited < Duration::from_millis(20), "waiting cost {waited:?}");
        let mut sum = 0u64;
        while cpu_of_this_thread() - begun < Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(sum > 0);
    }
}
