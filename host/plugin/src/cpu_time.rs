//! The CPU time of the calling thread: what a guest has computed, however busy the machine is.

use std::time::Duration;

/// CPU time of this thread so far. One system call.
pub(crate) fn of_this_thread() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // The kernel counts up from zero, and nanoseconds stay below a second.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_work_and_not_with_waiting() {
        let begun = of_this_thread();
        std::thread::park_timeout(Duration::from_millis(30));
        let waited = of_this_thread() - begun;
        assert!(waited < Duration::from_millis(20), "waiting cost {waited:?}");
        let mut sum = 0u64;
        while of_this_thread() - begun < Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(sum > 0);
    }
}
