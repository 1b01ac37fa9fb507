//! kill -9 at every named point and at random moments: the committed output is the undisturbed one.

use std::time::Duration;
use weir_host::crash::POINTS;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::join::JoinCase;
use weir_tests::process::Running;
use weir_tests::scratch::Scratch;
use weir_tests::{Seeded, judge, soak};

/// Points that a first start does not pass: they are met by the start after a crash.
const AFTER_A_CRASH: &[&str] = &["restore-begun", "recover-committed", "recover-aborted"];

/// Points that a run passes once.
const ONCE: &[&str] = &["final-checkpoint", "claimed", "restore-begun", "recover-committed", "recover-aborted"];

/// Records a second. On a busy machine a run has few checkpoints, and may not pass a point often enough: then a slower one does.
const RATES: [u64; 3] = [8_000, 4_000, 2_000];

/// Crashes at a passage of a point, restarts, and judges.
fn crash_at(point: &str, passage: u64, parallelism: u32) {
    let at = format!("{point}:{passage}");
    for rate in RATES {
        let options = FlightsOptions { parallelism, files: 12, rate: Some(rate), ..FlightsOptions::default() };
        let case = FlightsCase::new(options);
        if AFTER_A_CRASH.contains(&point) {
            let first = case.run(&[], &[("WEIR_CRASH_AT", "committed:2")]);
            assert!(first.was_killed(), "the first run was not killed: {first:?}");
        }
        let ended = case.run(&[], &[("WEIR_CRASH_AT", &at)]);
        let killed = ended.was_killed();
        if killed {
            case.run(&[], &[]).expect_code(0);
        } else {
            ended.expect_code(0);
        }
        case.judge().unwrap_or_else(|fault| panic!("{at} at parallelism {parallelism}: {fault}"));
        case.expect_clean();
        if killed {
            return;
        }
    }
    panic!("{at} at parallelism {parallelism} was never passed");
}

#[test]
fn every_crash_point() {
    let parallelisms: &[u32] = if soak() { &[1, 2, 4] } else { &[2] };
    for &parallelism in parallelisms {
        let own = |point: &str| super::kafka::OWN_POINTS.contains(&point) || point.starts_with("swap-");
        for (point, _) in POINTS.iter().filter(|(point, _)| !own(point)) {
            let passages = if soak() && !ONCE.contains(point) { 2 } else { 1 };
            for passage in 1..=passages {
                crash_at(point, passage, parallelism);
            }
        }
    }
}

/// Two writers of one sink, and no other sink.
const ONE_SINK: &str = r#"
[job]
name = "numbers"
parallelism = 2

[checkpoint]
interval = "200ms"

[[source]]
name = "numbers"
connector = "sequence"
count = 4000
value_bytes = 20
rate = 4000

[[sink]]
name = "out"
connector = "file"
from = "numbers"
path = "out"
"#;

#[test]
fn one_of_several_writers_of_one_sink_has_committed() {
    let scratch = Scratch::new();
    scratch.write("job.toml", ONE_SINK);
    let run =
        |variables: &[(&str, &str)]| Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], variables).finish();
    let killed = run(&[("WEIR_CRASH_AT", "commit-partial")]);
    assert!(killed.was_killed(), "commit-partial was never passed: {killed:?}");
    run(&[]).expect_code(0);
    let numbers = (0..4000).map(|number| format!("{number:020}"));
    judge::same("numbers", &judge::counted(numbers), &judge::counted(judge::lines(&scratch.path("out")).unwrap())).unwrap();
}

/// Kills at seeded moments, several times one after the other, until a run ends by itself.
fn random_kills(seed: u64, kills: u32, parallelism: u32) {
    let mut random = Seeded(seed);
    let options = FlightsOptions { parallelism, files: 12, rows: 9_000, rate: Some(6_000), ..FlightsOptions::default() };
    let case = FlightsCase::new(options);
    let mut killed = 0;
    for _ in 0..kills {
        let delay = Duration::from_millis(30 + random.below(900));
        let ended = case.start(&[], &[]).kill_after(delay);
        if ended.was_killed() {
            killed += 1;
        } else {
            assert_eq!(ended.code(), Some(0), "seed {seed}: {ended:?}");
            break;
        }
    }
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap_or_else(|fault| panic!("seed {seed}, {killed} kills, parallelism {parallelism}: {fault}"));
    case.expect_clean();
}

/// The join: weather ends long before the flights do, flights wait in state, and the end calls give out what never matched.
#[test]
fn the_join_survives_kills() {
    let points = ["all-acked:2", "commit-partial:1", "snapshot-sync-done:3", "final-checkpoint:1", "manifest-published:2"];
    let rounds = if soak() { points.len() } else { 2 };
    for point in &points[..rounds] {
        let case = JoinCase::new();
        let killed = case.start(&[("WEIR_CRASH_AT", point)]).finish();
        assert!(killed.was_killed(), "{point} was never passed: {killed:?}");
        let delay = Duration::from_millis(400);
        case.start(&[]).kill_after(delay);
        case.start(&[]).finish().expect_code(0);
        case.judge().unwrap_or_else(|fault| panic!("{point}: {fault}"));
    }
}

#[test]
fn random_moments() {
    let (rounds, kills) = if soak() { (13, 4) } else { (2, 3) };
    for round in 0..rounds {
        random_kills(0x5EED + round, kills, [1, 2, 4][round as usize % 3]);
    }
}
