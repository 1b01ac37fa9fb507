//! The local files of one backend: what each number of the freeze queue stands for.
//!
//! Invariants. **S1** a file that was restored is never removed here. **S3** a number is never used again, and a restored file keeps
//! its name.

use super::{LocalSnapshot, SnapshotFile, files};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use weir_protocol::CheckpointId;
use weir_protocol::freeze::{FileId, LocalFile, SnapshotEntry, SnapshotList};
use weir_protocol::ids::Generation;

/// The checkpoint that stands for "stored before this backend was opened": no real one has generation 0.
pub(super) const BEFORE: CheckpointId = CheckpointId::new(Generation(0), 0);

/// Every file that the queue may still name.
pub(super) struct Lineup {
    prefix: String,
    last: u64,
    files: HashMap<FileId, Entry>,
    /// Table files of the store that a snapshot file shares its content with, by the store's name for them.
    tables: HashMap<String, FileId>,
}

struct Entry {
    /// Last part of its name.
    what: String,
    path: PathBuf,
    bytes: u64,
    checksum: String,
    /// Name under which it was restored.
    restored_as: Option<String>,
    /// The local file is gone, or was never ours to remove.
    removed: bool,
}

impl Lineup {
    pub(super) fn new(prefix: String) -> Self {
        assert!(!prefix.contains('.'), "a dot ends the prefix of a file name: '{prefix}'");
        Lineup { prefix, last: 0, files: HashMap::new(), tables: HashMap::new() }
    }

    fn draw(&mut self) -> FileId {
        self.last += 1;
        FileId(self.last)
    }

    /// Takes restored files over: they are stored, and not ours.
    pub(super) fn restore(&mut self, list: &[SnapshotFile]) -> Vec<SnapshotEntry> {
        let mut entries = Vec::with_capacity(list.len());
        for file in list {
            let id = self.draw();
            let what = files::what_of(&file.name).unwrap_or_default().to_owned();
            let (path, checksum) = (file.local.clone(), file.checksum.clone());
            let restored_as = Some(file.name.clone());
            self.files.insert(id, Entry { what, path, bytes: file.bytes, checksum, restored_as, removed: true });
            entries.push(SnapshotEntry { file: id, bytes: file.bytes, stored_by: BEFORE });
        }
        entries
    }

    /// The restored base lies in the store under the names that it has there.
    pub(super) fn restored_base(&mut self, base: &[SnapshotEntry]) {
        for entry in base {
            let what = self.files[&entry.file].what.clone();
            self.tables.insert(what, entry.file);
        }
    }

    /// Takes a new local file over. `what`: see [`files`](super::files).
    pub(super) fn add(&mut self, what: String, path: PathBuf, bytes: u64, checksum: String) -> LocalFile {
        let id = self.draw();
        self.files.insert(id, Entry { what, path, bytes, checksum, restored_as: None, removed: false });
        LocalFile { id, bytes }
    }

    /// The snapshot file that shares its content with this table file of the store.
    pub(super) fn table(&self, what: &str) -> Option<LocalFile> {
        let id = *self.tables.get(what)?;
        Some(LocalFile { id, bytes: self.files[&id].bytes })
    }

    /// Remembers that a snapshot file is a table file of the store, under the last part of its name.
    pub(super) fn is_table(&mut self, file: LocalFile) {
        let what = self.files[&file.id].what.clone();
        self.tables.insert(what, file.id);
    }

    /// A new base: older files are in no snapshot from here on.
    pub(super) fn rebased(&mut self, base: &[LocalFile]) {
        let in_base = |id: &FileId| base.iter().any(|file| file.id == *id);
        self.tables.retain(|_, id| in_base(id));
        self.files.retain(|id, entry| !entry.removed || in_base(id));
    }

    /// The snapshot with its files' names.
    pub(super) fn snapshot(&self, list: SnapshotList) -> LocalSnapshot {
        let file = |entry: &SnapshotEntry| {
            let Entry { what, path, bytes, checksum, restored_as, .. } = &self.files[&entry.file];
            let new_name = || files::stored_name(&self.prefix, entry.stored_by, entry.file.0, what);
            SnapshotFile {
                name: restored_as.clone().unwrap_or_else(new_name),
                local: path.clone(),
                bytes: *bytes,
                checksum: checksum.clone(),
                stored: entry.stored_by != list.checkpoint,
            }
        };
        LocalSnapshot {
            checkpoint: list.checkpoint,
            base: list.base.iter().map(file).collect(),
            deltas: list.deltas.iter().map(file).collect(),
        }
    }

    /// Marks local files as removed, and says which paths to remove.
    pub(super) fn remove(&mut self, ids: &[FileId]) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for id in ids {
            if let Some(entry) = self.files.get_mut(id)
                && !entry.removed
            {
                entry.removed = true;
                paths.push(entry.path.clone());
            }
        }
        paths
    }
}

/// Where new files of a backend lie until a completed manifest holds them.
pub(super) struct Folders {
    root: PathBuf,
}

impl Folders {
    pub(super) fn new(root: PathBuf) -> Self {
        Folders { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Of the sets' files.
    pub(super) fn sets(&self) -> PathBuf {
        self.root.join("sets")
    }

    pub(super) fn table(&self, set: u64) -> PathBuf {
        self.sets().join(format!("{set}.sst"))
    }

    pub(super) fn rows(&self, set: u64) -> PathBuf {
        self.sets().join(format!("{set}.rows"))
    }

    pub(super) fn base(&self, set: u64) -> PathBuf {
        self.root.join(format!("base-{set}"))
    }
}
