//! The right to commit.

use crate::ids::{CheckpointId, TransactionId};
use std::collections::BTreeSet;

/// The right to commit exactly the transactions that the manifest of a completed checkpoint contains (T1).
///
/// Only [`CheckpointCoordinator`](super::CheckpointCoordinator) makes one, when the manifest is durable. Nobody commits by
/// comparing checkpoint ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct CommitPermit {
    checkpoint: CheckpointId,
    transactions: BTreeSet<TransactionId>,
}

impl CommitPermit {
    /// For the coordinator.
    pub(super) fn new(checkpoint: CheckpointId, transactions: BTreeSet<TransactionId>) -> Self {
        CommitPermit { checkpoint, transactions }
    }

    /// A permit without a coordinator, for tests of this crate.
    #[cfg(test)]
    pub(crate) fn forged(checkpoint: CheckpointId, transactions: impl IntoIterator<Item = TransactionId>) -> Self {
        CommitPermit::new(checkpoint, transactions.into_iter().collect())
    }

    /// The completed checkpoint.
    pub fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    /// What its manifest contains, riding committables of earlier checkpoints included.
    pub fn transactions(&self) -> &BTreeSet<TransactionId> {
        &self.transactions
    }

    /// Whether the manifest contains this transaction.
    pub fn contains(&self, transaction: &TransactionId) -> bool {
        self.transactions.contains(transaction)
    }
}
