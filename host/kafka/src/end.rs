//! What an answer to EndTxn means: pure decisions, no I/O.
//!
//! The caller asks EndTxn first and DescribeTransactions after an answer that is not 0: a description alone can be outdated by
//! the time that it is read. What is said here holds for EndTxn up to version 4 and for transactions whose triple (id, producer,
//! epoch) names at most one, as it is when each was begun by a fresh producer.

use crate::code;
use crate::describe::{Described, Description, TransactionState};
use crate::error::KafkaError;

/// The transaction to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionHandle {
    /// Its transactional id.
    pub transactional_id: String,
    /// The producer that opened it.
    pub producer_id: i64,
    /// That producer's epoch.
    pub epoch: i16,
}

/// How to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its records become readable.
    Commit,
    /// They never do.
    Abort,
}

/// What became of the transaction, as far as the coordinator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndOutcome {
    /// It is committed, now or before; also when an abort came too late. The decision is durable; readers see it within
    /// milliseconds.
    Committed,
    /// It is aborted, now or before, or never held a record. Only for [`End::Abort`].
    Aborted,
    /// The id belongs to another producer or epoch by now: fenced, or aborted by its timeout. If the id is taken again only
    /// after its commit was known to be done, the transaction is lost.
    Fenced {
        /// Who has the id, if that could be asked.
        now: Option<Box<Description>>,
        /// An earlier attempt of this call got no answer and may have been carried out before the other took the id.
        unanswered: bool,
    },
    /// Certainly not committed, and never will be. Only for [`End::Commit`].
    Lost(String),
    /// The coordinator does not know the id (expired after a week, or never used), or knows another producer by it. What became
    /// of the transaction can't be told from there.
    UnknownId {
        /// Who has the id, if anybody.
        now: Option<Box<Description>>,
    },
    /// Certainly not carried out before the deadline; try again.
    Retryable(String),
    /// Nobody has said before the deadline what became of it; try again.
    Unknown(String),
    /// Not carried out, and it won't be until settings, rights or versions are changed.
    Refused(KafkaError),
}

/// What a description says of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The commit is decided and durable.
    Committed,
    /// The abort is decided and durable.
    Aborted,
    /// It is open, and can be committed.
    Open,
    /// Nothing has been written in it: there is nothing to commit, and never will be once its writer is gone.
    Empty,
    /// It is in a phase from which nothing follows yet; ask again.
    Changing,
    /// Another producer or epoch has the id: what became of the transaction is not known there any more.
    Taken,
    /// The coordinator does not know the id.
    UnknownId,
}

impl Described {
    /// What this says of a transaction. Only as good as when it was asked for: an open one may have been ended since.
    pub fn fate_of(&self, handle: &TransactionHandle) -> Fate {
        match self {
            Described::UnknownId => Fate::UnknownId,
            Described::Known(now) if !is_ours(handle, now) => Fate::Taken,
            Described::Known(now) => match now.state {
                TransactionState::PrepareCommit | TransactionState::CompleteCommit => Fate::Committed,
                TransactionState::PrepareAbort | TransactionState::CompleteAbort => Fate::Aborted,
                TransactionState::Ongoing => Fate::Open,
                TransactionState::Empty => Fate::Empty,
                TransactionState::PrepareEpochFence | TransactionState::Other(_) => Fate::Changing,
            },
        }
    }
}

/// What to do after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This is what became of it.
    Is(EndOutcome),
    /// Ask EndTxn again after a while.
    Again {
        /// The request may have been carried out, or be about to be.
        maybe_done: bool,
        why: String,
    },
}

/// Whether an answer must be looked into by DescribeTransactions.
pub(crate) fn needs_description(error: i16) -> bool {
    matches!(
        error,
        code::PRODUCER_FENCED
            | code::INVALID_PRODUCER_EPOCH
            | code::INVALID_TXN_STATE
            | code::INVALID_PRODUCER_ID_MAPPING
            | code::CONCURRENT_TRANSACTIONS
            | code::TRANSACTION_ABORTABLE
    )
}

/// The decision. `described`: what the coordinator said after this answer, none if it could not be asked.
pub(crate) fn judge(end: End, handle: &TransactionHandle, error: i16, described: Option<&Described>) -> Verdict {
    let again = |maybe_done| Verdict::Again { maybe_done, why: why(error, described) };
    match error {
        code::NONE => Verdict::Is(match end {
            End::Commit => EndOutcome::Committed,
            End::Abort => EndOutcome::Aborted,
        }),
        // Said before anything is done.
        code::COORDINATOR_LOAD_IN_PROGRESS => again(false),
        // Also said when the decision was written and too few replicas confirmed it in time: it may stand all the same.
        code::COORDINATOR_NOT_AVAILABLE | code::NOT_COORDINATOR => again(true),
        code::CONCURRENT_TRANSACTIONS => {
            // A decision is durable and its markers are being written, or a decision is being written.
            decided(end, handle, described).unwrap_or_else(|| again(true))
        }
        code::PRODUCER_FENCED | code::INVALID_PRODUCER_EPOCH => {
            decided(end, handle, described).unwrap_or_else(|| match described {
                Some(Described::Known(now)) if is_ours(handle, now) => again(true),
                _ => Verdict::Is(EndOutcome::Fenced { now: taken_by(described), unanswered: false }),
            })
        }
        code::INVALID_TXN_STATE => decided(end, handle, described).unwrap_or_else(|| not_open(end, handle, error, described)),
        code::INVALID_PRODUCER_ID_MAPPING => decided(end, handle, described).unwrap_or_else(|| match described {
            Some(Described::Known(now)) if is_ours(handle, now) => again(true),
            _ => Verdict::Is(EndOutcome::UnknownId { now: taken_by(described) }),
        }),
        code::TRANSACTION_ABORTABLE => {
            decided(end, handle, described).unwrap_or_else(|| only_abortable(end, handle, error, described))
        }
        _ if code::is_passing(error) => again(true),
        _ => Verdict::Is(EndOutcome::Refused(refusal(handle, error))),
    }
}

/// What the description alone decides: a decision about our transaction that is durable.
fn decided(end: End, handle: &TransactionHandle, described: Option<&Described>) -> Option<Verdict> {
    let described = described?;
    match (described.fate_of(handle), end) {
        (Fate::Committed, _) => Some(Verdict::Is(EndOutcome::Committed)),
        (Fate::Aborted, End::Abort) => Some(Verdict::Is(EndOutcome::Aborted)),
        (Fate::Aborted, End::Commit) => Some(Verdict::Is(EndOutcome::Lost(format!("the transaction is aborted ({described})")))),
        (Fate::Empty | Fate::Open | Fate::Changing | Fate::Taken | Fate::UnknownId, _) => None,
    }
}

/// 48: at our epoch there is no transaction that could be ended so.
fn not_open(end: End, handle: &TransactionHandle, error: i16, described: Option<&Described>) -> Verdict {
    match (described, end) {
        (Some(Described::Known(now)), _) if is_ours(handle, now) && now.state != TransactionState::Empty => {
            // It has changed since the answer.
            Verdict::Again { maybe_done: true, why: why(error, described) }
        }
        // The answer was given for our producer and epoch; somebody has taken the id since.
        (Some(Described::Known(now)), End::Commit) if !is_ours(handle, now) => Verdict::Is(EndOutcome::Lost(format!(
            "the transaction was not open ({}), and the id is taken: {now}",
            code::named(error)
        ))),
        (_, End::Commit) => Verdict::Is(EndOutcome::Lost(format!(
            "there is no open transaction: it was aborted, or nothing was ever written in it ({})",
            why(error, described)
        ))),
        // Nothing was written, so there is nothing to abort.
        (Some(Described::Known(now)), End::Abort) if is_ours(handle, now) => Verdict::Is(EndOutcome::Aborted),
        // Aborted, empty or committed: which of them, nobody has said.
        (_, End::Abort) => Verdict::Again { maybe_done: true, why: why(error, described) },
    }
}

/// 120: the transaction is open, but can only be aborted.
fn only_abortable(end: End, handle: &TransactionHandle, error: i16, described: Option<&Described>) -> Verdict {
    match (described, end) {
        (Some(Described::Known(now)), _) if !is_ours(handle, now) => {
            Verdict::Is(EndOutcome::Fenced { now: taken_by(described), unanswered: false })
        }
        (Some(Described::Known(_)), End::Commit) => {
            Verdict::Is(EndOutcome::Lost(format!("the transaction can only be aborted ({})", why(error, described))))
        }
        _ => Verdict::Again { maybe_done: true, why: why(error, described) },
    }
}

fn is_ours(handle: &TransactionHandle, now: &Description) -> bool {
    now.producer_id == handle.producer_id && now.epoch == handle.epoch
}

fn taken_by(described: Option<&Described>) -> Option<Box<Description>> {
    match described {
        Some(Described::Known(now)) => Some(Box::new(now.clone())),
        Some(Described::UnknownId) | None => None,
    }
}

fn why(error: i16, described: Option<&Described>) -> String {
    let described = described.map_or("not described".to_owned(), |described| format!("described as {described}"));
    format!("EndTxn was answered by {}, {described}", code::named(error))
}

fn refusal(handle: &TransactionHandle, error: i16) -> KafkaError {
    KafkaError::answered("the coordinator", "EndTxn", handle.transactional_id.as_str(), error)
}
