//! The committer: ends transactions, of this process and of those before it, by raw requests to their coordinators alone.

use super::super::{AbortAnswer, CommitAnswer, Committable, Committer, CommitterContext, ConnectorError};
use super::client::ASK_TIMEOUT;
use super::committable::{PreparedTransaction, SlotId};
use super::sink::SinkSettings;
use super::slots::Slots;
use crate::{clock, crash};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_kafka::{Described, Description, End, EndOutcome, Fate, TransactionHandle, TransactionState};
use weir_protocol::{Generation, Lineage, TransactionId};

/// Attempts before this one whose idle producers are fenced, too. One of an older attempt may at most open a transaction that
/// is aborted at the next look; it can commit none.
const FENCED_GENERATIONS: u32 = 3;

/// See the module.
pub(super) struct KafkaCommitter {
    settings: Arc<SinkSettings>,
    slots: Arc<Slots>,
    sink: String,
    lineage: Lineage,
    generation: Generation,
    /// What was listed to be aborted, and how many were.
    left: usize,
    aborted: usize,
    /// What this committer has ended by a commit: those are not to be fenced away, by their ids.
    committed: BTreeMap<String, TransactionHandle>,
}

impl KafkaCommitter {
    pub(super) fn new(settings: Arc<SinkSettings>, slots: Arc<Slots>, sink: &str, context: &CommitterContext) -> Self {
        let lineage = context.lineages.last().copied().unwrap_or(Lineage(0));
        let (sink, generation) = (sink.to_owned(), context.generation);
        KafkaCommitter { settings, slots, sink, lineage, generation, left: 0, aborted: 0, committed: BTreeMap::new() }
    }

    fn commit_one(&mut self, what: &Committable) -> CommitAnswer {
        let prepared = match PreparedTransaction::parse(what.version, &what.bytes) {
            Ok(prepared) => prepared,
            Err(why) => return CommitAnswer::Unknown(why),
        };
        let handle = prepared.handle();
        let mut admin = match self.settings.admin() {
            Ok(admin) => admin,
            Err(error) => return CommitAnswer::Retryable(error.message),
        };
        let outcome = admin.end(&handle, End::Commit, clock::monotonic() + ASK_TIMEOUT);
        drop(admin);
        let answer = answer(&handle, outcome);
        if answer == CommitAnswer::Committed {
            self.committed.insert(handle.transactional_id.clone(), handle);
        }
        answer
    }

    fn status_one(&self, what: &Committable) -> CommitAnswer {
        let prepared = match PreparedTransaction::parse(what.version, &what.bytes) {
            Ok(prepared) => prepared,
            Err(why) => return CommitAnswer::Unknown(why),
        };
        let handle = prepared.handle();
        let described = match self.settings.described(&handle.transactional_id, clock::monotonic() + ASK_TIMEOUT) {
            Ok(described) => described,
            Err(why) => return CommitAnswer::Unknown(why),
        };
        match (described.fate_of(&handle), &described) {
            (Fate::Committed, _) => CommitAnswer::AlreadyCommitted,
            (Fate::Open, _) => CommitAnswer::Retryable("it is open".to_owned()),
            (Fate::Aborted, Described::Known(now))
            | (Fate::Changing, Described::Known(now @ Description { state: TransactionState::PrepareEpochFence, .. })) => {
                CommitAnswer::Lost(gone(&handle, Some(now)))
            }
            // Asking for its commit says whether it is lost.
            (Fate::Taken, now) => CommitAnswer::Retryable(format!("its id is taken: {now}")),
            (Fate::UnknownId, _) => CommitAnswer::Unknown(format!("the coordinator does not know {}", handle.transactional_id)),
            (Fate::Aborted | Fate::Empty | Fate::Changing, now) => CommitAnswer::Unknown(now.to_string()),
        }
    }

    /// Whether what is open under an id is a transaction that this committer has committed.
    fn is_committed(&self, id: &str, now: &Described) -> bool {
        let is_same = |handle| !matches!(now.fate_of(handle), Fate::Taken | Fate::UnknownId);
        self.committed.get(id).is_some_and(is_same)
    }

    fn abort_one(&self, what: &TransactionId) -> AbortAnswer {
        // The identity of a written transaction says nothing of where it lies; what is open there was listed by its id.
        let Some(slot) = SlotId::of_transaction(what) else { return AbortAnswer::Aborted };
        let id = slot.name(&self.settings.spec.prefix);
        let deadline = clock::monotonic() + ASK_TIMEOUT;
        let tried = || -> Result<(), String> {
            if self.is_committed(&id, &self.settings.described(&id, deadline)?) {
                return Ok(());
            }
            let mut admin = self.settings.admin().map_err(|error| error.message)?;
            admin.fence(&id, deadline).map(drop).map_err(|error| error.to_string())
        };
        match tried() {
            Ok(()) => AbortAnswer::Aborted,
            Err(why) => AbortAnswer::Retryable(format!("transaction {id}: {why}")),
        }
    }
}

impl Committer for KafkaCommitter {
    fn commit(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        let mut answers: Vec<CommitAnswer> = Vec::with_capacity(what.len());
        for one in what {
            let stopped = answers.last().is_some_and(|answer| *answer != CommitAnswer::Committed);
            answers.push(match stopped {
                true => CommitAnswer::Retryable("the one before it is not committed yet".to_owned()),
                false => self.commit_one(one),
            });
        }
        answers
    }

    fn status(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        what.iter().map(|one| self.status_one(one)).collect()
    }

    fn abort(&mut self, what: &[TransactionId]) -> Vec<AbortAnswer> {
        let mut answers = Vec::with_capacity(what.len());
        for one in what {
            answers.push(self.abort_one(one));
            self.aborted += 1;
            if self.aborted == self.left.div_ceil(2) {
                crash::point("recover-fencing");
            }
        }
        answers
    }

    fn list_dangling(&mut self) -> Result<Vec<TransactionId>, ConnectorError> {
        let listed = self.settings.listed()?;
        let is_left = |slot: &SlotId, state: &TransactionState| match state {
            // Whoever has it may write on: fencing it saves readers a wait.
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                slot.generation.0.saturating_add(FENCED_GENERATIONS) >= self.generation.0
            }
            TransactionState::Ongoing
            | TransactionState::PrepareCommit
            | TransactionState::PrepareAbort
            | TransactionState::PrepareEpochFence
            | TransactionState::Other(_) => true,
        };
        let left = listed.into_iter().filter(|(slot, state)| is_left(slot, state));
        let left: Vec<TransactionId> = left.map(|(slot, _)| slot.as_transaction(self.lineage, &self.sink)).collect();
        (self.left, self.aborted) = (left.len(), 0);
        Ok(left)
    }

    fn forget(&mut self, what: &[TransactionId]) -> Result<(), ConnectorError> {
        self.slots.forget(what);
        Ok(())
    }
}

/// What the coordinator's answer to a commit means. With R1 an id of the newest checkpoint that another producer has is lost.
fn answer(handle: &TransactionHandle, outcome: EndOutcome) -> CommitAnswer {
    match outcome {
        EndOutcome::Committed => CommitAnswer::Committed,
        // An attempt without an answer may have committed it before the other came.
        EndOutcome::Fenced { now, unanswered: true } => CommitAnswer::Unknown(gone(handle, now.as_deref())),
        EndOutcome::Fenced { now, unanswered: false } => CommitAnswer::Lost(gone(handle, now.as_deref())),
        EndOutcome::Lost(why) => CommitAnswer::Lost(why),
        EndOutcome::Aborted => CommitAnswer::Lost("it is aborted".to_owned()),
        EndOutcome::UnknownId { .. } => CommitAnswer::Unknown(format!(
            "the brokers do not know {} any more: they forget an id that was not used for transactional.id.expiration.ms (a week)",
            handle.transactional_id
        )),
        EndOutcome::Retryable(why) => CommitAnswer::Retryable(why),
        EndOutcome::Unknown(why) => CommitAnswer::Unknown(why),
        EndOutcome::Refused(error) => CommitAnswer::Retryable(error.to_string()),
    }
}

fn gone(handle: &TransactionHandle, now: Option<&Description>) -> String {
    let TransactionHandle { transactional_id, producer_id, epoch } = handle;
    let found = now.map_or("another producer has its id".to_owned(), |now| format!("the coordinator says {now}"));
    format!(
        "transaction {transactional_id} (producer {producer_id}, epoch {epoch}) was aborted before its commit, by its timeout or by \
         another process: {found}"
    )
}
