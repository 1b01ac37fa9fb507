//! An operator that outlives its instances, and finds the record that a trap was about.
//!
//! A call that trapped has applied nothing, so its batch may be run again. It is run record by record in a fresh instance:
//! what traps alone is the culprit; if nothing does, the batch is done all the same. Bounds keep a poisoned stream from
//! looking like a hang: [`MAX_TRAPS`] a batch, [`REPLAY_CALLS`] times the call limit a replay, [`MAX_FRESH`] instances a
//! minute. Past one of them the attempt fails.
//!
//! An operator with granted folders or origins is never replayed: what it did to them is done. Nor is one with state of its own,
//! which no fresh instance has. A trap of theirs is a task failure.

use super::rest::Rest;
use super::{BadRecord, BadRecordPolicy, Failure, Processed, Retries, Verdict, has_outgrown};
use crate::batch::RecordBatch;
use crate::engine::ticks_in;
use crate::error::CallError;
use crate::load::Plugin;
use crate::operator::OperatorInstance;
use crate::output::Output;
use crate::parts::StatePart;
use crate::setup::TaskSetup;
use crate::state::KeyedStateBackend;
use crate::timers::{TimerClocks, TimerKind};
use crate::times::CallTimes;
use std::sync::Arc;
use std::time::Duration;

/// Instances that one batch may cost.
const MAX_TRAPS: u32 = 16;

/// A replay may take so many times the call limit.
const REPLAY_CALLS: u32 = 10;

/// Fresh instances in one [`WINDOW`].
const MAX_FRESH: u32 = 100;
const WINDOW: Duration = Duration::from_secs(60);

/// Calls with a batch that names bad records, before it is run record by record: each of them copies the rest.
const MAX_BAD_INPUT_ROUNDS: u32 = 8;

/// What to run.
#[derive(Clone, Debug)]
pub struct OperatorSpec {
    /// The plugin; an operator.
    pub plugin: Arc<Plugin>,
    /// Which part of the job it is.
    pub setup: TaskSetup,
    /// How to try again.
    pub retries: Retries,
}

/// What supervision has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupervisorCounts {
    /// Calls that trapped, passed a limit or answered nonsense.
    pub traps: u64,
    /// Of those, batches that then went through record by record.
    pub unreproduced: u64,
    /// Records left out.
    pub skipped: u64,
    /// Instances made after the first.
    pub fresh_instances: u64,
}

/// An operator of one subtask.
pub struct SupervisedOperator {
    spec: OperatorSpec,
    instance: Option<OperatorInstance>,
    /// Bytes of memory that the instance had when it was opened.
    opened_bytes: usize,
    counts: SupervisorCounts,
    /// Of the instances that are gone.
    past: CallTimes,
    /// What timers wait for: a fresh instance must know it, too.
    clocks: TimerClocks,
    /// Whether a trap is a failure, and its batch is not run again.
    on_probation: bool,
    /// Start of the current window (in ticks), and the fresh instances in it.
    window: (u64, u32),
}

impl SupervisedOperator {
    /// Makes and opens the first instance.
    ///
    /// # Panics
    /// If the plugin is a sink.
    pub fn new(spec: OperatorSpec) -> Result<Self, CallError> {
        let instance = OperatorInstance::new(&spec.plugin, &spec.setup)?;
        let window = (spec.plugin.now(), 0);
        Ok(SupervisedOperator {
            spec,
            opened_bytes: instance.memory_bytes(),
            instance: Some(instance),
            counts: SupervisorCounts::default(),
            past: CallTimes::default(),
            clocks: TimerClocks::default(),
            on_probation: false,
            window,
        })
    }

    /// Processes a batch of input `port`, all of it but the records that are skipped.
    ///
    /// # Panics
    /// If the operator declares state and `state` is none.
    pub fn process(
        &mut self,
        port: u32,
        batch: &RecordBatch,
        mut state: Option<&mut dyn KeyedStateBackend>,
        policy: BadRecordPolicy,
    ) -> Result<Processed, Failure> {
        let mut rest = Rest::all(batch);
        let mut skipped = Vec::new();
        for _ in 0..MAX_BAD_INPUT_ROUNDS {
            let error = match self.attempt(port, rest.batch(), &mut state) {
                Ok(output) => return Ok(self.done(output, skipped)),
                Err(error) => error,
            };
            match Verdict::of(&error.kind) {
                Verdict::Bad(bad) if policy == BadRecordPolicy::Fail => return Err(rest.failure(bad, error)),
                Verdict::Bad(bad) => rest.remove(bad, &mut skipped),
                Verdict::Suspect if self.may_replay() && !self.on_probation => {
                    return self.replay(port, rest, state, policy, skipped, Some(error));
                }
                Verdict::Suspect | Verdict::Task => return Err(Failure::Task(error)),
            }
            if rest.batch().is_empty() {
                return Ok(self.done(Output::default(), skipped));
            }
        }
        self.replay(port, rest, state, policy, skipped, None)
    }

    /// Input `port` has ended. A trap is a task failure: there is no record to blame.
    pub fn on_end(&mut self, port: u32) -> Result<Output, Failure> {
        let retries = self.spec.retries;
        let instance = self.instance().map_err(Failure::Task)?;
        retries.run(|| instance.on_end(port)).map_err(Failure::Task)
    }

    /// A page of this subtask's keys, after the last port has ended. A trap is a task failure.
    ///
    /// # Panics
    /// As [`OperatorInstance::on_end_keys`].
    pub fn on_end_keys(&mut self, keys: &[Vec<u8>], mut state: Option<&mut dyn KeyedStateBackend>) -> Result<Output, Failure> {
        let retries = self.spec.retries;
        let instance = self.instance().map_err(Failure::Task)?;
        retries.run(|| instance.on_end_keys(keys, lend(&mut state))).map_err(Failure::Task)
    }

    /// What its timers wait for, as calls from here on see it.
    pub fn set_clocks(&mut self, clocks: TimerClocks) {
        self.clocks = clocks;
        if let Some(instance) = &mut self.instance {
            instance.set_clocks(clocks);
        }
    }

    /// On probation a trap is a failure, whether or not a record causes it: it is the build that is in doubt.
    pub fn set_on_probation(&mut self, on_probation: bool) {
        self.on_probation = on_probation;
    }

    /// These timers are due. A trap is a task failure: there is no record to blame.
    ///
    /// # Panics
    /// As [`OperatorInstance::on_timers`].
    pub fn on_timers(
        &mut self,
        kind: TimerKind,
        due: &RecordBatch,
        mut state: Option<&mut dyn KeyedStateBackend>,
    ) -> Result<Output, Failure> {
        let retries = self.spec.retries;
        let instance = self.instance().map_err(Failure::Task)?;
        retries.run(|| instance.on_timers(kind, due, lend(&mut state))).map_err(Failure::Task)
    }

    /// Its state that belongs to no key; empty if the plugin has none. A trap is a task failure.
    pub fn snapshot(&mut self) -> Result<Vec<StatePart>, Failure> {
        let retries = self.spec.retries;
        let instance = self.instance().map_err(Failure::Task)?;
        retries.run(|| instance.snapshot()).map_err(Failure::Task)
    }

    /// Gives it such state back, before any other call. A trap is a task failure.
    pub fn restore(&mut self, parts: &[StatePart]) -> Result<(), Failure> {
        let retries = self.spec.retries;
        let instance = self.instance().map_err(Failure::Task)?;
        retries.run(|| instance.restore(parts)).map_err(Failure::Task)
    }

    /// A clean end.
    pub fn close(self) -> Result<(), CallError> {
        self.instance.map_or(Ok(()), OperatorInstance::close)
    }

    /// What to run.
    pub fn spec(&self) -> &OperatorSpec {
        &self.spec
    }

    /// What was seen so far.
    pub fn counts(&self) -> SupervisorCounts {
        self.counts
    }

    /// Where the calls of all its instances spent their time.
    pub fn times(&self) -> CallTimes {
        let mut times = self.past;
        times += self.instance.as_ref().map_or_else(CallTimes::default, OperatorInstance::times);
        times
    }

    /// Bytes of linear memory that the instance holds.
    pub fn memory_bytes(&self) -> usize {
        self.instance.as_ref().map_or(0, OperatorInstance::memory_bytes)
    }

    /// Record by record. `cause`: the call that made it necessary; none if the batch named bad records too often.
    fn replay(
        &mut self,
        port: u32,
        rest: Rest<'_>,
        mut state: Option<&mut dyn KeyedStateBackend>,
        policy: BadRecordPolicy,
        mut skipped: Vec<BadRecord>,
        cause: Option<CallError>,
    ) -> Result<Processed, Failure> {
        let records = rest.batch().len();
        let budget = self.spec.setup.limits.call.saturating_mul(REPLAY_CALLS);
        let deadline = self.spec.plugin.now().saturating_add(ticks_in(budget));
        let mut traps = 0;
        let skipped_before = skipped.len();
        if let Some(cause) = &cause {
            tracing::warn!("{cause}\nThe batch of {records} records is run again, record by record.");
            traps += self.discard();
        }
        let mut output = Output::default();
        for i in 0..records {
            match self.attempt(port, &rest.batch().slice(i, 1), &mut state) {
                Ok(more) => output.append(more),
                Err(error) => {
                    let reason = match Verdict::of(&error.kind) {
                        Verdict::Bad(bad) => bad.into_iter().map(|(_, reason)| reason).collect(),
                        Verdict::Suspect if !self.may_replay() => return Err(Failure::Task(error)),
                        Verdict::Suspect => {
                            traps += self.discard();
                            error.kind.to_string()
                        }
                        Verdict::Task => return Err(Failure::Task(error)),
                    };
                    if policy == BadRecordPolicy::Fail {
                        return Err(rest.failure(vec![(i as u32, reason)], error));
                    }
                    skipped.push(BadRecord { index: rest.original(i as u32), reason });
                    self.check_traps(traps, error)?;
                }
            }
            if self.spec.plugin.now() > deadline && i + 1 < records {
                let why = format!("after {budget:?} only {} of {records} records were run again one by one", i + 1);
                return Err(Failure::GaveUp { why, last: cause });
            }
        }
        if skipped.len() == skipped_before && cause.is_some() {
            self.counts.unreproduced += 1;
            tracing::warn!(operator = self.spec.setup.task.operator, "record by record the batch went through");
        }
        skipped.sort_by_key(|bad| bad.index);
        Ok(self.done(output, skipped))
    }

    /// One call, with its retries, in the instance there is or a fresh one.
    fn attempt(
        &mut self,
        port: u32,
        batch: &RecordBatch,
        state: &mut Option<&mut dyn KeyedStateBackend>,
    ) -> Result<Output, CallError> {
        let retries = self.spec.retries;
        let instance = self.instance()?;
        retries.run(|| instance.process(port, batch, lend(state)))
    }

    fn instance(&mut self) -> Result<&mut OperatorInstance, CallError> {
        if has_outgrown(self.opened_bytes, self.memory_bytes(), self.spec.setup.limits.memory) {
            self.past = self.times();
            self.counts.fresh_instances += 1;
            if let Some(Err(error)) = self.instance.take().map(OperatorInstance::close) {
                tracing::warn!("{error}\nIt was to be replaced, since it has grown; a fresh instance goes on.");
            }
        }
        match &mut self.instance {
            Some(instance) => Ok(instance),
            gone => {
                let fresh = gone.insert(OperatorInstance::new(&self.spec.plugin, &self.spec.setup)?);
                fresh.set_clocks(self.clocks);
                self.opened_bytes = fresh.memory_bytes();
                Ok(fresh)
            }
        }
    }

    /// Drops an instance that trapped; the next call makes a fresh one. Gives 1, to be counted.
    fn discard(&mut self) -> u32 {
        self.past = self.times();
        self.instance = None;
        self.counts.traps += 1;
        self.counts.fresh_instances += 1;
        let now = self.spec.plugin.now();
        if now.saturating_sub(self.window.0) >= ticks_in(WINDOW) {
            self.window = (now, 0);
        }
        self.window.1 += 1;
        1
    }

    fn check_traps(&self, traps: u32, error: CallError) -> Result<(), Failure> {
        if traps > MAX_TRAPS {
            let why = format!("one batch cost more than {MAX_TRAPS} instances");
            return Err(Failure::GaveUp { why, last: Some(error) });
        }
        if self.window.1 > MAX_FRESH {
            let why = format!("more than {MAX_FRESH} instances were needed within {WINDOW:?}");
            return Err(Failure::GaveUp { why, last: Some(error) });
        }
        Ok(())
    }

    /// Files that a call changed stay changed, and state of its own goes with its instance: then it can't be run again.
    fn may_replay(&self) -> bool {
        let acts_outside = self.spec.plugin.acts_outside() && self.spec.setup.grants.reach_outside();
        !acts_outside && !self.spec.plugin.is_checkpointed()
    }

    fn done(&mut self, output: Output, skipped: Vec<BadRecord>) -> Processed {
        self.counts.skipped += skipped.len() as u64;
        Processed { output, skipped }
    }
}

/// The same backend, for one more call.
fn lend<'s>(state: &'s mut Option<&mut dyn KeyedStateBackend>) -> Option<&'s mut dyn KeyedStateBackend> {
    match state {
        Some(state) => Some(&mut **state),
        None => None,
    }
}
