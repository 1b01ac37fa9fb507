//! From a [`JobGraph`] and what its plugins declare to the [`ExecutionGraph`].
//!
//! 1. Every input becomes an edge with its partition; what does not fit is a problem.
//! 2. Nodes are visited upstream first. A node joins the chain of the node that it reads if that is its only edge and a
//!    forward one; else it is the root of a task of its own. So a task's index is above those of the tasks that it reads.
//! 3. Each task's network edges get their channels, in order.

use super::cycles;
use super::document::suggestion;
use super::execution::*;
use super::job_graph::*;
use super::notes;
use super::problem::Problem;
use std::collections::BTreeMap;
use weir_protocol::{ChannelIndex, SubtaskIndex};

/// Subtasks of a job at most: each is a thread.
const MAX_SUBTASKS: u32 = 16_384;

impl ExecutionGraph {
    /// Derives it. `facts`: of every operator, by name.
    ///
    /// # Panics
    /// If an operator's facts are missing: whoever loads plugins gives them for all, or problems.
    pub fn derive(graph: &JobGraph, facts: &BTreeMap<String, PluginFacts>) -> Result<Self, Vec<Problem>> {
        let mut deriving = Deriving { graph, facts, problems: Vec::new() };
        let edges = deriving.edges();
        if !deriving.problems.is_empty() {
            return Err(deriving.problems);
        }
        let tasks = deriving.tasks(&edges);
        if !deriving.problems.is_empty() {
            return Err(deriving.problems);
        }
        let notes = notes::collect(graph, facts, &edges);
        Ok(ExecutionGraph { tasks, edges, notes })
    }
}

struct Deriving<'g> {
    graph: &'g JobGraph,
    facts: &'g BTreeMap<String, PluginFacts>,
    problems: Vec<Problem>,
}

impl Deriving<'_> {
    fn problem(&mut self, node: NodeRef, what: impl Into<String>, next: impl Into<String>) {
        let place = format!("{}: {} {}", self.graph.file.display(), section_of(node), self.graph.node_name(node));
        self.problems.push(Problem::new(place, what, next));
    }

    fn facts(&self, operator: usize) -> &PluginFacts {
        let name = &self.graph.operators[operator].name;
        self.facts.get(name).unwrap_or_else(|| panic!("the facts of operator '{name}' are given"))
    }

    /// All edges, ordered by reader and port.
    fn edges(&mut self) -> Vec<EdgeSpec> {
        let mut edges = Vec::new();
        for index in 0..self.graph.operators.len() {
            let node = NodeRef::Operator(index);
            let facts = self.facts(index);
            let (wanted, keyed) = (facts.inputs, facts.is_keyed());
            let inputs = &self.graph.operators[index].inputs;
            if wanted != 0 && wanted as usize != inputs.len() {
                let what = format!("the plugin has {wanted} input(s), 'from' gives it {}", inputs.len());
                self.problem(node, what, "list exactly its inputs in 'from', in the order of its ports");
            }
            self.input_edges(node, inputs, keyed, &mut edges);
        }
        for index in 0..self.graph.sinks.len() {
            let node = NodeRef::Sink(index);
            self.input_edges(node, &self.graph.sinks[index].inputs, false, &mut edges);
            if self.graph.dead_letter == Some(index) {
                self.dead_letter_edges(node, &mut edges);
            }
        }
        edges
    }

    fn input_edges(&mut self, to: NodeRef, inputs: &[Input], keyed: bool, edges: &mut Vec<EdgeSpec>) {
        for (port, input) in inputs.iter().enumerate() {
            let Some((from, output)) = self.writer(to, &input.from) else { continue };
            let (partition, why) = self.partition(from, to, input.partition, keyed);
            edges.push(EdgeSpec { from, output, to, port: port as u32, partition, why });
        }
    }

    /// The writing node and the index of its output.
    fn writer(&mut self, to: NodeRef, endpoint: &Endpoint) -> Option<(NodeRef, usize)> {
        match endpoint {
            Endpoint::Source(source) => Some((NodeRef::Source(*source), 0)),
            Endpoint::Operator(operator) => Some((NodeRef::Operator(*operator), 0)),
            Endpoint::Side { operator, output } => {
                let declared = &self.facts(*operator).side_outputs;
                if let Some(side) = declared.iter().position(|name| name == output) {
                    return Some((NodeRef::Operator(*operator), side + 1));
                }
                let name = &self.graph.operators[*operator].name;
                let known: Vec<&str> = declared.iter().map(String::as_str).collect();
                let next =
                    if known.is_empty() { "the plugin declares no side output".to_owned() } else { suggestion(output, &known) };
                self.problem(to, format!("'from' reads {name}.{output}, which the plugin of '{name}' does not declare"), next);
                None
            }
        }
    }

    /// How an edge's records are spread, and why.
    fn partition(&mut self, from: NodeRef, to: NodeRef, set: Option<Partition>, keyed: bool) -> (Partition, String) {
        let (writers, readers) = (self.graph.parallelism_of(from), self.graph.parallelism_of(to));
        match (set, keyed) {
            (Some(Partition::Key), _) => (Partition::Key, "set in the job file".to_owned()),
            (None, true) => (Partition::Key, "the plugin declares keyed state".to_owned()),
            (Some(other), true) => {
                let what = format!("partition = \"{}\" into a plugin with keyed state", other.word());
                let next = "use partition = \"key\", or leave it out: each key's state lives in one subtask, which must see all records of the key";
                self.problem(to, what, next);
                (other, String::new())
            }
            (Some(Partition::Forward), false) if writers != readers => {
                let what = format!(
                    "partition = \"forward\" from '{}' with {writers} subtask(s) to {readers}",
                    self.graph.node_name(from)
                );
                self.problem(to, what, "give both the same parallelism, or use rebalance");
                (Partition::Forward, String::new())
            }
            (Some(set), false) => (set, "set in the job file".to_owned()),
            (None, false) => default_partition(writers, readers),
        }
    }

    /// Bad records flow like a side output, into the ports after the sink's own.
    fn dead_letter_edges(&mut self, to: NodeRef, edges: &mut Vec<EdgeSpec>) {
        let mut port = self.graph.inputs_of(to).len() as u32;
        for (index, operator) in self.graph.operators.iter().enumerate() {
            if operator.on_bad_record == BadRecordPolicy::DeadLetter {
                let from = NodeRef::Operator(index);
                let output = 1 + self.facts(index).side_outputs.len();
                let (partition, why) = default_partition(operator.parallelism, self.graph.parallelism_of(to));
                edges.push(EdgeSpec { from, output, to, port, partition, why });
                port += 1;
            }
        }
    }

    fn tasks(&mut self, edges: &[EdgeSpec]) -> Vec<TaskSpec> {
        let order = match cycles::operators_in_order(self.graph) {
            Ok(order) => order,
            Err(cycle) => {
                let names: Vec<&str> = cycle.iter().map(|&index| self.graph.operators[index].name.as_str()).collect();
                self.problem(
                    NodeRef::Operator(cycle[0]),
                    format!("the operators form a cycle: {}", names.join(" → ")),
                    "cut one of these edges",
                );
                return Vec::new();
            }
        };
        let mut layout = Layout { graph: self.graph, tasks: Vec::new(), places: BTreeMap::new(), subtasks: 0 };
        for index in 0..self.graph.sources.len() {
            layout.place(NodeRef::Source(index), vec![OutputName::Main], edges);
        }
        for index in order {
            let outputs = self.outputs(index);
            layout.place(NodeRef::Operator(index), outputs, edges);
        }
        for index in 0..self.graph.sinks.len() {
            layout.place(NodeRef::Sink(index), Vec::new(), edges);
        }
        self.check_bounds(&layout);
        layout.tasks
    }

    fn outputs(&self, operator: usize) -> Vec<OutputName> {
        let mut outputs = vec![OutputName::Main];
        outputs.extend(self.facts(operator).side_outputs.iter().cloned().map(OutputName::Side));
        if self.graph.operators[operator].on_bad_record == BadRecordPolicy::DeadLetter {
            outputs.push(OutputName::DeadLetter);
        }
        outputs
    }

    fn check_bounds(&mut self, layout: &Layout<'_>) {
        if layout.subtasks > MAX_SUBTASKS {
            let place = self.graph.file.display().to_string();
            let what = format!("the job has {} subtasks, more than {MAX_SUBTASKS}", layout.subtasks);
            self.problems.push(Problem::new(place, what, "lower a parallelism: each subtask is a thread"));
        }
        for task in &layout.tasks {
            let channels: u32 = task.inputs.iter().map(|edge| u32::from(edge.channels)).sum();
            if channels > u32::from(u16::MAX) {
                let what = format!("it has {channels} input channels a subtask, more than {}", u16::MAX);
                self.problem(task.nodes[0].node, what, "lower the parallelism of what it reads, or read fewer");
            }
        }
    }
}

fn default_partition(writers: u32, readers: u32) -> (Partition, String) {
    if writers == readers {
        (Partition::Forward, format!("same parallelism, {writers}, and no keyed state"))
    } else {
        (Partition::Rebalance, format!("parallelism {writers} and {readers} differ, and no keyed state"))
    }
}

fn section_of(node: NodeRef) -> &'static str {
    match node {
        NodeRef::Source(_) => "[[source]]",
        NodeRef::Operator(_) => "[[operator]]",
        NodeRef::Sink(_) => "[[sink]]",
    }
}

/// Tasks as they grow, and where each node went.
struct Layout<'g> {
    graph: &'g JobGraph,
    tasks: Vec<TaskSpec>,
    places: BTreeMap<NodeRef, (TaskIndex, usize)>,
    subtasks: u32,
}

impl Layout<'_> {
    /// Places a node whose writers are placed.
    fn place(&mut self, node: NodeRef, outputs: Vec<OutputName>, edges: &[EdgeSpec]) {
        let own: Vec<&EdgeSpec> = edges.iter().filter(|edge| edge.to == node).collect();
        let name = self.graph.node_name(node).to_owned();
        let outputs = outputs.into_iter().map(|output| OutputSpec { output, targets: Vec::new() }).collect();
        let spec = NodeSpec { node, name, ports: own.len() as u32, outputs };
        match own[..] {
            [edge] if edge.partition == Partition::Forward => self.chain(spec, edge),
            _ => self.root(spec, &own),
        }
    }

    fn chain(&mut self, spec: NodeSpec, edge: &EdgeSpec) {
        let (task, writer) = self.places[&edge.from];
        let nodes = &mut self.tasks[task.0].nodes;
        let node = nodes.len();
        nodes[writer].outputs[edge.output].targets.push(Target::Chained { node, port: edge.port });
        self.places.insert(spec.node, (task, node));
        let name = &mut self.tasks[task.0].name;
        name.push_str(" → ");
        name.push_str(&spec.name);
        self.tasks[task.0].nodes.push(spec);
    }

    fn root(&mut self, spec: NodeSpec, edges: &[&EdgeSpec]) {
        let task = TaskIndex(self.tasks.len());
        let mut inputs: Vec<InputEdge> = Vec::with_capacity(edges.len());
        let mut next_channel = 0u32;
        for edge in edges {
            let (writer, node) = self.places[&edge.from];
            let channels = match edge.partition {
                Partition::Forward => 1,
                Partition::Key | Partition::Rebalance | Partition::Broadcast => self.tasks[writer.0].parallelism,
            };
            self.tasks[writer.0].nodes[node].outputs[edge.output].targets.push(Target::Exchange { task, edge: inputs.len() });
            inputs.push(InputEdge {
                task: writer,
                node,
                output: edge.output,
                port: edge.port,
                partition: edge.partition,
                // Too many channels are a problem found once all is laid out; until then the index may be cut.
                first_channel: ChannelIndex(next_channel as u16),
                channels: channels as u16,
            });
            next_channel += channels;
        }
        let parallelism = self.graph.parallelism_of(spec.node);
        self.places.insert(spec.node, (task, 0));
        self.tasks.push(TaskSpec {
            name: spec.name.clone(),
            parallelism,
            first_subtask: SubtaskIndex(self.subtasks),
            nodes: vec![spec],
            inputs,
            channels: next_channel as u16,
        });
        self.subtasks += parallelism;
    }
}
