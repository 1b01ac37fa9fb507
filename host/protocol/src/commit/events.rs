//! What goes into the commit coordinator of a sink, and what comes out of it.

use crate::coordinator::CommitPermit;
use crate::{CheckpointId, Generation, TransactionId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of a call of the committer; its answer repeats it. An answer to a call that is not under way is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u32);

impl Call {
    /// The next number.
    pub(super) fn draw(&mut self) -> Call {
        self.0 += 1;
        *self
    }
}

/// How long and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryPolicy {
    /// Rounds that failed in a row before a transaction counts as failed; at least 1.
    pub attempts: u32,
    /// Wait after the first failed round; doubled with each.
    pub first_delay: Duration,
    /// Never longer than this.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    /// 12 rounds from 100 ms to 30 s: about two minutes and a half.
    fn default() -> Self {
        RetryPolicy { attempts: 12, first_delay: Duration::from_millis(100), max_delay: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    /// How long to wait after this many failed rounds in a row, from 1.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures - 1).and_then(|factor| self.first_delay.checked_mul(factor));
        doubled.map_or(self.max_delay, |delay| delay.min(self.max_delay))
    }
}

/// What the external system said of one transaction, to a commit or a status question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CommitOutcome {
    /// Done now.
    Committed,
    /// Was done before.
    AlreadyCommitted,
    /// Certainly not done; can be.
    Retryable(String),
    /// Nobody can say.
    Unknown(String),
    /// Certainly not committed, and never will be.
    Lost(String),
}

/// What the external system said to an abort.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AbortOutcome {
    /// It is gone, now or before.
    Aborted,
    /// It is committed, and stays so.
    Committed,
    /// Try again.
    Retryable(String),
}

/// Why a transaction that had to be committed is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The external system has given it up: its records are not in the output.
    Lost(String),
    /// It did not answer usefully for too long: whether the records are in the output is not known.
    Exhausted(String),
}

/// What happened. `now` is monotonic, since process start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The first event of a generation, before any new input is read.
    Recover {
        /// When.
        now: Duration,
        /// This sink's part of what the newest checkpoint contains, in prepare order for each writer.
        contained: Vec<TransactionId>,
        /// Those of `contained` whose records are read again: no harm if the outside has lost one.
        replayed: BTreeSet<TransactionId>,
        /// Known to be committed: never called for, only forgotten in time.
        known_committed: BTreeSet<TransactionId>,
        /// All transactions of this job's sink that exist outside, whatever their lineage and generation.
        dangling: Vec<TransactionId>,
        /// Nothing of a newer generation is touched (T3).
        up_to: Generation,
    },
    /// A manifest is durable, and its publisher was not fenced.
    Permit {
        /// When.
        now: Duration,
        /// The right to commit what the manifest contains; those of other sinks are passed over.
        permit: CommitPermit,
    },
    /// Answer to [`Effect::Commit`].
    CommitAnswered {
        /// When.
        now: Duration,
        /// Of the call.
        call: Call,
        /// One for each transaction, in the order of the call; what is missing is unknown.
        outcomes: Vec<CommitOutcome>,
    },
    /// Answer to [`Effect::AskStatus`].
    StatusAnswered {
        /// When.
        now: Duration,
        /// Of the call.
        call: Call,
        /// One for each transaction, in the order of the call; what is missing is unknown.
        outcomes: Vec<CommitOutcome>,
    },
    /// Answer to [`Effect::Abort`].
    AbortAnswered {
        /// When.
        now: Duration,
        /// Of the call.
        call: Call,
        /// One for each transaction, in the order of the call; what is missing is to be tried again.
        outcomes: Vec<AbortOutcome>,
    },
    /// Time has passed.
    Tick {
        /// When.
        now: Duration,
    },
    /// `finished` stands in the log: nothing is ever asked for again.
    Finished,
}

/// What to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Commit these of one writer, in this order; after the first that is not done the rest is not tried.
    Commit {
        /// To be repeated in the answer.
        call: Call,
        /// Prepare order.
        transactions: Vec<TransactionId>,
    },
    /// Ask what became of these; change nothing.
    AskStatus {
        /// To be repeated in the answer.
        call: Call,
        /// Which.
        transactions: Vec<TransactionId>,
    },
    /// Give these up.
    Abort {
        /// To be repeated in the answer.
        call: Call,
        /// Which.
        transactions: Vec<TransactionId>,
    },
    /// These are committed: writers drop them from their ledgers.
    Committed {
        /// Which.
        transactions: Vec<TransactionId>,
    },
    /// All that this checkpoint contains of this sink is committed.
    PermitDone {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// All that the newest checkpoint contains is committed; nothing is aborted yet.
    RecoveryCommitted,
    /// The rest is aborted: new input may be read.
    RecoveryAborted,
    /// The outside has lost this one, but its records are read again: nothing is missing. To be told to the user.
    Replayed {
        /// Which.
        transaction: TransactionId,
    },
    /// An abort found these committed: by a checkpoint that can't be read, or by one that is deleted before it was recorded that
    /// what it contains may be forgotten.
    FoundCommitted {
        /// Which.
        transactions: Vec<TransactionId>,
    },
    /// The two newest completed checkpoints no longer contain these (two, so that nothing is forgotten that one would have to
    /// commit when the newest can't be read), or the job has finished, or an abort found them committed: what was kept to answer
    /// "already committed" may go.
    Forget {
        /// Which.
        transactions: Vec<TransactionId>,
    },
    /// The job must stop loudly: exit 3, with the source ranges of this transaction's records.
    Lost {
        /// Which.
        transaction: TransactionId,
        /// Why.
        reason: LossReason,
    },
    /// An abort did not succeed for too long: the generation fails, by the restart policy.
    AbortFailed {
        /// Which.
        transactions: Vec<TransactionId>,
        /// The last reason.
        reason: String,
    },
    /// Send a tick at this time; replaces any earlier request.
    WakeAt {
        /// When.
        at: Duration,
    },
}
