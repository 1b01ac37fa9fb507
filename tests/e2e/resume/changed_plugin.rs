//! Plugins changed between two runs: a rebuilt one is taken and said aloud, one with other state is refused, a new one starts
//! empty.

use super::{crashed, end_exactly};
use rustix::process::Signal;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::scratch::Scratch;
use weir_tests::{guest, judge};

/// A component that differs from another in a custom section only, as a rebuild may.
fn rebuilt(scratch: &Scratch, name: &str) -> String {
    let mut bytes = std::fs::read(guest(name)).expect("a guest can be read");
    let (section, content) = ("rebuilt", b"once more");
    let length = 1 + section.len() + content.len();
    bytes.extend([0, u8::try_from(length).expect("one byte of LEB128"), section.len() as u8]);
    bytes.extend(section.as_bytes());
    bytes.extend(content);
    scratch.write("rebuilt.wasm", bytes).display().to_string()
}

fn stats_plugin() -> String {
    guest("carrier_stats").display().to_string()
}

#[test]
fn a_rebuilt_plugin_with_the_same_states_is_taken_and_said_aloud() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() }, "committed:2");
    let plugin = rebuilt(&case.scratch, "carrier_stats");
    case.edit(&[(&stats_plugin(), &plugin)]);
    let ended = case.run(&[], &[]).expect_code(0).expect_text(&["operator stats runs a rebuilt plugin"]);
    assert!(!ended.stderr.contains("operator parse runs a rebuilt plugin"), "parse is the same: {}", ended.stderr);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn a_plugin_with_other_states_is_refused() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() }, "committed:2");
    let before = case.parts();
    case.edit(&[(&stats_plugin(), &guest("keyed_count").display().to_string())]);
    case.run(&[], &[]).expect_code(4).expect_text(&["operator stats", "delays", "count", "sha256"]);
    assert_eq!(case.parts(), before, "a refusal changes nothing");
    case.edit(&[]);
    end_exactly(&case);
}

#[test]
fn an_added_operator_starts_empty() {
    let case = FlightsCase::new(FlightsOptions::default());
    let mut running = case.start(&[], &[]);
    running.wait_until("something is committed", || !case.parts().is_empty());
    running.signal(Signal::INT);
    running.finish().expect_code(0);
    let committed = |folder: &str| judge::lines(&case.scratch.path(folder)).unwrap().len();
    let read = committed("out/stats") + committed("out/rejected");
    assert!((1..case.lines.len()).contains(&read), "{read} records were read before the operator was added");
    let added = format!(
        "[[operator]]\nname = \"again\"\nplugin = \"{}\"\nfrom = \"parse\"\n\n[[sink]]\nname = \"again-out\"\nconnector = \"file\"\nfrom = \"again\"\npath = \"again\"\n\n",
        stats_plugin()
    );
    let text = case.job_file();
    let sinks = &text[text.find("[[sink]]").unwrap()..];
    case.edit(&[(sinks, &format!("{added}{sinks}"))]);
    case.run(&[], &[]).expect_code(0).expect_text(&["operator again is new"]);
    case.judge().unwrap();
    let rest: Vec<String> = case.lines[read..].iter().filter(|line| line.split(',').nth(5) != Some("NA")).cloned().collect();
    judge::flights(&rest, &case.scratch.path("again"), &case.scratch.path("no-rejected-flights")).unwrap();
}
