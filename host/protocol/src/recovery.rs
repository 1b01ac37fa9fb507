//! What has to be done before the first record: a pure function of the log and of what the user asks for.

use crate::log::{Slot, Start};
use crate::{CheckpointId, Generation, Lineage, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To run the job.
    Run,
    /// To end transactions or collect garbage (`txn abort`, `checkpoint gc`): never "finished", never refused for repeats.
    Maintain,
}

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// What for.
    pub purpose: Purpose,
    /// `--fresh`, `--from`, or nothing.
    pub start: Start,
    /// `--allow-duplicates`.
    pub allow_duplicates: bool,
}

/// Where a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartPoint {
    /// With empty state, at the beginning of every source.
    Scratch,
    /// With this checkpoint's state and positions.
    Checkpoint(CheckpointId),
}

/// Committed output that a start would write again: sink → transactions.
pub type Repeats = BTreeMap<String, Vec<TransactionId>>;

/// What to do, in this order: commit, abort, restore, run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecoveryPlan {
    /// Where to begin.
    pub start: StartPoint,
    /// Where `start` stands in the log.
    pub start_slot: Option<Slot>,
    /// The newest completed checkpoint that can be read.
    pub newest: Option<CheckpointId>,
    /// All that it contains, in prepare order for each writer: to be committed first.
    pub commit: Vec<TransactionId>,
    /// Contained in an older checkpoint but not in the newest, or finished: committed already, no call.
    pub known_committed: BTreeSet<TransactionId>,
    /// Nothing of a newer generation is touched.
    pub up_to: Generation,
    /// Every lineage of this job: where to look for what hangs.
    pub lineages: BTreeSet<Lineage>,
    /// What will be written again, as the user allowed.
    pub repeats: Repeats,
    /// True if `start` is a final checkpoint: once its commits are done, only `finished` is missing.
    pub last: bool,
}

/// Why a start is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The log holds entries of another job.
    ForeignLog {
        /// Where.
        slot: Slot,
        /// Whose.
        job: String,
    },
    /// `--from` names a checkpoint that is not in the log.
    NoSuchCheckpoint {
        /// The name.
        id: CheckpointId,
        /// Those that are.
        available: Vec<CheckpointId>,
    },
    /// Committed output would be written again, and `--allow-duplicates` was not given.
    WouldRepeat {
        /// Where it would begin.
        start: StartPoint,
        /// What would be repeated.
        repeats: Repeats,
        /// Completed checkpoints after the start.
        after: Vec<CheckpointId>,
    },
    /// An entry that may be the newest checkpoint can't be read. `--from` with `--allow-duplicates` goes on without it.
    NewestUnreadable {
        /// Where.
        slot: Slot,
        /// What is wrong with it.
        reason: String,
        /// Those that can be read.
        available: Vec<CheckpointId>,
    },
}

/// What a start comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may start.
    Proceed(RecoveryPlan),
    /// There is nothing left to do.
    Finished(CheckpointId),
    /// It may not.
    Refused(Refusal),
}

/// Judges `ask` by the log. `up_to` is the generation of the claim, made or about to be made.
pub fn plan(_log: &crate::log::LogView, _ask: &Ask, up_to: Generation) -> Verdict {
    let _ = up_to;
    Verdict::Refused(Refusal::NoSuchCheckpoint { id: CheckpointId::new(up_to, 0), available: Vec::new() })
}
