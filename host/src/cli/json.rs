//! Outcomes and progress as JSON: what `--json` gives.

use super::exit::Exit;
use crate::graph::Problem;
use crate::job::{
    CheckpointProgress, EventTimeProgress, JobOutcome, LostTransaction, NodeProfile, OutsideWait, Progress, StageProgress,
};
use serde_json::{Value, json};

/// The result of `weir run`. `progress`: the last figures, if there were any.
pub(super) fn outcome(job: &str, outcome: &JobOutcome, progress: Option<&Progress>) -> Value {
    let mut document = match outcome {
        JobOutcome::Finished { checkpoint } => json!({ "outcome": "finished", "checkpoint": checkpoint.to_string() }),
        JobOutcome::AlreadyFinished { checkpoint } => {
            json!({ "outcome": "already-finished", "checkpoint": checkpoint.to_string() })
        }
        JobOutcome::Suspended { checkpoint } => json!({ "outcome": "suspended", "checkpoint": checkpoint.to_string() }),
        JobOutcome::Stopped { resumes_from } => {
            json!({ "outcome": "stopped", "resumes_from": resumes_from.map(|checkpoint| checkpoint.to_string()) })
        }
        JobOutcome::Failed(failure) => {
            json!({ "outcome": "failed", "why": failure.why, "where": failure.place, "next": failure.next })
        }
        JobOutcome::Refused { problems: found } => json!({ "outcome": "refused", "problems": problems(found) }),
        JobOutcome::CommitLost { transactions } => {
            json!({ "outcome": "commit-lost", "transactions": transactions.iter().map(transaction).collect::<Vec<_>>() })
        }
        JobOutcome::CannotRestore { checkpoint, why, older } => json!({
            "outcome": "cannot-restore",
            "checkpoint": checkpoint.map(|checkpoint| checkpoint.to_string()),
            "why": why,
            "older": older.map(|checkpoint| checkpoint.to_string()),
        }),
        JobOutcome::Fenced { by } => json!({ "outcome": "fenced", "by": by }),
    };
    document["job"] = json!(job);
    document["exit"] = json!(Exit::of(outcome).code());
    if let Some(progress) = progress {
        document["progress"] = progress_of(progress);
    }
    document
}

/// A refusal before there is a job.
pub(super) fn refused(found: &[Problem]) -> Value {
    json!({ "outcome": "refused", "exit": Exit::Refused.code(), "problems": problems(found) })
}

/// Problems, as a list.
pub(super) fn problems(problems: &[Problem]) -> Value {
    problems.iter().map(|problem| json!({ "where": problem.place, "what": problem.what, "next": problem.next })).collect()
}

fn transaction(lost: &LostTransaction) -> Value {
    let ranges: Vec<Value> = lost
        .sources
        .iter()
        .map(|range| json!({ "source": range.source, "split": range.split, "first": range.first, "last": range.last }))
        .collect();
    json!({
        "id": lost.id.to_string(),
        "sink": lost.id.sink,
        "checkpoint": lost.checkpoint.to_string(),
        "fate": if lost.certain { "lost" } else { "unknown" },
        "why": lost.why,
        "sources": ranges,
    })
}

/// Figures of a running job.
pub(super) fn progress_of(progress: &Progress) -> Value {
    json!({
        "elapsed_ms": progress.elapsed.as_millis() as u64,
        "stages": progress.stages.iter().map(stage).collect::<Vec<_>>(),
        "checkpoint": progress.checkpoint.as_ref().map(checkpoint),
        "committed": progress.committed.map(|checkpoint| checkpoint.to_string()),
        "waits": progress.waits.iter().map(wait).collect::<Vec<_>>(),
    })
}

fn wait(wait: &OutsideWait) -> Value {
    json!({ "sink": wait.sink, "for": wait.what, "time_ms": wait.time.as_millis() as u64 })
}

fn stage(stage: &StageProgress) -> Value {
    json!({
        "name": stage.name,
        "subtasks": stage.subtasks,
        "records_in": stage.records_in,
        "records_out": stage.records_out,
        "backlog_bytes": stage.backlog_bytes,
        "event_time": stage.nodes.iter().filter_map(event_time).collect::<Vec<_>>(),
    })
}

fn event_time(node: &NodeProfile) -> Option<Value> {
    let EventTimeProgress { watermark_ms, lag_ms, is_idle, has_ended } = node.event_time?;
    Some(json!({ "node": node.name, "watermark_ms": watermark_ms, "lag_ms": lag_ms, "idle": is_idle, "ended": has_ended }))
}

fn checkpoint(checkpoint: &CheckpointProgress) -> Value {
    json!({
        "id": checkpoint.checkpoint.to_string(),
        "duration_ms": checkpoint.duration.as_millis() as u64,
        "uploaded_bytes": checkpoint.uploaded_bytes,
        "state_bytes": checkpoint.state_bytes,
    })
}
