//! What one sink writer has prepared and does not know to be committed.
//!
//! A transaction whose checkpoint is aborted stays: its records are not read again, so it rides in every later snapshot until
//! it is committed. The ledger is therefore never told of an abort.
//!
//! | phase of a transaction | event | next |
//! |---|---|---|
//! | open | `prepared(n)` | prepared at n |
//! | open, empty | a barrier | nothing: don't call |
//! | prepared | a barrier | unchanged, and carried by that snapshot |
//! | prepared | its checkpoint is aborted | unchanged |
//! | prepared | `known_committed` | gone |

use crate::bounds::LEDGER_TRANSACTIONS;
use crate::mutant::{Mutant, Mutation};
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

/// More transactions than the bound are prepared and not committed: the task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerFull;

/// The committables of one writer that are not known committed, in prepare order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriterLedger {
    prepared: VecDeque<PreparedTransaction>,
    mutation: Mutation,
}

impl WriterLedger {
    /// An empty ledger. After a recovery it begins empty: all that was restored is committed before the first record.
    pub fn new() -> Self {
        WriterLedger::default()
    }

    /// A ledger of restored committables, in prepare order, for a writer that runs before the recovery has committed them.
    pub fn restored(prepared: impl IntoIterator<Item = PreparedTransaction>) -> Self {
        let mut ledger = WriterLedger::default();
        prepared.into_iter().for_each(|prepared| ledger.append(prepared));
        ledger
    }

    /// The same with a fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutation(self, mutation: Mutation) -> Self {
        WriterLedger { mutation, ..self }
    }

    /// `transaction` is durably prepared at the barrier of `checkpoint`. An empty transaction gives none: don't call.
    pub fn prepared(&mut self, checkpoint: CheckpointId, transaction: TransactionId) -> Result<(), LedgerFull> {
        if self.prepared.len() >= LEDGER_TRANSACTIONS {
            return Err(LedgerFull);
        }
        self.append(PreparedTransaction { checkpoint, id: transaction });
        Ok(())
    }

    fn append(&mut self, next: PreparedTransaction) {
        if let Some(last) = self.prepared.back() {
            let one_writer = last.id.sink == next.id.sink && last.id.writer == next.id.writer;
            assert!(one_writer, "T6: {} is of another writer than {}", next.id, last.id);
            let rising = (last.id.generation, last.id.number) < (next.id.generation, next.id.number);
            assert!(rising && last.checkpoint < next.checkpoint, "T6: {} is prepared after {}", next.id, last.id);
        }
        self.prepared.push_back(next);
    }

    /// The commit coordinator has seen these committed; those of other writers are passed over.
    pub fn known_committed(&mut self, transactions: &[TransactionId]) {
        self.prepared.retain(|prepared| !transactions.contains(&prepared.id));
    }

    /// What the snapshot of a barrier carries: all that is not known committed, in prepare order. To be asked after `prepared`
    /// for that barrier and before the next.
    pub fn contents_at_barrier(&self) -> Vec<TransactionId> {
        let skipped = if self.mutation.is(Mutant::OnlyOwnCommittable) { self.prepared.len().saturating_sub(1) } else { 0 };
        self.prepared.iter().skip(skipped).map(|prepared| prepared.id.clone()).collect()
    }
}
