//! When the next checkpoint starts.
//!
//! A periodic one waits for the interval (trigger to trigger), the pause (end to trigger) and a free place among
//! `max_concurrent`. One that waited too long is skipped, never queued: the next interval counts from the trigger that
//! happened. The last checkpoint of an attempt (final or suspension) waits for the free place only, nothing starts after it,
//! and it is repeated while it aborts. A swap checkpoint is alone: it waits until none is under way, and nothing starts before
//! it has ended, so that none is subsumed and the builds before and behind it never meet in one manifest.

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
    /// Builds shall be exchanged.
    SwapRequested,
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
    /// Whether a swap checkpoint is under way.
    swapping: bool,
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
            swapping: false,
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
                if kind == CheckpointKind::Swap {
                    assert!(self.pending == 1, "X2: a swap checkpoint is alone");
                    self.swapping = true;
                    // A suspension that was asked for meanwhile is still to come.
                    self.next = if self.next == CheckpointKind::Swap { CheckpointKind::Periodic } else { self.next };
                }
            }
            TriggerEvent::Completed { now, kind } => self.one_ended(now, kind),
            TriggerEvent::Aborted { now, kind } => {
                self.one_ended(now, kind);
                if kind.is_last() {
                    self.last = false;
                }
            }
            // A job whose input has ended finishes; it is not suspended.
            TriggerEvent::SuspendRequested => self.next = self.next.max(CheckpointKind::Suspension),
            // One that is to be suspended or finishes is not swapped.
            TriggerEvent::SwapRequested => self.next = self.next.max(CheckpointKind::Swap),
            TriggerEvent::SourcesEnded => self.next = CheckpointKind::Final,
        }
    }

    /// When the next checkpoint may start.
    pub fn decision(&self) -> TriggerDecision {
        if self.last {
            return TriggerDecision::Never;
        }
        let alone = self.next == CheckpointKind::Swap;
        if self.pending >= self.max_concurrent || self.swapping || alone && self.pending > 0 {
            return TriggerDecision::AfterPending;
        }
        let at = match self.next {
            CheckpointKind::Periodic => {
                let paused = self.ended.map_or(Duration::ZERO, |ended| ended.saturating_add(self.min_pause));
                self.triggered.saturating_add(self.interval).max(paused)
            }
            CheckpointKind::Swap | CheckpointKind::Suspension | CheckpointKind::Final => Duration::ZERO,
        };
        TriggerDecision::At { at, kind: self.next }
    }

    fn one_ended(&mut self, now: Duration, kind: CheckpointKind) {
        assert!(self.pending > 0, "C6: a checkpoint ended that was not under way");
        self.pending -= 1;
        self.swapping &= kind != CheckpointKind::Swap;
        self.ended = Some(now);
    }
}
