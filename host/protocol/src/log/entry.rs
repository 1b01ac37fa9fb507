//! Entries of the job's log, as the machines see them: summaries of what lies in the storage.

use crate::{CheckpointId, Generation, Lineage, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A place in the log, from 1. Named zero-padded, so that name order is slot order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

impl Slot {
    /// The slot of an empty log's first entry.
    pub const FIRST: Slot = Slot(1);

    /// The slot above.
    pub const fn next(self) -> Slot {
        Slot(self.0 + 1)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}", self.0)
    }
}

/// Number of a question to the storage. An answer repeats it; an answer to any but the last question is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u32);

/// What the storage said to a create-if-absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CreateOutcome {
    /// It was absent, and is now this entry, durably.
    Created,
    /// Something stands there. It may be our own, from a try that got no answer.
    Exists,
    /// No answer, an error, or a conflict. It may stand, may still come to stand, or never.
    Unknown,
}

/// Where a claim says that the job begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Start {
    /// It says nothing: at the newest completed checkpoint, or at the beginning if there is none.
    #[default]
    Newest,
    /// At the beginning (`--fresh`).
    Scratch,
    /// At this checkpoint (`--from`).
    From(CheckpointId),
}

/// What may exist outside because of this job. Cumulative: every claim holds all of the claims before it, and is written
/// before anything in it is used for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimFacts {
    /// Every lineage.
    pub lineages: BTreeSet<Lineage>,
    /// Every prefix of external names (Kafka transactional ids, database transaction names).
    pub prefixes: BTreeSet<String>,
    /// Every sink path.
    pub sink_paths: BTreeSet<String>,
    /// The greatest number of subtasks of any sink.
    pub parallelism: u32,
    /// Slot and generation of earlier claims: the last one below the oldest checkpoint, and all above. A checkpoint that lands
    /// late, in an emptied slot, is told by them from one that counts (C7). Filled in by the claimant.
    pub claims: BTreeMap<Slot, Generation>,
}

impl ClaimFacts {
    /// Takes in what another claim knew.
    pub fn merge(&mut self, other: &ClaimFacts) {
        self.lineages.extend(&other.lineages);
        self.prefixes.extend(other.prefixes.iter().cloned());
        self.sink_paths.extend(other.sink_paths.iter().cloned());
        self.parallelism = self.parallelism.max(other.parallelism);
        self.claims.extend(&other.claims);
    }
}

/// A generation's first entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// Above every generation claimed before (C5).
    pub generation: Generation,
    /// Drawn for this claim alone: tells one's own from another process' claim of the same generation.
    pub nonce: u128,
    /// The history that this generation writes.
    pub lineage: Lineage,
    /// Where it begins. Later plain claims repeat it until a checkpoint stands after it.
    pub start: Start,
    /// The user accepts that committed output is written again because of `start`. Repeated with it.
    pub allow_duplicates: bool,
    /// What may exist outside.
    pub facts: ClaimFacts,
}

/// What the log needs to know of a checkpoint's manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointEntry {
    /// Its id; the generation that wrote it is in it.
    pub id: CheckpointId,
    /// XXH3-128 of the manifest: tells one's own entry.
    pub digest: u128,
    /// Committables of all sinks, in prepare order for each writer.
    pub contains: Vec<TransactionId>,
    /// True for the final checkpoint: all sources had sent EndOfData before its barrier.
    pub last: bool,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogEntry {
    /// A generation begins.
    Claim(Claim),
    /// A checkpoint is complete.
    Checkpoint(CheckpointEntry),
    /// This checkpoint is aborted for certain: its slot is taken.
    Tombstone {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// All that the final checkpoint holds is committed.
    Finished {
        /// The generation that saw it committed.
        generation: Generation,
        /// The final checkpoint.
        id: CheckpointId,
    },
    /// It stands, and can't be read: a damaged file, an unknown format. It may be anything.
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
    /// It belongs to another job.
    Foreign {
        /// That job's name.
        job: String,
    },
}

impl LogEntry {
    /// The generation that wrote it, if that can be told.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            LogEntry::Claim(claim) => Some(claim.generation),
            LogEntry::Checkpoint(checkpoint) => Some(checkpoint.id.generation()),
            LogEntry::Tombstone { id } => Some(id.generation()),
            LogEntry::Finished { generation, .. } => Some(*generation),
            LogEntry::Unreadable { .. } | LogEntry::Foreign { .. } => None,
        }
    }

    /// The checkpoint, if it is one.
    pub fn as_checkpoint(&self) -> Option<&CheckpointEntry> {
        match self {
            LogEntry::Checkpoint(checkpoint) => Some(checkpoint),
            LogEntry::Claim(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Finished { .. }
            | LogEntry::Unreadable { .. }
            | LogEntry::Foreign { .. } => None,
        }
    }

    /// The claim, if it is one.
    pub fn as_claim(&self) -> Option<&Claim> {
        match self {
            LogEntry::Claim(claim) => Some(claim),
            LogEntry::Checkpoint(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Finished { .. }
            | LogEntry::Unreadable { .. }
            | LogEntry::Foreign { .. } => None,
        }
    }
}
