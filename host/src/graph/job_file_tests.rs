//! Job files as data: text in, a graph or the exact problems out.

use super::job_file::{self, cache_within, sink_from_section};
use super::*;
use crate::connectors::Guarantee;
use crate::memory::usable_bytes;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_protocol::watermark::WatermarkBound;

const MINIMAL: &str = r#"
[job]
name = "flights"

[[source]]
name = "in"
connector = "file"
path = "data/*.csv"

[[operator]]
name = "parse"
plugin = "parse.wasm"
from = "in"

[[sink]]
name = "out"
connector = "file"
from = "parse"
path = "out"
"#;

fn environment(name: &str) -> Option<String> {
    match name {
        "OUT" => Some("/results".to_owned()),
        "SECRET" => Some("hunter2".to_owned()),
        "EVERY" => Some("5s".to_owned()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<JobGraph, Vec<String>> {
    job_file::parse(text, Path::new("job.toml"), Path::new("/jobs/a"), &environment)
        .map_err(|problems| problems.iter().map(Problem::to_string).collect())
}

fn parsed(text: &str) -> JobGraph {
    parse(text).unwrap_or_else(|problems| panic!("refused:\n{}\n{text}", problems.join("\n")))
}

/// The minimal job with one text replaced by another.
fn changed(from: &str, to: &str) -> String {
    assert!(MINIMAL.contains(from), "{from}");
    MINIMAL.replace(from, to)
}

#[track_caller]
fn refused(text: &str, want: &[&str]) {
    match parse(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(problems) => assert_eq!(problems, want, "{text}"),
    }
}

#[test]
fn every_default_is_filled_in() {
    let graph = parsed(MINIMAL);
    assert_eq!((graph.name.as_str(), graph.dead_letter), ("flights", None));
    assert_eq!(graph.default_data_folder(), Path::new("/jobs/a/.weir/flights"));
    let c = &graph.checkpoint;
    assert_eq!((c.interval, c.timeout, c.min_pause), (Duration::from_secs(1), Duration::from_secs(120), Duration::ZERO));
    assert_eq!((c.max_concurrent, c.tolerable_failures, c.retain), (1, 3, 3));
    assert_eq!(c.folder(Path::new("/data")), Path::new("/data/checkpoints"));
    assert_eq!((graph.state.backend, graph.state.cache_bytes), (BackendKind::RocksDb, cache_within(usable_bytes())));
    let r = &graph.restart;
    assert_eq!(
        (r.strategy, r.delay, r.max_delay),
        (RestartStrategy::Exponential, Duration::from_secs(1), Duration::from_secs(60))
    );
    assert_eq!((r.attempts, r.reset_after), (10, Duration::from_secs(600)));

    let source = &graph.sources[0];
    assert_eq!((source.parallelism, source.rate), (1, None));
    match &source.connector {
        SourceConnectorSpec::File { path, format: FileFormat::Lines, skip_header: false } => {
            assert_eq!(path, "/jobs/a/data/*.csv")
        }
        other => panic!("{other:?}"),
    }
    let operator = &graph.operators[0];
    assert_eq!(
        (operator.plugin.as_path(), operator.sha256.as_deref(), operator.parallelism),
        (Path::new("/jobs/a/parse.wasm"), None, 1)
    );
    assert_eq!(operator.inputs, [Input { from: Endpoint::Source(0), partition: None }]);
    assert_eq!((&*operator.config, operator.on_bad_record), ("{}", BadRecordPolicy::Fail));
    assert_eq!(
        (operator.limits.memory_bytes, operator.limits.call, operator.limits.emit_bytes, operator.limits.host_calls),
        (64 << 20, Duration::from_secs(1), 64 << 20, 10_000)
    );
    assert!(operator.grants.folders.is_empty());
    let sink = &graph.sinks[0];
    assert_eq!((sink.parallelism, sink.guarantee), (1, Guarantee::ExactlyOnce));
    assert_eq!(
        sink.section,
        json!({"name": "out", "connector": "file", "from": "parse", "parallelism": 1, "guarantee": "exactly-once", "path": "/jobs/a/out"})
    );
}

#[test]
fn every_key_is_read() {
    let text = r#"
        source = [
            { name = "in", connector = "file", path = "../x.csv.gz", format = "lines", header = "skip", parallelism = 3, rate = 500 },
            { name = "gen", connector = "sequence", count = 1_000, keys = 10, value_bytes = 0, seed = 7 },
        ]
        [job]
        name = "all"
        parallelism = 2
        dead_letter = "dead"
        [checkpoint]
        interval = "${EVERY}"
        timeout = "1m"
        min_pause = "100ms"
        max_concurrent = 2
        tolerable_failures = 0
        mode = "aligned"
        storage = "file:///ckp"
        retain = "${KEEP:-5}"
        [state]
        backend = "memory"
        cache = "1GiB"
        [restart]
        strategy = "fixed"
        delay = "2s"
        max_delay = "1s"
        attempts = 0
        reset_after = "1h"
        [[operator]]
        name = "join"
        plugin = "/plugins/join.wasm"
        sha256 = "AB00000000000000000000000000000000000000000000000000000000000000"
        from = ["in", { name = "gen", partition = "broadcast" }]
        partition = "rebalance"
        parallelism = 4
        config = { tz = "UTC", password = "${SECRET}", n = 0x10, x = 1.5, on = true, list = ["${OUT}"], at = 2020-01-01 }
        limits = { memory = "1MiB", call = "10s", emit = "64KiB", host_calls = 50000 }
        grants = { folders = { out = "some/path" }, env = [], http = [], clock = false, random = false }
        on_bad_record = "dead-letter"
        [[operator]]
        name = "cycle-free"
        plugin = "x.wasm"
        from = "join.late"
        on_bad_record = "drop"
        [[sink]]
        name = "dead"
        connector = "discard"
        [[sink]]
        name = "plug"
        connector = "plugin"
        plugin = "sink.wasm"
        from = ["join", "cycle-free"]
        config = { user = "${SECRET}" }
        guarantee = "at-least-once"
    "#;
    let graph = parsed(text);
    assert_eq!(graph.dead_letter, Some(0));
    let c = &graph.checkpoint;
    assert_eq!(
        (c.interval, c.timeout, c.min_pause),
        (Duration::from_secs(5), Duration::from_secs(60), Duration::from_millis(100))
    );
    assert_eq!((c.max_concurrent, c.tolerable_failures, c.retain), (2, 0, 5));
    assert_eq!(c.folder(Path::new("/data")), Path::new("/ckp"));
    assert_eq!((graph.state.backend, graph.state.cache_bytes), (BackendKind::Memory, 1 << 30));
    assert_eq!((graph.restart.strategy, graph.restart.attempts), (RestartStrategy::Fixed, 0));
    assert_eq!((graph.sources[0].parallelism, graph.sources[0].rate, graph.sources[1].parallelism), (3, Some(500), 2));
    assert!(
        matches!(&graph.sources[0].connector, SourceConnectorSpec::File { path, skip_header: true, .. } if path == "/jobs/x.csv.gz")
    );
    assert!(matches!(
        graph.sources[1].connector,
        SourceConnectorSpec::Sequence { count: 1_000, keys: 10, value_bytes: 0, seed: 7 }
    ));

    let join = &graph.operators[0];
    assert_eq!((join.plugin.as_path(), join.parallelism), (Path::new("/plugins/join.wasm"), 4));
    assert!(join.sha256.as_deref().is_some_and(|digest| digest.starts_with("ab00")));
    assert_eq!(
        join.inputs,
        [
            Input { from: Endpoint::Source(0), partition: Some(Partition::Rebalance) },
            Input { from: Endpoint::Source(1), partition: Some(Partition::Broadcast) },
        ]
    );
    let config: serde_json::Value = serde_json::from_str(&join.config).expect("the config is JSON");
    let want =
        json!({"tz": "UTC", "password": "hunter2", "n": 16, "x": 1.5, "on": true, "list": ["/results"], "at": "2020-01-01"});
    assert_eq!(config, want);
    assert_eq!(join.grants.folders["out"], Path::new("/jobs/a/some/path"));
    assert_eq!(
        (join.limits.memory_bytes, join.limits.call, join.limits.emit_bytes, join.limits.host_calls),
        (1 << 20, Duration::from_secs(10), 64 << 10, 50_000)
    );
    assert_eq!(graph.operators[1].inputs[0].from, Endpoint::Side { operator: 0, output: "late".to_owned() });
    assert!(graph.sinks[0].inputs.is_empty());
    assert_eq!((graph.sinks[0].guarantee, graph.sinks[1].guarantee), (Guarantee::None, Guarantee::AtLeastOnce));
}

#[test]
fn what_comes_from_the_environment_is_never_shown() {
    let text = changed("from = \"in\"", "from = \"in\"\nconfig = { password = \"${SECRET}\" }");
    let graph = parsed(&text);
    assert!(graph.operators[0].config.contains("hunter2"), "the plugin gets it");
    assert!(!format!("{graph:?}").contains("hunter2"), "Debug, settings and sections do not");
    for wrong in [
        changed("from = \"in\"", "from = \"${SECRET}\""),
        changed("connector = \"file\"\npath", "connector = \"${SECRET}\"\npath"),
        changed("name = \"parse\"", "name = \"${SECRET}!\""),
        changed("path = \"out\"", "path = \"out\"\nguarantee = \"${SECRET}\""),
        format!("{MINIMAL}\n[checkpoint]\ninterval = \"${{SECRET}}\"\nmode = \"${{SECRET}}\"\nstorage = \"${{SECRET}}://x\""),
    ] {
        let problems = parse(&wrong).expect_err("it is wrong").join("\n");
        assert!(!problems.contains("hunter2"), "{problems}");
    }
}

#[test]
fn a_stored_section_gives_the_sink_back() {
    let text = changed(
        "connector = \"file\"\nfrom = \"parse\"\npath = \"out\"",
        "connector = \"plugin\"\nfrom = \"parse\"\nplugin = \"s.wasm\"\nconfig = { p = \"${SECRET}\" }\n\
         grants = { folders = { out = \"${OUT}\" }, env = [\"SECRET\"], clock = true, http = { a = { origin = \"https://a.example\", \
         headers = { Authorization = \"Bearer ${SECRET}\" } }, b = \"http://b.example:80/\" } }",
    );
    for text in [MINIMAL.to_owned(), text, changed("path = \"out\"", "path = \"$${OUT}\"")] {
        let sink = parsed(&text).sinks.remove(0);
        assert!(!sink.section.to_string().contains("hunter2"));
        let back = sink_from_section(&sink.section, &environment).expect("the section was made by us");
        assert_eq!(back.section, {
            let mut section = sink.section.clone();
            // A path is made literal once; what was literal before reads the same.
            if let Some(path) = section.get_mut("path") {
                *path = json!(path.as_str().expect("a string").to_owned());
            }
            section
        });
        assert_eq!((back.name, back.guarantee), (sink.name.clone(), sink.guarantee));
        match (&sink.connector, &back.connector) {
            (SinkConnectorSpec::File { path: a }, SinkConnectorSpec::File { path: b }) => assert_eq!(a, b),
            (
                SinkConnectorSpec::Plugin { plugin: a, config: ac, grants: ag, .. },
                SinkConnectorSpec::Plugin { plugin: b, config: bc, grants: bg, .. },
            ) => {
                assert_eq!((a, &**ac), (b, &**bc));
                assert_eq!(ag, bg);
                assert_eq!(ag.env["SECRET"].expose(), "hunter2");
                assert_eq!((ag.clock, ag.random), (true, false));
                assert_eq!(ag.http["a"].headers[0].1.expose(), "Bearer hunter2");
                assert_eq!(ag.http["b"].origin, "http://b.example:80");
                assert_eq!(ag.folders["out"], PathBuf::from("/results"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    refused(
        &changed("plugin = \"parse.wasm\"", "plugin = \"parse.wasm\"\nform = \"in\"\nlimits = { memori = \"1MiB\" }"),
        &[
            "job.toml:13:1: [[operator]] parse: unknown key 'form'; did you mean 'from'?",
            "job.toml:14:12: [[operator]] parse: unknown key 'limits.memori'; did you mean 'memory'?",
        ],
    );
    refused(
        &format!("{MINIMAL}\n[chekpoint]\n[checkpoint]\nintervall = \"1s\"\n"),
        &[
            "job.toml:21:2: unknown key 'chekpoint'; did you mean 'checkpoint'?",
            "job.toml:23:1: [checkpoint]: unknown key 'intervall'; did you mean 'interval'?",
        ],
    );
    refused(
        &changed("path = \"out\"", "path = \"out\"\nzzz = 1"),
        &[
            "job.toml:20:1: [[sink]] out: unknown key 'zzz'; it can be 'name', 'connector', 'parallelism', 'guarantee', 'path', 'partition' or 'from'",
        ],
    );
}

#[test]
fn all_problems_are_listed_together_in_the_order_of_the_file() {
    let text = r#"
[job]
name = "Flights"
parallelism = 0
[checkpoint]
interval = 1
timeout = "2 minutes"
retain = "three"
[[source]]
name = "in"
connector = "fil"
[[operator]]
name = "in"
plugin = "${PLUGIN}"
from = "on"
[[sink]]
name = "out"
connector = "file"
from = ["in.x", "out", 3, { nam = "in" }]
"#;
    refused(
        text,
        &[
            "job.toml:3:8: [job]: 'Flights' can't be a name; use a-z, 0-9 and '-', begin with a letter, at most 64 characters",
            "job.toml:4:15: [job]: 'parallelism' can't be 0; it must be a whole number from 1 to 1024",
            "job.toml:6:12: [checkpoint]: 'interval' is a whole number, not a string; a duration is a whole number and one of ms, s, m, h, d, as in \"200ms\" or \"2m\"",
            "job.toml:7:11: [checkpoint]: 'timeout' can't be \"2 minutes\"; a duration is a whole number and one of ms, s, m, h, d, as in \"200ms\" or \"2m\"",
            "job.toml:8:10: [checkpoint]: 'retain' can't be \"three\"; it must be a whole number from 1 to 10000",
            "job.toml:11:13: [[source]] in: 'connector' can't be \"fil\"; did you mean 'file'?",
            "job.toml:13:8: [[operator]] in: the name is taken by a source before it; names are shared by sources, operators and sinks: choose another",
            "job.toml:14:10: [[operator]] in: the environment variable PLUGIN is not set; set PLUGIN, or give a default: ${PLUGIN:-…}",
            "job.toml:15:8: [[operator]] in: \"on\" names no source and no operator; did you mean 'in'?",
            "job.toml:16:1: [[sink]] out: 'path' is missing; give the folder for the files, relative to the job file, as in path = \"out\"",
            "job.toml:19:9: [[sink]] out: \"in.x\" names a side output of a source, which has none; did you mean 'in'?",
            "job.toml:19:17: [[sink]] out: \"out\" is a sink: nothing can be read from it; read what the sink reads",
            "job.toml:19:24: [[sink]] out: an input in 'from' is a whole number, not a name; from = \"a\", from = \"a.side-output\", from = [\"a\", \"b\"] or from = { name = \"a\", partition = \"broadcast\" }",
            "job.toml:19:27: [[sink]] out: 'name' is missing; from = \"a\", from = \"a.side-output\", from = [\"a\", \"b\"] or from = { name = \"a\", partition = \"broadcast\" }",
            "job.toml:19:29: [[sink]] out: unknown key 'nam'; did you mean 'name'?",
        ],
    );
}

#[test]
fn syntax_errors_stand_alone_with_their_place() {
    let problems = parse("[job]\nname = \n[[source]]\nname = 'x' 'y'\n").expect_err("it is no TOML");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("job.toml:2:8: this is not TOML: "), "{problems:?}");
    assert!(problems[1].starts_with("job.toml:4:"), "{problems:?}");
}

#[test]
fn a_watermark_has_a_delay_and_maybe_idleness() {
    let with = |value: &str| changed("from = \"in\"", &format!("from = \"in\"\nwatermark = {value}"));
    let bound = |text: &str| parsed(text).operators[0].watermark;
    let minute = Some(Duration::from_secs(60));
    assert_eq!(bound(MINIMAL), None);
    assert_eq!(bound(&with("{ delay = \"5s\", idle = \"1m\" }")), Some(WatermarkBound { delay_ms: 5_000, idle: minute }));
    assert_eq!(bound(&with("{ delay = \"0s\" }")), Some(WatermarkBound { delay_ms: 0, idle: None }));
    for (value, want) in [
        ("{}", "'watermark.delay' is missing"),
        ("{ idle = \"1m\" }", "'watermark.delay' is missing"),
        ("{ delay = \"5\" }", "'watermark.delay' can't be \"5\""),
        ("{ delay = \"5s\", idle = \"0s\" }", "'watermark.idle' can't be 0s; leave it out"),
        ("{ delay = \"5s\", idel = \"1m\" }", "unknown key 'watermark.idel'; did you mean 'idle'?"),
        ("\"5s\"", "'watermark' is a string, not a table"),
    ] {
        let problems = parse(&with(value)).expect_err(value);
        assert!(problems.len() == 1 && problems[0].contains(want), "{value}: {problems:?}");
    }
    refused(
        &changed("path = \"data/*.csv\"", "path = \"data/*.csv\"\nwatermark = { delay = \"5s\" }"),
        &[
            "job.toml:9:13: [[source]] in: a source with connector = \"file\" can't have a watermark; set 'watermark' on the operator that sets its records' times",
        ],
    );
    let shown = parsed(&with("{ delay = \"5s\" }")).settings;
    let shown: Vec<String> =
        shown.iter().filter(|s| s.key.starts_with("watermark")).map(|s| format!("{} = {}", s.key, s.value)).collect();
    assert_eq!(shown, ["watermark.delay = \"5s\"", "watermark.idle = "]);
}

#[test]
fn what_a_later_version_will_know_is_refused_by_name() {
    let line = |section: &str, key: &str| match section {
        "checkpoint" | "state" => format!("{MINIMAL}\n[{section}]\n{key}\n"),
        "source" => changed("path = \"data/*.csv\"", &format!("path = \"data/*.csv\"\n{key}")),
        "operator" => changed("from = \"in\"", &format!("from = \"in\"\n{key}")),
        other => unreachable!("{other}"),
    };
    for (section, key, want) in [
        ("checkpoint", "mode = \"unaligned\"", "mode = \"unaligned\" is not in this version; it can be 'aligned'"),
        ("checkpoint", "storage = \"s3://b/x\"", "storage at s3:// is not in this version"),
        ("checkpoint", "storage = \"gs://b/x\"", "storage at gs:// is not in this version"),
        ("checkpoint", "storage = \"az://b/x\"", "storage at az:// is not in this version"),
        ("state", "ttl = \"1h\"", "'ttl' is not in this version"),
        ("operator", "ttl = \"1h\"", "'ttl' is not in this version"),
    ] {
        let problems = parse(&line(section, key)).expect_err(key);
        assert!(problems.len() == 1 && problems[0].contains(want), "{key}: {problems:?}");
    }
    let text = changed("connector = \"file\"\npath = \"data/*.csv\"", "connector = \"nexmark\"\ntopic = \"t\"");
    let want =
        "job.toml:7:13: [[source]] in: connector = \"nexmark\" is not in this version; it can be 'file', 'kafka' or 'sequence'";
    refused(&text, &[want]);
    refused(
        &changed("connector = \"file\"\nfrom = \"parse\"", "connector = \"postgres\"\nfrom = \"parse\""),
        &[
            "job.toml:17:13: [[sink]] out: connector = \"postgres\" is not in this version; it can be 'file', 'kafka', 'discard' or 'plugin'",
        ],
    );
}

#[test]
fn one_wrong_thing_gives_one_problem() {
    for (from, to, want) in [
        (
            "name = \"flights\"",
            "",
            "job.toml:2:1: [job]: 'name' is missing; give the job a name: it names state, transactions and the data folder",
        ),
        ("[job]\nname = \"flights\"\n", "", "job.toml:1:1: [job]: 'name' is missing; begin the file with [job] and name = \"…\""),
        (
            "path = \"data/*.csv\"",
            "path = \"a[\"",
            "job.toml:8:8: [[source]] in: 'path' is no glob: invalid range pattern at character 2; use *, ?, [a-z] and **; [[] stands for a literal [",
        ),
        (
            "path = \"data/*.csv\"",
            "path = \"a\"\nformat = \"raw\"\nheader = \"skip\"",
            "job.toml:10:10: [[source]] in: header = \"skip\" needs format = \"lines\"; a raw file is one record: leave 'header' out",
        ),
        (
            "path = \"data/*.csv\"",
            "path = \"a\"\nrate = 0",
            "job.toml:9:8: [[source]] in: 'rate' can't be 0; it must be a whole number, 1 or more",
        ),
        (
            "connector = \"file\"\npath = \"data/*.csv\"",
            "connector = \"sequence\"",
            "job.toml:5:1: [[source]] in: 'count' is missing; say how many records it makes in all",
        ),
        (
            "connector = \"file\"\npath = \"data/*.csv\"",
            "path = \"x\"",
            "job.toml:5:1: [[source]] in: 'connector' is missing; say where the records are: file, kafka or sequence",
        ),
        (
            "path = \"data/*.csv\"",
            "path = \"a\"\nrate = 1.5",
            "job.toml:9:8: [[source]] in: 'rate' is a number with a fraction, not a whole number",
        ),
        (
            "path = \"data/*.csv\"",
            "path = \"a\"\nrate = \"${SECRET}\"",
            "job.toml:9:8: [[source]] in: 'rate' can't be \"${SECRET}\"; it must be a whole number, 1 or more",
        ),
        ("from = \"in\"", "from = []", "job.toml:13:8: [[operator]] parse: 'from' lists 0 inputs; give from 1 to 256"),
        (
            "from = \"in\"",
            "",
            "job.toml:10:1: [[operator]] parse: 'from' is missing; from = \"a\", from = \"a.side-output\", from = [\"a\", \"b\"] or from = { name = \"a\", partition = \"broadcast\" }",
        ),
        (
            "from = \"in\"",
            "from = \"in\"\npartition = \"hash\"",
            "job.toml:14:13: [[operator]] parse: 'partition' can't be \"hash\"; it can be 'key', 'forward', 'rebalance' or 'broadcast'",
        ),
        (
            "from = \"in\"",
            "from = { name = \"in\", partition = \"kee\" }",
            "job.toml:13:35: [[operator]] parse: 'partition' can't be \"kee\"; did you mean 'key'?",
        ),
        (
            "from = \"parse\"",
            "from = \"parse.\"",
            "job.toml:18:8: [[sink]] out: \"parse.\" names no side output; write operator.side-output, or the operator alone for its main output",
        ),
        (
            "from = \"parse\"",
            "from = [\"parse\", \"parse\"]",
            "job.toml:18:8: [[sink]] out: 'from' names one output twice: its records would be written twice; name it once",
        ),
        (
            "plugin = \"parse.wasm\"",
            "plugin = \"parse.wasm\"\nsha256 = \"abc\"",
            "job.toml:13:10: [[operator]] parse: 'sha256' is not 64 hexadecimal digits; print it with: sha256sum FILE.wasm",
        ),
        (
            "from = \"in\"",
            "from = \"in\"\nconfig = { x = inf }",
            "job.toml:14:16: [[operator]] parse: inf is no number that JSON can hold; write it as a string",
        ),
        (
            "from = \"in\"",
            "from = \"in\"\nconfig = \"x\"",
            "job.toml:14:10: [[operator]] parse: 'config' is a string, not a table; write config = { key = value, … }",
        ),
        (
            "from = \"in\"",
            "from = \"in\"\ngrants = { folders = { A = \"x\" } }",
            "job.toml:14:24: [[operator]] parse: 'A' can't be the name of a granted folder; use a-z, 0-9 and '-', begin with a letter",
        ),
        (
            "from = \"in\"",
            "from = \"in\"\nlimits = { memory = \"5GiB\" }",
            "job.toml:14:21: [[operator]] parse: 'limits.memory' is outside 64KiB … 4GiB; Wasm memory has 64 KiB pages and 32-bit addresses",
        ),
        (
            "from = \"in\"",
            "from = \"in\"\non_bad_record = \"dead-letter\"",
            "job.toml:14:17: [[operator]] parse: on_bad_record = \"dead-letter\" has no sink to write to; set [job].dead_letter to the name of a sink",
        ),
        (
            "name = \"flights\"",
            "name = \"flights\"\ndead_letter = \"parse\"",
            "job.toml:4:15: [job]: 'dead_letter' names no sink: parse; it can be 'out'",
        ),
        (
            "from = \"in\"",
            "from = \"parse\"",
            "job.toml:5:1: [[source]] in: nothing reads it; add from = \"in\" to an operator or a sink",
        ),
        (
            "connector = \"file\"\nfrom = \"parse\"\npath = \"out\"",
            "connector = \"discard\"\nfrom = \"parse\"\nguarantee = \"exactly-once\"",
            "job.toml:19:13: [[sink]] out: a discard sink has no guarantee; leave 'guarantee' out: nothing leaves a discard sink",
        ),
        ("[[sink]]", "[sink]", "job.toml:15:1: 'sink' is a table, not a list of sections; write [[sink]], with two brackets"),
    ] {
        match from {
            // The operator reads itself: the source is unread, and the cycle is a problem of its own.
            "from = \"in\"" if to == "from = \"parse\"" => {
                let cycle = "job.toml:10:1: [[operator]] parse: the operators form a cycle: parse → parse; cut one of these edges: records must flow from sources to sinks";
                refused(&changed(from, to), &[want, cycle]);
            }
            _ => refused(&changed(from, to), &[want]),
        }
    }
}

#[test]
fn two_sinks_with_one_path_are_refused_and_nested_ones_are_not() {
    let second =
        |path: &str| format!("{MINIMAL}\n[[sink]]\nname = \"more\"\nconnector = \"file\"\nfrom = \"parse\"\npath = \"{path}\"\n");
    for path in ["out", "./out/", "/jobs/a/out", "x/../out", "../a/out"] {
        refused(
            &second(path),
            &["job.toml:21:1: [[sink]] more: writes to the same folder as the sink 'out'; give each sink a path of its own"],
        );
    }
    for path in ["out2", "out/more", "../out"] {
        parsed(&second(path));
    }
    let plugin = format!(
        "{MINIMAL}\n[[sink]]\nname = \"more\"\nconnector = \"plugin\"\nplugin = \"s.wasm\"\nfrom = \"parse\"\ngrants = {{ folders = {{ out = \"out\" }} }}\n"
    );
    refused(
        &plugin,
        &["job.toml:21:1: [[sink]] more: writes to the same folder as the sink 'out'; give each sink a path of its own"],
    );
}

#[test]
fn cycles_are_named_in_the_direction_of_the_records() {
    let text = changed(
        "from = \"in\"",
        "from = [\"in\", \"c\"]\n[[operator]]\nname = \"b\"\nplugin = \"b\"\nfrom = \"parse\"\n[[operator]]\nname = \"c\"\nplugin = \"c\"\nfrom = \"b.late\"",
    );
    refused(
        &text,
        &[
            "job.toml:10:1: [[operator]] parse: the operators form a cycle: parse → b → c → parse; cut one of these edges: records must flow from sources to sinks",
        ],
    );
}

#[test]
fn a_dead_letter_sink_that_nothing_reaches_is_refused() {
    let text = changed("name = \"flights\"", "name = \"flights\"\ndead_letter = \"dead\"")
        + "[[sink]]\nname = \"dead\"\nconnector = \"discard\"\n";
    refused(
        &text,
        &[
            "job.toml:21:1: [[sink]] dead: no operator sends bad records to this dead-letter sink; set on_bad_record = \"dead-letter\" at an operator, or take the sink out of [job].dead_letter and give it a 'from'",
        ],
    );
    parsed(&text.replace("from = \"in\"", "from = \"in\"\non_bad_record = \"dead-letter\""));
    parsed(&(text + "from = \"parse\"\n"));
}

#[test]
fn settings_say_what_was_set_and_why_the_rest_is_as_it_is() {
    let graph = parsed(&(MINIMAL.to_owned() + "parallelism = 2\n"));
    let find = |section: &str, key: &str| {
        let setting = graph.settings.iter().find(|setting| setting.section == section && setting.key == key);
        setting.unwrap_or_else(|| panic!("{section} {key} in {:?}", graph.settings))
    };
    for (section, key, value, default) in [
        ("[job]", "name", "\"flights\"", false),
        ("[checkpoint]", "interval", "\"1s\"", true),
        ("[checkpoint]", "storage", "\"checkpoints\"", true),
        ("[state]", "backend", "\"rocksdb\"", true),
        ("[restart]", "max_delay", "\"60s\"", true),
        ("[restart]", "reset_after", "\"10m\"", true),
        ("[[source]] in", "path", "\"data/*.csv\"", false),
        ("[[operator]] parse", "from", "\"in\"", false),
        ("[[operator]] parse", "limits.memory", "\"64MiB\"", true),
        ("[[operator]] parse", "grants", "{}", true),
        ("[[sink]] out", "parallelism", "2", false),
        ("[[sink]] out", "guarantee", "\"exactly-once\"", true),
    ] {
        let setting = find(section, key);
        assert_eq!((setting.value.as_str(), setting.default.is_some()), (value, default), "{section} {key}");
    }
}

#[test]
fn the_cache_is_a_quarter_of_the_memory_up_to_a_gibibyte() {
    let (mib, gib) = (1u64 << 20, 1u64 << 30);
    assert_eq!(cache_within(None), 256 * mib);
    assert_eq!([64 * gib, 4 * gib, 2 * gib + 5, 0].map(|usable| cache_within(Some(usable))), [gib, gib, 512 * mib, 16 * mib]);
}

#[test]
fn a_job_file_that_cannot_be_read_is_a_problem() {
    let problems = job_file::load(Path::new("/nowhere/job.toml"), &environment).expect_err("there is no such file");
    assert!(problems[0].to_string().starts_with("/nowhere/job.toml: the job file can't be read: "), "{problems:?}");
}

#[test]
fn what_can_not_be_granted_is_refused_with_its_reason() {
    for (grants, want) in [
        ("env = \"TZ\"", "'grants.env' is a string, not a list"),
        ("env = [1]", "'grants.env' holds a whole number, not a string"),
        ("env = [\"NOT_SET\"]", "the environment variable NOT_SET is not set"),
        ("env = [\"A B\"]", "doesn't name an environment variable"),
        ("clock = \"yes\"", "'grants.clock' is a string"),
        ("http = true", "'grants.http' is true or false, neither a table nor a list"),
        ("http = [\"api.example.com\"]", "\"api.example.com\" is no origin"),
        ("http = [\"https://api.example.com/v1\"]", "is no origin"),
        ("http = [\"https://user@api.example.com\"]", "is no origin"),
        ("http = { A = \"https://a.example\" }", "'A' can't be the name of a granted origin"),
        ("http = { a = { } }", "'grants.http.a.origin' is missing"),
        ("http = { a = { origin = \"https://a.example\", header = {} } }", "header"),
        ("http = { a = { origin = \"https://a.example\", headers = { \"X Y\" = \"1\" } } }", "'X Y' is no name of a header"),
        (
            "http = { a = { origin = \"https://a.example\", headers = { X-Api-Key = \"s3cret\" } } }",
            "'X-Api-Key' stands in the job file",
        ),
        ("sockets = []", "'grants.sockets'"),
    ] {
        let problems = parse(&changed("from = \"in\"", &format!("from = \"in\"\ngrants = {{ {grants} }}"))).expect_err(grants);
        assert!(problems.len() == 1 && problems[0].contains(want), "{grants}: {problems:?}");
        assert!(!problems[0].contains("s3cret"), "{problems:?}");
    }
}
