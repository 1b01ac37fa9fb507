//! Components of version 1 as they were built when it was frozen: every build of the host runs them, exactly, on the same state.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::process::Running;
use weir_tests::scratch::Scratch;
use weir_tests::{guest, repository};

fn folder() -> PathBuf {
    repository().join("tests/compatibility/v1")
}

fn kept(name: &str) -> String {
    let path = folder().join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is gone: it must never go", path.display());
    path.display().to_string()
}

/// The flights job with these components for its statistics and, if one is given, for its sink.
fn use_kept(case: &FlightsCase, stats: &str, sink: Option<&str>) {
    let built = guest("carrier_stats").display().to_string();
    let file = "name = \"stats-out\"\nconnector = \"file\"\nfrom = \"stats\"\npath = \"out/stats\"";
    let plugin = sink.map(|sink| {
        let sink = kept(sink);
        format!(
            "name = \"stats-out\"\nconnector = \"plugin\"\nplugin = \"{sink}\"\nfrom = \"stats\"\ngrants = {{ folders = {{ out = \"out/stats\" }} }}"
        )
    });
    case.edit(&[(&built, &kept(stats)), (file, plugin.as_deref().unwrap_or(file))]);
    // A large component is compiled first: a kill comes at a checkpoint, not before the first record.
    Running::start(case.scratch.folder(), &["check", "job.toml"], &[]).finish().expect_code(0);
}

#[test]
fn the_kept_components_are_those_of_old() {
    let list = std::fs::read_to_string(folder().join("SHA256SUMS")).expect("the list can be read");
    let wanted: BTreeMap<&str, &str> =
        list.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name, sum)).collect();
    assert!(wanted.len() >= 7, "{wanted:?}");
    for (name, sum) in wanted {
        let bytes = std::fs::read(folder().join(name)).expect("a kept component can be read");
        let actual: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(actual, sum, "{name} was changed: what was compiled years ago can't be compiled again");
    }
}

#[test]
fn operators_of_old_are_exact_over_kills_and_go_on_with_each_others_state() {
    let case = FlightsCase::new(FlightsOptions {
        rows: 9_000,
        rate: Some(3_000),
        parallelism: 2,
        files: 2,
        ..FlightsOptions::default()
    });
    for name in ["carrier_stats_js", "carrier_stats_go", "carrier_stats_c"] {
        use_kept(&case, name, None);
        let killed = case.run(&[], &[("WEIR_CRASH_AT", "committed:2")]);
        assert!(killed.was_killed(), "{name}: {killed:?}");
    }
    use_kept(&case, "carrier_stats", None);
    case.run(&[], &[]).expect_code(0);
    case.judge().expect("its output is exact");
}

#[test]
fn sinks_of_old_are_exact_over_kills() {
    for sink in ["file_sink", "file_sink_go"] {
        let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 2, ..FlightsOptions::default() });
        use_kept(&case, "carrier_stats", Some(sink));
        for point in ["sink-prepared:3", "manifest-published:2"] {
            let killed = case.run(&[], &[("WEIR_CRASH_AT", point)]);
            assert!(killed.was_killed(), "{sink}, {point}: {killed:?}");
        }
        case.run(&[], &[]).expect_code(0);
        case.judge().expect("its output is exact");
    }
}

/// A window over timers, and a sink, pass the checks that plugins of today pass.
#[test]
fn components_of_old_keep_the_contract() {
    for (name, config) in [("window_count", "{\"size_ms\": 60000}"), ("file_sink", "{}")] {
        let scratch = Scratch::new();
        Running::start(scratch.folder(), &["test", &kept(name), "--config", config], &[]).finish().expect_code(0);
    }
}
