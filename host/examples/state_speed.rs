//! Speed of keyed state alone: prefetch and apply of a counter for each key, uniform keys, one thread, snapshots on the way.
//!
//! `cargo run --release -p weir-host --example state_speed -- [keys] [seconds] [interval_s] [budget_mib] [rocksdb|memory]`
//! Defaults: 2,000,000 keys, 10 seconds after the warm-up, a snapshot every second, 512 MiB, both backends.

use std::error::Error;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use weir_host::state::{BackendKind, CheckpointedBackend, LocalSnapshot, SharedResources, open_backend};
use weir_plugin::batch::{Cells, RecordBatch};
use weir_plugin::state::{KeyGrouping, StateError};
use weir_protocol::CheckpointId;
use weir_protocol::ids::Generation;

/// Records of one batch.
const BATCH: usize = 1024;

struct Options {
    keys: u64,
    measured: Duration,
    interval: Duration,
    budget_bytes: usize,
    kinds: Vec<BackendKind>,
}

/// The steps of a batch.
const STEPS: [&str; 5] = ["group", "prefetch", "operator", "apply", "sweep"];

/// What each batch spent in each step, in ns, and its snapshots.
#[derive(Default)]
struct Spent {
    batches: Vec<[u64; STEPS.len()]>,
    freezes: Vec<Freeze>,
}

struct Freeze {
    sync: Duration,
    total: Option<Duration>,
    upload_bytes: u64,
    begun: Instant,
    done: Receiver<Result<LocalSnapshot, StateError>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (keys, seconds, interval, budget_mib) = (number(2_000_000)?, number(10)?, number(1)?, number(512)?);
    let kinds = match args.next() {
        Some(name) => vec![BackendKind::from_name(&name).ok_or("the backend is rocksdb or memory")?],
        None => vec![BackendKind::Rocks, BackendKind::Memory],
    };
    let options = Options {
        keys,
        measured: Duration::from_secs(seconds),
        interval: Duration::from_secs(interval),
        budget_bytes: (budget_mib as usize) << 20,
        kinds,
    };
    let folder = std::env::temp_dir().join(format!("weir-state-speed-{}", std::process::id()));
    for &kind in &options.kinds {
        run(kind, &options, &folder)?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn run(kind: BackendKind, options: &Options, folder: &Path) -> Result<(), Box<dyn Error>> {
    let shared = SharedResources::new(64 << 20);
    let folder = folder.join(kind.name());
    let mut backend = open_backend(kind, folder, "1-speed-0".to_owned(), options.budget_bytes, &shared, None)?;
    let mut keys = Keys { random: 0x0123_4567_89AB_CDEF, count: options.keys };
    warm_up(backend.as_mut(), options.keys)?;
    let spent = measure(backend.as_mut(), &mut keys, options)?;
    report(kind, options, &spent, backend.memory_bytes());
    Ok(())
}

/// A batch of records with uniform keys and values of 100 bytes.
struct Keys {
    random: u64,
    count: u64,
}

impl Keys {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % self.count
    }
}

/// Every key once.
fn warm_up(backend: &mut dyn CheckpointedBackend, keys: u64) -> Result<(), Box<dyn Error>> {
    let mut spent = Spent::default();
    let mut state = Buffers::default();
    for from in (0..keys).step_by(BATCH) {
        state.batch.clear();
        for key in from..keys.min(from + BATCH as u64) {
            state.batch.push(&key.to_le_bytes(), &[7; 100], 0);
        }
        state.process(backend, &mut spent)?;
    }
    Ok(())
}

fn measure(backend: &mut dyn CheckpointedBackend, keys: &mut Keys, options: &Options) -> Result<Spent, Box<dyn Error>> {
    let (mut spent, mut state) = (Spent::default(), Buffers::default());
    let begin = Instant::now();
    let mut next = begin;
    while begin.elapsed() < options.measured {
        state.batch.clear();
        for _ in 0..BATCH {
            state.batch.push(&keys.next().to_le_bytes(), &[7; 100], 0);
        }
        state.process(backend, &mut spent)?;
        if Instant::now() >= next && spent.freezes.last().is_none_or(|freeze| freeze.total.is_some()) {
            let checkpoint = CheckpointId::new(Generation(1), spent.freezes.len() as u32 + 1);
            let (send, done) = channel();
            let begun = Instant::now();
            backend.freeze(checkpoint, Box::new(move |result| drop(send.send(result))))?;
            spent.freezes.push(Freeze { sync: begun.elapsed(), total: None, upload_bytes: 0, begun, done });
            next = begun + options.interval;
        }
        settle(backend, &mut spent)?;
    }
    while spent.freezes.iter().any(|freeze| freeze.total.is_none()) {
        backend.sweep()?;
        settle(backend, &mut spent)?;
        std::thread::yield_now();
    }
    Ok(spent)
}

/// Completes the snapshots that are linked.
fn settle(backend: &mut dyn CheckpointedBackend, spent: &mut Spent) -> Result<(), StateError> {
    for freeze in spent.freezes.iter_mut().filter(|freeze| freeze.total.is_none()) {
        if let Ok(result) = freeze.done.try_recv() {
            let snapshot = result?;
            freeze.total = Some(freeze.begun.elapsed());
            freeze.upload_bytes = snapshot.base.iter().chain(&snapshot.deltas).filter(|f| !f.stored).map(|f| f.bytes).sum();
            backend.completed(snapshot.checkpoint);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Buffers {
    batch: RecordBatch,
    grouping: KeyGrouping,
    values: Vec<Cells>,
    updates: Vec<Cells>,
    counts: Vec<u64>,
}

impl Buffers {
    /// One call of a counting operator, and one slice of background work.
    fn process(&mut self, backend: &mut dyn CheckpointedBackend, spent: &mut Spent) -> Result<(), StateError> {
        let Buffers { batch, grouping, values, updates, counts } = self;
        let start = Instant::now();
        grouping.group(batch);
        let grouped = Instant::now();
        let keys = grouping.keys(batch);
        backend.prefetch(keys, &[0], values)?;
        let fetched = Instant::now();
        counts.clear();
        counts.extend((0..keys.len()).map(|i| match values[0].get(i) {
            Some(value) => u64::from_le_bytes(value.try_into().expect("the operator wrote eight bytes")),
            None => 0,
        }));
        for key in grouping.key_of.chunks_exact(4) {
            counts[u32::from_le_bytes(key.try_into().expect("chunks of four")) as usize] += 1;
        }
        updates.resize_with(1, Cells::new);
        updates[0].clear();
        for count in counts {
            updates[0].push_put(&count.to_le_bytes());
        }
        let computed = Instant::now();
        backend.apply(keys, &[0], updates)?;
        let applied = Instant::now();
        backend.sweep()?;
        let swept = Instant::now();
        let times = [start, grouped, fetched, computed, applied, swept];
        spent.batches.push(std::array::from_fn(|step| (times[step + 1] - times[step]).as_nanos() as u64));
        Ok(())
    }
}

/// Of sorted samples.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// The mean counts what else the machine did; the median batch is nearly free of it.
fn report(kind: BackendKind, options: &Options, spent: &Spent, memory_bytes: usize) {
    let batches = &spent.batches;
    println!("{}: {} keys, {} records, {} MiB in memory", kind.name(), options.keys, batches.len() * BATCH, memory_bytes >> 20);
    let print = |name: &str, samples: &mut dyn Iterator<Item = u64>| {
        let mut samples: Vec<u64> = samples.collect();
        samples.sort_unstable();
        let mean = samples.iter().sum::<u64>() as f64 / (samples.len() * BATCH) as f64;
        let median = quantile(&samples, 0.5) as f64 / BATCH as f64;
        let tail = [0.99, 0.9999, 1.0].map(|share| quantile(&samples, share) as f64 / 1e6);
        println!(
            "  {name:9} ns/record: median {median:6.1} mean {mean:6.1}; ms/batch: p99 {:.2} p99.99 {:.2} max {:.2}",
            tail[0], tail[1], tail[2]
        );
    };
    for (step, name) in STEPS.iter().enumerate() {
        print(name, &mut batches.iter().map(|batch| batch[step]));
    }
    print("together", &mut batches.iter().map(|batch| batch.iter().sum()));
    for freeze in &spent.freezes {
        let (sync_ms, total_ms) = (freeze.sync.as_secs_f64() * 1e3, freeze.total.map_or(0, |total| total.as_millis()));
        println!("  snapshot: sync {sync_ms:.3} ms, linked after {total_ms} ms, {} KiB to upload", freeze.upload_bytes >> 10);
    }
}
