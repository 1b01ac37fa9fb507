//! What the tests share: backends by flavor, keys from byte strings, a storage that checks what is uploaded.

use crate::state::{
    BackendKind, CellBackend, CheckpointedBackend, LocalSnapshot, RestoredState, SnapshotFile, files, open_backend,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;
use weir_plugin::batch::Cells;
use weir_plugin::state::{Keys, StateError, StateId, key_hash};
use weir_protocol::CheckpointId;
use weir_protocol::freeze::FreezePolicy;
use weir_protocol::ids::Generation;

/// Which backend, and how tight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// With a budget that is never reached: there is no store.
    Rocks,
    /// With a budget that a few hundred keys reach: from then on there is a store.
    Small,
    /// Evicts, freezes by itself and begins new bases all the time.
    Tight,
    /// Without a bound, and so without a store; begins new bases all the time.
    Memory,
}

pub const FLAVORS: [Flavor; 4] = [Flavor::Rocks, Flavor::Small, Flavor::Tight, Flavor::Memory];

/// Lets few things wait, and begins a new base after a few deltas.
const TIGHT: FreezePolicy =
    FreezePolicy { copying_max: 1, waiting_max: 2, rebase_percent: 100, rebase_bytes_min: 20_000, deltas_max: 6 };

/// Everything in one: (state, key) to value.
pub type Model = BTreeMap<(StateId, Vec<u8>), Vec<u8>>;

type Done = Receiver<Result<LocalSnapshot, StateError>>;

/// Opens backends one after the other in one folder, as the generations of a job do.
pub struct Rig {
    pub flavor: Flavor,
    folder: TempDir,
    generation: u32,
    sequence: u32,
    pub storage: Storage,
}

impl Rig {
    pub fn new(flavor: Flavor) -> Self {
        let folder = TempDir::new().expect("the test has a temporary folder");
        let storage = Storage::new(folder.path().join("shared"));
        Rig { flavor, folder, generation: 0, sequence: 0, storage }
    }

    /// The working folder of the newest generation.
    pub fn working_folder(&self) -> PathBuf {
        self.folder.path().join(format!("state-{}", self.generation))
    }

    pub fn try_open(&mut self, restore: Option<RestoredState>) -> Result<Box<dyn CheckpointedBackend>, StateError> {
        self.generation += 1;
        self.sequence = 0;
        let (folder, prefix) = (self.working_folder(), format!("{}-stats-0", self.generation));
        match self.flavor {
            Flavor::Rocks => open_backend(BackendKind::Rocks, folder, prefix, 256 << 20, restore),
            Flavor::Small => open_backend(BackendKind::Rocks, folder, prefix, 40 << 10, restore),
            Flavor::Tight | Flavor::Memory => {
                let budget = if self.flavor == Flavor::Tight { 40 << 10 } else { usize::MAX };
                let backend = CellBackend::open_with(folder, prefix, budget, restore.unwrap_or_default(), TIGHT)?;
                Ok(Box::new(backend))
            }
        }
    }

    pub fn open(&mut self, restore: Option<RestoredState>) -> Box<dyn CheckpointedBackend> {
        self.try_open(restore).expect("the backend opens")
    }

    pub fn next_checkpoint(&mut self) -> CheckpointId {
        self.sequence += 1;
        CheckpointId::new(Generation(self.generation), self.sequence)
    }

    /// Takes a snapshot to its end, uploads it and completes it.
    pub fn checkpoint(&mut self, backend: &mut dyn CheckpointedBackend) -> RestoredState {
        let snapshot = self.snapshot(backend);
        self.complete(backend, &snapshot)
    }

    /// Takes a snapshot to its end.
    pub fn snapshot(&mut self, backend: &mut dyn CheckpointedBackend) -> LocalSnapshot {
        let done = freeze(backend, self.next_checkpoint());
        finish(backend, &done)
    }

    pub fn complete(&mut self, backend: &mut dyn CheckpointedBackend, snapshot: &LocalSnapshot) -> RestoredState {
        let restored = self.storage.upload(snapshot);
        self.storage.complete(snapshot);
        backend.completed(snapshot.checkpoint);
        restored
    }
}

/// Begins a snapshot.
pub fn freeze(backend: &mut dyn CheckpointedBackend, checkpoint: CheckpointId) -> Done {
    let (send, done) = channel();
    // A test that restores does not wait for what was under way.
    backend.freeze(checkpoint, Box::new(move |result| drop(send.send(result)))).expect("a freeze succeeds");
    done
}

/// Sweeps until there is nothing to sweep, and waits for the snapshot.
pub fn finish(backend: &mut dyn CheckpointedBackend, done: &Done) -> LocalSnapshot {
    sweep_all(backend);
    done.recv().expect("the callback is called").expect("the snapshot succeeds")
}

pub fn sweep_all(backend: &mut dyn CheckpointedBackend) {
    while backend.sweep().expect("a sweep succeeds") {}
}

/// Keys of a call, with what they point into.
pub struct OwnedKeys {
    data: Vec<u8>,
    spans: Vec<(u32, u32)>,
    hashes: Vec<u64>,
}

impl OwnedKeys {
    pub fn new<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Self {
        let mut owned = OwnedKeys { data: Vec::new(), spans: Vec::new(), hashes: Vec::new() };
        for key in keys {
            let start = owned.data.len() as u32;
            owned.data.extend_from_slice(key.as_ref());
            owned.spans.push((start, owned.data.len() as u32));
            owned.hashes.push(key_hash(key.as_ref()));
        }
        owned
    }

    pub fn get(&self) -> Keys<'_> {
        Keys { data: &self.data, spans: &self.spans, hashes: &self.hashes }
    }
}

/// Cells from optional values: `None` deletes.
pub fn updates<V: AsRef<[u8]>>(values: impl IntoIterator<Item = Option<V>>) -> Cells {
    let mut cells = Cells::new();
    for value in values {
        match value {
            Some(value) => cells.push_put(value.as_ref()),
            None => cells.push_delete(),
        }
    }
    cells
}

/// Writes through the hot path.
pub fn write(backend: &mut dyn CheckpointedBackend, state: StateId, rows: &[(&[u8], Option<&[u8]>)]) {
    let keys = OwnedKeys::new(rows.iter().map(|row| row.0));
    let mut out = Vec::new();
    backend.prefetch(keys.get(), &[state], &mut out).expect("a prefetch succeeds");
    let cells = updates(rows.iter().map(|row| row.1));
    backend.apply(keys.get(), &[state], &[cells]).expect("an apply succeeds");
}

pub fn read(backend: &mut dyn CheckpointedBackend, state: StateId, key: &[u8]) -> Option<Vec<u8>> {
    let keys = OwnedKeys::new([key]);
    let mut cells = Cells::new();
    backend.get_many(state, keys.get(), &mut cells).expect("a read succeeds");
    assert_eq!(cells.len(), 1);
    cells.get(0).map(<[u8]>::to_vec)
}

/// All keys of a scan, in pages.
pub fn scan(backend: &mut dyn CheckpointedBackend, states: &[StateId], page: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        let next = backend.scan_keys(states, keys.last().map(Vec::as_slice), page).expect("a scan succeeds");
        let is_end = next.len() < page;
        assert!(next.len() <= page);
        keys.extend(next);
        if is_end {
            let distinct: BTreeSet<_> = keys.iter().collect();
            assert_eq!(distinct.len(), keys.len(), "a key came twice");
            return keys;
        }
    }
}

/// Everything that a backend holds in these states.
pub fn dump(backend: &mut dyn CheckpointedBackend, states: &[StateId]) -> Model {
    let mut model = Model::new();
    for &state in states {
        let found = scan(backend, &[state], 7);
        let keys = OwnedKeys::new(&found);
        let mut cells = Cells::new();
        backend.get_many(state, keys.get(), &mut cells).expect("a read succeeds");
        for (i, key) in found.into_iter().enumerate() {
            model.insert((state, key), cells.get(i).expect("a scanned key has a value").to_vec());
        }
    }
    model
}

/// A checkpoint storage that believes nothing.
pub struct Storage {
    folder: PathBuf,
    /// Names that a completed manifest holds.
    completed: BTreeSet<String>,
}

impl Storage {
    fn new(folder: PathBuf) -> Self {
        std::fs::create_dir_all(&folder).expect("the storage's folder is made");
        Storage { folder, completed: BTreeSet::new() }
    }

    /// Uploads what is not stored, and says how to restore the snapshot.
    pub fn upload(&self, snapshot: &LocalSnapshot) -> RestoredState {
        let upload = |file: &SnapshotFile| {
            let to = self.folder.join(&file.name);
            assert_eq!(
                file.stored,
                self.completed.contains(&file.name),
                "{}: 'stored' means: in a completed manifest",
                file.name
            );
            if !file.stored {
                assert!(!to.exists(), "S3: {} is uploaded twice", file.name);
                check(file, &file.local);
                std::fs::copy(&file.local, &to).expect("the upload succeeds");
            }
            check(file, &to);
            SnapshotFile { local: to, stored: true, ..file.clone() }
        };
        RestoredState { base: snapshot.base.iter().map(upload).collect(), deltas: snapshot.deltas.iter().map(upload).collect() }
    }

    pub fn complete(&mut self, snapshot: &LocalSnapshot) {
        self.completed.extend(snapshot.base.iter().chain(&snapshot.deltas).map(|file| file.name.clone()));
    }
}

/// A file's content is what its snapshot says.
pub fn check(file: &SnapshotFile, path: &Path) {
    let (bytes, checksum) = files::measure(path).expect("a snapshot's file can be read");
    assert_eq!((bytes, &checksum), (file.bytes, &file.checksum), "{} at {}", file.name, path.display());
}
