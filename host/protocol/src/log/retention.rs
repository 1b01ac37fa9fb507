//! Which entries of the log may be deleted.

use super::{LogEntry, LogView, Slot};

/// Slots that may be deleted, in the order to delete them in (oldest first; each entry before the files that only it names).
/// `retain`: completed checkpoints to keep, at least 1.
///
/// Never anything above the oldest checkpoint that is kept: a create that lands late in an emptied slot above the newest one
/// would be taken for the newest, and between two that are kept for one that `--from` may name. Never the newest claim, which
/// knows what all claims before it knew, nor anything that may be it.
///
/// Never a tombstone at or above the floor of the view: the manifest that it withdrew may land late in its slot, where no claim
/// ever stood, and what it contains was aborted. Below the floor no checkpoint counts, whatever lands there.
pub fn retention(entries: &[(Slot, LogEntry)], retain: usize) -> Vec<Slot> {
    assert!(retain >= 1, "S1: the newest checkpoint is never deleted");
    let view = LogView::new(entries.iter().cloned());
    let Some((oldest_kept, _)) = view.checkpoints().rev().nth(retain - 1) else { return Vec::new() };
    let claim = view.newest_claim().map(|(slot, _)| slot);
    let deletable = |slot: Slot, entry: &LogEntry| match entry {
        LogEntry::Claim(_) => Some(slot) != claim,
        LogEntry::Unreadable { .. } => Some(slot) < claim,
        LogEntry::Tombstone { .. } => slot < view.floor(),
        LogEntry::Checkpoint(_) | LogEntry::Finished { .. } => true,
        LogEntry::Foreign { .. } => false,
    };
    let below = view.entries().range(..oldest_kept);
    below.filter(|(slot, entry)| deletable(**slot, entry)).map(|(slot, _)| *slot).collect()
}
