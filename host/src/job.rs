//! What the command line asks of a job's run, and what it hears back: plain types between `cli` and the runtime.

use crate::graph::{JobGraph, PluginFacts, Problem};
use crate::transactions::{TransactionPlace, TransactionReport, TransactionWish};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use weir_protocol::{CheckpointId, Generation, TransactionId};

/// What runs jobs: implemented by the coordinator, called by the command line.
pub trait Runtime {
    /// Loads every plugin of the job (operators and plugin sinks) and gives what the graph must know of the operators, by
    /// name. A plugin that can't be loaded, is not the pinned one, or does not fit its place is a problem; all are listed.
    fn plugin_facts(&self, graph: &JobGraph) -> Result<BTreeMap<String, PluginFacts>, Vec<Problem>>;

    /// What a start with this data folder would find outside: inputs, clusters. Nothing is changed.
    fn look_outside(&self, _graph: &JobGraph, _data: &Path) -> Outside {
        Outside::default()
    }

    /// What became of the transactions of a job's sinks, after doing with them what is wanted. Blocks the calling thread.
    fn transactions(&self, place: &TransactionPlace, wish: &TransactionWish) -> Result<TransactionReport, Vec<Problem>>;

    /// A runtime for one more job beside this one's, sharing what jobs can share: names of operators are a job's own.
    fn another(&self) -> Result<Arc<dyn Runtime + Send + Sync>, Vec<Problem>>;

    /// Runs the job until it is finished, stopped or failed. Blocks the calling thread.
    fn run(&self, graph: JobGraph, options: RunOptions, stop: StopSignal, events: EventListener) -> JobOutcome;
}

/// What there is outside of a job.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// What a run would be refused for.
    pub problems: Vec<Problem>,
    /// Of each source and sink that has something to tell.
    pub nodes: Vec<NodeOutside>,
}

/// What there is outside of a source or sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeOutside {
    /// As `sink balances`.
    pub place: String,
    /// What endangers the promise, or surprises.
    pub warnings: Vec<String>,
    /// What is there, and what follows from it.
    pub facts: Vec<String>,
}

/// Called with every event of a run, from any thread; it must return soon.
pub type EventListener = Arc<dyn Fn(JobEvent) + Send + Sync>;

/// How to run a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// The data folder.
    pub data: PathBuf,
    /// Where to start.
    pub mode: StartMode,
    /// Whether committed output may be written again.
    pub allow_duplicates: bool,
    /// Whether a first start may use names outside that somebody has used before.
    pub take_over: bool,
    /// Whether it listens on a control socket in the data folder.
    pub control: bool,
}

/// Where a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// At the newest completed checkpoint; at the beginning if there is none.
    Resume,
    /// At the beginning, with a new lineage.
    Fresh,
    /// At this checkpoint.
    From(CheckpointId),
}

/// What a stop handle has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Nothing: go on.
    None,
    /// Suspend: take a final checkpoint, commit it, end.
    Suspend,
    /// Stop now, without a checkpoint.
    Now,
}

/// Asks a run to stop. Requests only ever get stronger.
#[derive(Clone, Debug)]
pub struct StopHandle {
    sender: Arc<watch::Sender<StopRequest>>,
}

/// The run's end of a [`StopHandle`].
#[derive(Clone, Debug)]
pub struct StopSignal {
    receiver: watch::Receiver<StopRequest>,
    // Keeps the channel open: a dropped handle is "nobody asks any more", not an error to handle.
    _sender: Arc<watch::Sender<StopRequest>>,
}

/// A handle and the signal that it raises.
pub fn stop_pair() -> (StopHandle, StopSignal) {
    let (sender, receiver) = watch::channel(StopRequest::None);
    let sender = Arc::new(sender);
    (StopHandle { sender: Arc::clone(&sender) }, StopSignal { receiver, _sender: sender })
}

impl StopHandle {
    /// Asks; a weaker request than one before changes nothing. Gives what now holds.
    pub fn ask(&self, request: StopRequest) -> StopRequest {
        self.sender.send_if_modified(|held| {
            let stronger = request > *held;
            if stronger {
                *held = request;
            }
            stronger
        });
        *self.sender.borrow()
    }

    /// What is asked for now.
    pub fn requested(&self) -> StopRequest {
        *self.sender.borrow()
    }

    /// One more wish of the user to stop: the first suspends, every later one stops now.
    pub fn escalate(&self) -> StopRequest {
        let next = match *self.sender.borrow() {
            StopRequest::None => StopRequest::Suspend,
            StopRequest::Suspend | StopRequest::Now => StopRequest::Now,
        };
        self.ask(next)
    }
}

impl StopSignal {
    /// What is asked for now.
    pub fn requested(&self) -> StopRequest {
        *self.receiver.borrow()
    }

    /// Waits until something stronger than what was last seen here is asked for. Cancel-safe.
    pub async fn changed(&mut self) -> StopRequest {
        self.receiver.changed().await.expect("the signal itself keeps the sender alive");
        *self.receiver.borrow_and_update()
    }
}

/// How a run ended. Each variant has one exit code (`cli::exit`).
#[derive(Clone, Debug)]
pub enum JobOutcome {
    /// Bounded input has ended, all of it is committed.
    Finished {
        /// The final checkpoint.
        checkpoint: CheckpointId,
    },
    /// It had finished before; nothing was done.
    AlreadyFinished {
        /// The final checkpoint.
        checkpoint: CheckpointId,
    },
    /// Stopped on request, after a final checkpoint and its commits.
    Suspended {
        /// Where the next run resumes.
        checkpoint: CheckpointId,
    },
    /// Stopped on request at once, without a checkpoint.
    Stopped {
        /// Where the next run resumes; none: at the beginning.
        resumes_from: Option<CheckpointId>,
    },
    /// Failed for good.
    Failed(Failure),
    /// Refused before anything ran.
    Refused {
        /// Every problem found.
        problems: Vec<Problem>,
    },
    /// Records were prepared and are known not to be committed, or nobody can say.
    CommitLost {
        /// Every such transaction.
        transactions: Vec<LostTransaction>,
    },
    /// The checkpoint can't be restored here.
    CannotRestore {
        /// Which; none if not even the log can be read.
        checkpoint: Option<CheckpointId>,
        /// Why: state or plugin incompatible, missing or corrupt file.
        why: String,
        /// The newest older one that can be.
        older: Option<CheckpointId>,
    },
    /// Another process has taken the job over; nothing was committed after that.
    Fenced {
        /// Who, as far as the job's log says.
        by: String,
    },
}

/// Why a job failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub why: String,
    /// Operator, source or sink, subtask, and file or record where it did.
    pub place: String,
    /// What to do.
    pub next: String,
}

/// A transaction whose records are lost, or of unknown fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTransaction {
    /// Its identity.
    pub id: TransactionId,
    /// The checkpoint at which it was prepared.
    pub checkpoint: CheckpointId,
    /// True: certainly not committed. False: nobody can say.
    pub certain: bool,
    /// What the outside said.
    pub why: String,
    /// Source, split, first and last position of its records.
    pub sources: Vec<LostRange>,
}

/// Source positions whose results are not in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// Name of the source.
    pub source: String,
    /// Name of the split.
    pub split: String,
    /// Position of the first record.
    pub first: u64,
    /// Position of the last record.
    pub last: u64,
}

/// What happens while a job runs.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// An attempt starts: the first one of this process, or a restart.
    Started {
        /// Its generation.
        generation: Generation,
        /// Where it starts; none: at the beginning.
        from: Option<CheckpointId>,
    },
    /// A checkpoint is complete: its manifest is published.
    CheckpointCompleted(CheckpointProgress),
    /// A checkpoint was aborted; the job goes on.
    CheckpointAborted {
        /// Which.
        checkpoint: CheckpointId,
        /// Why.
        reason: String,
    },
    /// All transactions of a checkpoint are committed.
    Committed {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// The attempt failed and another one follows.
    Restarting {
        /// Failures in a row, from 1.
        failures: u32,
        /// After how many the job fails for good.
        attempts: u32,
        /// Time until the next attempt.
        delay: Duration,
        /// Why.
        why: Failure,
    },
    /// A stop request was taken; the final checkpoint is under way.
    Suspending,
    /// Something the user should hear (a rebuilt plugin is taken, an output is dropped).
    Notice(String),
    /// Figures, about twice a second.
    Progress(Progress),
}

/// A completed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointProgress {
    /// Which.
    pub checkpoint: CheckpointId,
    /// From trigger to publication.
    pub duration: Duration,
    /// Bytes of state that it added to the storage.
    pub uploaded_bytes: u64,
    /// Bytes of state that it refers to.
    pub state_bytes: u64,
}

/// Figures of a running job.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Monotonic time since the run began: rates are differences of two figures over the difference of these.
    pub elapsed: Duration,
    /// One for each task of the execution graph, in its order.
    pub stages: Vec<StageProgress>,
    /// The last completed checkpoint of this lineage.
    pub checkpoint: Option<CheckpointProgress>,
    /// The checkpoint up to which everything is committed.
    pub committed: Option<CheckpointId>,
    /// Sinks that have been waiting for what is outside for more than some seconds.
    pub waits: Vec<OutsideWait>,
}

/// A sink that waits for what is outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideWait {
    /// Its name in the job file.
    pub sink: String,
    /// What it waits for, as `the brokers acknowledge no records`.
    pub what: String,
    /// For how long by now.
    pub time: Duration,
}

/// Figures of one stage, summed over its subtasks.
#[derive(Clone, Debug, PartialEq)]
pub struct StageProgress {
    /// Names of its nodes, as `parse → stats`.
    pub name: String,
    /// Number of subtasks.
    pub subtasks: u32,
    /// Records that its root took in (for a source: read) since the run began.
    pub records_in: u64,
    /// Records that left its nodes for other stages, or were written by its sinks, since the run began.
    pub records_out: u64,
    /// Bytes waiting in its input channels.
    pub backlog_bytes: u64,
    /// Share of the time at work, 0 … 1, over the last interval.
    pub busy: f32,
    /// Share of the time waiting for room downstream.
    pub backpressured: f32,
    /// Share of the time waiting for input.
    pub idle: f32,
    /// Time of its threads since the run began, restarts included.
    pub thread: Duration,
    /// Where that time went, by node of the chain.
    pub nodes: Vec<NodeProfile>,
}

/// Where the time of one node went, summed over its subtasks, since the run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// Its name in the job file.
    pub name: String,
    /// Records that it got (for a source: read).
    pub records: u64,
    /// Whether it is a sink: nothing waits for its event time.
    pub is_sink: bool,
    /// What took time. No two of them overlap.
    pub stages: Vec<StageProfile>,
    /// How far its event time has come; none if it has none.
    pub event_time: Option<EventTimeProgress>,
}

/// How far the event time of a node has come, over its subtasks: the least watermark of those that are neither idle nor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTimeProgress {
    /// The watermark, ms since the Unix epoch; none: there is none yet, or all input has ended.
    pub watermark_ms: Option<i64>,
    /// How far it is behind the wall clock, ms.
    pub lag_ms: Option<i64>,
    /// No record is expected for now.
    pub is_idle: bool,
    /// All input has ended.
    pub has_ended: bool,
}

/// What one kind of work took in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageProfile {
    /// Its name.
    pub stage: &'static str,
    /// Time of the threads.
    pub time: Duration,
    /// What was counted besides: (name, count).
    pub counts: Vec<(&'static str, u64)>,
}
