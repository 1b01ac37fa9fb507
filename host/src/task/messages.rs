//! What a subtask and the coordinator say to each other. Neither ever touches the other's data.

use super::operator::StreamOperator;
use crate::connectors::{Committable, Remedy, SplitState};
use crate::state::LocalSnapshot;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_plugin::StatePart;
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
    /// Subtasks of this operator only: at the barrier of a checkpoint that comes, run this instance.
    Exchange(NextBuild),
    /// The build of this operator, by its index in the job graph, is no longer on probation.
    Trusted(usize),
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
        /// The build that failed, if it was a call of an operator.
        culprit: Option<Culprit>,
    },
    /// The subtask runs the new build of an operator.
    Exchanged {
        /// How long no record was processed.
        pause: ExchangePause,
    },
}

/// A build whose call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Index of the operator in the job graph.
    pub operator: usize,
    /// sha256 of its plugin.
    pub build: String,
}

/// How long a subtask stood still while it exchanged a build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangePause {
    /// For the exchange itself: what it took beyond a plain checkpoint.
    pub exchange: Duration,
    /// From the barrier to the end of the exchange.
    pub barrier: Duration,
}

/// An open instance of another build of an operator, made beside the data path.
#[derive(Clone, Debug)]
pub struct NextBuild {
    /// The swap checkpoint.
    pub checkpoint: CheckpointId,
    /// Index of the operator in the job graph.
    pub operator: usize,
    /// sha256 of the plugin.
    pub build: Arc<str>,
    /// The instance; after the exchange, the one that ran before.
    pub slot: InstanceSlot,
}

/// A place for an instance that changes hands.
#[derive(Clone)]
pub struct InstanceSlot {
    instance: Arc<Mutex<Box<dyn StreamOperator>>>,
}

impl InstanceSlot {
    /// Holds this one.
    pub fn new(instance: Box<dyn StreamOperator>) -> Self {
        InstanceSlot { instance: Arc::new(Mutex::new(instance)) }
    }

    /// The one that it holds.
    pub fn lock(&self) -> MutexGuard<'_, Box<dyn StreamOperator>> {
        // A plugin that panicked in `close` is as good as closed.
        self.instance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for InstanceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceSlot")
    }
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
    /// The operator's own state; none if it has none.
    pub parts: Option<Vec<StatePart>>,
}

/// Committables of one sink writer: all that were not known committed at the barrier, in prepare order.
#[derive(Clone, Debug)]
pub struct SinkSnapshot {
    /// Index of the sink in the job graph.
    pub sink: usize,
    /// The committables.
    pub committables: Vec<Committable>,
}
