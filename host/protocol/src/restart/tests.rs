//! Delays and attempts.

use super::{RestartEffect, RestartEvent, RestartPolicy, RestartStrategy};
use crate::ids::Generation;
use std::time::Duration;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn exponential(attempts: u32) -> RestartPolicy {
    RestartPolicy::new(RestartStrategy::Exponential { delay: s(1), max_delay: s(60), attempts }, s(600))
}

fn fail(policy: &mut RestartPolicy, now: u64, generation: u32) -> Vec<RestartEffect> {
    let mut effects = Vec::new();
    policy.handle(RestartEvent::Failed { now: s(now), generation: Generation(generation) }, &mut effects);
    effects
}

fn restart(at: u64, attempt: u32) -> Vec<RestartEffect> {
    vec![RestartEffect::RestartAt { at: s(at), attempt }]
}

#[test]
fn none_gives_up_at_once() {
    let mut policy = RestartPolicy::new(RestartStrategy::None, s(600));
    assert_eq!(fail(&mut policy, 5, 1), [RestartEffect::GiveUp { failures: 1 }]);
}

#[test]
fn fixed_keeps_its_delay_and_gives_up_after_its_attempts() {
    let mut policy = RestartPolicy::new(RestartStrategy::Fixed { delay: s(3), attempts: 2 }, s(600));
    assert_eq!(fail(&mut policy, 10, 1), restart(13, 1));
    assert_eq!(fail(&mut policy, 20, 2), restart(23, 2));
    assert_eq!(fail(&mut policy, 30, 3), [RestartEffect::GiveUp { failures: 3 }]);
}

#[test]
fn exponential_doubles_up_to_its_longest_delay() {
    let mut policy = exponential(100);
    let delays: Vec<u64> = (1..=9)
        .map(|generation| match fail(&mut policy, 0, generation)[..] {
            [RestartEffect::RestartAt { at, .. }] => at.as_secs(),
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn a_huge_number_of_failures_does_not_overflow() {
    let delay = s(u64::MAX);
    let mut policy = RestartPolicy::new(RestartStrategy::Exponential { delay, max_delay: s(60), attempts: 100 }, s(600));
    for generation in 1..=100 {
        assert_eq!(fail(&mut policy, 0, generation), restart(60, generation));
    }
}

#[test]
fn running_long_enough_starts_the_count_anew() {
    let mut policy = exponential(2);
    assert_eq!(fail(&mut policy, 0, 1), restart(1, 1));
    assert_eq!(fail(&mut policy, 600, 2), restart(602, 2), "it has run for 599 s");
    assert_eq!(fail(&mut policy, 1202, 3), restart(1203, 1), "it has run for 600 s");
}

#[test]
fn waiting_for_the_restart_is_not_running() {
    let strategy = RestartStrategy::Fixed { delay: s(1000), attempts: 1 };
    let mut policy = RestartPolicy::new(strategy, s(600));
    assert_eq!(fail(&mut policy, 0, 1), restart(1000, 1));
    assert_eq!(fail(&mut policy, 1001, 2), [RestartEffect::GiveUp { failures: 2 }]);
}

#[test]
fn only_the_first_failure_of_an_attempt_counts() {
    let mut policy = exponential(1);
    assert_eq!(fail(&mut policy, 0, 7), restart(1, 1));
    assert_eq!(fail(&mut policy, 0, 7), []);
    assert_eq!(fail(&mut policy, 9, 6), []);
    assert_eq!(fail(&mut policy, 9, 8), [RestartEffect::GiveUp { failures: 2 }]);
    assert_eq!(fail(&mut policy, 9, 8), []);
}
