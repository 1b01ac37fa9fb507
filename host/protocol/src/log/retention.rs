//! Which entries of the log may be deleted.

use super::{LogEntry, Slot};

/// Slots that may be deleted, in the order to delete them in (oldest first; each entry before its files). `retain`: completed
/// checkpoints to keep, at least 1.
pub fn retention(_entries: &[(Slot, LogEntry)], _retain: usize) -> Vec<Slot> {
    Vec::new()
}
