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
    /// To be linked into an empty folder.
    pub base: Vec<SnapshotEntry>,
    /// To be ingested after it, in this order.
    pub deltas: Vec<SnapshotEntry>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The dirty list was swapped: a new set. Allowed unless [`FreezeQueue::must_wait`].
    Freeze {
        /// Why.
        cause: Cause,
        /// Dirty cells in it.
        cells: u64,
    },
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
        /// The delta file; none if the set was empty.
        delta: Option<LocalFile>,
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
    /// Sort the copies, write one delta file, ingest it (never moving the file). The only thing that may change the store.
    Ingest {
        /// Which.
        set: SetId,
    },
    /// Ingested: the set's copies may go, its cells may be evicted.
    Unpin {
        /// Which.
        set: SetId,
    },
    /// Hard-link the store's folder now: it becomes the new base.
    Link {
        /// Which.
        set: SetId,
        /// For whom.
        checkpoint: CheckpointId,
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
