//! The files of one backend: which of them a snapshot lists, under which name, and which may be deleted here.
//!
//! A file is *stored* under the name that the newest completed manifest lists it by. A snapshot counts on that name only if no
//! pending snapshot lists the file under another one: if that one completes, the older name goes with the older checkpoint.

use super::events::{FileId, LocalFile, SnapshotEntry, SnapshotList};
use crate::CheckpointId;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    bytes: u64,
    /// Whose upload the newest completed manifest lists; none: no completed manifest holds it.
    stored_by: Option<CheckpointId>,
    /// Whether it lies here.
    local: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Files {
    known: BTreeMap<FileId, Known>,
    base: Vec<FileId>,
    deltas: Vec<FileId>,
    /// Greatest id ever known.
    greatest: Option<FileId>,
    /// Snapshots handed out and neither completed nor aborted.
    pending: BTreeMap<CheckpointId, SnapshotList>,
    completed: Option<CheckpointId>,
}

impl Files {
    /// Of a backend that was restored from a completed checkpoint.
    pub(super) fn restored(snapshot: SnapshotList) -> Self {
        let mut files = Files { completed: Some(snapshot.checkpoint), ..Files::default() };
        for entry in snapshot.base.iter().chain(&snapshot.deltas) {
            let known = Known { bytes: entry.bytes, stored_by: Some(entry.stored_by), local: false };
            assert!(files.known.insert(entry.file, known).is_none(), "S3: {:?} is listed twice", entry.file);
        }
        files.greatest = files.known.keys().next_back().copied();
        files.base = snapshot.base.iter().map(|entry| entry.file).collect();
        files.deltas = snapshot.deltas.iter().map(|entry| entry.file).collect();
        files
    }

    /// A new delta, after all that there are.
    pub(super) fn push_delta(&mut self, file: LocalFile) {
        assert!(Some(file.id) > self.greatest, "S3: {:?} was used before", file.id);
        self.learn(file);
        self.deltas.push(file.id);
    }

    /// A new base, which holds all that base and deltas hold.
    pub(super) fn replace_base(&mut self, base: &[LocalFile]) {
        for file in base {
            let in_list = self.base.contains(&file.id) || self.deltas.contains(&file.id);
            assert!(in_list || Some(file.id) > self.greatest, "S3: {:?} was used before", file.id);
            if !in_list {
                self.learn(*file);
            }
        }
        self.base = base.iter().map(|file| file.id).collect();
        self.deltas.clear();
    }

    fn learn(&mut self, file: LocalFile) {
        self.greatest = self.greatest.max(Some(file.id));
        self.known.insert(file.id, Known { bytes: file.bytes, stored_by: None, local: true });
    }

    /// True if no file is listed.
    pub(super) fn is_empty(&self) -> bool {
        self.base.is_empty() && self.deltas.is_empty()
    }

    /// Bytes of the base, bytes of the deltas, number of the deltas.
    pub(super) fn weights(&self) -> (u64, u64, usize) {
        let bytes = |files: &[FileId]| files.iter().map(|file| self.known[file].bytes).sum();
        (bytes(&self.base), bytes(&self.deltas), self.deltas.len())
    }

    /// The snapshot of a checkpoint: the whole list as it is now (S2).
    pub(super) fn snapshot(&mut self, checkpoint: CheckpointId) -> SnapshotList {
        let newest = self.pending.keys().next_back().copied().max(self.completed);
        assert!(newest < Some(checkpoint), "A4: snapshot {checkpoint} after {newest:?}");
        let list = |files: &[FileId]| files.iter().map(|file| self.entry(*file, checkpoint)).collect();
        let list = SnapshotList { checkpoint, base: list(&self.base), deltas: list(&self.deltas) };
        self.pending.insert(checkpoint, list.clone());
        list
    }

    fn entry(&self, file: FileId, checkpoint: CheckpointId) -> SnapshotEntry {
        let known = &self.known[&file];
        let agreed = |name: &CheckpointId| self.pending_names(file).all(|pending| pending == *name);
        let stored_by = known.stored_by.filter(agreed).unwrap_or(checkpoint);
        assert!(known.local || stored_by != checkpoint, "S1: {file:?} is to be uploaded and was deleted");
        SnapshotEntry { file, bytes: known.bytes, stored_by }
    }

    fn pending_names(&self, file: FileId) -> impl Iterator<Item = CheckpointId> {
        let entries = self.pending.values().flat_map(|list| list.base.iter().chain(&list.deltas));
        entries.filter(move |entry| entry.file == file).map(|entry| entry.stored_by)
    }

    /// A manifest holds this snapshot. Gives the local files that nobody needs any more.
    pub(super) fn complete(&mut self, checkpoint: CheckpointId) -> Vec<FileId> {
        if Some(checkpoint) <= self.completed {
            return Vec::new(); // A repeated or late message.
        }
        let list = self.pending.remove(&checkpoint);
        let list = list.unwrap_or_else(|| panic!("C2: {checkpoint} is complete without this snapshot"));
        for entry in list.base.iter().chain(&list.deltas) {
            if let Some(known) = self.known.get_mut(&entry.file) {
                known.stored_by = Some(entry.stored_by);
            }
        }
        self.completed = Some(checkpoint);
        self.pending.retain(|pending, _| *pending > checkpoint);
        self.collect()
    }

    /// This snapshot is wanted no more. Gives the local files that nobody needs any more.
    pub(super) fn abort(&mut self, checkpoint: CheckpointId) -> Vec<FileId> {
        self.pending.remove(&checkpoint);
        self.collect()
    }

    /// Forgets what is in no list, and gives up local files that are stored or in no list (S1).
    pub(super) fn collect(&mut self) -> Vec<FileId> {
        let entries =
            || self.pending.values().flat_map(|list| list.base.iter().chain(&list.deltas).map(|e| (e, list.checkpoint)));
        let uploading: BTreeSet<FileId> = entries().filter(|(e, by)| e.stored_by == *by).map(|(e, _)| e.file).collect();
        let listed: BTreeSet<FileId> = self.base.iter().chain(&self.deltas).copied().collect();
        let mut gone = Vec::new();
        for (file, known) in &mut self.known {
            let needed = uploading.contains(file) || (listed.contains(file) && known.stored_by.is_none());
            if known.local && !needed {
                known.local = false;
                gone.push(*file);
            }
        }
        self.known.retain(|file, known| known.local || listed.contains(file));
        gone
    }
}
