//! Keeps the job's log for one attempt: publishes in order on a task of its own, and cleans up behind it on another, so that
//! slow deletions never hold up a checkpoint.

use crate::store::manifest::Manifest;
use crate::store::{FinishOutcome, JobLog, LogStore, PublishOutcome, References, gc};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use weir_protocol::CheckpointId;

/// What the log answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogAnswer {
    /// The manifest stands, and nothing above it.
    Published(CheckpointId),
    /// A tombstone stands in its place.
    Aborted(CheckpointId),
    /// `finished` stands.
    Finished(CheckpointId),
    /// Another process owns the job.
    Fenced(String),
    /// Nobody can say what became of the entry.
    GaveUp(CheckpointId, String),
}

/// Where answers go.
pub type LogListener = Arc<dyn Fn(LogAnswer) + Send + Sync>;

enum Order {
    Publish(Box<Manifest>, oneshot::Receiver<()>),
    Finish(CheckpointId),
}

enum Cleanup {
    /// Keep so many of the newest checkpoints; these files belong to checkpoints under way.
    Retain(usize, BTreeSet<String>),
    /// Nothing refers to these.
    Release(BTreeSet<String>),
    /// This plugin is about to run.
    Hold(String, oneshot::Sender<()>),
}

/// The log of a claimed job. Its orders are carried out one after the other.
pub struct LogKeeper {
    orders: mpsc::UnboundedSender<Order>,
    cleanups: mpsc::UnboundedSender<Cleanup>,
    /// Gives up the publish under way; dropped when that is decided.
    abort: Option<oneshot::Sender<()>>,
    publisher: JoinHandle<JobLog>,
    cleaner: JoinHandle<()>,
}

impl LogKeeper {
    /// Starts both tasks. `plugins`: digests that run now.
    pub fn start(log: JobLog, plugins: BTreeSet<String>, listener: LogListener) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (cleanups, dirt) = mpsc::unbounded_channel();
        let cleaner = tokio::spawn(clean(log.store().clone(), plugins, dirt));
        let publisher = tokio::spawn(keep(log, inbox, listener));
        LogKeeper { orders, cleanups, abort: None, publisher, cleaner }
    }

    /// Publishes a manifest, which is sealed here. One at a time: the coordinator waits for the answer.
    pub fn publish(&mut self, manifest: Manifest) {
        let (abort, aborted) = oneshot::channel();
        self.abort = Some(abort);
        // The task only ends when this sender is dropped.
        let _ = self.orders.send(Order::Publish(Box::new(manifest.seal()), aborted));
    }

    /// Puts a tombstone into the slot of the publish under way; whichever stands decides.
    pub fn abort(&mut self) {
        if let Some(abort) = self.abort.take() {
            // Decided meanwhile: there is nothing left to give up.
            let _ = abort.send(());
        }
    }

    /// Appends `finished`.
    pub fn finish(&self, checkpoint: CheckpointId) {
        let _ = self.orders.send(Order::Finish(checkpoint));
    }

    /// Drops all but the newest `retain` checkpoints. `in_use`: files that checkpoints under way refer to.
    pub fn retain(&self, retain: usize, in_use: BTreeSet<String>) {
        let _ = self.cleanups.send(Cleanup::Retain(retain, in_use));
    }

    /// Deletes files that nothing refers to.
    pub fn release(&self, names: BTreeSet<String>) {
        let _ = self.cleanups.send(Cleanup::Release(names));
    }

    /// Keeps a plugin of this digest from being cleaned up; only when that is answered may it be stored.
    pub fn hold(&self, plugin: String) -> oneshot::Receiver<()> {
        let (done, held) = oneshot::channel();
        let _ = self.cleanups.send(Cleanup::Hold(plugin, done));
        held
    }

    /// Waits until everything that was ordered is done.
    pub async fn close(self) -> JobLog {
        let LogKeeper { orders, cleanups, publisher, cleaner, .. } = self;
        drop((orders, cleanups));
        if let Err(error) = cleaner.await {
            tracing::error!(%error, "the clean-up of the checkpoint storage broke off; the next start repeats it");
        }
        publisher.await.expect("the publishing task does not panic")
    }
}

async fn keep(mut log: JobLog, mut orders: mpsc::UnboundedReceiver<Order>, listener: LogListener) -> JobLog {
    while let Some(order) = orders.recv().await {
        let answer = match order {
            Order::Publish(manifest, abort) => {
                let id = manifest.checkpoint_id().expect("a sealed manifest has valid ids");
                // A dropped sender is no order to abort.
                let abort = async move {
                    if abort.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                match log.publish(*manifest, abort).await {
                    PublishOutcome::Published(_) => LogAnswer::Published(id),
                    PublishOutcome::Aborted => LogAnswer::Aborted(id),
                    PublishOutcome::Fenced { by } => {
                        LogAnswer::Fenced(format!("entry {by} of the job's log was written by another process"))
                    }
                    PublishOutcome::Undecided { reason } => LogAnswer::GaveUp(id, reason),
                }
            }
            Order::Finish(id) => match log.finish(id).await {
                FinishOutcome::Finished => LogAnswer::Finished(id),
                FinishOutcome::Fenced { by } => {
                    LogAnswer::Fenced(format!("entry {by} of the job's log was written by another process"))
                }
                FinishOutcome::Undecided { reason } => LogAnswer::GaveUp(id, reason),
            },
        };
        listener(answer);
    }
    log
}

async fn clean(log: LogStore, mut plugins: BTreeSet<String>, mut dirt: mpsc::UnboundedReceiver<Cleanup>) {
    while let Some(cleanup) = dirt.recv().await {
        let removed = match cleanup {
            Cleanup::Hold(plugin, done) => {
                plugins.insert(plugin);
                // Whoever asked may be gone.
                let _ = done.send(());
                continue;
            }
            Cleanup::Release(names) => Ok(gc::release(log.storage(), names).await),
            Cleanup::Retain(retain, files) => gc::retain(&log, retain, &References { files, plugins: plugins.clone() }).await,
        };
        match removed {
            Ok(removed) => {
                for leftover in removed.leftovers {
                    tracing::warn!(file = leftover.name, error = %leftover.error, "can't be deleted now; a later start tries again");
                }
            }
            Err(error) => tracing::warn!(%error, "old checkpoints can't be removed now; the next checkpoint tries again"),
        }
    }
}
