//! The loop of a subtask: takes what its gate gives, drives the chain, answers barriers.
//!
//! One thread owns everything here; nothing on the record path is shared or locked but the channels themselves.

mod event_time;
mod exchange;
mod timers;

use super::event_time::{UnblockedClock, Watermarks};
use super::messages::{Culprit, OperatorSnapshot, SourceSnapshot, TaskControl, TaskEvent, TaskFailure};
use super::metrics::StageMetrics;
use super::node::{Node, NodeKind, OperatorNode, Target};
use super::operator::{OperatorFailure, Processed};
use super::snapshot::{EventSender, SnapshotParts};
use super::times::{Stage, StageClock, TaskTimes};
use crate::channel::{Batch, Cancelled, InputGate, OutputGate, Provenance, Received, StreamElement};
use crate::connectors::dead_letter::{DeadLetter, Place, dead_letter_line};
use crate::connectors::{Budget, ConnectorError, Remedy, SourcePoll};
use crate::{clock, crash};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_plugin::TimerChange;
use weir_plugin::batch::RecordBatch;
use weir_plugin::state::{KeyedStateBackend, StateError};
use weir_protocol::align::{AlignEffect, AlignEvent, BarrierAligner};
use weir_protocol::watermark::{EventTime, FINAL_WATERMARK, MergeEvent, NO_WATERMARK, WatermarkMerge};
use weir_protocol::{ChannelIndex, CheckpointId, Generation, SubtaskIndex};

/// How much one poll of a source gives.
pub const SOURCE_BUDGET: Budget = Budget { records: 1024, bytes: 256 << 10 };

/// How long an idle subtask sleeps when nothing wakes it.
const IDLE: Duration = Duration::from_millis(100);

/// Keys of one page of the end-of-input calls.
const END_KEYS_PAGE: usize = 1024;

/// Why a subtask stops before its end.
#[derive(Debug)]
pub enum TaskStop {
    /// The generation ended.
    Cancelled,
    /// It failed.
    Failed(TaskFailure),
}

impl From<Cancelled> for TaskStop {
    fn from(_: Cancelled) -> Self {
        TaskStop::Cancelled
    }
}

/// Names for provenance in dead letters: for each source, its name and its splits.
pub type SourceNames = Arc<Vec<(String, Vec<String>)>>;

/// What a subtask is made of.
pub struct TaskParts {
    /// Its index in the execution graph.
    pub subtask: SubtaskIndex,
    /// For messages: `stats[0]`.
    pub place: Arc<str>,
    /// The job's name.
    pub job: Arc<str>,
    /// Its inputs.
    pub gate: InputGate<TaskControl>,
    /// Port of node 0 that each channel feeds.
    pub channel_ports: Vec<u32>,
    /// The chain, in topological order; node 0 is its head.
    pub nodes: Vec<Node>,
    /// Edges that leave the thread.
    pub outputs: Vec<OutputGate<TaskControl>>,
    /// Where events go.
    pub events: EventSender,
    /// Subtask of the stages in this chain (they share it).
    pub index: u32,
    /// For dead letters.
    pub source_names: SourceNames,
    /// The attempt.
    pub generation: Generation,
    /// Where it counts its time.
    pub times: Arc<TaskTimes>,
}

/// A running subtask.
pub struct Task {
    parts: TaskParts,
    /// None for a source: it has nothing to align.
    aligner: Option<BarrierAligner>,
    /// Event time over all channels, those of all ports.
    merge: WatermarkMerge,
    /// For who makes watermarks; none if no node does.
    unblocked: Option<UnblockedClock>,
    /// When to look for inputs that have fallen idle.
    tick_at: Duration,
    /// Channels of each port of node 0 that have not sent EndOfData: (port, count).
    open_channels: Vec<(u32, usize)>,
    /// When the source is to be asked again.
    poll_at: Option<Instant>,
    /// A suspension's barrier has passed: what would follow belongs to no checkpoint of this run.
    paused: bool,
    input_closed: bool,
    /// The node that writes to each gate.
    writers: Vec<usize>,
    clock: StageClock,
    /// The build whose call has failed.
    culprit: Option<Culprit>,
}

impl Task {
    /// Assembles a subtask; nothing runs yet.
    pub fn new(parts: TaskParts) -> Self {
        let channels: Vec<ChannelIndex> = (0..parts.channel_ports.len()).map(|c| ChannelIndex(c as u16)).collect();
        let mut open_channels: Vec<(u32, usize)> = Vec::new();
        for &port in &parts.channel_ports {
            match open_channels.iter_mut().find(|(own, _)| *own == port) {
                Some((_, count)) => *count += 1,
                None => open_channels.push((port, 1)),
            }
        }
        let aligner = (!channels.is_empty()).then(|| BarrierAligner::new(parts.generation, &channels));
        let writers = (0..parts.outputs.len()).map(|gate| writer_of(&parts.nodes, gate)).collect();
        let clock = StageClock::start(Arc::clone(&parts.times));
        let merge = WatermarkMerge::new(channels.len(), parts.nodes[0].event_time.watermark);
        Task {
            parts,
            aligner,
            merge,
            unblocked: None,
            tick_at: Duration::ZERO,
            open_channels,
            poll_at: None,
            paused: false,
            input_closed: false,
            writers,
            clock,
            culprit: None,
        }
    }

    /// Runs to the end: a clean one after `Finish`, a cancel, or a failure, which is reported.
    pub fn run(mut self) {
        let subtask = self.parts.subtask;
        // What was built before belongs to no thread of its own.
        self.clock = StageClock::start(Arc::clone(&self.parts.times));
        let ended = self.run_loop();
        self.clock.lap(0, Stage::Rest);
        self.clock.turn();
        let event = match ended {
            Ok(()) => TaskEvent::Finished { subtask },
            Err(TaskStop::Cancelled) => return,
            Err(TaskStop::Failed(failure)) => TaskEvent::Failed { subtask, failure, culprit: self.culprit },
        };
        // Nobody listens once the attempt has ended.
        let _ = self.parts.events.send(event);
    }

    fn run_loop(&mut self) -> Result<(), TaskStop> {
        self.begin_event_time()?;
        let mut more = false;
        while !self.input_closed {
            let wait = if more { Duration::ZERO } else { self.patience() };
            let received = self.parts.gate.receive(wait);
            self.clock.lap(0, Stage::Idle);
            match received? {
                Received::Control(control) => self.on_control(control)?,
                Received::Element { channel, element } => self.on_element(channel, element)?,
                Received::Timeout => self.poll_source()?,
            }
            self.tick()?;
            self.fire_by_the_wall()?;
            self.clock.lap(0, Stage::Rest);
            more = sweep(&mut self.parts.nodes, &mut self.clock, &self.parts.place)?;
            self.clock.turn();
        }
        self.close()
    }

    /// How long to wait for the gate before the source is asked again.
    fn patience(&self) -> Duration {
        let idle = match &self.parts.nodes[0].kind {
            NodeKind::Source(source) if !source.ended && !self.paused => match self.poll_at {
                Some(at) => at.saturating_duration_since(clock::monotonic()).min(IDLE),
                None => Duration::ZERO,
            },
            NodeKind::Source(_) | NodeKind::Operator(_) | NodeKind::Sink(_) => IDLE,
        };
        self.until_timer().map_or(idle, |timer| timer.min(idle))
    }

    fn on_control(&mut self, control: TaskControl) -> Result<(), TaskStop> {
        match control {
            TaskControl::InjectBarrier { checkpoint, pause } => {
                self.paused |= pause;
                self.checkpoint(checkpoint)
            }
            TaskControl::Abort(checkpoint) => {
                for node in &mut self.parts.nodes {
                    if let NodeKind::Operator(OperatorNode { backend: Some(backend), .. }) = &mut node.kind {
                        backend.aborted(checkpoint);
                    }
                }
                self.align(AlignEvent::Abort { checkpoint })
            }
            TaskControl::Complete(checkpoint) => {
                for node in &mut self.parts.nodes {
                    match &mut node.kind {
                        NodeKind::Operator(OperatorNode { backend: Some(backend), .. }) => backend.completed(checkpoint),
                        NodeKind::Source(source) => source.completed(checkpoint),
                        NodeKind::Operator(_) | NodeKind::Sink(_) => {}
                    }
                }
                Ok(())
            }
            TaskControl::KnownCommitted(transactions) => {
                for node in &self.parts.nodes {
                    if let NodeKind::Sink(sink) = &node.kind {
                        sink.known_committed(transactions.clone());
                    }
                }
                Ok(())
            }
            TaskControl::Exchange(next) => {
                self.keep_next(next);
                Ok(())
            }
            TaskControl::Trusted(operator) => {
                self.trust(operator);
                Ok(())
            }
            TaskControl::Finish => {
                // Subtasks with inputs end when their channels do.
                if matches!(self.parts.nodes[0].kind, NodeKind::Source(_)) {
                    self.input_closed = true;
                }
                Ok(())
            }
        }
    }

    fn on_element(&mut self, channel: usize, element: StreamElement) -> Result<(), TaskStop> {
        let index = ChannelIndex(channel as u16);
        match element {
            StreamElement::Batch(batch) => self.deliver(0, self.parts.channel_ports[channel], batch),
            StreamElement::Barrier(checkpoint) => self.align(AlignEvent::Barrier { channel: index, checkpoint }),
            StreamElement::Cancel(checkpoint) => self.align(AlignEvent::Cancel { channel: index, checkpoint }),
            StreamElement::Watermark(time) => self.merge(MergeEvent::Advanced { input: channel, time }),
            StreamElement::EndOfInput => self.align(AlignEvent::EndOfInput { channel: index }),
            StreamElement::EndOfData => {
                self.merge(MergeEvent::Ended { input: channel })?;
                let port = self.parts.channel_ports[channel];
                let open = self.open_channels.iter_mut().find(|(own, _)| *own == port).expect("every channel feeds a port");
                assert!(open.1 > 0, "A3: EndOfData came twice on a channel of port {port}");
                open.1 -= 1;
                if open.1 == 0 { self.input_ended(0, port) } else { Ok(()) }
            }
        }
    }

    /// Asks the aligner and does what it says, in its order.
    fn align(&mut self, event: AlignEvent) -> Result<(), TaskStop> {
        let Some(aligner) = &mut self.aligner else { return Ok(()) };
        let mut effects = Vec::new();
        aligner.handle(event, &mut effects);
        for effect in effects {
            match effect {
                AlignEffect::Block(channel) => self.parts.gate.block(channel.0 as usize),
                AlignEffect::UnblockAll => self.parts.gate.unblock_all(),
                AlignEffect::Complete(checkpoint) => {
                    crash::point("barrier-aligned");
                    self.checkpoint(checkpoint)?;
                }
                AlignEffect::Aborted { checkpoint, .. } => {
                    let _ = self.parts.events.send(TaskEvent::Declined { subtask: self.parts.subtask, checkpoint });
                }
                AlignEffect::ForwardCancel(checkpoint) => self.send_to_all(&StreamElement::Cancel(checkpoint))?,
                AlignEffect::Stale { channel, checkpoint } => {
                    tracing::debug!(place = %self.parts.place, channel = channel.0, %checkpoint, "stale barrier dropped");
                }
                AlignEffect::Finished => self.input_closed = true,
            }
        }
        Ok(())
    }

    /// The barrier of `checkpoint` is here: forwards it and takes the synchronous part of the snapshot, with no record in
    /// between (A1, A2).
    fn checkpoint(&mut self, checkpoint: CheckpointId) -> Result<(), TaskStop> {
        let begun = clock::monotonic();
        // 1. Positions first: they describe exactly the records that have passed.
        let head = &mut self.parts.nodes[0];
        let source = match &mut head.kind {
            NodeKind::Source(source) => {
                let splits = source.reader.positions();
                source.passed(checkpoint, &splits);
                let made = head.watermarks.as_ref();
                Some(SourceSnapshot {
                    source: source.source,
                    subtask: self.parts.index,
                    splits,
                    end_of_data: source.ended,
                    watermark: made.and_then(|made| known(made.output())),
                    split_watermarks: made.map(Watermarks::by_split).unwrap_or_default(),
                })
            }
            NodeKind::Operator(_) | NodeKind::Sink(_) => None,
        };
        let from_source = source.is_some();
        let parts = SnapshotParts::begin(
            self.parts.subtask,
            checkpoint,
            source,
            self.parts.events.clone(),
            Arc::clone(&self.parts.place),
        );
        // 2. Every node of the chain: state is frozen, transactions are prepared.
        for (n, node) in self.parts.nodes.iter_mut().enumerate() {
            let frozen = snapshot_node(node, self.parts.index, checkpoint, &parts);
            self.clock.lap(n, Stage::Snapshot);
            frozen.map_err(|(message, remedy)| failed(&self.parts.place, message, remedy))?;
        }
        // 3. The barrier leaves: readers downstream begin to align while our files are still being written.
        self.send_to_all(&StreamElement::Barrier(checkpoint))?;
        if from_source {
            crash::point("barrier-injected");
        }
        crash::point("snapshot-sync-done");
        // 4. Another build, if this is its barrier: the next record is the first one that it sees.
        self.exchange(checkpoint, begun);
        // 5. From here on the snapshot is complete as soon as its parts are.
        parts.seal();
        Ok(())
    }

    /// Asks the source for records, if this is a source and it is time.
    fn poll_source(&mut self) -> Result<(), TaskStop> {
        let NodeKind::Source(source) = &mut self.parts.nodes[0].kind else { return Ok(()) };
        if source.ended || self.paused || self.poll_at.is_some_and(|at| at > clock::monotonic()) {
            return Ok(());
        }
        let polled = source.reader.poll(SOURCE_BUDGET);
        self.clock.lap(0, Stage::SourcePoll);
        match polled.map_err(|error| connector_failed(&self.parts.place, error))? {
            SourcePoll::Pending(wait) => {
                self.poll_at = Some(clock::monotonic() + wait);
                Ok(())
            }
            SourcePoll::Batch { records, provenance } => {
                self.poll_at = None;
                StageMetrics::add(&self.parts.nodes[0].metrics.records_in, records.len() as u64);
                self.clock.records(0, records.len());
                let split = provenance.spans.first().map_or(0, |span| span.split);
                let max_time = self.before_sent(0, split, std::slice::from_ref(&records))?;
                self.emit(0, 0, Batch { records, provenance })?;
                self.after_sent(0, split, max_time)
            }
            SourcePoll::End => {
                source.ended = true;
                self.propagate_end(0)?;
                let _ = self.parts.events.send(TaskEvent::EndOfData { subtask: self.parts.subtask });
                Ok(())
            }
        }
    }

    /// Gives a batch to a node of the chain.
    fn deliver(&mut self, node: usize, port: u32, batch: Batch) -> Result<(), TaskStop> {
        let own = &mut self.parts.nodes[node];
        StageMetrics::add(&own.metrics.records_in, batch.records.len() as u64);
        self.clock.records(node, batch.records.len());
        match &mut own.kind {
            NodeKind::Source(_) => unreachable!("a source has no input"),
            NodeKind::Sink(sink) => {
                let written = sink.write(&batch);
                self.clock.lap(node, Stage::SinkWrite);
                written.map_err(|error| connector_failed(&self.parts.place, error))
            }
            NodeKind::Operator(operator) => {
                if let Some(timers) = &operator.timers {
                    operator.instance.set_clocks(timers.clocks(own.event_time.watermark));
                }
                let state = operator.backend.as_deref_mut().map(|backend| backend as &mut dyn KeyedStateBackend);
                let processed = operator.instance.process(port, &batch.records, state);
                self.clock.lap_call(node, operator.instance.times(), operator.look_ups());
                match processed {
                    Ok(processed) => {
                        self.dead_letters(node, &batch, &processed.bad)?;
                        let provenance = batch.provenance.derived();
                        let changes = self.emit_all(node, processed, &provenance)?;
                        self.set_timers(node, &changes)
                    }
                    Err(failure) => Err(self.operator_failed(node, &batch, failure)),
                }
            }
        }
    }

    /// Sends what a call gave; gives the timers that it wants changed.
    fn emit_all(&mut self, node: usize, processed: Processed, provenance: &Provenance) -> Result<Vec<TimerChange>, TaskStop> {
        let max_time = self.before_sent(node, 0, &processed.main)?;
        for records in processed.main {
            self.emit(node, 0, Batch { records, provenance: provenance.clone() })?;
        }
        for (side, records) in processed.sides {
            self.emit(node, 1 + side as usize, Batch { records, provenance: provenance.clone() })?;
        }
        self.after_sent(node, 0, max_time)?;
        Ok(processed.timers)
    }

    /// Sends a batch to the targets of one output.
    fn emit(&mut self, node: usize, output: usize, batch: Batch) -> Result<(), TaskStop> {
        if batch.records.is_empty() {
            return Ok(());
        }
        StageMetrics::add(&self.parts.nodes[node].metrics.records_out, batch.records.len() as u64);
        let targets = self.parts.nodes[node].outputs[output].len();
        let mut batch = Some(batch);
        for t in 0..targets {
            let target = self.parts.nodes[node].outputs[output][t];
            let own = if t + 1 == targets { batch.take() } else { batch.clone() }.expect("taken by the last target only");
            match target {
                Target::Chained { node, port } => self.deliver(node, port, own)?,
                Target::Gate(gate) => {
                    StageMetrics::add(&self.parts.nodes[node].metrics.records_exchanged, own.records.len() as u64);
                    self.send_through(gate, |output, background| output.send_batch(own, background))?;
                }
            }
        }
        Ok(())
    }

    /// Sends an element through every edge that leaves the thread.
    fn send_to_all(&mut self, element: &StreamElement) -> Result<(), TaskStop> {
        for gate in 0..self.parts.outputs.len() {
            self.send_through(gate, |output, background| output.send_to_all(element.clone(), background))?;
        }
        Ok(())
    }

    /// Sends through a gate. State is swept while there is no room.
    fn send_through(
        &mut self,
        gate: usize,
        send: impl FnOnce(&mut OutputGate<TaskControl>, &mut dyn FnMut() -> Result<bool, TaskStop>) -> Result<bool, TaskStop>,
    ) -> Result<(), TaskStop> {
        let Task { parts: TaskParts { nodes, outputs, place, .. }, clock, writers, .. } = self;
        let mut stage = Stage::Exchange;
        let writer = writers[gate];
        let sent = send(&mut outputs[gate], &mut || {
            // It is asked to work because there is no room: from now on it waits.
            clock.lap(writer, stage);
            stage = Stage::Blocked;
            sweep(nodes, clock, place)
        });
        clock.lap(writer, stage);
        sent.map(drop)
    }

    /// All of one input port's channels have sent EndOfData.
    fn input_ended(&mut self, node: usize, port: u32) -> Result<(), TaskStop> {
        self.parts.nodes[node].open_ports.remove(&port);
        let last = self.parts.nodes[node].open_ports.is_empty();
        if last {
            self.end_timers(node)?;
        }
        if let NodeKind::Operator(operator) = &mut self.parts.nodes[node].kind {
            // A restored checkpoint may say that the end was processed: the call is never made again.
            if operator.ended_ports.insert(port) && operator.instance.wants_end() {
                let state = operator.backend.as_deref_mut().map(|backend| backend as &mut dyn KeyedStateBackend);
                let processed = operator.instance.on_end(port, state);
                self.clock.lap_call(node, operator.instance.times(), operator.look_ups());
                self.emit_end(node, processed)?;
            }
            if last {
                self.end_keys(node)?;
            }
        }
        if last { self.propagate_end(node) } else { Ok(()) }
    }

    /// After the last port: every key that holds state, page by page, once.
    fn end_keys(&mut self, node: usize) -> Result<(), TaskStop> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let NodeKind::Operator(operator) = &mut self.parts.nodes[node].kind else { return Ok(()) };
            let states = operator.instance.end_key_states().to_vec();
            if operator.end_of_data_sent || states.is_empty() {
                operator.end_of_data_sent = true;
                return Ok(());
            }
            let backend = operator.backend.as_deref_mut().expect("an operator with states has a backend");
            let keys = backend.scan_keys(&states, after.as_deref(), END_KEYS_PAGE);
            self.clock.lap(node, Stage::LookUp);
            let keys = keys.map_err(|error| state_failed(&self.parts.place, &error))?;
            let done = keys.len() < END_KEYS_PAGE;
            if !keys.is_empty() {
                let processed = operator.instance.on_end_keys(&keys, Some(backend as &mut dyn KeyedStateBackend));
                self.clock.lap_call(node, operator.instance.times(), operator.look_ups());
                self.emit_end(node, processed)?;
            }
            let NodeKind::Operator(operator) = &mut self.parts.nodes[node].kind else { return Ok(()) };
            operator.end_of_data_sent = done;
            after = keys.into_iter().last();
        }
    }

    fn emit_end(&mut self, node: usize, processed: Result<Processed, OperatorFailure>) -> Result<(), TaskStop> {
        match processed {
            Ok(processed) => {
                let changes = self.emit_all(node, processed, &Provenance::default())?;
                self.set_timers(node, &changes)
            }
            Err(failure) => {
                self.blame(node);
                Err(failed(&self.parts.place, failure.message, failure.remedy))
            }
        }
    }

    /// EndOfData on every output of a node.
    fn propagate_end(&mut self, node: usize) -> Result<(), TaskStop> {
        if let Some(made) = &mut self.parts.nodes[node].watermarks {
            made.end();
        }
        self.parts.times.nodes[node].event_time.end();
        for output in 0..self.parts.nodes[node].outputs.len() {
            for t in 0..self.parts.nodes[node].outputs[output].len() {
                match self.parts.nodes[node].outputs[output][t] {
                    Target::Chained { node, port } => self.input_ended(node, port)?,
                    Target::Gate(gate) => {
                        self.send_through(gate, |output, background| output.send_to_all(StreamElement::EndOfData, background))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts bad records, and sends them to the dead letter if the job says so.
    fn dead_letters(&mut self, node: usize, batch: &Batch, bad: &[(u32, String)]) -> Result<(), TaskStop> {
        if bad.is_empty() {
            return Ok(());
        }
        let own = &self.parts.nodes[node];
        let NodeKind::Operator(operator) = &own.kind else { return Ok(()) };
        let Some(route) = &operator.dead_letter else {
            StageMetrics::add(&own.metrics.records_dropped, bad.len() as u64);
            return Ok(());
        };
        StageMetrics::add(&own.metrics.records_dead, bad.len() as u64);
        let output = route.output;
        let mut letters = RecordBatch::new();
        for (record, reason) in bad {
            let i = *record as usize;
            let spans = named_spans(&self.parts.source_names, &batch.provenance.of_record(&batch.records, i));
            let places: Vec<Place<'_>> = spans
                .iter()
                .map(|span| Place { source: &span.source, split: &span.split, first: span.first, last: span.last })
                .collect();
            let line = dead_letter_line(&DeadLetter {
                job: &self.parts.job,
                operator: &own.name,
                plugin: &operator.build,
                places: &places,
                reason,
                key: batch.records.key_or_null(i),
                value: batch.records.value_or_null(i),
                headers: batch.records.headers(i),
            });
            letters.push(&[], &line, batch.records.time(i));
        }
        let provenance = batch.provenance.derived();
        self.clock.lap(node, Stage::Rest);
        self.emit(node, output, Batch { records: letters, provenance })
    }

    fn operator_failed(&mut self, node: usize, batch: &Batch, failure: OperatorFailure) -> TaskStop {
        self.blame(node);
        let mut message = failure.message;
        let spans = match failure.record {
            Some(record) => batch.provenance.of_record(&batch.records, record as usize),
            None => batch.provenance.spans.clone(),
        };
        let places: Vec<String> =
            named_spans(&self.parts.source_names, &spans).into_iter().map(|span| span.to_string()).collect();
        if !places.is_empty() {
            message = format!("{message}\n  record: {}", places.join(", "));
        }
        failed(&self.parts.place, message, failure.remedy)
    }

    /// The clean end: instances are closed, then the channels.
    fn close(&mut self) -> Result<(), TaskStop> {
        for (n, node) in self.parts.nodes.iter_mut().enumerate() {
            match &mut node.kind {
                NodeKind::Source(_) => {}
                NodeKind::Operator(operator) => operator.instance.close(),
                NodeKind::Sink(sink) => sink.close().map_err(|error| connector_failed(&self.parts.place, error))?,
            }
            self.clock.lap(n, Stage::Rest);
        }
        self.send_to_all(&StreamElement::EndOfInput)
    }
}

/// A span with names instead of indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSpan {
    /// Name of the source.
    pub source: String,
    /// Name of the split.
    pub split: String,
    /// First position.
    pub first: u64,
    /// Last position.
    pub last: u64,
}

impl std::fmt::Display for NamedSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NamedSpan { source, split, first, last } = self;
        if first == last {
            write!(f, "source {source}, {split}, offset {first}")
        } else {
            write!(f, "source {source}, {split}, offsets {first} to {last}")
        }
    }
}

/// Puts names to spans.
pub fn named_spans(names: &SourceNames, spans: &[crate::channel::SourceSpan]) -> Vec<NamedSpan> {
    spans
        .iter()
        .map(|span| {
            let (source, splits) = &names[span.source as usize];
            let split = splits[span.split as usize].clone();
            NamedSpan { source: source.clone(), split, first: span.first, last: span.last }
        })
        .collect()
}

/// One slice of background work of every backend in the chain. True: there is more.
fn sweep(nodes: &mut [Node], clock: &mut StageClock, place: &Arc<str>) -> Result<bool, TaskStop> {
    let mut more = false;
    for (n, node) in nodes.iter_mut().enumerate() {
        if let NodeKind::Operator(OperatorNode { backend: Some(backend), .. }) = &mut node.kind {
            let swept = backend.sweep();
            clock.lap(n, Stage::Sweep);
            more |= swept.map_err(|error| state_failed(place, &error))?;
        }
    }
    Ok(more)
}

/// The node that has this gate among its targets.
fn writer_of(nodes: &[Node], gate: usize) -> usize {
    let writes = |node: &Node| node.outputs.iter().flatten().any(|target| *target == Target::Gate(gate));
    nodes.iter().position(writes).expect("a gate is made for a target of a node")
}

/// A watermark that a checkpoint keeps: the final one follows from the ended inputs.
fn known(time: EventTime) -> Option<i64> {
    (time.watermark > NO_WATERMARK && time.watermark < FINAL_WATERMARK).then_some(time.watermark)
}

fn snapshot_node(node: &mut Node, subtask: u32, checkpoint: CheckpointId, parts: &SnapshotParts) -> Result<(), (String, Remedy)> {
    match &mut node.kind {
        NodeKind::Source(_) => Ok(()),
        NodeKind::Sink(sink) => {
            sink.prepare(checkpoint, node.open_ports.is_empty(), parts).map_err(|error| (error.message, error.remedy))
        }
        NodeKind::Operator(operator) => {
            let index = operator.operator;
            let own_state = operator.instance.snapshot().map_err(|failure| (failure.message, failure.remedy))?;
            let snapshot = OperatorSnapshot {
                operator: index,
                subtask,
                state: None,
                ended_ports: operator.ended_ports.iter().copied().collect(),
                end_of_data_sent: operator.end_of_data_sent,
                watermark: known(node.event_time),
                output_watermark: node.watermarks.as_ref().and_then(|made| known(made.output())),
                parts: own_state,
            };
            parts.operator(snapshot, operator.backend.is_some());
            let Some(backend) = &mut operator.backend else { return Ok(()) };
            let parts = parts.clone();
            let done = Box::new(move |result: Result<_, StateError>| match result {
                Ok(snapshot) => parts.state(index, snapshot),
                Err(error) => parts.fail(error.to_string()),
            });
            backend.freeze(checkpoint, done).map_err(|error| (error.to_string(), Remedy::Restart))
        }
    }
}

fn failed(place: &Arc<str>, message: String, remedy: Remedy) -> TaskStop {
    TaskStop::Failed(TaskFailure { place: place.to_string(), message, remedy })
}

fn connector_failed(place: &Arc<str>, error: ConnectorError) -> TaskStop {
    failed(place, error.message, error.remedy)
}

fn state_failed(place: &Arc<str>, error: &StateError) -> TaskStop {
    failed(place, error.to_string(), Remedy::Restart)
}
