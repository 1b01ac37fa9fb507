//! Trying again until a deadline, with growing waits.

use crate::bounds::{FIRST_WAIT, LONGEST_WAIT};
use crate::clock::{left_until, pause};
use crate::error::KafkaError;
use std::time::{Duration, Instant};

/// The attempts of one call.
pub(crate) struct Attempts {
    deadline: Instant,
    wait: Duration,
    /// What the last attempt met that had its time.
    last: Option<String>,
}

impl Attempts {
    /// None so far.
    pub(crate) fn until(deadline: Instant) -> Self {
        Attempts { deadline, wait: FIRST_WAIT, last: None }
    }

    /// After a setback: waits before the next attempt.
    ///
    /// # Errors
    /// The setback to tell of, if the deadline comes first.
    pub(crate) fn again(&mut self, setback: String) -> Result<(), String> {
        let left = left_until(self.deadline);
        // An attempt that the deadline has cut short only says that there was no answer in time: the one before says more.
        let told = match self.last.take() {
            Some(last) if left.is_none() => last,
            _ => setback,
        };
        if left.is_none_or(|left| left <= self.wait) {
            return Err(told);
        }
        self.last = Some(told);
        pause(self.wait);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }

    /// The same for an error, if it may pass; else this is the end. `what` was to be done.
    pub(crate) fn after(&mut self, what: impl Fn() -> String, error: KafkaError) -> Result<(), KafkaError> {
        if !error.is_transient() {
            return Err(error);
        }
        self.again(error.to_string()).map_err(|last| KafkaError::TimedOut { what: what(), last })
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
        while attempts.again("a setback".to_owned()).is_ok() {
            waits.push(attempts.wait.as_millis());
        }
        assert_eq!(waits[..3], [40, 80, 100]);
        assert!(waits.len() <= 4, "20 + 40 + 80 + 100 ms, and no time for a fifth: {waits:?}");
        assert!(begun.elapsed() < Duration::from_millis(300));
    }

    #[test]
    fn an_attempt_that_was_cut_short_does_not_hide_the_one_before() {
        let mut attempts = Attempts::until(monotonic() + Duration::from_millis(50));
        assert_eq!(attempts.again("closed".to_owned()), Ok(()));
        pause(Duration::from_millis(50));
        assert_eq!(attempts.again("no answer in time".to_owned()), Err("closed".to_owned()));
        // Of several the newest that had its time.
        let mut attempts = Attempts::until(monotonic() + Duration::from_millis(50));
        assert_eq!(attempts.again("first".to_owned()), Ok(()));
        assert_eq!(attempts.again("second".to_owned()), Err("second".to_owned()));
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
