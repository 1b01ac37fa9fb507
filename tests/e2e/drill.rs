//! `weir drill`: passes a job that keeps its promise, and finds one that does not.

use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::kafka::{OrdersCase, SLOW, broker};
use weir_tests::process::Running;
use weir_tests::soak;

#[test]
fn a_job_over_files_passes() {
    let case =
        FlightsCase::new(FlightsOptions { rows: 6_000, rate: Some(6_000), interval: "100ms", ..FlightsOptions::default() });
    let weir = |words: &[&str]| Running::start(case.scratch.folder(), words, &[]).finish();
    let kills = if soak() { "40" } else { "4" };
    let drilled = weir(&["drill", "job.toml", "--kills", kills, "--seed", "5"]).expect_code(0);
    assert!(drilled.stdout.contains(&format!("PASSED: {kills} kills in ")), "{drilled:?}");
    let folder = case.scratch.path(".weir/flights-drill");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["report.txt"], "what was drilled is gone");
    assert!(!case.scratch.path("out").exists(), "nothing was written where the job writes");
    weir(&["drill", "--list"]).expect_code(0).expect_text(&["manifest-published"]);
}

#[test]
fn a_job_over_kafka_passes_and_leaves_no_topic() {
    let case = OrdersCase::new(broker(), "drilled", SLOW);
    case.fill(0..30_000);
    let kills = if soak() { "60" } else { "4" };
    let drilled = case.weir(&["drill", "job.toml", "--kills", kills, "--seed", "2", "--dir", "drill"]).expect_code(0);
    assert!(drilled.stdout.contains("PASSED") && drilled.stdout.contains("balances: 30000 records"), "{drilled:?}");
    let left: Vec<String> = broker().topics().into_iter().filter(|topic| topic.starts_with("out-drilled")).collect();
    assert_eq!(left, ["out-drilled"]);
    assert_eq!(broker().read(&case.output()).len(), 0, "nothing was written where the job writes");
}

#[test]
fn a_job_that_repeats_records_is_found_out() {
    let weak = ("topic = \"${OUT:-balances}\"", "topic = \"${OUT:-balances}\"\nguarantee = \"at-least-once\"");
    let case = OrdersCase::new(broker(), "weak", &[SLOW[0], SLOW[1], weak]);
    case.fill(0..30_000);
    let drilled = case.weir(&["drill", "job.toml", "--kills", "5", "--dir", "drill"]).expect_code(1);
    assert!(drilled.stdout.contains("REPEATED OR WRONG") && drilled.stdout.contains("extra: key 'a"), "{drilled:?}");
    assert!(drilled.stdout.contains("NOT PASSED") && drilled.stdout.contains(" UTC, seed"), "{drilled:?}");
    let removal = format!("kafka-topics.sh --bootstrap-server {} --delete --topic 'out-weak.", broker().address());
    assert!(drilled.stdout.contains(&removal), "{drilled:?}");
    // The drill's folder holds what was found.
    case.weir(&["drill", "job.toml", "--kills", "1", "--dir", "drill"]).expect_code(2).expect_text(&["is not empty"]);
}

#[test]
fn a_job_without_output_is_not_called_safe() {
    let case = OrdersCase::new(broker(), "nothing", &[]);
    let said = case.weir(&["drill", "job.toml", "--kills", "3", "--dir", "drill"]).expect_code(1);
    assert!(said.stdout.contains("NOT PASSED: undisturbed, the job commits nothing"), "{said:?}");
    assert!(said.stdout.contains("0 records were read: is the input empty, or deleted by retention?"), "{said:?}");
}
