//! What the command line asks about transactions that have no end yet, and what it hears back.

use crate::graph::SinkSpec;
use serde::Serialize;
use std::path::PathBuf;

/// A job as far as its transactions go: of its job file, or of its data folder alone.
#[derive(Clone, Debug)]
pub struct TransactionPlace {
    /// The job's name; none: the one that its log says.
    pub job: Option<String>,
    /// The data folder.
    pub data: PathBuf,
    /// Folder of the checkpoint storage.
    pub storage: PathBuf,
    /// Sinks of the job file, which checkpoints may not know yet.
    pub sinks: Vec<SinkSpec>,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionWish {
    /// To know.
    List,
    /// To commit what the newest checkpoint holds.
    Commit,
    /// To abort.
    Abort {
        /// Which; none: every one that is in no checkpoint.
        names: Vec<String>,
        /// Also what the newest checkpoint holds, whose records are then not in the output.
        lose_output: bool,
    },
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransactionReport {
    /// The job.
    pub job: String,
    /// Its newest completed checkpoint.
    pub checkpoint: Option<String>,
    /// What seems to run it now: whatever is open may be its work.
    pub running: Option<String>,
    /// Of each sink that has transactions.
    pub sinks: Vec<SinkTransactions>,
}

impl TransactionReport {
    /// Whether a transaction of the newest checkpoint is lost, or nobody can say.
    pub fn has_lost(&self) -> bool {
        self.rows().any(|row| row.standing == Standing::Lost)
    }

    /// Whether something could not be asked for or done.
    pub fn has_failed(&self) -> bool {
        self.sinks.iter().any(|sink| sink.failure.is_some())
    }

    fn rows(&self) -> impl Iterator<Item = &TransactionRow> {
        self.sinks.iter().flat_map(|sink| &sink.transactions)
    }
}

/// A sink's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SinkTransactions {
    /// The sink's name.
    pub sink: String,
    /// Its connector.
    pub connector: String,
    /// Those without an end, or lost.
    pub transactions: Vec<TransactionRow>,
    /// Of the newest checkpoint, and committed.
    pub committed: usize,
    /// Names outside that nothing is open under; none if there is no such thing.
    pub idle: Option<usize>,
    /// What was aborted.
    pub aborted: Vec<String>,
    /// Why something could not be asked for or done.
    pub failure: Option<String>,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionRow {
    /// What it is called outside.
    pub name: String,
    /// Whose it is.
    pub standing: Standing,
    /// Its state, in the words of who keeps it.
    pub state: String,
    /// Since it was begun, ms.
    pub age_ms: Option<u64>,
    /// Until it is ended from outside, ms.
    pub left_ms: Option<u64>,
    /// What it has written to.
    pub places: Vec<String>,
    /// Source ranges of its records: (source, split, first, last).
    pub sources: Vec<(String, String, u64, u64)>,
    /// What ends it.
    pub end: String,
}

/// Whose a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The newest checkpoint holds it.
    InCheckpoint,
    /// No checkpoint holds it.
    InNone,
    /// The newest checkpoint holds it, and it is gone, or nobody can say.
    Lost,
}
