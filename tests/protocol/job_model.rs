//! A job's whole life over the shipped machines: claim, recover, checkpoint, publish, commit, retain, crash; several processes,
//! a storage that applies creates late or loses them, an external system that loses answers, messages that get lost.
//!
//! Each part turns some of that disorder on and is searched to its end; the sum of them is searched as far as it goes.

mod process;
mod tests;
mod world;

use process::{CallEnd, OutsideCall, Process, StoreAsk};
use stateright::{Model, Property};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use weir_protocol::log::{LogEntry, Slot, Start, retention};
use weir_protocol::mutant::Mutation;
use weir_protocol::recovery::{Ask, Purpose};
use weir_protocol::{CheckpointId, Generation, TransactionId};
use world::{Status, World};

/// A plain start.
pub const RESUME: Ask = Ask { purpose: Purpose::Run, start: Start::Newest, allow_duplicates: false };

/// Whether acknowledgements and notices of commits arrive at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Messages {
    Prompt,
    /// In any order, twice, late or never.
    Disorderly,
}

/// What the driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    None,
    CommitAtPrepare,
    AbortTransactionWithCheckpoint,
    HighestSlotPlusOne,
    ReadNewestBeforeClaim,
}

/// Bounds, and which disorder there is.
#[derive(Clone, Debug)]
pub struct Config {
    pub processes: usize,
    /// Starts, over all processes.
    pub starts: u32,
    /// Checkpoints of each generation.
    pub checkpoints: u32,
    pub slots: u64,
    pub writers: u32,
    pub concurrent: usize,
    /// Questions in a row to the storage.
    pub tries: u32,
    /// Rounds of a commit.
    pub attempts: u32,
    pub crashes: u32,
    /// Creates land late or never, and their answers get lost.
    pub late_store: bool,
    /// Calls of the committer are not done, or half done, or not answered; and those of a dead process still happen.
    pub flaky_outside: bool,
    pub messages: Messages,
    pub retention: bool,
    /// The publish under way may be withdrawn by a tombstone.
    pub tombstones: bool,
    /// Age at which a transaction may no longer be published; a unit later it is gone.
    pub deadline: Option<u64>,
    pub time_max: u64,
    /// All sources are bounded and have ended.
    pub ends: bool,
    pub asks: Vec<Ask>,
    pub fault: Fault,
    pub mutation: Mutation,
}

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobState {
    pub world: World,
    pub processes: Vec<Arc<Process>>,
    /// Calls of processes that have died, which may still happen.
    late_calls: Vec<(Generation, bool, OutsideCall)>,
    starts: u32,
    crashes: u32,
    /// A crash fell between a publish and its commit.
    pub crashed_undecided: bool,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Start(usize, usize),
    StoreAnswers(usize),
    /// A create on its way lands (by its place among them).
    Land(usize),
    /// It never will.
    Vanish(usize),
    Withdraw(usize),
    Tick(usize),
    TimePasses,
    Expire(TransactionId),
    Acknowledge(usize, CheckpointId, u32),
    AcknowledgeTwice(usize, CheckpointId, u32),
    LoseAcknowledgement(usize, CheckpointId, u32),
    Decline(usize, CheckpointId),
    Notice(usize),
    CallEnds(usize, CallEnd),
    LateCall(usize),
    Retain,
    Crash(usize),
}

impl Config {
    fn process_steps(&self, state: &JobState, index: usize, steps: &mut Vec<Step>) {
        let process = &state.processes[index];
        if process.is_down() {
            if state.starts < self.starts {
                steps.extend((0..self.asks.len()).map(|ask| Step::Start(index, ask)));
            }
            return;
        }
        steps.extend(process.ask.as_ref().map(|_| Step::StoreAnswers(index)));
        if let Some(call) = process.calls.first() {
            steps.extend(self.call_ends(call).into_iter().map(|end| Step::CallEnds(index, end)));
        }
        if state.crashes < self.crashes {
            steps.push(Step::Crash(index));
        }
        let Some(running) = &process.running else { return };
        if let Some(StoreAsk::Create(_, _, LogEntry::Checkpoint(_))) = process.ask
            && self.tombstones
        {
            steps.push(Step::Withdraw(index));
        }
        if let Some(coordinator) = &running.coordinator {
            let more = running.triggered < self.checkpoints && running.ticks < u64::from(self.checkpoints);
            let room = coordinator.pending().count() < self.concurrent && more;
            if (room || self.deadline.is_some()) && !coordinator.is_done() {
                steps.push(Step::Tick(index));
            }
            if self.messages == Messages::Disorderly {
                steps.extend(coordinator.pending().map(|checkpoint| Step::Decline(index, checkpoint)));
            }
        }
        if self.messages == Messages::Disorderly {
            for (checkpoint, writer) in &running.acks {
                steps.push(Step::Acknowledge(index, *checkpoint, *writer));
                steps.push(Step::AcknowledgeTwice(index, *checkpoint, *writer));
                steps.push(Step::LoseAcknowledgement(index, *checkpoint, *writer));
            }
            steps.extend((!running.notices.is_empty()).then_some(Step::Notice(index)));
        }
    }

    fn call_ends(&self, call: &OutsideCall) -> Vec<CallEnd> {
        let (asks, several) = match call {
            OutsideCall::Commit(_, transactions) | OutsideCall::Abort(_, transactions) => (false, transactions.len() > 1),
            OutsideCall::Ask(..) => (true, false),
        };
        match (self.flaky_outside, asks, several) {
            (false, _, _) => vec![CallEnd::Answered],
            (true, true, _) => vec![CallEnd::Answered, CallEnd::AnswerLost],
            (true, false, false) => vec![CallEnd::Answered, CallEnd::AnswerLost, CallEnd::NotDone],
            (true, false, true) => vec![CallEnd::Answered, CallEnd::AnswerLost, CallEnd::NotDone, CallEnd::Partly],
        }
    }

    fn world_steps(&self, state: &JobState, steps: &mut Vec<Step>) {
        for index in 0..state.world.flight.len() {
            steps.extend([Step::Land(index), Step::Vanish(index)]);
        }
        steps.extend((0..state.late_calls.len()).map(Step::LateCall));
        steps.extend((self.retention && self.deletable(&state.world).is_some()).then_some(Step::Retain));
        if let Some(deadline) = self.deadline {
            steps.extend((state.world.time < self.time_max).then_some(Step::TimePasses));
            let old = state.world.outside.iter().filter(|(_, transaction)| {
                transaction.status == Status::Prepared && state.world.time > transaction.since + deadline
            });
            steps.extend(old.map(|(id, _)| Step::Expire(id.clone())));
        }
    }

    fn deletable(&self, world: &World) -> Option<Slot> {
        world.newest()?;
        let entries: Vec<(Slot, LogEntry)> = world.log.iter().map(|(slot, entry)| (*slot, entry.clone())).collect();
        retention(&entries, 1).first().copied()
    }

    fn take(&self, state: &mut JobState, step: Step) {
        let JobState { world, processes, .. } = state;
        match step {
            Step::Start(index, ask) => {
                state.starts += 1;
                Arc::make_mut(&mut processes[index]).start(self, u128::from(state.starts), self.asks[ask]);
            }
            Step::StoreAnswers(index) => Arc::make_mut(&mut processes[index]).store_answers(self, world),
            Step::Land(index) => {
                let (slot, entry) = world.take_off(index);
                world.land(slot, entry);
            }
            Step::Vanish(index) => drop(world.take_off(index)),
            Step::Withdraw(index) => Arc::make_mut(&mut processes[index]).withdraw(self, world),
            Step::Tick(index) => Arc::make_mut(&mut processes[index]).tick(self, world),
            Step::TimePasses => world.time += 1,
            Step::Expire(id) => world.expire(&id),
            Step::Acknowledge(index, checkpoint, writer) => {
                Arc::make_mut(&mut processes[index]).acknowledge(self, world, checkpoint, writer)
            }
            Step::AcknowledgeTwice(index, checkpoint, writer) => {
                Arc::make_mut(&mut processes[index]).acknowledge(self, world, checkpoint, writer);
                Arc::make_mut(&mut processes[index]).acknowledge(self, world, checkpoint, writer);
            }
            Step::LoseAcknowledgement(index, checkpoint, writer) => {
                Arc::make_mut(&mut processes[index]).running.as_mut().expect("running").acks.remove(&(checkpoint, writer));
            }
            Step::Decline(index, checkpoint) => Arc::make_mut(&mut processes[index]).decline(self, world, checkpoint),
            Step::Notice(index) => Arc::make_mut(&mut processes[index]).notice(),
            Step::CallEnds(index, end) => Arc::make_mut(&mut processes[index]).call_ends(self, world, end),
            Step::LateCall(index) => {
                let (generation, repeats, call) = state.late_calls.remove(index);
                match call {
                    OutsideCall::Commit(_, ids) => drop(process::commit_outside(world, &ids, CallEnd::Answered, repeats)),
                    OutsideCall::Abort(_, ids) => drop(process::abort_outside(world, &ids, CallEnd::Answered, generation)),
                    OutsideCall::Ask(..) => {}
                }
            }
            Step::Retain => world.delete(self.deletable(world).expect("checked before")),
            Step::Crash(index) => {
                state.crashes += 1;
                state.crashed_undecided |= processes[index].running.is_some() && !world.newest_is_committed();
                let call = Arc::make_mut(&mut processes[index]).crash();
                state.late_calls.extend(call.filter(|_| self.flaky_outside));
            }
        }
    }
}

/// The same for equal processes, in every run.
fn fingerprint(process: &Arc<Process>) -> u64 {
    let mut hasher = DefaultHasher::new();
    process.hash(&mut hasher);
    hasher.finish()
}

impl Model for Config {
    type State = JobState;
    type Action = Step;

    fn init_states(&self) -> Vec<JobState> {
        vec![JobState {
            world: World::default(),
            processes: vec![Arc::default(); self.processes],
            late_calls: Vec::new(),
            starts: 0,
            crashes: 0,
            crashed_undecided: false,
        }]
    }

    fn actions(&self, state: &JobState, steps: &mut Vec<Step>) {
        if state.world.broken.is_none() {
            (0..state.processes.len()).for_each(|index| self.process_steps(state, index, steps));
            self.world_steps(state, steps);
        }
    }

    fn next_state(&self, state: &JobState, step: Step) -> Option<JobState> {
        let mut next = state.clone();
        if catch_unwind(AssertUnwindSafe(|| self.take(&mut next, step))).is_err() {
            next = state.clone();
            next.world.check(false, "an assertion fired");
        }
        // Which process is which makes no difference.
        next.processes.sort_by_key(fingerprint);
        Some(next)
    }

    fn within_boundary(&self, state: &JobState) -> bool {
        state.world.highest().0 <= self.slots
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("C T E hold", |_, state: &JobState| state.world.broken.is_none()),
            Property::sometimes("a checkpoint completes", |_, state: &JobState| state.world.newest().is_some()),
        ];
        if self.crashes > 0 {
            properties.push(Property::sometimes("a crash falls between publish and commit", |_, state: &JobState| {
                state.crashed_undecided
            }));
        }
        if self.processes > 1 {
            properties.push(Property::sometimes("a fenced publisher", |_, state: &JobState| {
                state.processes.iter().any(|process| process.fenced)
            }));
            properties.push(Property::sometimes("two generations run at a time", |_, state: &JobState| {
                state.processes.iter().filter(|process| process.running.is_some()).count() == 2
            }));
        }
        if self.tombstones {
            properties.push(Property::sometimes("a tombstone aborts for certain", |_, state: &JobState| {
                state.processes.iter().any(|process| process.aborted_for_certain)
            }));
        }
        if self.deadline.is_some() {
            properties.push(Property::sometimes("a deadline fails the attempt over", |_, state: &JobState| {
                state.processes.iter().any(|process| process.expired)
            }));
            properties.push(Property::sometimes("a commit comes too late and stops the job", |_, state: &JobState| {
                state.processes.iter().any(|process| process.lost)
            }));
        }
        if self.ends {
            properties.push(Property::sometimes("the job finishes", |_, state: &JobState| {
                state.processes.iter().any(|process| process.finished)
            }));
        }
        properties
    }
}
