//! One run of an operator over records, and all that came of it: outputs, refused records, state and timers.

use super::Subject;
use super::input::{Input, Sample};
use super::sink_rig::Folders;
use crate::task::timers::{TimerFault, Timers};
use std::collections::BTreeMap;
use weir_plugin::batch::RecordBatch;
use weir_plugin::state::{KeyedStateBackend, StateId};
use weir_plugin::testing::MemoryState;
use weir_plugin::{
    BadRecordPolicy, Failure, OperatorSpec, Output, Retries, SupervisedOperator, TaskSetup, TimerChange, TimerClocks,
};

/// The wall clock that a run begins with, and how far it goes on after each segment, ms.
const BEGIN_MS: i64 = 1_750_000_000_000;
const SEGMENT_MS: i64 = 60_000;

/// Bytes of a key or value that are shown.
const SHOWN: usize = 80;

/// What may be done in several ways without making a difference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Records of one call.
    pub batch: usize,
    /// Timers of one call.
    pub timers: usize,
    /// Keys of one call at the end of input.
    pub keys: usize,
    /// Calls with records after which a fresh instance goes on, with the state and the timers of the former one.
    pub restart_every: Option<usize>,
}

impl Plan {
    /// As a job would do it under load.
    pub const LARGE: Plan = Plan { batch: 1_000, timers: 1_000, keys: 1_000, restart_every: None };
}

/// What came of a run.
#[derive(Default)]
pub(super) struct Trace {
    /// Main output, and the side outputs by index.
    outputs: Vec<RecordBatch>,
    /// Records that it refused, by their place in the input, and why.
    pub refused: BTreeMap<usize, String>,
    /// Of those, how many cost an instance; and what was said of the first.
    pub traps: u64,
    /// All keyed state, timers included.
    state: BTreeMap<(StateId, Vec<u8>), Vec<u8>>,
    /// Timers that have fired.
    pub fired: usize,
    /// Instances that processed records.
    pub instances: usize,
}

impl Trace {
    /// Records of each output.
    pub fn counts(&self) -> Vec<usize> {
        self.outputs.iter().map(RecordBatch::len).collect()
    }

    /// Keys with some state.
    pub fn cells(&self) -> usize {
        self.state.len()
    }

    /// Where two runs differ; none: nowhere. `sides`: names of the side outputs; `ways`: what each run was.
    pub fn difference(&self, other: &Trace, sides: &[String], ways: [&str; 2]) -> Option<String> {
        let [one, two] = ways;
        for (i, (a, b)) in self.outputs.iter().zip(&other.outputs).enumerate() {
            let output = i.checked_sub(1).map_or_else(|| "main output".to_owned(), |side| format!("side output {}", sides[side]));
            if let Some(at) = (0..a.len().min(b.len())).find(|&at| !same(a, b, at)) {
                return Some(format!("{output}, record {at}: {} {one}, {} {two}", record(a, at), record(b, at)));
            }
            if a.len() != b.len() {
                let (more, at, way) = if a.len() > b.len() { (a, b.len(), one) } else { (b, a.len(), two) };
                let counts = format!("{} records {one}, {} {two}", a.len(), b.len());
                return Some(format!("{output}: {counts}; the first of those that are only there {way} is {}", record(more, at)));
            }
        }
        for (at, why) in &self.refused {
            if !other.refused.contains_key(at) {
                return Some(format!("record {at} is refused {one} ({why}), and not {two}"));
            }
        }
        if let Some((at, why)) = other.refused.iter().find(|(at, _)| !self.refused.contains_key(at)) {
            return Some(format!("record {at} is refused {two} ({why}), and not {one}"));
        }
        let value = |trace: &Trace, at| trace.state.get(at).map_or_else(|| "nothing".to_owned(), |value| show(value));
        let at = self.state.keys().chain(other.state.keys()).find(|at| self.state.get(at) != other.state.get(at))?;
        let (state, key) = at;
        Some(format!("state {state} of key {}: {} {one}, {} {two}", show(key), value(self, at), value(other, at)))
    }
}

fn same(a: &RecordBatch, b: &RecordBatch, i: usize) -> bool {
    let headers = |batch: &RecordBatch| -> Vec<_> {
        batch.headers(i).map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_owned))).collect()
    };
    a.key_or_null(i) == b.key_or_null(i)
        && a.value_or_null(i) == b.value_or_null(i)
        && a.time(i) == b.time(i)
        && headers(a) == headers(b)
}

fn record(batch: &RecordBatch, i: usize) -> String {
    let text = |bytes: Option<&[u8]>| bytes.map_or_else(|| "null".to_owned(), show);
    let headers = match batch.headers(i).count() {
        0 => String::new(),
        1 => " with a header".to_owned(),
        count => format!(" with {count} headers"),
    };
    format!("({}, {}, time {}){headers}", text(batch.key_or_null(i)), text(batch.value_or_null(i)), batch.time(i))
}

/// Bytes for people, cut.
pub(super) fn show(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let more = if cut.len() < bytes.len() { "…" } else { "" };
    match std::str::from_utf8(cut) {
        Ok(text) => format!("{text:?}{more}"),
        Err(_) => format!("\"{}\"{more}", cut.escape_ascii()),
    }
}

/// Runs an operator over all records, to the end of input.
///
/// # Errors
/// What failed the run, for people: a call that failed whatever its records, or the contract broken.
pub(super) fn run(subject: &Subject, input: &Input, plan: Plan) -> Result<Trace, String> {
    let mut run = Run::begin(subject, plan)?;
    let mut first = 0;
    for segment in &input.segments {
        for same_port in segment.samples.chunk_by(|a, b| a.port == b.port) {
            for samples in same_port.chunks(plan.batch) {
                run.process(first, samples)?;
                first += samples.len();
            }
        }
        // All that is left fires before the last input ends.
        run.clocks.watermark = segment.watermark.min(i64::MAX - 1);
        run.clocks.processing += SEGMENT_MS;
        run.fire()?;
    }
    run.end(input.ports)
}

struct Run<'s> {
    subject: &'s Subject,
    plan: Plan,
    operator: SupervisedOperator,
    setup: TaskSetup,
    _folders: Option<Folders>,
    state: Option<MemoryState>,
    timers: Option<Timers>,
    clocks: TimerClocks,
    calls: usize,
    trace: Trace,
}

impl<'s> Run<'s> {
    fn begin(subject: &'s Subject, plan: Plan) -> Result<Self, String> {
        let described = subject.plugin.operator().expect("only operators are run");
        let (setup, folders) = subject.alone()?;
        let mut run = Run {
            subject,
            plan,
            operator: open(subject, &setup)?,
            setup,
            _folders: folders,
            state: described.is_keyed().then(MemoryState::new),
            timers: super::operator::has_timers(subject).then(Timers::default),
            clocks: TimerClocks { watermark: i64::MIN, processing: BEGIN_MS },
            calls: 0,
            trace: Trace {
                outputs: vec![RecordBatch::new(); 1 + described.side_outputs.len()],
                instances: 1,
                ..Trace::default()
            },
        };
        run.operator.set_clocks(run.clocks);
        Ok(run)
    }

    /// `first`: place of the first one in the input.
    fn process(&mut self, first: usize, samples: &[Sample]) -> Result<(), String> {
        if self.plan.restart_every.is_some_and(|every| self.calls > 0 && self.calls.is_multiple_of(every)) {
            self.restart()?;
        }
        self.calls += 1;
        let mut batch = RecordBatch::new();
        samples.iter().for_each(|sample| sample.push_to(&mut batch));
        self.operator.set_clocks(self.clocks);
        let state = self.state.as_mut().map(|state| state as &mut dyn KeyedStateBackend);
        let processed = self.operator.process(samples[0].port, &batch, state, BadRecordPolicy::Skip);
        let processed = processed.map_err(|failure| told(&failure))?;
        self.trace.refused.extend(processed.skipped.into_iter().map(|bad| (first + bad.index as usize, bad.reason)));
        self.take(processed.output)?;
        self.fire()
    }

    /// A crash, and the restart from a checkpoint that was taken right before.
    fn restart(&mut self) -> Result<(), String> {
        self.trace.traps += self.operator.counts().traps;
        self.operator = open(self.subject, &self.setup)?;
        self.operator.set_clocks(self.clocks);
        self.trace.instances += 1;
        if let (Some(timers), Some(state)) = (&mut self.timers, &mut self.state) {
            *timers = Timers::restored(state).map_err(fault)?;
        }
        Ok(())
    }

    /// Fires what is due, also what that sets.
    fn fire(&mut self) -> Result<(), String> {
        while let Some(fired) = self.timers.as_mut().map_or(Ok(None), |timers| timers.take_due(self.clocks)).map_err(fault)? {
            let state = self.state.as_mut().expect("who has timers has state: it was checked at load");
            self.operator.set_clocks(fired.clocks);
            self.trace.fired += fired.due.len();
            for begin in (0..fired.due.len()).step_by(self.plan.timers) {
                let due = fired.due.slice(begin, self.plan.timers.min(fired.due.len() - begin));
                let output = self.operator.on_timers(fired.kind, &due, Some(state)).map_err(|failure| told(&failure))?;
                let part = crate::task::timers::Fired { kind: fired.kind, due, clocks: fired.clocks };
                let timers = self.timers.as_mut().expect("they have just fired");
                timers.apply(Some(&part), &output.timers, state).map_err(fault)?;
                self.trace.keep(output);
            }
        }
        Ok(())
    }

    /// Takes what a call gave that was told of no timers.
    fn take(&mut self, output: Output) -> Result<(), String> {
        self.apply(&output.timers)?;
        self.trace.keep(output);
        Ok(())
    }

    fn apply(&mut self, changes: &[TimerChange]) -> Result<(), String> {
        match (&mut self.timers, &mut self.state) {
            (Some(timers), Some(state)) => timers.apply(None, changes, state).map_err(fault),
            _ => Ok(()),
        }
    }

    /// The end of input, as a job tells of it.
    fn end(mut self, ports: u32) -> Result<Trace, String> {
        for port in 0..ports {
            if port + 1 == ports {
                self.clocks.watermark = i64::MAX;
                self.fire()?;
            }
            let output = self.operator.on_end(port).map_err(|failure| told(&failure))?;
            self.take(output)?;
        }
        self.end_keys()?;
        self.trace.traps += self.operator.counts().traps;
        self.operator.close().map_err(|error| error.to_string())?;
        self.trace.state = self.state.map(|state| state.cells().clone()).unwrap_or_default();
        Ok(self.trace)
    }

    fn end_keys(&mut self) -> Result<(), String> {
        let prefetched = self.subject.plugin.operator().map(|operator| operator.prefetched()).unwrap_or_default();
        if prefetched.is_empty() || !super::operator::wants_end(self.subject) {
            return Ok(());
        }
        let mut after: Option<Vec<u8>> = None;
        loop {
            let state = self.state.as_mut().expect("who declares state has it");
            let keys = state.scan_keys(&prefetched, after.as_deref(), self.plan.keys).map_err(|error| error.to_string())?;
            if keys.is_empty() {
                return Ok(());
            }
            let output = self.operator.on_end_keys(&keys, Some(state)).map_err(|failure| told(&failure))?;
            self.take(output)?;
            after = keys.into_iter().last();
        }
    }
}

impl Trace {
    fn keep(&mut self, output: Output) {
        output.main.iter().for_each(|chunk| self.outputs[0].append(chunk));
        for (side, chunks) in output.sides {
            chunks.iter().for_each(|chunk| self.outputs[1 + side as usize].append(chunk));
        }
    }
}

fn open(subject: &Subject, setup: &TaskSetup) -> Result<SupervisedOperator, String> {
    let spec = OperatorSpec { plugin: subject.plugin.clone(), setup: setup.clone(), retries: Retries::default() };
    SupervisedOperator::new(spec).map_err(|error| error.to_string())
}

fn told(failure: &Failure) -> String {
    failure.to_string()
}

fn fault(fault: TimerFault) -> String {
    match fault {
        TimerFault::Plugin(why) => why,
        TimerFault::State(error) => error.to_string(),
    }
}
