//! Sources and sinks: the trait pairs that built-in connectors and plugins implement alike.

pub mod conformance;
pub mod dead_letter;
mod discard;
mod durable;
pub mod factory;
mod file_committer;
mod file_input;
mod file_sink;
mod file_source;
mod file_staging;
mod file_writer;
mod kafka;
mod line_reader;
pub mod plugin_sink;
mod rate;
pub mod sequence;

pub use factory::{sink_connector, source_connector};
pub(crate) use kafka::drill as kafka_drill;
pub(crate) use kafka::reach as kafka_reach;

use crate::channel::{Provenance, SourceSpan};
use crate::graph::Problem;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_plugin::batch::RecordBatch;
use weir_protocol::{CheckpointId, Generation, Lineage, TransactionId};

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A restart may help (a full disk, a busy device): the restart policy decides.
    Restart,
    /// It can't: the input or the configuration must change first. The job fails at once.
    Permanent,
    /// Nothing has failed: the job goes on at once from its newest checkpoint, with what has come since it started.
    Refresh,
}

/// Why a connector failed: what, where, whose fault and what to do next, in one text.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConnectorError {
    /// For the user.
    pub message: String,
    /// Whether a restart can help.
    pub remedy: Remedy,
}

impl ConnectorError {
    /// As a problem of this place, which most messages name already.
    pub fn at(&self, place: &str) -> Problem {
        let what = self.message.strip_prefix(place).and_then(|rest| rest.strip_prefix(": "));
        Problem::new(place, what.unwrap_or(&self.message), "")
    }

    /// An error that a restart may mend.
    pub fn restart(message: impl Into<String>) -> Self {
        ConnectorError { message: message.into(), remedy: Remedy::Restart }
    }

    /// An error that only a change of input or configuration mends.
    pub fn permanent(message: impl Into<String>) -> Self {
        ConnectorError { message: message.into(), remedy: Remedy::Permanent }
    }
}

/// One split of a source (a file, a partition) and how far it was read. Stored in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitState {
    /// Name of the split: a file's path, a partition. Its index in the enumeration never changes.
    pub split: String,
    /// Next position to read.
    pub position: u64,
    /// True once the end was reached: it is not opened again.
    pub ended: bool,
    /// What the connector needs to tell a changed split from the one it read (digests, sizes); its own affair.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub detail: serde_json::Value,
}

/// What a source has now.
#[derive(Debug)]
pub enum SourcePoll {
    /// Records; never empty.
    Batch {
        /// The records.
        records: RecordBatch,
        /// Where they came from.
        provenance: Provenance,
    },
    /// Nothing now; ask again after this time.
    Pending(Duration),
    /// Every split of this subtask has ended, for good.
    End,
}

/// How much one poll may give.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Records at most.
    pub records: usize,
    /// Bytes of keys and values at most, but for a single larger record.
    pub bytes: usize,
}

/// What a connector finds outside before a job runs. Nothing is changed to find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// What a run would be refused for.
    pub problems: Vec<Problem>,
    /// What endangers the promise, or surprises.
    pub warnings: Vec<String>,
    /// What is there, and what follows from it.
    pub facts: Vec<String>,
}

/// A kind of source, configured. Shared by all its subtasks.
pub trait SourceConnector: Send + Sync {
    /// The splits at the first start, each at its beginning, in a fixed order. Later starts take them from the checkpoint.
    fn enumerate(&self) -> Result<Vec<SplitState>, ConnectorError>;

    /// Splits that have come since these were enumerated, in a fixed order: they are read from here on, after those.
    fn added(&self, _splits: &[SplitState]) -> Result<Vec<SplitState>, ConnectorError> {
        Ok(Vec::new())
    }

    /// Time between two looks for [`added`](Self::added) splits while the job runs; none: there never are any.
    fn discovery(&self) -> Option<Duration> {
        None
    }

    /// What the user should hear when a job resumes with these splits although its settings by now name others.
    fn differs(&self, _splits: &[SplitState]) -> Result<Vec<String>, ConnectorError> {
        Ok(Vec::new())
    }

    /// What `weir check` should know of what it reads from.
    fn outlook(&self) -> Outlook {
        Outlook::default()
    }

    /// Opens the reader of one subtask. `splits`: (index in the enumeration, state) of those that it owns; ended ones must
    /// not be touched. `source`: index for provenance.
    fn open(&self, source: u16, splits: Vec<(u32, SplitState)>, task: SourceTask) -> Result<Box<dyn Source>, ConnectorError>;
}

/// Which reader of the source this is.
#[derive(Clone, Copy, Debug)]
pub struct SourceTask {
    /// 0 … parallelism - 1.
    pub subtask: u32,
    /// Number of readers.
    pub parallelism: u32,
}

/// The reader of one source subtask.
pub trait Source: Send {
    /// The next records. Must return soon (well under a second): barriers are injected between polls.
    fn poll(&mut self, budget: Budget) -> Result<SourcePoll, ConnectorError>;

    /// States of the splits that it was opened with, after all records given so far.
    fn positions(&self) -> Vec<(u32, SplitState)>;

    /// Whether this split was read to its end: it holds no watermark back any more. Asked some times a second.
    fn has_ended(&self, _split: u32) -> bool {
        false
    }

    /// A checkpoint with these positions is complete; only for who tells others of it.
    fn completed(&mut self, _positions: &[(u32, u64)]) {}

    /// Whether [`completed`](Self::completed) is wanted.
    fn tells_positions(&self) -> bool {
        false
    }
}

/// A prepared transaction, as the checkpoint stores it: self-contained, so that another process can commit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committable {
    /// Its identity.
    pub id: TransactionId,
    /// The checkpoint at which it was prepared (a later one may be the first that completes).
    pub checkpoint: CheckpointId,
    /// Version of `bytes`.
    pub version: u32,
    /// What the connector's committer needs.
    pub bytes: Vec<u8>,
    /// sha256 of the plugin that made it; none for a built-in sink.
    pub plugin: Option<String>,
    /// Where its records came from.
    pub sources: Vec<SourceSpan>,
    /// Once this has passed, a restart might come too late for its commit; none: it waits for ever. Known while the process lives
    /// that prepared it.
    pub valid_until: Option<Instant>,
}

/// What a writer hands over at a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Version of `bytes`.
    pub version: u32,
    /// What the committer needs.
    pub bytes: Vec<u8>,
    /// See [`Committable::valid_until`].
    pub valid_until: Option<Instant>,
}

/// The part of `prepare` that may take long (fsync, a network round trip): run off the data path, in order, before the
/// snapshot is acknowledged.
pub type DurableStep = Box<dyn FnOnce() -> Result<Option<Prepared>, ConnectorError> + Send>;

/// The writing half of a sink, one for each subtask, on the data path.
pub trait SinkWriter: Send {
    /// Opens the transaction that the following writes belong to.
    fn begin(&mut self, transaction: &TransactionId) -> Result<(), ConnectorError>;

    /// Writes records into the open transaction.
    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError>;

    /// A barrier. Gives the durable step of the transaction, or none if nothing was written. `begin` follows before the next
    /// record.
    fn prepare(&mut self, checkpoint: CheckpointId, end_of_input: bool) -> Result<Option<DurableStep>, ConnectorError>;

    /// A clean end, after the last `prepare`. What is open is given up. A writer that is only dropped was in a crash.
    fn close(self: Box<Self>) -> Result<(), ConnectorError> {
        Ok(())
    }
}

/// What became of one committable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAnswer {
    /// Done now.
    Committed,
    /// Was done before.
    AlreadyCommitted,
    /// Certainly not done; try again.
    Retryable(String),
    /// Nobody can say: ask `status`, then try again.
    Unknown(String),
    /// Certainly not committed, and never will be.
    Lost(String),
}

/// What became of one abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortAnswer {
    /// It is gone, now or before.
    Aborted,
    /// It is committed already, and stays so. The caller may `forget` it: what is given to `abort` is in no checkpoint that
    /// can still be recovered from.
    Committed,
    /// Try again.
    Retryable(String),
}

/// The committing half of a sink, one for each sink and job, off the data path.
pub trait Committer: Send {
    /// Commits in order; idempotent. After the first that is not done the rest is not tried (`Retryable`).
    fn commit(&mut self, what: &[Committable]) -> Vec<CommitAnswer>;

    /// Asks the outside; changes nothing. `Retryable`: not committed yet, can be.
    fn status(&mut self, what: &[Committable]) -> Vec<CommitAnswer>;

    /// Gives up what was staged; idempotent.
    fn abort(&mut self, what: &[TransactionId]) -> Vec<AbortAnswer>;

    /// Every transaction of this job's sink that exists outside, whatever its lineage, generation and subtask: open, prepared,
    /// and committed ones that are not forgotten yet. Newer generations' are among them: a recovery leaves those alone.
    fn list_dangling(&mut self) -> Result<Vec<TransactionId>, ConnectorError>;

    /// A later completed checkpoint no longer contains these: what was kept to answer "already committed" may go.
    fn forget(&mut self, what: &[TransactionId]) -> Result<(), ConnectorError>;

    /// A clean end. `finished`: the job's log says `finished`, so nothing is asked again, and all that was kept may go.
    fn close(self: Box<Self>, _finished: bool) -> Result<(), ConnectorError> {
        Ok(())
    }
}

/// A transaction as a system outside knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideTransaction {
    /// Its name there.
    pub name: String,
    /// Its state, in that system's words.
    pub state: String,
    /// Whether it has no end yet: readers may wait for it.
    pub is_open: bool,
    /// When it was begun, ms since the Unix epoch.
    pub since_ms: Option<u64>,
    /// How long it may be open before that system ends it.
    pub timeout: Option<Duration>,
    /// What it has written to.
    pub places: Vec<String>,
}

/// The strongest promise that a sink gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Nothing leaves (the discard sink).
    None,
    /// Each result at least once; after a failure some twice.
    AtLeastOnce,
    /// Each result exactly once.
    ExactlyOnce,
}

/// Which writer this is.
#[derive(Clone, Debug)]
pub struct SinkTask {
    /// The job's name.
    pub job: String,
    /// Current history.
    pub lineage: Lineage,
    /// Current attempt.
    pub generation: Generation,
    /// 0 … parallelism - 1.
    pub subtask: u32,
    /// Number of writers.
    pub parallelism: u32,
}

/// Whose transactions a committer may touch, and with which build.
#[derive(Clone, Debug)]
pub struct CommitterContext {
    /// The job's name.
    pub job: String,
    /// Every lineage that the job's log has ever claimed: what belongs to another one is another job's.
    pub lineages: Vec<Lineage>,
    /// Attempt that opens the committer.
    pub generation: Generation,
    /// For plugin sinks: sha256 of the build that made the committables; none: the one in the job file.
    pub plugin: Option<String>,
}

/// A kind of sink, configured. Shared by its writers and its committer.
pub trait SinkConnector: Send + Sync {
    /// What it promises as configured.
    fn guarantee(&self) -> Guarantee;

    /// Whether its output is committed; the discard sink has nothing to commit.
    fn is_transactional(&self) -> bool {
        self.guarantee() != Guarantee::None
    }

    /// Folder or external name that no other sink may share and that the job's claim names; none if nothing leaves.
    fn target(&self) -> Option<PathBuf>;

    /// The highest generation in the final names of committed output that lies in the target; 0 if they hold none; none: there is
    /// no output. A start beside output of a job that nobody knows any more takes a higher one, so that no name comes twice.
    fn output(&self) -> Result<Option<Generation>, ConnectorError>;

    /// Whether what [`output`](Self::output) finds are names in a system that others use, too, and not a folder.
    fn is_shared(&self) -> bool {
        false
    }

    /// Checks and creates what writers need, before anything runs; changes nothing that is there.
    fn prepare_target(&self) -> Result<(), ConnectorError>;

    /// Opens a writer.
    fn writer(&self, task: &SinkTask) -> Result<Box<dyn SinkWriter>, ConnectorError>;

    /// Opens the committer; none if the sink has no transactions.
    fn committer(&self, context: &CommitterContext) -> Result<Option<Box<dyn Committer>>, ConnectorError>;

    /// What it is waiting for outside, if that has taken seconds: as `the brokers acknowledge no records`, and for how long.
    fn waits(&self) -> Option<(String, Duration)> {
        None
    }

    /// What `weir check` should know of what it writes to. `is_first_start`: this data folder has not been used.
    fn outlook(&self, _is_first_start: bool) -> Outlook {
        Outlook::default()
    }

    /// Every transaction of this sink that the outside keeps by a name, for people; none if it keeps none that anybody waits for.
    fn outside(&self) -> Result<Option<Vec<OutsideTransaction>>, ConnectorError> {
        Ok(None)
    }

    /// What [`outside`](Self::outside) calls a committable.
    fn name_outside(&self, what: &Committable) -> String {
        what.id.to_string()
    }

    /// Ends what is open under a name of [`outside`](Self::outside), without a commit.
    fn abort_outside(&self, name: &str) -> Result<(), ConnectorError> {
        Err(ConnectorError::permanent(format!("{name}: this sink's transactions have no names outside")))
    }

    /// sha256 of the build that new committables are made by; none for a built-in sink.
    fn plugin_digest(&self) -> Option<&str> {
        None
    }
}
