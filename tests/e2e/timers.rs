//! Timers end to end: windows of event time that are exact through kills, timers of the wall, and plugins that set wild ones.

use std::collections::BTreeMap;
use std::time::Duration;
use weir_tests::kafka::{Broker, broker};
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::Scratch;
use weir_tests::{Seeded, guest, soak};

/// A job from a topic, or from `sequence`, through a plugin into files.
struct Case {
    scratch: Scratch,
}

impl Case {
    /// `source`, `operator`: further lines of these sections; `more`: further sections.
    fn new(source: &str, plugin: &str, operator: &str, more: &str) -> Self {
        let case = Case { scratch: Scratch::new() };
        let plugin = guest(plugin).display().to_string();
        case.scratch.write(
            "job.toml",
            format!(
                r#"
[job]
name = "timers"
[checkpoint]
interval = "100ms"
{more}
[[source]]
name = "in"
{source}
[[operator]]
name = "timed"
plugin = "{plugin}"
from = "in"
{operator}
[[sink]]
name = "out"
connector = "file"
path = "out"
from = "timed"
"#
            ),
        );
        case
    }

    fn start(&self, variables: &[(&str, &str)]) -> Running {
        Running::start(self.scratch.folder(), &["run", "job.toml", "--data", "data"], variables)
    }

    fn run(&self) -> Ended {
        self.start(&[]).finish()
    }

    /// All committed lines.
    fn lines(&self) -> Vec<String> {
        let Ok(folder) = std::fs::read_dir(self.scratch.path("out")) else { return Vec::new() };
        let files = folder.map(|entry| entry.expect("it can be read").path());
        let parts = files.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-")));
        let text = |path| std::fs::read_to_string(path).expect("committed files are text");
        parts.flat_map(|path| text(path).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

fn topic(broker: &Broker, name: &str, settings: &str) -> String {
    broker.create(name);
    let address = broker.address();
    // Little is fetched of a partition at a time: else one would be read far ahead of the others, which hold event time back.
    let options = "options = { \"fetch.message.max.bytes\" = 8192 }";
    format!("connector = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"{name}\"\n{options}\n{settings}")
}

/// (key, start of its window) → records.
type Counts = BTreeMap<(String, i64), u64>;

const WINDOW_MS: i64 = 1_000;
const BEGAN: i64 = 1_600_000_000_000;

/// Fills a topic with records that come up to 300 ms late in their partitions; gives what each window holds.
fn fill(name: &str, records: i64, random: &mut Seeded) -> Counts {
    let mut counts = Counts::new();
    let input: Vec<(i32, String, String, i64)> = (0..records)
        .map(|i| {
            let key = format!("k{}", random.below(20));
            let time = BEGAN + i * 5 - random.below(300) as i64;
            *counts.entry((key.clone(), time - time.rem_euclid(WINDOW_MS))).or_default() += 1;
            ((i % 4) as i32, key, format!("{i}"), time)
        })
        .collect();
    broker().write_at(name, input);
    counts
}

fn windows(case: &Case) -> Counts {
    let mut counts = Counts::new();
    for line in case.lines() {
        let window: serde_json::Value = serde_json::from_str(&line).expect("a window is JSON");
        let (key, start) = (window["key"].as_str().expect("a key"), window["start"].as_i64().expect("a start"));
        let count = window["count"].as_u64().expect("a count");
        let text = format!("{{\"key\":{},\"start\":{start},\"count\":{count}}}", serde_json::Value::from(key));
        assert_eq!(line, text, "in every language the same bytes");
        let before = counts.insert((key.to_owned(), start), count);
        assert_eq!(before, None, "a window came twice: {line}");
    }
    counts
}

/// On a busy machine a life may be over before its first window.
fn until_some_windows_are_closed(case: &Case) {
    while windows(case).is_empty() {
        let ended = case.start(&[]).kill_after(Duration::from_secs(1));
        assert!(ended.was_killed(), "the input has ended before: {ended:?}");
    }
}

#[test]
fn windows_are_exact_through_kills_at_random_moments() {
    for backend in ["rocksdb", "memory"] {
        let name = format!("tm-windows-{backend}");
        let settings = "until = \"end\"\nrate = 12000\nparallelism = 2\nwatermark = { delay = \"300ms\", idle = \"1m\" }";
        let source = topic(broker(), &name, settings);
        let operator = format!("parallelism = 2\nconfig = {{ size_ms = {WINDOW_MS} }}");
        let case = Case::new(&source, "window_count", &operator, &format!("[state]\nbackend = \"{backend}\""));
        let (records, kills) = if soak() { (1_000_000, 100) } else { (40_000, 5) };
        let mut random = Seeded(0x71AE);
        let wanted = fill(&name, records, &mut random);
        for _ in 0..kills {
            let ended = case.start(&[]).kill_after(Duration::from_millis(200 + random.below(700)));
            assert!(ended.was_killed(), "the input is too short: {ended:?}");
        }
        until_some_windows_are_closed(&case);
        let so_far = windows(&case).len();
        assert!(so_far < wanted.len(), "some windows close under way, some at the end: {so_far}");
        case.run().expect_code(0);
        assert_eq!(windows(&case), wanted, "{backend}");
    }
}

#[test]
fn windows_survive_a_kill_at_each_step_of_a_checkpoint() {
    survive_each_step("window_count", "tm-points");
}

#[test]
fn windows_in_go_survive_a_kill_at_each_step_of_a_checkpoint() {
    survive_each_step("window_count_go", "tm-points-go");
}

fn survive_each_step(plugin: &str, name: &str) {
    let settings = "until = \"end\"\nrate = 12000\nwatermark = { delay = \"300ms\", idle = \"1m\" }";
    let source = topic(broker(), name, settings);
    let case = Case::new(&source, plugin, "parallelism = 2\nconfig = { size_ms = 1000 }", "");
    let wanted = fill(name, 40_000, &mut Seeded(7));
    for point in
        ["snapshot-sync-done:3", "upload-partial:2", "all-acked:2", "manifest-published:2", "committed:2", "final-checkpoint"]
    {
        let ended = case.start(&[("WEIR_CRASH_AT", point)]).finish();
        assert!(ended.was_killed(), "{point} was never passed: {ended:?}");
    }
    case.run().expect_code(0);
    assert_eq!(windows(&case), wanted);
}

#[test]
fn timers_of_the_wall_fire_once_each_also_after_a_kill() {
    let source = topic(broker(), "tm-wall", "");
    let case = Case::new(&source, "wild_timers", "config = { do = \"wall\" }", "");
    let write = |ids: std::ops::Range<u32>| {
        let record = |id: u32| ((id % 4) as i32, format!("k{}", id % 7), format!("v{id}"));
        broker().write("tm-wall", ids.map(record));
    };
    let values = || {
        let mut values: Vec<String> =
            case.lines().iter().map(|line| line.split_once('@').expect("payload@time").0.to_owned()).collect();
        values.sort();
        values
    };
    let wanted = |ids: std::ops::Range<u32>| {
        let mut wanted: Vec<String> = ids.map(|id| format!("v{id}")).collect();
        wanted.sort();
        wanted
    };
    write(0..100);
    let mut running = case.start(&[]);
    running.wait_until("the first have fired", || values() == wanted(0..100));
    write(100..200);
    // Some are set and not fired, or fired and not committed.
    assert!(running.kill_after(Duration::from_millis(60)).was_killed());
    let mut running = case.start(&[]);
    write(200..300);
    running.wait_until("all have fired", || values().len() >= 300);
    running.signal(rustix::process::Signal::TERM);
    running.finish().expect_code(0);
    assert_eq!(values(), wanted(0..300));
}

const NUMBERS: &str = "connector = \"sequence\"\ncount = 3000\nkeys = 5";
const AT_ONCE: &str = "[restart]\nstrategy = \"none\"";

#[test]
fn thousands_of_timers_of_any_time_fire_once_each_and_in_order() {
    let case = Case::new(NUMBERS, "wild_timers", "config = { do = \"thousands\" }\nlimits = { call = \"30s\" }", "");
    // The same timers are set over and over: 2,000 a key; the least time is due at once, each time it is set.
    let ended = case.start(&[("WEIR_CRASH_AT", "final-checkpoint")]).finish();
    assert!(ended.was_killed(), "{ended:?}");
    case.run().expect_code(0);
    let lines = case.lines();
    let times: Vec<i64> = lines.iter().map(|line| line.strip_prefix("t@").expect("t@time").parse().expect("a time")).collect();
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    times.iter().for_each(|time| *counts.entry(*time).or_default() += 1);
    assert_eq!(counts.len(), 2_000);
    assert!(counts.iter().all(|(time, count)| if *time == i64::MIN { *count >= 5 } else { *count == 5 }), "{counts:?}");
    let at_the_end: Vec<i64> = times.into_iter().filter(|time| *time > i64::MIN).collect();
    assert!(at_the_end.is_sorted(), "they fire by time");
}

#[test]
fn timers_without_end_or_of_a_strange_key_stop_the_job_and_are_explained() {
    for (action, why) in [("endless", "must have an end"), ("strange-key", "none of the running call's keys")] {
        let case = Case::new(NUMBERS, "wild_timers", &format!("config = {{ do = \"{action}\" }}"), AT_ONCE);
        case.run().expect_code(1).expect_text(&["timed", why]);
        assert_eq!(case.lines(), Vec::<String>::new());
    }
}

/// Without Kafka: the watermarks are those of an operator, subtask by subtask.
#[test]
fn windows_behind_an_operator_that_makes_watermarks_are_exact_through_kills() {
    exact_behind_an_operator("window_count");
}

#[test]
fn windows_in_go_are_exact_through_kills() {
    exact_behind_an_operator("window_count_go");
}

#[test]
fn windows_in_c_are_exact_through_kills() {
    exact_behind_an_operator("window_count_c");
}

fn exact_behind_an_operator(plugin: &str) {
    let even = guest("filter_even").display().to_string();
    let operator = format!(
        "[[operator]]\nname = \"even\"\nplugin = \"{even}\"\nfrom = \"in\"\nparallelism = 2\n\
         watermark = {{ delay = \"0s\", idle = \"1m\" }}"
    );
    // A record each millisecond; the even ones pass.
    let source = "connector = \"sequence\"\ncount = 40000\nkeys = 5\nvalue_bytes = 20\nrate = 16000\nparallelism = 2";
    let case = Case::new(source, plugin, "parallelism = 2\nconfig = { size_ms = 1000 }", &operator);
    let job = std::fs::read_to_string(case.scratch.path("job.toml")).expect("it was written");
    let last = job.rfind("from = \"in\"").expect("the windows read something");
    case.scratch.write("job.toml", format!("{}from = \"even\"{}", &job[..last], &job[last + "from = \"in\"".len()..]));
    // Who compiles a plugin for the first time may take longer than the lives below last.
    Running::start(case.scratch.folder(), &["check", "job.toml"], &[]).finish().expect_code(0);
    let mut random = Seeded(0xE7E7);
    for _ in 0..3 {
        let ended = case.start(&[]).kill_after(Duration::from_millis(300 + random.below(500)));
        assert!(ended.was_killed(), "the input is too short: {ended:?}");
    }
    until_some_windows_are_closed(&case);
    let so_far = windows(&case).len();
    case.run().expect_code(0);
    let mut by_start: BTreeMap<i64, u64> = BTreeMap::new();
    windows(&case).into_iter().for_each(|((_, start), count)| *by_start.entry(start).or_default() += count);
    assert_eq!(by_start, (0..40).map(|window| (window * 1_000, 500)).collect());
    assert!(so_far < 200, "some windows close under way, some at the end: {so_far}");
}
