//! The accounting of a subtask's time.

use super::*;
use std::time::Duration;

fn all_ns(times: &TaskTimes) -> u64 {
    Stage::ALL.into_iter().map(|stage| times.stage_ns(stage)).sum()
}

#[test]
fn every_stage_has_its_own_counter_and_name() {
    for (at, stage) in Stage::ALL.into_iter().enumerate() {
        assert_eq!(stage as usize, at);
        assert_eq!(Stage::ALL.into_iter().filter(|other| other.name() == stage.name()).count(), 1, "{}", stage.name());
    }
}

#[test]
fn every_nanosecond_belongs_to_one_stage_and_none_to_two() {
    let times = Arc::new(TaskTimes::new(2));
    let begun = clock::monotonic();
    let mut clock = StageClock::start_at(Arc::clone(&times), begun);
    for turn in 0..1_000 {
        let stage = Stage::ALL[turn % Stage::ALL.len()];
        clock.lap(turn % 2, stage);
        clock.lap_call(1, CallTimes::default(), LookUps::default());
        clock.turn();
    }
    assert_eq!(all_ns(&times), nanoseconds(begun, clock.at));
    assert_eq!(times.thread_ns.get(), all_ns(&times));
    assert!(all_ns(&times) <= begun.elapsed().as_nanos() as u64, "more than the wall clock says");
    assert_eq!(times.busy_ns() + times.stage_ns(Stage::Idle) + times.stage_ns(Stage::Blocked), all_ns(&times));
}

#[test]
fn a_call_is_split_as_it_says_and_the_rest_is_rest() {
    let times = Arc::new(TaskTimes::new(1));
    let begun = clock::monotonic();
    let mut clock = StageClock::start_at(Arc::clone(&times), begun);
    let first =
        CallTimes { calls: 1, group_ns: 10, look_up_ns: 20, guest_ns: 300, host_calls: 4, host_ns: 50, take_ns: 6, apply_ns: 7 };
    let found = LookUps { hits: 90, misses: 10, store_reads: 3 };
    clock.lap_call_at(begun + Duration::from_nanos(400), 0, first, found);
    // The second call differs from the first by what came since.
    let mut both = first;
    both += CallTimes { calls: 1, guest_ns: 100, ..CallTimes::default() };
    clock.lap_call_at(begun + Duration::from_nanos(500), 0, both, LookUps { hits: 190, ..found });
    clock.turn();

    let node = &times.nodes[0];
    let stages: Vec<_> = Stage::ALL.into_iter().map(|stage| (stage, node.stage_ns(stage))).filter(|(_, ns)| *ns > 0).collect();
    assert_eq!(
        stages,
        [
            (Stage::Group, 10),
            (Stage::LookUp, 20),
            (Stage::Guest, 400),
            (Stage::HostCalls, 50),
            (Stage::Take, 6),
            (Stage::Apply, 7),
            (Stage::Rest, 7),
        ]
    );
    assert_eq!((node.calls.get(), node.host_calls.get()), (2, 4));
    assert_eq!((node.hits.get(), node.misses.get(), node.store_reads.get()), (190, 10, 3));
    assert_eq!((all_ns(&times), times.thread_ns.get()), (500, 500));
}

#[test]
fn what_an_operator_says_is_never_more_than_what_has_passed() {
    let times = Arc::new(TaskTimes::new(1));
    let begun = clock::monotonic();
    let mut clock = StageClock::start_at(Arc::clone(&times), begun);
    let boast = CallTimes { look_up_ns: 60, guest_ns: 1_000, take_ns: 5, ..CallTimes::default() };
    clock.lap_call_at(begun + Duration::from_nanos(100), 0, boast, LookUps::default());
    let node = &times.nodes[0];
    assert_eq!([Stage::LookUp, Stage::Guest, Stage::Take, Stage::Rest].map(|stage| node.stage_ns(stage)), [60, 40, 0, 0]);
    assert_eq!(all_ns(&times), 100);
}
