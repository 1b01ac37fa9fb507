//! The execution graph: chains of nodes that run in one thread, and the exchanges between them.
//!
//! Invariants: tasks stand in topological order, the root of each is a source or a node with network inputs; a chain is a
//! tree (every node but the root has exactly one input edge, from a node before it in the same chain); subtasks are
//! numbered densely, task by task; so are the input channels of a subtask, edge by edge.

use crate::graph::Partition;
use crate::store::manifest::StateManifest;
use weir_protocol::{ChannelIndex, SubtaskIndex};

/// What the graph must know of an operator's plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginFacts {
    /// sha256 of the component, lower-case hexadecimal.
    pub digest: String,
    /// The plugin's own name and version.
    pub version: String,
    /// Declared states, by index.
    pub states: Vec<StateManifest>,
    /// Side outputs, by index.
    pub side_outputs: Vec<String>,
    /// Number of inputs that it understands; 0 means any.
    pub inputs: u32,
    /// Whether it exports `end-of-input`.
    pub ends: bool,
    /// Whether it exports `timers`; then the last of `states` is theirs.
    pub timers: bool,
    /// Whether it has state of its own, of no key.
    pub checkpointed: bool,
    /// What it imports of WASI and gets, as `interface: what`.
    pub wasi: Vec<String>,
}

impl PluginFacts {
    /// Whether the operator's input must be partitioned by key.
    pub fn is_keyed(&self) -> bool {
        !self.states.is_empty()
    }
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionGraph {
    /// Chains, upstream before downstream.
    pub tasks: Vec<TaskSpec>,
    /// Every edge between nodes, within chains and across, by reader and port.
    pub edges: Vec<EdgeSpec>,
    /// What is legal and may surprise (records of an output that nothing reads are dropped): `weir check` and `weir run`
    /// say it.
    pub notes: Vec<String>,
}

/// An edge between two nodes, and why its records are spread as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeSpec {
    /// The writing node.
    pub from: NodeRef,
    /// Index into its outputs.
    pub output: usize,
    /// The reading node.
    pub to: NodeRef,
    /// Its input port.
    pub port: u32,
    /// How records are spread.
    pub partition: Partition,
    /// Why.
    pub why: String,
}

/// Index of a task (a chain) in the execution graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIndex(pub usize);

/// A chain of nodes: each of its subtasks is one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Names of its nodes, as `flights → parse`.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Subtask 0; the others follow.
    pub first_subtask: SubtaskIndex,
    /// Upstream before downstream; the first one is the root.
    pub nodes: Vec<NodeSpec>,
    /// Network inputs of the root, in the order of their channels; empty if the root is a source.
    pub inputs: Vec<InputEdge>,
    /// Input channels of each subtask.
    pub channels: u16,
}

/// A node of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Which one of the job graph.
    pub node: NodeRef,
    /// Its name.
    pub name: String,
    /// Number of input ports: entries of `from`, and for the dead-letter sink every operator that writes to it.
    pub ports: u32,
    /// By index: 0 main, k side output k - 1, and after them the dead letter if the policy is dead-letter. Empty for sinks.
    pub outputs: Vec<OutputSpec>,
}

/// A node of the job graph, by its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRef {
    /// A source.
    Source(usize),
    /// An operator.
    Operator(usize),
    /// A sink.
    Sink(usize),
}

/// An output and who reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSpec {
    /// Which output.
    pub output: OutputName,
    /// All readers; empty: its records are dropped, and a note says so.
    pub targets: Vec<Target>,
}

/// Names an output of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputName {
    /// What the node emits.
    Main,
    /// A declared side output.
    Side(String),
    /// Bad records, as JSON lines that the host writes.
    DeadLetter,
}

/// A reader of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A node of the same chain.
    Chained {
        /// Index into the task's nodes; greater than the writer's.
        node: usize,
        /// Its input port.
        port: u32,
    },
    /// The root of another task, through channels.
    Exchange {
        /// The reader.
        task: TaskIndex,
        /// Index into the reader's `inputs`.
        edge: usize,
    },
}

/// One exchange, as its reader sees it.
///
/// Channels: with `Forward` one, from subtask i to subtask i; else one from each upstream subtask to each own subtask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputEdge {
    /// The writer's task.
    pub task: TaskIndex,
    /// Index into the writer's nodes.
    pub node: usize,
    /// Index into the writing node's outputs.
    pub output: usize,
    /// Input port of the root.
    pub port: u32,
    /// How records are spread.
    pub partition: Partition,
    /// The edge's first channel in each reading subtask.
    pub first_channel: ChannelIndex,
    /// Its channels in each reading subtask.
    pub channels: u16,
}

impl InputEdge {
    /// The reading subtask's channel that comes from this upstream subtask.
    ///
    /// # Panics
    /// If the edge has no such upstream subtask.
    pub fn channel_from(&self, upstream: u32) -> ChannelIndex {
        let offset = match self.partition {
            Partition::Forward => 0,
            Partition::Key | Partition::Rebalance | Partition::Broadcast => upstream,
        };
        assert!(offset < u32::from(self.channels), "upstream subtask {upstream} of an edge with {} channels", self.channels);
        ChannelIndex(self.first_channel.0 + offset as u16)
    }

    /// The reading subtasks that an upstream subtask sends to, in order.
    pub fn readers(&self, upstream: u32, parallelism: u32) -> std::ops::Range<u32> {
        match self.partition {
            Partition::Forward => upstream..upstream + 1,
            Partition::Key | Partition::Rebalance | Partition::Broadcast => 0..parallelism,
        }
    }
}

impl TaskSpec {
    /// Index of one of its subtasks.
    ///
    /// # Panics
    /// If there is no such subtask.
    pub fn subtask(&self, subtask: u32) -> SubtaskIndex {
        assert!(subtask < self.parallelism, "subtask {subtask} of {}", self.parallelism);
        SubtaskIndex(self.first_subtask.0 + subtask)
    }
}

impl ExecutionGraph {
    /// Number of subtasks of all tasks.
    pub fn subtasks(&self) -> u32 {
        self.tasks.iter().map(|task| task.parallelism).sum()
    }

    /// Task and number within it of a subtask; none if there is no such subtask.
    pub fn locate(&self, subtask: SubtaskIndex) -> Option<(TaskIndex, u32)> {
        let at = self.tasks.partition_point(|task| task.first_subtask <= subtask).checked_sub(1)?;
        let within = subtask.0 - self.tasks[at].first_subtask.0;
        (within < self.tasks[at].parallelism).then_some((TaskIndex(at), within))
    }
}
