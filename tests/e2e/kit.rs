//! `weir test`: good plugins pass, and each broken one is caught by the name of the promise that it breaks.

use serde_json::{Value, json};
use weir_tests::guest;
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::Scratch;

/// Runs the kit on a guest; `input`: the records' file.
fn kit(name: &str, config: &Value, input: Option<&str>) -> (Ended, Value) {
    let scratch = Scratch::new();
    let (plugin, config) = (guest(name).display().to_string(), config.to_string());
    let mut arguments = vec!["test", &plugin, "--config", &config, "--json"];
    if let Some(input) = input {
        scratch.write("input", input);
        arguments.extend(["--input", "input"]);
    }
    let ended = Running::start(scratch.folder(), &arguments, &[]).finish();
    let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    (ended, report)
}

/// Names of the checks that failed.
fn failed(report: &Value) -> Vec<&str> {
    let checks = report["checks"].as_array().expect("a report has checks");
    checks.iter().filter(|check| check["verdict"] == "fails").map(|check| check["name"].as_str().expect("a name")).collect()
}

fn passes(name: &str, config: &Value, input: Option<&str>) {
    let (ended, report) = kit(name, config, input);
    assert_eq!(failed(&report), Vec::<&str>::new(), "{name}: {report:#}");
    ended.expect_code(0);
    assert_eq!(report["outcome"], "passed");
    assert!(report["checks"].as_array().is_some_and(|checks| checks.len() > 15), "{name}: {report:#}");
}

fn is_caught(name: &str, config: &Value, promise: &str, seen: &str) {
    let (ended, report) = kit(name, config, None);
    assert!(failed(&report).iter().any(|failed| failed.contains(promise)), "{name}: {report:#}");
    ended.expect_code(1).expect_text(&[seen]);
}

fn flight(i: usize) -> String {
    format!("2013,1,1,517,515,{},830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z", i % 90)
}

/// JSON lines of records with these keys and values.
fn records(record: impl Fn(usize) -> (String, String)) -> String {
    let line = |i| {
        let (key, value) = record(i);
        json!({ "key": key, "value": value, "time": i * 1000 }).to_string() + "\n"
    };
    (0..2_500).map(line).collect()
}

#[test]
fn the_guests_for_any_text_pass() {
    for name in ["tutorial", "map_upper", "map_filter", "filter_even", "keyed_count", "number_records", "on_demand_count"] {
        passes(name, &json!({}), None);
    }
    passes("window_count", &json!({ "size_ms": 60_000 }), None);
    passes("join_flights_weather", &json!({}), None);
}

#[test]
fn the_guests_for_records_of_their_own_pass_with_an_input() {
    let lines: String = (0..2_500).map(|i| flight(i) + "\n").collect();
    passes("parse_flights", &json!({}), Some(&lines));
    let header = (0..19).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
    passes("key_by_columns", &json!({ "header": header, "columns": ["c9", "c12"] }), Some(&lines));
    let orders = records(|i| {
        let account = format!("a{}", i % 7);
        (account.clone(), json!({ "id": i, "account": account, "amount": i as i64 - 900 }).to_string())
    });
    passes("running_balance", &json!({}), Some(&orders));
    passes("make_orders", &json!({}), Some(&records(|i| (format!("key-{:04}", i % 50), "x".to_owned()))));
}

#[test]
fn the_same_operator_passes_in_every_language() {
    let flights = records(|i| (format!("UA,E{}", i % 5), flight(i)));
    for name in ["carrier_stats", "carrier_stats_c", "carrier_stats_go"] {
        passes(name, &json!({}), Some(&flights));
    }
}

#[test]
fn the_stock_sink_passes() {
    passes("file_sink", &json!({}), None);
}

#[test]
fn state_in_a_global_is_caught() {
    is_caught("keeps_global", &json!({}), "state lives with the host", "with fresh instances that got the stored state");
}

#[test]
fn a_hidden_clock_is_caught_and_so_are_random_bytes() {
    is_caught("wants_clock", &json!({}), "no hidden clock", "with another one");
    is_caught("wants_random", &json!({}), "no hidden random", "with another one");
}

#[test]
fn a_commit_that_is_not_idempotent_is_caught() {
    is_caught("rash_sink", &json!({ "do": "commit-again" }), "a repeated commit changes nothing", "expected");
}

#[test]
fn records_that_are_visible_before_the_commit_are_caught() {
    is_caught("rash_sink", &json!({ "do": "show-early" }), "nothing is visible before the commit", "visible values");
}

#[test]
fn a_trap_on_a_record_is_caught_and_a_hang() {
    is_caught("misbehave", &json!({ "on": "weir", "do": "trap" }), "it processes records", "trap");
    let (ended, report) = kit("misbehave_keyed", &json!({ "on": "1e999", "do": "loop" }), None);
    assert_eq!(failed(&report), ["texts that break parsers"], "{report:#}");
    ended.expect_code(1).expect_text(&["it hangs"]);
}

#[test]
fn a_plugin_that_keeps_its_records_in_memory_is_caught() {
    is_caught("probe_go", &json!({}), "an instance does not grow with its records", "it blows up");
}

#[test]
fn an_operator_that_refuses_all_generated_records_asks_for_an_input() {
    let (ended, report) = kit("parse_flights", &json!({}), None);
    assert_eq!(failed(&report), ["it processes records"]);
    ended.expect_code(1).expect_text(&["all generated records were refused", "give --input FILE"]);
}

#[test]
fn the_report_reads_well_and_what_is_no_plugin_is_refused() {
    let scratch = Scratch::new();
    let plugin = guest("keeps_global").display().to_string();
    let run = |arguments: &[&str]| Running::start(scratch.folder(), arguments, &[]).finish();
    let told = run(&["test", &plugin, "--seed", "5"]).expect_code(1);
    assert_eq!(told.stderr, "", "the plugin's own words are in the report, or nowhere");
    let told = told.expect_text(&["keeps-global 0.1.0", "imports nothing beside the contract", "\nlifecycle\n  ok    it opens"]);
    told.expect_text(&["  FAIL  state lives with the host", "failed: 1 of", "(seed 5)"]);
    let trap = guest("trap_at_describe").display().to_string();
    run(&["test", &trap]).expect_code(2).expect_text(&["describe"]);
    scratch.write("none.wasm", "no wasm");
    run(&["test", "none.wasm"]).expect_code(2).expect_text(&["not Wasm"]);
    run(&["test", &plugin, "--config", "[]"]).expect_code(2).expect_text(&["--config []", "no object"]);
    run(&["test", &plugin, "--input", "gone"]).expect_code(2).expect_text(&["--input gone"]);
}
