//! The start of a generation.
//!
//! 1. List the log and judge: what can be refused or answered "finished" leaves no trace.
//! 2. Create the claim in the highest slot + 1. No useful answer: read the slot. One's own: go on. Another's: back to 1 (claim
//!    anew). Absent: create again; the first create may still land.
//! 3. List again. Something stands above the claim: back to 1, with this listing. A process whose claim has something above it
//!    must not act on it: what stands above may be a claim that has read the log already.
//! 4. Judge again, by a listing that was begun after the claim stood: the newest checkpoint in it stays the newest, because
//!    every older publisher finds its next slot taken or this claim above it.
//!
//! Invariants: **C5** a generation is claimed once. **C7** no checkpoint of an older generation counts after the claim.

use super::questions::Questions;
use super::{Claim, ClaimFacts, CreateOutcome, LogEntry, LogView, Request, Slot, Start};
use crate::bounds::CLAIM_ROUNDS;
use crate::mutant::{Mutant, Mutation};
use crate::recovery::{self, Ask, RecoveryPlan, Refusal, Verdict};
use crate::{CheckpointId, Generation, Lineage};

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
    /// Generations up to this one have left names outside, of which this log knows nothing.
    pub above: Generation,
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
        /// The listing that the plan was made from: every checkpoint that counts stands in it.
        log: LogView,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Nothing asked yet.
    New,
    /// Listing, to judge before the claim.
    Listing,
    /// Creating the claim.
    Creating { slot: Slot, claim: Claim },
    /// Reading what stands in the claim's slot.
    Reading { slot: Slot, claim: Claim },
    /// The claim stands; listing again.
    Looking { slot: Slot, claim: Claim },
    /// The last effect is out.
    Done,
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    ask: ClaimRequest,
    phase: Phase,
    questions: Questions,
    rounds: u32,
    mutation: Mutation,
}

impl Claimant {
    /// A process that wants the job.
    pub fn new(ask: ClaimRequest) -> Self {
        Claimant { ask, phase: Phase::New, questions: Questions::new(), rounds: 0, mutation: Mutation::default() }
    }

    /// The same with fewer tries than the bound.
    #[must_use]
    pub fn with_tries(self, tries_max: u32) -> Self {
        Claimant { questions: self.questions.with_tries(tries_max), ..self }
    }

    /// The same with a fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutation(self, mutation: Mutation) -> Self {
        Claimant { mutation, ..self }
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Begin => self.on_begin(effects),
            Event::Listed { request, entries } if self.questions.is_last(request) => {
                self.on_listed(LogView::new(entries), effects)
            }
            Event::CreateAnswered { request, outcome } if self.questions.is_last(request) => self.on_created(outcome, effects),
            Event::ReadAnswered { request, entry } if self.questions.is_last(request) => self.on_read(entry, effects),
            Event::Failed { request, reason } if self.questions.is_last(request) => self.ask_again(reason, effects),
            // An answer to an earlier question: it says nothing about now.
            Event::Listed { .. } | Event::CreateAnswered { .. } | Event::ReadAnswered { .. } | Event::Failed { .. } => {}
        }
    }

    fn on_begin(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::New {
            self.go(Phase::Listing, effects);
        }
    }

    fn on_listed(&mut self, log: LogView, effects: &mut Vec<Effect>) {
        match self.phase.clone() {
            Phase::Listing => self.judge_and_claim(&log, effects),
            Phase::Looking { slot, claim } => self.on_looked(&log, slot, claim, effects),
            Phase::New | Phase::Creating { .. } | Phase::Reading { .. } | Phase::Done => {}
        }
    }

    fn judge_and_claim(&mut self, log: &LogView, effects: &mut Vec<Effect>) {
        self.rounds += 1;
        if self.rounds > CLAIM_ROUNDS {
            return self
                .end(Effect::GaveUp { reason: format!("{CLAIM_ROUNDS} claims of other processes came in between") }, effects);
        }
        let above = Generation(self.ask.above.0.checked_add(1).expect("C5: a driver asks for no generation that does not exist"));
        let generation = log.next_generation().max(above);
        match recovery::plan(log, &self.ask.ask, generation) {
            Verdict::Proceed(_) => {
                let slot = log.highest().map_or(Slot::FIRST, Slot::next);
                self.go(Phase::Creating { slot, claim: self.claim(log, generation) }, effects);
            }
            Verdict::Finished(id) => self.end(Effect::Finished { id }, effects),
            Verdict::Refused(refusal) => self.end(Effect::Refused { refusal }, effects),
        }
    }

    fn claim(&self, log: &LogView, generation: Generation) -> Claim {
        let before = log.newest_claim().map(|(_, claim)| claim.lineage);
        let lineage = match (self.ask.ask.start, before) {
            (Start::Newest | Start::From(_), Some(lineage)) => lineage,
            (Start::Scratch, _) | (_, None) => self.ask.new_lineage,
        };
        let mut facts = log.facts();
        facts.merge(&self.ask.facts);
        facts.lineages.insert(lineage);
        let (start, allow_duplicates) = match (self.ask.ask.start, log.start_in_force()) {
            (Start::Newest, Some(standing)) => (standing.start, standing.allow_duplicates),
            (Start::Newest, None) => (Start::Newest, false),
            (start @ (Start::Scratch | Start::From(_)), _) => (start, self.ask.ask.allow_duplicates),
        };
        Claim { generation, nonce: self.ask.nonce, lineage, start, allow_duplicates, facts }
    }

    fn on_created(&mut self, outcome: CreateOutcome, effects: &mut Vec<Effect>) {
        let Phase::Creating { slot, claim } = self.phase.clone() else { return };
        match outcome {
            CreateOutcome::Created => self.stands(slot, claim, effects),
            CreateOutcome::Exists | CreateOutcome::Unknown => {
                self.ask(Phase::Reading { slot, claim }, effects);
            }
        }
    }

    fn on_read(&mut self, entry: Option<LogEntry>, effects: &mut Vec<Effect>) {
        let Phase::Reading { slot, claim } = self.phase.clone() else { return };
        match entry {
            Some(LogEntry::Claim(standing)) if standing.nonce == claim.nonce && standing.generation == claim.generation => {
                self.stands(slot, claim, effects);
            }
            Some(_) => self.go(Phase::Listing, effects),
            None => self.step_back(Phase::Creating { slot, claim }, effects),
        }
    }

    fn stands(&mut self, slot: Slot, claim: Claim, effects: &mut Vec<Effect>) {
        self.go(Phase::Looking { slot, claim }, effects);
    }

    fn on_looked(&mut self, log: &LogView, slot: Slot, claim: Claim, effects: &mut Vec<Effect>) {
        let above = log.highest() > Some(slot) && !self.mutation.is(Mutant::NoLookAbove);
        if above {
            return self.judge_and_claim(log, effects);
        }
        if !log.entries().contains_key(&slot) && !self.mutation.is(Mutant::NoLookAbove) {
            return self.ask_again(format!("the listing of the log does not show slot {slot}, which stands"), effects);
        }
        let newer = log.entries().values().filter_map(LogEntry::generation).any(|generation| generation > claim.generation);
        assert!(!newer || self.mutation.is(Mutant::NoLookAbove), "C5: nothing of a newer generation stands below a claim");
        match recovery::plan(log, &self.ask.ask, claim.generation) {
            Verdict::Proceed(plan) => self.end(Effect::Claimed { slot, claim, plan, log: log.clone() }, effects),
            Verdict::Finished(id) => self.end(Effect::Finished { id }, effects),
            Verdict::Refused(refusal) => self.end(Effect::Refused { refusal }, effects),
        }
    }

    /// On to a phase that is progress.
    fn go(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        self.questions.progress();
        self.ask(phase, effects);
    }

    /// To a phase that is none: tries are counted on.
    fn step_back(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        self.phase = phase;
        self.ask_again("the log shows nothing in the slot of the claim".to_owned(), effects);
    }

    fn ask_again(&mut self, reason: String, effects: &mut Vec<Effect>) {
        match self.questions.may_try_again() {
            true => self.ask(self.phase.clone(), effects),
            false => self.end(Effect::GaveUp { reason }, effects),
        }
    }

    fn ask(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        let (request, tries) = self.questions.next();
        match &phase {
            Phase::Listing | Phase::Looking { .. } => effects.push(Effect::List { request, tries }),
            Phase::Creating { slot, claim } => {
                effects.push(Effect::Create { request, slot: *slot, claim: claim.clone(), tries });
            }
            Phase::Reading { slot, .. } => effects.push(Effect::Read { request, slot: *slot, tries }),
            Phase::New | Phase::Done => {}
        }
        self.phase = phase;
    }

    fn end(&mut self, effect: Effect, effects: &mut Vec<Effect>) {
        self.phase = Phase::Done;
        effects.push(effect);
    }
}
