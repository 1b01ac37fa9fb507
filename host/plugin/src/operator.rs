//! One instance of an operator: open, process, end of input, close.

use crate::batch::{Cells, Column, RecordBatch};
use crate::clock::Laps;
use crate::describe::OperatorDescriptor;
use crate::error::{CallError, Function};
use crate::exports::{OnTimersFn, OperatorFunctions, ProcessFn, Processed, RestoreFn};
use crate::load::Plugin;
use crate::output::{self, Expected, Output};
use crate::parts::{self, StatePart};
use crate::scope::CallScope;
use crate::setup::{self, TaskSetup};
use crate::state::{KeyGrouping, KeyedStateBackend, StateId};
use crate::store::{Guest, HostState};
use crate::timers::{TimerClocks, TimerKind};
use crate::times::CallTimes;
use crate::wire::{BatchRef, CellsRef, ColumnRef, PartRef};
use std::sync::Arc;
use wasmtime::Store;

/// An open instance of an operator.
///
/// After a trap it is [poisoned](Self::is_poisoned): drop it. What must survive lies in keyed state.
pub struct OperatorInstance {
    plugin: Arc<Plugin>,
    guest: Guest,
    functions: OperatorFunctions,
    keyed: Keyed,
    times: CallTimes,
}

/// What calls with state need, reused from call to call.
#[derive(Default)]
struct Keyed {
    prefetched: Vec<StateId>,
    grouping: KeyGrouping,
    cells: Vec<Cells>,
}

impl OperatorInstance {
    /// Instantiates and opens.
    ///
    /// # Panics
    /// If the plugin is a sink; its kind is known since it was loaded.
    pub fn new(plugin: &Arc<Plugin>, setup: &TaskSetup) -> Result<Self, CallError> {
        let exports = plugin.operator_exports().expect("an operator instance is made from an operator");
        let mut guest = setup.instantiate(plugin, plugin.operator(), |guest| {
            exports.describe(guest).map(|descriptor| OperatorDescriptor::check(descriptor).ok())
        })?;
        let (store, instance) = guest.parts();
        let functions = exports.functions(store, instance).expect("types were checked at load");
        setup.open(&mut guest, functions.open)?;
        let prefetched = plugin.operator().map(OperatorDescriptor::prefetched).unwrap_or_default();
        let keyed = Keyed { prefetched, ..Keyed::default() };
        Ok(OperatorInstance { plugin: plugin.clone(), guest, functions, keyed, times: CallTimes::default() })
    }

    /// Processes a batch of input `port`. State is changed if, and only if, this returns `Ok` (after a `State` error nobody
    /// can say).
    ///
    /// # Panics
    /// If the operator declares state and `state` is none.
    pub fn process(
        &mut self,
        port: u32,
        batch: &RecordBatch,
        state: Option<&mut dyn KeyedStateBackend>,
    ) -> Result<Output, CallError> {
        let process = self.functions.process;
        let aux = batch.aux();
        self.call(Function::Process, batch, state, |store, key_of, cells| {
            let process: ProcessFn<'_> = process;
            process.call(store, (port, BatchRef::new(batch, &aux), key_of, cells))
        })
    }

    /// Whether it wants to know of the end of its input.
    pub fn wants_end(&self) -> bool {
        self.functions.end.is_some()
    }

    /// Input `port` has ended. Empty if the plugin does not want to know.
    pub fn on_end(&mut self, port: u32) -> Result<Output, CallError> {
        let Some(end) = self.functions.end else { return Ok(Output::default()) };
        let mut laps = Laps::begin();
        let answer = self.guest.call(Function::OnEnd, None, |store| end.on_end.call(store, (port,)));
        self.times.guest(laps.lap(), self.guest.state().host_times);
        let answer = answer?;
        let expected = Expected { records: 0, prefetched: self.keyed.prefetched.len(), keys: 0 };
        let taken = output::take(self.guest.state(), answer.0, expected);
        taken.map(|(output, _)| output).map_err(|kind| self.guest.error(Function::OnEnd, kind))
    }

    /// A page of this subtask's keys, each once, after the last port has ended. Empty if the plugin does not want to know.
    /// [`KeyedStateBackend::scan_keys`] over [`OperatorDescriptor::end_key_states`] gives the pages.
    ///
    /// # Panics
    /// As [`Self::process`]; and if a key stands twice in the page, as the cells would not fit.
    pub fn on_end_keys(&mut self, keys: &[Vec<u8>], state: Option<&mut dyn KeyedStateBackend>) -> Result<Output, CallError> {
        let Some(end) = self.functions.end else { return Ok(Output::default()) };
        // The page as a batch without values, so that it is grouped and lent like any other.
        let mut batch = RecordBatch::with_capacity(keys.len(), keys.iter().map(Vec::len).sum());
        let mut column = Column::new();
        for key in keys {
            batch.push(key, &[], 0);
            column.push(key);
        }
        self.call(Function::OnEndKeys, &batch, state, |store, key_of, cells| {
            let in_order = key_of.chunks_exact(4).zip(0u32..).all(|(of, i)| of == i.to_le_bytes());
            assert!(in_order, "a page of keys holds each key once");
            end.on_end_keys.call(store, (ColumnRef::new(&column), cells))
        })
    }

    /// Whether it has timers.
    pub fn has_timers(&self) -> bool {
        self.functions.on_timers.is_some()
    }

    /// What its timers wait for, as calls from here on see it.
    pub fn set_clocks(&mut self, clocks: TimerClocks) {
        self.guest.state().clocks = clocks;
    }

    /// These timers are due: key, payload as the value, time. Empty if the plugin has none.
    ///
    /// # Panics
    /// As [`Self::process`].
    pub fn on_timers(
        &mut self,
        kind: TimerKind,
        due: &RecordBatch,
        state: Option<&mut dyn KeyedStateBackend>,
    ) -> Result<Output, CallError> {
        let Some(on_timers) = self.functions.on_timers else { return Ok(Output::default()) };
        let aux = due.aux();
        self.call(Function::OnTimers, due, state, |store, key_of, cells| {
            let on_timers: OnTimersFn<'_> = on_timers;
            on_timers.call(store, (kind.name(), BatchRef::new(due, &aux), key_of, cells))
        })
    }

    /// Its state that belongs to no key. Empty if the plugin has none.
    pub fn snapshot(&mut self) -> Result<Vec<StatePart>, CallError> {
        let Some(own) = self.functions.own_state else { return Ok(Vec::new()) };
        let answer = self.guest.call(Function::Snapshot, None, |store| own.snapshot.call(store, ()))?;
        let parts = answer.0.map_err(|error| error.check(0)).and_then(parts::check);
        parts.map_err(|kind| self.guest.error(Function::Snapshot, kind))
    }

    /// Gives it such state back, before any other call. Nothing happens if the plugin has none.
    pub fn restore(&mut self, parts: &[StatePart]) -> Result<(), CallError> {
        let Some(own) = self.functions.own_state else { return Ok(()) };
        let lowered: Vec<PartRef<'_>> = parts.iter().map(PartRef::new).collect();
        let answer = self.guest.call(Function::Restore, None, |store| {
            let restore: RestoreFn<'_> = own.restore;
            restore.call(store, (&lowered,))
        })?;
        answer.0.map_err(|error| self.guest.error(Function::Restore, error.check(0)))
    }

    /// A clean end. The instance is gone afterwards, whatever it answers.
    pub fn close(mut self) -> Result<(), CallError> {
        setup::close(&mut self.guest, self.functions.close)
    }

    /// Whether a call trapped: no further call succeeds.
    pub fn is_poisoned(&self) -> bool {
        self.guest.is_poisoned()
    }

    /// The plugin that it is an instance of.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Indices of the prefetched states.
    pub fn prefetched(&self) -> &[StateId] {
        &self.keyed.prefetched
    }

    /// Where its calls spent their time so far.
    pub fn times(&self) -> CallTimes {
        self.times
    }

    /// Bytes of linear memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.guest.memory_bytes()
    }

    /// One call with records.
    ///
    /// 1. Keys are grouped, declared state is prefetched. 2. The guest is called. 3. All that it gave is checked. 4. State
    ///    reaches the backend: last, so that a bad answer changes nothing.
    ///
    /// Each step ends a lap, before its error is looked at: the time of a call that fails counts, too.
    fn call(
        &mut self,
        function: Function,
        batch: &RecordBatch,
        state: Option<&mut dyn KeyedStateBackend>,
        call: impl FnOnce(&mut Store<HostState>, &[u8], &[CellsRef<'_>]) -> wasmtime::Result<Processed>,
    ) -> Result<Output, CallError> {
        let OperatorInstance { plugin, guest, keyed: Keyed { prefetched, grouping, cells }, times, .. } = self;
        let mut laps = Laps::begin();
        let states = plugin.operator().map_or(&[][..], |operator| &operator.states);
        if states.is_empty() {
            let answer = guest.call(function, None, |store| call(store, &[], &[]));
            times.guest(laps.lap(), guest.state().host_times);
            let expected = Expected { records: batch.len(), prefetched: 0, keys: 0 };
            let taken = output::take(guest.state(), answer?.0, expected);
            times.take_ns += laps.lap();
            return taken.map(|(output, _)| output).map_err(|kind| guest.error(function, kind));
        }
        let backend = state.expect("an operator that declares state is called with its backend");
        grouping.group(batch);
        times.group_ns += laps.lap();
        let keys = grouping.keys(batch);
        if !prefetched.is_empty() {
            let found = backend.prefetch(keys, prefetched, cells);
            times.look_up_ns += laps.lap();
            found.map_err(|e| guest.error(function, e.into()))?;
            assert_eq!(cells.len(), prefetched.len(), "a backend answers one column of cells for each state");
        }
        let lowered: Vec<CellsRef<'_>> = cells.iter().map(CellsRef::new).collect();
        let mut scope = CallScope::new(backend, batch, grouping, prefetched, cells, states);
        let answer = guest.call(function, Some(&mut scope), |store| call(store, &grouping.key_of, &lowered));
        times.guest(laps.lap(), guest.state().host_times);
        let expected = Expected { records: batch.len(), prefetched: prefetched.len(), keys: keys.len() };
        let taken = output::take(guest.state(), answer?.0, expected);
        times.take_ns += laps.lap();
        let (output, updates) = taken.map_err(|kind| guest.error(function, kind))?;
        let applied = scope.apply(updates);
        times.apply_ns += laps.lap();
        applied.map_err(|e| guest.error(function, e.into()))?;
        Ok(output)
    }
}
