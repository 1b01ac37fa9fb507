//! What has to be done before the first record: a pure function of the log and of what the user asks for.

use crate::log::{CheckpointEntry, LogEntry, LogView, Slot, Start};
use crate::{CheckpointId, Generation, Lineage, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To run the job.
    Run,
    /// To end transactions or collect garbage (`txn abort`, `checkpoint gc`): never "finished", never refused for repeats.
    Maintain,
}

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// What for.
    pub purpose: Purpose,
    /// `--fresh`, `--from`, or nothing.
    pub start: Start,
    /// `--allow-duplicates`.
    pub allow_duplicates: bool,
}

/// Where a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartPoint {
    /// With empty state, at the beginning of every source.
    Scratch,
    /// With this checkpoint's state and positions.
    Checkpoint(CheckpointId),
}

/// Committed output that a start would write again: sink → transactions.
pub type Repeats = BTreeMap<String, Vec<TransactionId>>;

/// What to do, in this order: commit, abort, restore, run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecoveryPlan {
    /// Where to begin.
    pub start: StartPoint,
    /// Where `start` stands in the log.
    pub start_slot: Option<Slot>,
    /// The newest completed checkpoint that can be read.
    pub newest: Option<CheckpointId>,
    /// All that it contains, in prepare order for each writer: to be committed first.
    pub commit: Vec<TransactionId>,
    /// Those of `commit` that `start` does not contain: their records are read again, so that nothing is missing if the outside
    /// has lost one. (Without this, a lost transaction would be asked for at every start, for ever.)
    pub replayed: BTreeSet<TransactionId>,
    /// Contained in an older checkpoint but not in the newest, or finished: committed already, no call.
    pub known_committed: BTreeSet<TransactionId>,
    /// Nothing of a newer generation is touched.
    pub up_to: Generation,
    /// Every lineage of this job: where to look for what hangs.
    pub lineages: BTreeSet<Lineage>,
    /// What will be written again, as the user allowed.
    pub repeats: Repeats,
    /// True if `start` is a final checkpoint: once its commits are done, only `finished` is missing.
    pub last: bool,
}

/// Why a start is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The log holds entries of another job.
    ForeignLog {
        /// Where.
        slot: Slot,
        /// Whose.
        job: String,
    },
    /// `--from` names a checkpoint that is not in the log.
    NoSuchCheckpoint {
        /// The name.
        id: CheckpointId,
        /// Those that are.
        available: Vec<CheckpointId>,
    },
    /// Committed output would be written again, and `--allow-duplicates` was not given.
    WouldRepeat {
        /// Where it would begin.
        start: StartPoint,
        /// What would be repeated.
        repeats: Repeats,
        /// Completed checkpoints after the start.
        after: Vec<CheckpointId>,
    },
    /// An entry that may be the newest checkpoint can't be read. `--from` with `--allow-duplicates` goes on without it.
    NewestUnreadable {
        /// Where.
        slot: Slot,
        /// What is wrong with it.
        reason: String,
        /// Those that can be read.
        available: Vec<CheckpointId>,
    },
}

/// What a start comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may start.
    Proceed(RecoveryPlan),
    /// There is nothing left to do.
    Finished(CheckpointId),
    /// It may not.
    Refused(Refusal),
}

impl RecoveryPlan {
    /// What of `dangling` (what exists outside) has to be given up: what no checkpoint contains, of generations up to one's own.
    pub fn aborts(&self, dangling: &[TransactionId]) -> Vec<TransactionId> {
        let decided = |id: &TransactionId| self.commit.contains(id) || self.known_committed.contains(id);
        dangling.iter().filter(|id| id.generation <= self.up_to && !decided(id)).cloned().collect()
    }
}

/// Where a start begins, before anything is checked.
struct Effective {
    start: Start,
    allow_duplicates: bool,
    /// An unreadable entry above this slot is not yet accepted by anybody; none: all are, by this very request.
    accepted_below: Option<Slot>,
}

/// Judges `ask` by the log. `up_to` is the generation of the claim, made or about to be made.
///
/// Steps, each before what depends on it:
/// 1. another job's log says nothing;
/// 2. a plain start follows a start that stands in the log without a checkpoint after it;
/// 3. a finished job has nothing to do;
/// 4. an unreadable entry may be the newest checkpoint: only a start that the user chose may pass it;
/// 5. the start is looked up;
/// 6. what it would write again is named, and refused unless allowed.
pub fn plan(log: &LogView, ask: &Ask, up_to: Generation) -> Verdict {
    if let Some((slot, job)) = log.foreign() {
        return Verdict::Refused(Refusal::ForeignLog { slot, job: job.to_owned() });
    }
    let effective = effective(log, ask);
    if let (Purpose::Run, Start::Newest, Some(id)) = (ask.purpose, effective.start, log.finished()) {
        return Verdict::Finished(id);
    }
    if let Some(refusal) = unreadable(log, &effective) {
        return Verdict::Refused(refusal);
    }
    let start = match effective.start {
        Start::Newest => log.newest(),
        Start::Scratch => None,
        Start::From(id) => match log.find(id) {
            Some(found) => Some(found),
            None => return Verdict::Refused(Refusal::NoSuchCheckpoint { id, available: log.checkpoint_ids() }),
        },
    };
    let (after, repeats) = repeats(log, start);
    let may_repeat = effective.allow_duplicates || ask.purpose == Purpose::Maintain;
    if !may_repeat && (!repeats.is_empty() || unseen_output(log, start)) {
        return Verdict::Refused(Refusal::WouldRepeat { start: start_point(start), repeats, after });
    }
    Verdict::Proceed(proceed(log, start, repeats, up_to))
}

fn effective(log: &LogView, ask: &Ask) -> Effective {
    match (ask.start, log.start_in_force()) {
        (Start::Newest, Some(standing)) => {
            Effective { start: standing.start, allow_duplicates: standing.allow_duplicates, accepted_below: Some(standing.slot) }
        }
        (Start::Newest, None) => {
            Effective { start: Start::Newest, allow_duplicates: ask.allow_duplicates, accepted_below: Some(Slot(0)) }
        }
        (Start::Scratch | Start::From(_), _) => {
            Effective { start: ask.start, allow_duplicates: ask.allow_duplicates, accepted_below: None }
        }
    }
}

fn unreadable(log: &LogView, effective: &Effective) -> Option<Refusal> {
    let (slot, reason) = log.unreadable_newest()?;
    let accepted = effective.allow_duplicates && effective.accepted_below.is_none_or(|below| slot < below);
    let refusal = Refusal::NewestUnreadable { slot, reason: reason.to_owned(), available: log.checkpoint_ids() };
    (!accepted).then_some(refusal)
}

fn start_point(start: Option<(Slot, &CheckpointEntry)>) -> StartPoint {
    start.map_or(StartPoint::Scratch, |(_, checkpoint)| StartPoint::Checkpoint(checkpoint.id))
}

/// Checkpoints after the start, and what they contain beyond it: all of that is or will be committed.
fn repeats(log: &LogView, start: Option<(Slot, &CheckpointEntry)>) -> (Vec<CheckpointId>, Repeats) {
    let held = start.map_or(&[][..], |(_, checkpoint)| &checkpoint.contains);
    let above = start.map_or(Slot(0), |(slot, _)| slot);
    let mut after = Vec::new();
    let mut repeats = Repeats::new();
    for (_, checkpoint) in log.checkpoints().filter(|(slot, _)| *slot > above) {
        after.push(checkpoint.id);
        for id in checkpoint.contains.iter().filter(|id| !held.contains(id)) {
            let of_sink = repeats.entry(id.sink.clone()).or_default();
            if !of_sink.contains(id) {
                of_sink.push(id.clone());
            }
        }
    }
    (after, repeats)
}

/// Whether a start at the beginning may repeat output of checkpoints that retention has deleted: if any has ever completed and
/// the job has ever had a sink that writes.
fn unseen_output(log: &LogView, start: Option<(Slot, &CheckpointEntry)>) -> bool {
    let facts = log.facts();
    let writes = !facts.sink_paths.is_empty() || !facts.prefixes.is_empty();
    start.is_none() && log.newest().is_some() && writes
}

fn proceed(log: &LogView, start: Option<(Slot, &CheckpointEntry)>, repeats: Repeats, up_to: Generation) -> RecoveryPlan {
    let newest = log.newest();
    let contained = newest.map_or(&[][..], |(_, checkpoint)| &checkpoint.contains);
    let held = start.map_or(&[][..], |(_, checkpoint)| &checkpoint.contains);
    let commit = if finished_stands(log) { Vec::new() } else { contained.to_vec() };
    let ever = log.checkpoints().flat_map(|(_, checkpoint)| &checkpoint.contains);
    let known_committed: BTreeSet<_> = ever.filter(|id| !commit.contains(id)).cloned().collect();
    let replayed = commit.iter().filter(|id| !held.contains(id)).cloned().collect();
    assert!(held.iter().all(|id| commit.contains(id) || known_committed.contains(id)), "T3: all that the start holds is decided");
    RecoveryPlan {
        start: start_point(start),
        start_slot: start.map(|(slot, _)| slot),
        newest: newest.map(|(_, checkpoint)| checkpoint.id),
        commit,
        replayed,
        known_committed,
        up_to,
        lineages: log.facts().lineages,
        repeats,
        last: start.is_some_and(|(_, checkpoint)| checkpoint.last),
    }
}

/// Whether all that the newest checkpoint contains was committed before `finished` was written, whatever was asked for since.
fn finished_stands(log: &LogView) -> bool {
    let newest = log.newest().map(|(slot, _)| slot);
    let finished = |(slot, entry): (&Slot, &LogEntry)| match entry {
        LogEntry::Finished { .. } => Some(*slot) > newest,
        LogEntry::Claim(_)
        | LogEntry::Checkpoint(_)
        | LogEntry::Tombstone { .. }
        | LogEntry::Unreadable { .. }
        | LogEntry::Foreign { .. } => false,
    };
    log.entries().iter().any(finished)
}
