//! The default backend: a write-back cache over RocksDB, with snapshots by copy on update.
//!
//! A call on the record path is a few passes over its keys, so that the latencies of memory overlap: slots, cells, compare;
//! what is not cached is read from the store in one batch. Writes only mark cells; the freeze carries them to the store.

use super::cache::{CellCache, PASS_KEYS};
use super::cell::{Cell, Kind};
use super::copies::{key_prefix, split_key};
use super::freeze::FrozenSets;
use super::lineup::{BEFORE, Folders, Lineup};
use super::rocks::{self, LinkedFile, RocksStore};
use super::scan::ScanOverlay;
use super::writer::StoreWriter;
use super::{CheckpointedBackend, LookUps, RestoredState, SnapshotDone, files, state_error};
use std::path::PathBuf;
use std::sync::Arc;
use weir_plugin::batch::{CellOp, Cells};
use weir_plugin::state::{KeyedStateBackend, Keys, StateError, StateId, key_group, key_hash};
use weir_protocol::CheckpointId;
use weir_protocol::freeze::{Cause, FreezePolicy, FreezeQueue, SetId, SnapshotList};

/// Cells that one call of `sweep` copies: about 0.1 ms.
const SWEEP_CELLS: usize = 2048;
/// Cells that the clock looks at before a call below the memory limit: about 0.1 ms.
const EVICT_STEPS: usize = 16 * PASS_KEYS;

/// A new base when the deltas are twice as large as the base: a restore reads at most three times the state, and bases add
/// at most half to what deltas upload. Below 64 MiB only the number of files counts.
const POLICY: FreezePolicy =
    FreezePolicy { copying_max: 2, waiting_max: 4, rebase_percent: 200, rebase_bytes_min: 64 << 20, deltas_max: 128 };

/// See the module.
pub struct RocksBackend {
    cache: CellCache,
    sets: FrozenSets,
    /// Where the clock's hand stands.
    hand: u32,
    /// **B1** While true, every key with a value has a cell: a key without one is absent, and the store is not asked.
    knows_all: bool,
    /// The restored state is being read into the cells, from this store key on.
    reading_in: Option<Vec<u8>>,
    budget: Budget,
    located: Located,
    scratch: Scratch,
    look_ups: LookUps,
    overlay: ScanOverlay,
    /// Before `store`: its thread ends first.
    writer: StoreWriter,
    store: Arc<RocksStore>,
}

/// Bounds on memory, in bytes.
struct Budget {
    /// Clean cells are evicted above this.
    cache: usize,
    /// Restored state is read in up to this.
    read_in: usize,
    /// Cells written since the last freeze: above this the backend freezes by itself.
    high_water: usize,
    /// Never more than this and one batch: the subtask waits for the store writer.
    limit: usize,
}

/// Where the cells of the last `prefetch` lie.
#[derive(Default)]
struct Located {
    states: Vec<StateId>,
    /// State by state, one id for each key. Empty: nothing is known.
    cells: Vec<u32>,
}

/// Memory of the passes, kept from call to call.
#[derive(Default)]
struct Scratch {
    misses: Vec<u32>,
    keys: Vec<u8>,
    ends: Vec<usize>,
}

impl RocksBackend {
    /// See [`open_backend`](super::open_backend).
    pub fn open(folder: PathBuf, name_prefix: String, budget_bytes: usize, restore: RestoredState) -> Result<Self, StateError> {
        RocksBackend::open_with(folder, name_prefix, budget_bytes, restore, POLICY)
    }

    /// Opens with another policy.
    pub(super) fn open_with(
        folder: PathBuf,
        name_prefix: String,
        budget_bytes: usize,
        restore: RestoredState,
        policy: FreezePolicy,
    ) -> Result<Self, StateError> {
        assert!(policy.waiting_max > policy.copying_max, "a freeze can wait for a set that is all copied");
        files::fresh_folder(&folder)?;
        let folders = Folders::new(folder);
        files::make_folder(&folders.deltas())?;
        let store = Arc::new(restored_store(&folders, &restore)?);
        let mut lineup = Lineup::new(name_prefix);
        let base = lineup.restore(&restore.base);
        lineup.restored_base(&base);
        let deltas = lineup.restore(&restore.deltas);
        let is_new = base.is_empty() && deltas.is_empty();
        let queue = match is_new {
            true => FreezeQueue::new(policy),
            false => FreezeQueue::restored(policy, SnapshotList { checkpoint: BEFORE, base, deltas }),
        };
        // A state that is many times larger would only fill the cells with keys that nobody may ask for.
        let fits = store.rows()? as usize * size_of::<Cell>() <= budget_bytes.saturating_mul(2);
        let reading_in = (!is_new && fits).then(Vec::new);
        let writer = StoreWriter::start(Arc::clone(&store), folders, queue, lineup)?;
        let read_in = budget_bytes / 3 * 2;
        let budget = Budget {
            read_in,
            cache: budget_bytes,
            high_water: budget_bytes / 2,
            limit: budget_bytes.saturating_add(budget_bytes / 4),
        };
        Ok(RocksBackend {
            cache: CellCache::new(),
            sets: FrozenSets::new(),
            hand: 0,
            knows_all: is_new,
            reading_in,
            budget,
            located: Located::default(),
            scratch: Scratch::default(),
            look_ups: LookUps::default(),
            overlay: ScanOverlay::default(),
            writer,
            store,
        })
    }
}

/// Looks at every file, links the base, ingests the deltas in their order.
fn restored_store(folders: &Folders, restore: &RestoredState) -> Result<RocksStore, StateError> {
    let mut base = Vec::with_capacity(restore.base.len());
    for file in &restore.base {
        files::look_at(file)?;
        let what = files::what_of(&file.name)
            .ok_or_else(|| state_error(format!("restoring state file {}", file.name), "this is not the name of a base file"))?;
        base.push(LinkedFile { what: what.to_owned(), path: file.local.clone() });
    }
    // Without them RocksDB would open an empty store.
    let is_store = base.iter().all(|file| rocks::is_table(&file.what) || rocks::is_index(&file.what))
        && (base.is_empty() || base.iter().filter(|file| rocks::is_index(&file.what)).count() == 2);
    if !is_store {
        let names: Vec<_> = restore.base.iter().map(|file| file.name.as_str()).collect();
        return Err(state_error("restoring a base", format!("these are not the files of a RocksDB store: {}", names.join(", "))));
    }
    for file in &restore.deltas {
        files::look_at(file)?;
    }
    let store = RocksStore::open(folders.root(), &base)?;
    let deltas: Vec<_> = restore.deltas.iter().map(|file| file.local.as_path()).collect();
    store.ingest(&deltas)?;
    Ok(store)
}

/// Look-ups and writes.
impl RocksBackend {
    /// Finds or loads the cells of `state` for all keys; appends their ids to `ids`, and their values to `out`.
    fn look_up(&mut self, state: StateId, keys: Keys<'_>, ids: &mut Vec<u32>, out: &mut Cells) -> Result<(), StateError> {
        let mut from = 0;
        while from < keys.len() {
            let to = keys.len().min(from + PASS_KEYS);
            self.look_up_pass(state, keys, from..to, ids, out)?;
            from = to;
        }
        Ok(())
    }

    fn look_up_pass(
        &mut self,
        state: StateId,
        keys: Keys<'_>,
        range: std::ops::Range<usize>,
        ids: &mut Vec<u32>,
        out: &mut Cells,
    ) -> Result<(), StateError> {
        let begin = ids.len();
        self.cache.find_all(state, keys, range.clone(), ids);
        let misses = self.cache.misses().len();
        self.look_ups.hits += (range.len() - misses) as u64;
        self.look_ups.misses += misses as u64;
        if !self.cache.misses().is_empty() {
            self.load(state, keys, range.start, &mut ids[begin..])?;
        }
        for &id in &ids[begin..] {
            match self.cache.pool.value(id) {
                Some(value) => out.push_put(value),
                None => out.push_none(),
            }
        }
        Ok(())
    }

    /// Reads the missing keys from the store in one batch, and caches what it says, absence too.
    fn load(&mut self, state: StateId, keys: Keys<'_>, start: usize, ids: &mut [u32]) -> Result<(), StateError> {
        if self.knows_all {
            return self.add_absent(state, keys, start, ids);
        }
        self.look_ups.store_reads += self.cache.misses().len() as u64;
        let RocksBackend { cache, scratch, store, .. } = self;
        scratch.keys.clear();
        scratch.ends.clear();
        scratch.ends.push(0);
        scratch.misses.clear();
        scratch.misses.extend_from_slice(cache.misses());
        for &at in &scratch.misses {
            let i = start + at as usize;
            scratch.keys.extend_from_slice(&key_prefix(key_group(keys.hashes[i]), state));
            scratch.keys.extend_from_slice(keys.key(i));
            scratch.ends.push(scratch.keys.len());
        }
        let store_keys = scratch.ends.windows(2).map(|ends| &scratch.keys[ends[0]..ends[1]]);
        store.read(store_keys, |miss, value| {
            let at = scratch.misses[miss] as usize;
            ids[at] = cache.find_or_insert(state, keys.key(start + at), keys.hashes[start + at], value);
        })
    }

    /// Caches the absence of the missing keys, without asking the store (B1).
    fn add_absent(&mut self, state: StateId, keys: Keys<'_>, start: usize, ids: &mut [u32]) -> Result<(), StateError> {
        let RocksBackend { cache, scratch, store, .. } = self;
        scratch.misses.clear();
        scratch.misses.extend_from_slice(cache.misses());
        for &at in &scratch.misses {
            let at = at as usize;
            let (key, hash) = (keys.key(start + at), keys.hashes[start + at]);
            if cfg!(test) {
                let store_key = [&key_prefix(key_group(hash), state)[..], key].concat();
                store.read(std::iter::once(&store_key[..]), |_, value| assert_eq!(value, None, "B1: the store knows more"))?;
            }
            ids[at] = cache.find_or_insert(state, key, hash, None);
        }
        Ok(())
    }

    /// Sets or deletes one cell's value.
    #[inline(always)]
    fn write(&mut self, id: u32, value: Option<&[u8]>) {
        if !self.sets.is_dirty(self.cache.pool.get(id).written) {
            // What did not change is not written again: a delta holds changes only.
            if self.cache.pool.holds(id, value) {
                return;
            }
            self.sets.first_write(&mut self.cache.pool, id);
        }
        self.cache.pool.set_value(id, value);
    }

    /// Writes the cells of one state.
    fn write_all(&mut self, ids: &[u32], updates: &Cells) {
        assert_eq!(ids.len(), updates.len(), "one update for each key");
        for (i, &id) in ids.iter().enumerate() {
            match updates.op(i) {
                CellOp::None => {}
                CellOp::Put => self.write(id, Some(updates.value(i))),
                CellOp::Delete => self.write(id, None),
            }
        }
    }

    /// Writes a key that may not be cached, without reading the store.
    fn write_blind(&mut self, state: StateId, key: &[u8], hash: u64, value: Option<&[u8]>) {
        match self.cache.find(state, key, hash) {
            Some(id) => {
                self.cache.pool.get_mut(id).referenced = true;
                self.write(id, value);
            }
            None => {
                let id = self.cache.insert(state, key, hash, value);
                self.sets.first_write(&mut self.cache.pool, id);
            }
        }
    }
}

/// Memory and sets.
impl RocksBackend {
    /// What precedes every call that may take memory: learns what is ingested, evicts, freezes at the high-water mark, waits at
    /// the limit. Cells may go: nothing is located any more.
    fn make_room(&mut self) -> Result<(), StateError> {
        self.located.cells.clear();
        let ingested = self.writer.ingested()?;
        self.sets.unpin(ingested);
        if self.dirty_bytes() > self.budget.high_water {
            self.freeze_set(Cause::HighWater, None)?;
        }
        if self.memory() > self.budget.cache {
            self.evict(EVICT_STEPS);
            while self.memory() > self.budget.limit {
                self.evict(usize::MAX);
                if self.memory() <= self.budget.limit || self.sets.pinned() == 0 {
                    break;
                }
                if !self.wait_for_ingest()? {
                    self.freeze_set(Cause::HighWater, None)?;
                }
            }
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        // A store so large that its filters alone would fill the budget must leave some of it to the cells.
        let store = self.writer.store_bytes().min(self.budget.cache / 2);
        self.cache.bytes() + self.sets.bytes() + self.writer.bytes() + self.overlay.bytes() + store
    }

    /// Bytes of the cells written since the last freeze, taking each for an average one.
    fn dirty_bytes(&self) -> usize {
        match self.cache.pool.live() {
            0 => 0,
            live => (self.cache.pool.bytes() as u128 * self.sets.dirty() as u128 / live as u128) as usize,
        }
    }

    /// Waits until one more set is ingested, copying the oldest first if the store writer has nothing to do. False: there is none.
    fn wait_for_ingest(&mut self) -> Result<bool, StateError> {
        if !self.sets.is_waiting() {
            match self.sets.oldest() {
                Some(oldest) => self.finish_copies(SetId(u64::from(oldest))),
                None => return Ok(false),
            }
        }
        let ingested = self.writer.wait(self.sets.ingested())?;
        self.sets.unpin(ingested);
        Ok(true)
    }

    /// Closes the open set.
    fn freeze_set(&mut self, cause: Cause, done: Option<SnapshotDone>) -> Result<(), StateError> {
        while self.writer.must_wait() {
            let waited = self.wait_for_ingest()?;
            assert!(waited, "the queue waits for a set, but none is frozen");
        }
        let (number, cells) = self.sets.freeze();
        for set in self.writer.freeze(SetId(u64::from(number)), cause, cells, done)? {
            self.finish_copies(set);
        }
        self.hand_over();
        Ok(())
    }

    /// Copies the rest of every set up to this one.
    fn finish_copies(&mut self, set: SetId) {
        while self.sets.oldest().is_some_and(|oldest| u64::from(oldest) <= set.0) {
            self.sets.sweep(&mut self.cache.pool, usize::MAX);
            self.hand_over();
        }
    }

    /// Gives the sets that are all copied to the store writer, in order.
    fn hand_over(&mut self) {
        while let Some((number, cells, copies)) = self.sets.take_copied() {
            if cells == 0 {
                continue;
            }
            let finish = self.writer.copied(SetId(u64::from(number)), cells, copies);
            assert!(finish.is_empty(), "a set that is all copied asks for no other copies");
        }
    }

    /// Evicts clean cells until memory is within the budget, all are pinned, or so many were looked at: a clock with a second
    /// chance.
    fn evict(&mut self, steps: usize) {
        let mut clean = self.cache.pool.live() - self.sets.pinned();
        // Two rounds: the first one may only take the second chances away.
        let mut steps = steps.min(self.cache.pool.id_bound() as usize * 2);
        while clean > 0 && steps > 0 && self.memory() > self.budget.cache {
            steps -= 1;
            self.hand = if self.hand + 1 < self.cache.pool.id_bound() { self.hand + 1 } else { 0 };
            let cell = self.cache.pool.get_mut(self.hand);
            if cell.kind == Kind::Free || !self.sets.is_clean(cell.written) {
                continue;
            }
            if std::mem::take(&mut cell.referenced) {
                continue;
            }
            self.remove(self.hand);
            clean -= 1;
        }
    }

    /// Reads the next rows of a restored state into cells. Once all are there the store is not asked any more (B1).
    ///
    /// A key that has a cell is passed over: its value there is newer, or the same. One that has none is not pinned, so the store
    /// holds its newest value. If a value is evicted meanwhile, this ends: it would not be all.
    fn read_in(&mut self) -> Result<(), StateError> {
        let Some(from) = self.reading_in.take() else { return Ok(()) };
        if self.memory() > self.budget.read_in {
            return Ok(());
        }
        let RocksBackend { cache, store, .. } = self;
        let (mut rows, mut next) = (0, None);
        store.scan(&from, |store_key, value| {
            if rows == SWEEP_CELLS {
                next = Some(store_key.to_vec());
                return false;
            }
            rows += 1;
            let (_, state, key) = split_key(store_key).expect("only keys of ours are in the store");
            let hash = key_hash(key);
            if cache.find(state, key, hash).is_none() {
                cache.insert(state, key, hash, Some(value));
            }
            true
        })?;
        self.knows_all = next.is_none();
        self.reading_in = next;
        Ok(())
    }

    fn remove(&mut self, id: u32) {
        if self.cache.pool.get(id).kind != Kind::Absent {
            self.knows_all = false;
            self.reading_in = None;
        }
        self.cache.remove(id);
    }
}

impl KeyedStateBackend for RocksBackend {
    fn prefetch(&mut self, keys: Keys<'_>, states: &[StateId], out: &mut Vec<Cells>) -> Result<(), StateError> {
        self.make_room()?;
        out.resize_with(states.len(), Cells::new);
        let mut ids = std::mem::take(&mut self.located.cells);
        for (&state, out) in states.iter().zip(out.iter_mut()) {
            out.clear();
            self.look_up(state, keys, &mut ids, out)?;
        }
        self.located.states.clear();
        self.located.states.extend_from_slice(states);
        self.located.cells = ids;
        Ok(())
    }

    fn apply(&mut self, keys: Keys<'_>, states: &[StateId], updates: &[Cells]) -> Result<(), StateError> {
        if updates.is_empty() {
            return Ok(());
        }
        assert_eq!(states.len(), updates.len(), "one column of updates for each state");
        if self.located.states != states || self.located.cells.len() != states.len() * keys.len() {
            for (&state, updates) in states.iter().zip(updates) {
                self.put_many(state, keys, updates)?;
            }
            return Ok(());
        }
        let ids = std::mem::take(&mut self.located.cells);
        for (ids, updates) in ids.chunks_exact(keys.len().max(1)).zip(updates) {
            self.write_all(ids, updates);
        }
        self.located.cells = ids;
        Ok(())
    }

    fn get_many(&mut self, state: StateId, keys: Keys<'_>, out: &mut Cells) -> Result<(), StateError> {
        // Between prefetch and apply nothing may be evicted.
        if self.located.cells.is_empty() {
            self.make_room()?;
        }
        out.clear();
        let mut ids = Vec::with_capacity(keys.len());
        self.look_up(state, keys, &mut ids, out)
    }

    fn put_many(&mut self, state: StateId, keys: Keys<'_>, cells: &Cells) -> Result<(), StateError> {
        if self.located.cells.is_empty() {
            self.make_room()?;
        }
        assert_eq!(keys.len(), cells.len(), "one cell for each key");
        for i in 0..keys.len() {
            match cells.op(i) {
                CellOp::None => {}
                CellOp::Put => self.write_blind(state, keys.key(i), keys.hashes[i], Some(cells.value(i))),
                CellOp::Delete => self.write_blind(state, keys.key(i), keys.hashes[i], None),
            }
        }
        Ok(())
    }

    fn scan_keys(&mut self, states: &[StateId], after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, StateError> {
        let ingested = self.writer.ingested()?;
        self.sets.unpin(ingested);
        if !self.overlay.covers(states, after) {
            self.overlay = ScanOverlay::of(&self.cache.pool, &self.sets, states);
        }
        let page = self.overlay.page(&self.store, states, after, limit)?;
        if page.len() < limit {
            self.overlay = ScanOverlay::default();
        }
        Ok(page)
    }
}

impl CheckpointedBackend for RocksBackend {
    fn freeze(&mut self, checkpoint: CheckpointId, done: SnapshotDone) -> Result<(), StateError> {
        self.located.cells.clear();
        self.freeze_set(Cause::Barrier(checkpoint), Some(done))
    }

    fn sweep(&mut self) -> Result<bool, StateError> {
        self.make_room()?;
        self.sets.sweep(&mut self.cache.pool, SWEEP_CELLS);
        self.hand_over();
        // Copies are waited for; reading in is not.
        if self.sets.oldest().is_none() {
            self.read_in()?;
        }
        Ok(self.sets.oldest().is_some() || self.reading_in.is_some())
    }

    fn completed(&mut self, checkpoint: CheckpointId) {
        self.writer.completed(checkpoint);
    }

    fn aborted(&mut self, checkpoint: CheckpointId) {
        self.writer.aborted(checkpoint);
    }

    fn memory_bytes(&self) -> usize {
        self.memory()
    }

    fn look_ups(&self) -> LookUps {
        self.look_ups
    }
}
