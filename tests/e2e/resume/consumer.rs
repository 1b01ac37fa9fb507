//! A consumer takes committed files away as they appear: nothing is committed again because its file is gone.

use std::path::Path;
use std::time::Duration;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::judge;
use weir_tests::process::Running;

/// Time between two looks of the consumer.
const LOOK: Duration = Duration::from_millis(5);

/// Moves every committed file to `taken`.
///
/// # Panics
/// If a name comes twice: a final name is used once.
fn take_all(case: &FlightsCase) -> usize {
    let parts = case.parts();
    for part in &parts {
        let (from, to) = (case.scratch.path("out").join(part), case.scratch.path("taken").join(part));
        assert!(!to.exists(), "{part} was taken away, and is there again");
        std::fs::create_dir_all(to.parent().expect("below taken")).expect("a folder can be made");
        std::fs::rename(&from, &to).expect("a committed file stays where it is");
    }
    parts.len()
}

/// Takes files away while `running` runs; answers how many.
fn take_while(case: &FlightsCase, mut running: Running) -> (usize, Running) {
    let mut taken = 0;
    while running.wait_for(LOOK).is_none() {
        taken += take_all(case);
    }
    (taken, running)
}

/// Kills at a point while a consumer works, restarts, and judges what it got and what lies there still.
fn consumed_and_killed_at(point: &str) {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, ..FlightsOptions::default() });
    let (taken, killed) = take_while(&case, case.start(&[], &[("WEIR_CRASH_AT", point)]));
    assert!(killed.finish().was_killed(), "{point} was never passed");
    assert!(taken + take_all(&case) > 0, "nothing was committed before {point}");
    assert!(case.parts().is_empty());
    let (taken, ended) = take_while(&case, case.start(&[], &[]));
    ended.finish().expect_code(0);
    assert!(taken > 0, "nothing was taken while the second process ran");
    case.expect_clean();
    take_all(&case);
    let union = |folder: &str| case.scratch.path("taken").join(folder);
    judge_union(&case.lines, &union("stats"), &union("rejected"), point);
}

fn judge_union(lines: &[String], stats: &Path, rejected: &Path, point: &str) {
    judge::flights(lines, stats, rejected).unwrap_or_else(|fault| panic!("{point}: {fault}"));
}

#[test]
fn files_are_taken_away_before_their_commit_is_recorded() {
    consumed_and_killed_at("commit-sent:4");
}

#[test]
fn files_are_taken_away_after_their_commit_is_recorded() {
    consumed_and_killed_at("committed:2");
}

#[test]
fn files_are_taken_away_before_the_next_manifest_stands() {
    consumed_and_killed_at("manifest-published:3");
}
