//! The process as a whole: how fast it starts, what memory it takes, how soon it goes on after a kill.

use crate::{ms, quick, wanted};
use criterion::Criterion;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_benches::guest;
use weir_benches::table::Table;

const LONG: Duration = Duration::from_secs(120);

/// Runs of the `weir` binary that was built beside this bench.
pub fn process(_: &mut Criterion, table: &mut Table) {
    let name = "process, one record through a plugin";
    if wanted(name) {
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let job = job(scratch.path(), "map_upper.wasm", 1, 1, "memory");
        let mut times: Vec<Duration> = (0..6)
            .map(|_| {
                fresh(scratch.path());
                let begun = Instant::now();
                let mut child = run(&job, scratch.path());
                assert!(child.wait().expect("it can be waited for").success(), "{}", said(scratch.path()));
                begun.elapsed()
            })
            .collect();
        // The first one compiles the plugin.
        table.figure(name, "from start to exit, plugin compiled first", ms(times.remove(0)), "ms");
        times.sort_unstable();
        table.figure(name, "from start to exit, plugin cached, the middle of 5", ms(times[2]), "ms");
    }
    let name = "process, count, 2 M keys, rocksdb";
    if wanted(name) {
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let job = job(scratch.path(), "keyed_count.wasm", 1_000_000_000_000, 2_000_000, "rocksdb");
        let mut child = run(&job, scratch.path());
        let stored = scratch.path().join("data/checkpoints");
        // All keys are there after some ten million records; a checkpoint of them follows.
        std::thread::sleep(Duration::from_secs(if quick() { 12 } else { 30 }));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        let kib: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
            .expect("Linux tells the most that a process has held");
        table.figure(name, "resident memory, most", kib / 1024.0, "MiB");
        child.kill().expect("it is our child");
        child.wait().expect("it can be waited for");
        assert!(stored.exists(), "{}", said(scratch.path()));
        // What was staged is removed by the restart; what is new is of the new attempt.
        let (before, begun) = (staged(scratch.path()), Instant::now());
        let mut child = run(&job, scratch.path());
        while staged(scratch.path()).iter().all(|file| before.contains(file) || empty(file)) {
            assert!(begun.elapsed() < LONG, "no record came: {}", said(scratch.path()));
            assert!(child.try_wait().expect("it is our child").is_none(), "it ended: {}", said(scratch.path()));
            std::thread::sleep(Duration::from_millis(1));
        }
        table.figure(name, "from restart after kill -9 to the first bytes at the sink", ms(begun.elapsed()), "ms");
        child.kill().expect("it is our child");
        child.wait().expect("it can be waited for");
    }
}

/// The binary that cargo has put beside this one.
fn weir() -> PathBuf {
    let own = std::env::current_exe().expect("a process has a file");
    let target = own.parent().and_then(Path::parent).expect("benches lie in a folder of the target folder");
    let weir = target.join("weir");
    assert!(weir.is_file(), "{} is missing: `make bench` builds it", weir.display());
    weir
}

fn job(folder: &Path, plugin: &str, count: u64, keys: u64, backend: &str) -> PathBuf {
    let file = folder.join("job.toml");
    let text = format!(
        r#"
[job]
name = "bench"
[checkpoint]
interval = "1s"
[state]
backend = "{backend}"
[[source]]
name = "numbers"
connector = "sequence"
count = {count}
keys = {keys}
value_bytes = 100
[[operator]]
name = "work"
plugin = "{}"
from = "numbers"
[[sink]]
name = "out"
connector = "file"
from = "work"
path = "out"
"#,
        guest(plugin).display()
    );
    fs::write(&file, text).expect("the scratch folder can be written");
    file
}

fn run(job: &Path, folder: &Path) -> Child {
    let log = fs::File::create(folder.join("log")).expect("the scratch folder can be written");
    Command::new(weir())
        .arg("run")
        .arg(job)
        .arg("--data")
        .arg(folder.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .spawn()
        .expect("the binary can be run")
}

fn said(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn fresh(folder: &Path) {
    for what in ["data", "out"] {
        if let Err(error) = fs::remove_dir_all(folder.join(what)) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{what} can be removed: {error}");
        }
    }
}

/// Files that the sink has begun and not committed: `<lineage>/<sink>/<identity>` below the staging folder.
fn staged(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let lineages = below(&folder.join("out/.weir-staging"));
    let sinks = lineages.iter().flat_map(|lineage| below(lineage));
    sinks.flat_map(|sink| below(&sink)).collect()
}

fn empty(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.len() == 0)
}
