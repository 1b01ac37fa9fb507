//! The work that is counted: a plugin's calls, a keyed operator over RocksDB, and the state alone.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use weir_host::state::{BackendKind, CheckpointedBackend, LocalSnapshot, open_backend};
use weir_plugin::batch::{Cells, RecordBatch};
use weir_plugin::state::{KeyGrouping, KeyedStateBackend};
use weir_plugin::{CallTimes, EngineConfig, Grants, Limits, LoadOptions, OperatorInstance, PluginEngine, TaskInfo, TaskSetup};
use weir_protocol::{CheckpointId, Generation};
use weir_tests::scratch::Scratch;
use weir_tests::{Seeded, guest};

/// Records of a batch.
pub const BATCH: usize = 1024;
/// A key and its counter.
pub const ROW_BYTES: u64 = 16;

/// Something that is done batch by batch.
pub trait Work {
    /// Does it so many times.
    fn run(&mut self, batches: u64);
}

/// Compiled plugins are kept, as the host keeps them: what is counted does not compile.
fn instance(name: &str) -> OperatorInstance {
    let cache = std::env::var_os("WEIR_CACHE").map_or_else(std::env::temp_dir, PathBuf::from).join("compiled-for-counts");
    let engine = PluginEngine::new(&EngineConfig { cache: Some(cache), ..EngineConfig::default() }).expect("an engine");
    let plugin = engine.load_file(&guest(name), &LoadOptions::default()).expect("the guest is built");
    let task = TaskInfo { job: "counts".into(), operator: name.into(), subtask: 0, parallelism: 1, attempt: 1 };
    let setup = TaskSetup { task, config: "{}".into(), limits: Limits::default(), grants: Grants::default() };
    OperatorInstance::new(&plugin, &setup).expect("the guest opens")
}

/// Draws keys from a fixed range into batches of 100-byte values that end in an even byte.
struct Records {
    batches: Vec<RecordBatch>,
    next: usize,
}

impl Records {
    /// Some batches, that come again and again: to make them is none of the work that is counted.
    fn new(keys: u64) -> Self {
        let mut random = Seeded(1);
        let mut batch = || {
            let mut batch = RecordBatch::new();
            (0..BATCH).for_each(|_| batch.push(&random.below(keys).to_le_bytes(), &[b'0'; 100], 0));
            batch
        };
        Records { batches: (0..8).map(|_| batch()).collect(), next: 0 }
    }

    fn next(&mut self) -> &RecordBatch {
        self.next += 1;
        &self.batches[self.next % self.batches.len()]
    }
}

/// Records in and out again.
pub struct Boundary {
    instance: OperatorInstance,
    records: Records,
}

impl Boundary {
    pub fn open() -> Self {
        Boundary { instance: instance("filter_even"), records: Records::new(1_000_000) }
    }
}

impl Work for Boundary {
    fn run(&mut self, batches: u64) {
        let batch = self.records.next();
        for _ in 0..batches {
            let output = self.instance.process(0, batch, None).expect("the guest takes everything");
            assert_eq!(output.main.iter().map(RecordBatch::len).sum::<usize>(), BATCH);
        }
    }
}

/// An exchange by key between two subtasks, and the grouping that follows it.
pub struct Exchange {
    grouping: KeyGrouping,
    records: Records,
}

impl Exchange {
    pub fn open(keys: u64) -> Self {
        Exchange { grouping: KeyGrouping::new(), records: Records::new(keys) }
    }
}

impl Work for Exchange {
    fn run(&mut self, batches: u64) {
        for _ in 0..batches {
            let parts = self.records.next().split_by_key(2);
            assert_eq!(parts.iter().map(RecordBatch::len).sum::<usize>(), BATCH);
            for part in &parts {
                self.grouping.group(part);
                assert!(!self.grouping.keys(part).is_empty());
            }
        }
    }
}

/// Counters by key, through Wasm.
pub struct Keyed {
    instance: OperatorInstance,
    state: State,
    records: Records,
}

impl Keyed {
    pub fn open(keys: u64) -> Self {
        Keyed { instance: instance("keyed_count"), state: State::open(keys), records: Records::new(keys) }
    }

    pub fn times(&self) -> CallTimes {
        self.instance.times()
    }
}

impl Work for Keyed {
    fn run(&mut self, batches: u64) {
        let Keyed { instance, state: State { backend, .. }, records } = self;
        for _ in 0..batches {
            let state: &mut dyn KeyedStateBackend = &mut **backend;
            let output = instance.process(0, records.next(), Some(state)).expect("the guest takes everything");
            assert_eq!(output.main.iter().map(RecordBatch::len).sum::<usize>(), BATCH);
            backend.sweep().expect("the disk can be written");
        }
    }
}

/// Counters by key, without a plugin.
pub struct State {
    backend: Box<dyn CheckpointedBackend>,
    grouping: KeyGrouping,
    cells: Vec<Cells>,
    updates: Vec<Cells>,
    last: CheckpointId,
    // Removed last.
    _scratch: Scratch,
}

impl State {
    /// With a counter for each key.
    pub fn open(keys: u64) -> Self {
        let scratch = Scratch::new();
        let backend = open_backend(BackendKind::Rocks, scratch.path("state"), "1-count-0".into(), 256 << 20, None)
            .expect("a backend can be opened");
        let (grouping, cells, updates) = (KeyGrouping::new(), Vec::new(), vec![Cells::new()]);
        let last = CheckpointId::new(Generation(1), 0);
        let mut state = State { backend, grouping, cells, updates, last, _scratch: scratch };
        state.count_first(keys);
        state
    }

    /// Adds one to the counters of the first keys.
    pub fn count_first(&mut self, keys: u64) {
        let mut batch = RecordBatch::new();
        for first in (0..keys).step_by(BATCH) {
            batch.clear();
            (first..keys.min(first + BATCH as u64)).for_each(|key| batch.push(&key.to_le_bytes(), &[], 0));
            self.count(&batch);
        }
    }

    fn count(&mut self, batch: &RecordBatch) {
        let State { backend, grouping, cells, updates, .. } = self;
        grouping.group(batch);
        let keys = grouping.keys(batch);
        backend.prefetch(keys, &[0], cells).expect("the disk can be read");
        updates[0].clear();
        for i in 0..keys.len() {
            let before = cells[0].get(i).map_or(0, |count| u64::from_le_bytes(count.try_into().expect("a counter has 8 bytes")));
            updates[0].push_put(&(before + 1).to_le_bytes());
        }
        backend.apply(keys, &[0], updates).expect("the disk can be written");
        backend.sweep().expect("the disk can be written");
    }

    /// From the barrier to the last file.
    pub fn snapshot(&mut self) -> LocalSnapshot {
        self.last = self.last.next();
        let (send, done) = channel();
        let callback = Box::new(move |result: Result<LocalSnapshot, _>| send.send(result).expect("somebody waits"));
        self.backend.freeze(self.last, callback).expect("the disk can be written");
        while self.backend.sweep().expect("the disk can be written") {}
        let snapshot = done.recv().expect("a freeze is never cancelled").expect("the disk has room");
        self.backend.completed(snapshot.checkpoint);
        snapshot
    }
}

/// The state, given batch after batch.
pub struct StateAlone {
    state: State,
    records: Records,
}

impl StateAlone {
    pub fn open(keys: u64) -> Self {
        StateAlone { state: State::open(keys), records: Records::new(keys) }
    }
}

impl Work for StateAlone {
    fn run(&mut self, batches: u64) {
        (0..batches).for_each(|_| self.state.count(self.records.next()));
    }
}
