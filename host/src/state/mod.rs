//! Keyed state: backends with a write-back cache and a copy-on-update freeze.

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
    /// Files of the base, to be linked into an empty folder.
    pub base: Vec<SnapshotFile>,
    /// Files to be ingested after it, in this order.
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

    /// Bytes held in memory (cells, copies).
    fn memory_bytes(&self) -> usize;
}
