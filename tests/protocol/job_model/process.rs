//! One process: the shipped machines, and a driver that carries out their effects.

use super::world::World;
use super::{Config, Fault, Messages};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use weir_protocol::commit::coordinator::{self as commit, AbortOutcome, Call, CommitCoordinator, CommitOutcome, RetryPolicy};
use weir_protocol::commit::ledger::WriterLedger;
use weir_protocol::coordinator::{
    CheckpointCoordinator, CheckpointKind, Committable, CompletedCheckpoint, CoordEffect, CoordEvent, CoordinatorConfig,
};
use weir_protocol::log::claimant::{self, ClaimRequest, Claimant};
use weir_protocol::log::publisher::{self, Publisher};
use weir_protocol::log::{CheckpointEntry, ClaimFacts, CreateOutcome, LogEntry, LogView, Request, Slot};
use weir_protocol::recovery::{Ask, RecoveryPlan, StartPoint};
use weir_protocol::{CheckpointId, Generation, Lineage, SubtaskIndex, TransactionId};

/// The one question that the process has for the storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreAsk {
    List(Request),
    Create(Request, Slot, LogEntry),
    Look(Request, Slot),
    /// Not for the storage: list the external system and begin to recover.
    Recover(Box<RecoveryPlan>),
}

/// A call of the committer; they are made one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OutsideCall {
    Commit(Call, Vec<TransactionId>),
    Ask(Call, Vec<TransactionId>),
    Abort(Call, Vec<TransactionId>),
}

/// How a call of the committer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// Done and answered.
    Answered,
    /// Done, and the answer got lost.
    AnswerLost,
    /// Not done, and nobody can say.
    NotDone,
    /// The first is done, the rest not tried.
    Partly,
}

/// What a snapshot of all subtasks holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Snapshot {
    contains: Vec<Vec<TransactionId>>,
    valid_until: Option<Duration>,
    last: bool,
}

/// A generation that has claimed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    pub generation: Generation,
    pub publisher: Publisher,
    pub commit: CommitCoordinator,
    /// None until the recovery is done.
    pub coordinator: Option<CheckpointCoordinator>,
    completed: Vec<CompletedCheckpoint>,
    start: StartPoint,
    starts_at_last: bool,
    ledgers: Vec<WriterLedger>,
    position: u64,
    number: u64,
    pub ticks: u64,
    pub triggered: u32,
    snapshots: BTreeMap<CheckpointId, Snapshot>,
    /// Acknowledgements on their way.
    pub acks: BTreeSet<(CheckpointId, u32)>,
    /// Committed, and the writers don't know.
    pub notices: Vec<TransactionId>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    pub claimant: Option<Claimant>,
    pub running: Option<Box<Running>>,
    pub ask: Option<StoreAsk>,
    pub calls: Vec<OutsideCall>,
    /// For the mutant that reads the newest checkpoint before it claims.
    before_claim: Option<LogView>,
    repeats: bool,
    /// How it ended.
    pub fenced: bool,
    pub lost: bool,
    pub finished: bool,
    pub expired: bool,
    pub aborted_for_certain: bool,
}

impl Process {
    pub fn is_down(&self) -> bool {
        self.claimant.is_none() && self.running.is_none()
    }

    pub fn start(&mut self, config: &Config, nonce: u128, ask: Ask) {
        let facts = ClaimFacts { sink_paths: ["out".to_owned()].into(), ..ClaimFacts::default() };
        let request = ClaimRequest { nonce, new_lineage: Lineage(nonce), ask, facts, above: Generation(0) };
        let claimant = Claimant::new(request).with_tries(config.tries).with_mutation(config.mutation);
        *self = Process { claimant: Some(claimant), ..Process::default() };
        self.claimant_event(config, &mut World::default(), claimant::Event::Begin);
    }

    fn stop(&mut self) {
        *self = Process {
            fenced: self.fenced,
            lost: self.lost,
            finished: self.finished,
            expired: self.expired,
            ..Process::default()
        };
    }

    fn claimant_event(&mut self, config: &Config, world: &mut World, event: claimant::Event) {
        let mut effects = Vec::new();
        self.claimant.as_mut().expect("claiming").handle(event, &mut effects);
        for effect in effects {
            match effect {
                claimant::Effect::List { request, .. } => self.ask = Some(StoreAsk::List(request)),
                claimant::Effect::Create { request, slot, claim, .. } => {
                    self.create(config, world, request, slot, LogEntry::Claim(claim));
                }
                claimant::Effect::Read { request, slot, .. } => {
                    let entry = world.log.get(&slot).cloned();
                    self.claimant_event(config, world, claimant::Event::ReadAnswered { request, entry });
                }
                claimant::Effect::Claimed { slot, claim, plan, log } => {
                    self.claimed(config, slot, claim.generation, plan, &log);
                    // Once allowed, always: a plain start follows what an earlier one had been allowed.
                    self.repeats = config.asks.iter().any(|ask| ask.allow_duplicates);
                }
                claimant::Effect::Finished { .. } => {
                    self.finished = true;
                    self.stop();
                }
                claimant::Effect::Refused { .. } | claimant::Effect::GaveUp { .. } => self.stop(),
            }
        }
    }

    fn create(&mut self, config: &Config, world: &mut World, request: Request, slot: Slot, entry: LogEntry) {
        if config.late_store {
            Arc::make_mut(&mut world.flight).insert((slot, entry.clone()));
        }
        self.ask = Some(StoreAsk::Create(request, slot, entry));
    }

    fn claimed(&mut self, config: &Config, slot: Slot, generation: Generation, plan: RecoveryPlan, log: &LogView) {
        let policy = RetryPolicy { attempts: config.attempts, first_delay: Duration::ZERO, max_delay: Duration::ZERO };
        let completed = log.checkpoints().map(|(_, checkpoint)| CompletedCheckpoint {
            checkpoint: checkpoint.id,
            files: BTreeSet::new(),
            transactions: checkpoint.contains.iter().cloned().collect(),
        });
        let publisher = Publisher::new(generation, slot).with_tries(config.tries).with_mutation(config.mutation);
        let ledgers = (0..config.writers).map(|_| WriterLedger::new().with_mutation(config.mutation)).collect();
        self.claimant = None;
        self.running = Some(Box::new(Running {
            generation,
            publisher,
            commit: CommitCoordinator::new(generation, "out", policy).with_mutation(config.mutation),
            coordinator: None,
            completed: completed.collect(),
            start: plan.start,
            starts_at_last: plan.last,
            ledgers,
            position: 0,
            number: 0,
            ticks: 0,
            triggered: 0,
            snapshots: BTreeMap::new(),
            acks: BTreeSet::new(),
            notices: Vec::new(),
        }));
        let plan = match (config.fault, self.before_claim.take()) {
            (Fault::ReadNewestBeforeClaim, Some(log)) => plan_of(&log, generation, plan),
            _ => plan,
        };
        if let Some(running) = &mut self.running {
            running.start = plan.start;
        }
        self.ask = Some(StoreAsk::Recover(Box::new(plan)));
    }

    /// The storage answers the question. `heard`: a create that may have landed is answered, or not.
    pub fn store_answers(&mut self, config: &Config, world: &mut World) {
        match self.ask.take().expect("a question is open") {
            StoreAsk::List(request) => {
                self.before_claim = self.before_claim.take().or_else(|| Some(world.view()));
                let entries = world.log.iter().map(|(slot, entry)| (*slot, entry.clone())).collect();
                self.claimant_event(config, world, claimant::Event::Listed { request, entries });
            }
            StoreAsk::Create(request, slot, entry) => {
                if !config.late_store {
                    world.land(slot, entry.clone());
                }
                let outcome = match world.log.get(&slot) {
                    Some(standing) if *standing == entry => CreateOutcome::Created,
                    Some(_) => CreateOutcome::Exists,
                    None => CreateOutcome::Unknown,
                };
                if self.claimant.is_some() {
                    self.claimant_event(config, world, claimant::Event::CreateAnswered { request, outcome });
                } else {
                    self.publisher_event(config, world, publisher::Event::CreateAnswered { request, outcome });
                }
            }
            StoreAsk::Look(request, _) => {
                let highest = world.highest();
                self.publisher_event(config, world, publisher::Event::Looked { request, highest });
            }
            StoreAsk::Recover(plan) => self.recover(config, world, *plan),
        }
    }

    fn recover(&mut self, config: &Config, world: &mut World, plan: RecoveryPlan) {
        let event = commit::Event::Recover {
            now: Duration::ZERO,
            contained: plan.commit,
            replayed: plan.replayed,
            known_committed: plan.known_committed,
            dangling: world.prepared(),
            up_to: plan.up_to,
        };
        self.commit_event(config, world, event);
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("running")
    }

    fn now(&self, config: &Config, world: &World) -> Duration {
        let ticks = self.running.as_ref().map_or(0, |running| running.ticks);
        Duration::from_secs(if config.deadline.is_some() { world.time } else { ticks })
    }

    fn publisher_event(&mut self, config: &Config, world: &mut World, event: publisher::Event) {
        if self.running.is_none() {
            return;
        }
        let mut effects = Vec::new();
        self.running().publisher.handle(event, &mut effects);
        let now = self.now(config, world);
        for effect in effects {
            match effect {
                publisher::Effect::Create { request, slot, entry, .. } => self.create(config, world, request, slot, entry),
                publisher::Effect::Read { request, slot, .. } => {
                    let entry = world.log.get(&slot).cloned();
                    self.publisher_event(config, world, publisher::Event::ReadAnswered { request, entry });
                }
                publisher::Effect::Look { request, slot, .. } => self.ask = Some(StoreAsk::Look(request, slot)),
                publisher::Effect::Published { id, .. } => {
                    self.coordinator_event(config, world, CoordEvent::Published { now, checkpoint: id });
                }
                publisher::Effect::Aborted { id } => {
                    self.aborted_for_certain = true;
                    self.coordinator_event(config, world, CoordEvent::TombstoneStands { now, checkpoint: id });
                }
                publisher::Effect::Finished { .. } => {
                    self.commit_event(config, world, commit::Event::Finished);
                    self.finished = true;
                    self.stop();
                }
                publisher::Effect::Fenced { .. } => {
                    self.fenced = true;
                    self.coordinator_event(config, world, CoordEvent::NewerClaim { now });
                    self.stop();
                }
                publisher::Effect::GaveUp { .. } => self.stop(),
            }
        }
    }

    /// Asks for a tombstone in the place of the publish under way.
    pub fn withdraw(&mut self, config: &Config, world: &mut World) {
        let id = self.running().snapshots.keys().next_back().copied().expect("publishing");
        self.publisher_event(config, world, publisher::Event::Abort { id });
    }

    /// Time passes for this process.
    pub fn tick(&mut self, config: &Config, world: &mut World) {
        self.running().ticks += u64::from(config.deadline.is_none());
        let now = self.now(config, world);
        self.coordinator_event(config, world, CoordEvent::Tick { now });
    }

    fn coordinator_event(&mut self, config: &Config, world: &mut World, event: CoordEvent) {
        let mut effects = Vec::new();
        let Some(coordinator) = self.running.as_mut().and_then(|running| running.coordinator.as_mut()) else { return };
        coordinator.handle(event, &mut effects);
        for effect in effects {
            if self.is_down() {
                return;
            }
            self.coordinator_effect(config, world, effect);
        }
    }

    fn coordinator_effect(&mut self, config: &Config, world: &mut World, effect: CoordEffect) {
        let now = self.now(config, world);
        match effect {
            CoordEffect::InjectBarrier { checkpoint, kind, .. } => self.barrier(config, world, checkpoint, kind),
            CoordEffect::PublishManifest { checkpoint } => self.publish(config, world, checkpoint),
            CoordEffect::PutTombstone { checkpoint } => {
                self.publisher_event(config, world, publisher::Event::Abort { id: checkpoint });
            }
            CoordEffect::Commit(permit) => self.commit_event(config, world, commit::Event::Permit { now, permit }),
            CoordEffect::NotifyAborted { checkpoint, .. } => self.notify_aborted(config, world, checkpoint),
            CoordEffect::FailOver { reason } => {
                self.expired |= matches!(reason, weir_protocol::coordinator::FailOverReason::Expired(_));
                self.stop();
            }
            CoordEffect::Fenced | CoordEffect::Suspended { .. } => self.stop(),
            CoordEffect::Finished { checkpoint } => {
                self.publisher_event(config, world, publisher::Event::Finish { id: checkpoint });
            }
            // The publisher resolves by itself; retention is a step of its own.
            CoordEffect::Acknowledged { .. }
            | CoordEffect::NotifyComplete { .. }
            | CoordEffect::Subsume { .. }
            | CoordEffect::ReleaseFiles { .. } => {}
        }
    }

    /// Every writer prepares its record and opens the next transaction.
    fn barrier(&mut self, config: &Config, world: &mut World, checkpoint: CheckpointId, kind: CheckpointKind) {
        let running = self.running.as_mut().expect("running");
        running.triggered += 1;
        if running.triggered > config.checkpoints {
            return;
        }
        let last = kind == CheckpointKind::Final;
        let records = !last || running.number == 0;
        let mut opened = Vec::new();
        for writer in 0..config.writers {
            if records {
                let id = TransactionId {
                    lineage: Lineage(1),
                    generation: running.generation,
                    sink: "out".to_owned(),
                    writer,
                    number: running.number + 1,
                };
                world.prepare(id.clone(), running.position);
                running.ledgers[writer as usize].prepared(checkpoint, id.clone()).expect("room");
                opened.push(id);
            }
        }
        running.number += u64::from(records);
        running.position += u64::from(records);
        world.positions.insert(checkpoint, running.position);
        let contains = running.ledgers.iter().map(WriterLedger::contents_at_barrier).collect();
        let valid_until = config.deadline.map(|deadline| Duration::from_secs(world.time + deadline));
        running.snapshots.insert(checkpoint, Snapshot { contains, valid_until, last });
        running.acks.extend((0..config.writers).map(|writer| (checkpoint, writer)));
        if config.fault == Fault::CommitAtPrepare {
            self.calls.push(OutsideCall::Commit(Call(0), opened));
        }
        if config.messages == Messages::Prompt {
            for writer in 0..config.writers {
                self.acknowledge(config, world, checkpoint, writer);
            }
        }
    }

    pub fn acknowledge(&mut self, config: &Config, world: &mut World, checkpoint: CheckpointId, writer: u32) {
        let now = self.now(config, world);
        let Some(running) = self.running.as_mut() else { return };
        running.acks.remove(&(checkpoint, writer));
        let snapshot = &running.snapshots[&checkpoint];
        let committable = |id: &TransactionId| Committable { id: id.clone(), valid_until: snapshot.valid_until };
        let committables = snapshot.contains[writer as usize].iter().map(committable).collect();
        let subtask = SubtaskIndex(writer);
        let event = CoordEvent::Acknowledge { now, checkpoint, subtask, files: Vec::new(), committables };
        self.coordinator_event(config, world, event);
    }

    pub fn decline(&mut self, config: &Config, world: &mut World, checkpoint: CheckpointId) {
        let now = self.now(config, world);
        self.coordinator_event(config, world, CoordEvent::Decline { now, checkpoint, subtask: SubtaskIndex(0) });
    }

    fn publish(&mut self, config: &Config, world: &mut World, checkpoint: CheckpointId) {
        let running = self.running.as_mut().expect("running");
        let snapshot = &running.snapshots[&checkpoint];
        let contains = snapshot.contains.iter().flatten().cloned().collect();
        let entry = CheckpointEntry { id: checkpoint, digest: u128::from(checkpoint.as_u64()), contains, last: snapshot.last };
        if config.fault == Fault::HighestSlotPlusOne {
            running.publisher = Publisher::new(running.generation, world.highest()).with_tries(config.tries);
        }
        self.publisher_event(config, world, publisher::Event::Publish { checkpoint: entry });
    }

    fn notify_aborted(&mut self, config: &Config, world: &mut World, checkpoint: CheckpointId) {
        let running = self.running.as_mut().expect("running");
        running.acks.retain(|(pending, _)| *pending != checkpoint);
        if config.fault == Fault::AbortTransactionWithCheckpoint {
            let by = running.generation;
            let own = running.snapshots[&checkpoint].contains.iter().filter_map(|of_writer| of_writer.last().cloned());
            let own: Vec<TransactionId> = own.collect();
            running.ledgers.iter_mut().for_each(|ledger| ledger.known_committed(&own));
            own.iter().for_each(|id| {
                world.abort(id, by);
            });
        }
    }

    fn commit_event(&mut self, config: &Config, world: &mut World, event: commit::Event) {
        let mut effects = Vec::new();
        self.running().commit.handle(event, &mut effects);
        for effect in effects {
            if self.is_down() {
                return;
            }
            self.commit_effect(config, world, effect);
        }
    }

    fn commit_effect(&mut self, config: &Config, world: &mut World, effect: commit::Effect) {
        let now = self.now(config, world);
        match effect {
            commit::Effect::Commit { call, transactions } => self.calls.push(OutsideCall::Commit(call, transactions)),
            commit::Effect::AskStatus { call, transactions } => self.calls.push(OutsideCall::Ask(call, transactions)),
            commit::Effect::Abort { call, transactions } => self.calls.push(OutsideCall::Abort(call, transactions)),
            commit::Effect::Committed { transactions } => {
                self.running().notices.extend(transactions);
                if config.messages == Messages::Prompt {
                    self.notice();
                }
            }
            commit::Effect::PermitDone { checkpoint } => {
                let contains: Vec<TransactionId> = self.running().snapshots[&checkpoint].contains.concat();
                let committed = contains
                    .iter()
                    .all(|id| matches!(world.status(id), super::world::Status::Committed | super::world::Status::Forgotten));
                world.check(committed, "T4 a permit is done when all of it is committed");
                self.coordinator_event(config, world, CoordEvent::CommitsDone { now, checkpoint });
            }
            commit::Effect::RecoveryCommitted | commit::Effect::Replayed { .. } | commit::Effect::WakeAt { .. } => {}
            commit::Effect::RecoveryAborted => self.run(config, world),
            commit::Effect::FoundCommitted { .. } => world.check(false, "T3 what a recovery aborts is not committed"),
            commit::Effect::Forget { transactions } => transactions.iter().for_each(|id| world.forget(id)),
            commit::Effect::Lost { .. } => {
                self.lost = true;
                self.stop();
            }
            commit::Effect::AbortFailed { .. } => self.stop(),
        }
    }

    /// The recovery is done: read input.
    fn run(&mut self, config: &Config, world: &mut World) {
        let now = self.now(config, world);
        let running = self.running.as_mut().expect("running");
        let restored = match running.start {
            StartPoint::Scratch => None,
            StartPoint::Checkpoint(id) => Some(id),
        };
        running.position = restored.map_or(0, |id| world.positions[&id]);
        let reached = world.output_reaches(config.writers, running.position);
        world.check(reached, "E1 all that a recovery does not read again is committed");
        if running.starts_at_last {
            let id = restored.expect("a final checkpoint");
            return self.publisher_event(config, world, publisher::Event::Finish { id });
        }
        let subtasks: BTreeSet<SubtaskIndex> = (0..config.writers).map(SubtaskIndex).collect();
        let coordinator = CoordinatorConfig {
            generation: running.generation,
            first_sequence: 1,
            sources: subtasks.clone(),
            subtasks: subtasks.clone(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1_000),
            min_pause: Duration::ZERO,
            max_concurrent: config.concurrent,
            tolerable_failures: 10,
            retain: 1,
        };
        running.coordinator = Some(CheckpointCoordinator::new(coordinator, &running.completed, restored, now));
        if config.ends {
            let generation = running.generation;
            for subtask in subtasks {
                self.coordinator_event(config, world, CoordEvent::SourceEndOfData { now, generation, subtask });
            }
        }
    }

    /// The writers learn what is committed.
    pub fn notice(&mut self) {
        let running = self.running();
        let committed = std::mem::take(&mut running.notices);
        running.ledgers.iter_mut().for_each(|ledger| ledger.known_committed(&committed));
    }

    /// The first open call of the committer ends.
    pub fn call_ends(&mut self, config: &Config, world: &mut World, end: CallEnd) {
        let call = self.calls.remove(0);
        let now = self.now(config, world);
        let by = self.running().generation;
        let event = match call {
            OutsideCall::Commit(call, transactions) => {
                let outcomes = commit_outside(world, &transactions, end, self.repeats);
                commit::Event::CommitAnswered { now, call, outcomes }
            }
            OutsideCall::Ask(call, transactions) => {
                let asked = transactions.iter().map(|id| world.ask(id));
                let outcomes = if end == CallEnd::Answered { asked.collect() } else { Vec::new() };
                commit::Event::StatusAnswered { now, call, outcomes }
            }
            OutsideCall::Abort(call, transactions) => {
                let outcomes = abort_outside(world, &transactions, end, by);
                commit::Event::AbortAnswered { now, call, outcomes }
            }
        };
        self.commit_event(config, world, event);
    }

    /// The process dies. What its committer was doing may still happen.
    pub fn crash(&mut self) -> Option<(Generation, bool, OutsideCall)> {
        let generation = self.running.as_ref().map(|running| running.generation);
        let call = (!self.calls.is_empty()).then(|| self.calls.remove(0));
        let repeats = self.repeats;
        *self = Process::default();
        Some((generation?, repeats, call?))
    }
}

/// The plan that an earlier listing gives.
fn plan_of(log: &LogView, generation: Generation, otherwise: RecoveryPlan) -> RecoveryPlan {
    let ask = super::RESUME;
    match weir_protocol::recovery::plan(log, &ask, generation) {
        weir_protocol::recovery::Verdict::Proceed(plan) => plan,
        _ => otherwise,
    }
}

/// Carries out a commit of these, in order, up to the first that is not done.
pub fn commit_outside(world: &mut World, transactions: &[TransactionId], end: CallEnd, repeats: bool) -> Vec<CommitOutcome> {
    let tried = match end {
        CallEnd::Answered | CallEnd::AnswerLost => transactions.len(),
        CallEnd::NotDone => 0,
        CallEnd::Partly => 1,
    };
    let mut outcomes = Vec::new();
    for id in &transactions[..tried] {
        let outcome = world.commit(id, repeats);
        let done = matches!(outcome, CommitOutcome::Committed | CommitOutcome::AlreadyCommitted);
        outcomes.push(outcome);
        if !done {
            break;
        }
    }
    if end == CallEnd::AnswerLost { Vec::new() } else { outcomes }
}

/// Carries out an abort of these.
pub fn abort_outside(world: &mut World, transactions: &[TransactionId], end: CallEnd, by: Generation) -> Vec<AbortOutcome> {
    let tried = match end {
        CallEnd::Answered | CallEnd::AnswerLost => transactions.len(),
        CallEnd::NotDone => 0,
        CallEnd::Partly => 1,
    };
    let outcomes: Vec<AbortOutcome> = transactions[..tried].iter().map(|id| world.abort(id, by)).collect();
    if end == CallEnd::AnswerLost { Vec::new() } else { outcomes }
}
