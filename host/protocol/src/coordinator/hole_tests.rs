//! For each rule that closes a hole: the sequence that loses, doubles or hangs without it.

use super::script::Setup;

fn usual() -> Setup {
    Setup::default()
}

// ---- A committable that would expire before its commit.

/// Published too late, the external system would have given the transaction up: its records would be lost for good.
#[test]
fn a_committable_that_expired_at_the_last_acknowledgement_is_not_published() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s => accepted
        @11 ack 1 k +f !1<20 => accepted
        @20 ack 1 t => accepted, abort 1 expired, release f, fail over: 1 expired",
    );
}

/// It will ride in every later checkpoint, none of which can be published: waiting for the others gains nothing.
#[test]
fn a_committable_that_expires_while_collecting_fails_over_at_once() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 k !1<15 => accepted
        @14 tick =>
        @15 tick => abort 1 expired, fail over: 1 expired",
    );
}

#[test]
fn a_committable_that_expires_while_ready_is_not_published() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 all => accepted, accepted, accepted, publish 1
        @20 tick => inject 2
        @21 ack 2 s => accepted
        @21 ack 2 t => accepted
        @21 ack 2 k !2<30 => accepted
        @30 tick => abort 2 expired, fail over: 2 expired",
    );
}

/// The publish may already have happened: only the slot can say, so a tombstone must be there first.
#[test]
fn a_committable_that_expires_while_publishing_is_withdrawn_and_the_tombstone_decides() {
    let until_withdrawn = "
        @10 tick => inject 1
        @11 ack 1 s => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k +f !1<15 => accepted, publish 1
        @15 tick => withdraw 1
        @16 tick =>";
    let tombstone = "
        @17 tombstone 1 => abort 1 expired, release f, fail over: 1 expired";
    let manifest = "
        @18 published 1 => complete 1, permit 1 [1]";
    let unknown = "
        @19 unknown 1 => fail over: 1 unknown";
    usual().check(&format!("{until_withdrawn}{tombstone}"));
    usual().check(&format!("{until_withdrawn}{manifest}"));
    usual().check(&format!("{until_withdrawn}{unknown}"));
}

/// What a completed checkpoint contains has its permit: its age is the committer's affair, not a reason to start over.
#[test]
fn a_committable_that_a_completed_checkpoint_contains_does_not_expire() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k !1<30 => accepted, publish 1
        @12 published 1 => complete 1, permit 1 [1]
        @20 tick => inject 2
        @21 ack 2 s => accepted
        @21 ack 2 k !1<30 !2<90 => accepted
        @31 ack 2 t => accepted, publish 2, inject 3
        @32 published 2 => complete 2, permit 2 [1 2]",
    );
}

/// The riding committable is in the checkpoint that is being withdrawn. If that one turns out to stand, it has its permit.
#[test]
fn while_one_is_withdrawn_nobody_else_fails_over_for_the_same_committable() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k !1<25 => accepted, publish 1
        @20 tick => inject 2
        @21 ack 2 s => accepted
        @21 ack 2 t => accepted
        @21 ack 2 k !1<25 !2<90 => accepted
        @25 tick => withdraw 1
        @26 published 1 => complete 1, permit 1 [1], publish 2
        @27 published 2 => complete 2, permit 2 [1 2], subsume 1",
    );
}

#[test]
fn what_was_restored_has_its_permit() {
    let setup = Setup { completed: &[(4, "f", &[1])], restored: Some(4), ..usual() };
    setup.check(
        "
        @10 tick => inject 1
        @11 ack 1 s => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k !1<5 !2<90 => accepted, publish 1",
    );
}

// ---- Ended sources.

/// Without the ended source's acknowledgement the manifest would lack its position, and a restore would read it again.
#[test]
fn an_ended_source_is_still_expected() {
    const SCRIPT: &str = "
        @5 end s =>
        @10 tick => inject 1
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted
        @12 ack 1 s => accepted, publish 1";
    usual().check(SCRIPT);
}

/// A checkpoint whose barrier may have passed a source before its EndOfData is not the final one.
#[test]
fn a_checkpoint_from_before_the_last_end_of_data_does_not_finish_the_job() {
    usual().check(
        "
        @5 end s =>
        @10 tick => inject 1
        @11 end t => inject 2 final
        @12 ack 1 all => accepted, accepted, accepted, publish 1
        @13 published 1 => complete 1, permit 1 []
        @14 committed 1 =>
        @15 ack 2 all => accepted, accepted, accepted, publish 2
        @16 published 2 => complete 2, permit 2 [], subsume 1
        @17 committed 2 => finished 2",
    );
}

/// A long interval must not keep the uncommitted tail of the input, nor may one abort.
#[test]
fn the_final_checkpoint_is_repeated_while_it_aborts_and_aborts_count() {
    Setup { tolerable_failures: 2, min_pause: 500, ..usual() }.check(
        "
        @1 end s =>
        @1 end t => inject 1 final
        @2 decline 1 k => abort 1 declined by k, inject 2 final
        @27 tick => abort 2 timeout, inject 3 final
        @28 decline 3 k => abort 3 declined by k, fail over: aborts up to 3",
    );
}

/// `finished` before the commits would make the next start answer "finished" while output is missing.
#[test]
fn the_job_has_not_finished_before_its_last_commits() {
    usual().check(
        "
        @1 end s =>
        @1 end t => inject 1 final
        @2 ack 1 s => accepted
        @2 ack 1 t => accepted
        @2 ack 1 k !1 => accepted, publish 1
        @3 published 1 => complete 1, permit 1 [1]
        @4 tick =>
        @5 committed 1 => finished 1",
    );
}

// ---- Publish order.

/// The last acknowledgement of 1 comes while 2 is being published. Once 2 stands, 1 must not be published after it.
#[test]
fn one_that_became_ready_behind_a_newer_publish_is_subsumed() {
    usual().check(
        "
        @10 tick => inject 1
        @20 tick => inject 2
        @21 ack 2 all => accepted, accepted, accepted, publish 2
        @22 ack 1 s +f => accepted
        @22 ack 1 t => accepted
        @22 ack 1 k => accepted
        @23 published 2 => complete 2, permit 2 [], abort 1 subsumed, release f",
    );
}

#[test]
fn one_that_became_ready_behind_a_newer_publish_has_its_turn_if_that_fails() {
    usual().check(
        "
        @10 tick => inject 1
        @20 tick => inject 2
        @21 ack 2 all => accepted, accepted, accepted, publish 2
        @22 ack 1 all => accepted, accepted, accepted
        @23 tombstone 2 => abort 2 tombstone, publish 1
        @24 published 1 => complete 1, permit 1 []",
    );
}

// ---- Files.

/// The news that 2 is complete has not reached the subtask when barrier 3 does: it still counts on a file of 1, which went
/// with 1. Published, 3 could never be restored.
#[test]
fn a_snapshot_that_counts_on_a_deleted_file_is_aborted() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s +f1 => accepted
        @11 ack 1 t => accepted
        @20 tick => inject 2
        @21 ack 1 k => accepted, publish 1
        @22 ack 2 s +f2 => accepted
        @23 published 1 => complete 1, permit 1 []
        @24 ack 2 t => accepted
        @25 ack 2 k => accepted, publish 2
        @26 published 2 => complete 2, permit 2 [], subsume 1, release f1
        @30 tick => inject 3
        @31 ack 3 s =f1 +f3 => accepted, abort 3 gone file of s, release f3
        @32 ack 3 t +g3 => late, release g3
        @40 tick => inject 4
        @41 ack 4 s =f2 +f4 => accepted",
    );
}

/// Barrier 3 was injected when 1 was the newest: a subtask counts on a file of 1, and 2 completes before it acknowledges.
#[test]
fn a_file_that_a_snapshot_under_way_may_count_on_is_kept_until_its_acknowledgement() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s +f1 => accepted
        @11 ack 1 t => accepted
        @20 tick => inject 2
        @21 ack 2 s +f2 => accepted
        @22 ack 1 k => accepted, publish 1
        @23 published 1 => complete 1, permit 1 []
        @30 tick => inject 3
        @31 ack 2 t => accepted
        @31 ack 2 k => accepted, publish 2
        @32 published 2 => complete 2, permit 2 []
        @33 ack 3 s =f1 +f3 => accepted
        @34 ack 3 t => accepted
        @34 ack 3 k => accepted, publish 3, subsume 1",
    );
}

/// Started from an older one: the newest do not crowd it out before a checkpoint of this attempt stands.
#[test]
fn the_restored_checkpoint_is_kept_until_one_of_this_attempt_is_complete() {
    let setup = Setup { completed: &[(1, "a", &[]), (2, "b", &[]), (3, "c", &[])], restored: Some(2), ..usual() };
    setup.check(
        "
        @9 tick => subsume 0/1, release a
        @10 tick => inject 1
        @11 ack 1 s =b +d => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @12 published 1 => complete 1, permit 1 [], subsume 0/2, subsume 0/3, release c",
    );
}

/// A claim can be found above one's own manifest: the newer attempt starts from it, so its files are not ours to delete.
#[test]
fn who_is_fenced_deletes_nothing_and_commits_nothing() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k !1 => accepted, publish 1
        @12 claim => fenced
        @13 tombstone 1 =>
        @14 ack 1 s +f => no such",
    );
}

/// A failed task does not take a publish back: its manifest may stand, and the next attempt may start from it.
#[test]
fn a_failover_leaves_a_publish_and_its_files_alone() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @12 fail t => fail over: t failed",
    );
}

/// Told by a subtask, "already stored" is true only of files in a completed manifest: 1 may still be aborted.
#[test]
fn a_file_of_a_checkpoint_under_way_does_not_count_as_stored() {
    usual().check(
        "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @20 tick => inject 2
        @21 ack 2 s =f +g => accepted, abort 2 gone file of s, release g",
    );
}
