//! One process has the job: a second one in the same folder is refused, one in another folder fences the first.

use rustix::process::Signal;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::process::Running;
use weir_tests::scratch::{Scratch, files_below};

#[test]
fn a_second_process_in_one_data_folder_is_refused_by_the_holders_pid() {
    let case = FlightsCase::new(FlightsOptions { rows: 3_000, ..FlightsOptions::default() });
    let mut first = case.start(&[], &[("WEIR_STOP_AT", "committed:1")]);
    first.wait_until_stopped();
    let holder = format!("process {}", first.pid());
    case.run(&[], &[]).expect_code(2).expect_text(&[&holder]);
    let collect = ["checkpoint", "gc", "job.toml", "--data", "data"];
    Running::start(case.scratch.folder(), &collect, &[]).finish().expect_code(2).expect_text(&[&holder]);
    first.signal(Signal::CONT);
    first.finish().expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

/// A job whose checkpoints two data folders share. It restarts after failures, as it does by default: none of these restarts
/// may take the job back.
fn shared_case(storage: &Scratch, rate: u64) -> FlightsCase {
    let storage = Some(format!("file://{}", storage.path("storage").display()));
    let rate = Some(rate);
    FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, rate, storage, restart: "", ..FlightsOptions::default() })
}

/// Runs the same job with a data folder of its own.
const ELSEWHERE: [&str; 4] = ["run", "job.toml", "--data", "other"];

/// Stops a process at a point, lets another one with its own data folder do the whole job, and wakes the first one up.
fn taken_over_at(point: &str) {
    let shared = Scratch::new();
    let case = shared_case(&shared, 6_000);
    let mut old = case.start(&[], &[("WEIR_STOP_AT", point)]);
    old.wait_until_stopped();
    Running::start(case.scratch.folder(), &ELSEWHERE, &[]).finish().expect_code(0);
    case.judge().unwrap_or_else(|fault| panic!("the new process, old one at {point}: {fault}"));
    let parts = case.parts();
    old.signal(Signal::CONT);
    old.finish().expect_code(5).expect_text(&["another process has taken"]);
    assert_eq!(case.parts(), parts, "the old process, awake again after {point}, has changed committed output");
    case.judge().unwrap_or_else(|fault| panic!("after {point}: {fault}"));
    Running::start(case.scratch.folder(), &ELSEWHERE, &[]).finish().expect_code(0).expect_text(&["finished before"]);
    assert_eq!(case.parts(), parts, "a third run had nothing to do");
    let staged: Vec<String> =
        files_below(&case.scratch.path("out")).into_iter().filter(|path| path.contains(".weir-staging")).collect();
    assert!(staged.is_empty(), "what the old process staged is still there: {staged:?}");
}

/// The same, but the first one wakes up while the second one works.
fn woken_beside_at(point: &str) {
    let shared = Scratch::new();
    let case = shared_case(&shared, 3_000);
    let mut old = case.start(&[], &[("WEIR_STOP_AT", point)]);
    old.wait_until_stopped();
    let before = case.parts();
    let mut new = Running::start(case.scratch.folder(), &ELSEWHERE, &[]);
    new.wait_until("the new process commits", || case.parts().iter().any(|part| !before.contains(part) && part.contains("-2-")));
    old.signal(Signal::CONT);
    old.finish().expect_code(5).expect_text(&["another process has taken"]);
    new.finish().expect_code(0);
    case.judge().unwrap_or_else(|fault| panic!("{point}: {fault}"));
}

#[test]
fn a_process_that_wakes_up_beside_its_successor_leaves_it_alone() {
    woken_beside_at("all-acked:2");
}

#[test]
fn a_process_whose_staged_files_are_gone_does_not_take_the_job_back() {
    woken_beside_at("sink-prepared:3");
}

#[test]
fn a_process_that_sleeps_before_its_manifest_is_fenced() {
    taken_over_at("all-acked:2");
}

#[test]
fn a_process_that_sleeps_before_its_commits_is_fenced() {
    taken_over_at("manifest-published:2");
}

#[test]
fn a_process_that_sleeps_between_its_commits_is_fenced() {
    taken_over_at("commit-partial:2");
}

#[test]
fn a_process_that_sleeps_while_it_prepares_is_fenced() {
    taken_over_at("sink-prepared:3");
}
