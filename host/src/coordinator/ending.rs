//! Ends what an attempt has started: its subtasks, and its sinks' commits. Whatever blocks does so beside the event loop.

use super::commits::{Place, SinkCommits};
use super::deploy::Deployment;
use crate::connectors::Remedy;
use crate::job::Failure;
use crate::task::messages::TaskFailure;
use std::time::Duration;

/// How long a stop without a final checkpoint waits for its subtasks.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// Commits of the job file's sinks, and those of former places.
pub fn by_place(commits: Vec<SinkCommits>) -> (Vec<SinkCommits>, Vec<SinkCommits>) {
    commits.into_iter().partition(|commit| match commit.place() {
        Place::JobFile(_) => true,
        Place::Former { .. } => false,
    })
}

/// Ends those of former places, for which nobody will ask any more.
pub async fn retire(former: Vec<SinkCommits>) {
    let retired = tokio::task::spawn_blocking(move || former.into_iter().for_each(SinkCommits::retire));
    retired.await.expect("retiring a sink does not panic");
}

/// Ends commits cleanly. `finished`: the log says so; only for those of the job file.
pub async fn close_commits(commits: Vec<SinkCommits>, finished: bool) {
    let closed = tokio::task::spawn_blocking(move || {
        for commit in commits {
            commit.close(finished);
        }
    });
    closed.await.expect("closing a sink does not panic");
}

/// Waits for every subtask. `cancel`: ends it first. Fails if one has panicked.
pub async fn join(deployment: Deployment, cancel: bool) -> Result<(), TaskFailure> {
    let joined = tokio::task::spawn_blocking(move || if cancel { deployment.cancel_and_join() } else { deployment.join() });
    let panicked = joined.await.expect("joining does not panic");
    match panicked.first() {
        None => Ok(()),
        Some(place) => Err(TaskFailure {
            place: place.clone(),
            message: "this is a bug in Weir: the thread panicked; please report the text above".into(),
            remedy: Remedy::Restart,
        }),
    }
}

/// Ends every subtask, but does not wait for one that stays in a plugin's call: the user wants to stop now, and the process
/// ends. What such a thread still does reaches no checkpoint and no commit.
pub async fn leave(deployment: Deployment) {
    let (done, joined) = tokio::sync::oneshot::channel();
    // Not a blocking task of the runtime, which would wait for it when it is dropped.
    let thread = std::thread::Builder::new().name("leave".to_owned()).spawn(move || {
        deployment.cancel_and_join();
        // Nobody waits any more after `LEAVE_AFTER`.
        let _ = done.send(());
    });
    match thread {
        Ok(_) => {
            let _ = tokio::time::timeout(LEAVE_AFTER, joined).await;
        }
        Err(error) => tracing::warn!(%error, "subtasks are left as they are"),
    }
}

/// A failure as the user sees it, with what to do.
pub fn failure_of(failure: &TaskFailure) -> Failure {
    let next = match failure.remedy {
        Remedy::Permanent => {
            "mend what the message names, then run the job again: it resumes from its newest completed checkpoint"
        }
        Remedy::Restart | Remedy::Refresh => {
            "when the cause is gone run the job again: it resumes from its newest completed checkpoint"
        }
    };
    Failure { why: failure.message.clone(), place: failure.place.clone(), next: next.into() }
}
