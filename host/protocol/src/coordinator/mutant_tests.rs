//! Each deliberate fault and the sequence that shows it.

use super::script::Setup;
use crate::mutant::Mutant;

fn usual() -> Setup {
    Setup::default()
}

#[test]
fn mutant_treat_an_unknown_publish_as_an_abort_is_caught() {
    usual().check_catches(
        Mutant::UnknownPublishIsAbort,
        "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k !1 => accepted, publish 1
        @12 unknown 1 => fail over: 1 unknown",
    );
}

#[test]
fn mutant_owed_skips_ended_subtasks_is_caught() {
    usual().check_catches(
        Mutant::OwedSkipsEnded,
        "
        @5 end s =>
        @10 tick => inject 1
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted
        @12 ack 1 s => accepted, publish 1",
    );
}

/// Transaction 1 was acknowledged for checkpoint 1, which never completes; then it was found committed (it had a permit), so
/// snapshot 2 leaves it out. A permit by ids would name it again, and nothing durable would say so.
#[test]
fn mutant_permit_by_comparing_ids_is_caught() {
    let setup = Setup { completed: &[(4, "", &[1])], restored: Some(4), ..usual() };
    setup.check_catches(
        Mutant::PermitByIds,
        "
        @10 tick => inject 1
        @11 ack 1 k !1 => accepted
        @20 tick => inject 2
        @21 ack 2 s => accepted
        @21 ack 2 t => accepted
        @21 ack 2 k !2 => accepted, publish 2
        @22 published 2 => complete 2, permit 2 [2], abort 1 subsumed, subsume 0/4",
    );
}

/// The records of transaction 1 are not replayed when checkpoint 1 is aborted: unless 2 commits them, they are lost.
#[test]
fn mutant_abort_the_transaction_with_its_checkpoint_is_caught() {
    usual().check_catches(
        Mutant::AbortTransactionWithCheckpoint,
        "
        @10 tick => inject 1
        @11 ack 1 k !1 => accepted
        @20 tick => inject 2
        @21 ack 2 k !1 !2 => accepted
        @22 decline 1 s => abort 1 declined by s
        @23 ack 2 s => accepted
        @23 ack 2 t => accepted, publish 2
        @24 published 2 => complete 2, permit 2 [1 2]",
    );
}
