//! Everything in memory, every snapshot whole: the fastest for state that fits, and no store to tune.
//!
//! Snapshot file, little-endian: `WEIRMEM1` · u64 rows · rows · u128 XXH3 of all before. A row is
//! u32 key length · store key · u32 value length · value; the store key is that of the other backend, and rows ascend by it.
//! A freeze copies everything (its synchronous part grows with the state); a thread sorts the copy and writes the file.

use super::cache::{CellCache, NONE, PASS_KEYS};
use super::cell::Kind;
use super::copies::{Copies, split_key};
use super::{CheckpointedBackend, LocalSnapshot, LookUps, RestoredState, SnapshotDone, SnapshotFile, files, state_error};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use weir_plugin::batch::{CellOp, Cells};
use weir_plugin::state::{KeyedStateBackend, Keys, StateError, StateId, key_group, key_hash};
use weir_protocol::CheckpointId;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"WEIRMEM1";
/// Bytes of the checksum at the end.
const CHECKSUM: usize = 16;

/// See the module.
pub struct MemoryBackend {
    /// A cell for every key with a value, and for no other.
    cells: CellCache,
    /// States and cells of the last `prefetch`, state by state, as long as nothing was written since.
    located: (Vec<StateId>, Vec<u32>),
    scan: Scan,
    look_ups: LookUps,
    folder: PathBuf,
    prefix: String,
    /// Number of the last snapshot file.
    last: u64,
    /// Local files, by the checkpoint that they belong to.
    files: BTreeMap<CheckpointId, PathBuf>,
    writer: Writer,
}

/// A scan under way: its keys in order, as they were when it began.
#[derive(Default)]
struct Scan {
    states: Vec<StateId>,
    keys: Vec<(u16, Vec<u8>)>,
    /// Keys before it were returned.
    next: usize,
}

impl MemoryBackend {
    /// See [`open_backend`](super::open_backend).
    pub fn open(folder: PathBuf, name_prefix: String, restore: RestoredState) -> Result<Self, StateError> {
        files::fresh_folder(&folder)?;
        let mut backend = MemoryBackend {
            cells: CellCache::new(),
            located: Default::default(),
            scan: Scan::default(),
            look_ups: LookUps::default(),
            folder,
            prefix: name_prefix,
            last: 0,
            files: BTreeMap::new(),
            writer: Writer::start()?,
        };
        for file in restore.base.iter().chain(&restore.deltas) {
            files::look_at(file)?;
            backend.read(&file.local)?;
        }
        Ok(backend)
    }

    /// Sets the value of a key whose cell is not known, if it has one.
    fn put(&mut self, state: StateId, key: &[u8], hash: u64, value: &[u8]) {
        match self.cells.find(state, key, hash) {
            Some(id) => self.cells.pool.set_value(id, Some(value)),
            None => {
                self.cells.insert(state, key, hash, Some(value));
            }
        }
    }

    fn read_all(&mut self, state: StateId, keys: Keys<'_>, ids: &mut Vec<u32>, out: &mut Cells) {
        out.clear();
        for from in (0..keys.len()).step_by(PASS_KEYS) {
            let begin = ids.len();
            self.cells.find_all(state, keys, from..keys.len().min(from + PASS_KEYS), ids);
            let misses = self.cells.misses().len();
            self.look_ups.hits += (ids.len() - begin - misses) as u64;
            self.look_ups.misses += misses as u64;
            for &id in &ids[begin..] {
                match id {
                    NONE => out.push_none(),
                    id => out.push_put(self.cells.pool.value(id).expect("a cell that is kept has a value")),
                }
            }
        }
    }

    fn write_all(&mut self, state: StateId, keys: Keys<'_>, ids: &[u32], cells: &Cells) {
        for (i, &id) in ids.iter().enumerate() {
            self.write(id, state, keys, cells, i);
        }
    }

    /// Does what cell `i` says.
    #[inline(always)]
    fn write(&mut self, id: u32, state: StateId, keys: Keys<'_>, cells: &Cells, i: usize) {
        match (cells.op(i), id) {
            (CellOp::None, _) | (CellOp::Delete, NONE) => {}
            // It may stand twice in one call, and have been made a moment ago.
            (CellOp::Put, NONE) => self.put(state, keys.key(i), keys.hashes[i], cells.value(i)),
            (CellOp::Put, id) => self.cells.pool.set_value(id, Some(cells.value(i))),
            (CellOp::Delete, id) => self.cells.remove(id),
        }
    }

    /// Ids of all cells.
    fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.cells.pool.id_bound()).filter(|&id| self.cells.pool.get(id).kind != Kind::Free)
    }

    fn copy(&self) -> Copies {
        let (mut copies, pool) = (Copies::default(), &self.cells.pool);
        for id in self.ids() {
            let cell = pool.get(id);
            copies.push(cell.group, cell.state, pool.key(id), pool.value(id));
        }
        copies
    }

    /// Reads a snapshot file.
    fn read(&mut self, path: &Path) -> Result<(), StateError> {
        let what = || format!("reading state file {}", path.display());
        let bytes = std::fs::read(path).map_err(|e| state_error(what(), e))?;
        let corrupt = |why: &str| state_error(what(), format!("{why}: it is corrupt"));
        let (rows, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| corrupt("it is too short"))?;
        if xxhash_rust::xxh3::xxh3_128(rows).to_le_bytes() != *checksum {
            return Err(corrupt("its checksum is wrong"));
        }
        let mut rest = rows.strip_prefix(MAGIC).ok_or_else(|| corrupt("it does not begin with WEIRMEM1"))?;
        let count = take::<8>(&mut rest).map(u64::from_le_bytes).ok_or_else(|| corrupt("its header is cut"))?;
        for _ in 0..count {
            let (store_key, value) = take_row(&mut rest).ok_or_else(|| corrupt("a row is cut"))?;
            let (_, state, key) = split_key(store_key).ok_or_else(|| corrupt("a key is too short"))?;
            let hash = key_hash(key);
            self.put(state, key, hash, value);
        }
        if rest.is_empty() { Ok(()) } else { Err(corrupt("there are bytes after its rows")) }
    }

    fn begin_scan(&mut self, states: &[StateId]) {
        let pool = &self.cells.pool;
        let wanted = self.ids().filter(|&id| states.contains(&pool.get(id).state));
        let mut keys: Vec<_> = wanted.map(|id| (pool.get(id).group, pool.key(id).to_vec())).collect();
        keys.sort_unstable();
        keys.dedup();
        self.scan = Scan { states: states.to_vec(), keys, next: 0 };
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take::<4>(rest).map(u32::from_le_bytes)? as usize;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

fn take_row<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    Some((take_bytes(rest)?, take_bytes(rest)?))
}

impl KeyedStateBackend for MemoryBackend {
    fn prefetch(&mut self, keys: Keys<'_>, states: &[StateId], out: &mut Vec<Cells>) -> Result<(), StateError> {
        out.resize_with(states.len(), Cells::new);
        let (mut located, mut ids) = std::mem::take(&mut self.located);
        ids.clear();
        for (&state, out) in states.iter().zip(out) {
            self.read_all(state, keys, &mut ids, out);
        }
        located.clear();
        located.extend_from_slice(states);
        self.located = (located, ids);
        Ok(())
    }

    fn apply(&mut self, keys: Keys<'_>, states: &[StateId], updates: &[Cells]) -> Result<(), StateError> {
        if updates.is_empty() {
            return Ok(());
        }
        assert_eq!(states.len(), updates.len(), "one column of updates for each state");
        let (located, mut ids) = std::mem::take(&mut self.located);
        if located != states || ids.len() != states.len() * keys.len() {
            ids.clear();
            for &state in states {
                self.cells.find_all(state, keys, 0..keys.len(), &mut ids);
            }
        }
        for ((&state, ids), updates) in states.iter().zip(ids.chunks_exact(keys.len().max(1))).zip(updates) {
            assert_eq!(keys.len(), updates.len(), "one update for each key");
            self.write_all(state, keys, ids, updates);
        }
        // A cell that was deleted may be another key's by the next call.
        ids.clear();
        self.located = (located, ids);
        Ok(())
    }

    fn get_many(&mut self, state: StateId, keys: Keys<'_>, out: &mut Cells) -> Result<(), StateError> {
        let mut ids = Vec::with_capacity(keys.len());
        self.read_all(state, keys, &mut ids, out);
        Ok(())
    }

    fn put_many(&mut self, state: StateId, keys: Keys<'_>, cells: &Cells) -> Result<(), StateError> {
        assert_eq!(keys.len(), cells.len(), "one cell for each key");
        self.located.1.clear();
        // One by one: a key may stand twice.
        for i in 0..keys.len() {
            let id = self.cells.find(state, keys.key(i), keys.hashes[i]).unwrap_or(NONE);
            self.write(id, state, keys, cells, i);
        }
        Ok(())
    }

    fn scan_keys(&mut self, states: &[StateId], after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, StateError> {
        let after = after.map(|key| (key_group(key_hash(key)), key.to_vec()));
        let last = self.scan.next.checked_sub(1).map(|at| &self.scan.keys[at]);
        if after.is_none() || last != after.as_ref() || self.scan.states != states {
            self.begin_scan(states);
            self.scan.next = after.map_or(0, |after| self.scan.keys.partition_point(|key| *key <= after));
        }
        let page: Vec<Vec<u8>> = self.scan.keys[self.scan.next..].iter().take(limit).map(|(_, key)| key.clone()).collect();
        self.scan.next += page.len();
        if page.len() < limit {
            self.scan = Scan::default();
        }
        Ok(page)
    }
}

impl CheckpointedBackend for MemoryBackend {
    fn freeze(&mut self, checkpoint: CheckpointId, done: SnapshotDone) -> Result<(), StateError> {
        self.last += 1;
        let name = files::stored_name(&self.prefix, checkpoint, self.last, "state.mem");
        let path = self.folder.join(&name);
        self.files.insert(checkpoint, path.clone());
        self.writer.write(Job { checkpoint, name, path, copies: self.copy(), done })
    }

    fn sweep(&mut self) -> Result<bool, StateError> {
        self.writer.check()?;
        Ok(false)
    }

    fn completed(&mut self, checkpoint: CheckpointId) {
        // The completed file is stored; what is older is in no snapshot that can still complete.
        let newer = self.files.split_off(&checkpoint.next());
        for path in std::mem::replace(&mut self.files, newer).into_values() {
            files::remove_unneeded(&path);
        }
    }

    fn aborted(&mut self, checkpoint: CheckpointId) {
        // Every snapshot is whole: no later one refers to this file.
        if let Some(path) = self.files.remove(&checkpoint) {
            files::remove_unneeded(&path);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.cells.bytes()
    }

    fn look_ups(&self) -> LookUps {
        self.look_ups
    }
}

/// The thread that writes snapshot files, in order.
struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Why writing has failed.
    failure: Arc<Mutex<Option<String>>>,
}

struct Job {
    checkpoint: CheckpointId,
    name: String,
    path: PathBuf,
    copies: Copies,
    done: SnapshotDone,
}

impl Writer {
    fn start() -> Result<Self, StateError> {
        let (jobs, inbox) = channel::<Job>();
        let failure = Arc::new(Mutex::new(None));
        let on_thread = Arc::clone(&failure);
        let thread = std::thread::Builder::new()
            .name("weir-store".to_owned())
            .spawn(move || {
                for job in inbox {
                    let (result, done) = job.run();
                    if let Err(e) = &result {
                        *on_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(e.to_string());
                    }
                    done(result);
                }
            })
            .map_err(|e| state_error("starting the store writer's thread", e))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), failure })
    }

    fn check(&self) -> Result<(), StateError> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(state_error("writing state", why.clone())),
            None => Ok(()),
        }
    }

    fn write(&self, job: Job) -> Result<(), StateError> {
        let refused = match (self.check(), &self.jobs) {
            (Ok(()), Some(jobs)) => match jobs.send(job) {
                Ok(()) => return Ok(()),
                Err(back) => (back.0, state_error("writing state", "the store writer has ended: a bug in Weir")),
            },
            (Ok(()), None) => (job, state_error("writing state", "the state backend is closing")),
            (Err(failure), _) => (job, failure),
        };
        let (job, failure) = refused;
        (job.done)(Err(state_error("writing state", failure.to_string())));
        Err(failure)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Job {
    fn run(self) -> (Result<LocalSnapshot, StateError>, SnapshotDone) {
        let Job { checkpoint, name, path, copies, done } = self;
        let result = write_file(&path, encode(copies)).map(|(bytes, checksum)| {
            let file = SnapshotFile { name, local: path, bytes, checksum, stored: false };
            LocalSnapshot { checkpoint, base: vec![file], deltas: Vec::new() }
        });
        (result, done)
    }
}

/// The content of a snapshot file, without its checksum.
fn encode(copies: Copies) -> Vec<u8> {
    let mut content = Vec::with_capacity(copies.bytes());
    content.extend_from_slice(MAGIC);
    content.extend_from_slice(&(copies.rows() as u64).to_le_bytes());
    for (key, value) in copies.in_order() {
        let value = value.expect("what is deleted is not in the map");
        for part in [key, value] {
            content.extend_from_slice(&(part.len() as u32).to_le_bytes());
            content.extend_from_slice(part);
        }
    }
    content
}

/// Writes the content and its checksum, and makes it durable. Length and checksum of the file as a whole.
fn write_file(path: &Path, mut content: Vec<u8>) -> Result<(u64, String), StateError> {
    let checksum = xxhash_rust::xxh3::xxh3_128(&content);
    content.extend_from_slice(&checksum.to_le_bytes());
    let write = || {
        let mut file = File::create_new(path)?;
        file.write_all(&content)?;
        file.sync_all()
    };
    write().map_err(|e| state_error(format!("writing state file {}", path.display()), e))?;
    let mut hash = Xxh3::new();
    hash.update(&content);
    Ok((content.len() as u64, files::checksum_text(&hash)))
}
