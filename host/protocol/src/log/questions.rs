//! The questions that a machine puts to the storage, one at a time: numbered, and counted while they bring it no further.
//!
//! Invariants: a number is never used twice, so an answer to an earlier question is told from one to the last. Tries are bounded.

use super::Request;
use crate::bounds::LOG_TRIES;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Questions {
    asked: Request,
    tries: u32,
    tries_max: u32,
}

impl Questions {
    /// None asked yet.
    pub(super) fn new() -> Self {
        Questions { asked: Request(0), tries: 0, tries_max: LOG_TRIES }
    }

    /// The same with fewer tries than the bound.
    pub(super) fn with_tries(self, tries_max: u32) -> Self {
        assert!((1..=LOG_TRIES).contains(&tries_max), "tries are bounded");
        Questions { tries_max, ..self }
    }

    /// Whether an answer is to the last question. An earlier one says nothing about now.
    pub(super) fn is_last(&self, request: Request) -> bool {
        request == self.asked
    }

    /// The last one was answered with progress: tries are counted anew.
    pub(super) fn progress(&mut self) {
        self.tries = 0;
    }

    /// The last one brought nothing. False: that was the last try.
    pub(super) fn may_try_again(&mut self) -> bool {
        self.tries += 1;
        self.tries < self.tries_max
    }

    /// The next one: its number, and how often in a row it was asked before.
    pub(super) fn next(&mut self) -> (Request, u32) {
        assert!(self.tries < self.tries_max, "who has given up asks no more");
        self.asked = Request(self.asked.0 + 1);
        (self.asked, self.tries)
    }
}
