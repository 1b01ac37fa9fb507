//! What lies outside the processes: the checkpoint storage and the system that the sink writes to. It also watches: whatever
//! breaks an invariant is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_protocol::commit::coordinator::{AbortOutcome, CommitOutcome};
use weir_protocol::log::{LogEntry, LogView, Slot};
use weir_protocol::{CheckpointId, Generation, TransactionId};

/// What the external system knows of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Prepared,
    Committed,
    /// Committed, and nobody outside remembers by whom.
    Forgotten,
    Aborted,
    /// It has lived too long.
    Expired,
}

/// A transaction. Each holds one record of its writer's input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outside {
    pub status: Status,
    /// Position of its record.
    pub position: u64,
    /// When it was prepared.
    pub since: u64,
}

/// A checkpoint's state: the position of every source.
pub type Positions = BTreeMap<CheckpointId, u64>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    pub log: Arc<BTreeMap<Slot, LogEntry>>,
    /// Creates that may still land.
    pub flight: Arc<BTreeSet<(Slot, LogEntry)>>,
    pub outside: BTreeMap<TransactionId, Outside>,
    pub positions: Positions,
    pub time: u64,
    /// What any manifest that ever stood contained.
    contained: BTreeSet<TransactionId>,
    /// Every claim that ever stood with nothing above it. (One that lands late, in an emptied slot, fences nobody.)
    fences: BTreeMap<Slot, Generation>,
    newest: Option<CheckpointId>,
    /// Checkpoints in whose place a tombstone ever stood.
    withdrawn: BTreeSet<CheckpointId>,
    /// The first invariant that was broken.
    pub broken: Option<&'static str>,
}

impl World {
    pub fn check(&mut self, holds: bool, invariant: &'static str) {
        if !holds {
            self.broken = self.broken.or(Some(invariant));
        }
    }

    pub fn view(&self) -> LogView {
        LogView::new(self.log.iter().map(|(slot, entry)| (*slot, entry.clone())))
    }

    pub fn highest(&self) -> Slot {
        self.log.keys().next_back().copied().unwrap_or(Slot(0))
    }

    /// The newest checkpoint that counts.
    pub fn newest(&self) -> Option<CheckpointId> {
        self.newest
    }

    /// Takes a create off its way.
    pub fn take_off(&mut self, index: usize) -> (Slot, LogEntry) {
        let create = self.flight.iter().nth(index).cloned().expect("on its way");
        Arc::make_mut(&mut self.flight).remove(&create);
        create
    }

    /// Lets a create land; if something stands there it is gone.
    pub fn land(&mut self, slot: Slot, entry: LogEntry) {
        if self.log.contains_key(&slot) {
            return;
        }
        match &entry {
            LogEntry::Claim(claim) => {
                if slot > self.highest() {
                    let before = self.fences.insert(slot, claim.generation);
                    let again = before.is_some() || self.fences.range(..slot).any(|(_, older)| *older >= claim.generation);
                    self.check(!again, "C5 generations rise");
                }
            }
            LogEntry::Checkpoint(checkpoint) => self.contained.extend(checkpoint.contains.iter().cloned()),
            LogEntry::Tombstone { id } => drop(self.withdrawn.insert(*id)),
            LogEntry::Finished { .. } | LogEntry::Unreadable { .. } | LogEntry::Foreign { .. } => {}
        }
        Arc::make_mut(&mut self.log).insert(slot, entry);
        self.check_log();
    }

    pub fn delete(&mut self, slot: Slot) {
        Arc::make_mut(&mut self.log).remove(&slot);
        self.check_log();
    }

    fn check_log(&mut self) {
        let view = self.view();
        let counted: Vec<(Slot, CheckpointId)> = view.checkpoints().map(|(slot, checkpoint)| (slot, checkpoint.id)).collect();
        let late =
            counted.iter().any(|(slot, id)| self.fences.range(..slot).any(|(_, generation)| *generation > id.generation()));
        let withdrawn = counted.iter().any(|(_, id)| self.withdrawn.contains(id));
        self.check(!withdrawn, "C7 no manifest counts that a tombstone has withdrawn");
        self.check(!late, "C7 no manifest of a generation counts after a newer claim");
        let newest = counted.last().map(|(_, id)| *id);
        self.check(newest >= self.newest, "C1 the newest checkpoint never goes back");
        self.newest = newest;
    }

    pub fn prepare(&mut self, id: TransactionId, position: u64) {
        let fresh = Outside { status: Status::Prepared, position, since: self.time };
        let before = self.outside.insert(id, fresh);
        self.check(before.is_none(), "C5 a transaction id is used once");
    }

    pub fn prepared(&self) -> Vec<TransactionId> {
        let hanging = self.outside.iter().filter(|(_, transaction)| transaction.status == Status::Prepared);
        hanging.map(|(id, _)| id.clone()).collect()
    }

    pub fn status(&self, id: &TransactionId) -> Status {
        self.outside[id].status
    }

    fn set(&mut self, id: &TransactionId, status: Status) {
        self.outside.get_mut(id).expect("prepared before").status = status;
    }

    /// Commits one transaction. `repeats`: the user allowed it.
    pub fn commit(&mut self, id: &TransactionId, repeats: bool) -> CommitOutcome {
        match self.status(id) {
            Status::Prepared => {
                self.check(self.contained.contains(id), "T1 no commit before a manifest that contains it");
                let earlier = |other: &TransactionId| {
                    other.writer == id.writer && (other.generation, other.number) < (id.generation, id.number)
                };
                let overtakes = self.outside.iter().any(|(other, transaction)| {
                    earlier(other) && other.generation == id.generation && transaction.status == Status::Prepared
                });
                self.check(!overtakes, "T6 commits of a writer are in prepare order");
                self.set(id, Status::Committed);
                self.check(repeats || !self.repeats(id), "E1 each record is committed once");
                CommitOutcome::Committed
            }
            Status::Committed => CommitOutcome::AlreadyCommitted,
            Status::Aborted => {
                self.check(false, "T2 nothing is committed after it was aborted");
                CommitOutcome::Lost("aborted".to_owned())
            }
            Status::Forgotten => CommitOutcome::Lost("forgotten".to_owned()),
            Status::Expired => CommitOutcome::Lost("expired".to_owned()),
        }
    }

    fn repeats(&self, id: &TransactionId) -> bool {
        self.output_at(id.writer, self.outside[id].position) > 1
    }

    fn output_at(&self, writer: u32, position: u64) -> usize {
        let here = |(id, transaction): &(&TransactionId, &Outside)| {
            let committed = matches!(transaction.status, Status::Committed | Status::Forgotten);
            id.writer == writer && transaction.position == position && committed
        };
        self.outside.iter().filter(here).count()
    }

    /// What a status question would be told.
    pub fn ask(&self, id: &TransactionId) -> CommitOutcome {
        match self.status(id) {
            Status::Prepared => CommitOutcome::Retryable("prepared".to_owned()),
            Status::Committed => CommitOutcome::AlreadyCommitted,
            Status::Forgotten => CommitOutcome::Lost("forgotten".to_owned()),
            Status::Aborted => CommitOutcome::Lost("aborted".to_owned()),
            Status::Expired => CommitOutcome::Lost("expired".to_owned()),
        }
    }

    /// Aborts one transaction on behalf of a recovery of `by`.
    pub fn abort(&mut self, id: &TransactionId, by: Generation) -> AbortOutcome {
        self.check(id.generation <= by, "T3 a recovery touches nothing of a newer generation");
        match self.status(id) {
            Status::Prepared => {
                self.set(id, Status::Aborted);
                AbortOutcome::Aborted
            }
            Status::Committed | Status::Forgotten => {
                self.check(false, "T2 nothing is aborted after it was committed");
                AbortOutcome::Committed
            }
            Status::Aborted | Status::Expired => AbortOutcome::Aborted,
        }
    }

    pub fn forget(&mut self, id: &TransactionId) {
        if self.status(id) == Status::Committed {
            self.set(id, Status::Forgotten);
        }
    }

    /// The external system gives up a transaction that has lived too long.
    pub fn expire(&mut self, id: &TransactionId) {
        self.set(id, Status::Expired);
    }

    /// Whether every record below this position is in the output. At least once; more than once is noted at the commit.
    pub fn output_reaches(&self, writers: u32, position: u64) -> bool {
        (0..writers).all(|writer| (0..position).all(|position| self.output_at(writer, position) >= 1))
    }

    /// Whether all that the newest checkpoint contains is committed.
    pub fn newest_is_committed(&self) -> bool {
        let view = self.view();
        let committed = |id: &TransactionId| matches!(self.status(id), Status::Committed | Status::Forgotten);
        view.newest().is_none_or(|(_, checkpoint)| checkpoint.contains.iter().all(committed))
    }
}
