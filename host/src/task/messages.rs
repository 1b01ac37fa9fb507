//! What a subtask and the coordinator say to each other. Neither ever touches the other's data.

use crate::connectors::{Committable, Remedy, SplitState};
use crate::state::LocalSnapshot;
use weir_protocol::{CheckpointId, SubtaskIndex, TransactionId};

/// Coordinator → subtask.
#[derive(Clone, Debug)]
pub enum TaskControl {
    /// Sources only: inject this barrier now.
    InjectBarrier {
        /// Of which checkpoint.
        checkpoint: CheckpointId,
        /// Read nothing after it: the job is being suspended.
        pause: bool,
    },
    /// The checkpoint is complete: its manifest holds every file that this subtask acknowledged for it.
    Complete(CheckpointId),
    /// The checkpoint was aborted.
    Abort(CheckpointId),
    /// These transactions of this job are committed; snapshots need not carry them any more.
    KnownCommitted(Vec<TransactionId>),
    /// The job has finished: sources close their channels, and every subtask returns when its input is closed.
    Finish,
}

/// Subtask → coordinator.
#[derive(Debug)]
pub enum TaskEvent {
    /// A source subtask has sent EndOfData.
    EndOfData {
        /// Which.
        subtask: SubtaskIndex,
    },
    /// Everything of a snapshot is durable on this machine; state files are not uploaded yet.
    Snapshot(SubtaskSnapshot),
    /// The subtask aborted its part of a checkpoint by itself (a newer barrier came first).
    Declined {
        /// Which.
        subtask: SubtaskIndex,
        /// Of which checkpoint.
        checkpoint: CheckpointId,
    },
    /// The subtask ended as it should.
    Finished {
        /// Which.
        subtask: SubtaskIndex,
    },
    /// The subtask failed: the attempt ends.
    Failed {
        /// Which.
        subtask: SubtaskIndex,
        /// Why.
        failure: TaskFailure,
    },
}

/// Why a subtask failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// Where: the stage's name and subtask.
    pub place: String,
    /// What, whose fault, what to do next.
    pub message: String,
    /// Whether a restart can help.
    pub remedy: Remedy,
}

/// One subtask's part of a checkpoint.
#[derive(Clone, Debug)]
pub struct SubtaskSnapshot {
    /// Which.
    pub subtask: SubtaskIndex,
    /// Of which checkpoint.
    pub checkpoint: CheckpointId,
    /// Positions, if the chain begins with a source.
    pub source: Option<SourceSnapshot>,
    /// One for each operator of the chain.
    pub operators: Vec<OperatorSnapshot>,
    /// One for each sink of the chain.
    pub sinks: Vec<SinkSnapshot>,
}

/// Positions of a source subtask.
#[derive(Clone, Debug)]
pub struct SourceSnapshot {
    /// Index of the source in the job graph.
    pub source: usize,
    /// Subtask of the source.
    pub subtask: u32,
    /// (index in the enumeration, state) of its splits.
    pub splits: Vec<(u32, SplitState)>,
    /// True if EndOfData was sent before the barrier.
    pub end_of_data: bool,
    /// The watermark that was given out; none if there is none.
    pub watermark: Option<i64>,
    /// The same of each of its splits that has one.
    pub split_watermarks: Vec<(u32, i64)>,
}

/// State of one operator in one subtask.
#[derive(Clone, Debug)]
pub struct OperatorSnapshot {
    /// Index of the operator in the job graph.
    pub operator: usize,
    /// Subtask of the operator.
    pub subtask: u32,
    /// Its keyed state; none if it declares none.
    pub state: Option<LocalSnapshot>,
    /// Ports whose end was processed.
    pub ended_ports: Vec<u32>,
    /// True if EndOfData was sent on.
    pub end_of_data_sent: bool,
    /// Its watermark: that of its input.
    pub watermark: Option<i64>,
    /// The one that it gave out, if it makes its own.
    pub output_watermark: Option<i64>,
}

/// Committables of one sink writer: all that were not known committed at the barrier, in prepare order.
#[derive(Clone, Debug)]
pub struct SinkSnapshot {
    /// Index of the sink in the job graph.
    pub sink: usize,
    /// The committables.
    pub committables: Vec<Committable>,
}
