//! The rows *open* and *prepared* of the commit table.

use super::ledger::{LedgerFull, PreparedTransaction, WriterLedger};
use super::tests::{GENERATION, tx, txs};
use crate::bounds::LEDGER_TRANSACTIONS;
use crate::mutant::{Mutant, Mutation};
use crate::{CheckpointId, TransactionId};

fn checkpoint(sequence: u32) -> CheckpointId {
    CheckpointId::new(GENERATION, sequence)
}

#[test]
fn a_barrier_carries_what_was_prepared_at_it() {
    let mut ledger = WriterLedger::new();
    assert_eq!(ledger.prepared(checkpoint(1), tx("0.1")), Ok(()));
    assert_eq!(ledger.contents_at_barrier(), txs("0.1"));
}

#[test]
fn an_empty_transaction_gives_no_committable() {
    assert_eq!(WriterLedger::new().contents_at_barrier(), txs(""));
}

/// (h) Checkpoint 1 was aborted, which the ledger isn't even told: its records are not read again.
#[test]
fn what_an_aborted_checkpoint_prepared_rides_in_order() {
    let mut ledger = WriterLedger::new();
    ledger.prepared(checkpoint(1), tx("0.1")).expect("room");
    ledger.prepared(checkpoint(2), tx("0.2")).expect("room");
    assert_eq!(ledger.contents_at_barrier(), txs("0.1 0.2"));
    assert_eq!(ledger.contents_at_barrier(), txs("0.1 0.2"), "also at a barrier that prepares nothing");
}

#[test]
fn what_is_known_committed_is_carried_no_more() {
    let mut ledger = WriterLedger::new();
    ledger.prepared(checkpoint(1), tx("0.1")).expect("room");
    ledger.prepared(checkpoint(2), tx("0.2")).expect("room");
    ledger.known_committed(&txs("0.1 1.2"));
    assert_eq!(ledger.contents_at_barrier(), txs("0.2"));
    ledger.known_committed(&txs("0.1 0.2"));
    assert_eq!(ledger.contents_at_barrier(), txs(""));
}

#[test]
fn restored_committables_ride_too() {
    let restored = PreparedTransaction { checkpoint: checkpoint(1), id: tx("1:0.7") };
    let mut ledger = WriterLedger::restored([restored]);
    ledger.prepared(checkpoint(2), tx("0.1")).expect("room");
    assert_eq!(ledger.contents_at_barrier(), txs("1:0.7 0.1"));
}

#[test]
fn mutant_a_snapshot_holds_only_its_own_committable_is_caught() {
    let mut ledger = WriterLedger::new().with_mutation(Mutation::of(Mutant::OnlyOwnCommittable));
    ledger.prepared(checkpoint(1), tx("0.1")).expect("room");
    ledger.prepared(checkpoint(2), tx("0.2")).expect("room");
    assert_ne!(ledger.contents_at_barrier(), txs("0.1 0.2"), "the case above fails");
}

#[test]
fn a_full_ledger_says_so() {
    let mut ledger = WriterLedger::new();
    for number in 1..=LEDGER_TRANSACTIONS as u64 {
        let id = TransactionId { number, ..tx("0.1") };
        ledger.prepared(checkpoint(number as u32), id).expect("room");
    }
    assert_eq!(ledger.prepared(checkpoint(u32::MAX), tx("0.999999")), Err(LedgerFull));
}

#[test]
#[should_panic(expected = "T6")]
fn t6_numbers_rise() {
    let mut ledger = WriterLedger::new();
    ledger.prepared(checkpoint(1), tx("0.2")).expect("room");
    ledger.prepared(checkpoint(2), tx("0.1")).expect("room");
}

#[test]
#[should_panic(expected = "T6")]
fn t6_a_ledger_is_of_one_writer() {
    let mut ledger = WriterLedger::new();
    ledger.prepared(checkpoint(1), tx("0.1")).expect("room");
    ledger.prepared(checkpoint(2), tx("1.2")).expect("room");
}
