//! One generation's writer in the log: checkpoints, tombstones, `finished`; one at a time, in id order.
//!
//! 1. Create the entry in the slot after one's own last entry, whatever stands above: were it the highest + 1, a fenced process
//!    would write after the claim that fenced it.
//! 2. No useful answer: read the slot. One's own entry: it stands. Another's: fenced. Absent: create again. That it was not
//!    written is never concluded: the create may still land, and then it counts.
//! 3. It stands: list again. Something above: fenced, for the generation that claimed there may have read the log before this
//!    entry landed. Nothing above: decided.
//!
//! To abort for certain a tombstone is created in the same slot; whichever of the two stands, counts.
//!
//! Invariants: **C1** ids rise. **C7** nothing is decided once a newer claim stands. **T1** `Published` only after the look.

use super::questions::Questions;
use super::{CheckpointEntry, CreateOutcome, LogEntry, Request, Slot};
use crate::mutant::{Mutant, Mutation};
use crate::{CheckpointId, Generation};
use std::cmp::Ordering;

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Nothing is under way.
    Idle,
    /// Creating this entry in the slot after the last.
    Creating(LogEntry),
    /// Reading what stands in the slot that this entry is for.
    Reading(LogEntry),
    /// This entry stands; listing again.
    Looking(LogEntry),
    /// Fenced, or given up.
    Done,
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Publisher {
    generation: Generation,
    /// Slot of one's own last entry.
    last: Slot,
    /// The newest checkpoint that was published. (One that a tombstone has aborted may be newer.)
    newest: Option<CheckpointId>,
    phase: Phase,
    questions: Questions,
    mutation: Mutation,
}

impl Publisher {
    /// The publisher of `generation`, whose claim stands in `claim`.
    pub fn new(generation: Generation, claim: Slot) -> Self {
        Publisher {
            generation,
            last: claim,
            newest: None,
            phase: Phase::Idle,
            questions: Questions::new(),
            mutation: Mutation::default(),
        }
    }

    /// The same with fewer tries than the bound.
    #[must_use]
    pub fn with_tries(self, tries_max: u32) -> Self {
        Publisher { questions: self.questions.with_tries(tries_max), ..self }
    }

    /// The same with a fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutation(self, mutation: Mutation) -> Self {
        Publisher { mutation, ..self }
    }

    /// True if nothing is under way and the generation may publish.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Publish { checkpoint } => self.on_publish(checkpoint, effects),
            Event::Abort { id } => self.on_abort(id, effects),
            Event::Finish { id } => self.on_finish(id, effects),
            Event::CreateAnswered { request, outcome } if self.questions.is_last(request) => self.on_created(outcome, effects),
            Event::ReadAnswered { request, entry } if self.questions.is_last(request) => self.on_read(entry, effects),
            Event::Looked { request, highest } if self.questions.is_last(request) => self.on_looked(highest, effects),
            Event::Failed { request, reason } if self.questions.is_last(request) => self.ask_again(reason, effects),
            // An answer to an earlier question: it says nothing about now.
            Event::CreateAnswered { .. } | Event::ReadAnswered { .. } | Event::Looked { .. } | Event::Failed { .. } => {}
        }
    }

    fn on_publish(&mut self, checkpoint: CheckpointEntry, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Done || checkpoint.id.generation() != self.generation {
            return;
        }
        assert_eq!(self.phase, Phase::Idle, "C1: one publish at a time");
        assert!(self.newest < Some(checkpoint.id), "C1: {} is published after {:?}", checkpoint.id, self.newest);
        self.go(Phase::Creating(LogEntry::Checkpoint(checkpoint)), effects);
    }

    fn on_abort(&mut self, id: CheckpointId, effects: &mut Vec<Effect>) {
        match &self.phase {
            Phase::Creating(LogEntry::Checkpoint(checkpoint)) | Phase::Reading(LogEntry::Checkpoint(checkpoint))
                if checkpoint.id == id =>
            {
                self.go(Phase::Creating(LogEntry::Tombstone { id }), effects);
            }
            // It stands, or a tombstone is on its way, or it was decided before.
            Phase::Idle | Phase::Creating(_) | Phase::Reading(_) | Phase::Looking(_) | Phase::Done => {}
        }
    }

    fn on_finish(&mut self, id: CheckpointId, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Done {
            return;
        }
        assert_eq!(self.phase, Phase::Idle, "C1: `finished` follows the last publish");
        self.go(Phase::Creating(LogEntry::Finished { generation: self.generation, id }), effects);
    }

    fn on_created(&mut self, outcome: CreateOutcome, effects: &mut Vec<Effect>) {
        let Phase::Creating(entry) = self.phase.clone() else { return };
        match outcome {
            CreateOutcome::Created => self.stands(entry, effects),
            CreateOutcome::Unknown if self.mutation.is(Mutant::UnknownPublishIsAbort) => self.forget(&entry, effects),
            CreateOutcome::Exists | CreateOutcome::Unknown => self.ask(Phase::Reading(entry), effects),
        }
    }

    fn on_read(&mut self, found: Option<LogEntry>, effects: &mut Vec<Effect>) {
        let Phase::Reading(entry) = self.phase.clone() else { return };
        match found {
            None if self.mutation.is(Mutant::AbsentIsNotWritten) => self.forget(&entry, effects),
            None => {
                self.phase = Phase::Creating(entry);
                self.ask_again(format!("slot {} stays empty", self.last.next()), effects);
            }
            Some(LogEntry::Unreadable { reason }) => self.end(Effect::GaveUp { reason }, effects),
            Some(found) if is_own(&found, &entry) => self.stands(found, effects),
            Some(_) => self.end(Effect::Fenced { slot: self.last.next() }, effects),
        }
    }

    /// A fault: the outcome is taken for an abort.
    fn forget(&mut self, entry: &LogEntry, effects: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        if let LogEntry::Checkpoint(checkpoint) = entry {
            effects.push(Effect::Aborted { id: checkpoint.id });
        }
    }

    fn stands(&mut self, entry: LogEntry, effects: &mut Vec<Effect>) {
        self.last = self.last.next();
        if self.mutation.is(Mutant::NoLookAbove) {
            return self.decided(entry, effects);
        }
        self.go(Phase::Looking(entry), effects);
    }

    fn on_looked(&mut self, highest: Slot, effects: &mut Vec<Effect>) {
        let Phase::Looking(entry) = self.phase.clone() else { return };
        match highest.cmp(&self.last) {
            Ordering::Greater => self.end(Effect::Fenced { slot: highest }, effects),
            Ordering::Equal => self.decided(entry, effects),
            Ordering::Less => self.ask_again(format!("the listing of the log does not show slot {}", self.last), effects),
        }
    }

    fn decided(&mut self, entry: LogEntry, effects: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        match entry {
            LogEntry::Checkpoint(checkpoint) => {
                self.newest = Some(checkpoint.id);
                effects.push(Effect::Published { id: checkpoint.id, slot: self.last });
            }
            LogEntry::Tombstone { id } => effects.push(Effect::Aborted { id }),
            LogEntry::Finished { id, .. } => effects.push(Effect::Finished { id }),
            LogEntry::Claim(_) | LogEntry::Unreadable { .. } | LogEntry::Foreign { .. } => {
                unreachable!("T1: a publisher creates only its own entries")
            }
        }
    }

    /// On to a phase that is progress.
    fn go(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        self.questions.progress();
        self.ask(phase, effects);
    }

    fn ask_again(&mut self, reason: String, effects: &mut Vec<Effect>) {
        match self.questions.may_try_again() {
            true => self.ask(self.phase.clone(), effects),
            false => self.end(Effect::GaveUp { reason }, effects),
        }
    }

    fn ask(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        let ((request, tries), slot) = (self.questions.next(), self.last.next());
        match &phase {
            Phase::Creating(entry) => effects.push(Effect::Create { request, slot, entry: entry.clone(), tries }),
            Phase::Reading(_) => effects.push(Effect::Read { request, slot, tries }),
            Phase::Looking(_) => effects.push(Effect::Look { request, slot: self.last, tries }),
            Phase::Idle | Phase::Done => {}
        }
        self.phase = phase;
    }

    fn end(&mut self, effect: Effect, effects: &mut Vec<Effect>) {
        self.phase = Phase::Done;
        effects.push(effect);
    }
}

/// Whether what was found in the slot is what was to be written there, or its counterpart (a manifest and its tombstone).
fn is_own(found: &LogEntry, wanted: &LogEntry) -> bool {
    match (found, wanted) {
        (LogEntry::Checkpoint(a), LogEntry::Checkpoint(b)) => a.id == b.id && a.digest == b.digest,
        (LogEntry::Tombstone { id }, LogEntry::Checkpoint(checkpoint))
        | (LogEntry::Checkpoint(checkpoint), LogEntry::Tombstone { id }) => *id == checkpoint.id,
        (LogEntry::Tombstone { id: a }, LogEntry::Tombstone { id: b }) => a == b,
        (LogEntry::Finished { generation: a, .. }, LogEntry::Finished { generation: b, .. }) => a == b,
        // Another kind: somebody else's.
        (
            LogEntry::Claim(_)
            | LogEntry::Checkpoint(_)
            | LogEntry::Tombstone { .. }
            | LogEntry::Finished { .. }
            | LogEntry::Unreadable { .. }
            | LogEntry::Foreign { .. },
            _,
        ) => false,
    }
}
