//! Workloads that benches share: whole jobs in this process, with operators as Wasm plugins or as the same code natively;
//! and the peers that they are compared with.

pub mod flink;
pub mod kafka;
pub mod keyed;
pub mod native;
pub mod table;
pub mod timely;

/// As the `weir` binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_host::connectors::sequence::write_value;
use weir_host::coordinator::HostRuntime;
use weir_host::graph::{JobGraph, job_file};
use weir_host::job::{JobEvent, JobOutcome, RunOptions, Runtime, StartMode, StopHandle, StopRequest, stop_pair};

/// Who runs the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// The guest, as a component.
    Wasm,
    /// The same work in Rust, on the same runtime.
    Native,
}

/// What a job does between its `sequence` source (100-byte values, 8-byte keys) and its `discard` sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Mixes a part of every value and passes half of them on: a map and a filter in one component, one chain.
    MapFilter,
    /// The same; source, operator and sink each in a thread of its own.
    MapFilterHop,
    /// Upper-cases every value; one chain.
    Map,
    /// Parses three fields of every value and rewrites one; one chain.
    RewriteField,
    /// Counts by key, state in this backend.
    KeyedCount {
        /// `rocksdb` or `memory`.
        backend: &'static str,
        /// Distinct keys.
        keys: u64,
        /// Seconds between checkpoints.
        interval_s: u32,
    },
}

/// The repository's component of this name.
pub fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("benches/ lies in the repository").join("guests/out").join(name)
}

/// Where compiled plugins are kept from run to run.
pub fn compiled() -> PathBuf {
    std::env::temp_dir().join("weir-bench-compiled")
}

fn job_file(workload: Workload, parallelism: u32) -> String {
    let partition = match workload {
        Workload::MapFilterHop => "partition = \"rebalance\"",
        Workload::MapFilter | Workload::Map | Workload::RewriteField | Workload::KeyedCount { .. } => "",
    };
    let (keys, backend, interval, plugin) = match workload {
        Workload::MapFilter | Workload::MapFilterHop => (1_000_000, "memory", 10, "map_filter.wasm"),
        Workload::Map => (1_000_000, "memory", 10, "map_upper.wasm"),
        Workload::RewriteField => (1_000_000, "memory", 10, "rewrite_field.wasm"),
        Workload::KeyedCount { backend, keys, interval_s } => (keys, backend, interval_s, "keyed_count.wasm"),
    };
    let plugin = guest(plugin);
    let plugin = plugin.display();
    format!(
        r#"
[job]
name = "bench"
parallelism = {parallelism}
[checkpoint]
interval = "{interval}s"
[state]
backend = "{backend}"
[[source]]
name = "numbers"
connector = "sequence"
count = 1000000000000
keys = {keys}
value_bytes = 100
seed = 7
[[operator]]
name = "work"
plugin = "{plugin}"
from = "numbers"
{partition}
[[sink]]
name = "nowhere"
connector = "discard"
from = "work"
{partition}
"#
    )
}

/// A file of `lines` lines of 100 characters, as the values of connector `sequence`.
///
/// # Panics
/// If it can't be written.
pub fn write_lines(path: &Path, lines: u64) {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).expect("a scratch file can be made"));
    let mut line = [b'\n'; 101];
    for i in 0..lines {
        write_value(&mut line[..100], i);
        file.write_all(&line).expect("the scratch folder has room");
    }
    file.flush().expect("the scratch folder has room");
}

/// Runs a job from its first line to its last commit: file → upper-case → file sink, exactly-once, a checkpoint each second.
///
/// # Panics
/// If it does not finish, or loses a byte.
pub fn run_lines(flavor: Flavor, file: &Path, lines: u64) -> Cost {
    let scratch = tempfile::tempdir().expect("a scratch folder can be made");
    let folder = scratch.path().canonicalize().expect("it exists");
    let text = format!(
        r#"
[job]
name = "lines"
parallelism = 1
[checkpoint]
interval = "1s"
[[source]]
name = "lines"
connector = "file"
path = "{}"
[[operator]]
name = "upper"
plugin = "{}"
from = "lines"
[[sink]]
name = "out"
connector = "file"
from = "upper"
path = "out"
"#,
        file.display(),
        guest("map_upper.wasm").display()
    );
    let cost = run_to_end(flavor, &text, &folder, lines);
    let committed = std::fs::read_dir(folder.join("out")).expect("there is output").map(|part| part.expect("readable"));
    let bytes: u64 =
        committed.map(|part| part.metadata().expect("readable")).filter(|part| part.is_file()).map(|part| part.len()).sum();
    assert_eq!(bytes, lines * 101, "every line is committed once");
    cost
}

/// Runs the flights job over a file without a header, with this build of `carrier-stats`, or without the operator.
///
/// # Panics
/// If it does not finish.
pub fn run_flights(stats: Option<&Path>, file: &Path, flights: u64) -> Cost {
    let scratch = tempfile::tempdir().expect("a scratch folder can be made");
    let folder = scratch.path().canonicalize().expect("it exists");
    let stats = stats.map_or(String::new(), |plugin| {
        format!("[[operator]]\nname = \"stats\"\nplugin = \"{}\"\nfrom = \"parse\"\n", plugin.display())
    });
    let text = format!(
        r#"
[job]
name = "flights"
parallelism = 1
[checkpoint]
interval = "1s"
[[source]]
name = "flights"
connector = "file"
path = "{}"
[[operator]]
name = "parse"
plugin = "{}"
from = "flights"
config = {{ tz = "UTC" }}
{stats}
[[sink]]
name = "nowhere"
connector = "discard"
from = "{}"
[[sink]]
name = "rejected"
connector = "discard"
from = "parse.rejected"
"#,
        file.display(),
        guest("parse_flights.wasm").display(),
        if stats.is_empty() { "parse" } else { "stats" }
    );
    run_to_end(Flavor::Wasm, &text, &folder, flights)
}

/// The graph of a job file's text in a folder, and how to run it there from nothing.
fn job_in(folder: &Path, text: &str) -> (JobGraph, RunOptions) {
    let graph = job_file::parse(text, &folder.join("job.toml"), folder, &|_| None).expect("the bench's job file is right");
    (
        graph,
        RunOptions {
            data: folder.join("data"),
            mode: StartMode::Resume,
            allow_duplicates: false,
            take_over: false,
            control: false,
        },
    )
}

/// Runs a job over its input of so many records.
fn run_to_end(flavor: Flavor, text: &str, folder: &Path, records: u64) -> Cost {
    let (graph, options) = job_in(folder, text);
    let (_stop, signal) = stop_pair();
    let (wall, cpu) = (Instant::now(), cpu_now());
    let outcome = runtime(flavor).run(graph, options, signal, Arc::new(|_| {}));
    let cost = Cost { records, wall: wall.elapsed(), cpu: cpu_now() - cpu };
    assert!(matches!(outcome, JobOutcome::Finished { .. }), "{outcome:?}");
    cost
}

fn runtime(flavor: Flavor) -> HostRuntime {
    let runtime = HostRuntime::new(Some(compiled())).expect("an engine can be made");
    match flavor {
        Flavor::Wasm => runtime,
        Flavor::Native => runtime.with_operators(Arc::new(native::NativeOperators)),
    }
}

fn cpu_now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CPU time so far of this process's threads whose names begin so; those that have ended do not count.
///
/// # Panics
/// If the kernel does not tell.
pub fn cpu_of_threads(name: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the kernel lists threads");
    let folders = tasks.map(|task| task.expect("it can be listed").path());
    let of = |folder: PathBuf| {
        // A thread may end while it is looked at.
        let is_named = std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.starts_with(name));
        let stat = std::fs::read_to_string(folder.join("schedstat")).ok().filter(|_| is_named)?;
        stat.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(folders.filter_map(of).sum())
}

/// What a running job had done and used at one moment.
#[derive(Clone, Copy, Debug)]
struct Figure {
    at: Instant,
    cpu: Duration,
    records: u64,
}

/// What it cost to process so many records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Records that left the source.
    pub records: u64,
    /// Wall clock.
    pub wall: Duration,
    /// CPU time of the whole process, background work included.
    pub cpu: Duration,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.records += other.records;
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |mut sum, cost| {
            sum += cost;
            sum
        })
    }
}

impl Cost {
    /// Of work on so many records.
    pub fn of(records: u64, work: impl FnOnce()) -> Self {
        let (wall, cpu) = (Instant::now(), cpu_now());
        work();
        Cost { records, wall: wall.elapsed(), cpu: cpu_now() - cpu }
    }

    /// Records a second, in millions.
    pub fn rate(&self) -> f64 {
        self.records as f64 / 1e6 / self.wall.as_secs_f64()
    }

    /// CPU seconds for a million records.
    pub fn cpu_per_million(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.records as f64 / 1e6)
    }
}

/// When to look at a peer, whose source has no end.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Left out before: maps grow to their size, a JVM compiles.
    pub warm: Duration,
    /// The span that is measured.
    pub length: Duration,
}

/// An endless job in this process. Its cost is taken between two of its own figures, so that start-up and end do not count.
pub struct LiveJob {
    figures: Receiver<Figure>,
    last: Figure,
    stop: StopHandle,
    thread: Option<JoinHandle<JobOutcome>>,
    // Removed last.
    _scratch: tempfile::TempDir,
}

impl LiveJob {
    /// Starts the job from nothing and waits for its first figure.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(workload: Workload, flavor: Flavor) -> Self {
        LiveJob::start_parallel(workload, flavor, 1)
    }

    /// As [`Self::start`], with so many subtasks.
    ///
    /// # Panics
    /// As there.
    pub fn start_parallel(workload: Workload, flavor: Flavor, parallelism: u32) -> Self {
        LiveJob::start_text(&job_file(workload, parallelism), flavor)
    }

    /// As [`Self::start`], of a job file's text.
    ///
    /// # Panics
    /// As there.
    pub fn start_text(text: &str, flavor: Flavor) -> Self {
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let folder = scratch.path().canonicalize().expect("it exists");
        let (graph, options) = job_in(&folder, text);
        let runtime = runtime(flavor);
        let (stop, signal) = stop_pair();
        let (sender, figures) = channel();
        let listener = move |event| {
            if let JobEvent::Progress(progress) = event {
                let records = progress.stages.first().map_or(0, |source| source.records_in);
                // Nobody listens any more once the job is being stopped.
                let _ = sender.send(Figure { at: Instant::now(), cpu: cpu_now(), records });
            }
        };
        let thread = std::thread::spawn(move || runtime.run(graph, options, signal, Arc::new(listener)));
        let start = Figure { at: Instant::now(), cpu: cpu_now(), records: 0 };
        let mut job = LiveJob { figures, last: start, stop, thread: Some(thread), _scratch: scratch };
        job.last = job.next();
        job
    }

    /// The job's next figure.
    fn next(&mut self) -> Figure {
        self.figures.recv().unwrap_or_else(|_| {
            let outcome = self.thread.take().map(JoinHandle::join);
            panic!("the job does not go on until it is stopped: {outcome:?}")
        })
    }

    /// Records that have left its source, by its last figure.
    pub fn passed(&self) -> u64 {
        self.last.records
    }

    /// Waits for at least so long, and gives how long it was.
    ///
    /// # Panics
    /// If the job ends.
    pub fn run_for(&mut self, span: Duration) -> Duration {
        let first = self.last.at;
        while self.last.at - first < span {
            self.last = self.next();
        }
        self.last.at - first
    }

    /// Waits until at least so many more records have passed, and gives what they cost.
    ///
    /// # Panics
    /// If the job ends.
    pub fn advance(&mut self, records: u64) -> Cost {
        let first = self.last;
        while self.last.records < first.records + records {
            self.last = self.next();
        }
        Cost {
            records: self.last.records - first.records,
            wall: self.last.at - first.at,
            cpu: self.last.cpu.saturating_sub(first.cpu),
        }
    }
}

impl Drop for LiveJob {
    fn drop(&mut self) {
        self.stop.ask(StopRequest::Now);
        let outcome = self.thread.take().map(JoinHandle::join);
        // While a panic unwinds, a second one would hide the first.
        if !std::thread::panicking() {
            assert!(matches!(outcome, Some(Ok(JobOutcome::Stopped { .. }))), "the job ended otherwise: {outcome:?}");
        }
    }
}
