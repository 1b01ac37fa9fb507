//! One checkpoint under way, and what is remembered of one that has ended.

use super::events::{CheckpointKind, Committable};
use crate::ids::{CheckpointId, SubtaskIndex, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A checkpoint that is neither complete nor aborted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    pub kind: CheckpointKind,
    /// When its barrier was injected.
    pub triggered: Duration,
    /// The newest completed checkpoint when its barrier was injected: its snapshots may count on that one's files.
    pub base: CheckpointId,
    pub phase: Phase,
    /// Who has acknowledged it.
    pub acknowledged: BTreeSet<SubtaskIndex>,
    /// What its manifest will contain, with the instant from which on each may be gone.
    pub committables: BTreeMap<TransactionId, Option<Duration>>,
}

/// How far a checkpoint under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// Some acknowledgements are owed.
    Collecting,
    /// All have come, and the publish waits for its turn.
    Ready,
    /// The publish is under way: only the log can say what becomes of it.
    Publishing,
    /// The publish is under way and a tombstone tries to be there first.
    Withdrawing,
}

impl Pending {
    pub fn new(kind: CheckpointKind, triggered: Duration, base: CheckpointId) -> Self {
        Pending { kind, triggered, base, phase: Phase::Collecting, acknowledged: BTreeSet::new(), committables: BTreeMap::new() }
    }

    pub fn add_committables(&mut self, committables: Vec<Committable>) {
        self.committables.extend(committables.into_iter().map(|committable| (committable.id, committable.valid_until)));
    }

    /// When the first committable expires that no completed checkpoint contains.
    pub fn valid_until(&self, permitted: &BTreeSet<TransactionId>) -> Option<Duration> {
        self.committables.iter().filter(|(id, _)| !permitted.contains(id)).filter_map(|(_, until)| *until).min()
    }
}

/// What is remembered of a checkpoint that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ended {
    Completed,
    Aborted {
        /// Who has acknowledged it, in time or late.
        acknowledged: BTreeSet<SubtaskIndex>,
    },
}
