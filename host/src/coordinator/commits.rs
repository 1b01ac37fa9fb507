//! Drives one sink's commit coordinator: its effects become calls of the committer, on a thread of its own, so that no commit
//! ever waits on the data path or holds up the control plane.

use super::committers::Committers;
use crate::connectors::{AbortAnswer, CommitAnswer, Committable, CommitterContext, ConnectorError, Remedy, SinkConnector};
use crate::crash;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_protocol::commit::CommitCoordinator;
use weir_protocol::commit::coordinator::{AbortOutcome, Call, CommitOutcome, Effect, Event, LossReason, RetryPolicy};
use weir_protocol::coordinator::CommitPermit;
use weir_protocol::recovery::RecoveryPlan;
use weir_protocol::{CheckpointId, Generation, TransactionId};

/// What a committer's thread answers.
#[derive(Debug)]
pub enum SinkAnswer {
    /// To a commit or a status question.
    Commit {
        /// Of the call.
        call: Call,
        /// In the order of the call.
        outcomes: Vec<CommitOutcome>,
        /// True: to a status question.
        status: bool,
    },
    /// To an abort.
    Abort {
        /// Of the call.
        call: Call,
        /// In the order of the call.
        outcomes: Vec<AbortOutcome>,
    },
    /// Everything of this job's sink that exists outside.
    Dangling(Result<Vec<TransactionId>, ConnectorError>),
}

/// Where answers go: (index of the sink among the commits, answer).
pub type AnswerSender = Arc<dyn Fn(usize, SinkAnswer) + Send + Sync>;

/// What the driver must hear of.
#[derive(Debug)]
pub enum SinkNews {
    /// Writers may drop these from their ledgers.
    Committed(Vec<TransactionId>),
    /// All that this checkpoint contains of this sink is committed.
    PermitDone(CheckpointId),
    /// All that the newest checkpoint contains is committed.
    RecoveryCommitted,
    /// The rest is aborted.
    RecoveryAborted,
    /// Worth a line to the user.
    Notice(String),
    /// Exit 3.
    Lost {
        /// The committable, if its body is known.
        committable: Option<Box<Committable>>,
        /// Its identity.
        id: TransactionId,
        /// Why.
        reason: LossReason,
    },
    /// Dangling transactions can't be aborted or listed: the attempt fails.
    RecoveryFailed(String),
}

/// Where the job file says, or said, that a sink's output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The job file, by index of the sink in the graph.
    JobFile(usize),
    /// An older job file: the sink has left it, or goes elsewhere now.
    Former {
        /// The newest checkpoint that knows of it.
        said_by: String,
    },
}

impl Place {
    /// A reason, with what the user can't see in the job file.
    pub fn explain(&self, why: String) -> String {
        match self {
            Place::JobFile(_) => why,
            Place::Former { said_by } => format!(
                "{why} (it is committed where the sink stood at checkpoint {said_by}, not where the job file has it now: make that \
                 place usable again)"
            ),
        }
    }

    fn explain_loss(&self, reason: LossReason) -> LossReason {
        match reason {
            LossReason::Lost(why) => LossReason::Lost(self.explain(why)),
            LossReason::Exhausted(why) => LossReason::Exhausted(self.explain(why)),
        }
    }
}

/// The commits of one sink, at one place, in one attempt.
pub struct SinkCommits {
    place: Place,
    name: String,
    machine: CommitCoordinator,
    thread: CommitThread,
    /// Committables by identity, for as long as the machine may name them.
    bodies: BTreeMap<TransactionId, Committable>,
    /// What recovery has to do, kept until the dangling ones are listed.
    recovery: Option<Recovery>,
    wake_at: Option<Duration>,
}

struct Recovery {
    contained: Vec<TransactionId>,
    replayed: BTreeSet<TransactionId>,
    known_committed: BTreeSet<TransactionId>,
    up_to: Generation,
}

impl SinkCommits {
    /// Starts the sink's committer thread. `index`: repeated with its answers.
    pub fn start(
        index: usize,
        place: Place,
        name: &str,
        generation: Generation,
        connector: Arc<dyn SinkConnector>,
        context: CommitterContext,
        answers: AnswerSender,
    ) -> Self {
        SinkCommits {
            place,
            name: name.to_owned(),
            machine: CommitCoordinator::new(generation, name, RetryPolicy::default()),
            thread: CommitThread::start(index, name, connector, context, answers),
            bodies: BTreeMap::new(),
            recovery: None,
            wake_at: None,
        }
    }

    /// Where.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The sink's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When the machine wants a tick.
    pub fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    /// Begins recovery: first asks what exists outside, then commits `contained` and aborts the rest.
    pub fn recover(&mut self, contained: Vec<Committable>, plan: &RecoveryPlan) {
        let ids: Vec<TransactionId> = contained.iter().map(|committable| committable.id.clone()).collect();
        self.bodies.extend(contained.into_iter().map(|committable| (committable.id.clone(), committable)));
        let own = |ids: &BTreeSet<TransactionId>| ids.iter().filter(|id| id.sink == self.name).cloned().collect();
        // Two places of a sink may be one (a link, a plugin with another configuration): what is committed at the other one is
        // not to be aborted here.
        let elsewhere = plan.commit.iter().filter(|id| id.sink == self.name && !ids.contains(id)).cloned();
        let mut known_committed: BTreeSet<TransactionId> = own(&plan.known_committed);
        known_committed.extend(elsewhere);
        self.recovery = Some(Recovery { contained: ids, replayed: own(&plan.replayed), known_committed, up_to: plan.up_to });
        self.thread.send(Command::ListDangling);
    }

    /// A manifest is durable; `committables`: what it contains of this sink.
    pub fn permit(&mut self, now: Duration, permit: CommitPermit, committables: Vec<Committable>) -> Vec<SinkNews> {
        self.bodies.extend(committables.into_iter().map(|committable| (committable.id.clone(), committable)));
        self.step(Event::Permit { now, permit })
    }

    /// Takes an answer of the thread.
    pub fn answered(&mut self, now: Duration, answer: SinkAnswer) -> Vec<SinkNews> {
        match answer {
            SinkAnswer::Commit { call, outcomes, status: false } => self.step(Event::CommitAnswered { now, call, outcomes }),
            SinkAnswer::Commit { call, outcomes, status: true } => self.step(Event::StatusAnswered { now, call, outcomes }),
            SinkAnswer::Abort { call, outcomes } => self.step(Event::AbortAnswered { now, call, outcomes }),
            SinkAnswer::Dangling(Err(error)) => self.unreachable(now, error),
            SinkAnswer::Dangling(Ok(dangling)) => self.listed(now, dangling),
        }
    }

    fn listed(&mut self, now: Duration, dangling: Vec<TransactionId>) -> Vec<SinkNews> {
        let Some(Recovery { contained, replayed, known_committed, up_to }) = self.recovery.take() else {
            return Vec::new();
        };
        self.step(Event::Recover { now, contained, replayed, known_committed, dangling, up_to })
    }

    /// Nobody can say what is there. What was to be committed has an unknown fate if no restart can help. A former place does
    /// not hold the job up: what is to be committed there is tried, and the rest stays where nobody sees it.
    fn unreachable(&mut self, now: Duration, error: ConnectorError) -> Vec<SinkNews> {
        let waits = self.recovery.as_ref().is_some_and(|recovery| !recovery.contained.is_empty());
        match (error.remedy, &self.place) {
            (Remedy::Permanent, _) if waits => {
                let reason = LossReason::Exhausted(self.place.explain(error.message));
                let contained = self.recovery.take().map_or(Vec::new(), |recovery| recovery.contained);
                contained.into_iter().map(|id| self.lost(id, reason.clone())).collect()
            }
            (Remedy::Permanent | Remedy::Restart | Remedy::Refresh, Place::Former { said_by }) => {
                let mut news = vec![self.untidy(said_by, &error.message)];
                news.extend(self.listed(now, Vec::new()));
                news
            }
            (Remedy::Permanent | Remedy::Restart | Remedy::Refresh, Place::JobFile(_)) => {
                vec![SinkNews::RecoveryFailed(error.message)]
            }
        }
    }

    fn untidy(&self, said_by: &str, why: &str) -> SinkNews {
        SinkNews::Notice(format!(
            "sink {}: what it staged where it stood at checkpoint {said_by} could not be tidied up: {why}",
            self.name
        ))
    }

    fn lost(&self, id: TransactionId, reason: LossReason) -> SinkNews {
        SinkNews::Lost { committable: self.bodies.get(&id).cloned().map(Box::new), id, reason }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) -> Vec<SinkNews> {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            return self.step(Event::Tick { now });
        }
        Vec::new()
    }

    /// A clean end. `finished`: the log says so, and what was kept to answer a repeated commit goes. Blocks until the thread
    /// has done all that was asked of it.
    pub fn close(mut self, finished: bool) {
        if finished {
            self.step(Event::Finished);
        }
        self.thread.send(Command::Close { finished });
    }

    /// The end of a former place: no checkpoint that a recovery may have to fall back on names anything there any more.
    /// What this attempt may have beside it, at the same place under another name of it, stays. Blocks as `close` does.
    pub fn retire(mut self) {
        self.step(Event::Finished);
        self.thread.send(Command::Close { finished: false });
    }

    fn step(&mut self, event: Event) -> Vec<SinkNews> {
        let mut effects = Vec::new();
        self.machine.handle(event, &mut effects);
        let mut news = Vec::new();
        for effect in effects {
            match effect {
                Effect::Commit { call, transactions } => {
                    let command = Command::Commit { call, what: self.committables(&transactions) };
                    self.thread.send(command);
                }
                Effect::AskStatus { call, transactions } => {
                    let command = Command::Status { call, what: self.committables(&transactions) };
                    self.thread.send(command);
                }
                Effect::Abort { call, transactions } => self.thread.send(Command::Abort { call, what: transactions }),
                Effect::Forget { transactions } => {
                    for id in &transactions {
                        self.bodies.remove(id);
                    }
                    self.thread.send(Command::Forget { what: transactions });
                }
                Effect::Committed { transactions } => news.push(SinkNews::Committed(transactions)),
                Effect::PermitDone { checkpoint } => news.push(SinkNews::PermitDone(checkpoint)),
                Effect::RecoveryCommitted => {
                    crash::point("recover-committed");
                    news.push(SinkNews::RecoveryCommitted);
                }
                Effect::RecoveryAborted => news.push(SinkNews::RecoveryAborted),
                Effect::FoundCommitted { transactions } => {
                    let ids: Vec<String> = transactions.iter().map(ToString::to_string).collect();
                    news.push(SinkNews::Notice(format!("sink {}: found committed: {}", self.name, ids.join(", "))));
                }
                Effect::Replayed { transaction } => {
                    let text = format!("sink {}: {transaction} is lost outside, but its records are read again", self.name);
                    news.push(SinkNews::Notice(text));
                }
                Effect::Lost { transaction, reason } => {
                    news.push(self.lost(transaction, self.place.explain_loss(reason)));
                }
                Effect::AbortFailed { transactions, reason } => {
                    let ids: Vec<String> = transactions.iter().map(ToString::to_string).collect();
                    let ids = ids.join(", ");
                    match &self.place {
                        Place::JobFile(_) => {
                            news.push(SinkNews::RecoveryFailed(format!("sink {}: can't abort {ids}: {reason}", self.name)));
                        }
                        // All that waited there is committed, and no permit will come for it.
                        Place::Former { said_by } => {
                            news.extend([self.untidy(said_by, &format!("{ids}: {reason}")), SinkNews::RecoveryAborted]);
                        }
                    }
                }
                Effect::WakeAt { at } => self.wake_at = Some(at),
            }
        }
        news
    }

    fn committables(&self, transactions: &[TransactionId]) -> Vec<Committable> {
        let body = |id| self.bodies.get(id).cloned();
        transactions.iter().map(|id| body(id).expect("T1: a permit names only what its manifest holds")).collect()
    }
}

enum Command {
    Commit { call: Call, what: Vec<Committable> },
    Status { call: Call, what: Vec<Committable> },
    Abort { call: Call, what: Vec<TransactionId> },
    Forget { what: Vec<TransactionId> },
    ListDangling,
    Close { finished: bool },
}

/// The committer's thread; ends, after what is queued, when dropped.
struct CommitThread {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl CommitThread {
    fn start(
        index: usize,
        name: &str,
        connector: Arc<dyn SinkConnector>,
        context: CommitterContext,
        answers: AnswerSender,
    ) -> Self {
        let (commands, queue) = channel();
        let worker = Worker { committers: Committers::new(connector, context) };
        let thread = std::thread::Builder::new()
            .name(format!("commit-{name}"))
            .spawn(move || worker.run(&queue, &|answer| answers(index, answer)))
            .expect("a thread can be started");
        CommitThread { commands: Some(commands), thread: Some(thread) }
    }

    fn send(&self, command: Command) {
        // The thread only ends when this sender is dropped.
        let _ = self.commands.as_ref().expect("present until drop").send(command);
    }
}

impl Drop for CommitThread {
    fn drop(&mut self) {
        self.commands.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    committers: Committers,
}

impl Worker {
    fn run(mut self, queue: &Receiver<Command>, answer: &dyn Fn(SinkAnswer)) {
        while let Ok(command) = queue.recv() {
            match command {
                Command::Commit { call, what } => {
                    let outcomes = outcomes(self.committers.commit(&what));
                    crash::point("commit-sent");
                    answer(SinkAnswer::Commit { call, outcomes, status: false });
                }
                Command::Status { call, what } => {
                    let outcomes = outcomes(self.committers.status(&what));
                    answer(SinkAnswer::Commit { call, outcomes, status: true });
                }
                Command::Abort { call, what } => answer(SinkAnswer::Abort { call, outcomes: self.abort(&what) }),
                Command::Forget { what } => {
                    // A marker that stays is only litter: the next recovery lists and forgets it.
                    let forgotten = self.committers.current().and_then(|committer| committer.forget(&what));
                    if let Err(error) = forgotten {
                        tracing::warn!(%error, "commit markers could not be removed; the next start tries again");
                    }
                }
                Command::Close { finished } => {
                    self.committers.close(finished);
                }
                Command::ListDangling => {
                    answer(SinkAnswer::Dangling(self.committers.current().and_then(|committer| committer.list_dangling())));
                }
            }
        }
    }

    fn abort(&mut self, what: &[TransactionId]) -> Vec<AbortOutcome> {
        match self.committers.current() {
            Err(error) => vec![AbortOutcome::Retryable(error.message); what.len()],
            Ok(committer) => committer
                .abort(what)
                .into_iter()
                .map(|answer| match answer {
                    AbortAnswer::Aborted => AbortOutcome::Aborted,
                    AbortAnswer::Committed => AbortOutcome::Committed,
                    AbortAnswer::Retryable(reason) => AbortOutcome::Retryable(reason),
                })
                .collect(),
        }
    }
}

fn outcomes(answers: Vec<CommitAnswer>) -> Vec<CommitOutcome> {
    answers.into_iter().map(outcome_of).collect()
}

fn outcome_of(answer: CommitAnswer) -> CommitOutcome {
    match answer {
        CommitAnswer::Committed => CommitOutcome::Committed,
        CommitAnswer::AlreadyCommitted => CommitOutcome::AlreadyCommitted,
        CommitAnswer::Retryable(reason) => CommitOutcome::Retryable(reason),
        CommitAnswer::Unknown(reason) => CommitOutcome::Unknown(reason),
        CommitAnswer::Lost(reason) => CommitOutcome::Lost(reason),
    }
}
