//! Figures for the progress display, read from the stages' counters.

use super::deploy::Deployment;
use crate::graph::ExecutionGraph;
use crate::graph::execution::NodeRef;
use crate::job::StageProgress;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Figures of every task, and the (busy, blocked) nanoseconds to give to the next call. `last`: those of the call before;
/// `span`: time since then.
pub fn stages(
    execution: &ExecutionGraph,
    deployment: &Deployment,
    last: &[(u64, u64)],
    span: Duration,
) -> (Vec<StageProgress>, Vec<(u64, u64)>) {
    let (mut stages, mut figures) = (Vec::new(), Vec::new());
    for (t, task) in execution.tasks.iter().enumerate() {
        let metrics = &deployment.metrics[t];
        let head = &metrics[0];
        let busy = head.busy_ns.load(Ordering::Relaxed);
        let blocked = head.blocked_ns.load(Ordering::Relaxed);
        let whole = (span.as_nanos() as f32 * task.parallelism as f32).max(1.0);
        let share = |now: u64, before: u64| (now.saturating_sub(before) as f32 / whole).min(1.0);
        let (busy_share, blocked_share) = (share(busy, last[t].0), share(blocked, last[t].1));
        let backlog = (0..task.parallelism)
            .map(|subtask| deployment.controls[task.subtask(subtask).0 as usize].backlog_bytes() as u64)
            .sum();
        let leaving: u64 = metrics
            .iter()
            .zip(&task.nodes)
            .map(|(metrics, node)| match node.node {
                NodeRef::Sink(_) => metrics.records_in.load(Ordering::Relaxed),
                NodeRef::Source(_) | NodeRef::Operator(_) => metrics.records_exchanged.load(Ordering::Relaxed),
            })
            .sum();
        stages.push(StageProgress {
            name: task.name.clone(),
            subtasks: task.parallelism,
            records_in: head.records_in.load(Ordering::Relaxed),
            records_out: leaving,
            backlog_bytes: backlog,
            busy: busy_share,
            backpressured: blocked_share,
            idle: (1.0 - busy_share - blocked_share).max(0.0),
        });
        figures.push((busy, blocked));
    }
    (stages, figures)
}
