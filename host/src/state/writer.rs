//! The store writer of one backend: a thread that does what the freeze queue decides, in its order.
//!
//! Both threads feed the queue under one lock, and whatever it answers goes into one list: the order of the list is the order of
//! the decisions. The subtask's thread never waits for I/O except where memory bounds demand it.

use super::copies::Copies;
use super::lineup::{Folders, Lineup};
use super::rocks::{self, RocksStore};
use super::rows::{Block, RowFile, WrittenRows};
use super::{LocalSnapshot, SnapshotDone, files, state_error};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use weir_plugin::state::StateError;
use weir_protocol::CheckpointId;
use weir_protocol::freeze::{Cause, Effect, Event, FreezeQueue, LocalFile, Residence, Scope, SetId};

/// The subtask's end.
pub(super) struct StoreWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// None as long as all of the state is in memory.
    store: OnceLock<RocksStore>,
    folders: Folders,
    inner: Mutex<Inner>,
    /// There is something to do, or nothing will come any more.
    work: Condvar,
    /// A set was ingested, or the writer has failed.
    progress: Condvar,
    /// Sets up to this one are ingested. Written with `Release` after the ingestion, so that who sees it reads the new values.
    ingested: AtomicU64,
    failed: AtomicBool,
    /// Bytes of copies that are handed over and not ingested.
    bytes: AtomicUsize,
    /// Bytes that the store's indexes and filters hold.
    store_bytes: AtomicUsize,
}

struct Inner {
    queue: FreezeQueue,
    /// Sets frozen so far.
    frozen: u64,
    /// The first barrier of this backend.
    first: Option<CheckpointId>,
    lineup: Lineup,
    effects: VecDeque<Effect>,
    /// Copies that go into the store.
    copied: BTreeMap<SetId, Copies>,
    /// Copies that go into row files, as they come.
    blocks: VecDeque<(SetId, Block)>,
    done: BTreeMap<CheckpointId, SnapshotDone>,
    phase: Phase,
}

enum Phase {
    Running,
    /// The backend is dropped: what is decided is still done (S5).
    Closing,
    /// Nothing is done any more; the text says why.
    Failed(String),
}

impl StoreWriter {
    /// Starts the thread.
    pub(super) fn start(
        store: Option<RocksStore>,
        folders: Folders,
        queue: FreezeQueue,
        lineup: Lineup,
    ) -> Result<Self, StateError> {
        let inner = Inner {
            queue,
            frozen: 0,
            first: None,
            lineup,
            effects: VecDeque::new(),
            copied: BTreeMap::new(),
            blocks: VecDeque::new(),
            done: BTreeMap::new(),
            phase: Phase::Running,
        };
        let store_bytes = store.as_ref().map_or(Ok(0), RocksStore::resident_bytes)?;
        let shared = Arc::new(Shared {
            store: store.map_or_else(OnceLock::new, OnceLock::from),
            folders,
            inner: Mutex::new(inner),
            work: Condvar::new(),
            progress: Condvar::new(),
            ingested: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            store_bytes: AtomicUsize::new(store_bytes as usize),
        });
        let on_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("weir-store".to_owned())
            .spawn(move || Writing { shared: on_thread, files: BTreeMap::new() }.run())
            .map_err(|e| state_error("starting the store writer's thread", e))?;
        Ok(StoreWriter { shared, thread: Some(thread) })
    }

    /// The newest set that is ingested.
    ///
    /// # Errors
    /// If the writer has failed.
    #[inline]
    pub(super) fn ingested(&self) -> Result<u32, StateError> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(self.shared.lock().failure());
        }
        Ok(self.shared.ingested.load(Ordering::Acquire) as u32)
    }

    /// Bytes of copies that are not ingested.
    pub(super) fn bytes(&self) -> usize {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the store's indexes and filters hold.
    pub(super) fn store_bytes(&self) -> usize {
        self.shared.store_bytes.load(Ordering::Relaxed)
    }

    /// The store, if there is one.
    pub(super) fn store(&self) -> Option<&RocksStore> {
        self.shared.store.get()
    }

    /// Which cells a set frozen now must have.
    pub(super) fn scope(&self, cause: Cause) -> Scope {
        self.shared.lock().queue.scope(cause)
    }

    /// The next set, which has all cells, makes the store.
    pub(super) fn spill(&self) {
        self.shared.tell(&mut self.shared.lock(), Event::Spill);
    }

    /// True if no set may be frozen before one is ingested.
    pub(super) fn must_wait(&self) -> bool {
        self.shared.lock().queue.must_wait()
    }

    /// A set was frozen. Answers the sets whose copies must be finished at once.
    pub(super) fn freeze(
        &self,
        set: SetId,
        cause: Cause,
        scope: Scope,
        cells: usize,
        done: Option<SnapshotDone>,
    ) -> Result<Vec<SetId>, StateError> {
        let mut inner = self.shared.lock();
        if let Phase::Failed(_) = inner.phase {
            let (failure, again) = (inner.failure(), inner.failure());
            drop(inner);
            finish(done, Err(again));
            return Err(failure);
        }
        if let (Cause::Barrier(checkpoint), Some(done)) = (cause, done) {
            inner.first.get_or_insert(checkpoint);
            inner.done.insert(checkpoint, done);
        }
        inner.frozen += 1;
        assert_eq!(set.0, inner.frozen, "S5: the queue and the cells count sets alike");
        Ok(self.shared.tell(&mut inner, Event::Freeze { cause, scope, cells: cells as u64 }))
    }

    /// A part of a set's copies, which goes into a row file.
    pub(super) fn block(&self, set: SetId, block: Block) {
        self.shared.bytes.fetch_add(block.memory(), Ordering::Relaxed);
        self.shared.lock().blocks.push_back((set, block));
        self.shared.work.notify_one();
    }

    /// A set that has cells is all copied. (One that has none was so when it was frozen.)
    pub(super) fn copied(&self, set: SetId, cells: usize, copies: Copies) -> Vec<SetId> {
        let mut inner = self.shared.lock();
        self.shared.bytes.fetch_add(copies.bytes(), Ordering::Relaxed);
        match copies.are_to_be_sorted() {
            true => drop(inner.copied.insert(set, copies)),
            false => inner.blocks.extend(copies.into_blocks().map(|block| (set, block))),
        }
        self.shared.tell(&mut inner, Event::Copied { set, cells: cells as u64 })
    }

    /// A completed manifest holds this checkpoint's files.
    pub(super) fn completed(&self, checkpoint: CheckpointId) {
        let mut inner = self.shared.lock();
        // The checkpoint that was restored from may be reported once more.
        if inner.first.is_none_or(|first| checkpoint < first) {
            return;
        }
        let finish = self.shared.tell(&mut inner, Event::Completed { checkpoint });
        assert!(finish.is_empty(), "a completed checkpoint asks for no copies");
    }

    /// The checkpoint was aborted; its freeze goes on.
    pub(super) fn aborted(&self, checkpoint: CheckpointId) {
        let mut inner = self.shared.lock();
        let finish = self.shared.tell(&mut inner, Event::Aborted { checkpoint });
        assert!(finish.is_empty(), "an aborted checkpoint asks for no copies");
    }

    /// Waits until a set after `seen` is ingested.
    pub(super) fn wait(&self, seen: u32) -> Result<u32, StateError> {
        let mut inner = self.shared.lock();
        loop {
            if let Phase::Failed(_) = inner.phase {
                return Err(inner.failure());
            }
            let ingested = self.shared.ingested.load(Ordering::Acquire) as u32;
            if ingested > seen {
                return Ok(ingested);
            }
            inner = self.shared.progress.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        if let Phase::Running = inner.phase {
            inner.phase = Phase::Closing;
        }
        drop(inner);
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened, and by `failed`.
            let _ = thread.join();
        }
        self.shared.fail("the state backend was closed".to_owned());
    }
}

impl Inner {
    fn failure(&self) -> StateError {
        match &self.phase {
            Phase::Failed(why) => state_error("writing state", why.clone()),
            Phase::Running | Phase::Closing => state_error("writing state", "the state backend is closing"),
        }
    }
}

/// Fails the backend if the thread ends by a panic: nobody must wait for ever.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the store writer panicked: a bug in Weir".to_owned());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // After a panic of the other thread the phase says that the backend has failed; what else is inside is not used.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the queue one event; its answer goes to the writer, except what only the subtask's thread can do.
    fn tell(&self, inner: &mut Inner, event: Event) -> Vec<SetId> {
        let (mut answer, mut finish) = (Vec::new(), Vec::new());
        inner.queue.handle(event, &mut answer);
        for effect in answer {
            match effect {
                Effect::FinishCopy { set } => finish.push(set),
                Effect::Ingest { .. }
                | Effect::Unpin { .. }
                | Effect::Link { .. }
                | Effect::Snapshot { .. }
                | Effect::Dropped { .. }
                | Effect::DeleteLocal { .. } => inner.effects.push_back(effect),
            }
        }
        // A thread that wakes for nothing may take the processor away from the barrier.
        if !inner.effects.is_empty() {
            self.work.notify_one();
        }
        finish
    }

    fn next(&self) -> Option<Work> {
        let mut inner = self.lock();
        loop {
            if let Phase::Failed(_) = inner.phase {
                return None;
            }
            // A set's blocks were handed over before its ingestion was decided.
            if let Some((set, block)) = inner.blocks.pop_front() {
                return Some(Work::Block(set, block));
            }
            if let Some(effect) = inner.effects.pop_front() {
                return Some(Work::Effect(effect));
            }
            if let Phase::Closing = inner.phase {
                return None;
            }
            inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What the thread does next.
enum Work {
    Block(SetId, Block),
    Effect(Effect),
}

/// The thread's own.
struct Writing {
    shared: Arc<Shared>,
    /// Row files of sets that are being copied.
    files: BTreeMap<SetId, RowFile>,
}

impl Writing {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _alarm = Alarm(&shared);
        while let Some(work) = shared.next() {
            let done = match work {
                Work::Block(set, block) => self.append(set, &block),
                Work::Effect(effect) => self.execute(effect),
            };
            if let Err(e) = done {
                tracing::error!("state can't be written: {e}");
                shared.fail(e.to_string());
            }
        }
    }

    /// Writes a part of a set's copies.
    fn append(&mut self, set: SetId, block: &Block) -> Result<(), StateError> {
        let file = match self.files.entry(set) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(RowFile::create(self.shared.folders.rows(set.0))?),
        };
        file.push(block)?;
        self.shared.bytes.fetch_sub(block.memory(), Ordering::Relaxed);
        Ok(())
    }

    fn execute(&mut self, effect: Effect) -> Result<(), StateError> {
        let shared = &self.shared;
        match effect {
            Effect::Ingest { set, scope, residence } => self.ingest(set, scope, residence),
            Effect::Unpin { set } => {
                shared.ingested.store(set.0, Ordering::Release);
                // Taking the lock closes the gap between a waiter's look and its wait.
                drop(shared.lock());
                shared.progress.notify_all();
                Ok(())
            }
            Effect::Link { set } => shared.link(set),
            Effect::Snapshot { list } => {
                let mut inner = shared.lock();
                let snapshot = inner.lineup.snapshot(list);
                let done = inner.done.remove(&snapshot.checkpoint);
                drop(inner);
                finish(done, Ok(snapshot));
                Ok(())
            }
            Effect::Dropped { checkpoint } => {
                shared.lock().done.remove(&checkpoint);
                Ok(())
            }
            Effect::DeleteLocal { files } => {
                let paths = shared.lock().lineup.remove(&files);
                for path in paths {
                    files::remove_unneeded(&path);
                }
                Ok(())
            }
            Effect::FinishCopy { set } => unreachable!("set {} is copied by the subtask's thread", set.0),
        }
    }

    /// A set is all copied: its file is finished, and ingested if there is a store. All cells make the store.
    fn ingest(&mut self, set: SetId, scope: Scope, residence: Residence) -> Result<(), StateError> {
        let shared = &self.shared;
        // A set without cells had nothing to hand over.
        let (rows, copies) = (self.files.remove(&set), shared.lock().copied.remove(&set));
        let rows = rows.map(RowFile::finish).transpose()?;
        if (scope, residence) == (Scope::All, Residence::Store) {
            shared.make_store(rows.as_ref())?;
        }
        let file = match (rows, copies) {
            (Some(rows), _) => Some(shared.add_rows(rows, scope)),
            (None, Some(copies)) => Some(shared.write_delta(set, &copies)?),
            (None, None) => None,
        };
        let mut inner = shared.lock();
        if scope == Scope::All {
            inner.lineup.rebased(file.as_slice());
        }
        shared.tell(&mut inner, Event::Ingested { set, file });
        Ok(())
    }
}

impl Shared {
    fn add_rows(&self, rows: WrittenRows, scope: Scope) -> LocalFile {
        let what = match scope {
            Scope::All => "base.rows",
            Scope::Changes => "delta.rows",
        };
        self.lock().lineup.add(what.to_owned(), rows.path, rows.bytes, rows.checksum)
    }

    fn make_store(&self, rows: Option<&WrittenRows>) -> Result<(), StateError> {
        let folder = self.folders.root();
        tracing::info!(
            "state in {} has outgrown its memory: keys that are not in [state].cache are read from RocksDB",
            folder.display()
        );
        let store = RocksStore::open(folder, &[])?;
        if let Some(rows) = rows {
            store.ingest_rows(&rows.path)?;
        }
        self.measure_store(&store)?;
        assert!(self.store.set(store).is_ok(), "S6: there is a store already");
        Ok(())
    }

    fn measure_store(&self, store: &RocksStore) -> Result<(), StateError> {
        self.store_bytes.store(store.resident_bytes()? as usize, Ordering::Relaxed);
        Ok(())
    }

    fn made_store(&self) -> &RocksStore {
        self.store.get().expect("S6: only sets after the first one of a store go into it")
    }

    /// Sorts copies, writes them as a table file and ingests a link of it.
    fn write_delta(&self, set: SetId, copies: &Copies) -> Result<LocalFile, StateError> {
        let (path, store) = (self.folders.table(set.0), self.made_store());
        store.write_delta(&path, copies)?;
        let (bytes, checksum) = files::measure(&path)?;
        store.ingest(&[&path])?;
        let table = store.table_of(&path)?;
        self.bytes.fetch_sub(copies.bytes(), Ordering::Relaxed);
        self.measure_store(store)?;
        let mut inner = self.lock();
        let what = table.clone().unwrap_or_else(|| "delta.sst".to_owned());
        let file = inner.lineup.add(what, path, bytes, checksum);
        if table.is_some() {
            inner.lineup.is_table(file);
        }
        Ok(file)
    }

    /// Links the store as a new base. Table files that the snapshots have already keep their identity.
    fn link(&self, set: SetId) -> Result<(), StateError> {
        let mut base = Vec::new();
        for rocks::LinkedFile { what, path } in self.made_store().link(&self.folders.base(set.0))? {
            let known = if rocks::is_table(&what) { self.lock().lineup.table(&what) } else { None };
            if let Some(file) = known {
                files::remove_unneeded(&path);
                base.push(file);
                continue;
            }
            let (bytes, checksum) = files::measure(&path)?;
            let mut inner = self.lock();
            let file = inner.lineup.add(what.clone(), path, bytes, checksum);
            if rocks::is_table(&what) {
                inner.lineup.is_table(file);
            }
            base.push(file);
        }
        let mut inner = self.lock();
        inner.lineup.rebased(&base);
        self.tell(&mut inner, Event::Linked { set, base });
        Ok(())
    }

    /// Ends the backend: everybody who waits is told.
    fn fail(&self, why: String) {
        let mut inner = self.lock();
        if let Phase::Failed(_) = inner.phase {
            return;
        }
        inner.phase = Phase::Failed(why);
        inner.effects.clear();
        inner.copied.clear();
        inner.blocks.clear();
        let failures: Vec<_> = std::mem::take(&mut inner.done).into_values().map(|done| (done, inner.failure())).collect();
        drop(inner);
        self.failed.store(true, Ordering::Relaxed);
        self.progress.notify_all();
        self.work.notify_all();
        for (done, failure) in failures {
            done(Err(failure));
        }
    }
}

fn finish(done: Option<SnapshotDone>, result: Result<LocalSnapshot, StateError>) {
    if let Some(done) = done {
        done(result);
    }
}
