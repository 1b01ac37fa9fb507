//! What a subtask asks of an operator. A Wasm plugin is one implementation; benches bring native ones.

use crate::connectors::Remedy;
use weir_plugin::batch::RecordBatch;
use weir_plugin::state::KeyedStateBackend;
use weir_plugin::{CallTimes, StatePart, TimerChange, TimerClocks, TimerKind};

/// State of the running operator, if it declares any.
pub type StateRef<'a> = Option<&'a mut dyn KeyedStateBackend>;

/// What a call gave.
#[derive(Debug, Default)]
pub struct Processed {
    /// Batches for the main output, in order.
    pub main: Vec<RecordBatch>,
    /// (index of the side output, records), in order.
    pub sides: Vec<(u32, RecordBatch)>,
    /// (index in the input batch, reason) of records that could not be processed, ascending. Only with a policy that allows it.
    pub bad: Vec<(u32, String)>,
    /// Timers that it set and took away, in order.
    pub timers: Vec<TimerChange>,
}

/// Why a call failed for good; nothing that it did was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFailure {
    /// What, whose fault, what next.
    pub message: String,
    /// The record at fault, by index in the input batch.
    pub record: Option<u32>,
    /// Whether a restart can help.
    pub remedy: Remedy,
}

/// An operator's instance in one subtask.
pub trait StreamOperator: Send {
    /// Processes a batch of input `port`.
    fn process(&mut self, port: u32, records: &RecordBatch, state: StateRef<'_>) -> Result<Processed, OperatorFailure>;

    /// Whether the calls at the end of input are wanted. By default they are not, and the next three do nothing.
    fn wants_end(&self) -> bool {
        false
    }

    /// Input `port` has ended.
    fn on_end(&mut self, _port: u32, _state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        Ok(Processed::default())
    }

    /// Indexes of the states whose keys `on_end_keys` wants; empty: it is not called.
    fn end_key_states(&self) -> &[u16] {
        &[]
    }

    /// After the last port: a page of keys with state.
    fn on_end_keys(&mut self, _keys: &[Vec<u8>], _state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        Ok(Processed::default())
    }

    /// What its timers wait for, as calls from here on see it.
    fn set_clocks(&mut self, _clocks: TimerClocks) {}

    /// These of its timers are due: key, payload as the value, time.
    fn on_timers(&mut self, _kind: TimerKind, _due: &RecordBatch, _state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        Ok(Processed::default())
    }

    /// Its state that belongs to no key, at a barrier; none if it has no such state.
    fn snapshot(&mut self) -> Result<Option<Vec<StatePart>>, OperatorFailure> {
        Ok(None)
    }

    /// Gives it such state back, before any other call.
    fn restore(&mut self, _parts: &[StatePart]) -> Result<(), OperatorFailure> {
        Ok(())
    }

    /// Where its calls spent their time so far; what it does not say counts as "rest".
    fn times(&self) -> CallTimes {
        CallTimes::default()
    }

    /// Whether it is on probation: a trap is a failure then, and nobody looks for a record to blame.
    fn set_on_probation(&mut self, _on_probation: bool) {}

    /// A clean end.
    fn close(&mut self) {}
}
