//! The commit coordinator of one transactional sink.
//!
//! Order of a generation: commit what the newest checkpoint contains → `RecoveryCommitted` → abort the rest → `RecoveryAborted`
//! → permits. Each writer's transactions queue in a lane of their own, so that one that waits holds up only its writer.
//!
//! What asks for a commit is a [`CommitPermit`], which only the checkpoint coordinator makes, or a plan of recovery: nobody
//! commits by comparing checkpoint ids (T1).

pub use super::events::{AbortOutcome, Call, CommitOutcome, Effect, Event, LossReason, RetryPolicy};
use super::lane::{Lane, LaneStep};
use super::recovering::{AbortStep, Abortion};
use crate::coordinator::CommitPermit;
use crate::mutant::{Mutant, Mutation};
use crate::{CheckpointId, Generation, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// No recovery yet.
    New,
    /// Committing what the newest checkpoint contains; then these are aborted.
    Committing { aborts: Vec<TransactionId> },
    /// Aborting the rest.
    Aborting(Abortion),
    /// Following permits.
    Running,
    /// An abort failed: the generation ends.
    Failed,
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitCoordinator {
    generation: Generation,
    sink: String,
    policy: RetryPolicy,
    phase: Phase,
    lanes: BTreeMap<u32, Lane>,
    /// Permits that are not done, with what is left of them.
    permits: BTreeMap<CheckpointId, BTreeSet<TransactionId>>,
    permitted: Option<CheckpointId>,
    /// Committed and not yet forgotten: how many completed checkpoints in a row have not contained it.
    committed: BTreeMap<TransactionId, u32>,
    /// May be lost.
    replayed: BTreeSet<TransactionId>,
    calls: Call,
    wake: Option<Duration>,
    mutation: Mutation,
}

/// Completed checkpoints in a row that must not contain a transaction before it is forgotten outside.
const ABSENT_BEFORE_FORGET: u32 = 2;

impl CommitCoordinator {
    /// The coordinator of this sink in this attempt; `Recover` is its first event.
    pub fn new(generation: Generation, sink: impl Into<String>, policy: RetryPolicy) -> Self {
        assert!(policy.attempts >= 1, "T4: a transaction is tried at least once");
        CommitCoordinator {
            generation,
            sink: sink.into(),
            policy,
            phase: Phase::New,
            lanes: BTreeMap::new(),
            permits: BTreeMap::new(),
            permitted: None,
            committed: BTreeMap::new(),
            replayed: BTreeSet::new(),
            calls: Call(0),
            wake: None,
            mutation: Mutation::default(),
        }
    }

    /// The same with a fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutation(self, mutation: Mutation) -> Self {
        CommitCoordinator { mutation, ..self }
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, event: Event, effects: &mut Vec<Effect>) {
        let now = match event {
            Event::Recover { now, contained, replayed, known_committed, dangling, up_to } => {
                self.on_recover(contained, replayed, known_committed, dangling, up_to, effects);
                now
            }
            Event::Permit { now, permit } => {
                self.on_permit(&permit, effects);
                now
            }
            Event::CommitAnswered { now, call, outcomes } => {
                self.on_lane(effects, |lane, policy, replayed| lane.on_committed(call, &outcomes, now, policy, replayed));
                now
            }
            Event::StatusAnswered { now, call, outcomes } => {
                self.on_lane(effects, |lane, policy, replayed| lane.on_status(call, &outcomes, now, policy, replayed));
                now
            }
            Event::AbortAnswered { now, call, outcomes } => {
                self.on_aborted(call, &outcomes, now, effects);
                now
            }
            Event::Tick { now } => now,
            Event::Finished => return self.on_finished(effects),
        };
        self.advance(now, effects);
    }

    fn on_recover(
        &mut self,
        contained: Vec<TransactionId>,
        replayed: BTreeSet<TransactionId>,
        known_committed: BTreeSet<TransactionId>,
        dangling: Vec<TransactionId>,
        up_to: Generation,
        effects: &mut Vec<Effect>,
    ) {
        if self.phase != Phase::New {
            return; // A repeated message.
        }
        assert!(up_to <= self.generation, "T3: a recovery touches nothing of a newer generation");
        let contained: Vec<TransactionId> = contained.into_iter().filter(|id| id.sink == self.sink).collect();
        let decided = |id: &TransactionId| contained.contains(id) || known_committed.contains(id);
        let all = self.mutation.is(Mutant::AbortNewerGenerations);
        let ours = |id: &TransactionId| id.sink == self.sink && (id.generation <= up_to || all);
        let aborts = dangling.into_iter().filter(|id| ours(id) && !decided(id)).collect();
        assert!(contained.iter().all(|id| !known_committed.contains(id)), "T5: what is known committed is not called for");
        self.committed = known_committed.into_iter().filter(|id| id.sink == self.sink).map(|id| (id, 0)).collect();
        self.replayed = replayed;
        self.phase = Phase::Committing { aborts };
        if !self.mutation.is(Mutant::NoCommitOnRecovery) {
            contained.into_iter().for_each(|id| self.enqueue(id));
        }
        self.settle(effects);
    }

    fn on_permit(&mut self, permit: &CommitPermit, effects: &mut Vec<Effect>) {
        let checkpoint = permit.checkpoint();
        if checkpoint.generation() != self.generation || Some(checkpoint) <= self.permitted {
            return;
        }
        assert_eq!(self.phase, Phase::Running, "T3: no permit before the recovery is done");
        self.permitted = Some(checkpoint);
        let contains: BTreeSet<&TransactionId> = permit.transactions().iter().filter(|id| id.sink == self.sink).collect();
        for id in self.lanes.values().flat_map(Lane::waiting) {
            assert!(contains.contains(id), "T4: {checkpoint} leaves out {id}, which is not committed");
        }
        for id in &contains {
            if !self.committed.contains_key(id) && !self.is_waiting(id) {
                assert_eq!(id.generation, self.generation, "T2: {id} was decided by the recovery");
                self.enqueue((*id).clone());
            }
        }
        let left = contains.iter().filter(|id| !self.committed.contains_key(**id)).map(|id| (*id).clone()).collect();
        self.permits.insert(checkpoint, left);
        self.forget_absent(&contains, effects);
        self.settle(effects);
    }

    fn forget_absent(&mut self, contains: &BTreeSet<&TransactionId>, effects: &mut Vec<Effect>) {
        for (id, absent) in &mut self.committed {
            *absent = if contains.contains(id) { 0 } else { *absent + 1 };
        }
        let due = |absent: u32| absent >= ABSENT_BEFORE_FORGET;
        let transactions: Vec<_> = self.committed.iter().filter(|(_, n)| due(**n)).map(|(id, _)| id.clone()).collect();
        self.committed.retain(|_, absent| !due(*absent));
        if !transactions.is_empty() {
            effects.push(Effect::Forget { transactions });
        }
    }

    fn on_finished(&mut self, effects: &mut Vec<Effect>) {
        assert!(self.lanes.values().all(Lane::is_empty), "T4: `finished` stands, and something is not committed");
        let transactions: Vec<_> = std::mem::take(&mut self.committed).into_keys().collect();
        if !transactions.is_empty() {
            effects.push(Effect::Forget { transactions });
        }
    }

    fn enqueue(&mut self, id: TransactionId) {
        self.lanes.entry(id.writer).or_default().enqueue(id);
    }

    fn is_waiting(&self, id: &TransactionId) -> bool {
        self.lanes.get(&id.writer).is_some_and(|lane| lane.waiting().any(|waiting| waiting == id))
    }

    /// Hands an answer to the lane whose call it answers.
    fn on_lane(
        &mut self,
        effects: &mut Vec<Effect>,
        mut answer: impl FnMut(&mut Lane, &RetryPolicy, &BTreeSet<TransactionId>) -> Vec<LaneStep>,
    ) {
        let mut committed = Vec::new();
        let mut told = Vec::new();
        for lane in self.lanes.values_mut() {
            for step in answer(lane, &self.policy, &self.replayed) {
                match step {
                    LaneStep::Committed(id) => committed.push(id),
                    LaneStep::Replayed(id) => told.push(Effect::Replayed { transaction: id }),
                    LaneStep::Failed(id, reason) => told.push(Effect::Lost { transaction: id, reason }),
                }
            }
        }
        for id in &committed {
            let before = self.committed.insert(id.clone(), 0);
            assert!(before.is_none(), "T5: {id} is committed twice");
            self.permits.values_mut().for_each(|left| {
                left.remove(id);
            });
        }
        if !committed.is_empty() {
            effects.push(Effect::Committed { transactions: committed });
        }
        effects.append(&mut told);
        self.settle(effects);
    }

    /// Says what is done.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        while let Some(entry) = self.permits.first_entry()
            && entry.get().is_empty()
        {
            effects.push(Effect::PermitDone { checkpoint: entry.remove_entry().0 });
        }
        if let Phase::Committing { aborts } = &self.phase
            && self.lanes.values().all(Lane::is_empty)
        {
            effects.push(Effect::RecoveryCommitted);
            let abortion = Abortion::new(aborts.clone());
            for id in abortion.left() {
                assert!(!self.committed.contains_key(id), "T2: {id} is committed");
            }
            self.phase = Phase::Aborting(abortion);
        }
        if let Phase::Aborting(abortion) = &self.phase
            && abortion.left().is_empty()
        {
            effects.push(Effect::RecoveryAborted);
            self.phase = Phase::Running;
        }
    }

    fn on_aborted(&mut self, call: Call, outcomes: &[AbortOutcome], now: Duration, effects: &mut Vec<Effect>) {
        let Phase::Aborting(abortion) = &mut self.phase else { return };
        for step in abortion.on_answer(call, outcomes, now, &self.policy) {
            match step {
                AbortStep::FoundCommitted(transactions) => {
                    // No checkpoint that a recovery can begin from contains them: nobody will ask again.
                    effects.push(Effect::FoundCommitted { transactions: transactions.clone() });
                    effects.push(Effect::Forget { transactions });
                }
                AbortStep::Failed(transactions, reason) => {
                    self.phase = Phase::Failed;
                    effects.push(Effect::AbortFailed { transactions, reason });
                    return;
                }
            }
        }
        self.settle(effects);
    }

    /// Calls all that is due at `now`, and says when something is due next.
    fn advance(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let calls = &mut self.calls;
        for lane in self.lanes.values_mut() {
            lane.advance(now, calls, effects);
        }
        if let Phase::Aborting(abortion) = &mut self.phase {
            abortion.advance(now, calls, effects);
        }
        let wake = self.due();
        if let Some(at) = wake
            && wake != self.wake
        {
            effects.push(Effect::WakeAt { at });
        }
        self.wake = wake;
    }

    fn due(&self) -> Option<Duration> {
        let aborting = match &self.phase {
            Phase::Aborting(abortion) => abortion.due(),
            Phase::New | Phase::Committing { .. } | Phase::Running | Phase::Failed => None,
        };
        self.lanes.values().filter_map(Lane::due).chain(aborting).min()
    }
}
