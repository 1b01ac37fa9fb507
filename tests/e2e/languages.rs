//! Plugins in C, Go, JavaScript and Python give what the one in Rust gives, also over a kill; their states are the same, byte for byte.

use std::collections::BTreeSet;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::join::JoinCase;
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::{Scratch, files_below};
use weir_tests::{guest, judge};

/// The flights job with another build of `carrier-stats`.
fn use_plugin(case: &FlightsCase, name: &str) {
    let (rust, other) = (guest("carrier_stats").display().to_string(), guest(name).display().to_string());
    case.edit(&[(&rust, &other)]);
}

/// A kill after the second checkpoint; the restart gives the rest.
fn exact_over_a_kill(name: &str) {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() });
    use_plugin(&case, name);
    let killed = case.run(&[], &[("WEIR_CRASH_AT", "committed:2")]);
    assert!(killed.was_killed(), "{killed:?}");
    assert!(!case.parts().is_empty(), "the kill came before the first commit");
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn a_plugin_in_c_is_exact_over_a_kill() {
    exact_over_a_kill("carrier_stats_c");
}

#[test]
fn a_plugin_in_go_is_exact_over_a_kill() {
    exact_over_a_kill("carrier_stats_go");
}

/// The flights job with its statistics in a plugin sink, killed at each step of a commit; every start recovers what the one before it
/// has left.
fn sink_exact_over_kills(name: &str) {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, rate: Some(2_500), ..FlightsOptions::default() });
    let file = "name = \"stats-out\"\nconnector = \"file\"\nfrom = \"stats\"\npath = \"out/stats\"";
    let plugin = format!(
        "name = \"stats-out\"\nconnector = \"plugin\"\nplugin = \"{}\"\nfrom = \"stats\"\ngrants = {{ folders = {{ out = \"out/stats\" }} }}",
        guest(name).display()
    );
    case.edit(&[(file, &plugin)]);
    for point in ["sink-prepared:3", "all-acked:2", "manifest-published:2", "commit-partial:2", "committed:2"] {
        let killed = case.run(&[], &[("WEIR_CRASH_AT", point)]);
        assert!(killed.was_killed(), "{point}: {killed:?}");
    }
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    let staged = files_below(&case.scratch.path("out/stats"));
    let staged: Vec<&String> = staged.iter().filter(|path| path.starts_with(".weir-staging")).collect();
    assert!(staged.is_empty(), "staged files are left: {staged:?}");
}

#[test]
fn a_plugin_in_python_is_exact_over_a_kill() {
    exact_over_a_kill("carrier_stats_python");
}

#[test]
fn a_sink_in_python_is_exact_over_kills() {
    sink_exact_over_kills("file_sink_python");
}

#[test]
fn a_sink_in_go_is_exact_over_kills() {
    sink_exact_over_kills("file_sink_go");
}

#[test]
fn a_sink_in_c_is_exact_over_kills() {
    sink_exact_over_kills("file_sink_c");
}

/// Two inputs, two states, and calls for every key at the end, which a kill interrupts.
#[test]
fn a_join_in_go_is_exact_over_kills_up_to_its_end() {
    let case = JoinCase::new();
    case.use_plugin("join_flights_weather_go");
    for point in ["committed:3", "final-checkpoint"] {
        let killed = case.start(&[("WEIR_CRASH_AT", point)]).finish();
        assert!(killed.was_killed(), "{point} was never passed: {killed:?}");
    }
    case.start(&[]).finish().expect_code(0);
    case.judge().unwrap();
}

#[test]
fn a_plugin_in_javascript_is_exact_over_a_kill() {
    exact_over_a_kill("carrier_stats_js");
}

/// Each goes on from a checkpoint of the one before it.
fn exact_over_changes(names: &[&str]) {
    let case = FlightsCase::new(FlightsOptions { rate: Some(3_000), ..FlightsOptions::default() });
    let (last, killed) = names.split_last().expect("there is one");
    for name in killed {
        use_plugin(&case, name);
        let killed = case.run(&[], &[("WEIR_CRASH_AT", "committed:2")]);
        assert!(killed.was_killed(), "{killed:?}");
    }
    use_plugin(&case, last);
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
}

#[test]
fn the_language_changes_with_every_restart() {
    exact_over_changes(&["carrier_stats", "carrier_stats_c", "carrier_stats_go"]);
}

#[test]
fn javascript_takes_state_over_and_gives_it_back() {
    exact_over_changes(&["carrier_stats", "carrier_stats_js", "carrier_stats"]);
}

#[test]
fn python_takes_state_over_and_gives_it_back() {
    exact_over_changes(&["carrier_stats", "carrier_stats_python", "carrier_stats_c", "carrier_stats_go"]);
}

/// `weir check` says what the runtimes of Go, JavaScript and Python find of WASI; C and Rust ask for nothing.
#[test]
fn check_says_what_a_plugin_gets_of_wasi() {
    let case = FlightsCase::new(FlightsOptions::default());
    for (name, wants) in [
        ("carrier_stats", None),
        ("carrier_stats_c", None),
        ("carrier_stats_go", Some("wasi:random/random@0.2.0: the same bytes")),
        ("carrier_stats_js", Some("wasi:clocks/wall-clock@0.2.12: a clock that shows 1970")),
        ("carrier_stats_python", Some(": the same bytes")),
    ] {
        use_plugin(&case, name);
        let checked = Running::start(case.scratch.folder(), &["check", "job.toml"], &[]).finish().expect_code(0);
        let said = checked.stdout.lines().find(|line| line.contains("wasi:"));
        assert_eq!(said.is_some(), wants.is_some(), "{name}: {}", checked.stdout);
        assert!(wants.is_none_or(|wants| checked.stdout.contains(wants)), "{name}: {}", checked.stdout);
    }
}

/// The wall clock of every plugin stands still, so that a replayed record is stamped as before.
#[test]
fn a_plugin_that_wants_the_clock_gets_one_that_stands_still() {
    let case = FlightsCase::new(FlightsOptions { rows: 500, rate: None, ..FlightsOptions::default() });
    use_plugin(&case, "wants_clock");
    case.run(&[], &[]).expect_code(0);
    let lines: Vec<String> = case
        .parts()
        .iter()
        .filter(|part| part.starts_with("stats/"))
        .flat_map(|part| {
            let text = std::fs::read_to_string(case.scratch.path("out").join(part)).expect("a part can be read");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(lines.len() > 400 && lines.iter().all(|line| line == "1000"), "{lines:?}");
}

#[test]
fn a_plugin_that_is_granted_the_clock_sees_the_time() {
    let case = FlightsCase::new(FlightsOptions { rows: 500, rate: None, ..FlightsOptions::default() });
    let (rust, other) = (guest("carrier_stats").display().to_string(), guest("wants_clock").display().to_string());
    let granted = format!("{other}\"\ngrants = {{ clock = true, random = true }}\n#\"");
    case.edit(&[(&rust, &granted)]);
    let idle = "operator 'stats': grants.random has no effect: its component does not import wasi:random/";
    let checked = Running::start(case.scratch.folder(), &["check", "job.toml"], &[]).finish().expect_code(0);
    checked.expect_text(&["may      see the time: a replayed record may give another result", "the time, as granted", idle]);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970").as_millis();
    case.run(&[], &[]).expect_code(0);
    let lines = judge::lines(&case.scratch.path("out/stats")).expect("output");
    let is_now = |line: &String| line.parse::<u128>().is_ok_and(|ms| (since..since + 300_000).contains(&ms));
    assert!(lines.len() > 400 && lines.iter().all(is_now), "{lines:?}");
}

/// A job with a guest that looks around, over these lines. `more`: more lines for the operator.
fn probe(plugin: &str, more: &str, lines: &[&str]) -> (Scratch, Ended) {
    probe_at("", plugin, more, lines)
}

/// The same with lines that come slowly enough for most to be in calls of their own.
fn probe_slowly(plugin: &str, lines: &[&str]) -> (Scratch, Ended) {
    probe_at("rate = 50", plugin, "", lines)
}

fn probe_at(rate: &str, plugin: &str, more: &str, lines: &[&str]) -> (Scratch, Ended) {
    let scratch = Scratch::new();
    scratch.write("in.txt", lines.join("\n") + "\n");
    scratch.write(
        "job.toml",
        format!(
            r#"
[job]
name = "probe"
[restart]
strategy = "none"
[[source]]
name = "in"
connector = "file"
path = "in.txt"
format = "lines"
{rate}
[[operator]]
name = "look"
plugin = "{}"
from = "in"
{more}
[[sink]]
name = "out"
connector = "file"
from = "look"
path = "out"
"#,
            guest(plugin).display()
        ),
    );
    let ended = Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], &[("TZ", "UTC")]).finish();
    (scratch, ended)
}

/// The lines that a probe's job has committed, in their order.
fn committed(scratch: &Scratch) -> Vec<String> {
    judge::lines(&scratch.path("out")).expect("whole lines")
}

/// Go's runtime runs in a world where nothing can be reached, and where nobody else takes memory that it holds for its own.
#[test]
fn a_go_runtime_finds_nothing_and_keeps_its_memory() {
    let large = "x".repeat(200_000);
    let lines = ["sleep", "world", "xxx", &large, &large, &large, &large];
    // Enough for it never to be replaced by a fresh instance, which would have kept nothing.
    let (scratch, ended) = probe_at("rate = 50", "probe_go", "limits = { memory = \"512MiB\" }", &lines);
    let ended = ended.expect_code(0);
    assert!(ended.stderr.contains("seen on standard error"), "{}", ended.stderr);
    let kept = (1..=5).map(|n| format!("kept {}", 64 * n));
    let expected: Vec<String> =
        ["slept 1h0m0s until 1970-01-01T01:00:01Z", "0 [] true"].map(str::to_owned).into_iter().chain(kept).collect();
    assert_eq!(committed(&scratch), expected);
}

/// State on demand: the host asks the guest for memory in the middle of the guest's own call.
#[test]
fn state_on_demand_in_go_is_read_when_it_is_asked_for() {
    let (scratch, ended) = probe_slowly("probe_go", &["demand one", "demand two", "xxx", "demand", "demand three"]);
    ended.expect_code(0);
    assert_eq!(committed(&scratch), ["held \"\"", "held \" one\"", "kept 64", "held \" two\"", "held \"\""]);
}

/// The same in C, and the calls at the end of input.
#[test]
fn state_on_demand_in_c_is_read_when_it_is_asked_for() {
    let (scratch, ended) = probe_slowly("probe_c", &["demand one", "demand two", "demand", "demand three"]);
    ended.expect_code(0);
    assert_eq!(committed(&scratch), ["held \"\"", "held \" one\"", "held \" two\"", "held \"\"", "end of 0", "left \" three\""]);
}

#[test]
fn a_panic_in_go_is_quoted() {
    let (_, ended) = probe("probe_go", "", &["xxx", "panic"]);
    ended.expect_code(1).expect_text(&["standard error: panic: told to", "offset 4"]);
}

/// Settings, the log, texts beyond ASCII, bad records, timers and the end of the input cross the boundary as they should; and the
/// engine finds nothing.
#[test]
fn a_javascript_operator_has_all_that_the_contract_gives() {
    let more = "on_bad_record = \"drop\"\nconfig = { greeting = \"grüß dich\" }";
    let (scratch, ended) = probe("probe_js", more, &["greet", "aside", "timer", "world", "bad", "so ö"]);
    let ended = ended.expect_code(0);
    assert!(ended.stderr.contains(r#"opened {"job":"probe","subtask":0}"#), "{}", ended.stderr);
    let expected = [
        "grüß dich",
        "watermark -Infinity",
        "1000 undefined undefined false",
        "SO Ö",
        "event-time 10 sooner at last, seen 5",
        "event-time 20 later at last, seen 5",
        "end of 0",
        "at the end: greet aside timer world so ö",
    ];
    assert_eq!(committed(&scratch), expected);
}

/// A job over 30,000 numbers of 40 keys is killed after its second checkpoint, and goes on with so many subtasks.
fn numbers_over_a_kill(plugin: &str, parallelism: [u32; 2]) -> Vec<String> {
    let scratch = Scratch::new();
    let write = |parallelism: u32| {
        scratch.write(
            "job.toml",
            format!(
                r#"
[job]
name = "numbers"
[checkpoint]
interval = "100ms"
[[source]]
name = "numbers"
connector = "sequence"
count = 30000
keys = 40
value_bytes = 20
rate = 10000
[[operator]]
name = "op"
plugin = "{}"
from = "numbers"
parallelism = {parallelism}
on_bad_record = "drop"
[[sink]]
name = "out"
connector = "file"
path = "out"
from = "op"
"#,
                guest(plugin).display()
            ),
        );
    };
    let run =
        |variables: &[(&str, &str)]| Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], variables).finish();
    write(parallelism[0]);
    let killed = run(&[("WEIR_CRASH_AT", "committed:2")]);
    assert!(killed.was_killed(), "{killed:?}");
    write(parallelism[1]);
    run(&[]).expect_code(0);
    judge::lines(&scratch.path("out")).expect("committed files are whole")
}

#[test]
fn lists_and_maps_in_javascript_are_exact_over_a_kill() {
    let told = numbers_over_a_kill("hoard_js", [2, 2]);
    let all: BTreeSet<u32> = told.iter().filter_map(|line| line.strip_prefix("all ")?.parse().ok()).collect();
    let greatest: BTreeSet<&str> = told.iter().filter_map(|line| line.strip_prefix("greatest ")).collect();
    assert!(all.iter().copied().eq(0..30_000), "{} numbers are in lists", all.len());
    // Each once: 400 of each key in its map.
    assert_eq!((told.len(), greatest.len()), (46_000, 16_000));
}

#[test]
fn operator_state_in_javascript_is_exact_over_a_kill_and_another_parallelism() {
    let told = numbers_over_a_kill("own_count_js", [2, 3]);
    let add =
        |column| told.iter().map(|line| line.split(' ').nth(column).and_then(|n| n.parse::<u64>().ok())).sum::<Option<u64>>();
    let good = || (0..30_000u64).filter(|number| number % 100 != 77);
    assert_eq!((told.len(), add(0), add(1)), (3, Some(good().count() as u64), Some(good().sum())));
}

#[test]
fn a_failure_in_javascript_says_what_and_where() {
    for (line, texts) in [
        ("throw", &["TypeError: cannot read property 'at' of undefined at process", "offsets 0 to 4"][..]),
        ("retry", &["asks to try again: told to"]),
        ("bad", &["tölt to", "offset 4"]),
        ("deep", &["call stack exhausted", "offset 4"]),
    ] {
        let (_, ended) = probe("probe_js", "", &["xxx", line]);
        ended.expect_code(1).expect_text(texts);
    }
}

const FOLDER: &str = "grants = { folders = { out = \".\" } }\nconfig = { a = [1, \"b\"] }";

/// Python's SDK gives all that the contract has, and its runtime finds nothing of the world around it.
#[test]
fn a_plugin_in_python_has_the_contract_and_nothing_else() {
    let sides = "\n[[sink]]\nname = \"side\"\nconnector = \"file\"\nfrom = \"look.side\"\npath = \"side\"";
    let lines = ["settings", "side", "timer", "files", "world", "speak", "chunks"];
    let (scratch, ended) = probe("probe_python", &format!("{FOLDER}{sides}"), &lines);
    let ended = ended.expect_code(0);
    for said in ["seen on standard error", "probe: seen by logging"] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    let found = committed(&scratch);
    assert_eq!(found[0], r#"settings: {"a": [1, "b"]}"#);
    assert!(found[1].starts_with("files: True ['c'] b'ont' ") && found[1].ends_with("the path holds `..`"), "{}", found[1]);
    assert_eq!(found[2], "world: FileNotFoundError {} 1.0 3601.0 True 2");
    for (i, chunk) in found[3..13].iter().enumerate() {
        assert_eq!((chunk.len(), &chunk[..2]), (100_001, format!("{i}x").as_str()));
    }
    assert_eq!(
        found[13..],
        [
            "fired: payload at 5 of 9223372036854775807",
            "end of 0",
            "seen: ['settings', 'side', 'timer', 'files', 'world', 'speak', 'chunks']"
        ]
    );
    assert_eq!(files_below(&scratch.path("a")), ["c"]);
    let side = files_below(&scratch.path("side")).into_iter().find(|part| part.starts_with("part-")).expect("committed");
    assert_eq!(std::fs::read_to_string(scratch.path("side").join(side)).expect("a part can be read"), "with headers\n");
}

/// An exception fails the attempt with its traceback; a limit is named.
#[test]
fn what_goes_wrong_in_python_says_where() {
    for (word, said) in [
        ("bug", &["gives up: record 1 of the batch, key null: KeyError: 'missing'", "/probe.py\", line ", "{}[\"missing\"]"][..]),
        ("bad", &["record 1 of the batch can't be processed: told to"]),
        ("exit", &["gives up: SystemExit: 3", "sys.exit(3)"]),
        ("recurse", &["gives up: record 1 of the batch, key null: RecursionError"]),
        ("loop", &["`limits.call` in the job file raises it"]),
        ("memory", &["than its limit, 64MiB; `limits.memory` in the job file raises it"]),
    ] {
        let (_, ended) = probe("probe_python", FOLDER, &["settings", word]);
        ended.expect_code(1).expect_text(said);
    }
}
