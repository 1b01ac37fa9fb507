//! What is legal in a job and may surprise: said by `weir check` and at the start of `weir run`.

use super::execution::{EdgeSpec, NodeRef, PluginFacts};
use super::job_graph::*;
use super::paths;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_protocol::watermark::WatermarkBound;

/// All notes of a job, in the order of the job file.
pub(super) fn collect(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, edges: &[EdgeSpec]) -> Vec<String> {
    let mut notes = Vec::new();
    unread_outputs(graph, facts, edges, &mut notes);
    spread(graph, edges, &mut notes);
    nested_sinks(graph, &mut notes);
    watermarks(graph, &mut notes);
    timers(graph, facts, &mut notes);
    idle_grants(graph, facts, &mut notes);
    loops(graph, edges, &mut notes);
    notes
}

/// Grants of the world that a language's runtime sees, to a component that never looks at it.
fn idle_grants(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, notes: &mut Vec<String>) {
    for operator in &graph.operators {
        let GrantsSpec { env, clock, random, .. } = &operator.grants;
        let grants = [
            ("env", !env.is_empty(), "wasi:cli/environment"),
            ("clock", *clock, "wasi:clocks/"),
            ("random", *random, "wasi:random/"),
        ];
        for (grant, _, interface) in grants.iter().filter(|(_, is_granted, _)| *is_granted) {
            if !facts[&operator.name].wasi.iter().any(|import| import.starts_with(interface)) {
                let name = &operator.name;
                notes.push(format!("operator '{name}': grants.{grant} has no effect: its component does not import {interface}"));
            }
        }
    }
}

fn unread_outputs(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, edges: &[EdgeSpec], notes: &mut Vec<String>) {
    for (index, operator) in graph.operators.iter().enumerate() {
        let read = |output: usize| edges.iter().any(|edge| edge.from == NodeRef::Operator(index) && edge.output == output);
        let name = &operator.name;
        if !read(0) {
            notes.push(format!("operator '{name}': nothing reads its main output; what it emits there is dropped"));
        }
        for (side, output) in facts[name].side_outputs.iter().enumerate() {
            if !read(side + 1) {
                notes.push(format!(
                    "operator '{name}': nothing reads its side output '{name}.{output}'; what it emits there is dropped"
                ));
            }
        }
        if operator.on_bad_record == BadRecordPolicy::Drop {
            notes.push(format!("operator '{name}': on_bad_record = \"drop\" leaves bad records out without a trace"));
        }
    }
}

fn spread(graph: &JobGraph, edges: &[EdgeSpec], notes: &mut Vec<String>) {
    for edge in edges {
        let (from, to, readers) = (graph.node_name(edge.from), graph.node_name(edge.to), graph.parallelism_of(edge.to));
        if let NodeRef::Source(source) = edge.from
            && edge.partition == Partition::Key
            && matches!(graph.sources[source].connector, SourceConnectorSpec::File { .. })
            && readers > 1
        {
            notes.push(format!(
                "'{from}' → '{to}': records of a file source have no key, so that all go to one of {readers} subtasks"
            ));
        }
        if matches!(edge.to, NodeRef::Sink(_)) && edge.partition == Partition::Broadcast && readers > 1 {
            notes.push(format!("'{from}' → '{to}': broadcast writes each record {readers} times, once in each writer"));
        }
    }
}

fn watermarks(graph: &JobGraph, notes: &mut Vec<String>) {
    let never_idle = |bound: Option<WatermarkBound>| bound.is_some_and(|bound| bound.idle.is_none());
    for source in graph.sources.iter().filter(|source| never_idle(source.watermark)) {
        notes.push(format!(
            "source '{}': watermark without 'idle': a partition without records holds event time back for all",
            source.name
        ));
    }
    for operator in graph.operators.iter().filter(|operator| never_idle(operator.watermark)) {
        notes.push(format!(
            "operator '{}': watermark without 'idle': a subtask that emits nothing holds event time back for all",
            operator.name
        ));
    }
    for operator in graph.operators.iter().filter(|operator| operator.watermark.is_none()) {
        let has = |input: &&Input| has_event_time(graph, &input.from, graph.operators.len());
        if let (Some(_), Some(without)) = (operator.inputs.iter().find(has), operator.inputs.iter().find(|input| !has(input))) {
            notes.push(format!(
                "operator '{}': its input '{}' has no watermark: event time stands still there until that input has ended",
                operator.name,
                graph.endpoint_name(&without.from)
            ));
        }
    }
}

fn timers(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, notes: &mut Vec<String>) {
    for operator in graph.operators.iter().filter(|operator| facts[&operator.name].timers) {
        if !operator.inputs.iter().any(|input| has_event_time(graph, &input.from, graph.operators.len())) {
            notes.push(format!(
                "operator '{}' has timers and no watermark reaches it: those of event time fire when its input has ended",
                operator.name
            ));
        }
    }
}

/// Topics that a job both writes and reads. A source with an end leaves out what is written after its first start.
fn loops(graph: &JobGraph, edges: &[EdgeSpec], notes: &mut Vec<String>) {
    for (s, sink) in graph.sinks.iter().enumerate() {
        let SinkConnectorSpec::Kafka(to) = &sink.connector else { continue };
        let Some(topic) = &to.topic else { continue };
        for (index, source) in graph.sources.iter().enumerate() {
            if let SourceConnectorSpec::Kafka(from) = &source.connector
                && !from.until_end
                && from.topics.has(topic)
                && from.cluster.shares_brokers(&to.cluster)
                && reaches(edges, NodeRef::Source(index), NodeRef::Sink(s))
            {
                notes.push(format!(
                    "sink '{}' writes topic {topic}, which source '{}' reads, on the same brokers: what is written is read and \
                     written again, without end",
                    sink.name, source.name
                ));
            }
        }
    }
}

/// Whether records of one node come to another.
fn reaches(edges: &[EdgeSpec], from: NodeRef, to: NodeRef) -> bool {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(node) = reached.get(next).copied() {
        for edge in edges.iter().filter(|edge| edge.from == node) {
            if !reached.contains(&edge.to) {
                reached.push(edge.to);
            }
        }
        next += 1;
    }
    reached.contains(&to)
}

/// Whether watermarks come out of an output. `depth`: operators to look through; more than there are would be a cycle.
fn has_event_time(graph: &JobGraph, from: &Endpoint, depth: usize) -> bool {
    match from {
        Endpoint::Source(source) => graph.sources[*source].watermark.is_some(),
        Endpoint::Operator(operator) | Endpoint::Side { operator, .. } => {
            let spec = &graph.operators[*operator];
            let inherits = || spec.inputs.iter().all(|input| has_event_time(graph, &input.from, depth - 1));
            spec.watermark.is_some() || depth > 0 && inherits()
        }
    }
}

fn nested_sinks(graph: &JobGraph, notes: &mut Vec<String>) {
    let folders: Vec<(&str, PathBuf)> = graph
        .sinks
        .iter()
        .flat_map(|sink| sink.folders().into_iter().map(|path| (sink.name.as_str(), paths::canonical(path))))
        .collect();
    for (outer, outer_path) in &folders {
        for (inner, inner_path) in &folders {
            if inner != outer && inner_path != outer_path && inner_path.starts_with(outer_path) {
                notes.push(format!(
                    "sink '{inner}' writes below the folder of sink '{outer}': who reads that folder and those in it reads both"
                ));
            }
        }
    }
}
