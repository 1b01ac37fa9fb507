//! Whether and when a failed job starts again.

use crate::ids::Generation;
use std::time::Duration;

/// How delays grow and how many restarts there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RestartStrategy {
    /// Never.
    None,
    /// Always after the same delay.
    Fixed {
        /// From failure to restart.
        delay: Duration,
        /// Restarts in a row.
        attempts: u32,
    },
    /// The delay doubles with each failure in a row.
    Exponential {
        /// The first delay.
        delay: Duration,
        /// The longest delay.
        max_delay: Duration,
        /// Restarts in a row.
        attempts: u32,
    },
}

/// What the policy is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RestartEvent {
    /// An attempt has failed with an error that a restart may mend. Only the first of an attempt counts.
    Failed {
        /// Now.
        now: Duration,
        /// The attempt.
        generation: Generation,
    },
}

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RestartEffect {
    /// Start a new attempt at this instant.
    RestartAt {
        /// When.
        at: Duration,
        /// Which restart in a row, from 1.
        attempt: u32,
    },
    /// The job has failed for good.
    GiveUp {
        /// Failures in a row.
        failures: u32,
    },
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartPolicy {}

impl RestartPolicy {
    /// A policy. `reset_after`: running that long without a failure starts the count anew.
    pub fn new(_strategy: RestartStrategy, _reset_after: Duration) -> Self {
        RestartPolicy {}
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, _event: RestartEvent, _effects: &mut Vec<RestartEffect>) {}
}
