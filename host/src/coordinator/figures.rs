//! Figures for the progress display and the profile, read from the counters of the stages.

use super::deploy::{Deployment, JobParts};
use crate::channel::GateControl;
use crate::clock;
use crate::graph::execution::{NodeRef, TaskSpec};
use crate::job::{CheckpointProgress, EventTimeProgress, NodeProfile, OutsideWait, Progress, StageProfile, StageProgress};
use crate::task::messages::TaskControl;
use crate::task::metrics::StageMetrics;
use crate::task::times::{NodeTimes, Stage, TaskTimes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_protocol::CheckpointId;
use weir_protocol::watermark::{EventTime, FINAL_WATERMARK, MergeEvent, NO_WATERMARK, WatermarkMerge};

/// Reads the counters of an attempt. It outlives the attempt's threads, so that the last figures are whole.
pub struct Figures {
    parts: Arc<JobParts>,
    metrics: Vec<Vec<Arc<StageMetrics>>>,
    controls: Vec<GateControl<TaskControl>>,
    /// Origin of the run's monotonic time.
    origin: Instant,
    /// When it was last read, with the (busy, blocked) nanoseconds of each task: shares are of the time since.
    last: (Instant, Vec<(u64, u64)>),
    /// The checkpoint up to which everything is committed.
    pub committed: Option<CheckpointId>,
}

impl Figures {
    /// Of a deployed attempt.
    pub fn new(parts: &Arc<JobParts>, deployment: &Deployment, origin: Instant) -> Self {
        let work = parts.execution.tasks.iter().map(|task| work_ns(times_of(parts, task))).collect();
        Figures {
            parts: Arc::clone(parts),
            metrics: deployment.metrics.clone(),
            controls: deployment.controls.clone(),
            origin,
            last: (clock::monotonic(), work),
            committed: None,
        }
    }

    /// What the counters say now. `checkpoint`: the last completed one.
    pub fn read(&mut self, checkpoint: Option<CheckpointProgress>) -> Progress {
        let (before, last) = &self.last;
        let span = before.elapsed();
        let tasks = &self.parts.execution.tasks;
        let (stages, work) = (0..tasks.len()).map(|t| self.stage(t, last[t], span)).unzip();
        self.last = (clock::monotonic(), work);
        let sinks = self.parts.sinks.iter().zip(&self.parts.graph.sinks);
        let waits = sinks.filter_map(|(connector, spec)| {
            let (what, time) = connector.waits()?;
            Some(OutsideWait { sink: spec.name.clone(), what, time })
        });
        Progress { elapsed: self.origin.elapsed(), stages, checkpoint, committed: self.committed, waits: waits.collect() }
    }

    fn node(&self, task: &TaskSpec, times: &[Arc<TaskTimes>], n: usize) -> NodeProfile {
        let node = &task.nodes[n];
        let graph = &self.parts.graph;
        let (has_own, is_sink) = match node.node {
            NodeRef::Source(source) => (graph.sources[source].watermark.is_some(), false),
            NodeRef::Operator(operator) => (graph.operators[operator].watermark.is_some(), false),
            NodeRef::Sink(_) => (false, true),
        };
        NodeProfile {
            name: node.name.clone(),
            records: sum(times, n, |node| node.records.get()),
            is_sink,
            stages: stage_profiles(times, n),
            event_time: event_time_progress(event_time(times, n), has_own, clock::wall_ms()),
        }
    }

    /// Figures of one task, and its (busy, blocked) nanoseconds.
    fn stage(&self, t: usize, last: (u64, u64), span: Duration) -> (StageProgress, (u64, u64)) {
        let (task, metrics) = (&self.parts.execution.tasks[t], &self.metrics[t]);
        let times = times_of(&self.parts, task);
        let work = work_ns(times);
        let whole = (span.as_nanos() as f32 * task.parallelism as f32).max(1.0);
        let share = |now: u64, before: u64| (now.saturating_sub(before) as f32 / whole).min(1.0);
        let (busy, backpressured) = (share(work.0, last.0), share(work.1, last.1));
        let subtasks = (0..task.parallelism).map(|subtask| task.subtask(subtask).0 as usize);
        let leaving = metrics.iter().zip(&task.nodes).map(|(metrics, node)| match node.node {
            NodeRef::Sink(_) => metrics.records_in.load(Ordering::Relaxed),
            NodeRef::Source(_) | NodeRef::Operator(_) => metrics.records_exchanged.load(Ordering::Relaxed),
        });
        let progress = StageProgress {
            name: task.name.clone(),
            subtasks: task.parallelism,
            records_in: metrics[0].records_in.load(Ordering::Relaxed),
            records_out: leaving.sum(),
            backlog_bytes: subtasks.map(|subtask| self.controls[subtask].backlog_bytes() as u64).sum(),
            busy,
            backpressured,
            idle: (1.0 - busy - backpressured).max(0.0),
            thread: Duration::from_nanos(times.iter().map(|times| times.thread_ns.get()).sum()),
            nodes: (0..task.nodes.len()).map(|n| self.node(task, times, n)).collect(),
        };
        (progress, work)
    }
}

/// Over the subtasks of a node, as one that read them all would know it.
fn event_time(times: &[Arc<TaskTimes>], node: usize) -> EventTime {
    let mut merge = WatermarkMerge::new(times.len(), NO_WATERMARK);
    for (input, times) in times.iter().enumerate() {
        let time = times.nodes[node].event_time.get();
        let ended = time.watermark == FINAL_WATERMARK;
        merge.handle(if ended { MergeEvent::Ended { input } } else { MergeEvent::Advanced { input, time } });
    }
    merge.output()
}

/// `has_own`: it makes watermarks, so that it is worth telling if there is none yet.
fn event_time_progress(time: EventTime, has_own: bool, now_ms: u64) -> Option<EventTimeProgress> {
    let EventTime { watermark, is_idle } = time;
    let has_ended = watermark == FINAL_WATERMARK;
    let watermark_ms = (watermark > NO_WATERMARK && !has_ended).then_some(watermark);
    // Without any watermark in the job, ends are all that there is.
    let shown = has_own || watermark_ms.is_some();
    let lag_ms = watermark_ms.map(|watermark| (now_ms as i64).saturating_sub(watermark));
    shown.then_some(EventTimeProgress { watermark_ms, lag_ms, is_idle, has_ended })
}

/// Counters of a task's subtasks.
fn times_of<'p>(parts: &'p JobParts, task: &TaskSpec) -> &'p [Arc<TaskTimes>] {
    let first = task.first_subtask.0 as usize;
    &parts.times[first..first + task.parallelism as usize]
}

/// Nanoseconds at work and waiting for room.
fn work_ns(times: &[Arc<TaskTimes>]) -> (u64, u64) {
    let blocked = times.iter().map(|times| times.stage_ns(Stage::Blocked)).sum();
    (times.iter().map(|times| times.busy_ns()).sum(), blocked)
}

/// A counter of a node, summed over the subtasks.
fn sum(times: &[Arc<TaskTimes>], node: usize, of: impl Fn(&NodeTimes) -> u64) -> u64 {
    times.iter().map(|times| of(&times.nodes[node])).sum()
}

/// Where a node's time went, summed over the subtasks; stages of which there is nothing to say are left out.
fn stage_profiles(times: &[Arc<TaskTimes>], node: usize) -> Vec<StageProfile> {
    let sum = |of: &dyn Fn(&NodeTimes) -> u64| sum(times, node, of);
    let stages = Stage::ALL.into_iter().map(|stage| {
        let counts = match stage {
            Stage::Guest => vec![("calls", sum(&|node| node.calls.get()))],
            Stage::HostCalls => vec![("calls", sum(&|node| node.host_calls.get()))],
            Stage::LookUp => vec![
                ("hits", sum(&|node| node.hits.get())),
                ("misses", sum(&|node| node.misses.get())),
                ("store reads", sum(&|node| node.store_reads.get())),
            ],
            Stage::Idle
            | Stage::Blocked
            | Stage::SourcePoll
            | Stage::Exchange
            | Stage::Group
            | Stage::Take
            | Stage::Apply
            | Stage::SinkWrite
            | Stage::Sweep
            | Stage::Snapshot
            | Stage::Rest => Vec::new(),
        };
        StageProfile { stage: stage.name(), time: Duration::from_nanos(sum(&|node| node.stage_ns(stage))), counts }
    });
    let said = |stage: &StageProfile| !stage.time.is_zero() || stage.counts.iter().any(|(_, count)| *count > 0);
    stages.filter(said).collect()
}
