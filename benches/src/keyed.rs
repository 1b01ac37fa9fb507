//! A state backend without a job around it: counters by key, as an operator's subtask drives them.

use crate::{Cost, cpu_now};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use weir_host::connectors::sequence::key_number;
use weir_host::state::{BackendKind, CheckpointedBackend, LocalSnapshot, RestoredState, SnapshotFile, open_backend};
use weir_plugin::batch::Cells;
use weir_plugin::state::{Keys, key_hash};
use weir_protocol::CheckpointId;
use weir_protocol::ids::Generation;

/// Keys of one call.
pub const BATCH: usize = 1024;
/// The default of `[state].cache`, bytes.
pub const CACHE: usize = 256 << 20;

/// An open backend in a folder of its own.
pub struct Store {
    backend: Box<dyn CheckpointedBackend>,
    cells: Vec<Cells>,
    updates: [Cells; 1],
    keys: KeyColumn,
    last: CheckpointId,
    /// Uniform keys drawn so far.
    drawn: u64,
    folder: tempfile::TempDir,
}

/// Keys as a batch has them.
#[derive(Default)]
struct KeyColumn {
    data: Vec<u8>,
    spans: Vec<(u32, u32)>,
    hashes: Vec<u64>,
}

impl KeyColumn {
    fn fill(&mut self, numbers: impl Iterator<Item = u64>) {
        self.data.clear();
        self.spans.clear();
        self.hashes.clear();
        for number in numbers {
            let (key, start) = (number.to_le_bytes(), self.data.len() as u32);
            self.data.extend_from_slice(&key);
            self.spans.push((start, start + 8));
            self.hashes.push(key_hash(&key));
        }
    }

    fn keys(&self) -> Keys<'_> {
        Keys { data: &self.data, spans: &self.spans, hashes: &self.hashes }
    }
}

/// A snapshot under way.
pub struct Frozen {
    /// How long the subtask stood still.
    pub sync: Duration,
    begun: (Instant, Duration),
    done: Receiver<LocalSnapshot>,
}

/// A snapshot that is done.
pub struct Snapshot {
    /// Its files.
    pub files: LocalSnapshot,
    /// From the barrier to the last file.
    pub wall: Duration,
    /// CPU time of the process in that time.
    pub cpu: Duration,
}

impl Snapshot {
    /// Bytes that a checkpoint has to store: of deltas, and of a new base.
    pub fn new_bytes(&self) -> (u64, u64) {
        let sum = |files: &[SnapshotFile]| files.iter().filter(|file| !file.stored).map(|file| file.bytes).sum();
        (sum(&self.files.deltas), sum(&self.files.base))
    }
}

impl Store {
    /// Opens one, empty or with what a snapshot holds.
    ///
    /// # Panics
    /// As all of this type: if the disk has no room.
    pub fn open(kind: BackendKind, from: Option<&Snapshot>) -> Self {
        Store::open_with(kind, CACHE, from)
    }

    /// As [`Self::open`], with so many bytes of cells.
    ///
    /// # Panics
    /// As there.
    pub fn open_with(kind: BackendKind, cache: usize, from: Option<&Snapshot>) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        let working: PathBuf = folder.path().join("state");
        let restore =
            from.map(|snapshot| RestoredState { base: snapshot.files.base.clone(), deltas: snapshot.files.deltas.clone() });
        let generation = Generation(if from.is_some() { 2 } else { 1 });
        let prefix = format!("{generation}-count-0");
        let backend = open_backend(kind, working, prefix, cache, restore).expect("a backend can be opened");
        Store {
            backend,
            cells: Vec::new(),
            updates: Default::default(),
            keys: KeyColumn::default(),
            last: CheckpointId::new(generation, 0),
            drawn: 0,
            folder,
        }
    }

    /// Adds one to the counter of each of these keys, which are distinct or nearly so: one call, and the slice of background work
    /// after it.
    pub fn count(&mut self, numbers: impl Iterator<Item = u64>) -> Cost {
        let Store { backend, cells, updates, keys, .. } = self;
        keys.fill(numbers);
        let keys = keys.keys();
        Cost::of(keys.len() as u64, || {
            backend.prefetch(keys, &[0], cells).expect("the disk can be read");
            updates[0].clear();
            for i in 0..keys.len() {
                let before =
                    cells[0].get(i).map_or(0, |count| u64::from_le_bytes(count.try_into().expect("a counter has 8 bytes")));
                updates[0].push_put(&(before + 1).to_le_bytes());
            }
            backend.apply(keys, &[0], updates).expect("the disk can be written");
            backend.sweep().expect("the disk can be written");
        })
    }

    /// One batch of keys below `keys`, each as likely as the others.
    pub fn count_uniform(&mut self, keys: u64) -> Cost {
        let first = self.drawn;
        self.drawn += BATCH as u64;
        self.count((first..self.drawn).map(|i| key_number(7, keys, i)))
    }

    /// Counts each key below `keys` once.
    pub fn fill(&mut self, keys: u64) -> Cost {
        (0..keys).step_by(BATCH).map(|first| self.count(first..keys.min(first + BATCH as u64))).sum()
    }

    /// The barrier of the next checkpoint.
    pub fn freeze(&mut self) -> Frozen {
        self.last = self.last.next();
        let (send, done) = channel();
        let begun = (Instant::now(), cpu_now());
        let callback = Box::new(move |result: Result<LocalSnapshot, _>| {
            // Nobody may wait for it any more.
            drop(send.send(result.expect("the disk has room")));
        });
        self.backend.freeze(self.last, callback).expect("the disk can be written");
        Frozen { sync: begun.0.elapsed(), begun, done }
    }

    /// Waits for a snapshot with nothing else to do, and completes its checkpoint.
    pub fn finish(&mut self, frozen: &Frozen) -> Snapshot {
        while self.backend.sweep().expect("the disk can be written") {}
        let files = frozen.done.recv().expect("a freeze is never cancelled");
        let (wall, cpu) = (frozen.begun.0.elapsed(), cpu_now() - frozen.begun.1);
        Snapshot { files: self.complete(files), wall, cpu }
    }

    /// Completes a checkpoint if its snapshot is done.
    pub fn try_finish(&mut self, frozen: &Frozen) -> bool {
        match frozen.done.try_recv() {
            Ok(files) => {
                self.complete(files);
                true
            }
            Err(_) => false,
        }
    }

    /// Stores the files as a checkpoint on the same disk does, by a link; those that it does not name any more are removed.
    fn complete(&mut self, mut snapshot: LocalSnapshot) -> LocalSnapshot {
        let stored = self.folder.path().join("stored");
        std::fs::create_dir_all(&stored).expect("the scratch folder can be written");
        let mut names = HashSet::new();
        for file in snapshot.base.iter_mut().chain(&mut snapshot.deltas) {
            let to = stored.join(&file.name);
            if !file.stored {
                std::fs::hard_link(&file.local, &to).expect("the scratch folder can be written");
            }
            file.local = to;
            names.insert(file.name.clone());
        }
        for entry in std::fs::read_dir(&stored).expect("the scratch folder can be read") {
            let entry = entry.expect("the scratch folder can be read");
            if !names.contains(&*entry.file_name().to_string_lossy()) {
                std::fs::remove_file(entry.path()).expect("the scratch folder can be written");
            }
        }
        self.backend.completed(snapshot.checkpoint);
        snapshot
    }

    /// Barrier to last file in one go.
    pub fn snapshot(&mut self) -> Snapshot {
        let frozen = self.freeze();
        self.finish(&frozen)
    }
}
