//! Cells in memory with snapshots by copy on update; once they have no room for the whole state, a write-back cache over RocksDB.
//!
//! A call on the record path is a few passes over its keys, so that the latencies of memory overlap: slots, cells, compare;
//! what is not cached is read from the store in one batch. Writes only mark cells; the freeze carries them to files, and to the
//! store if there is one.

use super::cache::{CellCache, PASS_KEYS};
use super::cell::{Cell, Kind};
use super::copies::{key_prefix, split_key};
use super::freeze::FrozenSets;
use super::lineup::{BEFORE, Folders, Lineup};
use super::scan::ScanOverlay;
use super::writer::StoreWriter;
use super::{BackendKind, CheckpointedBackend, LookUps, RestoredState, SnapshotDone, files, restore};
use std::path::PathBuf;
use weir_plugin::batch::{CellOp, Cells};
use weir_plugin::state::{KeyedStateBackend, Keys, StateError, StateId, cell_hash, key_group};
use weir_protocol::CheckpointId;
use weir_protocol::freeze::{Cause, FreezePolicy, FreezeQueue, Residence, SetId, SnapshotList};

/// Cells that one call of `sweep` copies: about 0.1 ms.
const SWEEP_CELLS: usize = 2048;
/// Cells that the clock looks at before a call below the memory limit: about 0.1 ms.
const EVICT_STEPS: usize = 16 * PASS_KEYS;
/// Cells that are evicted together: few enough that no more than needed go, enough for their slots' latencies to overlap.
const EVICT_TOGETHER: usize = 16;

/// Bytes of a cell, for an estimate.
const LINE: usize = 64;

/// A new base when the deltas are twice as large as the base: a restore reads at most three times the state, and bases add
/// at most half to what deltas upload. Below 8 MiB only the number of files counts.
const POLICY: FreezePolicy =
    FreezePolicy { copying_max: 2, waiting_max: 4, rebase_percent: 200, rebase_bytes_min: 8 << 20, deltas_max: 128 };

/// See the module.
pub struct CellBackend {
    cache: CellCache,
    sets: FrozenSets,
    /// Where the clock's hand stands.
    hand: u32,
    /// **B1** While true, every key with a value has a cell: a key without one is absent, and the store is not asked.
    knows_all: bool,
    purge: Purge,
    /// **B2** The set that makes the store. Cells with a value are evicted only once it is ingested. None: there is no store.
    store_from: Option<u32>,
    /// The restored state is being read into the cells, from this store key on.
    reading_in: Option<Vec<u8>>,
    budget: Budget,
    located: Located,
    scratch: Scratch,
    look_ups: LookUps,
    overlay: ScanOverlay,
    writer: StoreWriter,
}

/// Bounds on memory, in bytes.
struct Budget {
    /// Without a store: one is made above this. What is left must hold what comes until it is there.
    spill: usize,
    /// Clean cells are evicted above this.
    cache: usize,
    /// Restored state is read in up to this.
    read_in: usize,
    /// Cells written since the last freeze: above this the backend freezes by itself.
    high_water: usize,
    /// Never more than this and one batch: the subtask waits for the store writer.
    limit: usize,
}

/// Without a store: the way of the clock's hand over all cells to take away those without a value. Nothing else does: a key that
/// is deleted, or asked for and absent, would have a cell for ever.
struct Purge {
    /// Cells to look at still. 0: no round is under way.
    left: usize,
    /// Cells that the last round has left.
    kept: usize,
}

/// Cells that are not worth a round (4 MiB).
const PURGE_FROM: usize = 64 << 10;

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

impl CellBackend {
    /// See [`open_backend`](super::open_backend).
    pub fn open(
        kind: BackendKind,
        folder: PathBuf,
        name_prefix: String,
        budget_bytes: usize,
        restore: RestoredState,
    ) -> Result<Self, StateError> {
        let budget_bytes = match kind {
            BackendKind::Rocks => budget_bytes,
            BackendKind::Memory => usize::MAX,
        };
        CellBackend::open_with(folder, name_prefix, budget_bytes, restore, POLICY)
    }

    /// Opens with another policy.
    pub(super) fn open_with(
        folder: PathBuf,
        name_prefix: String,
        budget_bytes: usize,
        restored: RestoredState,
        policy: FreezePolicy,
    ) -> Result<Self, StateError> {
        assert!(policy.waiting_max > policy.copying_max, "a freeze can wait for a set that is all copied");
        files::fresh_folder(&folder)?;
        let folders = Folders::new(folder);
        files::make_folder(&folders.sets())?;
        let budget = Budget {
            spill: budget_bytes / 4 * 3,
            read_in: budget_bytes / 2,
            cache: budget_bytes / 5 * 4,
            high_water: budget_bytes / 5 * 2,
            limit: budget_bytes,
        };
        let (cache, store) = match restore::into_cells(&restored, budget.spill)? {
            Some(cache) => (cache, None),
            None => (CellCache::new(), Some(restore::into_store(folders.root(), &restored)?)),
        };
        let mut lineup = Lineup::new(name_prefix);
        let base = lineup.restore(&restored.base);
        lineup.restored_base(&base);
        let deltas = lineup.restore(&restored.deltas);
        let residence = if store.is_some() { Residence::Store } else { Residence::Memory };
        let queue = match base.is_empty() && deltas.is_empty() {
            true => FreezeQueue::new(policy, residence),
            false => FreezeQueue::restored(policy, residence, SnapshotList { checkpoint: BEFORE, base, deltas }),
        };
        // A state that is many times larger would only fill the cells with keys that nobody may ask for.
        let fits = |rows: u64| rows as usize * LINE <= budget_bytes.saturating_mul(2);
        let reading_in = match &store {
            Some(store) => fits(store.rows()?).then(Vec::new),
            None => None,
        };
        Ok(CellBackend {
            cache,
            sets: FrozenSets::new(),
            hand: 0,
            knows_all: store.is_none(),
            purge: Purge { left: 0, kept: 0 },
            store_from: store.is_some().then_some(0),
            reading_in,
            budget,
            located: Located::default(),
            scratch: Scratch::default(),
            look_ups: LookUps::default(),
            overlay: ScanOverlay::default(),
            writer: StoreWriter::start(store, folders, queue, lineup)?,
        })
    }
}

/// Look-ups and writes.
impl CellBackend {
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
        let CellBackend { cache, scratch, writer, .. } = self;
        let store = writer.store().expect("B2: what is in no cell is in the store");
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
        let CellBackend { cache, scratch, writer, .. } = self;
        scratch.misses.clear();
        scratch.misses.extend_from_slice(cache.misses());
        for &at in &scratch.misses {
            let at = at as usize;
            let (key, hash) = (keys.key(start + at), keys.hashes[start + at]);
            if cfg!(test)
                && let Some(store) = writer.store()
            {
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
                let id = self.cache.insert(state, key, hash, None);
                self.sets.first_write(&mut self.cache.pool, id);
                self.cache.pool.set_value(id, value);
            }
        }
    }
}

/// Memory and sets.
impl CellBackend {
    /// What precedes every call that may take memory: learns what is ingested, evicts, freezes at the high-water mark, waits at
    /// the limit. Cells may go: nothing is located any more.
    fn make_room(&mut self) -> Result<(), StateError> {
        self.located.cells.clear();
        let ingested = self.writer.ingested()?;
        self.sets.unpin(ingested);
        match self.store_from {
            None => self.purge_or_spill()?,
            Some(_) if self.dirty_bytes() > self.budget.high_water => {
                self.freeze_set(Cause::HighWater, None)?;
            }
            Some(_) => {}
        }
        if self.memory() > self.budget.cache {
            self.evict(EVICT_STEPS, self.budget.cache);
            while self.memory() > self.budget.limit {
                self.evict(usize::MAX, self.budget.cache);
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

    /// Without a store: takes away cells without a value once cells have doubled, and before a store is made. Makes one if memory
    /// is about to hold all of the state no longer.
    fn purge_or_spill(&mut self) -> Result<(), StateError> {
        let is_large = |backend: &Self| backend.cache.bytes() + backend.sets.bytes() > backend.budget.spill;
        let (live, kept) = (self.cache.pool.live(), self.purge.kept);
        // Before a store is made one more is worth its while even for an eighth.
        let begins = live > (2 * kept).max(PURGE_FROM) || (is_large(self) && live > kept + kept / 8);
        if self.purge.left == 0 && begins {
            // Two rounds: the first one may only take the second chances away.
            self.purge.left = 2 * self.cache.pool.id_bound() as usize;
        }
        if self.purge.left > 0 {
            let steps = self.purge.left.min(EVICT_STEPS);
            self.evict(steps, 0);
            self.purge.left -= steps;
            self.purge.kept = self.cache.pool.live();
        }
        if is_large(self) && (self.purge.left == 0 || self.memory() > self.budget.cache) {
            self.writer.spill();
            let set = self.freeze_set(Cause::HighWater, None)?;
            self.store_from = Some(set);
        }
        Ok(())
    }

    /// Whether there is a store, which holds what the ingested sets hold.
    fn has_store(&self) -> bool {
        self.store_from.is_some_and(|set| set <= self.sets.ingested())
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

    /// Closes the open set. Its number.
    fn freeze_set(&mut self, cause: Cause, done: Option<SnapshotDone>) -> Result<u32, StateError> {
        while self.writer.must_wait() {
            let waited = self.wait_for_ingest()?;
            assert!(waited, "the queue waits for a set, but none is frozen");
        }
        let scope = self.writer.scope(cause);
        let (number, cells) = self.sets.freeze(scope, &self.cache.pool, self.store_from.is_some());
        for set in self.writer.freeze(SetId(u64::from(number)), cause, scope, cells, done)? {
            self.finish_copies(set);
        }
        self.hand_over();
        Ok(number)
    }

    /// Copies the rest of every set up to this one.
    fn finish_copies(&mut self, set: SetId) {
        while self.sets.oldest().is_some_and(|oldest| u64::from(oldest) <= set.0) {
            self.sets.sweep(&mut self.cache.pool, usize::MAX);
            self.hand_over();
        }
    }

    /// Gives the store writer the blocks that are full, and the sets that are all copied, in order.
    fn hand_over(&mut self) {
        for (set, block) in self.sets.take_full() {
            self.writer.block(SetId(u64::from(set)), block);
        }
        while let Some((number, cells, copies)) = self.sets.take_copied() {
            if cells == 0 {
                continue;
            }
            let finish = self.writer.copied(SetId(u64::from(number)), cells, copies);
            assert!(finish.is_empty(), "a set that is all copied asks for no other copies");
        }
    }

    /// Evicts clean cells until memory is within the bound, all are pinned, or so many were looked at: a clock with a second
    /// chance. Those with a value only if the store has it (B2).
    fn evict(&mut self, steps: usize, bound: usize) {
        let has_store = self.has_store();
        let mut clean = self.cache.pool.live() - self.sets.pinned();
        // Two rounds: the first one may only take the second chances away.
        let mut steps = steps.min(self.cache.pool.id_bound() as usize * 2);
        let others = self.memory() - self.cache.bytes();
        let mut victims = [0; EVICT_TOGETHER];
        while clean > 0 && steps > 0 && self.cache.bytes() + others > bound {
            let mut found = 0;
            while found < clean.min(EVICT_TOGETHER) && steps > 0 {
                let is_last = self.hand + 1 >= self.cache.pool.id_bound();
                if is_last && found > 0 {
                    // Or a cell might be found twice.
                    break;
                }
                steps -= 1;
                self.hand = if is_last { 0 } else { self.hand + 1 };
                let &Cell { kind, written, .. } = self.cache.pool.get(self.hand);
                let kept = match kind {
                    Kind::Free => true,
                    Kind::Absent => false,
                    Kind::Present => !has_store,
                };
                let has_second_chance = |cell: &mut Cell| std::mem::take(&mut cell.referenced);
                if kept || !self.sets.is_clean(written) || has_second_chance(self.cache.pool.get_mut(self.hand)) {
                    continue;
                }
                if kind != Kind::Absent {
                    self.knows_all = false;
                    self.reading_in = None;
                }
                victims[found] = self.hand;
                found += 1;
            }
            self.cache.remove_all(&victims[..found]);
            clean -= found;
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
        let CellBackend { cache, writer, .. } = self;
        let store = writer.store().expect("what is read in is in the store");
        let (mut rows, mut next) = (0, None);
        store.scan(&from, |store_key, value| {
            if rows == SWEEP_CELLS {
                next = Some(store_key.to_vec());
                return false;
            }
            rows += 1;
            let (_, state, key) = split_key(store_key).expect("only keys of ours are in the store");
            let hash = cell_hash(state, key);
            if cache.find(state, key, hash).is_none() {
                cache.insert(state, key, hash, Some(value));
            }
            true
        })?;
        self.knows_all = next.is_none();
        self.reading_in = next;
        Ok(())
    }
}

impl KeyedStateBackend for CellBackend {
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
            let (sets, has_store) = (&self.sets, self.has_store());
            self.overlay = ScanOverlay::of(&self.cache.pool, states, |cell| !has_store || !sets.is_clean(cell.written));
        }
        // One that is made meanwhile holds nothing that the overlay does not know.
        let page = self.overlay.page(self.writer.store(), states, after, limit)?;
        if page.len() < limit {
            self.overlay = ScanOverlay::default();
        }
        Ok(page)
    }
}

impl CheckpointedBackend for CellBackend {
    fn freeze(&mut self, checkpoint: CheckpointId, done: SnapshotDone) -> Result<(), StateError> {
        self.located.cells.clear();
        self.freeze_set(Cause::Barrier(checkpoint), Some(done)).map(drop)
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
