//! What goes into the freeze queue, and what comes out of it.

use crate::CheckpointId;

/// Number of a frozen set, from 1, in the order of freezing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u64);

/// Identity of a local file in one backend, from 1; drawn by the driver, rising, never used again (S3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// A local file and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalFile {
    /// Which.
    pub id: FileId,
    /// Length in bytes.
    pub bytes: u64,
}

/// Why a set was frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The barrier of this checkpoint.
    Barrier(CheckpointId),
    /// The cache is too full: without a checkpoint.
    HighWater,
}

/// Which cells a set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Those written since the freeze before. Its file is a delta.
    Changes,
    /// All that have a value. Its file is a new base.
    All,
}

/// Where the whole state is, which decides how a new base comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Residence {
    /// In memory, and there is no store: a new base is a set of all cells.
    Memory,
    /// In the store: a new base is a link of it.
    Store,
}

/// When to begin a new base, and how many sets may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FreezePolicy {
    /// Sets still copying; one more and the oldest is finished at once. At least 1.
    pub copying_max: usize,
    /// Sets not ingested yet; at this number the driver must wait for the store writer before it freezes again.
    pub waiting_max: usize,
    /// A new base when the deltas are more than this many hundredths of the base …
    pub rebase_percent: u64,
    /// … and at least this many bytes …
    pub rebase_bytes_min: u64,
    /// … or when there are more deltas than this.
    pub deltas_max: usize,
}

/// One file of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotEntry {
    /// The local file.
    pub file: FileId,
    /// Its length.
    pub bytes: u64,
    /// The checkpoint that stored it, which is part of its name below `shared/`. If it is the snapshot's own the file must be
    /// uploaded for it; else a completed manifest holds it.
    pub stored_by: CheckpointId,
}

/// The files of a snapshot, in the order of the restore.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotList {
    /// Its checkpoint.
    pub checkpoint: CheckpointId,
    /// Linked from a store, or one file with all cells.
    pub base: Vec<SnapshotEntry>,
    /// What changed since, in this order.
    pub deltas: Vec<SnapshotEntry>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The dirty list was swapped: a new set. Allowed unless [`FreezeQueue::must_wait`].
    Freeze {
        /// Why.
        cause: Cause,
        /// What [`FreezeQueue::scope`] said for this cause.
        scope: Scope,
        /// Cells in it, counted as [`Event::Copied`] will count them.
        cells: u64,
    },
    /// Memory is not to hold all of the state any more: from the next set on, which has all cells, there is a store.
    Spill,
    /// This many more cells of the set are copied, by the sweep or because they were about to be overwritten.
    Copied {
        /// Which.
        set: SetId,
        /// How many.
        cells: u64,
    },
    /// Answer to [`Effect::Ingest`].
    Ingested {
        /// Which.
        set: SetId,
        /// The set's file; none if the set was empty.
        file: Option<LocalFile>,
    },
    /// Answer to [`Effect::Link`].
    Linked {
        /// Which.
        set: SetId,
        /// The files of the linked folder. One that the current list holds under the same id is not uploaded again.
        base: Vec<LocalFile>,
    },
    /// This checkpoint's manifest is published.
    Completed {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// This checkpoint was aborted: nothing is uploaded for it. Its freeze goes on.
    Aborted {
        /// Which.
        checkpoint: CheckpointId,
    },
}

/// What to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Too many sets are copying: copy the rest of this one now, before anything else.
    FinishCopy {
        /// Which.
        set: SetId,
    },
    /// Write the copies as one file and, if there is a store, ingest it (never moving the file). The only thing that may change
    /// the store.
    Ingest {
        /// Which.
        set: SetId,
        /// What it has. If it has all cells and there is a store, it makes the store.
        scope: Scope,
        /// Whether there is a store from this set on.
        residence: Residence,
    },
    /// Ingested: the set's copies may go and, if there is a store, its cells may be evicted.
    Unpin {
        /// Which.
        set: SetId,
    },
    /// Hard-link the store's folder now: it becomes the new base.
    Link {
        /// Which.
        set: SetId,
    },
    /// This is the checkpoint's snapshot.
    Snapshot {
        /// Its files.
        list: SnapshotList,
    },
    /// Nothing will come for this checkpoint, which was aborted.
    Dropped {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// Nobody needs these local files any more.
    DeleteLocal {
        /// Which.
        files: Vec<FileId>,
    },
}
