//! What a listing of the log says: which checkpoints count, which is newest, where a resume begins.

use super::{CheckpointEntry, Claim, ClaimFacts, LogEntry, Slot, Start};
use crate::bounds::CLAIMS_REMEMBERED;
use crate::{CheckpointId, Generation};
use std::collections::{BTreeMap, BTreeSet};

/// A listing, in slot order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogView {
    entries: BTreeMap<Slot, LogEntry>,
    /// Every claim that is known: those listed, and those that listed ones remember.
    claims: BTreeMap<Slot, Generation>,
    /// Below this slot no checkpoint counts: none did when one of the claims was made, and what comes later comes too late.
    floor: Slot,
    /// Slots with a checkpoint that a lower slot has already: somebody has copied an entry.
    copies: BTreeSet<Slot>,
}

/// A start that stands in the log and has no checkpoint after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StartInForce {
    /// The newest claim that carries it.
    pub slot: Slot,
    /// Not `Newest`.
    pub start: Start,
    /// As the user allowed it.
    pub allow_duplicates: bool,
}

impl LogView {
    /// Of these entries.
    pub fn new(entries: impl IntoIterator<Item = (Slot, LogEntry)>) -> Self {
        let entries: BTreeMap<Slot, LogEntry> = entries.into_iter().collect();
        let mut claims = BTreeMap::new();
        for (slot, entry) in &entries {
            if let Some(claim) = entry.as_claim() {
                claims.extend(&claim.facts.claims);
                claims.insert(*slot, claim.generation);
            }
        }
        // Each claim's floor holds for ever, so the highest counts: one that landed late may bring an old one.
        let floors =
            entries.values().filter_map(LogEntry::as_claim).filter_map(|claim| claim.facts.claims.keys().next().copied());
        let floor = floors.max().unwrap_or(Slot(0));
        let mut seen = BTreeSet::new();
        let ids = entries.iter().filter_map(|(slot, entry)| Some((*slot, entry.as_checkpoint()?.id)));
        let copies = ids.filter(|(_, id)| !seen.insert(*id)).map(|(slot, _)| slot).collect();
        LogView { entries, claims, floor, copies }
    }

    /// Every entry, in slot order.
    pub fn entries(&self) -> &BTreeMap<Slot, LogEntry> {
        &self.entries
    }

    /// The highest slot that exists.
    pub fn highest(&self) -> Option<Slot> {
        self.entries.keys().next_back().copied()
    }

    /// Completed checkpoints that count, in slot order (C7).
    ///
    /// A create that was on its way for long may land in a slot that retention has emptied. Its publisher finds that it is
    /// fenced, so nothing of that checkpoint was ever committed, and much of it was aborted. It is told by its slot: the one
    /// after its publisher's last entry, which was taken by the claim that fenced it. A claim that lands as late is harmless,
    /// which is why generations are not compared here: it would take the checkpoints above it away.
    pub fn checkpoints(&self) -> impl DoubleEndedIterator<Item = (Slot, &CheckpointEntry)> {
        self.entries.iter().filter_map(|(slot, entry)| {
            let checkpoint = entry.as_checkpoint()?;
            let counts = *slot >= self.floor && !self.claims.contains_key(slot) && !self.copies.contains(slot);
            counts.then_some((*slot, checkpoint))
        })
    }

    /// Below this slot no checkpoint counts now, nor ever: the newest claim says so, and each later one repeats it.
    pub(super) fn floor(&self) -> Slot {
        self.floor
    }

    /// Ids of the checkpoints that count, in slot order.
    pub fn checkpoint_ids(&self) -> Vec<CheckpointId> {
        self.checkpoints().map(|(_, checkpoint)| checkpoint.id).collect()
    }

    /// The newest completed checkpoint that can be read, and where it stands.
    pub fn newest(&self) -> Option<(Slot, &CheckpointEntry)> {
        self.checkpoints().next_back()
    }

    /// The checkpoint of this id, and where it stands.
    pub fn find(&self, id: CheckpointId) -> Option<(Slot, &CheckpointEntry)> {
        self.checkpoints().find(|(_, checkpoint)| checkpoint.id == id)
    }

    /// The newest claim, and where it stands.
    pub fn newest_claim(&self) -> Option<(Slot, &Claim)> {
        self.entries.iter().rev().find_map(|(slot, entry)| Some((*slot, entry.as_claim()?)))
    }

    /// The `--fresh` or `--from` that a resume has to follow, because no checkpoint stands after it yet.
    pub fn start_in_force(&self) -> Option<StartInForce> {
        let (slot, claim) = self.newest_start()?;
        let in_force = StartInForce { slot, start: claim.start, allow_duplicates: claim.allow_duplicates };
        (self.newest_slot() < Some(slot)).then_some(in_force)
    }

    fn newest_start(&self) -> Option<(Slot, &Claim)> {
        let claims = self.entries.iter().rev().filter_map(|(slot, entry)| Some((*slot, entry.as_claim()?)));
        claims.into_iter().find(|(_, claim)| claim.start != Start::Newest)
    }

    fn newest_slot(&self) -> Option<Slot> {
        self.newest().map(|(slot, _)| slot)
    }

    /// The final checkpoint, if the job has finished: `finished` stands after the last checkpoint and after the last claim
    /// with a start.
    pub fn finished(&self) -> Option<CheckpointId> {
        let start = self.newest_start().map(|(slot, _)| slot);
        self.entries.iter().rev().find_map(|(slot, entry)| match entry {
            LogEntry::Finished { id, .. } if Some(*slot) > self.newest_slot() && Some(*slot) > start => Some(*id),
            LogEntry::Finished { .. }
            | LogEntry::Claim(_)
            | LogEntry::Checkpoint(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Unreadable { .. }
            | LogEntry::Foreign { .. } => None,
        })
    }

    /// The newest entry that can't be read and that may be a checkpoint newer than all that can.
    pub fn unreadable_newest(&self) -> Option<(Slot, &str)> {
        self.entries.iter().rev().find_map(|(slot, entry)| match entry {
            LogEntry::Unreadable { reason } if Some(*slot) > self.newest_slot() => Some((*slot, reason.as_str())),
            LogEntry::Unreadable { .. }
            | LogEntry::Claim(_)
            | LogEntry::Checkpoint(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Finished { .. }
            | LogEntry::Foreign { .. } => None,
        })
    }

    /// The first entry of another job.
    pub fn foreign(&self) -> Option<(Slot, &str)> {
        self.entries.iter().find_map(|(slot, entry)| match entry {
            LogEntry::Foreign { job } => Some((*slot, job.as_str())),
            LogEntry::Claim(_)
            | LogEntry::Checkpoint(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Finished { .. }
            | LogEntry::Unreadable { .. } => None,
        })
    }

    /// A generation above every one claimed (C5). An entry that can't be read may be a claim, so each counts as one.
    pub fn next_generation(&self) -> Generation {
        let listed = self.entries.values().filter_map(LogEntry::generation);
        let highest = listed.chain(self.claims.values().copied()).max().unwrap_or_default();
        let hidden = self.entries.values().filter(|entry| matches!(entry, LogEntry::Unreadable { .. })).count();
        let hidden = u32::try_from(hidden).expect("a log has fewer than 2³² entries");
        Generation(highest.0.checked_add(hidden + 1).expect("C5: generations are used up"))
    }

    /// All that the claims of this log say may exist outside. The claims in it are those that a later reader may need: the
    /// last one below the oldest checkpoint that counts, and all above.
    pub fn facts(&self) -> ClaimFacts {
        let mut facts = ClaimFacts::default();
        for claim in self.entries.values().filter_map(LogEntry::as_claim) {
            facts.merge(&claim.facts);
        }
        let oldest = self.checkpoints().next().map_or(Slot(0), |(slot, _)| slot);
        let below = self.claims.range(..oldest).next_back().map_or(Slot(0), |(slot, _)| *slot);
        // Never lower than before, also when the checkpoint that had raised it can't be read any more.
        let below = below.max(self.floor);
        facts.claims = self.claims.range(below..).map(|(slot, generation)| (*slot, *generation)).collect();
        // The first one is the floor of later readers, so it stays.
        while facts.claims.len() > CLAIMS_REMEMBERED {
            let second = *facts.claims.keys().nth(1).expect("more than one");
            facts.claims.remove(&second);
        }
        facts
    }
}
