//! When the next checkpoint starts.

use crate::coordinator::CheckpointKind;
use std::time::Duration;

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
