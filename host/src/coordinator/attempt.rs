//! One attempt of a job: the event loop that drives the checkpoint coordinator and the sinks' commits.
//!
//! It never touches a record. Effects of the machines are carried out in their order; whatever takes long (uploads, the log,
//! commits) runs elsewhere and comes back as an event.

mod swap;

use super::assemble::{Acknowledged, Frame, assemble, committables_of};
use super::commits::{Place, SinkAnswer, SinkCommits, SinkNews};
use super::deploy::{Deployment, JobParts};
use super::figures::Figures;
use super::keeper::{LogAnswer, LogKeeper};
use super::losses::lost_transaction;
use super::swap::Swaps;
use super::upload::{AbortedCheckpoints, StoredSnapshot, UploadStop, store_snapshot};
use crate::connectors::{Remedy, SplitState};
use crate::job::{CheckpointProgress, EventListener, JobEvent, LostTransaction, StopRequest, StopSignal};
use crate::store::CheckpointStore;
use crate::task::messages::{SubtaskSnapshot, TaskControl, TaskEvent, TaskFailure};
use crate::{clock, crash};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use swap::SwapNews;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use weir_protocol::coordinator::{
    AbortReason, AckOutcome, CheckpointCoordinator, CheckpointKind, Committable, CoordEffect, CoordEvent, FailOverReason,
};
use weir_protocol::{CheckpointId, Generation, Lineage, SubtaskIndex};

/// Time between two figures for the progress display.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Completed checkpoints of an attempt before former places of sinks are let go: the newest manifest may turn out to be
/// unreadable, as for `Forget`.
const CHECKPOINTS_BEFORE_RETIRED: u32 = 2;

/// What an attempt hears.
#[derive(Debug)]
pub enum Event {
    /// From a subtask.
    Task(TaskEvent),
    /// A snapshot is stored, or was not.
    Uploaded(SubtaskIndex, CheckpointId, Result<StoredSnapshot, UploadStop>),
    /// From the log.
    Log(LogAnswer),
    /// From a sink's committer.
    Sink(usize, SinkAnswer),
    /// A source has new splits; says which.
    Grown(String),
    /// A step of a swap.
    Swap(SwapNews),
}

/// How an attempt ended. Its threads still run.
#[derive(Debug)]
pub enum AttemptEnd {
    /// Everything is committed, and the log says `finished`.
    Finished(CheckpointId),
    /// The suspension checkpoint is committed.
    Suspended(CheckpointId),
    /// The checkpoint before new splits of a source are read is committed; says which.
    Grown(String),
    /// The user wants no checkpoint.
    StoppedNow,
    /// Another process owns the job.
    Fenced(String),
    /// Exit 3.
    Lost(Vec<LostTransaction>),
    /// To be restarted, if the policy allows.
    Failed(TaskFailure),
}

/// What an attempt works with.
pub struct AttemptSetup {
    /// The job.
    pub parts: Arc<JobParts>,
    /// Splits of each source as the attempt begins.
    pub splits: Vec<Vec<SplitState>>,
    /// Its number.
    pub generation: Generation,
    /// Its history.
    pub lineage: Lineage,
    /// Where state files go.
    pub store: Arc<CheckpointStore>,
    /// The log and the clean-up behind it.
    pub keeper: LogKeeper,
    /// Commits of each transactional sink of the job file; the index stands in `Event::Sink`.
    pub commits: Vec<SinkCommits>,
    /// Those of former places of sinks, which the recovery has ended. What they keep to answer a repeated commit stays until
    /// [`CHECKPOINTS_BEFORE_RETIRED`] checkpoints without them are complete.
    pub former: Vec<SinkCommits>,
    /// The pure machine, fresh.
    pub machine: CheckpointCoordinator,
    /// Its running subtasks.
    pub deployment: Deployment,
    /// Which builds run, and what comes of swaps.
    pub swaps: Swaps,
    /// Origin of the monotonic times that the machines see.
    pub origin: Instant,
    /// Hears what happens.
    pub listener: EventListener,
    /// The last completed checkpoint, for the display.
    pub last_completed: Option<CheckpointProgress>,
}

struct Pending {
    triggered: Instant,
    kind: CheckpointKind,
    acknowledged: Acknowledged,
}

/// A running attempt. See the module.
pub struct AttemptRun {
    setup: AttemptSetup,
    events: UnboundedSender<Event>,
    pending: BTreeMap<CheckpointId, Pending>,
    /// Sinks (by index in `commits`) that still owe each completed checkpoint.
    owed_commits: BTreeMap<CheckpointId, BTreeSet<usize>>,
    aborted: AbortedCheckpoints,
    /// Checkpoints that this attempt has completed.
    completed: u32,
    /// Why the last subtask failed: the machine only says which.
    failure: Option<TaskFailure>,
    /// Why the last checkpoint was aborted by a storage error.
    upload_error: Option<String>,
    /// Why the last checkpoint was aborted.
    aborted_because: String,
    lost: Vec<LostTransaction>,
    /// Whether its last checkpoint was asked for.
    suspending: bool,
    /// Why, if not because the user wants it.
    grown: Option<String>,
    end: Option<AttemptEnd>,
    figures: Figures,
}

impl AttemptRun {
    /// Takes over a deployed attempt. `events`: where uploads answer.
    pub fn new(setup: AttemptSetup, events: UnboundedSender<Event>) -> Self {
        let figures = Figures::new(&setup.parts, &setup.deployment, setup.origin);
        AttemptRun {
            setup,
            events,
            pending: BTreeMap::new(),
            owed_commits: BTreeMap::new(),
            aborted: AbortedCheckpoints::default(),
            completed: 0,
            failure: None,
            upload_error: None,
            aborted_because: String::new(),
            lost: Vec::new(),
            suspending: false,
            grown: None,
            end: None,
            figures,
        }
    }

    /// Runs until the attempt ends; gives back what outlives it.
    pub async fn run(
        mut self,
        inbox: &mut UnboundedReceiver<Event>,
        stop: &mut StopSignal,
    ) -> (AttemptEnd, AttemptSetup, Figures) {
        self.stop_requested(stop.requested());
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        loop {
            if let Some(end) = self.end.take() {
                return (end, self.setup, self.figures);
            }
            let deadline = self.deadline();
            tokio::select! {
                event = inbox.recv() => self.on_event(event.expect("this run keeps a sender")),
                request = stop.changed() => self.stop_requested(request),
                request = self.setup.swaps.requests.recv() => self.swap_requested(request.expect("the run keeps a sender")),
                _ = ticks.tick() => self.show_figures(),
                () = tokio::time::sleep_until(deadline.into()) => self.tick(),
            }
        }
    }

    fn now(&self) -> Duration {
        self.setup.origin.elapsed()
    }

    fn deadline(&self) -> Instant {
        let wakes = self.setup.commits.iter().filter_map(SinkCommits::wake_at);
        let next = wakes.chain(self.setup.machine.next_deadline()).min();
        // A far instant stands for "nothing is due".
        self.setup.origin + next.unwrap_or(self.now() + Duration::from_secs(3600))
    }

    fn tick(&mut self) {
        let now = self.now();
        for sink in 0..self.setup.commits.len() {
            let news = self.setup.commits[sink].tick(now);
            self.sink_news(sink, news);
        }
        if self.setup.machine.next_deadline().is_some_and(|at| at <= now) {
            self.step(CoordEvent::Tick { now });
        }
    }

    fn stop_requested(&mut self, request: StopRequest) {
        match request {
            StopRequest::None => {}
            StopRequest::Suspend => {
                self.suspending = true;
                self.grown = None;
                (self.setup.listener)(JobEvent::Suspending);
                self.step(CoordEvent::RequestSuspend { now: self.now() });
            }
            StopRequest::Now => self.end = Some(AttemptEnd::StoppedNow),
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Task(event) => self.on_task(now, event),
            Event::Uploaded(_, _, Ok(snapshot)) => self.acknowledge(now, snapshot),
            Event::Uploaded(_, _, Err(UploadStop::Aborted)) => {}
            Event::Uploaded(subtask, checkpoint, Err(UploadStop::Failed(error))) => {
                tracing::warn!(%checkpoint, %error, "a state file could not be stored");
                self.upload_error = Some(error.to_string());
                self.step(CoordEvent::Decline { now, checkpoint, subtask });
            }
            Event::Log(answer) => self.on_log(now, answer),
            Event::Grown(what) => {
                if !self.suspending {
                    self.suspending = true;
                    self.grown = Some(what);
                    self.step(CoordEvent::RequestSuspend { now });
                }
            }
            Event::Swap(news) => self.on_swap(news),
            Event::Sink(sink, answer) => {
                let news = self.setup.commits[sink].answered(now, answer);
                self.sink_news(sink, news);
            }
        }
    }

    fn on_task(&mut self, now: Duration, event: TaskEvent) {
        let generation = self.setup.generation;
        match event {
            TaskEvent::EndOfData { subtask } => self.step(CoordEvent::SourceEndOfData { now, generation, subtask }),
            TaskEvent::Declined { subtask, checkpoint } => self.step(CoordEvent::Decline { now, checkpoint, subtask }),
            TaskEvent::Snapshot(snapshot) => self.upload(snapshot),
            // Subtasks only finish after `Finish`, when nobody asks any more.
            TaskEvent::Finished { .. } => {}
            TaskEvent::Exchanged { pause } => self.setup.swaps.paused(pause),
            TaskEvent::Failed { subtask, failure, culprit } => {
                if let Some(culprit) = culprit {
                    self.setup.swaps.build_failed(culprit, &failure.message);
                }
                // What can't be mended by a restart ends the job, whatever the policy says.
                self.failure.get_or_insert(failure);
                self.step(CoordEvent::TaskFailed { now, generation, subtask });
            }
        }
    }

    fn upload(&self, snapshot: SubtaskSnapshot) {
        let (store, aborted, events) = (Arc::clone(&self.setup.store), self.aborted.clone(), self.events.clone());
        tokio::spawn(async move {
            let (subtask, checkpoint) = (snapshot.subtask, snapshot.checkpoint);
            let stored = store_snapshot(&store, snapshot, &aborted).await;
            // Nobody listens once the attempt has ended.
            let _ = events.send(Event::Uploaded(subtask, checkpoint, stored));
        });
    }

    fn acknowledge(&mut self, now: Duration, snapshot: StoredSnapshot) {
        let (subtask, checkpoint) = (snapshot.subtask, snapshot.checkpoint);
        let files = snapshot.files.clone();
        let since_origin = |at: Instant| at.saturating_duration_since(self.setup.origin);
        let of = |one: &crate::connectors::Committable| Committable {
            id: one.id.clone(),
            valid_until: one.valid_until.map(since_origin),
        };
        let committables = snapshot.committables().map(of).collect();
        if let Some(pending) = self.pending.get_mut(&checkpoint) {
            pending.acknowledged.entry(subtask).or_insert(snapshot);
        }
        self.step(CoordEvent::Acknowledge { now, checkpoint, subtask, files, committables });
    }

    fn on_log(&mut self, now: Duration, answer: LogAnswer) {
        match answer {
            LogAnswer::Published(checkpoint) => {
                crash::point("manifest-published");
                self.completed_progress(checkpoint);
                self.step(CoordEvent::Published { now, checkpoint });
            }
            LogAnswer::Aborted(checkpoint) => self.step(CoordEvent::TombstoneStands { now, checkpoint }),
            LogAnswer::Finished(checkpoint) => self.end = Some(AttemptEnd::Finished(checkpoint)),
            LogAnswer::Fenced(by) => {
                self.step(CoordEvent::NewerClaim { now });
                self.end = Some(AttemptEnd::Fenced(by));
            }
            LogAnswer::GaveUp(checkpoint, reason) => {
                // What became of the entry is not known: neither commit nor abort; the next claim finds out.
                let message = format!("the job's log could not be written: {reason}");
                self.failure = Some(TaskFailure { place: "checkpoint storage".into(), message, remedy: Remedy::Restart });
                self.step(CoordEvent::PublishUnknown { now, checkpoint });
                if self.end.is_none() {
                    // It was `finished` that could not be written: the machine is done already.
                    let failure = self.failure.take().expect("set above");
                    self.end = Some(AttemptEnd::Failed(failure));
                }
            }
        }
    }

    fn completed_progress(&mut self, checkpoint: CheckpointId) {
        let Some(pending) = self.pending.get(&checkpoint) else { return };
        let parts = pending.acknowledged.values();
        let progress = CheckpointProgress {
            checkpoint,
            duration: pending.triggered.elapsed(),
            uploaded_bytes: parts.clone().map(|part| part.uploaded_bytes).sum(),
            state_bytes: parts.map(StoredSnapshot::state_bytes).sum(),
        };
        self.setup.last_completed = Some(progress.clone());
        (self.setup.listener)(JobEvent::CheckpointCompleted(progress));
    }

    /// Hands an event to the machine and carries its effects out, in order.
    fn step(&mut self, event: CoordEvent) {
        let mut effects = Vec::new();
        self.setup.machine.handle(event, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: CoordEffect) {
        match effect {
            CoordEffect::Acknowledged { checkpoint, outcome, .. } => match outcome {
                AckOutcome::Accepted => crash::point("ack-received"),
                AckOutcome::Duplicate | AckOutcome::Late | AckOutcome::Unknown | AckOutcome::StaleGeneration => {
                    tracing::debug!(%checkpoint, ?outcome, "acknowledgement does not count");
                }
            },
            CoordEffect::InjectBarrier { checkpoint, kind, sources } => self.inject(checkpoint, kind, &sources),
            CoordEffect::PublishManifest { checkpoint } => {
                crash::point("all-acked");
                self.publish(checkpoint);
            }
            CoordEffect::PutTombstone { .. } => self.setup.keeper.abort(),
            CoordEffect::NotifyComplete { checkpoint } => {
                self.tell_all(&TaskControl::Complete(checkpoint));
                let took = self.pending.get(&checkpoint).map_or(Duration::ZERO, |pending| pending.triggered.elapsed());
                self.swap_completed(checkpoint, took);
            }
            CoordEffect::Commit(permit) => self.commit(permit),
            CoordEffect::NotifyAborted { checkpoint, reason } => self.checkpoint_aborted(checkpoint, reason),
            CoordEffect::Subsume { .. } => {
                // May be more than the job file says: what a checkpoint under way builds on stays.
                let retain = self.setup.machine.registry().completed().len();
                self.setup.keeper.retain(retain, self.files_under_way());
            }
            CoordEffect::ReleaseFiles { names } => self.setup.keeper.release(names),
            CoordEffect::FailOver { reason } => self.fail_over(reason),
            CoordEffect::Fenced => {
                self.end.get_or_insert(AttemptEnd::Fenced("a newer claim stands in the job's log".into()));
            }
            CoordEffect::Finished { checkpoint } => self.setup.keeper.finish(checkpoint),
            CoordEffect::Suspended { checkpoint } => {
                self.end = Some(match self.grown.take() {
                    Some(what) => AttemptEnd::Grown(what),
                    None => AttemptEnd::Suspended(checkpoint),
                });
            }
        }
    }

    fn inject(&mut self, checkpoint: CheckpointId, kind: CheckpointKind, sources: &BTreeSet<SubtaskIndex>) {
        let triggered = clock::monotonic();
        self.pending.insert(checkpoint, Pending { triggered, kind, acknowledged: BTreeMap::new() });
        let pause = match kind {
            CheckpointKind::Periodic => false,
            CheckpointKind::Swap => {
                self.hand_out(checkpoint);
                false
            }
            CheckpointKind::Suspension => true,
            CheckpointKind::Final => {
                crash::point("final-checkpoint");
                true
            }
        };
        for source in sources {
            self.setup.deployment.controls[source.0 as usize].send(TaskControl::InjectBarrier { checkpoint, pause });
        }
        if kind == CheckpointKind::Swap {
            crash::point("swap-checkpoint");
        }
    }

    /// Files that checkpoints under way refer to.
    fn files_under_way(&self) -> BTreeSet<String> {
        let snapshots = self.pending.values().flat_map(|pending| pending.acknowledged.values());
        snapshots.flat_map(|snapshot| &snapshot.files).map(|file| file.name.clone()).collect()
    }

    fn publish(&mut self, checkpoint: CheckpointId) {
        let pending = &self.pending[&checkpoint];
        let frame = Frame {
            parts: &self.setup.parts,
            splits: &self.setup.splits,
            lineage: self.setup.lineage,
            checkpoint,
            last: pending.kind == CheckpointKind::Final,
            builds: self.setup.swaps.after(checkpoint),
        };
        let manifest = assemble(&frame, &pending.acknowledged);
        self.setup.keeper.publish(manifest);
    }

    fn tell_all(&self, control: &TaskControl) {
        for gate in &self.setup.deployment.controls {
            gate.send(control.clone());
        }
    }

    fn checkpoint_aborted(&mut self, checkpoint: CheckpointId, reason: AbortReason) {
        self.pending.remove(&checkpoint);
        self.aborted.insert(checkpoint);
        self.tell_all(&TaskControl::Abort(checkpoint));
        let mut text = self.explain_abort(reason);
        if let Some(error) = &self.upload_error {
            text = format!("{text}: {error}");
        }
        self.aborted_because.clone_from(&text);
        (self.setup.listener)(JobEvent::CheckpointAborted { checkpoint, reason: text });
    }

    fn explain_abort(&self, reason: AbortReason) -> String {
        match reason {
            AbortReason::Timeout => "not every subtask acknowledged it in time ([checkpoint].timeout)".into(),
            AbortReason::Declined(subtask) => format!("{} could not take part", self.place(subtask)),
            AbortReason::Subsumed => "a newer one completed first".into(),
            AbortReason::FileGone(subtask) => format!("{} counted on a file that is gone", self.place(subtask)),
            AbortReason::OverBound(subtask) => {
                format!("{} named more files or committables than can be kept", self.place(subtask))
            }
            AbortReason::Expired => "a prepared transaction would have expired before its commit".into(),
            AbortReason::Tombstone => "it was given up for certain".into(),
            AbortReason::FailOver => "the attempt ends".into(),
        }
    }

    fn place(&self, subtask: SubtaskIndex) -> String {
        match self.setup.parts.execution.locate(subtask) {
            Some((task, within)) => format!("{}[{within}]", self.setup.parts.execution.tasks[task.0].name),
            None => format!("subtask {}", subtask.0),
        }
    }

    fn fail_over(&mut self, reason: FailOverReason) {
        let failure = match reason {
            FailOverReason::TaskFailed(subtask) => self.failure.take().unwrap_or_else(|| TaskFailure {
                place: self.place(subtask),
                message: "the subtask failed".into(),
                remedy: Remedy::Restart,
            }),
            FailOverReason::TooManyAborts(checkpoint) => {
                let why = self.upload_error.take().map_or(String::new(), |error| format!("; the last one because: {error}"));
                let message = format!("more checkpoints in a row were aborted than [checkpoint].tolerable_failures allows{why}");
                TaskFailure { place: format!("checkpoint {checkpoint}"), message, remedy: Remedy::Restart }
            }
            FailOverReason::Expired(checkpoint) => TaskFailure {
                place: format!("checkpoint {checkpoint}"),
                message: "a prepared transaction would have expired before it could be committed; its input is read again".into(),
                remedy: Remedy::Restart,
            },
            FailOverReason::PublishUnknown(checkpoint) => self.failure.take().unwrap_or_else(|| TaskFailure {
                place: format!("checkpoint {checkpoint}"),
                message: "nobody can say whether its manifest was written".into(),
                remedy: Remedy::Restart,
            }),
            FailOverReason::SwapAborted(checkpoint) => TaskFailure {
                place: format!("checkpoint {checkpoint}"),
                message: format!("the checkpoint of the swap was aborted: {}", self.aborted_because),
                remedy: Remedy::Refresh,
            },
            FailOverReason::SequenceExhausted => TaskFailure {
                place: "coordinator".into(),
                message: "this attempt has used up its checkpoint ids; a new one goes on".into(),
                remedy: Remedy::Restart,
            },
        };
        self.end.get_or_insert(AttemptEnd::Failed(failure));
    }

    fn commit(&mut self, permit: weir_protocol::coordinator::CommitPermit) {
        let checkpoint = permit.checkpoint();
        self.upload_error = None;
        let Some(pending) = self.pending.remove(&checkpoint) else { return };
        let now = self.now();
        self.owed_commits.insert(checkpoint, (0..self.setup.commits.len()).collect());
        for sink in 0..self.setup.commits.len() {
            let committables = match self.setup.commits[sink].place() {
                Place::JobFile(index) => committables_of(&pending.acknowledged, *index),
                Place::Former { .. } => unreachable!("only sinks of the job file have writers"),
            };
            let news = self.setup.commits[sink].permit(now, permit.clone(), committables);
            self.sink_news(sink, news);
        }
        if self.setup.commits.is_empty() {
            self.commits_done(checkpoint);
        }
        self.completed += 1;
        if self.completed == CHECKPOINTS_BEFORE_RETIRED {
            let former = std::mem::take(&mut self.setup.former);
            // Nobody waits for it: what stays because the process dies is tidied up by the next start.
            tokio::task::spawn_blocking(move || former.into_iter().for_each(SinkCommits::retire));
        }
    }

    fn sink_news(&mut self, sink: usize, news: Vec<SinkNews>) {
        let mut committed = false;
        for item in news {
            match item {
                SinkNews::Committed(transactions) => {
                    committed = true;
                    self.tell_all(&TaskControl::KnownCommitted(transactions));
                }
                SinkNews::PermitDone(checkpoint) => {
                    let owed = self.owed_commits.get_mut(&checkpoint);
                    if owed.is_some_and(|owed| owed.remove(&sink) && owed.is_empty()) {
                        self.commits_done(checkpoint);
                    }
                }
                SinkNews::RecoveryCommitted | SinkNews::RecoveryAborted => {
                    tracing::debug!(sink = self.setup.commits[sink].name(), "recovery answered twice");
                }
                SinkNews::Notice(text) => (self.setup.listener)(JobEvent::Notice(text)),
                SinkNews::Lost { committable, id, reason } => {
                    self.lost.push(lost_transaction(
                        &self.setup.parts.graph,
                        &self.setup.splits,
                        committable.as_deref(),
                        id,
                        &reason,
                    ));
                    self.end = Some(AttemptEnd::Lost(self.lost.clone()));
                }
                SinkNews::RecoveryFailed(message) => {
                    let place = self.setup.commits[sink].name().to_owned();
                    self.end = Some(AttemptEnd::Failed(TaskFailure { place, message, remedy: Remedy::Restart }));
                }
            }
        }
        // The one place of this point: an answer of one writer's commit is recorded, those of others, of this sink or another,
        // are still owed.
        if committed && !self.owed_commits.is_empty() {
            crash::point("commit-partial");
        }
    }

    fn commits_done(&mut self, checkpoint: CheckpointId) {
        crash::point("committed");
        self.owed_commits.remove(&checkpoint);
        self.figures.committed = Some(checkpoint);
        (self.setup.listener)(JobEvent::Committed { checkpoint });
        self.step(CoordEvent::CommitsDone { now: self.now(), checkpoint });
    }

    fn show_figures(&mut self) {
        let progress = self.figures.read(self.setup.last_completed.clone());
        (self.setup.listener)(JobEvent::Progress(progress));
    }
}
