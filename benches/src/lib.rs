//! Workloads that benches share: whole jobs in this process, with operators as Wasm plugins or as the same code natively.

pub mod native;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_host::coordinator::HostRuntime;
use weir_host::graph::job_file;
use weir_host::job::{JobOutcome, RunOptions, Runtime, StartMode, stop_pair};

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
    /// Upper-cases every value; one chain.
    Map,
    /// Counts by key, state in this backend, checkpoint every 10 s.
    KeyedCount {
        /// `rocksdb` or `memory`.
        backend: &'static str,
        /// Distinct keys.
        keys: u64,
    },
}

/// What one run cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Wall clock, start-up and final checkpoint included.
    pub wall: Duration,
    /// CPU time of the whole process.
    pub cpu: Duration,
}

/// The repository's component of this name.
pub fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("benches/ lies in the repository").join("guests/out").join(name)
}

fn job_file(workload: Workload, records: u64) -> String {
    let (keys, backend, plugin) = match workload {
        Workload::Map => (1_000_000, "memory", "map_upper.wasm"),
        Workload::KeyedCount { backend, keys } => (keys, backend, "keyed_count.wasm"),
    };
    let plugin = guest(plugin);
    let plugin = plugin.display();
    format!(
        r#"
[job]
name = "bench"
parallelism = 1
[checkpoint]
interval = "10s"
[state]
backend = "{backend}"
cache = "1GiB"
[[source]]
name = "numbers"
connector = "sequence"
count = {records}
keys = {keys}
value_bytes = 100
seed = 7
[[operator]]
name = "work"
plugin = "{plugin}"
from = "numbers"
[[sink]]
name = "nowhere"
connector = "discard"
from = "work"
"#
    )
}

fn cpu_now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Runs the workload over so many records, from nothing, and says what it cost.
///
/// # Panics
/// If the job does not finish.
pub fn run(workload: Workload, flavor: Flavor, records: u64) -> Cost {
    let scratch = tempfile::tempdir().expect("a scratch folder can be made");
    let text = job_file(workload, records);
    let folder = scratch.path().canonicalize().expect("it exists");
    let graph = job_file::parse(&text, &folder.join("job.toml"), &folder, &|_| None).expect("the bench's job file is right");
    let runtime = HostRuntime::new(Some(std::env::temp_dir().join("weir-bench-compiled"))).expect("an engine can be made");
    let runtime = match flavor {
        Flavor::Wasm => runtime,
        Flavor::Native => runtime.with_operators(Arc::new(native::NativeOperators)),
    };
    let options = RunOptions { data: folder.join("data"), mode: StartMode::Resume, allow_duplicates: false };
    let (_handle, signal) = stop_pair();
    let (wall, cpu) = (Instant::now(), cpu_now());
    let outcome = runtime.run(graph, options, signal, Arc::new(|_| {}));
    assert!(matches!(outcome, JobOutcome::Finished { .. }), "{outcome:?}");
    Cost { wall: wall.elapsed(), cpu: cpu_now() - cpu }
}
