//! A Wasm plugin as an operator of a subtask: the bridge to the plugin host, which knows no runtime.

use super::operator::{OperatorFailure, Processed, StateRef, StreamOperator};
use crate::connectors::Remedy;
use weir_plugin::batch::RecordBatch;
use weir_plugin::{BadRecordPolicy, CallTimes, Failure, SupervisedOperator, TimerClocks, TimerKind};

/// An operator that is a plugin.
pub struct WasmOperator {
    /// None after `close`.
    instance: Option<SupervisedOperator>,
    policy: BadRecordPolicy,
    ends: bool,
    end_states: Vec<u16>,
}

impl WasmOperator {
    /// An opened plugin. `ends`: it exports the calls at the end of input; `end_states`: states whose keys it then wants.
    pub fn new(instance: SupervisedOperator, policy: BadRecordPolicy, ends: bool, end_states: Vec<u16>) -> Self {
        WasmOperator { instance: Some(instance), policy, ends, end_states }
    }

    fn instance(&mut self) -> &mut SupervisedOperator {
        self.instance.as_mut().expect("a closed operator is not called")
    }
}

fn failure_of(failure: &Failure) -> OperatorFailure {
    let message = failure.to_string();
    match failure {
        // A record that can't be processed can't be processed next time either.
        Failure::BadRecord { record, .. } => OperatorFailure { message, record: Some(record.index), remedy: Remedy::Permanent },
        Failure::Task(_) | Failure::GaveUp { .. } => OperatorFailure { message, record: None, remedy: Remedy::Restart },
    }
}

fn processed_of(output: weir_plugin::Output) -> Processed {
    let sides = output.sides.into_iter().flat_map(|(side, chunks)| chunks.into_iter().map(move |chunk| (side, chunk)));
    Processed { main: output.main, sides: sides.collect(), bad: Vec::new(), timers: output.timers }
}

impl StreamOperator for WasmOperator {
    fn process(&mut self, port: u32, records: &RecordBatch, state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let policy = self.policy;
        let processed = self.instance().process(port, records, state, policy).map_err(|failure| failure_of(&failure))?;
        let bad = processed.skipped.into_iter().map(|bad| (bad.index, bad.reason)).collect();
        Ok(Processed { bad, ..processed_of(processed.output) })
    }

    fn wants_end(&self) -> bool {
        self.ends
    }

    fn on_end(&mut self, port: u32, _state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        self.instance().on_end(port).map(processed_of).map_err(|failure| failure_of(&failure))
    }

    fn end_key_states(&self) -> &[u16] {
        &self.end_states
    }

    fn on_end_keys(&mut self, keys: &[Vec<u8>], state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        self.instance().on_end_keys(keys, state).map(processed_of).map_err(|failure| failure_of(&failure))
    }

    fn set_clocks(&mut self, clocks: TimerClocks) {
        self.instance().set_clocks(clocks);
    }

    fn on_timers(&mut self, kind: TimerKind, due: &RecordBatch, state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        self.instance().on_timers(kind, due, state).map(processed_of).map_err(|failure| failure_of(&failure))
    }

    fn times(&self) -> CallTimes {
        self.instance.as_ref().map_or_else(CallTimes::default, SupervisedOperator::times)
    }

    fn close(&mut self) {
        if let Some(instance) = self.instance.take()
            && let Err(error) = instance.close()
        {
            tracing::warn!(%error, "a plugin failed while it was closed; its work is committed all the same");
        }
    }
}
