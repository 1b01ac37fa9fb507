//! Which inputs of an operator have ended, from one run of a job to the next, whose `from` may say something else.
//!
//! An input is known by what it reads, never by its port. What reads something new is an input that has not ended, and what is
//! read no more is forgotten: whoever connects it again later reads something new.

use crate::graph::{Endpoint, JobGraph, OperatorSpec};
use crate::store::manifest::{Manifest, OperatorManifest};
use std::collections::BTreeSet;

/// How far the end has come in one subtask of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Ports whose end was processed.
    pub ports: BTreeSet<u32>,
    /// True if the end calls are done and EndOfData was sent on.
    pub all: bool,
}

/// What a subtask of an operator starts with. A checkpoint with a [`fault`] is not restored.
pub fn restored(graph: &JobGraph, manifest: &Manifest, operator: usize, subtask: u32) -> Ended {
    let spec = &graph.operators[operator];
    let Some(stored) = manifest.operators.get(&spec.name) else { return Ended::default() };
    let own = match stored.parallelism == spec.parallelism {
        true => &stored.subtasks[subtask as usize..][..1],
        // Then it has no state, and an end only counts when every former subtask has seen it.
        false => &stored.subtasks[..],
    };
    let ended = |input: &str| own.iter().all(|subtask| subtask.ended_inputs.iter().any(|ended| ended == input));
    let ports = (0u32..)
        .zip(&spec.inputs)
        .filter(|(_, input)| existed(graph, manifest, &input.from) && ended(&graph.endpoint_name(&input.from)));
    Ended { ports: ports.map(|(port, _)| port).collect(), all: own.iter().all(|subtask| subtask.end_of_data_sent) }
}

/// Why an operator can't go on: it has made its end calls, so what reads it counts on no more records, and now it has an input
/// that has not ended.
pub fn fault(graph: &JobGraph, manifest: &Manifest, operator: usize) -> Option<String> {
    let spec = &graph.operators[operator];
    let stored = manifest.operators.get(&spec.name)?;
    if !stored.subtasks.iter().any(|subtask| subtask.end_of_data_sent) {
        return None;
    }
    let new = new_inputs(graph, manifest, spec, stored);
    (!new.is_empty()).then(|| {
        format!(
            "all inputs of operator {0} have ended and its last results are out, but the job file now gives it {1}: put 'from' back \
             as it was, let an operator of another name read {1}, or start over with --fresh",
            spec.name,
            new.join(" and ")
        )
    })
}

/// Inputs whose end the subtasks that have ended have not seen.
fn new_inputs(graph: &JobGraph, manifest: &Manifest, spec: &OperatorSpec, stored: &OperatorManifest) -> Vec<String> {
    let mut done = stored.subtasks.iter().filter(|subtask| subtask.end_of_data_sent);
    let Some(known) = done.next().map(|subtask| &subtask.ended_inputs) else { return Vec::new() };
    let is_new = |from: &Endpoint| !existed(graph, manifest, from) || !known.contains(&graph.endpoint_name(from));
    spec.inputs.iter().filter(|input| is_new(&input.from)).map(|input| graph.endpoint_name(&input.from)).collect()
}

/// Whether what is read was there at the checkpoint: a name may have gone from an operator to a source.
fn existed(graph: &JobGraph, manifest: &Manifest, from: &Endpoint) -> bool {
    match from {
        Endpoint::Source(source) => manifest.sources.contains_key(&graph.sources[*source].name),
        Endpoint::Operator(operator) | Endpoint::Side { operator, .. } => {
            manifest.operators.contains_key(&graph.operators[*operator].name)
        }
    }
}

#[cfg(test)]
#[path = "ended_inputs_tests.rs"]
mod tests;
