//! A second run goes on where the first one ended, whoever ended it and whatever was done to its folders and its job file.

mod changed_job;
mod changed_job_inputs;
mod changed_job_sinks;
mod changed_plugin;
mod consumer;
mod ended_input;
mod ownership;
mod signals;
mod start_over;
mod working_state;

use weir_tests::flights::{FlightsCase, FlightsOptions};

/// A flights job that a crash point has killed.
fn crashed(options: FlightsOptions, at: &str) -> FlightsCase {
    let case = FlightsCase::new(options);
    crash(&case, &[], at);
    case
}

/// Runs until a crash point kills it.
fn crash(case: &FlightsCase, arguments: &[&str], at: &str) {
    let killed = case.run(arguments, &[("WEIR_CRASH_AT", at)]);
    assert!(killed.was_killed(), "{at} was never passed: {killed:?}");
}

/// Runs to the end and judges.
fn end_exactly(case: &FlightsCase) {
    case.run(&[], &[]).expect_code(0).expect_text(&["resumes from checkpoint"]);
    case.judge().unwrap();
    case.expect_clean();
}
