//! The queue of one writer's transactions that are to be committed: in prepare order, each after the one before it (T6).

use super::events::{Call, CommitOutcome, Effect, LossReason, RetryPolicy};
use crate::{Generation, TransactionId};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    /// No call is under way.
    #[default]
    Idle,
    /// A commit of this many, from the front.
    Committing { call: Call, count: usize },
    /// The first was not done: until then, then its status is asked.
    BackingOff { until: Duration },
    /// The status of the first is asked.
    Asking { call: Call },
    /// The first can't be committed.
    Failed,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LaneStep {
    /// It is committed.
    Committed(TransactionId),
    /// It is lost, and that does no harm.
    Replayed(TransactionId),
    /// It is not committed, and this lane goes no further.
    Failed(TransactionId, LossReason),
}

/// The machine's part for one writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    queue: VecDeque<TransactionId>,
    /// Generation and number of the last one ever queued.
    newest: Option<(Generation, u64)>,
    phase: Phase,
    /// Rounds in a row in which the first was not done.
    failures: u32,
}

impl Lane {
    /// Appends a transaction that a checkpoint contains.
    pub(super) fn enqueue(&mut self, id: TransactionId) {
        let place = Some((id.generation, id.number));
        assert!(self.newest < place, "T6: {id} after {:?}", self.newest);
        self.newest = place;
        self.queue.push_back(id);
    }

    /// What is not committed.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &TransactionId> {
        self.queue.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// When something is to be done without an answer.
    pub(super) fn due(&self) -> Option<Duration> {
        match self.phase {
            Phase::BackingOff { until } => Some(until),
            Phase::Idle | Phase::Committing { .. } | Phase::Asking { .. } | Phase::Failed => None,
        }
    }

    /// Calls what is due.
    pub(super) fn advance(&mut self, now: Duration, calls: &mut Call, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Idle if !self.queue.is_empty() => {
                let call = calls.draw();
                self.phase = Phase::Committing { call, count: self.queue.len() };
                effects.push(Effect::Commit { call, transactions: self.queue.iter().cloned().collect() });
            }
            Phase::BackingOff { until } if until <= now => {
                let call = calls.draw();
                self.phase = Phase::Asking { call };
                effects.push(Effect::AskStatus { call, transactions: self.queue.iter().take(1).cloned().collect() });
            }
            Phase::Idle | Phase::BackingOff { .. } | Phase::Committing { .. } | Phase::Asking { .. } | Phase::Failed => {}
        }
    }

    /// An answer to a commit.
    pub(super) fn on_committed(
        &mut self,
        call: Call,
        outcomes: &[CommitOutcome],
        now: Duration,
        policy: &RetryPolicy,
        replayed: &BTreeSet<TransactionId>,
    ) -> Vec<LaneStep> {
        let Phase::Committing { call: expected, count } = self.phase else { return Vec::new() };
        if call != expected {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        let mut steps = Vec::new();
        for index in 0..count {
            match outcomes.get(index).unwrap_or(&no_answer()) {
                CommitOutcome::Committed | CommitOutcome::AlreadyCommitted => steps.push(self.first_done()),
                // What comes after it was not tried: its answers say nothing.
                CommitOutcome::Retryable(reason) | CommitOutcome::Unknown(reason) => {
                    steps.extend(self.not_done(reason, now, policy));
                    break;
                }
                CommitOutcome::Lost(reason) => {
                    steps.push(self.lost(reason, replayed));
                    break;
                }
            }
        }
        steps
    }

    /// An answer to a status question: about the first only.
    pub(super) fn on_status(
        &mut self,
        call: Call,
        outcomes: &[CommitOutcome],
        now: Duration,
        policy: &RetryPolicy,
        replayed: &BTreeSet<TransactionId>,
    ) -> Vec<LaneStep> {
        if self.phase != (Phase::Asking { call }) {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        match outcomes.first().unwrap_or(&no_answer()) {
            CommitOutcome::Committed | CommitOutcome::AlreadyCommitted => vec![self.first_done()],
            // Not yet, but it can be: commit again.
            CommitOutcome::Retryable(_) => Vec::new(),
            CommitOutcome::Unknown(reason) => self.not_done(reason, now, policy),
            CommitOutcome::Lost(reason) => vec![self.lost(reason, replayed)],
        }
    }

    fn first_done(&mut self) -> LaneStep {
        self.failures = 0;
        LaneStep::Committed(self.queue.pop_front().expect("T6: a call names what is queued"))
    }

    fn not_done(&mut self, reason: &str, now: Duration, policy: &RetryPolicy) -> Vec<LaneStep> {
        self.failures += 1;
        if self.failures >= policy.attempts {
            return vec![self.failed(LossReason::Exhausted(reason.to_owned()))];
        }
        self.phase = Phase::BackingOff { until: now + policy.delay(self.failures) };
        Vec::new()
    }

    fn lost(&mut self, reason: &str, replayed: &BTreeSet<TransactionId>) -> LaneStep {
        let first = self.queue.front().expect("T6: a call names what is queued");
        if !replayed.contains(first) {
            return self.failed(LossReason::Lost(reason.to_owned()));
        }
        self.failures = 0;
        LaneStep::Replayed(self.queue.pop_front().expect("looked at just now"))
    }

    fn failed(&mut self, reason: LossReason) -> LaneStep {
        self.phase = Phase::Failed;
        LaneStep::Failed(self.queue.front().expect("T6: a call names what is queued").clone(), reason)
    }
}

fn no_answer() -> CommitOutcome {
    CommitOutcome::Unknown("no answer".to_owned())
}
