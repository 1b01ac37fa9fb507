//! What goes into the coordinator and what comes out of it.

use super::permit::CommitPermit;
use crate::ids::{CheckpointId, Generation, SubtaskIndex, TransactionId};
use crate::shared::FileRef;
use std::collections::BTreeSet;
use std::time::Duration;

/// What the coordinator knows from the start. Times are durations on the monotonic clock whose readings the events carry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CoordinatorConfig {
    /// This attempt.
    pub generation: Generation,
    /// Sequence of its first checkpoint: 1, unless the attempt has used some already.
    pub first_sequence: u32,
    /// Source subtasks: barriers are injected into every one, ended or not.
    pub sources: BTreeSet<SubtaskIndex>,
    /// Every subtask, sources included: each must acknowledge every checkpoint, ended or not.
    pub subtasks: BTreeSet<SubtaskIndex>,
    /// Time from trigger to trigger.
    pub interval: Duration,
    /// How long acknowledgements may take.
    pub timeout: Duration,
    /// Least time from the end of one checkpoint (complete or aborted) to the next trigger.
    pub min_pause: Duration,
    /// Checkpoints under way at a time, at least 1.
    pub max_concurrent: usize,
    /// Checkpoints in a row that may be aborted; one more and the job fails over.
    pub tolerable_failures: u32,
    /// Completed checkpoints to keep, at least 1.
    pub retain: usize,
}

/// A checkpoint that stood in the log when this attempt began.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompletedCheckpoint {
    /// Its id.
    pub checkpoint: CheckpointId,
    /// Names of its files.
    pub files: BTreeSet<String>,
    /// Transactions that its manifest contains.
    pub transactions: BTreeSet<TransactionId>,
}

/// A prepared transaction as the coordinator sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Committable {
    /// Its identity.
    pub id: TransactionId,
    /// From this instant on a commit may find it gone; none: it never expires. The margin for the commit is in it.
    pub valid_until: Option<Duration>,
}

/// What a checkpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckpointKind {
    /// The interval was over.
    Periodic,
    /// Builds are exchanged behind its barrier. It is alone, and the attempt ends if it is aborted.
    Swap,
    /// The job stops once it is complete and committed, and can go on from it. Sources may pause behind its barrier.
    Suspension,
    /// Every source has sent EndOfData before its barrier: the job has finished once it is complete and committed.
    Final,
}

impl CheckpointKind {
    /// Whether nothing is triggered after it.
    pub fn is_last(self) -> bool {
        match self {
            CheckpointKind::Periodic | CheckpointKind::Swap => false,
            CheckpointKind::Suspension | CheckpointKind::Final => true,
        }
    }
}

/// What the coordinator is told. `now` is read from the monotonic clock when the event is handed over.
///
/// Checkpoint ids name their attempt; what belongs to another attempt is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CoordEvent {
    /// Time has passed; due at [`next_deadline`](super::CheckpointCoordinator::next_deadline).
    Tick {
        /// Now.
        now: Duration,
    },
    /// A subtask's snapshot is durable. What else the manifest needs stays with the driver, by checkpoint and subtask.
    Acknowledge {
        /// Now.
        now: Duration,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Whose snapshot.
        subtask: SubtaskIndex,
        /// Every file of the snapshot.
        files: Vec<FileRef>,
        /// Every committable of the snapshot, riding ones included.
        committables: Vec<Committable>,
    },
    /// A subtask can't take part in this checkpoint.
    Decline {
        /// Now.
        now: Duration,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Who.
        subtask: SubtaskIndex,
    },
    /// A subtask has failed.
    TaskFailed {
        /// Now.
        now: Duration,
        /// Its attempt.
        generation: Generation,
        /// Who.
        subtask: SubtaskIndex,
    },
    /// A source subtask has sent EndOfData, or was restored as one that had.
    SourceEndOfData {
        /// Now.
        now: Duration,
        /// Its attempt.
        generation: Generation,
        /// Who.
        subtask: SubtaskIndex,
    },
    /// The manifest stands in its slot and nothing stands above it.
    Published {
        /// Now.
        now: Duration,
        /// Whose manifest.
        checkpoint: CheckpointId,
    },
    /// Nobody can say whether the manifest stands, and the log's publisher has given up asking.
    PublishUnknown {
        /// Now.
        now: Duration,
        /// Whose manifest.
        checkpoint: CheckpointId,
    },
    /// A tombstone stands in the slot: the manifest never will.
    TombstoneStands {
        /// Now.
        now: Duration,
        /// Whose manifest.
        checkpoint: CheckpointId,
    },
    /// A newer claim stands in the log (in the slot of a publish, or above it): another process owns the job.
    NewerClaim {
        /// Now.
        now: Duration,
    },
    /// Stop with a checkpoint from which the job can go on.
    RequestSuspend {
        /// Now.
        now: Duration,
    },
    /// Take a swap checkpoint.
    RequestSwap {
        /// Now.
        now: Duration,
    },
    /// Everything that the permit of this checkpoint names is committed (at once, if it names nothing).
    CommitsDone {
        /// Now.
        now: Duration,
        /// Whose permit.
        checkpoint: CheckpointId,
    },
}

impl CoordEvent {
    /// When it was handed over.
    pub fn now(&self) -> Duration {
        match self {
            CoordEvent::Tick { now }
            | CoordEvent::Acknowledge { now, .. }
            | CoordEvent::Decline { now, .. }
            | CoordEvent::TaskFailed { now, .. }
            | CoordEvent::SourceEndOfData { now, .. }
            | CoordEvent::Published { now, .. }
            | CoordEvent::PublishUnknown { now, .. }
            | CoordEvent::TombstoneStands { now, .. }
            | CoordEvent::NewerClaim { now }
            | CoordEvent::RequestSuspend { now }
            | CoordEvent::RequestSwap { now }
            | CoordEvent::CommitsDone { now, .. } => *now,
        }
    }
}

/// What the driver does, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CoordEffect {
    /// What became of an acknowledgement.
    Acknowledged {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Whose.
        subtask: SubtaskIndex,
        /// The answer.
        outcome: AckOutcome,
    },
    /// Send the barrier into these source subtasks. One that has ended answers with position = end.
    InjectBarrier {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What it is for.
        kind: CheckpointKind,
        /// Every source subtask.
        sources: BTreeSet<SubtaskIndex>,
    },
    /// Make files, folders and manifest durable and publish the manifest; the answer is `Published`, `PublishUnknown`,
    /// `TombstoneStands` or `NewerClaim`.
    PublishManifest {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Put a tombstone into the slot of the publish under way; the answer is `TombstoneStands`, `Published`,
    /// `PublishUnknown` or `NewerClaim`.
    PutTombstone {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Tell every subtask that this checkpoint is complete.
    NotifyComplete {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Hand this to every sink's commit coordinator; the answer, once all is committed, is `CommitsDone`.
    Commit(CommitPermit),
    /// Tell every subtask that this checkpoint is aborted. Transactions and freezes go on.
    NotifyAborted {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        reason: AbortReason,
    },
    /// Delete the log entry of this completed checkpoint, with what the log's retention allows below it; its files follow in
    /// `ReleaseFiles`. What stays is what the registry's `completed` names.
    Subsume {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Delete these files: nothing refers to them any more.
    ReleaseFiles {
        /// Their names.
        names: BTreeSet<String>,
    },
    /// Join every thread of this attempt, then recover or give up, as the restart policy says. The machine is done.
    FailOver {
        /// Why.
        reason: FailOverReason,
    },
    /// Another process owns the job: stop, delete nothing, commit nothing. The machine is done.
    Fenced,
    /// The final checkpoint is committed: write `finished`, then close the inputs. The machine is done.
    Finished {
        /// The final checkpoint.
        checkpoint: CheckpointId,
    },
    /// The suspension checkpoint is committed: stop. The machine is done.
    Suspended {
        /// The suspension checkpoint.
        checkpoint: CheckpointId,
    },
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AckOutcome {
    /// It counts.
    Accepted,
    /// This subtask had acknowledged this checkpoint before.
    Duplicate,
    /// The checkpoint was aborted before; what was uploaded for it is released.
    Late,
    /// No such checkpoint or subtask, or it is forgotten, or the attempt was over before it ended.
    Unknown,
    /// It belongs to another attempt.
    StaleGeneration,
}

/// Why a checkpoint was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// Not every acknowledgement came in time.
    Timeout,
    /// A subtask declined it.
    Declined(SubtaskIndex),
    /// A newer one completed.
    Subsumed,
    /// A subtask counted on a stored file that no completed checkpoint holds any more.
    FileGone(SubtaskIndex),
    /// A subtask named more files or committables than the bound allows.
    OverBound(SubtaskIndex),
    /// A committable would have expired before its commit.
    Expired,
    /// A tombstone stands in its slot.
    Tombstone,
    /// The attempt ends.
    FailOver,
}

/// Why the attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailOverReason {
    /// A subtask failed.
    TaskFailed(SubtaskIndex),
    /// More checkpoints in a row were aborted than are tolerable; the last one was this.
    TooManyAborts(CheckpointId),
    /// A committable of this checkpoint expired before it could be published. Its input is replayed.
    Expired(CheckpointId),
    /// Nobody can say whether the manifest of this checkpoint stands: the next claim finds out.
    PublishUnknown(CheckpointId),
    /// This swap checkpoint was aborted: some subtasks may run the new build behind its barrier, some the old one.
    SwapAborted(CheckpointId),
    /// The attempt has used up its checkpoint ids.
    SequenceExhausted,
}
