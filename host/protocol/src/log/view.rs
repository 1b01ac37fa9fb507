//! What a listing of the log says.

use super::{CheckpointEntry, LogEntry, Slot};
use std::collections::BTreeMap;

/// A listing, in slot order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogView {
    entries: BTreeMap<Slot, LogEntry>,
}

impl LogView {
    /// Of these entries.
    pub fn new(entries: impl IntoIterator<Item = (Slot, LogEntry)>) -> Self {
        LogView { entries: entries.into_iter().collect() }
    }

    /// Every entry, in slot order.
    pub fn entries(&self) -> &BTreeMap<Slot, LogEntry> {
        &self.entries
    }

    /// The highest slot that exists.
    pub fn highest(&self) -> Option<Slot> {
        self.entries.keys().next_back().copied()
    }

    /// The newest completed checkpoint that can be read, and where it stands.
    pub fn newest(&self) -> Option<(Slot, &CheckpointEntry)> {
        self.entries.iter().rev().find_map(|(slot, entry)| Some((*slot, entry.as_checkpoint()?)))
    }
}
