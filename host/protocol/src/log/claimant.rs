//! The start of a generation: list, judge, claim, look again, judge again.

use super::{ClaimFacts, Claim, CreateOutcome, LogEntry, Request, Slot};
use crate::recovery::{Ask, RecoveryPlan, Refusal};
use crate::{CheckpointId, Lineage};

/// What a process that wants to run the job brings along.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRequest {
    /// Drawn for this claim alone.
    pub nonce: u128,
    /// Drawn now; used at a job's first start and at `--fresh`.
    pub new_lineage: Lineage,
    /// What the user asks for.
    pub ask: Ask,
    /// What this process may bring into being outside (the lineage and earlier claims are filled in).
    pub facts: ClaimFacts,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Begin. Sent once.
    Begin,
    /// Answer to [`Effect::List`]: every entry, in slot order.
    Listed {
        /// Of the question.
        request: Request,
        /// The log.
        entries: Vec<(Slot, LogEntry)>,
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
    /// A list or read gave no answer.
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
    /// List the log and read every entry.
    List {
        /// To be repeated in the answer.
        request: Request,
        /// See [`Effect`].
        tries: u32,
    },
    /// Create this claim in this slot, if nothing stands there.
    Create {
        /// To be repeated in the answer.
        request: Request,
        /// Where.
        slot: Slot,
        /// What.
        claim: Claim,
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
    /// The claim stands and nothing above it: carry out the plan. The last effect.
    Claimed {
        /// Where the claim stands: the publisher goes on from here.
        slot: Slot,
        /// The claim.
        claim: Claim,
        /// What to do before the first record.
        plan: RecoveryPlan,
    },
    /// The job has finished: nothing to do. The last effect.
    Finished {
        /// Its final checkpoint.
        id: CheckpointId,
    },
    /// It may not start this way. The last effect.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// The storage gave no usable answer for too long. The last effect.
    GaveUp {
        /// The last reason.
        reason: String,
    },
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    ask: ClaimRequest,
}

impl Claimant {
    /// A process that wants the job.
    pub fn new(ask: ClaimRequest) -> Self {
        Claimant { ask }
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, _event: Event, _effects: &mut Vec<Effect>) {}
}
