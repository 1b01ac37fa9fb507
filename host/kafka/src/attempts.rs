//! Trying again until a deadline, with growing waits.

use crate::bounds::{FIRST_WAIT, LONGEST_WAIT};
use crate::clock::{left_until, pause};
use crate::error::KafkaError;
use std::time::{Duration, Instant};

/// The attempts of one call.
pub(crate) struct Attempts {
    deadline: Instant,
    wait: Duration,
}

impl Attempts {
    /// None so far.
    pub(crate) fn until(deadline: Instant) -> Self {
        Attempts { deadline, wait: FIRST_WAIT }
    }

    /// Waits before the next attempt; false if the deadline comes first.
    pub(crate) fn again(&mut self) -> bool {
        match left_until(self.deadline) {
            Some(left) if left > self.wait => {
                pause(self.wait);
                self.wait = (self.wait * 2).min(LONGEST_WAIT);
                true
            }
            _ => false,
        }
    }

    /// After a setback: waits if it may pass, else says why this is the end. `what` was to be done.
    pub(crate) fn after(&mut self, what: impl Fn() -> String, error: KafkaError) -> Result<(), KafkaError> {
        if !error.is_transient() {
            return Err(error);
        }
        if self.again() { Ok(()) } else { Err(KafkaError::TimedOut { what: what(), last: error.to_string() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    #[test]
    fn waits_grow_to_their_bound_and_end_with_the_deadline() {
        let begun = monotonic();
        let mut attempts = Attempts::until(begun + Duration::from_millis(300));
        let mut waits = Vec::new();
        while attempts.again() {
            waits.push(attempts.wait.as_millis());
        }
        assert_eq!(waits[..3], [40, 80, 100]);
        assert!(waits.len() <= 4, "20 + 40 + 80 + 100 ms, and no time for a fifth: {waits:?}");
        assert!(begun.elapsed() < Duration::from_millis(300));
    }

    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        let mut attempts = Attempts::until(monotonic() + Duration::from_secs(60));
        let error = KafkaError::Request("never".to_owned());
        assert_eq!(attempts.after(|| "x".to_owned(), error.clone()), Err(error));
        let passing = KafkaError::Garbled { broker: "b".to_owned(), why: "w".to_owned() };
        assert_eq!(attempts.after(|| "x".to_owned(), passing.clone()), Ok(()));
        let mut late = Attempts::until(monotonic());
        let end = late.after(|| "x".to_owned(), passing).expect_err("no time is left");
        assert_eq!(end.to_string(), "x was not done before its deadline: b: w");
    }
}
