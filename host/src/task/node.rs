//! A node of a chain: what it runs, where its outputs go, and which of its inputs have ended.

use super::event_time::Watermarks;
use super::messages::NextBuild;
use super::metrics::StageMetrics;
use super::operator::StreamOperator;
use super::sink::SinkNode;
use super::timers::Timers;
use crate::connectors::{Source, SplitState};
use crate::state::{CheckpointedBackend, LookUps};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_protocol::CheckpointId;
use weir_protocol::watermark::EventTime;

/// What a node runs.
pub enum NodeKind {
    /// The head of a source chain.
    Source(SourceNode),
    /// An operator.
    Operator(OperatorNode),
    /// A sink's writer.
    Sink(SinkNode),
}

/// A source reader.
pub struct SourceNode {
    /// Index of the source in the job graph.
    pub source: usize,
    /// The reader; none once all its splits have ended.
    pub reader: Box<dyn Source>,
    /// True once EndOfData was sent.
    pub ended: bool,
    /// Positions at checkpoints that are not complete, for a reader that tells others of them.
    pub pending: Vec<(CheckpointId, Vec<(u32, u64)>)>,
}

impl SourceNode {
    /// A checkpoint has these positions.
    pub fn passed(&mut self, checkpoint: CheckpointId, splits: &[(u32, SplitState)]) {
        if self.reader.tells_positions() {
            self.pending.push((checkpoint, splits.iter().map(|(index, split)| (*index, split.position)).collect()));
        }
    }

    /// A checkpoint is complete; earlier ones will not be any more.
    pub fn completed(&mut self, checkpoint: CheckpointId) {
        if let Some((_, positions)) = self.pending.iter().find(|(pending, _)| *pending == checkpoint) {
            self.reader.completed(positions);
        }
        self.pending.retain(|(pending, _)| *pending > checkpoint);
    }
}

/// An operator with its state.
pub struct OperatorNode {
    /// Index of the operator in the job graph.
    pub operator: usize,
    /// Its instance.
    pub instance: Box<dyn StreamOperator>,
    /// sha256 of its plugin.
    pub build: Arc<str>,
    /// What to run instead behind a barrier that comes.
    pub next: Option<NextBuild>,
    /// Its keyed state, if it declares any.
    pub backend: Option<Box<dyn CheckpointedBackend>>,
    /// Its timers, if it has any.
    pub timers: Option<Timers>,
    /// Ports whose end was processed, in this attempt or before the restored checkpoint.
    pub ended_ports: BTreeSet<u32>,
    /// True if the end calls are done and EndOfData was sent on.
    pub end_of_data_sent: bool,
    /// What the dead letter needs to know, if bad records go there.
    pub dead_letter: Option<DeadLetterRoute>,
}

impl OperatorNode {
    /// What its backend has looked up so far.
    pub fn look_ups(&self) -> LookUps {
        self.backend.as_ref().map_or_else(LookUps::default, |backend| backend.look_ups())
    }
}

/// How an operator's bad records reach the dead-letter sink.
pub struct DeadLetterRoute {
    /// Index of the output among the node's outputs.
    pub output: usize,
}

/// Where one output of a node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a node of the same chain.
    Chained {
        /// Index in the chain.
        node: usize,
        /// Its input port.
        port: u32,
    },
    /// Through an output gate of the task.
    Gate(usize),
}

/// A node in its chain.
pub struct Node {
    /// The stage's name, for messages.
    pub name: Arc<str>,
    /// What it runs.
    pub kind: NodeKind,
    /// Targets of each output. 0 is the main output, 1 + k side output k; a dead letter comes last.
    pub outputs: Vec<Vec<Target>>,
    /// Ports that have not ended in this attempt.
    pub open_ports: BTreeSet<u32>,
    /// What its input says of its event time.
    pub event_time: EventTime,
    /// Where it makes watermarks of its own output; otherwise it passes on what its input says.
    pub watermarks: Option<Watermarks>,
    /// Counters of its stage.
    pub metrics: Arc<StageMetrics>,
}
