//! What an operator's author implements.
//!
//! An operator is made by `Default`, then opened once. What must survive a crash belongs into keyed state, never into the
//! operator's own fields: the host may drop an instance after any call, and calls again after a bad record.

use crate::batch::{Batch, Record};
use crate::error::Error;
use crate::host::Task;
use crate::keyed_state::KeyedState;
use crate::output::Output;
use crate::state::{StateName, StateSet};
use crate::timers::{Timer, Timers};

/// What an operator is called and what it has; the same for all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The plugin's own name.
    pub name: &'static str,
    /// The plugin's own version.
    pub version: &'static str,
}

/// The name and version of the crate that this is written in.
#[macro_export]
macro_rules! info {
    () => {
        $crate::Info { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") }
    };
}

/// An operator without state: a map, a filter, a split.
pub trait Operator: Default + 'static {
    /// Name and version; `weir_sdk::info!()` takes them from the crate.
    const INFO: Info;
    /// Side outputs by index; the job file wires them as `operator.name`.
    const SIDE_OUTPUTS: &'static [&'static str] = &[];
    /// Number of inputs that it understands; 0 means any.
    const INPUTS: u32 = 1;

    /// Once, before all else. `config`: the job file's `config` as one JSON document (`{}` if there is none).
    fn open(&mut self, _task: &Task, _config: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Processes one record.
    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error>;

    /// A clean end of this instance. Not called after a trap or a crash.
    fn close(&mut self) {}
}

/// An operator with state for each key: its input is partitioned by key.
pub trait KeyedOperator: Default + 'static {
    /// Name and version; `weir_sdk::info!()` takes them from the crate.
    const INFO: Info;
    /// The states: a [`Value`](crate::Value), [`Reducing`](crate::Reducing), [`List`](crate::List) or [`Map`](crate::Map), or a
    /// tuple of up to four.
    type State: StateSet;
    /// Their names, in the same order.
    const STATES: &'static [StateName];
    /// Side outputs by index; the job file wires them as `operator.name`.
    const SIDE_OUTPUTS: &'static [&'static str] = &[];
    /// Number of inputs that it understands; 0 means any.
    const INPUTS: u32 = 1;

    /// Once, before all else. `config`: the job file's `config` as one JSON document (`{}` if there is none).
    fn open(&mut self, _task: &Task, _config: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Processes one record. `state`: that of the record's key.
    fn process(&mut self, record: Record<'_>, state: &mut Self::State, out: &mut Output) -> Result<(), Error>;

    /// A clean end of this instance. Not called after a trap or a crash.
    fn close(&mut self) {}
}

/// An operator that takes whole batches, and reads and writes state on demand: for state whose keys depend on the data. Mind
/// that a call to the host costs a hundred nanoseconds or more: prefer [`KeyedOperator`], and ask for many keys at once.
pub trait BatchOperator: Default + 'static {
    /// Name and version; `weir_sdk::info!()` takes them from the crate.
    const INFO: Info;
    /// Names of the states; an operator with one is keyed.
    const STATES: &'static [StateName] = &[];
    /// Side outputs by index; the job file wires them as `operator.name`.
    const SIDE_OUTPUTS: &'static [&'static str] = &[];
    /// Number of inputs that it understands; 0 means any.
    const INPUTS: u32 = 1;

    /// Once, before all else. `config`: the job file's `config` as one JSON document (`{}` if there is none).
    fn open(&mut self, _task: &Task, _config: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Processes one batch. The bad records are named by index through [`BadRecords`].
    fn process(&mut self, batch: Batch<'_>, state: &mut KeyedState, out: &mut Output, bad: &mut BadRecords) -> Result<(), Error>;

    /// A clean end of this instance. Not called after a trap or a crash.
    fn close(&mut self) {}
}

/// For an [`Operator`]: a call when an input has ended. Export it with `export_operator!(Type, end_of_input)`.
pub trait EndOfInput: Operator {
    /// Input `port` has ended for good. Not called at a stop, failure or swap, and never twice for one input.
    fn on_end(&mut self, port: u32, out: &mut Output) -> Result<(), Error>;
}

/// For a [`KeyedOperator`]: calls at the end of bounded input. Export it with `export_operator!(Type, end_of_input)`.
pub trait EndOfKeyedInput: KeyedOperator {
    /// Input `port` has ended for good. Not called at a stop, failure or swap, and never twice for one input.
    fn on_end(&mut self, _port: u32, _out: &mut Output) -> Result<(), Error> {
        Ok(())
    }

    /// After the last input has ended: once for every key of this subtask that has some state.
    fn on_end_key(&mut self, _key: &[u8], _state: &mut Self::State, _out: &mut Output) -> Result<(), Error> {
        Ok(())
    }
}

/// An operator with state and timers for each key: a window, a session, a time-out. Its input is partitioned by key. Export it
/// with `export_operator!(Type, timers)`.
///
/// At the end of bounded input the watermark passes every event-time timer, those that are set meanwhile, too: one that always
/// sets the next must look at [`Timers::watermark`], which is `i64::MAX` then. Timers of processing time are dropped.
pub trait TimerOperator: Default + 'static {
    /// Name and version; `weir_sdk::info!()` takes them from the crate.
    const INFO: Info;
    /// The states: a [`Value`](crate::Value), [`Reducing`](crate::Reducing), [`List`](crate::List) or [`Map`](crate::Map), or a
    /// tuple of up to four.
    type State: StateSet;
    /// Their names, in the same order.
    const STATES: &'static [StateName];
    /// Side outputs by index; the job file wires them as `operator.name`.
    const SIDE_OUTPUTS: &'static [&'static str] = &[];
    /// Number of inputs that it understands; 0 means any.
    const INPUTS: u32 = 1;

    /// Once, before all else. `config`: the job file's `config` as one JSON document (`{}` if there is none).
    fn open(&mut self, _task: &Task, _config: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Processes one record. `state`: that of the record's key.
    fn process(
        &mut self,
        record: Record<'_>,
        state: &mut Self::State,
        timers: &mut Timers,
        out: &mut Output,
    ) -> Result<(), Error>;

    /// A timer is due. `state`: that of its key.
    fn on_timer(&mut self, timer: Timer<'_>, state: &mut Self::State, timers: &mut Timers, out: &mut Output)
    -> Result<(), Error>;

    /// A clean end of this instance. Not called after a trap or a crash.
    fn close(&mut self) {}
}

/// The bad records of a call: if there is any, the call fails as a whole and is made again without them.
#[derive(Debug, Default)]
pub struct BadRecords(Vec<(u32, String)>);

impl BadRecords {
    /// Names record `index` of the batch, and why it can't be processed.
    pub fn add(&mut self, index: usize, reason: impl Into<String>) {
        self.0.push((index as u32, reason.into()));
    }

    /// True if all records are well.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_inner(self) -> Vec<(u32, String)> {
        self.0
    }
}
