//! Plugins exchanged while their job runs: nothing is lost or repeated, whatever the new build does and whenever the process is
//! killed, and one build runs everywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::Scratch;
use weir_tests::{guest, judge, soak};

/// Makes a component with another number and action: see `guests/hostile/many-builds`.
fn build(scratch: &Scratch, number: u32, action: &str) -> PathBuf {
    let mut bytes = std::fs::read(guest("many_builds")).expect("the guest can be read");
    let marker = b"weir-build:0000-good";
    let places: Vec<usize> = bytes.windows(marker.len()).enumerate().filter(|(_, at)| at == marker).map(|(at, _)| at).collect();
    let [place] = places[..] else { panic!("the marker stands {} times in the component", places.len()) };
    let text = format!("weir-build:{number:04}-{action}");
    bytes[place..place + marker.len()].copy_from_slice(text.as_bytes());
    let name = format!("build-{number}-{action}.wasm");
    scratch.write(&name, bytes)
}

/// Counts keys of a sequence, in a job that runs until it is stopped or has read all.
struct Case {
    scratch: Scratch,
    keys: u64,
    records: u64,
}

impl Case {
    fn new(records: u64, rate: u64) -> Self {
        let scratch = Scratch::new();
        let plugin = build(&scratch, 0, "good");
        let job = format!(
            r#"
[job]
name = "counts"
parallelism = 2

[checkpoint]
interval = "100ms"

[restart]
strategy = "none"

[[source]]
name = "numbers"
connector = "sequence"
count = {records}
keys = 50
value_bytes = 20
rate = {rate}

[[operator]]
name = "count"
plugin = "{}"
from = "numbers"

[[sink]]
name = "out"
connector = "file"
from = "count"
path = "out"
"#,
            plugin.display()
        );
        scratch.write("job.toml", job);
        Case { scratch, keys: 50, records }
    }

    fn start(&self, variables: &[(&str, &str)]) -> Running {
        // Read before it is started: it may be quick.
        let log = self.scratch.path("data/checkpoints/log");
        let before = newest_slot(&log);
        let mut running = Running::start(self.scratch.folder(), &["run", "job.toml", "--data", "data", "--control"], variables);
        // A claim and a checkpoint.
        running.wait_until("it has a checkpoint", || newest_slot(&log) >= before + 2);
        running
    }

    /// Asks for a swap, and waits for the answer.
    fn swap(&self, plugin: &Path, more: &[&str]) -> Ended {
        self.swapping(plugin, more).finish()
    }

    fn swapping(&self, plugin: &Path, more: &[&str]) -> Running {
        let mut arguments = vec!["swap", "job.toml", "count"];
        let plugin = plugin.display().to_string();
        arguments.push(&plugin);
        arguments.extend(["--data", "data", "--json"]);
        arguments.extend(more);
        Running::start(self.scratch.folder(), &arguments, &[])
    }

    /// Every record counted once; for each key the builds that counted it, with their first counts, in order.
    fn judge(&self) -> BTreeMap<u64, Vec<(u64, String)>> {
        let mut seen: BTreeMap<u64, BTreeMap<u64, String>> = BTreeMap::new();
        for line in judge::lines(&self.scratch.path("out")).unwrap() {
            let fields: Vec<&str> = line.split(',').collect();
            let [key, count, build] = fields[..] else { panic!("'{line}' has not three fields") };
            let (key, count) = (key.parse().expect("a key"), count.parse().expect("a count"));
            let before = seen.entry(key).or_default().insert(count, build.to_owned());
            assert_eq!(before, None, "count {count} of key {key} is repeated");
        }
        let mut total = 0;
        let mut builds = BTreeMap::new();
        for (key, counts) in seen {
            let last = *counts.keys().next_back().expect("a key has counts");
            assert_eq!(counts.len() as u64, last, "key {key} lacks counts below {last}");
            total += last;
            let mut runs: Vec<(u64, String)> = Vec::new();
            for (count, build) in counts {
                if runs.last().is_none_or(|(_, own)| *own != build) {
                    runs.push((count, build));
                }
            }
            builds.insert(key, runs);
        }
        assert_eq!((total, builds.len() as u64), (self.records, self.keys), "records and keys in the output");
        builds
    }

    /// The builds in the order in which they ran, the same for every key.
    fn builds(&self) -> Vec<String> {
        let by_key = self.judge();
        let mut orders: Vec<Vec<String>> =
            by_key.into_values().map(|runs| runs.into_iter().map(|(_, build)| build).collect()).collect();
        orders.dedup();
        assert_eq!(orders.len(), 1, "keys have seen different builds: {orders:?}");
        orders.remove(0)
    }

    fn fsck(&self) {
        let fsck = Running::start(self.scratch.folder(), &["checkpoint", "fsck", "job.toml", "--data", "data"], &[]);
        fsck.finish().expect_code(0);
    }
}

/// The highest slot of a job's log; 0 if there is none.
fn newest_slot(log: &Path) -> u64 {
    let entries = std::fs::read_dir(log).into_iter().flatten().flatten();
    let slots = entries.filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok());
    slots.max().unwrap_or(0)
}

/// What `weir swap --json` gave.
fn report(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn a_plugin_is_exchanged_in_a_running_job() {
    let case = Case::new(30_000, 6_000);
    let running = case.start(&[]);
    let new = build(&case.scratch, 1, "good");
    let dry = case.swap(&new, &["--dry-run"]).expect_code(0);
    assert!(
        report(&dry)["staged"]["new"]["version"].as_str().is_some_and(|version| version.starts_with("many-builds ")),
        "{dry:?}"
    );
    let swapped = case.swap(&new, &[]).expect_code(0);
    let told = report(&swapped);
    assert_eq!(told["outcome"], "passed", "{told}");
    assert_eq!(told["exchanged"]["probation"], 3, "{told}");
    assert!(told["exchanged"]["pause_us"].as_u64().is_some_and(|us| us < 1_000_000), "{told}");
    case.swap(&new, &[]).expect_code(2).expect_text(&["this very build runs already"]);
    running.finish().expect_code(0);
    assert_eq!(case.builds(), ["0000", "0001"]);
    case.fsck();
    assert!(!case.scratch.path("data/control.sock").exists(), "the socket is left");
}

/// The job file still names the first build, and the swapped one goes on; once it names another, that one is taken.
#[test]
fn a_swapped_build_outlives_a_kill_and_a_stop() {
    let case = Case::new(30_000, 6_000);
    let running = case.start(&[]);
    case.swap(&build(&case.scratch, 1, "good"), &[]).expect_code(0);
    running.kill_after(Duration::from_millis(100));
    let resumed = case.start(&[]);
    resumed.signal(rustix::process::Signal::INT);
    resumed.finish().expect_code(0).expect_text(&["to which it was swapped", "the job file still names"]);
    let third = build(&case.scratch, 2, "good");
    let job = std::fs::read_to_string(case.scratch.path("job.toml")).unwrap();
    case.scratch.write("job.toml", job.replace("build-0-good.wasm", third.file_name().unwrap().to_str().unwrap()));
    Running::start(case.scratch.folder(), &["run", "job.toml", "--data", "data"], &[]).finish().expect_code(0);
    assert_eq!(case.builds(), ["0000", "0001", "0002"]);
    case.fsck();
}

/// Each ends with one of both builds everywhere, and exact output.
#[test]
fn a_kill_at_every_step_of_a_swap() {
    for (point, survives) in
        [("swap-staged", false), ("swap-checkpoint", false), ("swap-half", false), ("swap-done", true), ("swap-probation", true)]
    {
        let case = Case::new(12_000, 4_000);
        let running = case.start(&[("WEIR_CRASH_AT", point)]);
        let asked = case.swapping(&build(&case.scratch, 1, "good"), &["--probation", "5"]);
        let killed = running.finish();
        assert!(killed.was_killed(), "{point} was never passed: {killed:?}");
        assert_ne!(asked.finish().code(), Some(0), "{point}: the client was told that all is well");
        let resumed = Running::start(case.scratch.folder(), &["run", "job.toml", "--data", "data"], &[]).finish().expect_code(0);
        let builds = case.builds();
        match survives {
            true => assert_eq!(builds, ["0000", "0001"], "{point}"),
            false => assert_eq!(builds, ["0000"], "{point}"),
        }
        assert_eq!(resumed.stderr.contains("to which it was swapped"), survives, "{point}: {}", resumed.stderr);
        case.fsck();
    }
}

/// A build that goes wrong on its first record, or while it is on probation.
#[test]
fn a_build_that_fails_is_taken_back() {
    for (action, says) in [
        ("trap", "this build traps"),
        ("fail", "this build fails"),
        ("loop", "computed longer than its limit"),
        ("late", "this build traps late"),
    ] {
        let case = Case::new(40_000, 6_000);
        let running = case.start(&[]);
        let new = build(&case.scratch, 1, action);
        let failed = case.swap(&new, &["--probation", "1000"]).expect_code(1);
        let told = report(&failed);
        let outcome = told["outcome"].as_str().unwrap_or_default().to_owned();
        assert!(["undone", "rolled-back"].contains(&&*outcome), "{action}: {told}");
        let why = told[outcome.replace('-', "_")]["why"].as_str().unwrap_or_default().to_owned();
        assert!(why.contains(says), "{action}: {why}");
        // It is remembered, until somebody wants it all the same.
        case.swap(&new, &[]).expect_code(2).expect_text(&["has failed on probation before"]);
        case.swap(&new, &["--again", "--dry-run"]).expect_code(0);
        let good = case.swap(&build(&case.scratch, 2, "good"), &["--probation", "1"]).expect_code(0);
        assert_eq!(report(&good)["outcome"], "passed", "{action}");
        running.finish().expect_code(0);
        // A key need not have had a record between two exchanges.
        for (key, runs) in case.judge() {
            let (first, last) = (&runs[0].1, &runs[runs.len() - 1].1);
            assert_eq!((&**first, &**last), ("0000", "0002"), "{action}, key {key}: {runs:?}");
        }
        case.fsck();
    }
}

/// What does not fit is refused before anything happens, and says why.
#[test]
fn a_build_that_does_not_fit_is_refused() {
    let case = Case::new(20_000, 6_000);
    let running = case.start(&[]);
    let text = case.scratch.write("notes.wasm", "not a component");
    let open = build(&case.scratch, 1, "open");
    let cases: [(&Path, &str); 6] = [
        (&guest("running_balance"), "the state does not fit"),
        (&guest("file_sink"), "is a sink, where an operator is needed"),
        (&text, "this is not Wasm"),
        (&open, "this build does not open"),
        (&guest("trap_at_describe"), "trap"),
        (Path::new("nowhere.wasm"), "can't be read"),
    ];
    for (plugin, says) in cases {
        case.swap(plugin, &[]).expect_code(2).expect_text(&[says, "refused: what runs goes on undisturbed"]);
    }
    let new = build(&case.scratch, 2, "good");
    let to = |operator: &str| {
        let arguments = ["swap", "data", operator, new.to_str().unwrap()];
        Running::start(case.scratch.folder(), &arguments, &[]).finish().expect_code(2)
    };
    to("counts").expect_text(&["the job has no such operator", "count"]);
    to("out").expect_text(&["swap a sink by a restart"]);
    running.finish().expect_code(0);
    assert_eq!(case.builds(), ["0000"]);
    to("count").expect_text(&["no job runs there with --control"]);
}

/// Some subtasks have exchanged by then: all go back, and the job goes on at once, although its policy is to restart never.
#[test]
fn a_swap_whose_checkpoint_is_aborted_leaves_the_old_build() {
    let case = Case::new(20_000, 4_000);
    let job = std::fs::read_to_string(case.scratch.path("job.toml")).expect("it was written");
    case.scratch.write("job.toml", job.replace("\"100ms\"", "\"60s\""));
    let arguments = ["run", "job.toml", "--data", "data", "--control"];
    let mut running = Running::start(case.scratch.folder(), &arguments, &[]);
    let log = case.scratch.path("data/checkpoints/log");
    running.wait_until("it has claimed", || newest_slot(&log) > 0);
    // State files can't be stored.
    let shared = case.scratch.path("data/checkpoints/shared");
    std::fs::remove_dir_all(&shared).expect("no checkpoint stands yet");
    std::fs::write(&shared, "").expect("it can be written");
    let aborted = case.swap(&build(&case.scratch, 1, "good"), &[]).expect_code(1);
    let told = report(&aborted);
    let why = told["undone"]["why"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("the checkpoint of the swap was aborted"), "{told}");
    std::fs::remove_file(&shared).expect("it is there");
    std::fs::create_dir(&shared).expect("it can be made");
    // It was no fault of the build.
    let swapped = case.swap(&build(&case.scratch, 1, "good"), &["--probation", "0"]).expect_code(0);
    assert_eq!(report(&swapped)["outcome"], "exchanged");
    running.finish().expect_code(0);
    // Back at the beginning, some keys may have had no record before the second swap.
    let ends_with_new = |runs: &Vec<(u64, String)>| runs.last().is_some_and(|(_, build)| build == "0001");
    assert!(case.judge().values().all(ends_with_new));
}

/// The first goes its way, and the second is told to come again.
#[test]
fn one_swap_at_a_time() {
    let case = Case::new(20_000, 4_000);
    let mut running = case.start(&[("WEIR_STOP_AT", "swap-half")]);
    let first = case.swapping(&build(&case.scratch, 1, "good"), &["--probation", "3"]);
    running.wait_until_stopped();
    let second = case.swapping(&build(&case.scratch, 2, "good"), &[]);
    running.signal(rustix::process::Signal::CONT);
    let second = second.finish().expect_code(2);
    assert!(second.stderr.contains("another swap is under way") || second.stderr.contains("on probation"), "{second:?}");
    first.finish().expect_code(0);
    running.finish().expect_code(0);
    assert_eq!(case.builds(), ["0000", "0001"]);
}

/// Many times between two builds under load: nothing is lost or repeated, and the pauses are short.
#[test]
fn many_swaps_under_load() {
    let swaps = if soak() { 100 } else { 20 };
    // Two seconds for each, which is many times what it takes.
    let case = Case::new(u64::from(swaps) * 40_000, 20_000);
    let mut running = case.start(&[]);
    running.allow(Duration::from_secs(1_200));
    let builds = [build(&case.scratch, 0, "good"), build(&case.scratch, 1, "good")];
    let mut pauses = Vec::new();
    let mut resident = Vec::new();
    for n in 1..=swaps {
        let swapped = case.swap(&builds[n as usize % 2], &["--probation", "1"]).expect_code(0);
        pauses.push(report(&swapped)["exchanged"]["pause_us"].as_u64().expect("a pause"));
        resident.push(resident_bytes(running.pid()));
    }
    running.signal(rustix::process::Signal::INT);
    running.finish().expect_code(0);
    // The rest as fast as it goes.
    let job = std::fs::read_to_string(case.scratch.path("job.toml")).expect("it was written");
    case.scratch.write("job.toml", job.replace("rate = 20000\n", ""));
    Running::start(case.scratch.folder(), &["run", "job.toml", "--data", "data"], &[]).finish().expect_code(0);
    assert_eq!(case.builds().len() as u32, swaps + 1);
    case.fsck();
    pauses.sort_unstable();
    let p99 = pauses[(pauses.len() * 99).div_ceil(100) - 1];
    println!("{swaps} swaps, pause p50 {} µs, p99 {p99} µs", pauses[pauses.len() / 2]);
    // Both builds are loaded once; what they replace is let go.
    let (early, late) = (resident[4], *resident.last().expect("there were swaps"));
    println!("{} MiB resident after 5 swaps, {} after the last", early >> 20, late >> 20);
    assert!(late < early + (64 << 20), "memory grows with every swap: {resident:?}");
    // Far above what it takes: a machine that is busy with something else may not let a thread run for a while.
    assert!(p99 < 100_000, "the longest pauses: {pauses:?}");
}

/// Memory of a process.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says it");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// Each language goes on with the state of the one before.
#[test]
fn the_language_changes_while_the_job_runs() {
    let case = FlightsCase::new(FlightsOptions {
        parallelism: 2,
        rows: 27_000,
        files: 2,
        rate: Some(3_000),
        ..FlightsOptions::default()
    });
    let mut running = case.start(&["--control"], &[]);
    let log = case.storage().join("log");
    running.wait_until("it has a checkpoint", || std::fs::read_dir(&log).is_ok_and(|entries| entries.count() >= 2));
    for name in ["carrier_stats_c", "carrier_stats_go", "carrier_stats"] {
        let plugin = guest(name).display().to_string();
        let arguments = ["swap", "job.toml", "stats", &plugin, "--data", "data", "--probation", "1"];
        Running::start(case.scratch.folder(), &arguments, &[]).finish().expect_code(0).expect_text(&["passed its probation"]);
    }
    running.finish().expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}
