//! A long run holds no more of anything at its end than near its beginning: memory, open files, stored files, threads.

use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_tests::process::Running;
use weir_tests::scratch::{Scratch, files_below};
use weir_tests::{guest, soak};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Counts keys that all fit into the cache, with many checkpoints and committed files.
fn job_file() -> String {
    let plugin = guest("keyed_count");
    format!(
        r#"
[job]
name = "long"
parallelism = 2

[checkpoint]
interval = "100ms"

[state]
cache = "32MiB"

[[source]]
name = "keys"
connector = "sequence"
count = 1_000_000_000
keys = 50_000
value_bytes = 100
rate = 40_000

[[operator]]
name = "count"
plugin = "{}"
from = "keys"

[[sink]]
name = "out"
connector = "file"
from = "count"
path = "out"
"#,
        plugin.display()
    )
}

/// What the process holds at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    resident_kib: u64,
    open_files: u64,
    threads: u64,
    /// Below the data folder.
    stored_files: u64,
}

impl Held {
    fn now(pid: u32, data: &Path) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
            line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
        };
        Held {
            resident_kib: number("VmRSS:"),
            open_files: std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64,
            threads: number("Threads:"),
            stored_files: files_below(data).len() as u64,
        }
    }

    /// The most of each.
    fn max(self, other: Held) -> Held {
        Held {
            resident_kib: self.resident_kib.max(other.resident_kib),
            open_files: self.open_files.max(other.open_files),
            threads: self.threads.max(other.threads),
            stored_files: self.stored_files.max(other.stored_files),
        }
    }
}

#[test]
fn a_long_run_holds_no_more_at_its_end() {
    let (length, slack_kib) = if soak() { (Duration::from_secs(600), 16 << 10) } else { (Duration::from_secs(24), 48 << 10) };
    let scratch = Scratch::new();
    scratch.write("job.toml", job_file());
    let data = scratch.path("data");
    let mut running = Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], &[]);
    running.allow(length * 2);
    let begun = Instant::now();
    // A rebase comes every 128 checkpoints, so each half sees several of them in the long run.
    let (mut early, mut late, mut looks) = (Held::default(), Held::default(), 0);
    while begun.elapsed() < length {
        if running.wait_for(LOOK).is_some() {
            panic!("weir ended before its time: {:?}", running.finish());
        }
        let held = Held::now(running.pid(), &data);
        match begun.elapsed().as_secs_f64() / length.as_secs_f64() {
            ..0.2 => {}
            ..0.6 => early = early.max(held),
            _ => late = late.max(held),
        }
        looks += 1;
    }
    running.signal(Signal::INT);
    let ended = running.finish().expect_code(0);
    println!("{looks} looks in {length:?}: at most {early:?} early, {late:?} late\n{}", ended.stdout);
    assert!(early.resident_kib > 0 && late.resident_kib > 0, "there was no time to look");
    assert!(late.resident_kib <= early.resident_kib + slack_kib, "memory grows: {early:?}, then {late:?}");
    assert!(late.open_files <= early.open_files + 24, "open files grow: {early:?}, then {late:?}");
    assert!(late.threads <= early.threads + 4, "threads grow: {early:?}, then {late:?}");
    // Deltas pile up between two bases.
    assert!(late.stored_files <= early.stored_files + 2 * 2 * 128, "stored files grow: {early:?}, then {late:?}");
}
