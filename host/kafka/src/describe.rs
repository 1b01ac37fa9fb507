//! What a transaction coordinator knows of a transactional id.

use std::fmt;
use std::time::Duration;

/// A transaction's phase, as the coordinator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// The id was initialised and nothing written since.
    Empty,
    /// Open.
    Ongoing,
    /// The commit is decided and durable; its markers are being written.
    PrepareCommit,
    /// The abort is decided and durable.
    PrepareAbort,
    /// Committed, and readers can see it.
    CompleteCommit,
    /// Aborted.
    CompleteAbort,
    /// Being aborted because a newer producer took the id.
    PrepareEpochFence,
    /// One that this client does not know.
    Other(String),
}

impl TransactionState {
    /// From the coordinator's word.
    pub(crate) fn from_word(word: &str) -> Self {
        match word {
            "Empty" => TransactionState::Empty,
            "Ongoing" => TransactionState::Ongoing,
            "PrepareCommit" => TransactionState::PrepareCommit,
            "PrepareAbort" => TransactionState::PrepareAbort,
            "CompleteCommit" => TransactionState::CompleteCommit,
            "CompleteAbort" => TransactionState::CompleteAbort,
            "PrepareEpochFence" => TransactionState::PrepareEpochFence,
            other => TransactionState::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionState::Other(word) => f.write_str(word),
            known => write!(f, "{known:?}"),
        }
    }
}

/// The newest transaction of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its phase.
    pub state: TransactionState,
    /// The producer that the id belongs to now.
    pub producer_id: i64,
    /// That producer's epoch.
    pub epoch: i16,
    /// How long a transaction of it may stay open.
    pub timeout: Duration,
    /// When the first partition was added, in milliseconds since the Unix epoch by the broker's clock; none if no transaction
    /// was begun.
    pub start_ms: Option<u64>,
    /// Topics and partitions that were written to; of a transaction that is being ended those without a marker yet.
    pub partitions: Vec<(String, Vec<i32>)>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by producer {} epoch {}", self.state, self.producer_id, self.epoch)
    }
}

/// What a coordinator says of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Described {
    /// It was never initialised, or has expired.
    UnknownId,
    /// It is known.
    Known(Description),
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Described::UnknownId => f.write_str("an unknown id"),
            Described::Known(description) => description.fmt(f),
        }
    }
}
