//! The whole log, read once: which checkpoints count, and what they refer to.

use super::error::StoreError;
use super::log::{LogError, LogStore};
use super::manifest::{FileManifest, Manifest};
use super::record::LogRecord;
use std::collections::{BTreeMap, BTreeSet};
use weir_protocol::log::{LogEntry, LogView, Slot};
use weir_protocol::{CheckpointId, Generation};

/// A log as it stood while it was read.
#[derive(Clone, Debug)]
pub(super) struct LogContents {
    view: LogView,
    manifests: BTreeMap<Slot, Manifest>,
}

/// What manifests refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// State files, by name below `shared/`.
    pub files: BTreeSet<String>,
    /// Plugins, by sha256.
    pub plugins: BTreeSet<String>,
}

impl References {
    /// Takes in what a manifest refers to.
    pub fn add(&mut self, manifest: &Manifest) {
        self.files.extend(manifest.files().map(|file| file.name.clone()));
        self.plugins.extend(manifest.plugins().into_iter().map(str::to_owned));
    }

    /// Leaves out what others refer to as well.
    pub(super) fn without(mut self, others: &References) -> Self {
        self.files.retain(|name| !others.files.contains(name));
        self.plugins.retain(|name| !others.plugins.contains(name));
        self
    }

    /// What these manifests refer to.
    pub(super) fn of<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Self {
        let mut references = References::default();
        manifests.into_iter().for_each(|manifest| references.add(manifest));
        references
    }
}

impl LogContents {
    /// Reads every entry. Another job's log is an error; an entry that can't be read is not.
    pub(super) async fn read(log: &LogStore) -> Result<Self, LogError> {
        let mut entries = Vec::new();
        let mut manifests = BTreeMap::new();
        for slot in log.list().await? {
            match log.read(slot).await {
                Ok(Some(record)) => {
                    entries.push((slot, record.entry()));
                    if let LogRecord::Checkpoint(manifest) = record {
                        manifests.insert(slot, *manifest);
                    }
                }
                // Deleted since it was listed.
                Ok(None) => {}
                Err(error @ LogError::Corrupt { .. }) => {
                    entries.push((slot, LogEntry::Unreadable { reason: error.to_string() }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(LogContents { view: LogView::new(entries), manifests })
    }

    /// What the protocol sees.
    pub(super) fn view(&self) -> &LogView {
        &self.view
    }

    /// Manifests of the checkpoints that count, oldest first.
    pub(super) fn counting(&self) -> impl DoubleEndedIterator<Item = (Slot, &Manifest)> {
        self.view.checkpoints().filter_map(|(slot, _)| Some((slot, self.manifests.get(&slot)?)))
    }

    /// The manifest in a slot, whether it counts or not.
    pub(super) fn manifest_in(&self, slot: Slot) -> Option<&Manifest> {
        self.manifests.get(&slot)
    }

    /// The manifest of a checkpoint that counts.
    pub(super) fn find(&self, id: CheckpointId) -> Result<(Slot, &Manifest), LogError> {
        let found = self.view.find(id).and_then(|(slot, _)| Some((slot, self.manifests.get(&slot)?)));
        found.ok_or_else(|| LogError::NoSuchCheckpoint { id, available: self.view.checkpoint_ids() })
    }

    /// Entries that can't be read, and why.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = (Slot, &str)> {
        self.view.entries().iter().filter_map(|(slot, entry)| match entry {
            LogEntry::Unreadable { reason } => Some((*slot, reason.as_str())),
            LogEntry::Claim(_)
            | LogEntry::Checkpoint(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Finished { .. }
            | LogEntry::Foreign { .. } => None,
        })
    }

    /// Every file that counting manifests name, and by which checkpoints.
    pub(super) fn referenced(&self) -> BTreeMap<&FileManifest, Vec<&str>> {
        let mut referenced: BTreeMap<&FileManifest, Vec<&str>> = BTreeMap::new();
        for (_, manifest) in self.counting() {
            for file in manifest.files() {
                let by = referenced.entry(file).or_default();
                if by.last() != Some(&manifest.id.as_str()) {
                    by.push(&manifest.id);
                }
            }
        }
        referenced
    }
}

/// Generation that stands in a state file's name, `<generation>-…`; none if it is not one of ours.
pub(super) fn generation_of(name: &str) -> Option<Generation> {
    let (digits, _) = name.split_once('-')?;
    let generation = digits.parse().ok().map(Generation)?;
    // "+3" and "03" parse, and are not ours.
    (generation.to_string() == digits).then_some(generation)
}

/// What could not be removed, and why. It stays as garbage until the next collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What.
    pub name: String,
    /// Why.
    pub error: StoreError,
}
