//! What `weir check` tells: every setting and why, the stages, and the guarantee of each path from a source to a sink.

use super::document::Setting;
use super::execution::{ExecutionGraph, NodeRef, PluginFacts};
use super::job_graph::*;
use crate::connectors::Guarantee;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All that is known of a job before it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// `[job].name`.
    pub job: String,
    /// Every value, set or default, in the order of the job file.
    pub settings: Vec<Setting>,
    /// What each operator's plugin declares.
    pub plugins: Vec<PluginDescription>,
    /// What each plugin may reach outside, sinks included.
    pub permissions: Vec<PermissionDescription>,
    /// One for each task.
    pub stages: Vec<StageDescription>,
    /// One for each edge.
    pub edges: Vec<EdgeDescription>,
    /// One for each source and sink that are connected.
    pub paths: Vec<PathDescription>,
    /// What may surprise.
    pub notes: Vec<String>,
}

/// What an operator's plugin declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginDescription {
    /// The operator.
    pub operator: String,
    /// sha256 of its component.
    pub sha256: String,
    /// Its states, as `name (kind, schema 1)`.
    pub states: Vec<String>,
    /// Its side outputs.
    pub side_outputs: Vec<String>,
    /// Whether it is told of the end of its input.
    pub end_of_input: bool,
    /// Whether it has timers.
    pub timers: bool,
    /// Whether it has state of its own, of no key.
    pub operator_state: bool,
    /// What it imports of WASI and gets, as `interface: what`.
    pub wasi: Vec<String>,
}

/// What a plugin may reach outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermissionDescription {
    /// As `operator parse`.
    pub place: String,
    /// Each thing that it may do, in words.
    pub may: Vec<String>,
    /// All that it may not.
    pub may_not: Vec<&'static str>,
}

/// A chain of nodes in one thread, times its parallelism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageDescription {
    /// Names of its nodes.
    pub name: String,
    /// Subtasks.
    pub parallelism: u32,
    /// Input channels of each.
    pub channels: u16,
}

/// How records go from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EdgeDescription {
    /// The writing node and output, as `parse.rejected`.
    pub from: String,
    /// The reading node.
    pub to: String,
    /// How they are spread.
    pub partition: &'static str,
    /// Why.
    pub why: String,
}

/// What a path from a source to a sink guarantees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathDescription {
    /// The source.
    pub source: String,
    /// The operators that lie on some way between the two.
    pub operators: Vec<String>,
    /// The sink.
    pub sink: String,
    /// The effective guarantee.
    pub guarantee: Guarantee,
    /// How it comes about, part by part; and why it is not stronger, where it could be.
    pub why: Vec<String>,
}

impl Description {
    /// Describes a job.
    ///
    /// # Panics
    /// If `execution` and `facts` do not belong to `graph`.
    pub fn of(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, execution: &ExecutionGraph) -> Self {
        Description {
            job: graph.name.clone(),
            settings: graph.settings.clone(),
            plugins: graph.operators.iter().map(|operator| plugin(&operator.name, &facts[&operator.name])).collect(),
            permissions: permissions(graph),
            stages: stages(execution),
            edges: edges(graph, facts, execution),
            paths: paths(graph, facts, execution),
            notes: execution.notes.clone(),
        }
    }
}

fn plugin(operator: &str, facts: &PluginFacts) -> PluginDescription {
    let states = facts.states.iter().map(|state| format!("{} ({}, schema {})", state.name, state.kind, state.schema_version));
    PluginDescription {
        operator: operator.to_owned(),
        sha256: facts.digest.clone(),
        states: states.collect(),
        side_outputs: facts.side_outputs.clone(),
        end_of_input: facts.ends,
        timers: facts.timers,
        operator_state: facts.checkpointed,
        wasi: facts.wasi.clone(),
    }
}

fn permissions(graph: &JobGraph) -> Vec<PermissionDescription> {
    let operators = graph.operators.iter().map(|operator| (format!("operator {}", operator.name), &operator.grants));
    let sinks = graph.sinks.iter().filter_map(|sink| match &sink.connector {
        SinkConnectorSpec::Plugin { grants, .. } => Some((format!("sink {}", sink.name), grants)),
        _ => None,
    });
    operators.chain(sinks).map(|(place, grants)| permission(place, grants)).collect()
}

fn permission(place: String, grants: &GrantsSpec) -> PermissionDescription {
    let folders = grants.folders.iter().map(|(name, path)| format!("read and write files in {} (as '{name}')", path.display()));
    let http = grants.http.iter().map(|(name, HttpGrantSpec { origin, headers, .. })| {
        let with = match headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>()[..] {
            [] => String::new(),
            ref names => format!("; the host adds {}, which the plugin does not see", names.join(", ")),
        };
        let name = if name == origin { String::new() } else { format!(" (as '{name}')") };
        format!("send HTTP requests to {origin}{name}{with}")
    });
    let env = grants.env.keys().map(|name| format!("see the environment variable {name}"));
    let clock = grants.clock.then(|| "see the time: a replayed record may give another result".to_owned());
    let random = grants.random.then(|| "draw random numbers: a replayed record may give another result".to_owned());
    let all = [
        ("files", grants.folders.is_empty()),
        ("network", grants.http.is_empty()),
        ("environment", grants.env.is_empty()),
        ("time", !grants.clock),
        ("random numbers", !grants.random),
        ("other programs", true),
    ];
    PermissionDescription {
        place,
        may: folders.chain(http).chain(env).chain(clock).chain(random).collect(),
        may_not: all.iter().filter(|(_, is_denied)| *is_denied).map(|(what, _)| *what).collect(),
    }
}

fn stages(execution: &ExecutionGraph) -> Vec<StageDescription> {
    let stage = |task: &super::execution::TaskSpec| StageDescription {
        name: task.name.clone(),
        parallelism: task.parallelism,
        channels: task.channels,
    };
    execution.tasks.iter().map(stage).collect()
}

fn edges(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, execution: &ExecutionGraph) -> Vec<EdgeDescription> {
    let describe = |edge: &super::execution::EdgeSpec| {
        let name = graph.node_name(edge.from);
        let from = match (edge.from, edge.output) {
            (NodeRef::Operator(_), output) if output > 0 => match facts[name].side_outputs.get(output - 1) {
                Some(side) => format!("{name}.{side}"),
                None => format!("{name} (bad records)"),
            },
            (NodeRef::Source(_) | NodeRef::Operator(_) | NodeRef::Sink(_), _) => name.to_owned(),
        };
        EdgeDescription { from, to: graph.node_name(edge.to).to_owned(), partition: edge.partition.word(), why: edge.why.clone() }
    };
    execution.edges.iter().map(describe).collect()
}

/// Nodes that a walk over the edges reaches; `next` gives the node at the far end if the edge leaves the one given.
fn reachable(start: NodeRef, execution: &ExecutionGraph, downstream: bool) -> BTreeSet<NodeRef> {
    let mut seen = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for edge in &execution.edges {
            let (near, far) = if downstream { (edge.from, edge.to) } else { (edge.to, edge.from) };
            if near == node && seen.insert(far) {
                open.push(far);
            }
        }
    }
    seen
}

fn paths(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>, execution: &ExecutionGraph) -> Vec<PathDescription> {
    let mut paths = Vec::new();
    for (source, source_spec) in graph.sources.iter().enumerate() {
        let below = reachable(NodeRef::Source(source), execution, true);
        for (sink, sink_spec) in graph.sinks.iter().enumerate() {
            if !below.contains(&NodeRef::Sink(sink)) {
                continue;
            }
            let above = reachable(NodeRef::Sink(sink), execution, false);
            let on_path = |operator: usize| {
                let node = NodeRef::Operator(operator);
                below.contains(&node) && above.contains(&node)
            };
            let operators: Vec<&OperatorSpec> =
                graph.operators.iter().enumerate().filter(|(operator, _)| on_path(*operator)).map(|(_, spec)| spec).collect();
            paths.push(path(source_spec, &operators, sink_spec, facts));
        }
    }
    paths
}

fn path(
    source: &SourceSpec,
    operators: &[&OperatorSpec],
    sink: &SinkSpec,
    facts: &BTreeMap<String, PluginFacts>,
) -> PathDescription {
    let mut why = vec![source_reason(source)];
    for operator in operators {
        operator_reasons(operator, &facts[&operator.name], &mut why);
    }
    let (guarantee, reason) = sink_guarantee(sink);
    why.push(reason);
    PathDescription {
        source: source.name.clone(),
        operators: operators.iter().map(|operator| operator.name.clone()).collect(),
        sink: sink.name.clone(),
        guarantee,
        why,
    }
}

fn source_reason(source: &SourceSpec) -> String {
    let name = &source.name;
    match &source.connector {
        SourceConnectorSpec::File { .. } => format!("'{name}' replays its files from the offset in the checkpoint"),
        SourceConnectorSpec::Kafka(kafka) => {
            let what = if kafka.read_uncommitted { ", also what open and aborted transactions wrote" } else { "" };
            format!("'{name}' reads its partitions again from the offsets in the checkpoint{what}")
        }
        SourceConnectorSpec::Sequence { .. } => {
            format!("'{name}' makes the same records again from the number in the checkpoint")
        }
    }
}

fn operator_reasons(operator: &OperatorSpec, facts: &PluginFacts, why: &mut Vec<String>) {
    let name = &operator.name;
    if facts.is_keyed() {
        why.push(format!("the state of '{name}' is in the checkpoint"));
    }
    for grant in operator.grants.folders.keys() {
        why.push(format!(
            "what '{name}' writes to its folder '{grant}' is outside the checkpoint: after a restart it may be written again"
        ));
    }
    for grant in operator.grants.http.keys() {
        why.push(format!("what '{name}' asks of '{grant}' is outside the checkpoint: after a restart it may be asked again"));
    }
    if operator.grants.clock || operator.grants.random {
        why.push(format!(
            "'{name}' sees the time or random numbers: a record that is replayed may give another result than the first time"
        ));
    }
    match operator.on_bad_record {
        BadRecordPolicy::Fail => {}
        BadRecordPolicy::Drop => why.push(format!("records that '{name}' calls bad are dropped")),
        BadRecordPolicy::DeadLetter => why.push(format!("records that '{name}' calls bad go to the dead-letter sink")),
    }
}

/// The effective guarantee at a sink. Sources replay and state is in the checkpoint, so the sink decides alone.
fn sink_guarantee(sink: &SinkSpec) -> (Guarantee, String) {
    let name = &sink.name;
    match &sink.connector {
        SinkConnectorSpec::Discard => {
            (Guarantee::None, format!("'{name}' throws its records away: there is nothing to guarantee"))
        }
        SinkConnectorSpec::Kafka(_) if sink.guarantee == Guarantee::AtLeastOnce => (
            Guarantee::AtLeastOnce,
            format!("'{name}' writes without transactions, as was asked for: after a failure some records come twice"),
        ),
        SinkConnectorSpec::Kafka(_) => (
            Guarantee::ExactlyOnce,
            format!(
                "'{name}' commits its transactions once the checkpoint is complete, for readers with isolation.level=read_committed"
            ),
        ),
        SinkConnectorSpec::File { .. } | SinkConnectorSpec::Plugin { .. } => {
            let how = match &sink.connector {
                SinkConnectorSpec::File { .. } => "commits staged files by a rename",
                SinkConnectorSpec::Plugin { .. } | SinkConnectorSpec::Kafka(_) | SinkConnectorSpec::Discard => {
                    "commits prepared transactions, if the plugin keeps its contract,"
                }
            };
            let asked = match sink.guarantee {
                Guarantee::AtLeastOnce => "; at-least-once was asked for, and this sink gives more at no cost",
                Guarantee::None | Guarantee::ExactlyOnce => "",
            };
            (Guarantee::ExactlyOnce, format!("'{name}' {how} once the checkpoint is complete{asked}"))
        }
    }
}
