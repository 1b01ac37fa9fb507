//! Hot swap: which build of an operator's plugin runs, now and after a restart.
//!
//! One machine for each run of a job; it outlives attempts. A swap has a checkpoint of its own, at whose barrier every subtask
//! exchanges its instance. The manifest of that checkpoint names the new build, so the log decides: if it stands the new build
//! runs, else the attempt ends and the old one does. For some checkpoints the new build is on probation: if it fails, the next
//! attempt runs the old one, from the newest completed checkpoint. Both read the same state, so nothing is written twice.
//!
//! Invariants:
//! - X1: between two barriers all subtasks of an operator run one build.
//! - X2: one swap at a time; another build runs only behind the barrier of its swap checkpoint, and stays only if that is complete.
//! - X3: a restart runs what the checkpoint that it starts from names, or, where that build has failed on probation, the one before.
//! - X4: a build that has failed on probation runs again only if that is asked for.

mod machine;

#[cfg(test)]
mod tests;

pub use machine::SwapMachine;

use crate::ids::CheckpointId;
use std::collections::BTreeSet;

/// Which build of an operator's plugin runs, and what is remembered of others. Manifests hold it. Builds are named by the sha256
/// of the component.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperatorBuild {
    /// The one that the job file names.
    pub file: String,
    /// The one that runs.
    pub runs: String,
    /// Whether a failure of it leads back to another.
    pub probation: Option<Probation>,
    /// Builds that have failed on probation.
    pub refused: BTreeSet<String>,
}

impl OperatorBuild {
    /// What the job file names runs, and nothing is known of others.
    pub fn of_file(file: &str) -> Self {
        OperatorBuild { file: file.to_owned(), runs: file.to_owned(), probation: None, refused: BTreeSet::new() }
    }
}

/// A build that has yet to prove itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probation {
    /// The build before it.
    pub old: String,
    /// Checkpoints that it has yet to live through; at least 1.
    pub left: u32,
}

/// What the machine is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SwapEvent {
    /// An attempt begins, from a checkpoint that says this of each operator; none: it knows the operator not, or there is no
    /// checkpoint.
    AttemptBegan {
        /// By index of the operator.
        restored: Vec<Option<OperatorBuild>>,
    },
    /// Somebody wants another build.
    Requested {
        /// Of this operator.
        operator: usize,
        /// The build.
        build: String,
        /// Checkpoints of its probation; 0: none, and no way back once the swap checkpoint is complete.
        probation: u32,
        /// Take it although it has failed before.
        again: bool,
    },
    /// An opened instance for every subtask is at hand.
    Staged,
    /// The build can't be taken.
    StageFailed,
    /// This is the swap checkpoint; its barrier is not sent yet.
    Triggered {
        /// Its id.
        checkpoint: CheckpointId,
    },
    /// The manifest of a checkpoint stands.
    Completed {
        /// Its id.
        checkpoint: CheckpointId,
    },
    /// A call of an operator has failed, so that the attempt ends.
    BuildFailed {
        /// Which.
        operator: usize,
        /// The build that ran there.
        build: String,
    },
    /// Nothing of the attempt runs any more.
    AttemptEnded,
}

/// What the driver does, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SwapEffect {
    /// Answer the request: no.
    Refused(SwapRefusal),
    /// Check the build and make its instances; the answer is `Staged` or `StageFailed`.
    Stage,
    /// Ask for a swap checkpoint. Its trigger comes back as `Triggered`.
    RequestCheckpoint,
    /// Hand the instances to the subtasks, for the barrier of this checkpoint; then its barrier may be sent.
    Exchange {
        /// The swap checkpoint.
        checkpoint: CheckpointId,
    },
    /// The new build runs.
    Exchanged {
        /// Of this operator.
        operator: usize,
        /// The build before it.
        old: String,
        /// Checkpoints of its probation.
        probation: u32,
    },
    /// The probation is over; the build has passed it.
    Passed {
        /// Of this operator.
        operator: usize,
    },
    /// The old build goes on; a checkpoint with the new one does not stand.
    Undone {
        /// Of this operator.
        operator: usize,
        /// Whether the new build has failed; else what happened has nothing to do with it.
        failed: bool,
    },
    /// The old build runs again: the new one has failed on probation.
    RolledBack {
        /// Of this operator.
        operator: usize,
        /// What failed.
        failed: String,
        /// What runs.
        old: String,
    },
}

/// Why a swap is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwapRefusal {
    /// Another one is under way.
    Busy,
    /// The operator's build is on probation, for so many more checkpoints.
    OnProbation(u32),
    /// That build runs already.
    Same,
    /// That build has failed on probation.
    HasFailed,
}
