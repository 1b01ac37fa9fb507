//! The driver of the log's machines: a claim, then that generation's checkpoints, tombstones and `finished`.
//!
//! All decisions are made by `weir_protocol::log`; here its questions are put to the storage, and its answers carried back.

use super::error::StoreError;
use super::log::{CreateOutcome, LogStore};
use super::manifest::Manifest;
use super::record::LogRecord;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use weir_protocol::log::claimant::{self, ClaimRequest, Claimant};
use weir_protocol::log::publisher::{self, Publisher};
use weir_protocol::log::{self as protocol, CheckpointEntry, Claim, ClaimFacts, LogEntry, LogView, Request, Slot, Start};
use weir_protocol::recovery::{Ask, Purpose, RecoveryPlan, Refusal};
use weir_protocol::{CheckpointId, Generation, Lineage};

/// Questions in a row that bring a start no further before it fails: some seconds. The restart policy tries on, if it is to.
const CLAIM_TRIES: u32 = 6;

/// How long the driver waits before it asks the storage again: nothing the first time, then doubling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second try.
    pub first: Duration,
    /// At most.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_millis(50), max: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// Before a question that was asked so often in a row.
    pub(super) fn delay(self, tries: u32) -> Duration {
        tries
            .checked_sub(1)
            .map_or(Duration::ZERO, |doublings| self.first.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max))
    }

    async fn wait(self, tries: u32) {
        let delay = self.delay(tries);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }
}

/// What a start comes to.
#[derive(Debug)]
pub enum Claiming {
    /// The job is ours.
    Claimed(Box<Claimed>),
    /// It has finished, with this final checkpoint. Nothing was written.
    Finished(CheckpointId),
}

/// A claim that stands.
#[derive(Debug)]
pub struct Claimed {
    /// The claim.
    pub claim: Claim,
    /// What to do before the first record.
    pub plan: RecoveryPlan,
    /// The right to publish in this generation.
    pub log: JobLog,
}

/// The job could not be claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// It may not start this way. The coordinator tells the user why, and what next.
    #[error("the job's log does not allow this start: {0:?}")]
    Refused(Refusal),
    /// The storage gave no usable answer for too long.
    #[error("can't claim the job in its log: {0}")]
    Storage(String),
}

/// What became of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only a published checkpoint may be committed"]
pub enum PublishOutcome {
    /// **The decision point**: its manifest stands in this slot, and nothing above it.
    Published(Slot),
    /// A tombstone stands in its place: it will never be complete.
    Aborted,
    /// Another process has taken the job over: stop, commit nothing, never restart by policy.
    Fenced {
        /// Where its entry stands.
        by: Slot,
    },
    /// The storage gave no usable answer for too long, and what became of the entry is not known: neither commit nor abort,
    /// fail over. The next claim finds out.
    Undecided {
        /// For the user.
        reason: String,
    },
}

/// What became of `finished`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a job that is fenced has not finished"]
pub enum FinishOutcome {
    /// It stands, and nothing above it.
    Finished,
    /// As [`PublishOutcome::Fenced`].
    Fenced {
        /// Where its entry stands.
        by: Slot,
    },
    /// As [`PublishOutcome::Undecided`].
    Undecided {
        /// For the user.
        reason: String,
    },
}

/// Claims the job: a new generation, whose work begins with the plan in the answer.
pub async fn claim(log: LogStore, request: ClaimRequest, backoff: Backoff) -> Result<Claiming, ClaimError> {
    let mut claimant = Claimant::new(request).with_tries(CLAIM_TRIES);
    let mut storage = Storage { log, backoff, last_error: None };
    let mut event = claimant::Event::Begin;
    loop {
        let mut effects = Vec::new();
        claimant.handle(event, &mut effects);
        let effect = only(effects).expect("a claimant asks one question after the other until it is done");
        event = match effect {
            claimant::Effect::List { request, tries } => match storage.entries(tries).await {
                Ok(entries) => claimant::Event::Listed { request, entries },
                Err(reason) => claimant::Event::Failed { request, reason },
            },
            claimant::Effect::Create { request, slot, claim, tries } => {
                let outcome = storage.create(slot, &LogRecord::Claim(claim), tries).await;
                if outcome == protocol::CreateOutcome::Created {
                    crate::crash::point("claimed");
                }
                claimant::Event::CreateAnswered { request, outcome }
            }
            claimant::Effect::Read { request, slot, tries } => match storage.entry(slot, tries).await {
                Ok(entry) => claimant::Event::ReadAnswered { request, entry },
                Err(reason) => claimant::Event::Failed { request, reason },
            },
            claimant::Effect::Claimed { slot, claim, plan, log: listing } => {
                storage.last_error = None;
                let publisher = Publisher::new(claim.generation, slot);
                let log = JobLog { publisher, storage, generation: claim.generation, claim: slot, listing, ended: None };
                return Ok(Claiming::Claimed(Box::new(Claimed { claim, plan, log })));
            }
            claimant::Effect::Finished { id } => return Ok(Claiming::Finished(id)),
            claimant::Effect::Refused { refusal } => return Err(ClaimError::Refused(refusal)),
            claimant::Effect::GaveUp { reason } => return Err(ClaimError::Storage(storage.told(reason))),
        };
    }
}

/// Claims a job in order to tidy up, not to run it: whoever runs it is fenced.
///
/// # Panics
/// Never: a claim for maintenance is not answered with "finished".
pub async fn claim_for_maintenance(log: LogStore) -> Result<Claimed, ClaimError> {
    let request = ClaimRequest {
        nonce: uuid::Uuid::new_v4().as_u128(),
        new_lineage: Lineage(uuid::Uuid::new_v4().as_u128()),
        ask: Ask { purpose: Purpose::Maintain, start: Start::Newest, allow_duplicates: false },
        // It brings nothing into being.
        facts: ClaimFacts::default(),
        above: Generation(0),
    };
    match claim(log, request, Backoff::default()).await? {
        Claiming::Claimed(claimed) => Ok(*claimed),
        Claiming::Finished(_) => unreachable!("a claim for maintenance is never answered with 'finished'"),
    }
}

/// The log of a claimed job. Made by [`claim`] only; there is one for each generation.
#[derive(Debug)]
pub struct JobLog {
    publisher: Publisher,
    storage: Storage,
    generation: Generation,
    claim: Slot,
    /// What the claim was decided on.
    listing: LogView,
    /// Set when this generation may not publish any more.
    ended: Option<Decision>,
}

impl JobLog {
    /// The log, to read.
    pub fn store(&self) -> &LogStore {
        &self.storage.log
    }

    /// Where the claim stands.
    pub fn claim_slot(&self) -> Slot {
        self.claim
    }

    /// Every checkpoint that counted when the claim was decided, oldest first, with its manifest. The log may show another one
    /// by now, one that landed late. One whose manifest can't be read any more is left out: nobody may build on it.
    pub async fn completed(&self) -> Vec<(CheckpointEntry, Manifest)> {
        let mut completed = Vec::new();
        for (slot, entry) in self.listing.checkpoints() {
            match self.store().read(slot).await {
                Ok(Some(LogRecord::Checkpoint(manifest))) => completed.push((entry.clone(), *manifest)),
                Ok(Some(LogRecord::Claim(_) | LogRecord::Tombstone { .. } | LogRecord::Finished { .. }) | None) => {
                    tracing::warn!(checkpoint = %entry.id, "its entry is gone from the job's log: something outside Weir removed it");
                }
                Err(error) => tracing::warn!(checkpoint = %entry.id, %error, "its manifest can't be read any more"),
            }
        }
        completed
    }

    /// Publishes a checkpoint whose files are durable. `abort`: when it is ready before the outcome is known, a tombstone is
    /// put into the slot; whichever stands decides. Not to be cancelled: the outcome of what had begun would stay unknown.
    ///
    /// # Panics
    /// If the manifest is not sealed, or is of another job or generation.
    pub async fn publish(&mut self, manifest: Manifest, abort: impl Future<Output = ()> + Send) -> PublishOutcome {
        let checkpoint = manifest.entry().expect("a sealed manifest has valid ids");
        let id = checkpoint.id;
        assert_eq!(id.generation(), self.generation, "C7: a generation publishes only its own checkpoints");
        let record = Arc::new(LogRecord::Checkpoint(Box::new(manifest)));
        match self.decide(id, publisher::Event::Publish { checkpoint }, Some(record), abort).await {
            Decision::Published(slot) => PublishOutcome::Published(slot),
            Decision::Aborted => PublishOutcome::Aborted,
            Decision::Fenced(by) => PublishOutcome::Fenced { by },
            Decision::Undecided(reason) => PublishOutcome::Undecided { reason },
            Decision::Finished => unreachable!("a checkpoint was to be published"),
        }
    }

    /// Appends `finished`: all that the final checkpoint holds is committed.
    pub async fn finish(&mut self, id: CheckpointId) -> FinishOutcome {
        match self.decide(id, publisher::Event::Finish { id }, None, std::future::pending()).await {
            Decision::Finished => FinishOutcome::Finished,
            Decision::Fenced(by) => FinishOutcome::Fenced { by },
            Decision::Undecided(reason) => FinishOutcome::Undecided { reason },
            Decision::Published(_) | Decision::Aborted => unreachable!("`finished` was to be appended"),
        }
    }

    async fn decide(
        &mut self,
        id: CheckpointId,
        begin: publisher::Event,
        manifest: Option<Arc<LogRecord>>,
        abort: impl Future<Output = ()> + Send,
    ) -> Decision {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        self.storage.last_error = None;
        let mut abort = Box::pin(abort.fuse());
        let mut asked: Option<BoxFuture<'static, Answer>> = None;
        let mut event = begin;
        loop {
            let mut effects = Vec::new();
            self.publisher.handle(event, &mut effects);
            // A newer question makes the one before it moot: the machine drops its answer.
            match only(effects).map(|effect| self.carry_out(effect, manifest.as_ref())) {
                Some(Step::Ask(question)) => asked = Some(question),
                Some(Step::Decided(decision)) => {
                    if matches!(decision, Decision::Fenced(_) | Decision::Undecided(_)) {
                        self.ended = Some(decision.clone());
                    }
                    return decision;
                }
                None => {}
            }
            let question = asked.as_mut().expect("a publisher has a question open until it is decided");
            event = tokio::select! {
                biased;
                () = &mut abort => publisher::Event::Abort { id },
                answer = question => {
                    asked = None;
                    self.storage.last_error = answer.error;
                    answer.event
                }
            };
        }
    }

    fn carry_out(&self, effect: publisher::Effect, manifest: Option<&Arc<LogRecord>>) -> Step {
        match effect {
            publisher::Effect::Create { request, slot, entry, tries } => {
                self.ask(Question::Create { slot, record: record_of(entry, manifest) }, request, tries)
            }
            publisher::Effect::Read { request, slot, tries } => self.ask(Question::Read { slot }, request, tries),
            publisher::Effect::Look { request, slot: _, tries } => self.ask(Question::Look, request, tries),
            publisher::Effect::Published { slot, .. } => Step::Decided(Decision::Published(slot)),
            publisher::Effect::Finished { .. } => Step::Decided(Decision::Finished),
            publisher::Effect::Aborted { .. } => Step::Decided(Decision::Aborted),
            publisher::Effect::Fenced { slot } => Step::Decided(Decision::Fenced(slot)),
            publisher::Effect::GaveUp { reason } => Step::Decided(Decision::Undecided(self.storage.told(reason))),
        }
    }

    fn ask(&self, question: Question, request: Request, tries: u32) -> Step {
        Step::Ask(self.storage.clone().answer(question, request, tries).boxed())
    }
}

/// How a publisher's work ends.
#[derive(Clone, Debug)]
enum Decision {
    Published(Slot),
    Finished,
    Aborted,
    Fenced(Slot),
    Undecided(String),
}

/// What an effect of the publisher comes to.
enum Step {
    Ask(BoxFuture<'static, Answer>),
    Decided(Decision),
}

/// What a publisher asks.
enum Question {
    Create { slot: Slot, record: Arc<LogRecord> },
    Read { slot: Slot },
    Look,
}

/// An answer of the storage, and the error behind it.
struct Answer {
    event: publisher::Event,
    error: Option<StoreError>,
}

fn only<T>(effects: Vec<T>) -> Option<T> {
    assert!(effects.len() <= 1, "the log's machines ask one question at a time");
    effects.into_iter().next()
}

fn record_of(entry: LogEntry, manifest: Option<&Arc<LogRecord>>) -> Arc<LogRecord> {
    match entry {
        LogEntry::Checkpoint(_) => manifest.expect("only `publish` publishes").clone(),
        LogEntry::Tombstone { id } => Arc::new(LogRecord::Tombstone { id }),
        LogEntry::Finished { generation, id } => Arc::new(LogRecord::Finished { generation, id }),
        LogEntry::Claim(_) | LogEntry::Unreadable { .. } | LogEntry::Foreign { .. } => {
            unreachable!("T1: a publisher creates only its own entries")
        }
    }
}

/// Puts the machines' questions to the log.
#[derive(Clone, Debug)]
struct Storage {
    log: LogStore,
    backoff: Backoff,
    last_error: Option<StoreError>,
}

impl Storage {
    async fn answer(mut self, question: Question, request: Request, tries: u32) -> Answer {
        let event = match question {
            Question::Create { slot, record } => {
                let outcome = self.create(slot, &record, tries).await;
                publisher::Event::CreateAnswered { request, outcome }
            }
            Question::Read { slot } => match self.entry(slot, tries).await {
                Ok(entry) => publisher::Event::ReadAnswered { request, entry },
                Err(reason) => publisher::Event::Failed { request, reason },
            },
            Question::Look => match self.highest(tries).await {
                Ok(highest) => publisher::Event::Looked { request, highest },
                Err(reason) => publisher::Event::Failed { request, reason },
            },
        };
        Answer { event, error: self.last_error }
    }

    /// A machine's last reason, with the storage's own words.
    fn told(&self, reason: String) -> String {
        match &self.last_error {
            Some(error) if error.to_string() != reason => format!("{error} ({reason})"),
            Some(_) | None => reason,
        }
    }

    async fn create(&mut self, slot: Slot, record: &LogRecord, tries: u32) -> protocol::CreateOutcome {
        self.backoff.wait(tries).await;
        match self.log.create(slot, record).await {
            CreateOutcome::Created => protocol::CreateOutcome::Created,
            CreateOutcome::Exists => protocol::CreateOutcome::Exists,
            CreateOutcome::Unknown(error) => {
                self.note(error);
                protocol::CreateOutcome::Unknown
            }
        }
    }

    async fn entry(&mut self, slot: Slot, tries: u32) -> Result<Option<LogEntry>, String> {
        self.backoff.wait(tries).await;
        self.log.read_entry(slot).await.map_err(|error| self.note(error))
    }

    async fn entries(&mut self, tries: u32) -> Result<Vec<(Slot, LogEntry)>, String> {
        self.backoff.wait(tries).await;
        self.log.read_entries().await.map_err(|error| self.note(error))
    }

    /// The highest slot; 0 in an empty log.
    async fn highest(&mut self, tries: u32) -> Result<Slot, String> {
        self.backoff.wait(tries).await;
        let slots = self.log.list().await.map_err(|error| self.note(error))?;
        Ok(slots.last().copied().unwrap_or(Slot(0)))
    }

    fn note(&mut self, error: StoreError) -> String {
        let text = error.to_string();
        tracing::warn!("the job's log: {text}");
        self.last_error = Some(error);
        text
    }
}
