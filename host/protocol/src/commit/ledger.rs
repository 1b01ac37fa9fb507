//! What one sink writer has prepared and does not know to be committed.

use crate::{CheckpointId, TransactionId};
use std::collections::VecDeque;

/// One prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreparedTransaction {
    /// At which barrier.
    pub checkpoint: CheckpointId,
    /// Which.
    pub id: TransactionId,
}

/// The committables of one writer that are not known committed, in prepare order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriterLedger {
    prepared: VecDeque<PreparedTransaction>,
}

impl WriterLedger {
    /// An empty ledger. After a recovery it begins empty: all that was restored is committed before the first record.
    pub fn new() -> Self {
        WriterLedger::default()
    }

    /// A ledger of restored committables, in prepare order, for a sink whose recovery commits later than its writers run.
    pub fn restored(prepared: impl IntoIterator<Item = PreparedTransaction>) -> Self {
        WriterLedger { prepared: prepared.into_iter().collect() }
    }

    /// `transaction` is durably prepared at the barrier of `checkpoint`. An empty transaction gives none: don't call.
    pub fn prepared(&mut self, checkpoint: CheckpointId, transaction: TransactionId) {
        self.prepared.push_back(PreparedTransaction { checkpoint, id: transaction });
    }

    /// The commit coordinator has seen these committed; those of other writers are passed over.
    pub fn known_committed(&mut self, transactions: &[TransactionId]) {
        self.prepared.retain(|prepared| !transactions.contains(&prepared.id));
    }

    /// What the snapshot of a barrier carries: all that is not known committed, in prepare order.
    pub fn contents_at_barrier(&self) -> Vec<TransactionId> {
        self.prepared.iter().map(|prepared| prepared.id.clone()).collect()
    }
}
