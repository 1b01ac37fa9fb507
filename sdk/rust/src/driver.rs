//! Runs an author's operator over the contract's batches.
//!
//! Every kind of operator becomes one [`Instance`]; what the kinds share (bad records, output, state) is done here once.
//! The kind is a type parameter that the compiler finds by itself, since a type implements just one of the traits.

use crate::batch::{Batch, Record, string_at, u32_of};
use crate::bindings::{Descriptor, StateDesc, types};
use crate::checkpointed::{Checkpointed, CheckpointedInstance, Part};
use crate::error::Error;
use crate::host::{Host, Task};
use crate::keyed_state::KeyedState;
use crate::operator::{BadRecords, BatchOperator, EndOfInput, EndOfKeyedInput, KeyedOperator, Operator, TimerOperator};
use crate::output::{self, Output};
use crate::state::{self, CallKeys, StateKind, StateName, StateSet};
use crate::store::Store;
use crate::timers::{Timer, TimerHost, TimerKind, Timers};
use std::any::Any;
use std::rc::Rc;

/// A running operator of any kind, as the exports and the test harness see it.
pub trait Instance {
    /// See `operator.process` in the contract.
    fn process(&mut self, call: Call<'_>) -> Result<types::Output, types::Error>;
    /// See `end-of-input.on-end`. Of an operator that has nothing to say then the host has no reason to ask.
    fn on_end(&mut self, _port: u32) -> Result<types::Output, types::Error> {
        Ok(output::nothing())
    }
    /// See `end-of-input.on-end-keys`. The same.
    fn on_end_keys(&mut self, _keys: &types::Column, _states: &[types::Cells]) -> Result<types::Output, types::Error> {
        Ok(output::nothing())
    }
    /// See `timers.on-timers`. Only for operators with timers.
    fn on_timers(&mut self, _kind: &str, _call: Call<'_>) -> Result<types::Output, types::Error> {
        Err(types::Error::Fatal("this operator has no timers".to_owned()))
    }
    /// See `operator.close`.
    fn close(&mut self);
    /// The author's operator.
    fn operator(&mut self) -> &mut dyn Any;
    /// See `checkpointed.snapshot`. Only for operators with state of their own.
    fn snapshot(&mut self) -> Result<Vec<Part>, Error> {
        Err(Error::fatal("this operator has no state of its own"))
    }
    /// See `checkpointed.restore`. The same.
    fn restore(&mut self, _parts: &[Part]) -> Result<(), Error> {
        Err(Error::fatal("this operator has no state of its own"))
    }
    /// Where the operator's timers are kept, where there is no host.
    #[cfg(not(target_family = "wasm"))]
    fn timers(&mut self) -> Option<&mut TimerHost> {
        None
    }
    /// Where state that is asked for is kept, where there is no host.
    #[cfg(not(target_family = "wasm"))]
    fn store(&mut self) -> Option<&mut Store> {
        None
    }
}

/// The arguments of `process`.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which input.
    pub port: u32,
    /// Its records.
    pub input: &'a types::Batch,
    /// `u32` × count: the index of each record's distinct key.
    pub key_of: &'a [u8],
    /// The prefetched states.
    pub states: &'a [types::Cells],
}

/// A type that can be run as an operator of kind `K`.
pub trait Plugin<K>: Default {
    /// What the plugin is and needs.
    fn describe() -> Descriptor;
    /// Opens it.
    fn start(self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error>;
}

/// Kind: [`Operator`].
#[derive(Debug)]
pub struct Stateless;
/// Kind: [`KeyedOperator`].
#[derive(Debug)]
pub struct Keyed;
/// Kind: [`BatchOperator`].
#[derive(Debug)]
pub struct Batched;
/// Kind: [`TimerOperator`].
#[derive(Debug)]
pub struct Timed;
/// A type that can also be run to the end of its input.
pub trait BoundedPlugin<K>: Plugin<K> {
    /// Opens it.
    fn start_bounded(self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error>;
}

/// Opens an operator with state of its own.
pub fn start_checkpointed<T: Plugin<K> + Checkpointed + 'static, K>(
    operator: T,
    task: &Task,
    config: &str,
    host: Host,
) -> Result<Box<dyn Instance>, Error> {
    Ok(Box::new(CheckpointedInstance::<T>::new(operator.start(task, config, host)?)))
}

/// The same, with calls at the end of its input.
pub fn start_bounded_checkpointed<T: BoundedPlugin<K> + Checkpointed + 'static, K>(
    operator: T,
    task: &Task,
    config: &str,
    host: Host,
) -> Result<Box<dyn Instance>, Error> {
    Ok(Box::new(CheckpointedInstance::<T>::new(operator.start_bounded(task, config, host)?)))
}

impl<T: Operator> Plugin<Stateless> for T {
    fn describe() -> Descriptor {
        descriptor(T::INFO, &[], None, T::SIDE_OUTPUTS, T::INPUTS)
    }
    fn start(mut self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error> {
        self.open(task, config)?;
        Ok(Box::new(StatelessDriver { operator: self, host, end: |_, _, _| Ok(()) }))
    }
}

impl<T: KeyedOperator> Plugin<Keyed> for T {
    fn describe() -> Descriptor {
        const { assert!(T::STATES.len() == T::State::KINDS.len(), "STATES must name every part of State, in order") };
        descriptor(T::INFO, T::STATES, Some(T::State::KINDS), T::SIDE_OUTPUTS, T::INPUTS)
    }
    fn start(mut self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error> {
        self.open(task, config)?;
        let (end, end_key): (EndFn<T>, EndKeyFn<T>) = (|_, _, _| Ok(()), |_, _, _, _| Ok(()));
        Ok(Box::new(KeyedDriver { operator: self, host, end, end_key, slots: Slots::default() }))
    }
}

impl<T: BatchOperator> Plugin<Batched> for T {
    fn describe() -> Descriptor {
        descriptor(T::INFO, T::STATES, None, T::SIDE_OUTPUTS, T::INPUTS)
    }
    fn start(mut self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error> {
        self.open(task, config)?;
        Ok(Box::new(BatchDriver { operator: self, host, state: KeyedState::default() }))
    }
}

impl<T: TimerOperator> Plugin<Timed> for T {
    fn describe() -> Descriptor {
        const { assert!(T::STATES.len() == T::State::KINDS.len(), "STATES must name every part of State, in order") };
        descriptor(T::INFO, T::STATES, Some(T::State::KINDS), T::SIDE_OUTPUTS, T::INPUTS)
    }
    fn start(mut self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error> {
        self.open(task, config)?;
        Ok(Box::new(TimedDriver { operator: self, host, timers: TimerHost::default(), slots: Slots::default() }))
    }
}

impl<T: EndOfInput> BoundedPlugin<Stateless> for T {
    fn start_bounded(mut self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error> {
        self.open(task, config)?;
        Ok(Box::new(StatelessDriver { operator: self, host, end: T::on_end }))
    }
}

impl<T: EndOfKeyedInput> BoundedPlugin<Keyed> for T {
    fn start_bounded(mut self, task: &Task, config: &str, host: Host) -> Result<Box<dyn Instance>, Error> {
        self.open(task, config)?;
        Ok(Box::new(KeyedDriver { operator: self, host, end: T::on_end, end_key: T::on_end_key, slots: Slots::default() }))
    }
}

/// `kinds`: of states that come with the call; none: all is asked for.
fn descriptor(info: crate::Info, states: &[StateName], kinds: Option<&[StateKind]>, sides: &[&str], inputs: u32) -> Descriptor {
    let state = |(at, state): (usize, &StateName)| StateDesc {
        name: state.name.to_owned(),
        kind: kinds.map_or(state.kind, |kinds| kinds[at]).name().to_owned(),
        schema_version: state.version,
        prefetch: kinds.is_some_and(|kinds| kinds[at] == StateKind::Value),
    };
    Descriptor {
        plugin_name: info.name.to_owned(),
        plugin_version: info.version.to_owned(),
        states: states.iter().enumerate().map(state).collect(),
        side_outputs: sides.iter().map(|&side| side.to_owned()).collect(),
        inputs,
    }
}

/// What a call has come to: bad records are collected, any other failure ends it at once.
#[derive(Default)]
struct Verdict {
    bad: BadRecords,
}

impl Verdict {
    /// Takes a record's failure. After the first bad record output is thrown away: the call fails anyhow.
    #[cold]
    fn failed(&mut self, index: usize, error: Error, out: &mut Output) -> Result<(), types::Error> {
        match error {
            Error::BadRecord(reason) => {
                self.bad.add(index, reason);
                out.discard();
                Ok(())
            }
            error @ (Error::Retry(_) | Error::Fatal(_)) => Err(error.into_wire()),
        }
    }

    fn finish(self) -> Result<(), types::Error> {
        if self.bad.is_empty() { Ok(()) } else { Err(types::Error::BadInput(self.bad.into_inner())) }
    }
}

type EndFn<T> = fn(&mut T, u32, &mut Output) -> Result<(), Error>;

struct StatelessDriver<T> {
    operator: T,
    host: Host,
    end: EndFn<T>,
}

impl<T: Operator> Instance for StatelessDriver<T> {
    fn process(&mut self, call: Call<'_>) -> Result<types::Output, types::Error> {
        let batch = Batch::new(call.input, call.port).map_err(Error::into_wire)?;
        let mut out = Output::new(T::SIDE_OUTPUTS.len(), batch.len(), batch.data_len(), &self.host);
        let mut verdict = Verdict::default();
        for (index, record) in batch.records().enumerate() {
            if let Err(error) = self.operator.process(record, &mut out) {
                verdict.failed(index, error, &mut out)?;
            }
        }
        verdict.finish()?;
        Ok(out.finish(Vec::new()))
    }

    fn on_end(&mut self, port: u32) -> Result<types::Output, types::Error> {
        let mut out = Output::new(T::SIDE_OUTPUTS.len(), 0, 0, &self.host);
        (self.end)(&mut self.operator, port, &mut out).map_err(Error::into_wire)?;
        Ok(out.finish(Vec::new()))
    }

    fn close(&mut self) {
        self.operator.close();
    }

    fn operator(&mut self) -> &mut dyn Any {
        &mut self.operator
    }
}

type EndKeyFn<T> = fn(&mut T, &[u8], &mut <T as KeyedOperator>::State, &mut Output) -> Result<(), Error>;

/// The state of each distinct key of the running call; kept for its memory.
struct Slots<S> {
    sets: Vec<S>,
    /// Where lists and maps are.
    store: Store,
}

impl<S> Default for Slots<S> {
    fn default() -> Self {
        Slots { sets: Vec::new(), store: Store::default() }
    }
}

impl<S: StateSet> Slots<S> {
    const VALUES: usize = state::values(S::KINDS, S::KINDS.len());
    /// Whether there are lists or maps, which must know their key.
    const NAMES_KEYS: bool = Self::VALUES < S::KINDS.len();

    /// Decodes the values of all distinct keys, and makes their lists and maps known. `keys`: all of them, if there are such.
    #[inline(always)]
    fn load(
        &mut self,
        states: &[types::Cells],
        names: &[StateName],
        keys: impl FnOnce() -> Vec<Rc<[u8]>>,
    ) -> Result<(), types::Error> {
        let Slots { sets, store } = self;
        sets.clear();
        state::check_alike(states, Self::VALUES).map_err(Error::into_wire)?;
        let keys = if Self::NAMES_KEYS { keys() } else { Vec::new() };
        let count = if Self::NAMES_KEYS { keys.len() } else { states[0].ops.len() };
        if states.iter().any(|cells| cells.ops.len() != count) {
            return Err(types::Error::Fatal(format!("the host gave {} cells for {count} keys", states[0].ops.len())));
        }
        S::load(states, names, &CallKeys { store, count, keys }, sets).map_err(Error::into_wire)
    }

    /// Hands each record of a call over, with the state of its key.
    #[inline(always)]
    fn process(
        &mut self,
        call: Call<'_>,
        names: &[StateName],
        sides: usize,
        host: &Host,
        mut each: impl FnMut(Record<'_>, &mut S, &mut Output) -> Result<(), Error>,
    ) -> Result<types::Output, types::Error> {
        let batch = Batch::new(call.input, call.port).map_err(Error::into_wire)?;
        if call.key_of.len() != batch.len() * 4 {
            let (bytes, records) = (call.key_of.len(), batch.len());
            return Err(types::Error::Fatal(format!("the host gave {bytes} bytes of key-of for {records} records")));
        }
        self.load(call.states, names, || distinct_keys(batch, call.key_of))?;
        let mut out = Output::new(sides, batch.len(), batch.data_len(), host);
        let mut verdict = Verdict::default();
        for (index, (record, key)) in batch.records().zip(call.key_of.chunks_exact(4)).enumerate() {
            if let Err(error) = each(record, &mut self.sets[u32_of(key)], &mut out) {
                verdict.failed(index, error, &mut out)?;
            }
        }
        verdict.finish()?;
        Ok(self.finish(out, call.states))
    }

    /// The output with the states that changed.
    fn finish(&mut self, out: Output, states: &[types::Cells]) -> types::Output {
        if Self::NAMES_KEYS {
            S::flush(&mut self.sets);
        }
        // Values mostly keep their size; those of new keys come on top.
        let before = states.iter().map(|cells| cells.data.len()).max().unwrap_or(0);
        out.finish(state::updates(&self.sets, before + self.sets.len() * 8))
    }
}

/// The distinct keys of a call, in the order in which they were first seen, as `key_of` numbers them.
fn distinct_keys(batch: Batch<'_>, key_of: &[u8]) -> Vec<Rc<[u8]>> {
    let mut keys: Vec<Rc<[u8]>> = Vec::new();
    for (record, key) in batch.records().zip(key_of.chunks_exact(4)) {
        if u32_of(key) == keys.len() {
            keys.push(record.key().into());
        }
    }
    keys
}

struct KeyedDriver<T: KeyedOperator> {
    operator: T,
    host: Host,
    end: EndFn<T>,
    end_key: EndKeyFn<T>,
    slots: Slots<T::State>,
}

impl<T: KeyedOperator> Instance for KeyedDriver<T> {
    fn process(&mut self, call: Call<'_>) -> Result<types::Output, types::Error> {
        let KeyedDriver { operator, host, slots, .. } = self;
        slots.process(call, T::STATES, T::SIDE_OUTPUTS.len(), host, |record, state, out| operator.process(record, state, out))
    }

    fn on_end(&mut self, port: u32) -> Result<types::Output, types::Error> {
        let mut out = Output::new(T::SIDE_OUTPUTS.len(), 0, 0, &self.host);
        (self.end)(&mut self.operator, port, &mut out).map_err(Error::into_wire)?;
        Ok(out.finish(Vec::new()))
    }

    fn on_end_keys(&mut self, keys: &types::Column, states: &[types::Cells]) -> Result<types::Output, types::Error> {
        let KeyedDriver { operator, host, end_key, slots, .. } = self;
        let count = (keys.index.len() / 4).saturating_sub(1);
        slots.load(states, T::STATES, || (0..count).map(|i| string_at(&keys.data, &keys.index, i).into()).collect())?;
        if slots.sets.len() != count {
            let cells = slots.sets.len();
            return Err(types::Error::Fatal(format!("the host gave {cells} cells for {count} keys")));
        }
        let mut out = Output::new(T::SIDE_OUTPUTS.len(), count, keys.data.len(), host);
        for (i, state) in slots.sets.iter_mut().enumerate() {
            let key = string_at(&keys.data, &keys.index, i);
            end_key(operator, key, state, &mut out).map_err(Error::into_wire)?;
        }
        Ok(slots.finish(out, states))
    }

    fn close(&mut self) {
        self.operator.close();
    }

    fn operator(&mut self) -> &mut dyn Any {
        &mut self.operator
    }

    #[cfg(not(target_family = "wasm"))]
    fn store(&mut self) -> Option<&mut Store> {
        Some(&mut self.slots.store)
    }
}

struct TimedDriver<T: TimerOperator> {
    operator: T,
    host: Host,
    timers: TimerHost,
    slots: Slots<T::State>,
}

impl<T: TimerOperator> TimedDriver<T> {
    /// One call with records or timers: `each` gets one and the state of its key. The timers that it changes are the host's only
    /// if all went well.
    fn call(
        &mut self,
        call: Call<'_>,
        mut each: impl FnMut(&mut T, Record<'_>, &mut T::State, &mut Timers, &mut Output) -> Result<(), Error>,
    ) -> Result<types::Output, types::Error> {
        let TimedDriver { operator, host, timers, slots } = self;
        let mut timers = Timers::new(timers);
        let output = slots.process(call, T::STATES, T::SIDE_OUTPUTS.len(), host, |record, state, out| {
            each(operator, record, state, &mut timers, out)
        })?;
        timers.finish();
        Ok(output)
    }
}

impl<T: TimerOperator> Instance for TimedDriver<T> {
    fn process(&mut self, call: Call<'_>) -> Result<types::Output, types::Error> {
        self.call(call, T::process)
    }

    fn on_timers(&mut self, kind: &str, call: Call<'_>) -> Result<types::Output, types::Error> {
        let unknown = || types::Error::Fatal(format!("the host fires timers of kind {kind:?}, which this SDK does not know"));
        let kind = TimerKind::from_name(kind).ok_or_else(unknown)?;
        self.call(call, |operator, record, state, timers, out| {
            let timer = Timer { kind, key: record.key(), payload: record.value(), time: record.time() };
            operator.on_timer(timer, state, timers, out).map_err(Error::without_record)
        })
    }

    fn close(&mut self) {
        self.operator.close();
    }

    fn operator(&mut self) -> &mut dyn Any {
        &mut self.operator
    }

    #[cfg(not(target_family = "wasm"))]
    fn timers(&mut self) -> Option<&mut TimerHost> {
        Some(&mut self.timers)
    }

    #[cfg(not(target_family = "wasm"))]
    fn store(&mut self) -> Option<&mut Store> {
        Some(&mut self.slots.store)
    }
}

struct BatchDriver<T> {
    operator: T,
    host: Host,
    state: KeyedState,
}

impl<T: BatchOperator> Instance for BatchDriver<T> {
    fn process(&mut self, call: Call<'_>) -> Result<types::Output, types::Error> {
        let batch = Batch::new(call.input, call.port).map_err(Error::into_wire)?;
        let mut out = Output::new(T::SIDE_OUTPUTS.len(), batch.len(), batch.data_len(), &self.host);
        let mut bad = BadRecords::default();
        self.operator.process(batch, &mut self.state, &mut out, &mut bad).map_err(Error::into_wire)?;
        Verdict { bad }.finish()?;
        Ok(out.finish(Vec::new()))
    }

    fn close(&mut self) {
        self.operator.close();
    }

    fn operator(&mut self) -> &mut dyn Any {
        &mut self.operator
    }

    #[cfg(not(target_family = "wasm"))]
    fn store(&mut self) -> Option<&mut Store> {
        Some(&mut self.state.store)
    }
}
