//! Every cell of the coordinator's table.

use super::script::Setup;

macro_rules! cases {
    ($($name:ident: $setup:expr, $script:literal;)*) => {
        $(#[test]
        fn $name() {
            $setup.check($script);
        })*
    };
}

fn usual() -> Setup {
    Setup::default()
}

fn one_at_a_time() -> Setup {
    Setup { max_concurrent: 1, ..Setup::default() }
}

cases! {
    // The swap checkpoint.
    a_swap_checkpoint_starts_at_once: usual(), "
        @3 swap => inject 1 swap
        @4 ack 1 all => accepted, accepted, accepted, publish 1
        @5 published 1 => complete 1, permit 1 []
        @13 tick => inject 2";
    a_swap_checkpoint_waits_until_it_is_alone: usual(), "
        @10 tick => inject 1
        @11 swap =>
        @20 tick =>
        @21 ack 1 all => accepted, accepted, accepted, publish 1
        @22 published 1 => complete 1, permit 1 [], inject 2 swap";
    nothing_starts_beside_a_swap_checkpoint: usual(), "
        @3 swap => inject 1 swap
        @13 tick =>
        @14 ack 1 all => accepted, accepted, accepted, publish 1
        @15 published 1 => complete 1, permit 1 [], inject 2";
    an_aborted_swap_ends_the_attempt: usual(), "
        @3 swap => inject 1 swap
        @4 decline 1 k => abort 1 declined by k, fail over: swap 1 aborted";
    a_swap_whose_time_is_up_ends_the_attempt: usual(), "
        @3 swap => inject 1 swap
        @28 tick => abort 1 timeout, fail over: swap 1 aborted";
    a_tombstone_of_a_swap_ends_the_attempt: usual(), "
        @3 swap => inject 1 swap
        @4 ack 1 all => accepted, accepted, accepted, publish 1
        @5 tombstone 1 => abort 1 tombstone, fail over: swap 1 aborted";
    a_failed_task_ends_a_swap_once: usual(), "
        @3 swap => inject 1 swap
        @4 fail k => abort 1 fail over, fail over: k failed";
    an_expired_swap_ends_the_attempt_once: usual(), "
        @3 swap => inject 1 swap
        @4 ack 1 k !1<9 => accepted
        @9 tick => abort 1 expired, fail over: 1 expired";
    a_suspension_comes_before_a_swap: one_at_a_time(), "
        @10 tick => inject 1
        @11 swap =>
        @12 suspend =>
        @13 ack 1 all => accepted, accepted, accepted, publish 1
        @14 published 1 => complete 1, permit 1 [], inject 2 suspension";
    a_suspension_comes_after_a_swap_under_way: usual(), "
        @3 swap => inject 1 swap
        @4 suspend =>
        @5 ack 1 all => accepted, accepted, accepted, publish 1
        @6 published 1 => complete 1, permit 1 [], inject 2 suspension";
    a_job_that_finishes_is_not_swapped: usual(), "
        @3 end s =>
        @3 end t => inject 1 final
        @4 swap =>
        @5 ack 1 all => accepted, accepted, accepted, publish 1
        @6 published 1 => complete 1, permit 1 []
        @7 committed 1 => finished 1";

    // (none): the trigger.
    nothing_happens_before_the_first_interval: usual(), "
        @9 tick =>
        @10 tick => inject 1";
    a_checkpoint_goes_its_way: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +fs => accepted
        @12 ack 1 t +ft => accepted
        @13 ack 1 k !1 => accepted, publish 1
        @14 published 1 => complete 1, permit 1 [1]
        @15 committed 1 =>
        @20 tick => inject 2";
    no_more_than_max_concurrent_are_under_way: usual(), "
        @10 tick => inject 1
        @20 tick => inject 2
        @30 tick =>
        @31 ack 1 all => accepted, accepted, accepted, publish 1
        @32 published 1 => complete 1, permit 1 [], inject 3";
    the_pause_counts_from_the_end: Setup { min_pause: 7, ..one_at_a_time() }, "
        @10 tick => inject 1
        @18 ack 1 all => accepted, accepted, accepted, publish 1
        @19 published 1 => complete 1, permit 1 []
        @25 tick =>
        @26 tick => inject 2";
    a_late_trigger_skips_what_it_missed: one_at_a_time(), "
        @10 tick => inject 1
        @30 ack 1 all => accepted, accepted, accepted, publish 1
        @95 published 1 => complete 1, permit 1 [], inject 2
        @96 ack 2 all => accepted, accepted, accepted, publish 2
        @97 published 2 => complete 2, permit 2 [], subsume 1
        @104 tick =>
        @105 tick => inject 3";
    ids_go_on_where_the_attempt_says: Setup { first_sequence: 7, completed: &[(3, "f", &[])], restored: Some(3), ..usual() }, "
        @10 tick => inject 7";
    without_ids_left_the_attempt_ends: Setup { first_sequence: u32::MAX - 1, ..usual() }, "
        @10 tick => inject 4294967294
        @20 tick => abort 4294967294 fail over, fail over: no more ids";

    // Collecting: acknowledgements.
    an_acknowledgement_counts_once: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 s +f => duplicate
        @11 ack 1 k => accepted
        @12 ack 1 t => accepted, publish 1
        @12 ack 1 t => duplicate
        @13 published 1 => complete 1, permit 1 []
        @13 ack 1 t => duplicate";
    an_acknowledgement_of_nothing_known_changes_nothing: usual(), "
        @5 ack 1 s +f => no such
        @10 tick => inject 1
        @11 ack 2 s +g => no such
        @11 ack 1 9 +h => no such
        @11 ack 1 all => accepted, accepted, accepted, publish 1";
    another_attempt_is_dropped_first_of_all: usual(), "
        @10 tick => inject 1
        @11 ack 0/1 s +f => stale
        @11 ack 2/1 s +f => stale
        @11 decline 0/1 s =>
        @11 fail 0 s =>
        @11 end 0 s =>
        @11 end 0 t =>
        @11 published 0/1 =>
        @11 unknown 0/1 =>
        @11 tombstone 0/1 =>
        @12 ack 1 all => accepted, accepted, accepted, publish 1";
    a_file_of_a_completed_checkpoint_is_stored: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @12 published 1 => complete 1, permit 1 []
        @20 tick => inject 2
        @21 ack 2 s =f +g => accepted
        @21 ack 2 t => accepted
        @21 ack 2 k => accepted, publish 2
        @22 published 2 => complete 2, permit 2 [], subsume 1
        @30 tick => inject 3
        @31 ack 3 all => accepted, accepted, accepted, publish 3
        @32 published 3 => complete 3, permit 3 [], subsume 2, release f g";

    // Collecting: aborts.
    the_timeout_aborts_and_releases: one_at_a_time(), "
        @10 tick => inject 1
        @11 ack 1 s +f !1 => accepted
        @34 tick =>
        @35 tick => abort 1 timeout, release f, inject 2";
    the_last_acknowledgement_at_the_timeout_counts: usual(), "
        @10 tick => inject 1
        @11 ack 1 s => accepted
        @11 ack 1 t => accepted
        @35 ack 1 k => accepted, publish 1, inject 2";
    a_decline_aborts_and_releases: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @12 decline 1 k => abort 1 declined by k, release f
        @12 decline 1 t =>
        @20 tick => inject 2";
    a_failed_task_ends_the_attempt: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @12 fail k => abort 1 fail over, release f, fail over: k failed
        @13 fail t =>
        @20 tick =>
        @21 ack 1 t +g => late
        @22 suspend =>";
    a_newer_one_that_completes_subsumes: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f !1 => accepted
        @20 tick => inject 2
        @21 ack 2 s +g !1 !2 => accepted
        @21 ack 2 t => accepted
        @21 ack 2 k => accepted, publish 2
        @22 published 2 => complete 2, permit 2 [1 2], abort 1 subsumed, release f";
    a_late_acknowledgement_releases_its_uploads: usual(), "
        @10 tick => inject 1
        @11 decline 1 k => abort 1 declined by k
        @12 ack 1 s +f => late, release f
        @12 ack 1 s +f => duplicate
        @12 ack 1 t => late";

    // Ready: publish order.
    the_older_one_that_is_ready_goes_first: usual(), "
        @10 tick => inject 1
        @20 tick => inject 2
        @21 ack 1 all => accepted, accepted, accepted, publish 1
        @22 ack 2 all => accepted, accepted, accepted
        @23 published 1 => complete 1, permit 1 [], publish 2
        @24 published 2 => complete 2, permit 2 [], subsume 1";
    one_that_collects_holds_nothing_up: usual(), "
        @10 tick => inject 1
        @20 tick => inject 2
        @21 ack 2 all => accepted, accepted, accepted, publish 2";
    ready_has_no_timeout: usual(), "
        @10 tick => inject 1
        @20 tick => inject 2
        @21 ack 1 all => accepted, accepted, accepted, publish 1
        @22 ack 2 all => accepted, accepted, accepted
        @99 tick =>
        @100 published 1 => complete 1, permit 1 [], publish 2, inject 3";
    a_decline_after_the_last_acknowledgement_changes_nothing: usual(), "
        @10 tick => inject 1
        @11 ack 1 all => accepted, accepted, accepted, publish 1
        @12 decline 1 s =>
        @13 published 1 => complete 1, permit 1 []";

    // Publishing.
    publishing_has_no_timeout: one_at_a_time(), "
        @10 tick => inject 1
        @11 ack 1 all => accepted, accepted, accepted, publish 1
        @999 tick =>
        @1000 published 1 => complete 1, permit 1 [], inject 2";
    published_told_again_changes_nothing: usual(), "
        @10 tick => inject 1
        @11 ack 1 all => accepted, accepted, accepted, publish 1
        @12 published 1 => complete 1, permit 1 []
        @12 published 1 =>
        @12 unknown 1 =>";
    an_unknown_publish_is_neither_complete_nor_aborted: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @20 tick => inject 2
        @21 ack 2 s +g => accepted
        @22 unknown 1 => abort 2 fail over, release g, fail over: 1 unknown
        @23 published 1 =>";
    a_tombstone_aborts_and_the_next_one_is_published: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f !1 => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @20 tick => inject 2
        @21 ack 2 s !1 !2 => accepted
        @21 ack 2 t => accepted
        @21 ack 2 k => accepted
        @22 tombstone 1 => abort 1 tombstone, release f, publish 2
        @22 tombstone 1 =>
        @23 published 2 => complete 2, permit 2 [1 2]";
    a_newer_claim_fences_and_nothing_is_deleted: usual(), "
        @10 tick => inject 1
        @11 ack 1 s +f !1 => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @20 tick => inject 2
        @21 ack 2 s +g => accepted
        @22 claim => fenced
        @23 published 1 =>
        @24 ack 2 t +h => no such
        @99 tick =>";

    // Contradictions of the log are our bugs.
    a_manifest_that_was_not_asked_for_is_our_bug: usual(), "
        @10 tick => inject 1
        @11 published 1 => panic C3";
    a_manifest_of_an_aborted_checkpoint_is_our_bug: usual(), "
        @10 tick => inject 1
        @11 decline 1 s => abort 1 declined by s
        @11 published 1 => panic C4";
    a_tombstone_of_a_completed_checkpoint_is_our_bug: usual(), "
        @10 tick => inject 1
        @11 ack 1 all => accepted, accepted, accepted, publish 1
        @12 published 1 => complete 1, permit 1 []
        @13 tombstone 1 => panic C4";
    a_tombstone_that_was_not_asked_for_is_our_bug: usual(), "
        @10 tick => inject 1
        @11 tombstone 1 => panic C4";

    // Tolerable failures.
    one_abort_too_many_in_a_row_ends_the_attempt: Setup { tolerable_failures: 1, ..usual() }, "
        @10 tick => inject 1
        @11 decline 1 s => abort 1 declined by s
        @20 tick => inject 2
        @21 decline 2 s => abort 2 declined by s, fail over: aborts up to 2";
    a_completion_starts_the_count_anew: Setup { tolerable_failures: 1, ..usual() }, "
        @10 tick => inject 1
        @11 decline 1 s => abort 1 declined by s
        @20 tick => inject 2
        @21 ack 2 all => accepted, accepted, accepted, publish 2
        @22 published 2 => complete 2, permit 2 []
        @30 tick => inject 3
        @31 decline 3 s => abort 3 declined by s";
    being_subsumed_is_no_failure: Setup { tolerable_failures: 0, ..usual() }, "
        @10 tick => inject 1
        @20 tick => inject 2
        @21 ack 2 all => accepted, accepted, accepted, publish 2
        @22 published 2 => complete 2, permit 2 [], abort 1 subsumed";
    the_last_abort_takes_the_others_with_it_but_not_a_publish: Setup { tolerable_failures: 0, max_concurrent: 3, ..usual() }, "
        @10 tick => inject 1
        @11 ack 1 s +f => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @20 tick => inject 2
        @21 ack 2 s +g => accepted
        @30 tick => inject 3
        @31 ack 3 s +h => accepted
        @32 decline 3 t => abort 3 declined by t, release h, abort 2 fail over, release g, fail over: aborts up to 3";

    // Retention.
    the_newest_are_retained: Setup { retain: 2, completed: &[(1, "a", &[]), (2, "b", &[])], restored: Some(2), ..usual() }, "
        @10 tick => inject 1
        @11 ack 1 s =b +c => accepted
        @11 ack 1 t => accepted
        @11 ack 1 k => accepted, publish 1
        @12 published 1 => complete 1, permit 1 [], subsume 0/1, release a
        @20 tick => inject 2
        @21 ack 2 all => accepted, accepted, accepted, publish 2
        @22 published 2 => complete 2, permit 2 [], subsume 0/2";

    // Suspension.
    a_suspension_starts_at_once_and_ends_with_its_commits: usual(), "
        @3 suspend => inject 1 suspension
        @4 suspend =>
        @5 ack 1 all => accepted, accepted, accepted, publish 1
        @6 published 1 => complete 1, permit 1 []
        @99 tick =>
        @100 committed 1 => suspended 1
        @110 tick =>";
    a_suspension_waits_for_a_free_place: one_at_a_time(), "
        @10 tick => inject 1
        @11 suspend =>
        @12 ack 1 all => accepted, accepted, accepted, publish 1
        @13 published 1 => complete 1, permit 1 [], inject 2 suspension
        @14 committed 1 =>
        @15 ack 2 all => accepted, accepted, accepted, publish 2
        @16 published 2 => complete 2, permit 2 [], subsume 1
        @17 committed 2 => suspended 2";
    a_suspension_is_repeated_while_it_aborts: Setup { tolerable_failures: 1, ..usual() }, "
        @3 suspend => inject 1 suspension
        @4 decline 1 t => abort 1 declined by t, inject 2 suspension
        @5 decline 2 t => abort 2 declined by t, fail over: aborts up to 2";
    a_task_that_fails_before_the_commits_are_done_ends_the_attempt: usual(), "
        @3 suspend => inject 1 suspension
        @4 ack 1 all => accepted, accepted, accepted, publish 1
        @5 published 1 => complete 1, permit 1 []
        @6 fail k => fail over: k failed";
    input_that_ends_after_the_suspension_began_does_not_hold_it_up: usual(), "
        @3 suspend => inject 1 suspension
        @4 end s =>
        @4 end t =>
        @5 ack 1 all => accepted, accepted, accepted, publish 1
        @6 published 1 => complete 1, permit 1 []
        @7 committed 1 => suspended 1";
    input_that_ends_before_the_suspension_is_repeated_finishes_the_job: usual(), "
        @3 suspend => inject 1 suspension
        @4 end s =>
        @4 end t =>
        @5 decline 1 s => abort 1 declined by s, inject 2 final";

    // The end of the input.
    the_final_checkpoint_starts_with_the_last_end_of_data: Setup { min_pause: 60, ..usual() }, "
        @1 end s =>
        @1 end s =>
        @2 end t => inject 1 final
        @3 end t =>
        @20 tick =>
        @21 ack 1 all => accepted, accepted, accepted, publish 1
        @22 published 1 => complete 1, permit 1 []
        @90 tick =>
        @91 committed 1 => finished 1";
    the_final_checkpoint_waits_for_a_free_place: one_at_a_time(), "
        @10 tick => inject 1
        @11 end s =>
        @11 end t =>
        @12 ack 1 all => accepted, accepted, accepted, publish 1
        @13 published 1 => complete 1, permit 1 [], inject 2 final";
    the_commits_of_an_older_checkpoint_do_not_finish_the_job: usual(), "
        @10 tick => inject 1
        @11 ack 1 all => accepted, accepted, accepted, publish 1
        @12 published 1 => complete 1, permit 1 []
        @13 end s =>
        @13 end t => inject 2 final
        @14 ack 2 all => accepted, accepted, accepted, publish 2
        @15 published 2 => complete 2, permit 2 [], subsume 1
        @16 committed 1 =>
        @17 committed 2 => finished 2";
    a_suspension_asked_for_during_the_final_checkpoint_changes_nothing: usual(), "
        @1 end s =>
        @1 end t => inject 1 final
        @2 suspend =>
        @3 ack 1 all => accepted, accepted, accepted, publish 1
        @4 published 1 => complete 1, permit 1 []
        @5 suspend =>
        @6 committed 1 => finished 1";
}
