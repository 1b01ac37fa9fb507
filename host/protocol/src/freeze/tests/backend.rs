//! A state backend in miniature, driven by the freeze queue: cells, frozen sets, a store, files, and what a restore would give.
//!
//! The rules of the cells, which the queue itself doesn't know:
//! - A set of changes needs the cells that were last written in its interval, until they are copied; a set of all cells needs all
//!   that have a value. Not "the set before the open one": several may be frozen.
//! - Before a cell is overwritten its value is copied for each set that needs it.
//! - It may be evicted once the store has its value: when the last set that it was written in is ingested, and the set that made
//!   the store is. A deleted one may be when its last set is written, store or not.
//! - A deleted cell stays until then, and is written as a delete (not into a set of all cells).
//!
//! The oracle is the map of live values, cloned at each barrier. This file is used by the tests here and by the exhaustive model.

use super::freeze::{Cause, Effect, Event, FileId, FreezeQueue, LocalFile, Residence, Scope, SetId, SnapshotEntry, SnapshotList};
use super::{CheckpointId, Generation};
use std::collections::{BTreeMap, BTreeSet};

/// A value, or that there is none.
type Value = Option<u8>;
type Map = BTreeMap<u8, u8>;
type Delta = BTreeMap<u8, Value>;

/// What the driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    None,
    /// It ingests the next set before it links.
    LinkAfterLaterIngest,
    /// A cell is copied for the set before the open one, whichever needs it.
    CopyForTheSetBefore,
    /// Cells may be evicted when they are copied, not when they are ingested.
    EvictBeforeIngest,
    /// Cells may be evicted before there is a store.
    EvictBeforeSpill,
    /// Before a cell is overwritten it is copied only for the set that it was last written in.
    ForgetSetsOfAll,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Write(u8),
    Delete(u8),
    Barrier,
    HighWater,
    Spill,
    /// The sweep copies one cell of the oldest set.
    Sweep,
    /// The store writer does what it was told.
    StoreWriter,
    Evict(u8),
    Complete(CheckpointId),
    Abort(CheckpointId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cell {
    value: Value,
    /// The last set that it was written in.
    written_in: SetId,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum File {
    Base(Map),
    Delta(Delta),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    pub queue: FreezeQueue,
    fault: Fault,
    residence: Residence,
    /// The set that made or makes the store.
    spill_set: SetId,
    cells: BTreeMap<u8, Cell>,
    /// Cells of each frozen set that are not copied yet.
    uncopied: BTreeMap<SetId, BTreeSet<u8>>,
    copies: BTreeMap<SetId, Delta>,
    ingested: SetId,
    store: Map,
    /// What the store writer was told to do.
    told: Option<Effect>,
    files: BTreeMap<FileId, File>,
    local: BTreeSet<FileId>,
    next_file: u64,
    /// Live values, and what they were at each barrier whose snapshot is out.
    live: Map,
    at_barrier: BTreeMap<CheckpointId, Map>,
    /// Names in the checkpoint storage: file and checkpoint that stored it.
    stored: BTreeSet<(FileId, CheckpointId)>,
    pub pending: BTreeMap<CheckpointId, SnapshotList>,
    pub completed: Option<CheckpointId>,
    pub barriers: u32,
    pub writes: u8,
    /// Anything that is wrong.
    pub fault_found: Option<&'static str>,
}

impl Backend {
    pub fn new(queue: FreezeQueue, residence: Residence, fault: Fault) -> Self {
        Backend {
            queue,
            fault,
            residence,
            spill_set: SetId(0),
            cells: BTreeMap::new(),
            uncopied: BTreeMap::new(),
            copies: BTreeMap::new(),
            ingested: SetId(0),
            store: Map::new(),
            told: None,
            files: BTreeMap::new(),
            local: BTreeSet::new(),
            next_file: 1,
            live: Map::new(),
            at_barrier: BTreeMap::new(),
            stored: BTreeSet::new(),
            pending: BTreeMap::new(),
            completed: None,
            barriers: 0,
            writes: 0,
            fault_found: None,
        }
    }

    /// What may happen now; `keys` cells at most.
    pub fn steps(&self, keys: u8) -> Vec<Step> {
        let mut steps = Vec::new();
        for key in 0..keys {
            steps.push(Step::Write(key));
            steps.extend(self.live.contains_key(&key).then_some(Step::Delete(key)));
            steps.extend(self.may_evict(key).then_some(Step::Evict(key)));
        }
        if !self.queue.must_wait() {
            steps.extend([Step::Barrier, Step::HighWater]);
            steps.extend((self.residence == Residence::Memory).then_some(Step::Spill));
        }
        steps.extend(self.queue.copying().map(|_| Step::Sweep));
        steps.extend(self.told.as_ref().map(|_| Step::StoreWriter));
        for checkpoint in self.at_barrier.keys() {
            steps.extend(self.pending.contains_key(checkpoint).then_some(Step::Complete(*checkpoint)));
            steps.push(Step::Abort(*checkpoint));
        }
        steps
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Write(key) => {
                self.writes += 1;
                self.put(key, Some(self.writes));
            }
            Step::Delete(key) => {
                self.writes += 1;
                self.put(key, None);
            }
            Step::Barrier => {
                self.barriers += 1;
                let checkpoint = CheckpointId::new(Generation(1), self.barriers);
                self.at_barrier.insert(checkpoint, self.live.clone());
                self.freeze(Cause::Barrier(checkpoint));
            }
            Step::HighWater => self.freeze(Cause::HighWater),
            Step::Spill => {
                self.residence = Residence::Store;
                self.spill_set = self.queue.next_set();
                self.tell(Event::Spill);
                self.freeze(Cause::HighWater);
            }
            Step::Sweep => {
                let set = self.queue.copying().expect("a set is copying");
                self.copy_one(set);
            }
            Step::StoreWriter => self.store_writer(),
            Step::Evict(key) => {
                self.cells.remove(&key);
                self.check(self.read(key) == self.live.get(&key).copied(), "an evicted cell is not in the store");
            }
            Step::Complete(checkpoint) => self.complete(checkpoint),
            Step::Abort(checkpoint) => {
                self.pending.remove(&checkpoint);
                self.at_barrier.remove(&checkpoint);
                self.tell(Event::Aborted { checkpoint });
            }
        }
    }

    fn check(&mut self, holds: bool, what: &'static str) {
        if !holds {
            self.fault_found = self.fault_found.or(Some(what));
        }
    }

    fn read(&self, key: u8) -> Value {
        self.cells.get(&key).map_or_else(|| self.store.get(&key).copied(), |cell| cell.value)
    }

    fn put(&mut self, key: u8, value: Value) {
        self.copy_before_overwrite(key);
        let open = self.queue.next_set();
        self.cells.insert(key, Cell { value, written_in: open });
        match value {
            Some(value) => self.live.insert(key, value),
            None => self.live.remove(&key),
        };
    }

    fn copy_before_overwrite(&mut self, key: u8) {
        let needs = |(set, left): (&SetId, &BTreeSet<u8>)| left.contains(&key).then_some(*set);
        let needed_by: Vec<SetId> = self.uncopied.iter().filter_map(needs).collect();
        for set in needed_by {
            match self.fault {
                Fault::CopyForTheSetBefore => self.copy(key, SetId(self.queue.next_set().0 - 1)),
                Fault::ForgetSetsOfAll if set != self.cells[&key].written_in => {}
                _ => self.copy(key, set),
            }
        }
    }

    fn freeze(&mut self, cause: Cause) {
        let (set, scope) = (self.queue.next_set(), self.queue.scope(cause));
        let is_in = |cell: &Cell| match scope {
            Scope::Changes => cell.written_in == set,
            Scope::All => cell.value.is_some(),
        };
        let cells: BTreeSet<u8> = self.cells.iter().filter(|(_, cell)| is_in(cell)).map(|(key, _)| *key).collect();
        let count = cells.len() as u64;
        self.uncopied.insert(set, cells);
        self.copies.insert(set, Delta::new());
        self.tell(Event::Freeze { cause, scope, cells: count });
    }

    fn copy_one(&mut self, set: SetId) {
        let key = *self.uncopied[&set].first().expect("the set has cells left");
        self.copy(key, set);
    }

    fn copy(&mut self, key: u8, set: SetId) {
        let value = self.cells.get(&key).expect("a cell that a set needs is not evicted").value;
        if self.uncopied.get_mut(&set).is_some_and(|left| left.remove(&key)) {
            self.copies.get_mut(&set).expect("frozen").insert(key, value);
            self.tell(Event::Copied { set, cells: 1 });
        } else {
            self.check(false, "a cell was copied for a set that did not need it");
        }
    }

    fn may_evict(&self, key: u8) -> bool {
        let Some(cell) = self.cells.get(&key) else { return false };
        let needed = self.uncopied.values().any(|left| left.contains(&key));
        let ingested = cell.written_in <= self.ingested || self.fault == Fault::EvictBeforeIngest;
        let has_store = self.residence == Residence::Store && self.spill_set <= self.ingested;
        !needed && ingested && (has_store || cell.value.is_none() || self.fault == Fault::EvictBeforeSpill)
    }

    fn tell(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.queue.handle(event, &mut effects);
        effects.into_iter().for_each(|effect| self.execute(effect));
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::FinishCopy { set } => {
                while self.uncopied.get(&set).is_some_and(|left| !left.is_empty()) {
                    self.copy_one(set);
                }
            }
            Effect::Ingest { .. } | Effect::Link { .. } => {
                self.check(self.told.is_none(), "two things are told to the store writer at a time");
                self.told = Some(effect);
            }
            Effect::Unpin { set } => self.ingested = set,
            Effect::Snapshot { list } => self.snapshot(list),
            Effect::Dropped { .. } => {}
            Effect::DeleteLocal { files } => {
                for file in files {
                    let there = self.local.remove(&file);
                    self.check(there, "S1: a file is deleted twice");
                }
                self.check_uploads();
            }
        }
    }

    fn store_writer(&mut self) {
        match self.told.take().expect("the store writer was told something") {
            Effect::Ingest { set, scope, residence } => {
                self.uncopied.remove(&set);
                let delta = self.copies.remove(&set).expect("frozen");
                if residence == Residence::Store {
                    self.ingest(&delta);
                }
                self.check(scope == Scope::Changes || delta.values().all(Option::is_some), "a base has a delete");
                let file = (!delta.is_empty()).then(|| self.new_file(File::Delta(delta)));
                self.tell(Event::Ingested { set, file });
            }
            Effect::Link { set } => {
                if self.fault == Fault::LinkAfterLaterIngest {
                    let next = SetId(set.0 + 1);
                    let copied = self.uncopied.get(&next).is_some_and(BTreeSet::is_empty);
                    let delta = self.copies.get(&next).filter(|_| copied).cloned().unwrap_or_default();
                    self.ingest(&delta);
                }
                let base = self.new_file(File::Base(self.store.clone()));
                self.tell(Event::Linked { set, base: vec![base] });
            }
            other => unreachable!("{other:?} is not for the store writer"),
        }
    }

    fn ingest(&mut self, delta: &Delta) {
        for (key, value) in delta {
            match value {
                Some(value) => self.store.insert(*key, *value),
                None => self.store.remove(key),
            };
        }
    }

    fn new_file(&mut self, file: File) -> LocalFile {
        let id = FileId(self.next_file);
        self.next_file += 1;
        let bytes = match &file {
            File::Base(map) => map.len() as u64,
            File::Delta(delta) => delta.len() as u64,
        };
        self.files.insert(id, file);
        self.local.insert(id);
        LocalFile { id, bytes }
    }

    /// S2: what the list restores is what was alive at the barrier.
    fn snapshot(&mut self, list: SnapshotList) {
        let restored = self.restore(&list);
        self.check(
            self.at_barrier.get(&list.checkpoint) == Some(&restored),
            "S2: a snapshot is not what was alive at its barrier",
        );
        self.pending.insert(list.checkpoint, list);
        self.check_uploads();
    }

    fn restore(&self, list: &SnapshotList) -> Map {
        let mut map = Map::new();
        for entry in list.base.iter().chain(&list.deltas) {
            match &self.files[&entry.file] {
                File::Base(base) => map.extend(base),
                File::Delta(delta) => {
                    for (key, value) in delta {
                        match value {
                            Some(value) => map.insert(*key, *value),
                            None => map.remove(key),
                        };
                    }
                }
            }
        }
        map
    }

    /// S1: what a pending snapshot has to upload lies here.
    fn check_uploads(&mut self) {
        let entries = |list: &SnapshotList| list.base.iter().chain(&list.deltas).copied().collect::<Vec<SnapshotEntry>>();
        let lists: Vec<(CheckpointId, Vec<SnapshotEntry>)> = self.pending.iter().map(|(id, list)| (*id, entries(list))).collect();
        for (checkpoint, entries) in lists {
            for entry in entries {
                let here = entry.stored_by != checkpoint || self.local.contains(&entry.file);
                self.check(here, "S1: a file that a pending snapshot uploads was deleted");
            }
        }
    }

    /// The harshest storage: one checkpoint is retained, and what its manifest does not name is deleted.
    fn complete(&mut self, checkpoint: CheckpointId) {
        let list = self.pending.remove(&checkpoint).expect("only what is pending completes");
        let names: BTreeSet<_> = list.base.iter().chain(&list.deltas).map(|entry| (entry.file, entry.stored_by)).collect();
        let there = names.iter().all(|name| name.1 == checkpoint || self.stored.contains(name));
        self.check(there, "S1: a completed manifest names a file that was deleted with an older checkpoint");
        self.stored = names;
        self.pending.retain(|pending, _| *pending > checkpoint);
        self.at_barrier.retain(|pending, _| *pending > checkpoint);
        self.completed = Some(checkpoint);
        self.tell(Event::Completed { checkpoint });
    }
}
