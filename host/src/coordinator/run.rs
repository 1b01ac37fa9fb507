//! Runs a job: lock, claim, recover, run, and again after a failure, as the restart policy says.

mod before_claim;

use super::attempt::{AttemptEnd, AttemptRun, AttemptSetup, Event};
use super::commits::SinkCommits;
use super::deploy::{Attempt, DeployFailure, JobParts, Restored, deploy, source_subtasks};
use super::ending::{by_place, close_commits, failure_of, join, leave, retire};
use super::keeper::LogKeeper;
use super::outside::{OutsideRecovery, RecoveryError};
use super::recovery::{differing_splits, fetch_state, first_restorable, source_watermarks, splits_of};
use super::refusals;
use super::swap::Swaps;
use super::targets::Finding;
use super::working_state::WorkingState;
use super::{compat, discovery, prepare};
use crate::clock;
use crate::connectors::{AbortAnswer, CommitterContext, Remedy, SplitState};
use crate::control::ControlSocket;
use crate::disk::DiskTrouble;
use crate::graph::{Problem, RestartStrategy as SpecStrategy};
use crate::job::{EventListener, Failure, JobEvent, JobOutcome, RunOptions, StartMode, StopRequest, StopSignal};
use crate::store::lock::DataLock;
use crate::store::manifest::Manifest;
use crate::store::{Backoff, CheckpointStore, ClaimError, Claimed, Claiming, JobLog, LogError, LogStore, References, claim, gc};
use crate::task::messages::{TaskControl, TaskFailure};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use weir_protocol::coordinator::{CheckpointCoordinator, CompletedCheckpoint, CoordinatorConfig};
use weir_protocol::log::claimant::ClaimRequest;
use weir_protocol::log::{ClaimFacts, LogView, Start};
use weir_protocol::recovery::{Ask, Purpose, RecoveryPlan, Refusal, StartPoint};
use weir_protocol::restart::{RestartEffect, RestartEvent, RestartPolicy, RestartStrategy};
use weir_protocol::{CheckpointId, Generation, Lineage};

/// A job that is about to run.
pub struct JobRun {
    parts: Arc<JobParts>,
    options: RunOptions,
    listener: EventListener,
    store: Arc<CheckpointStore>,
    log: LogStore,
    /// Origin of the monotonic times that the machines see.
    origin: Instant,
    policy: RestartPolicy,
    /// Attempts so far, those that did not get as far as a claim included.
    tries: u32,
    /// What the next claim asks for: the user's wish first, then a plain resume.
    mode: StartMode,
    working: WorkingState,
    /// Nonces of the claims that this process has asked for.
    nonces: BTreeSet<u128>,
    /// Whether one of them stood.
    has_claimed: bool,
    /// Generations up to this one have named output of which this log knows nothing.
    above: Generation,
    /// Splits of a start from the beginning, enumerated once in this process.
    enumerated: Option<Vec<Vec<SplitState>>>,
    connectors: prepare::SinkFactory,
    /// Which builds run; none while an attempt has it.
    swaps: Option<Swaps>,
}

/// What came of one attempt.
enum Step {
    Done(JobOutcome),
    Again(TaskFailure),
}

type Early = Box<JobOutcome>;

/// Runs a job to its end.
pub async fn run_job(
    parts: JobParts,
    connectors: prepare::SinkFactory,
    options: RunOptions,
    mut stop: StopSignal,
    listener: EventListener,
) -> JobOutcome {
    // The lock only spares users a mistake; the claim is the fence.
    let _lock = match DataLock::acquire(&options.data, &parts.graph.name) {
        Ok(lock) => lock,
        Err(error) => return refused(&options.data.display().to_string(), error.to_string(), ""),
    };
    let working = WorkingState::of(&options.data);
    if let Err(problem) = working.check() {
        return JobOutcome::Refused { problems: vec![problem] };
    }
    let folder = parts.graph.checkpoint.folder(&options.data);
    let store = match CheckpointStore::create(&folder.display().to_string()) {
        Ok(store) => store,
        Err(error) => return refused("[checkpoint].storage", error.to_string(), ""),
    };
    let log = LogStore::new(store.clone(), &parts.graph.name);
    let restart = &parts.graph.restart;
    let strategy = match restart.strategy {
        SpecStrategy::None => RestartStrategy::None,
        SpecStrategy::Fixed => RestartStrategy::Fixed { delay: restart.delay, attempts: restart.attempts },
        SpecStrategy::Exponential => {
            RestartStrategy::Exponential { delay: restart.delay, max_delay: restart.max_delay, attempts: restart.attempts }
        }
    };
    let policy = RestartPolicy::new(strategy, restart.reset_after);
    let mode = options.mode;
    let parts = Arc::new(parts);
    let (wishes, requests) = unbounded_channel();
    let socket = match options.control.then(|| ControlSocket::open(&options.data, wishes.clone())).transpose() {
        Ok(socket) => socket,
        Err(error) => {
            return refused(
                "--control",
                format!("the socket can't be made: {error}"),
                "run the job without it, or with another --data",
            );
        }
    };
    if let Some(socket) = &socket {
        listener(JobEvent::Notice(format!("control socket: {}", socket.path().display())));
    }
    let swaps = Some(Swaps::new(&parts, &listener, requests));
    let mut run = JobRun {
        parts,
        options,
        listener,
        store: Arc::new(store),
        log,
        origin: clock::monotonic(),
        policy,
        tries: 0,
        mode,
        working,
        nonces: BTreeSet::new(),
        has_claimed: false,
        above: Generation(0),
        enumerated: None,
        connectors,
        swaps,
    };
    let outcome = match run.check_before_claim().await {
        Ok(()) => {
            let outcome = run.attempts(&mut stop).await;
            run.working.remove();
            outcome
        }
        Err(outcome) => *outcome,
    };
    // Who waits for an answer hears that the job has ended.
    drop((run, wishes));
    if let Some(socket) = socket {
        tokio::task::spawn_blocking(move || socket.close()).await.expect("closing a socket does not panic");
    }
    outcome
}

fn refused(place: &str, what: String, next: &str) -> JobOutcome {
    JobOutcome::Refused { problems: vec![Problem::new(place, what, next)] }
}

impl JobRun {
    async fn attempts(&mut self, stop: &mut StopSignal) -> JobOutcome {
        loop {
            self.tries += 1;
            let failure = match self.attempt(stop).await {
                Ok(Step::Done(outcome)) => return outcome,
                Err(outcome) => return *outcome,
                Ok(Step::Again(failure)) => failure,
            };
            // Only the first start follows the user's wish; what it wrote is in the log.
            self.mode = StartMode::Resume;
            self.swaps().attempt_ended(&failure.message);
            if self.swaps().takes_back() {
                // The next attempt says so; it is no failure of the job.
                continue;
            }
            let why = failure_of(&failure);
            match failure.remedy {
                Remedy::Permanent => return JobOutcome::Failed(why),
                Remedy::Refresh => {
                    (self.listener)(JobEvent::Notice(failure.message));
                    continue;
                }
                Remedy::Restart => {}
            }
            let mut effects = Vec::new();
            let attempt = Generation(self.tries);
            self.policy.handle(RestartEvent::Failed { now: self.origin.elapsed(), generation: attempt }, &mut effects);
            for effect in effects {
                match effect {
                    RestartEffect::GiveUp { failures } => {
                        let why = match failures {
                            1 => why,
                            _ => Failure { why: format!("{} ({failures} failures in a row)", why.why), ..why },
                        };
                        return JobOutcome::Failed(why);
                    }
                    RestartEffect::RestartAt { at, attempt } => {
                        let delay = at.saturating_sub(self.origin.elapsed());
                        let attempts = self.parts.graph.restart.attempts;
                        (self.listener)(JobEvent::Restarting { failures: attempt, attempts, delay, why: why.clone() });
                        if self.wait(delay, stop).await {
                            return JobOutcome::Stopped { resumes_from: self.newest().await };
                        }
                    }
                }
            }
        }
    }

    fn swaps(&mut self) -> &mut Swaps {
        self.swaps.as_mut().expect("an attempt gives it back")
    }

    /// Waits for a restart. True: the user wants to stop instead; what is committed is committed, nothing runs.
    async fn wait(&self, delay: Duration, stop: &mut StopSignal) -> bool {
        if stop.requested() != StopRequest::None {
            return true;
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => false,
            _ = stop.changed() => true,
        }
    }

    async fn newest(&self) -> Option<CheckpointId> {
        let entries = self.log.read_entries().await.ok()?;
        LogView::new(entries).newest().map(|(_, entry)| entry.id)
    }

    /// One attempt, from claim to end; every thread of it has ended when this returns.
    async fn attempt(&mut self, stop: &mut StopSignal) -> Result<Step, Early> {
        // Between two attempts, too, another process may have come: it is not to be fenced by a restart that knows nothing of it.
        if let Some(fenced) = self.taken_over().await {
            return Ok(Step::Done(fenced));
        }
        let claimed = match claim(self.log.clone(), self.claim_request(), Backoff::default()).await {
            Ok(Claiming::Claimed(claimed)) => *claimed,
            Ok(Claiming::Finished(checkpoint)) => {
                self.tidy_finished(checkpoint).await;
                return Ok(Step::Done(JobOutcome::AlreadyFinished { checkpoint }));
            }
            Err(ClaimError::Refused(refusal)) => {
                // To be able to read its manifest is not enough: what the user is told to type must work.
                let older = match &refusal {
                    Refusal::NewestUnreadable { .. } => self.restorable(None).await,
                    Refusal::ForeignLog { .. } | Refusal::NoSuchCheckpoint { .. } | Refusal::WouldRepeat { .. } => None,
                };
                return Ok(Step::Done(refusals::outcome(&self.parts.graph.name, self.store.place(), refusal, older)));
            }
            Err(ClaimError::Storage(message)) => {
                let place = "checkpoint storage".into();
                return Ok(Step::Again(TaskFailure { place, message, remedy: Remedy::Restart }));
            }
        };
        let Claimed { claim, plan, log } = claimed;
        self.has_claimed = true;
        let ended = match self.recovered(plan, claim.lineage, claim.generation, log, stop).await {
            Ok(Ok(outcome)) => Ok(Step::Done(outcome)),
            Ok(Err(failure)) => Ok(Step::Again(failure)),
            Err(outcome) => Err(outcome),
        };
        // What a newer owner has aborted, committed or cleaned up looks like a failure to this process.
        match (is_trouble(&ended), self.taken_over().await) {
            (true, Some(fenced)) => Ok(Step::Done(fenced)),
            (true, None) | (false, _) => ended,
        }
    }

    /// [`JobOutcome::Fenced`] if this process has had the job, and another one has claimed it since. A log that can't be read
    /// says nothing.
    async fn taken_over(&self) -> Option<JobOutcome> {
        if !self.has_claimed {
            return None;
        }
        let view = LogView::new(self.log.read_entries().await.ok()?);
        let (slot, newest) = view.newest_claim()?;
        let foreign = !self.nonces.contains(&newest.nonce);
        foreign.then(|| JobOutcome::Fenced { by: format!("entry {slot} of the job's log was written by another process") })
    }

    /// The run that finished the job may have been killed before it had cleaned up: what it kept to answer a repeated commit,
    /// and what no checkpoint refers to, goes now. Nothing of a newer generation is touched.
    async fn tidy_finished(&self, last: CheckpointId) {
        let Ok(entries) = self.log.read_entries().await else { return };
        let view = LogView::new(entries);
        let Some((slot, claim)) = view.newest_claim() else { return };
        let context = CommitterContext {
            job: self.parts.graph.name.clone(),
            lineages: view.facts().lineages.into_iter().collect(),
            generation: claim.generation,
            plugin: None,
        };
        for sink in self.parts.sinks.iter().filter(|sink| sink.is_transactional()) {
            let context = CommitterContext { plugin: sink.plugin_digest().map(str::to_owned), ..context.clone() };
            let tidied = sink.committer(&context).and_then(|committer| match committer {
                None => Ok(()),
                Some(mut committer) => {
                    let mut ended = committer.list_dangling()?;
                    ended.retain(|id| id.generation <= last.generation());
                    // All that the final checkpoint holds is committed: what is not was left by a process that was fenced, or
                    // killed before its checkpoint was published.
                    let answers = committer.abort(&ended);
                    let committed = ended.into_iter().zip(answers).filter(|(_, answer)| *answer == AbortAnswer::Committed);
                    committer.forget(&committed.map(|(id, _)| id).collect::<Vec<_>>())?;
                    committer.close(true)
                }
            });
            if let Err(error) = tidied {
                tracing::warn!(%error, "what the finished run left could not be cleaned up");
            }
        }
        let in_use = References { files: BTreeSet::new(), plugins: self.plugins_in_use() };
        let above = Generation(claim.generation.0 + 1);
        if let Err(error) = gc::collect_garbage(&self.log, above, slot, &in_use).await {
            tracing::warn!(%error, "the checkpoint storage could not be cleaned up");
        }
    }

    fn claim_request(&mut self) -> ClaimRequest {
        let start = match self.mode {
            StartMode::Resume => Start::Newest,
            StartMode::Fresh => Start::Scratch,
            StartMode::From(id) => Start::From(id),
        };
        let targets = self.parts.sinks.iter().filter_map(|sink| sink.target());
        let parallelism = self.parts.graph.sinks.iter().map(|sink| sink.parallelism).max().unwrap_or(1);
        let facts = ClaimFacts {
            sink_paths: targets.map(|target| target.display().to_string()).collect(),
            parallelism,
            ..ClaimFacts::default()
        };
        let nonce = uuid::Uuid::new_v4().as_u128();
        self.nonces.insert(nonce);
        ClaimRequest {
            nonce,
            new_lineage: Lineage(uuid::Uuid::new_v4().as_u128()),
            ask: Ask { purpose: Purpose::Run, start, allow_duplicates: self.options.allow_duplicates },
            facts,
            above: self.above,
        }
    }

    async fn manifest(&self, id: CheckpointId) -> Result<Manifest, Early> {
        match self.log.manifest(id).await {
            Ok(manifest) => Ok(manifest),
            Err(error @ LogError::Store(_)) => Err(Box::new(refused("checkpoint storage", error.to_string(), ""))),
            Err(error) => Err(Box::new(self.cannot_restore(Some(id), error.to_string()).await)),
        }
    }

    /// Every manifest of the log that can be read, newest first.
    async fn kept_manifests(&self) -> Vec<Manifest> {
        let mut kept = Vec::new();
        for id in self.log.read_entries().await.map_or(Vec::new(), |entries| LogView::new(entries).checkpoint_ids()) {
            kept.extend(self.log.manifest(id).await.ok());
        }
        kept.reverse();
        kept
    }

    async fn check_fit(&self, manifest: &Manifest) -> Result<Vec<String>, Early> {
        match compat::check(&self.parts, manifest) {
            Ok(notices) => Ok(notices),
            Err(why) => Err(Box::new(self.cannot_restore(manifest.checkpoint_id().ok(), why).await)),
        }
    }

    /// Exit 4, naming the newest older checkpoint that can be restored.
    async fn cannot_restore(&self, checkpoint: Option<CheckpointId>, why: String) -> JobOutcome {
        JobOutcome::CannotRestore { checkpoint, why, older: self.restorable(checkpoint).await }
    }

    /// The newest checkpoint, older than `than` if that is given, that fits the job and is whole.
    async fn restorable(&self, than: Option<CheckpointId>) -> Option<CheckpointId> {
        let mut older = self.kept_manifests().await;
        older.retain(|manifest| than.is_none_or(|than| manifest.checkpoint_id().is_ok_and(|id| id < than)));
        first_restorable(&self.store, &self.parts, older).await.and_then(|id| id.parse().ok())
    }

    /// From the claim on: commit, abort, restore, run. `Ok(Err(failure))`: the attempt failed, a restart may help.
    async fn recovered(
        &mut self,
        plan: RecoveryPlan,
        lineage: Lineage,
        generation: Generation,
        mut log: JobLog,
        stop: &mut StopSignal,
    ) -> Result<Result<JobOutcome, TaskFailure>, Early> {
        let newest = match plan.newest {
            Some(id) => Some(self.manifest(id).await?),
            None => None,
        };
        let from = match plan.start {
            StartPoint::Scratch => None,
            StartPoint::Checkpoint(id) if plan.newest == Some(id) => newest.clone(),
            StartPoint::Checkpoint(id) => Some(self.manifest(id).await?),
        };
        if let Some(manifest) = &from {
            for notice in self.check_fit(manifest).await?.into_iter().chain(differing_splits(&self.parts, manifest)) {
                (self.listener)(JobEvent::Notice(notice));
            }
        }
        let start = from.as_ref().and_then(|manifest| manifest.checkpoint_id().ok());
        (self.listener)(JobEvent::Started { generation, from: start });
        let store = Arc::clone(&self.store);
        if let Err(why) = self.swaps().began(from.as_ref(), &store).await {
            return Err(Box::new(self.cannot_restore(start, why).await));
        }
        self.store_plugins().await.map_err(|failure| Box::new(JobOutcome::Failed(failure_of(&failure))))?;

        let splits = match self.splits(from.as_ref()) {
            Ok(splits) => splits,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(manifest) = &newest
            && let Err(why) = self.load_committing_builds(manifest).await
        {
            return Err(Box::new(self.cannot_restore(manifest.checkpoint_id().ok(), why).await));
        }
        let (events, mut inbox) = unbounded_channel();
        let connectors = self.connectors.clone();
        let kept = self.kept_manifests().await;
        let finding = Finding {
            parts: &self.parts,
            splits: &splits,
            newest: newest.as_ref(),
            kept: &kept,
            plan: &plan,
            connector_of: &move |spec| connectors(spec),
        };
        let recovery = OutsideRecovery { parts: &self.parts, splits: &splits, plan: &plan, origin: self.origin };
        let recovered = match finding.targets() {
            Ok(targets) => recovery.run(targets, &events, &mut inbox, stop).await,
            Err(error) => Err(error),
        };
        let commits = match recovered {
            Ok((commits, notices)) => {
                notices.into_iter().for_each(|notice| (self.listener)(JobEvent::Notice(notice)));
                commits
            }
            Err(RecoveryError::Lost(transactions)) => return Err(Box::new(JobOutcome::CommitLost { transactions })),
            Err(RecoveryError::Stopped) => return Ok(Ok(JobOutcome::Stopped { resumes_from: start })),
            Err(RecoveryError::Failed(message)) => {
                return Ok(Err(TaskFailure { place: "recovery".into(), message, remedy: Remedy::Restart }));
            }
        };
        if plan.last {
            // The final checkpoint's commits are done now: only `finished` was missing.
            let checkpoint = start.expect("a final checkpoint is a checkpoint");
            return Ok(self.finish_recovered(log, commits, checkpoint).await);
        }
        self.collect_garbage(&mut log, generation).await;
        let restored = match self.restore(from.as_ref(), &splits, generation).await? {
            Ok(restored) => restored,
            Err(failure) => return Ok(Err(failure)),
        };
        let attempt = Attempt { lineage, generation, state_folder: self.working.of_generation(generation) };
        self.run_attempt(attempt, restored, splits, commits, log, (events, &mut inbox), stop).await
    }

    async fn finish_recovered(
        &self,
        mut log: JobLog,
        commits: Vec<SinkCommits>,
        checkpoint: CheckpointId,
    ) -> Result<JobOutcome, TaskFailure> {
        use crate::store::FinishOutcome;
        match log.finish(checkpoint).await {
            FinishOutcome::Finished => {
                let (commits, former) = by_place(commits);
                close_commits(commits, true).await;
                retire(former).await;
                Ok(JobOutcome::Finished { checkpoint })
            }
            FinishOutcome::Fenced { by } => {
                Ok(JobOutcome::Fenced { by: format!("entry {by} of the job's log was written by another process") })
            }
            FinishOutcome::Undecided { reason } => {
                Err(TaskFailure { place: "checkpoint storage".into(), message: reason, remedy: Remedy::Restart })
            }
        }
    }

    fn splits(&mut self, from: Option<&Manifest>) -> Result<Vec<Vec<SplitState>>, TaskFailure> {
        if from.is_none()
            && let Some(splits) = &self.enumerated
        {
            return Ok(splits.clone());
        }
        let splits = splits_of(&self.parts, from).map_err(|(place, error)| TaskFailure {
            place,
            message: error.message,
            remedy: error.remedy,
        })?;
        if from.is_none() {
            self.enumerated = Some(splits.clone());
        }
        Ok(splits)
    }

    async fn store_plugins(&self) -> Result<(), TaskFailure> {
        let swapped = self.swaps.as_ref().map(Swaps::components).unwrap_or_default();
        for (digest, bytes) in self.parts.plugin_bytes.iter().chain(&swapped) {
            self.store.put_plugin(digest, bytes.clone()).await.map_err(|error| TaskFailure {
                place: "checkpoint storage".into(),
                message: error.to_string(),
                remedy: Remedy::Restart,
            })?;
        }
        Ok(())
    }

    /// A committable is ended by the build that made it, whatever the job file names now.
    async fn load_committing_builds(&self, manifest: &Manifest) -> Result<(), String> {
        let in_use = self.plugins_in_use();
        let committables = manifest.sinks.values().flat_map(|sink| &sink.committables);
        for digest in committables.filter_map(|one| one.plugin.as_ref()).filter(|digest| !in_use.contains(*digest)) {
            let bytes = self.store.get_plugin(digest).await.map_err(|error| error.to_string())?;
            (self.parts.load_build)(digest, bytes)?;
        }
        Ok(())
    }

    fn plugins_in_use(&self) -> BTreeSet<String> {
        let swapped = self.swaps.as_ref().map(Swaps::digests).unwrap_or_default();
        self.parts.plugin_bytes.iter().map(|(digest, _)| digest.clone()).chain(swapped).collect()
    }

    async fn collect_garbage(&self, log: &mut JobLog, generation: Generation) {
        let in_use = References { files: BTreeSet::new(), plugins: self.plugins_in_use() };
        match gc::collect_garbage(log.store(), generation, log.claim_slot(), &in_use).await {
            Ok(removed) => {
                if let Some(reason) = removed.held_back {
                    (self.listener)(JobEvent::Notice(format!("nothing was cleaned up in the checkpoint storage: {reason}")));
                }
                for leftover in removed.leftovers {
                    tracing::warn!(file = leftover.name, error = %leftover.error, "can't be deleted now; a later start tries again");
                }
            }
            Err(error) => tracing::warn!(%error, "the checkpoint storage could not be cleaned up; a later start tries again"),
        }
    }

    async fn restore(
        &self,
        from: Option<&Manifest>,
        splits: &[Vec<SplitState>],
        generation: Generation,
    ) -> Result<Result<Restored, TaskFailure>, Early> {
        if let Err(error) = self.working.renew() {
            let message = DiskTrouble::of(&error).told(&format!("the folder of working state can't be made: {error}"));
            return Ok(Err(TaskFailure { place: "restore".into(), message, remedy: Remedy::Restart }));
        }
        let watermarks = source_watermarks(&self.parts, from);
        let mut restored = Restored { checkpoint: None, splits: splits.to_vec(), watermarks, ..Restored::default() };
        let Some(manifest) = from else { return Ok(Ok(restored)) };
        restored.checkpoint = manifest.checkpoint_id().ok();
        let folder = self.working.of_generation(generation).join("restore");
        match fetch_state(&self.store, &self.parts, manifest, &folder, &mut restored).await {
            Ok(()) => Ok(Ok(restored)),
            Err(error) if error.is_damage() => Err(Box::new(self.cannot_restore(restored.checkpoint, error.to_string()).await)),
            Err(error) => Ok(Err(TaskFailure { place: "restore".into(), message: error.to_string(), remedy: Remedy::Restart })),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is handed over once, from recovery to the attempt")]
    async fn run_attempt(
        &mut self,
        attempt: Attempt,
        restored: Restored,
        splits: Vec<Vec<SplitState>>,
        commits: Vec<SinkCommits>,
        log: JobLog,
        (events, inbox): (UnboundedSender<Event>, &mut UnboundedReceiver<Event>),
        stop: &mut StopSignal,
    ) -> Result<Result<JobOutcome, TaskFailure>, Early> {
        let generation = attempt.generation;
        let start = restored.checkpoint;
        let machine = self.machine(generation, start, &log).await;
        let (task_events, mut from_tasks) = unbounded_channel();
        let forward = events.clone();
        // Subtasks know nothing of the attempt's other events.
        let forwarder = tokio::spawn(async move {
            while let Some(event) = from_tasks.recv().await {
                if forward.send(Event::Task(event)).is_err() {
                    break;
                }
            }
        });
        let (parts, builds) = (Arc::clone(&self.parts), self.swaps().builds().to_vec());
        let deployed = tokio::task::spawn_blocking(move || {
            deploy(&parts, &builds, &attempt, restored, &task_events).map(|deployed| (deployed, attempt))
        })
        .await
        .expect("a deployment does not panic");
        let (deployment, attempt) = match deployed {
            Ok(deployed) => deployed,
            Err(DeployFailure { failure, culprit }) => {
                if let Some(culprit) = culprit {
                    self.swaps().build_failed(culprit, &failure.message);
                }
                return Ok(Err(failure));
            }
        };
        // Restored files are linked or copied into the backends' folders by now.
        let _ = std::fs::remove_dir_all(attempt.state_folder.join("restore"));
        let answers = events.clone();
        let listener = Arc::new(move |answer| {
            // Nobody listens once the attempt has ended.
            let _ = answers.send(Event::Log(answer));
        });
        let looking = discovery::start(&self.parts, &splits, &events);
        let (commits, former) = by_place(commits);
        let keeper = LogKeeper::start(log, self.plugins_in_use(), listener);
        let setup = AttemptSetup {
            parts: Arc::clone(&self.parts),
            splits,
            generation,
            lineage: attempt.lineage,
            store: Arc::clone(&self.store),
            keeper,
            commits,
            former,
            machine,
            deployment,
            swaps: self.swaps.take().expect("an attempt gives it back"),
            origin: self.origin,
            listener: Arc::clone(&self.listener),
            last_completed: None,
        };
        let (end, setup, mut figures) = AttemptRun::new(setup, events).run(inbox, stop).await;
        let last_completed = setup.last_completed.clone();
        let outcome = self.wind_up(end, setup, start).await;
        // The threads have ended: these figures are whole.
        (self.listener)(JobEvent::Progress(figures.read(last_completed)));
        forwarder.abort();
        looking.iter().for_each(JoinHandle::abort);
        Ok(outcome)
    }

    async fn machine(&self, generation: Generation, start: Option<CheckpointId>, log: &JobLog) -> CheckpointCoordinator {
        let config = &self.parts.graph.checkpoint;
        let completed = log.completed().await.into_iter().map(|(entry, manifest)| CompletedCheckpoint {
            checkpoint: entry.id,
            files: manifest.files().map(|file| file.name.clone()).collect(),
            transactions: entry.contains.into_iter().collect(),
        });
        let completed: Vec<_> = completed.collect();
        let execution = &self.parts.execution;
        let config = CoordinatorConfig {
            generation,
            first_sequence: 1,
            sources: source_subtasks(execution).into_iter().collect(),
            subtasks: (0..execution.subtasks()).map(weir_protocol::SubtaskIndex).collect(),
            interval: config.interval,
            timeout: config.timeout,
            min_pause: config.min_pause,
            max_concurrent: config.max_concurrent as usize,
            tolerable_failures: config.tolerable_failures,
            retain: config.retain as usize,
        };
        CheckpointCoordinator::new(config, &completed, start, self.origin.elapsed())
    }

    /// Joins every thread of an ended attempt and says what became of the job.
    async fn wind_up(
        &mut self,
        end: AttemptEnd,
        setup: AttemptSetup,
        start: Option<CheckpointId>,
    ) -> Result<JobOutcome, TaskFailure> {
        let AttemptSetup { keeper, commits, former, deployment, last_completed, generation, swaps, .. } = setup;
        self.swaps = Some(swaps);
        match end {
            AttemptEnd::Finished(checkpoint) => {
                // Subtasks close their plugins and channels by themselves.
                deployment.controls.iter().for_each(|control| control.send(TaskControl::Finish));
                join(deployment, false).await?;
                close_commits(commits, true).await;
                retire(former).await;
                let log = keeper.close().await;
                self.sweep_own_garbage(&log, generation).await;
                Ok(JobOutcome::Finished { checkpoint })
            }
            AttemptEnd::Suspended(checkpoint) => {
                join(deployment, true).await?;
                close_commits(commits, false).await;
                close_commits(former, false).await;
                let log = keeper.close().await;
                self.sweep_own_garbage(&log, generation).await;
                Ok(JobOutcome::Suspended { checkpoint })
            }
            AttemptEnd::Grown(message) => {
                join(deployment, true).await?;
                close_commits(commits, false).await;
                close_commits(former, false).await;
                keeper.close().await;
                Err(TaskFailure { place: "sources".into(), message, remedy: Remedy::Refresh })
            }
            AttemptEnd::StoppedNow => {
                leave(deployment).await;
                Ok(JobOutcome::Stopped { resumes_from: last_completed.map(|progress| progress.checkpoint).or(start) })
            }
            AttemptEnd::Fenced(by) => {
                // Nothing is deleted and nothing committed any more: the newer owner decides.
                let _ = join(deployment, true).await;
                Ok(JobOutcome::Fenced { by })
            }
            AttemptEnd::Lost(transactions) => {
                let _ = join(deployment, true).await;
                Ok(JobOutcome::CommitLost { transactions })
            }
            AttemptEnd::Failed(failure) => {
                let _ = join(deployment, true).await;
                close_commits(commits, false).await;
                close_commits(former, false).await;
                keeper.close().await;
                Err(failure)
            }
        }
    }

    /// After a clean end nothing of this generation is on its way any more: what no checkpoint refers to goes (S4).
    async fn sweep_own_garbage(&self, log: &JobLog, generation: Generation) {
        let in_use = References { files: BTreeSet::new(), plugins: self.plugins_in_use() };
        let next = Generation(generation.0 + 1);
        if let Err(error) = gc::collect_garbage(log.store(), next, log.claim_slot(), &in_use).await {
            tracing::warn!(%error, "the checkpoint storage could not be cleaned up; a later start tries again");
        }
    }
}

/// Whether an attempt ended in a way that another owner of the job may have caused.
fn is_trouble(ended: &Result<Step, Early>) -> bool {
    let outcome = match ended {
        Ok(Step::Again(_)) => return true,
        Ok(Step::Done(outcome)) => outcome,
        Err(outcome) => &**outcome,
    };
    match outcome {
        JobOutcome::Failed(_) | JobOutcome::CommitLost { .. } | JobOutcome::CannotRestore { .. } => true,
        JobOutcome::Finished { .. }
        | JobOutcome::AlreadyFinished { .. }
        | JobOutcome::Suspended { .. }
        | JobOutcome::Stopped { .. }
        | JobOutcome::Refused { .. }
        | JobOutcome::Fenced { .. } => false,
    }
}
