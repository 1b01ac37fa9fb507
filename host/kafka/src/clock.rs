//! The only file of this crate that reads a clock or waits for it.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Now, on the clock that never goes back.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// What is left until a deadline; none if it has passed.
pub(crate) fn left_until(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(monotonic());
    (!left.is_zero()).then_some(left)
}

/// The earlier of a deadline and a time from now.
pub(crate) fn at_most(deadline: Instant, from_now: Duration) -> Instant {
    monotonic().checked_add(from_now).map_or(deadline, |other| deadline.min(other))
}

/// Waits between two attempts. Not by parking: that would take a wake-up which the caller's thread is owed.
pub(crate) fn pause(time: Duration) {
    let nothing = Mutex::new(());
    let nobody = Condvar::new();
    if let Ok(guard) = nothing.lock() {
        // Nobody notifies: only the time ends this.
        drop(nobody.wait_timeout_while(guard, time, |()| true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lasts_and_takes_no_wake_up() {
        std::thread::current().unpark();
        let begun = monotonic();
        pause(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        // Returns at once: the wake-up is still there.
        std::thread::park();
    }

    #[test]
    fn a_deadline_that_has_passed_leaves_nothing() {
        assert_eq!(left_until(monotonic()), None);
        let far = monotonic() + Duration::from_secs(60);
        assert!(left_until(far).is_some());
        assert!(at_most(far, Duration::from_secs(1)) < far);
        assert_eq!(at_most(far, Duration::MAX), far);
    }
}
