//! Whether and when a failed job starts again.

use crate::ids::Generation;
use std::time::Duration;

#[cfg(test)]
mod tests;

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

/// The policy of one run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartPolicy {
    strategy: RestartStrategy,
    reset_after: Duration,
    /// Failures in a row.
    failures: u32,
    /// The newest attempt that failed, and when the next one starts or started.
    last: Option<(Generation, Duration)>,
}

impl RestartPolicy {
    /// A policy. `reset_after`: running that long without a failure starts the count anew.
    pub fn new(strategy: RestartStrategy, reset_after: Duration) -> Self {
        RestartPolicy { strategy, reset_after, failures: 0, last: None }
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, event: RestartEvent, effects: &mut Vec<RestartEffect>) {
        match event {
            RestartEvent::Failed { now, generation } => self.failed(now, generation, effects),
        }
    }

    fn failed(&mut self, now: Duration, generation: Generation, effects: &mut Vec<RestartEffect>) {
        if let Some((failed, restarted)) = self.last {
            if generation <= failed {
                return;
            }
            // Counted from the restart: waiting for it is not running.
            if now >= restarted.saturating_add(self.reset_after) {
                self.failures = 0;
            }
        }
        self.failures += 1;
        match self.delay() {
            Some(delay) => {
                let at = now.saturating_add(delay);
                self.last = Some((generation, at));
                effects.push(RestartEffect::RestartAt { at, attempt: self.failures });
            }
            None => {
                self.last = Some((generation, Duration::MAX));
                effects.push(RestartEffect::GiveUp { failures: self.failures });
            }
        }
    }

    /// From this failure to the restart; none if there is none.
    fn delay(&self) -> Option<Duration> {
        match self.strategy {
            RestartStrategy::None => None,
            RestartStrategy::Fixed { delay, attempts } => (self.failures <= attempts).then_some(delay),
            RestartStrategy::Exponential { delay, max_delay, attempts } => (self.failures <= attempts).then(|| {
                // Doubling 2^31 times is beyond any longest delay.
                let factor = 2_u32.saturating_pow(self.failures - 1);
                delay.saturating_mul(factor).min(max_delay)
            }),
        }
    }
}
