//! Turns the execution graph into running subtasks: gates, edges, instances, state, threads.

use super::compat;
use super::ended_inputs::Ended;
use super::provider::{InstanceTask, OperatorProvider};
use super::recovery::restored_watermark;
use crate::channel::{ChannelWriter, GateControl, InputGate, OutputGate, input_gate};
use crate::connectors::{ConnectorError, Remedy, SinkConnector, SinkTask, SourceConnector, SourceTask, SplitState};
use crate::graph::execution::{NodeRef, NodeSpec, OutputName, Target as SpecTarget, TaskSpec};
use crate::graph::{BadRecordPolicy, ExecutionGraph, JobGraph, PluginFacts};
use crate::state::{CheckpointedBackend, RestoredState, open_backend};
use crate::store::manifest::{SourceWatermarks, StateManifest};
use crate::task::event_time::Watermarks;
use crate::task::messages::{Culprit, TaskControl, TaskFailure};
use crate::task::metrics::StageMetrics;
use crate::task::node::{DeadLetterRoute, Node, NodeKind, OperatorNode, SourceNode, Target};
use crate::task::operator::OperatorFailure;
use crate::task::run::{SourceNames, Task, TaskParts};
use crate::task::sink::SinkNode;
use crate::task::snapshot::EventSender;
use crate::task::timers::{TIMERS_NAME, TimerFault, Timers};
use crate::task::times::TaskTimes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use weir_plugin::StatePart;
use weir_protocol::swap::OperatorBuild;
use weir_protocol::watermark::{EventTime, NO_WATERMARK, RestoredSplit};
use weir_protocol::{CheckpointId, Generation, Lineage, SubtaskIndex};

/// Takes in a plugin build by (sha256, bytes).
pub type BuildLoader = Arc<dyn Fn(&str, bytes::Bytes) -> Result<(), String> + Send + Sync>;

/// What every attempt of a job shares.
pub struct JobParts {
    /// What the user wrote.
    pub graph: JobGraph,
    /// What runs.
    pub execution: ExecutionGraph,
    /// sha256 of the plugin that the job file names for each operator; another build may run.
    pub plugins: Vec<String>,
    /// What those plugins say of themselves, by name of the operator.
    pub facts: BTreeMap<String, PluginFacts>,
    /// By index of the source.
    pub sources: Vec<Box<dyn SourceConnector>>,
    /// By index of the sink.
    pub sinks: Vec<Arc<dyn SinkConnector>>,
    /// sha256 of each plugin sink; none for built-in ones.
    pub sink_plugins: Vec<Option<String>>,
    /// Declared states of each operator; empty for stateless ones.
    pub states: Vec<Vec<StateManifest>>,
    /// Whether each operator has state of its own, of no key.
    pub checkpointed: Vec<bool>,
    /// Every plugin build in use: (sha256, bytes).
    pub plugin_bytes: Vec<(String, bytes::Bytes)>,
    /// Makes operator instances.
    pub provider: Arc<dyn OperatorProvider>,
    /// Takes in a plugin build that the job file no longer names.
    pub load_build: BuildLoader,
    /// By subtask: where its time goes, attempt after attempt.
    pub times: Vec<Arc<TaskTimes>>,
}

/// Where an attempt starts.
#[derive(Debug, Default)]
pub struct Restored {
    /// The checkpoint; none: the beginning.
    pub checkpoint: Option<CheckpointId>,
    /// Splits of each source, in the order of its enumeration.
    pub splits: Vec<Vec<SplitState>>,
    /// Watermarks of each source at the checkpoint.
    pub watermarks: Vec<SourceWatermarks>,
    /// By (operator, subtask).
    pub operators: BTreeMap<(usize, u32), RestoredOperator>,
}

/// What one operator's subtask starts from.
#[derive(Debug, Default)]
pub struct RestoredOperator {
    /// Its state files, fetched.
    pub state: Option<RestoredState>,
    /// Which of its inputs have ended.
    pub ended: Ended,
    /// Its watermark.
    pub watermark: Option<i64>,
    /// The one that it had given out, if that is another.
    pub output_watermark: Option<i64>,
    /// Its part of the operator's own state; none: the checkpoint has no such state.
    pub parts: Option<Vec<StatePart>>,
}

/// Identity of an attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its history.
    pub lineage: Lineage,
    /// Its number.
    pub generation: Generation,
    /// Folder of its working state.
    pub state_folder: PathBuf,
}

/// Why an attempt could not be built.
#[derive(Debug)]
pub struct DeployFailure {
    /// What, where, and whether it is worth another try.
    pub failure: TaskFailure,
    /// The build that could not be opened, if that is why.
    pub culprit: Option<Culprit>,
}

impl From<TaskFailure> for DeployFailure {
    fn from(failure: TaskFailure) -> Self {
        DeployFailure { failure, culprit: None }
    }
}

/// A running attempt.
pub struct Deployment {
    /// By subtask index.
    pub controls: Vec<GateControl<TaskControl>>,
    /// Subtasks of sources.
    pub sources: Vec<SubtaskIndex>,
    /// For each task, counters of its nodes.
    pub metrics: Vec<Vec<Arc<StageMetrics>>>,
    threads: Vec<(Arc<str>, JoinHandle<()>)>,
}

impl Deployment {
    /// Ends every subtask and waits for its thread: nothing of this attempt runs when it returns.
    /// Gives the names of those that panicked.
    pub fn cancel_and_join(self) -> Vec<String> {
        for control in &self.controls {
            control.cancel();
        }
        self.join()
    }

    /// Waits for subtasks that end by themselves. Gives the names of those that panicked.
    pub fn join(self) -> Vec<String> {
        let mut panicked = Vec::new();
        for (place, thread) in self.threads {
            if thread.join().is_err() {
                panicked.push(place.to_string());
            }
        }
        panicked
    }

    /// The first subtask whose thread has died without a word, if any.
    pub fn dead_thread(&self) -> Option<&str> {
        // A cleanly ended thread has sent an event before; the caller asks only about subtasks it still expects.
        self.threads.iter().find(|(_, thread)| thread.is_finished()).map(|(place, _)| &**place)
    }
}

struct Gates {
    gate: Option<InputGate<TaskControl>>,
    writers: Vec<Option<ChannelWriter<TaskControl>>>,
}

/// Builds and starts every subtask. `builds`: what runs, by operator.
pub fn deploy(
    parts: &JobParts,
    builds: &[OperatorBuild],
    attempt: &Attempt,
    mut restored: Restored,
    events: &EventSender,
) -> Result<Deployment, DeployFailure> {
    let (mut gates, mut controls) = (Vec::new(), Vec::new());
    for task in &parts.execution.tasks {
        for _ in 0..task.parallelism {
            let (gate, writers, control) = input_gate(task.channels as usize);
            gates.push(Gates { gate: Some(gate), writers: writers.into_iter().map(Some).collect() });
            controls.push(control);
        }
    }
    let metrics: Vec<Vec<Arc<StageMetrics>>> =
        parts.execution.tasks.iter().map(|task| task.nodes.iter().map(|_| Arc::default()).collect()).collect();
    let names: SourceNames = Arc::new(
        parts
            .graph
            .sources
            .iter()
            .zip(&restored.splits)
            .map(|(source, splits)| (source.name.clone(), splits.iter().map(|split| split.split.clone()).collect()))
            .collect(),
    );
    let backends = parts.states.iter().zip(&parts.graph.operators).filter(|(states, _)| !states.is_empty());
    let backend_count: u64 = backends.map(|(_, operator)| u64::from(operator.parallelism)).sum();
    let budget = parts.graph.state.cache_bytes / backend_count.max(1);

    // Everything is built before anything runs: a plugin that fails to open leaves no half-started attempt.
    let mut tasks = Vec::new();
    for (t, spec) in parts.execution.tasks.iter().enumerate() {
        for subtask in 0..spec.parallelism {
            let mut builder = Builder { parts, builds, attempt, spec, subtask, gates: &mut gates, outputs: Vec::new(), budget };
            let nodes = builder.nodes(&mut restored, &metrics[t])?;
            let outputs = builder.outputs;
            let index = spec.subtask(subtask);
            let place: Arc<str> = format!("{}[{subtask}]", spec.name).into();
            let gate = gates[index.0 as usize].gate.take().expect("each subtask is built once");
            let channel_ports =
                spec.inputs.iter().flat_map(|edge| std::iter::repeat_n(edge.port, edge.channels as usize)).collect();
            let task = Task::new(TaskParts {
                subtask: index,
                place: Arc::clone(&place),
                job: parts.graph.name.as_str().into(),
                gate,
                channel_ports,
                nodes,
                outputs,
                events: events.clone(),
                index: subtask,
                source_names: Arc::clone(&names),
                generation: attempt.generation,
                times: Arc::clone(&parts.times[index.0 as usize]),
            });
            tasks.push((place, task));
        }
    }
    let mut deployment = Deployment { controls, sources: source_subtasks(&parts.execution), metrics, threads: Vec::new() };
    for (place, task) in tasks {
        match std::thread::Builder::new().name(place.to_string()).spawn(move || task.run()) {
            Ok(thread) => deployment.threads.push((place, thread)),
            Err(error) => {
                deployment.cancel_and_join();
                let message =
                    format!("the thread could not be started: {error}; lower the parallelism or raise the process limit");
                return Err(TaskFailure { place: place.to_string(), message, remedy: Remedy::Restart }.into());
            }
        }
    }
    Ok(deployment)
}

/// Subtasks whose chain begins with a source.
pub fn source_subtasks(execution: &ExecutionGraph) -> Vec<SubtaskIndex> {
    let sources = execution.tasks.iter().filter(|task| matches!(task.nodes[0].node, NodeRef::Source(_)));
    sources.flat_map(|task| (0..task.parallelism).map(|subtask| task.subtask(subtask))).collect()
}

/// Builds the nodes and edges of one subtask.
struct Builder<'a> {
    parts: &'a JobParts,
    builds: &'a [OperatorBuild],
    attempt: &'a Attempt,
    spec: &'a TaskSpec,
    subtask: u32,
    gates: &'a mut [Gates],
    outputs: Vec<OutputGate<TaskControl>>,
    /// Cache bytes of one backend.
    budget: u64,
}

impl Builder<'_> {
    fn nodes(&mut self, restored: &mut Restored, metrics: &[Arc<StageMetrics>]) -> Result<Vec<Node>, DeployFailure> {
        let spec = self.spec;
        let mut nodes = Vec::with_capacity(spec.nodes.len());
        for (node, metrics) in spec.nodes.iter().zip(metrics) {
            let outputs = node.outputs.iter().map(|output| self.targets(&output.targets)).collect();
            let (event_time, watermarks) = self.event_time(node.node, restored);
            nodes.push(Node {
                name: node.name.as_str().into(),
                kind: self.kind(node, restored)?,
                outputs,
                open_ports: (0..node.ports).collect(),
                event_time,
                watermarks,
                metrics: Arc::clone(metrics),
            });
        }
        Ok(nodes)
    }

    fn targets(&mut self, targets: &[SpecTarget]) -> Vec<Target> {
        targets
            .iter()
            .map(|target| match *target {
                SpecTarget::Chained { node, port } => Target::Chained { node, port },
                SpecTarget::Exchange { task, edge } => {
                    let reader = &self.parts.execution.tasks[task.0];
                    let edge = &reader.inputs[edge];
                    let channel = edge.channel_from(self.subtask).0 as usize;
                    let writers = edge
                        .readers(self.subtask, reader.parallelism)
                        .map(|r| {
                            let writer = self.gates[reader.subtask(r).0 as usize].writers[channel].take();
                            writer.expect("K1: a channel has one writer")
                        })
                        .collect();
                    self.outputs.push(OutputGate::new(writers, edge.partition, self.subtask as usize));
                    Target::Gate(self.outputs.len() - 1)
                }
            })
            .collect()
    }

    /// A node's event time as the checkpoint has it, and where it makes watermarks of its own.
    fn event_time(&self, node: NodeRef, restored: &Restored) -> (EventTime, Option<Watermarks>) {
        match node {
            NodeRef::Source(source) => (EventTime::START, self.source_watermarks(source, restored)),
            NodeRef::Operator(operator) => {
                let stored = restored.operators.get(&(operator, self.subtask));
                let watermark = stored.and_then(|stored| stored.watermark).unwrap_or(NO_WATERMARK);
                let output = stored.and_then(|stored| stored.output_watermark).unwrap_or(NO_WATERMARK);
                let bound = self.parts.graph.operators[operator].watermark;
                let made = bound.map(|bound| Watermarks::of_output(bound, output));
                (EventTime { watermark, is_idle: false }, made)
            }
            // What it shows comes with what it reads; nothing is decided by it.
            NodeRef::Sink(_) => (EventTime::START, None),
        }
    }

    fn source_watermarks(&self, source: usize, restored: &Restored) -> Option<Watermarks> {
        let bound = self.parts.graph.sources[source].watermark?;
        let stored = restored.watermarks.get(source).cloned().unwrap_or_default();
        let split = |(index, split): (u32, SplitState)| {
            let watermark = stored.splits.get(&split.split).copied().unwrap_or(NO_WATERMARK);
            (index, RestoredSplit { watermark, ended: split.ended })
        };
        let splits: Vec<(u32, RestoredSplit)> = self.own_splits(&restored.splits[source]).map(split).collect();
        let own = restored_watermark(stored.readers.iter().copied(), self.spec.parallelism, self.subtask);
        Some(Watermarks::new(bound, &splits, own.unwrap_or(NO_WATERMARK)))
    }

    /// Split i belongs to reader i modulo parallelism: stable, and it may change between runs.
    fn own_splits(&self, splits: &[SplitState]) -> impl Iterator<Item = (u32, SplitState)> {
        let (subtask, readers) = (self.subtask, self.spec.parallelism);
        let own = splits.iter().enumerate().map(|(i, split)| (i as u32, split.clone()));
        own.filter(move |(i, _)| i % readers == subtask)
    }

    fn kind(&self, node: &NodeSpec, restored: &mut Restored) -> Result<NodeKind, DeployFailure> {
        match node.node {
            NodeRef::Source(source) => Ok(self.source(source, &restored.splits[source])?),
            NodeRef::Sink(sink) => Ok(self.sink(sink)?),
            NodeRef::Operator(operator) => {
                let restored = restored.operators.remove(&(operator, self.subtask)).unwrap_or_default();
                self.operator(operator, node, restored)
            }
        }
    }

    fn source(&self, source: usize, splits: &[SplitState]) -> Result<NodeKind, TaskFailure> {
        let own = self.own_splits(splits).collect();
        let task = SourceTask { subtask: self.subtask, parallelism: self.spec.parallelism };
        let reader = self.parts.sources[source].open(source as u16, own, task).map_err(|error| self.connector_failed(error))?;
        Ok(NodeKind::Source(SourceNode { source, reader, ended: false, pending: Vec::new() }))
    }

    fn sink(&self, sink: usize) -> Result<NodeKind, TaskFailure> {
        let task = SinkTask {
            job: self.parts.graph.name.clone(),
            lineage: self.attempt.lineage,
            generation: self.attempt.generation,
            subtask: self.subtask,
            parallelism: self.spec.parallelism,
        };
        let writer = self.parts.sinks[sink].writer(&task).map_err(|error| self.connector_failed(error))?;
        let name = self.parts.graph.sinks[sink].name.clone();
        Ok(NodeKind::Sink(SinkNode::new(sink, name, task, self.parts.sink_plugins[sink].clone(), writer)))
    }

    fn operator(&self, operator: usize, node: &NodeSpec, restored: RestoredOperator) -> Result<NodeKind, DeployFailure> {
        let (spec, own) = (&self.parts.graph.operators[operator], &self.builds[operator]);
        let task = InstanceTask {
            job: self.parts.graph.name.clone(),
            subtask: self.subtask,
            parallelism: self.spec.parallelism,
            attempt: self.attempt.generation.0,
            on_probation: own.probation.is_some(),
        };
        let failed = |failure: OperatorFailure| DeployFailure {
            failure: TaskFailure { place: self.place(), message: failure.message, remedy: failure.remedy },
            culprit: Some(Culprit { operator, build: own.runs.clone() }),
        };
        let mut instance = self.parts.provider.instantiate(spec, &own.runs, task).map_err(failed)?;
        if let Some(parts) = &restored.parts {
            instance.restore(parts).map_err(failed)?;
        }
        let mut backend = match self.parts.states[operator].is_empty() {
            true => None,
            false => Some(self.backend(operator, restored.state)?),
        };
        let has_timers = self.parts.states[operator].iter().any(|state| state.name == TIMERS_NAME);
        let timers = match (&mut backend, has_timers) {
            (Some(backend), true) => Some(Timers::restored(&mut **backend).map_err(|fault| self.timers_failed(fault))?),
            (Some(_) | None, _) => None,
        };
        let dead_letter = match spec.on_bad_record {
            BadRecordPolicy::DeadLetter => {
                let output = node.outputs.iter().position(|output| output.output == OutputName::DeadLetter);
                let output = output.expect("an operator with this policy has a dead-letter output");
                Some(DeadLetterRoute { output })
            }
            BadRecordPolicy::Fail | BadRecordPolicy::Drop => None,
        };
        Ok(NodeKind::Operator(OperatorNode {
            operator,
            instance,
            build: own.runs.as_str().into(),
            next: None,
            backend,
            timers,
            ended_ports: restored.ended.ports,
            end_of_data_sent: restored.ended.all,
            dead_letter,
        }))
    }

    fn backend(&self, operator: usize, state: Option<RestoredState>) -> Result<Box<dyn CheckpointedBackend>, TaskFailure> {
        let name = &self.parts.graph.operators[operator].name;
        let prefix = format!("{}-{name}-{}", self.attempt.generation, self.subtask);
        let kind = compat::backend_of(self.parts.graph.state.backend);
        let folder = self.attempt.state_folder.join(format!("{name}-{}", self.subtask));
        let budget = usize::try_from(self.budget).unwrap_or(usize::MAX);
        open_backend(kind, folder, prefix, budget, state).map_err(|error| TaskFailure {
            place: self.place(),
            message: error.to_string(),
            remedy: Remedy::Restart,
        })
    }

    fn timers_failed(&self, fault: TimerFault) -> TaskFailure {
        let message = match fault {
            TimerFault::Plugin(why) => why,
            TimerFault::State(error) => error.to_string(),
        };
        TaskFailure { place: self.place(), message, remedy: Remedy::Restart }
    }

    fn place(&self) -> String {
        format!("{}[{}]", self.spec.name, self.subtask)
    }

    fn connector_failed(&self, error: ConnectorError) -> TaskFailure {
        TaskFailure { place: self.place(), message: error.message, remedy: error.remedy }
    }
}
