//! One generation's writer in the log: checkpoints, tombstones, `finished`.

use super::{CheckpointEntry, CreateOutcome, LogEntry, Request, Slot};
use crate::{CheckpointId, Generation};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Publish this checkpoint. Its files are durable. Not before the last one is decided.
    Publish {
        /// The manifest's summary.
        checkpoint: CheckpointEntry,
    },
    /// Abort the checkpoint under way for certain, by a tombstone in its slot; ignored when it is decided.
    Abort {
        /// Which.
        id: CheckpointId,
    },
    /// All that the final checkpoint holds is committed: append `finished`.
    Finish {
        /// The final checkpoint.
        id: CheckpointId,
    },
    /// Answer to [`Effect::Create`].
    CreateAnswered {
        /// Of the question.
        request: Request,
        /// What became of it.
        outcome: CreateOutcome,
    },
    /// Answer to [`Effect::Read`].
    ReadAnswered {
        /// Of the question.
        request: Request,
        /// What stands in the slot, if anything does.
        entry: Option<LogEntry>,
    },
    /// Answer to [`Effect::Look`]. The listing began after the question was asked.
    Looked {
        /// Of the question.
        request: Request,
        /// The highest slot that exists.
        highest: Slot,
    },
    /// A read or look gave no answer.
    Failed {
        /// Of the question.
        request: Request,
        /// For the user.
        reason: String,
    },
}

/// What to do. `tries` counts how often in a row this question was asked, from 0: the driver waits longer with each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Create this entry in this slot, if nothing stands there. For a checkpoint: its manifest.
    Create {
        /// To be repeated in the answer.
        request: Request,
        /// Where.
        slot: Slot,
        /// What.
        entry: LogEntry,
        /// See [`Effect`].
        tries: u32,
    },
    /// Read one slot.
    Read {
        /// To be repeated in the answer.
        request: Request,
        /// Which.
        slot: Slot,
        /// See [`Effect`].
        tries: u32,
    },
    /// List the names in the log: is there anything above this slot?
    Look {
        /// To be repeated in the answer.
        request: Request,
        /// Our own entry.
        slot: Slot,
        /// See [`Effect`].
        tries: u32,
    },
    /// **The decision point**: the manifest stands, and nothing above it.
    Published {
        /// Which.
        id: CheckpointId,
        /// Where.
        slot: Slot,
    },
    /// A tombstone stands in its place: it will never be complete.
    Aborted {
        /// Which.
        id: CheckpointId,
    },
    /// `finished` stands, and nothing above it.
    Finished {
        /// The final checkpoint.
        id: CheckpointId,
    },
    /// Another process has taken the job over: stop, commit nothing, never restart by policy. The last effect.
    Fenced {
        /// Where its entry stands.
        slot: Slot,
    },
    /// The storage gave no usable answer for too long. What became of the entry is not known: neither commit nor abort, fail
    /// over; the next claim finds out. The last effect.
    GaveUp {
        /// The last reason.
        reason: String,
    },
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Publisher {
    generation: Generation,
    last: Slot,
}

impl Publisher {
    /// The publisher of `generation`, whose claim stands in `claim`.
    pub fn new(generation: Generation, claim: Slot) -> Self {
        Publisher { generation, last: claim }
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, _event: Event, _effects: &mut Vec<Effect>) {}
}
