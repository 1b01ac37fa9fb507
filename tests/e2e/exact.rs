//! Undisturbed runs give the exact output, whatever the parallelism, the backend and the cut of the input.

use weir_tests::flights::{FLIGHTS, FlightsCase, FlightsOptions, WEATHER, example_lines, unhurried_example};
use weir_tests::process::Running;
use weir_tests::scratch::Scratch;
use weir_tests::{judge, repository};

fn check(options: FlightsOptions) {
    let case = FlightsCase::new(FlightsOptions { rate: None, ..options });
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn one_reader_one_file() {
    check(FlightsOptions::default());
}

#[test]
fn two_of_each_and_twelve_files() {
    check(FlightsOptions { parallelism: 2, files: 12, ..FlightsOptions::default() });
}

#[test]
fn four_of_each_and_twelve_files() {
    check(FlightsOptions { parallelism: 4, files: 12, rows: 27_004, ..FlightsOptions::default() });
}

#[test]
fn the_memory_backend() {
    check(FlightsOptions { parallelism: 2, files: 3, backend: "memory", ..FlightsOptions::default() });
}

#[test]
fn a_finished_job_says_so_and_does_nothing() {
    let case = FlightsCase::new(FlightsOptions { rate: None, ..FlightsOptions::default() });
    case.run(&[], &[]).expect_code(0);
    case.run(&[], &[]).expect_code(0).expect_text(&["finished"]);
    case.judge().unwrap();
}

/// Runs an example with its own job file, but for the rate that makes a demonstration last.
fn run_example(name: &str, scratch: &Scratch) {
    let job = unhurried_example(scratch, name);
    let (flights, weather) = (repository().join(FLIGHTS), repository().join(WEATHER));
    let (out, data) = (scratch.path("out"), scratch.path("data"));
    let variables =
        [("OUT", out.to_str().unwrap()), ("FLIGHTS", flights.to_str().unwrap()), ("WEATHER", weather.to_str().unwrap())];
    let arguments = ["run", job.to_str().unwrap(), "--data", data.to_str().unwrap()];
    Running::start(scratch.folder(), &arguments, &variables).finish().expect_code(0);
}

#[test]
fn the_flights_example_gives_every_flight_once() {
    let scratch = Scratch::new();
    run_example("flights", &scratch);
    judge::flights(&example_lines(FLIGHTS), &scratch.path("out/stats"), &scratch.path("out/rejected")).unwrap();
}

#[test]
fn the_join_example_gives_every_flight_once() {
    let scratch = Scratch::new();
    run_example("flights-weather", &scratch);
    let (matched, unmatched) = (scratch.path("out/matched"), scratch.path("out/unmatched"));
    judge::join(&example_lines(FLIGHTS), &example_lines(WEATHER), &matched, &unmatched).unwrap();
}

/// A log on a full disk, or one whose reader has gone, is no reason to stop a job.
#[test]
fn a_job_whose_log_cannot_be_written_finishes() {
    let case = FlightsCase::new(FlightsOptions::default());
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let status = std::process::Command::new(weir_tests::weir_binary())
        .args(["run", "job.toml", "--data", "data"])
        .current_dir(case.scratch.folder())
        .env("WEIR_LOG", "debug")
        .stderr(full())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("weir can be started");
    assert_eq!(status.code(), Some(0));
    case.judge().unwrap();
    let check = std::process::Command::new(weir_tests::weir_binary())
        .args(["check", "job.toml"])
        .current_dir(case.scratch.folder())
        .stdout(full())
        .output()
        .expect("weir can be started");
    assert_eq!(check.status.code(), Some(1), "a result that is lost is no success");
    assert!(String::from_utf8_lossy(&check.stderr).contains("can't be written to stdout"));
}
