//! Keyed state: cells with a copy-on-update freeze, over a store once they have no room for all of it.
//!
//! `docs/state.md` tells the layout, the rules of the freeze, the snapshot format and the restore.

mod backend;
mod cache;
mod cell;
mod copies;
mod files;
mod freeze;
mod hints;
mod lineup;
mod restore;
mod rocks;
mod rows;
mod scan;
mod table;
mod writer;

#[cfg(test)]
mod tests;

pub use backend::CellBackend;

use crate::disk::DiskTrouble;
use std::path::PathBuf;
use weir_plugin::state::{KeyedStateBackend, StateError};
use weir_protocol::CheckpointId;

/// One immutable file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Unique name over (generation, operator, subtask, attempt), and its key below `shared/` in the checkpoint storage (S3).
    pub name: String,
    /// Where it lies now. It is kept there until a completed manifest holds it.
    pub local: PathBuf,
    /// Length.
    pub bytes: u64,
    /// XXH3-128 of the content, 32 hexadecimal digits.
    pub checksum: String,
    /// True if a completed manifest holds it already: it is not uploaded again.
    pub stored: bool,
}

/// A subtask's state of one operator at a barrier: base files, then every delta since, in order (S2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSnapshot {
    /// The checkpoint whose barrier it belongs to.
    pub checkpoint: CheckpointId,
    /// Files of the base: all that a store has, or one of rows.
    pub base: Vec<SnapshotFile>,
    /// What changed since, in this order.
    pub deltas: Vec<SnapshotFile>,
}

/// Called once, on a thread of the backend, when the snapshot of a freeze is linked, or has failed (which fails the task).
pub type SnapshotDone = Box<dyn FnOnce(Result<LocalSnapshot, StateError>) + Send>;

/// A backend that takes snapshots. All calls come from the thread of its subtask.
pub trait CheckpointedBackend: KeyedStateBackend {
    /// The synchronous part: from here on nothing that is written belongs to `checkpoint`. Never cancelled (S5).
    fn freeze(&mut self, checkpoint: CheckpointId, done: SnapshotDone) -> Result<(), StateError>;

    /// One slice of background work; call between batches, when idle and while output is blocked. True: there is more now.
    fn sweep(&mut self) -> Result<bool, StateError>;

    /// A completed manifest holds every file of this checkpoint's snapshot.
    fn completed(&mut self, checkpoint: CheckpointId);

    /// The checkpoint was aborted: nothing is uploaded for it any more. Its freeze goes on (S5).
    fn aborted(&mut self, checkpoint: CheckpointId);

    /// Bytes held in memory (cells, copies).
    fn memory_bytes(&self) -> usize;

    /// What was looked up so far.
    fn look_ups(&self) -> LookUps;
}

/// Keys that a backend has looked up, once for each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUps {
    /// They were in memory.
    pub hits: u64,
    /// They were not.
    pub misses: u64,
    /// Those of the misses that were read from the store: the others are known to have no state.
    pub store_reads: u64,
}

impl std::ops::Sub for LookUps {
    type Output = LookUps;

    /// What came after an earlier figure of the same backend.
    fn sub(self, before: LookUps) -> LookUps {
        LookUps {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            store_reads: self.store_reads - before.store_reads,
        }
    }
}

/// Which backend keeps an operator's state; its name stands in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// A write-back cache over RocksDB, which is made when the cache has no room for all of the state.
    Rocks,
    /// Everything in memory, whatever that takes.
    Memory,
}

impl BackendKind {
    /// The name in job files and manifests.
    pub const fn name(self) -> &'static str {
        match self {
            BackendKind::Rocks => "rocksdb",
            BackendKind::Memory => "memory",
        }
    }

    /// The backend of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [BackendKind::Rocks, BackendKind::Memory].into_iter().find(|kind| kind.name() == name)
    }
}

/// State to start from: the two lists of a [`LocalSnapshot`], each file's `local` path readable now. The files are linked or
/// copied, never written, moved or removed (S1); they count as stored, and keep their names in later snapshots. Whoever fetched
/// them has checked what they hold against their checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredState {
    /// Files of the base.
    pub base: Vec<SnapshotFile>,
    /// Files since, oldest first.
    pub deltas: Vec<SnapshotFile>,
}

/// Opens the state of one stateful operator and subtask in `folder`, a working folder of its own: what lies there is removed.
///
/// `name_prefix` is `<generation>-<operator>-<subtask>`; it makes the names of new files unique (S3). `budget_bytes` bounds the
/// memory of the write-back cache (the memory backend has no bound).
///
/// # Errors
/// Names the file or folder: a disk error, or a file to restore that is missing or cut.
pub fn open_backend(
    kind: BackendKind,
    folder: PathBuf,
    name_prefix: String,
    budget_bytes: usize,
    restore: Option<RestoredState>,
) -> Result<Box<dyn CheckpointedBackend>, StateError> {
    Ok(Box::new(CellBackend::open(kind, folder, name_prefix, budget_bytes, restore.unwrap_or_default())?))
}

/// A [`StateError`]: what was done to which path, why it failed, and what to do if the disk is the cause.
fn state_error(what: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StateError {
    let source = source.into();
    let text = source.to_string();
    let trouble = source.downcast_ref().map_or_else(|| DiskTrouble::in_text(&text), DiskTrouble::of);
    StateError { what: what.into(), source: trouble.told(&text).into() }
}
