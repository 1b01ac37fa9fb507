//! A Wasm plugin as an operator of a subtask: the bridge to the plugin host, which knows no runtime.

use super::operator::{OperatorFailure, Processed, StateRef, StreamOperator};
use crate::connectors::Remedy;
use weir_plugin::batch::RecordBatch;
use weir_plugin::{BadRecordPolicy, CallTimes, Failure, StatePart, SupervisedOperator, TimerClocks, TimerKind};

/// An operator that is a plugin.
pub struct WasmOperator {
    /// None after `close`.
    instance: Option<SupervisedOperator>,
    policy: BadRecordPolicy,
    ends: bool,
    end_states: Vec<u16>,
    /// For each of its side outputs the one of the job graph that it feeds, if any; none: they are the same.
    sides: Option<Vec<Option<u32>>>,
}

impl WasmOperator {
    /// An opened plugin. `ends`: it exports the calls at the end of input; `end_states`: states whose keys it then wants.
    pub fn new(instance: SupervisedOperator, policy: BadRecordPolicy, ends: bool, end_states: Vec<u16>) -> Self {
        WasmOperator { instance: Some(instance), policy, ends, end_states, sides: None }
    }

    /// The same in the place of another build whose side outputs have these names: one that it alone has is read by nobody.
    #[must_use]
    pub fn in_place_of(mut self, own: &[String], placed: &[String]) -> Self {
        let place = |name: &String| placed.iter().position(|other| other == name).map(|at| at as u32);
        self.sides = (own != placed).then(|| own.iter().map(place).collect());
        self
    }

    fn instance(&mut self) -> &mut SupervisedOperator {
        self.instance.as_mut().expect("a closed operator is not called")
    }

    fn answered(&self, called: Result<weir_plugin::Output, Failure>) -> Result<Processed, OperatorFailure> {
        called.map(|output| processed_of(output, self.sides.as_deref())).map_err(|failure| failure_of(&failure))
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

fn processed_of(output: weir_plugin::Output, places: Option<&[Option<u32>]>) -> Processed {
    let placed = |side: u32| places.map_or(Some(side), |places| places[side as usize]);
    let sides = output.sides.into_iter().filter_map(|(side, chunks)| Some((placed(side)?, chunks)));
    let sides = sides.flat_map(|(side, chunks)| chunks.into_iter().map(move |chunk| (side, chunk)));
    Processed { main: output.main, sides: sides.collect(), bad: Vec::new(), timers: output.timers }
}

impl StreamOperator for WasmOperator {
    fn process(&mut self, port: u32, records: &RecordBatch, state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let policy = self.policy;
        let processed = self.instance().process(port, records, state, policy).map_err(|failure| failure_of(&failure))?;
        let bad = processed.skipped.into_iter().map(|bad| (bad.index, bad.reason)).collect();
        Ok(Processed { bad, ..processed_of(processed.output, self.sides.as_deref()) })
    }

    fn wants_end(&self) -> bool {
        self.ends
    }

    fn on_end(&mut self, port: u32, _state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let called = self.instance().on_end(port);
        self.answered(called)
    }

    fn end_key_states(&self) -> &[u16] {
        &self.end_states
    }

    fn on_end_keys(&mut self, keys: &[Vec<u8>], state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let called = self.instance().on_end_keys(keys, state);
        self.answered(called)
    }

    fn set_clocks(&mut self, clocks: TimerClocks) {
        self.instance().set_clocks(clocks);
    }

    fn on_timers(&mut self, kind: TimerKind, due: &RecordBatch, state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let called = self.instance().on_timers(kind, due, state);
        self.answered(called)
    }

    fn snapshot(&mut self) -> Result<Option<Vec<StatePart>>, OperatorFailure> {
        if !self.instance().spec().plugin.is_checkpointed() {
            return Ok(None);
        }
        self.instance().snapshot().map(Some).map_err(|failure| failure_of(&failure))
    }

    fn restore(&mut self, parts: &[StatePart]) -> Result<(), OperatorFailure> {
        // The same build refuses the same parts again.
        let permanent = |failure: Failure| OperatorFailure { remedy: Remedy::Permanent, ..failure_of(&failure) };
        self.instance().restore(parts).map_err(permanent)
    }

    fn times(&self) -> CallTimes {
        self.instance.as_ref().map_or_else(CallTimes::default, SupervisedOperator::times)
    }

    fn set_on_probation(&mut self, on_probation: bool) {
        self.instance().set_on_probation(on_probation);
    }

    fn close(&mut self) {
        if let Some(instance) = self.instance.take()
            && let Err(error) = instance.close()
        {
            tracing::warn!(%error, "a plugin failed while it was closed; its work is committed all the same");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another build may have its side outputs in another order, and some that nobody reads.
    #[test]
    fn side_outputs_are_found_by_name_in_the_place_of_another_build() {
        let chunk = |value: &[u8]| {
            let mut records = RecordBatch::new();
            records.push(b"", value, 0);
            records
        };
        let sides = vec![(0, vec![chunk(b"new")]), (1, vec![chunk(b"late"), chunk(b"later")]), (2, vec![chunk(b"bad")])];
        let output = weir_plugin::Output { sides, ..Default::default() };
        let placed = |places: Option<&[Option<u32>]>| -> Vec<(u32, Vec<u8>)> {
            let sides = processed_of(output.clone(), places).sides;
            sides.into_iter().map(|(side, records)| (side, records.value_or_null(0).unwrap_or_default().to_vec())).collect()
        };
        let text = |side: u32, value: &[u8]| (side, value.to_vec());
        assert_eq!(placed(None), [text(0, b"new"), text(1, b"late"), text(1, b"later"), text(2, b"bad")]);
        let places = [None, Some(1), Some(0)];
        assert_eq!(placed(Some(&places)), [text(1, b"late"), text(1, b"later"), text(0, b"bad")]);
    }
}
