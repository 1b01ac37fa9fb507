//! Which transactional ids of a writer are free.
//!
//! **R1** An id is used again only after a *later* checkpoint has completed that does not contain its last transaction. So a
//! recovery never meets an id that was committed and then taken anew, and who finds an id of the newest checkpoint taken knows:
//! the transaction is lost.

use super::committable::SlotId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_protocol::{Generation, TransactionId};

/// Ids of one writer at most: transactions that wait for their commit, and two more.
const SLOTS_MAX: usize = 100;

/// The slots of one sink, shared by its writers and its committer.
#[derive(Debug, Default)]
pub(super) struct Slots {
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    slots: BTreeSet<SlotId>,
    by_transaction: BTreeMap<TransactionId, SlotId>,
}

impl Slots {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the smallest free slot; none if too many transactions wait.
    pub(super) fn take(&self, generation: Generation, writer: u32) -> Option<SlotId> {
        let mut used = self.lock();
        // What an earlier attempt used is named otherwise, and none of its writers is left.
        used.slots.retain(|id| id.generation >= generation);
        let taken = used.slots.iter().filter(|id| id.writer == writer).count();
        let free = |slot: &u32| !used.slots.contains(&SlotId { generation, writer, slot: *slot });
        let slot = (0..).find(free).filter(|_| taken < SLOTS_MAX)?;
        let id = SlotId { generation, writer, slot };
        used.slots.insert(id);
        Some(id)
    }

    /// A slot whose producer has written nothing.
    pub(super) fn give_back(&self, id: SlotId) {
        self.lock().slots.remove(&id);
    }

    /// A transaction was prepared in this slot.
    pub(super) fn prepared(&self, transaction: TransactionId, id: SlotId) {
        self.lock().by_transaction.insert(transaction, id);
    }

    /// A later completed checkpoint does not contain these (R1).
    pub(super) fn forget(&self, transactions: &[TransactionId]) {
        let mut used = self.lock();
        for transaction in transactions {
            if let Some(id) = used.by_transaction.remove(transaction) {
                used.slots.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_protocol::Lineage;

    fn transaction(number: u64) -> TransactionId {
        TransactionId { lineage: Lineage(1), generation: Generation(2), sink: "out".to_owned(), writer: 0, number }
    }

    #[test]
    fn a_slot_is_free_again_once_its_transaction_is_forgotten() {
        let slots = Slots::default();
        let take = || slots.take(Generation(2), 0).map(|id| id.slot);
        assert_eq!([take(), take()], [Some(0), Some(1)]);
        slots.prepared(transaction(1), SlotId { generation: Generation(2), writer: 0, slot: 0 });
        assert_eq!(take(), Some(2));
        slots.forget(&[transaction(1)]);
        assert_eq!([take(), take()], [Some(0), Some(3)]);
        slots.give_back(SlotId { generation: Generation(2), writer: 0, slot: 2 });
        assert_eq!(take(), Some(2));
        // Another writer, and another attempt, have ids of their own.
        assert_eq!(slots.take(Generation(2), 1).map(|id| id.slot), Some(0));
        assert_eq!(slots.take(Generation(3), 0).map(|id| id.slot), Some(0));
    }

    #[test]
    fn their_number_is_bounded() {
        let slots = Slots::default();
        for _ in 0..SLOTS_MAX {
            slots.take(Generation(2), 0).expect("one is free");
        }
        assert_eq!(slots.take(Generation(2), 0), None);
    }
}
