//! When a checkpoint may start.

use super::{TriggerDecision, TriggerEvent, TriggerPolicy};
use crate::coordinator::CheckpointKind::{self, Final, Periodic, Suspension};
use std::time::Duration;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn policy(interval: u64, min_pause: u64, max_concurrent: usize) -> TriggerPolicy {
    TriggerPolicy::new(s(interval), s(min_pause), max_concurrent, s(100))
}

fn triggered(at: u64, kind: CheckpointKind) -> TriggerEvent {
    TriggerEvent::Triggered { now: s(at), kind }
}

fn completed(at: u64, kind: CheckpointKind) -> TriggerEvent {
    TriggerEvent::Completed { now: s(at), kind }
}

fn aborted(at: u64, kind: CheckpointKind) -> TriggerEvent {
    TriggerEvent::Aborted { now: s(at), kind }
}

/// The decision after these events.
fn after(mut policy: TriggerPolicy, events: &[TriggerEvent]) -> TriggerDecision {
    for event in events {
        policy.handle(*event);
    }
    policy.decision()
}

fn at(seconds: u64, kind: CheckpointKind) -> TriggerDecision {
    TriggerDecision::At { at: s(seconds), kind }
}

#[test]
fn the_first_interval_counts_from_the_start() {
    assert_eq!(after(policy(10, 0, 1), &[]), at(110, Periodic));
}

#[test]
fn the_interval_counts_from_trigger_to_trigger() {
    assert_eq!(after(policy(10, 0, 1), &[triggered(110, Periodic), completed(113, Periodic)]), at(120, Periodic));
}

#[test]
fn the_pause_counts_from_the_end_complete_or_aborted() {
    assert_eq!(after(policy(10, 9, 1), &[triggered(110, Periodic), completed(113, Periodic)]), at(122, Periodic));
    assert_eq!(after(policy(10, 9, 1), &[triggered(110, Periodic), aborted(114, Periodic)]), at(123, Periodic));
}

#[test]
fn a_full_house_waits_for_an_end_and_skips_what_it_missed() {
    let one = [triggered(110, Periodic)];
    assert_eq!(after(policy(10, 0, 1), &one), TriggerDecision::AfterPending);
    assert_eq!(after(policy(10, 0, 2), &one), at(120, Periodic));
    // A minute late: one checkpoint is due, not six.
    let late = [triggered(110, Periodic), completed(170, Periodic), triggered(170, Periodic), completed(171, Periodic)];
    assert_eq!(after(policy(10, 0, 1), &late[..2]), at(170, Periodic));
    assert_eq!(after(policy(10, 0, 1), &late), at(180, Periodic));
}

#[test]
fn the_final_checkpoint_waits_for_neither_interval_nor_pause() {
    let events = [triggered(110, Periodic), completed(111, Periodic), TriggerEvent::SourcesEnded];
    assert_eq!(after(policy(10, 60, 1), &events), at(0, Final));
}

#[test]
fn the_final_checkpoint_waits_for_a_free_place() {
    let events = [triggered(110, Periodic), TriggerEvent::SourcesEnded];
    assert_eq!(after(policy(10, 0, 1), &events), TriggerDecision::AfterPending);
    assert_eq!(after(policy(10, 0, 2), &events), at(0, Final));
}

#[test]
fn nothing_starts_after_the_last_checkpoint() {
    for kind in [Suspension, Final] {
        let events = [triggered(101, kind), completed(102, kind)];
        assert_eq!(after(policy(10, 0, 2), &events[..1]), TriggerDecision::Never);
        assert_eq!(after(policy(10, 0, 2), &events), TriggerDecision::Never);
    }
}

#[test]
fn the_last_checkpoint_is_repeated_while_it_aborts() {
    let events = [TriggerEvent::SourcesEnded, triggered(101, Final), aborted(102, Final)];
    assert_eq!(after(policy(10, 60, 1), &events), at(0, Final));
}

#[test]
fn the_end_of_an_older_one_does_not_bring_the_last_one_back() {
    let events = [triggered(110, Periodic), TriggerEvent::SourcesEnded, triggered(111, Final), aborted(112, Periodic)];
    assert_eq!(after(policy(10, 0, 2), &events), TriggerDecision::Never);
}

#[test]
fn a_suspension_is_at_once_and_the_end_of_input_wins() {
    assert_eq!(after(policy(10, 60, 1), &[TriggerEvent::SuspendRequested]), at(0, Suspension));
    assert_eq!(after(policy(10, 60, 1), &[TriggerEvent::SuspendRequested, TriggerEvent::SourcesEnded]), at(0, Final));
    assert_eq!(after(policy(10, 60, 1), &[TriggerEvent::SourcesEnded, TriggerEvent::SuspendRequested]), at(0, Final));
}

#[test]
fn more_concurrent_checkpoints_than_the_bound_are_not_started() {
    let mut policy = policy(0, 0, usize::MAX);
    let mut started = 0;
    while let TriggerDecision::At { kind, .. } = policy.decision() {
        policy.handle(triggered(100, kind));
        started += 1;
    }
    assert_eq!(started, crate::bounds::CONCURRENT_CHECKPOINTS);
}

#[test]
#[should_panic(expected = "C6")]
fn triggering_in_a_full_house_is_our_bug() {
    after(policy(10, 0, 1), &[triggered(110, Periodic), triggered(120, Periodic)]);
}
