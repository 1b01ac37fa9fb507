//! When the next checkpoint starts.
//!
//! A periodic one waits for the interval (trigger to trigger), the pause (end to trigger) and a free place among
//! `max_concurrent`. One that waited too long is skipped, never queued: the next interval counts from the trigger that
//! happened. The last checkpoint of an attempt (final or suspension) waits for the free place only, nothing starts after it,
//! and it is repeated while it aborts.

use crate::bounds;
use crate::coordinator::CheckpointKind;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// What the policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerEvent {
    /// A checkpoint was triggered.
    Triggered {
        /// Now.
        now: Duration,
        /// What it is for.
        kind: CheckpointKind,
    },
    /// A checkpoint is complete.
    Completed {
        /// Now.
        now: Duration,
        /// What it was for.
        kind: CheckpointKind,
    },
    /// A checkpoint was aborted.
    Aborted {
        /// Now.
        now: Duration,
        /// What it was for.
        kind: CheckpointKind,
    },
    /// The job shall be suspended.
    SuspendRequested,
    /// Every source has sent EndOfData.
    SourcesEnded,
}

/// When the next checkpoint may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerDecision {
    /// At this instant or any later one.
    At {
        /// When.
        at: Duration,
        /// What it is for.
        kind: CheckpointKind,
    },
    /// When one of those under way ends.
    AfterPending,
    /// Never: the last one is under way or complete.
    Never,
}

/// The policy of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TriggerPolicy {
    interval: Duration,
    min_pause: Duration,
    max_concurrent: usize,
    /// What the next checkpoint is for.
    next: CheckpointKind,
    /// Start of the newest one, or of the attempt.
    triggered: Duration,
    /// End of the one that ended last, complete or aborted.
    ended: Option<Duration>,
    /// How many are under way.
    pending: usize,
    /// Whether the last checkpoint of the attempt is under way or complete.
    last: bool,
}

impl TriggerPolicy {
    /// A policy whose first interval counts from `now`. `max_concurrent`: at least 1; the bound of the crate caps it.
    pub fn new(interval: Duration, min_pause: Duration, max_concurrent: usize, now: Duration) -> Self {
        assert!(max_concurrent > 0, "C6: no checkpoint could ever start");
        TriggerPolicy {
            interval,
            min_pause,
            max_concurrent: max_concurrent.min(bounds::CONCURRENT_CHECKPOINTS),
            next: CheckpointKind::Periodic,
            triggered: now,
            ended: None,
            pending: 0,
            last: false,
        }
    }

    /// Takes one event.
    pub fn handle(&mut self, event: TriggerEvent) {
        match event {
            TriggerEvent::Triggered { now, kind } => {
                assert!(self.pending < self.max_concurrent, "C6: {} checkpoints are under way", self.pending);
                assert!(!self.last, "C6: nothing starts after the last checkpoint of an attempt");
                self.pending += 1;
                self.triggered = now;
                self.last = kind.is_last();
            }
            TriggerEvent::Completed { now, kind: _ } => self.one_ended(now),
            TriggerEvent::Aborted { now, kind } => {
                self.one_ended(now);
                if kind.is_last() {
                    self.last = false;
                }
            }
            // A job whose input has ended finishes; it is not suspended.
            TriggerEvent::SuspendRequested => self.next = self.next.max(CheckpointKind::Suspension),
            TriggerEvent::SourcesEnded => self.next = CheckpointKind::Final,
        }
    }

    /// When the next checkpoint may start.
    pub fn decision(&self) -> TriggerDecision {
        if self.last {
            return TriggerDecision::Never;
        }
        if self.pending >= self.max_concurrent {
            return TriggerDecision::AfterPending;
        }
        let at = match self.next {
            CheckpointKind::Periodic => {
                let paused = self.ended.map_or(Duration::ZERO, |ended| ended.saturating_add(self.min_pause));
                self.triggered.saturating_add(self.interval).max(paused)
            }
            CheckpointKind::Suspension | CheckpointKind::Final => Duration::ZERO,
        };
        TriggerDecision::At { at, kind: self.next }
    }

    fn one_ended(&mut self, now: Duration) {
        assert!(self.pending > 0, "C6: a checkpoint ended that was not under way");
        self.pending -= 1;
        self.ended = Some(now);
    }
}
