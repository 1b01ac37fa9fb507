//! The second half of a recovery: giving up what no checkpoint contains.

use super::events::{AbortOutcome, Call, Effect, RetryPolicy};
use crate::TransactionId;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Calling { call: Call },
    BackingOff { until: Duration },
}

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AbortStep {
    /// These are committed, and stay so.
    FoundCommitted(Vec<TransactionId>),
    /// These could not be given up, for too long.
    Failed(Vec<TransactionId>, String),
}

/// What is left to be aborted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Abortion {
    left: Vec<TransactionId>,
    phase: Phase,
    failures: u32,
}

impl Abortion {
    pub(super) fn new(left: Vec<TransactionId>) -> Self {
        Abortion { left, phase: Phase::Idle, failures: 0 }
    }

    pub(super) fn left(&self) -> &[TransactionId] {
        &self.left
    }

    /// When something is to be done without an answer.
    pub(super) fn due(&self) -> Option<Duration> {
        match self.phase {
            Phase::BackingOff { until } => Some(until),
            Phase::Idle | Phase::Calling { .. } => None,
        }
    }

    /// Calls what is due.
    pub(super) fn advance(&mut self, now: Duration, calls: &mut Call, effects: &mut Vec<Effect>) {
        let due = match self.phase {
            Phase::Idle => !self.left.is_empty(),
            Phase::BackingOff { until } => until <= now,
            Phase::Calling { .. } => false,
        };
        if due {
            let call = calls.draw();
            self.phase = Phase::Calling { call };
            effects.push(Effect::Abort { call, transactions: self.left.clone() });
        }
    }

    /// An answer to an abort of all that is left.
    pub(super) fn on_answer(
        &mut self,
        call: Call,
        outcomes: &[AbortOutcome],
        now: Duration,
        policy: &RetryPolicy,
    ) -> Vec<AbortStep> {
        if self.phase != (Phase::Calling { call }) {
            return Vec::new();
        }
        let (mut again, mut found, mut last) = (Vec::new(), Vec::new(), "no answer".to_owned());
        for (index, id) in std::mem::take(&mut self.left).into_iter().enumerate() {
            match outcomes.get(index) {
                Some(AbortOutcome::Aborted) => {}
                Some(AbortOutcome::Committed) => found.push(id),
                Some(AbortOutcome::Retryable(reason)) => {
                    last.clone_from(reason);
                    again.push(id);
                }
                None => again.push(id),
            }
        }
        self.left = again;
        let mut steps = Vec::new();
        if !found.is_empty() {
            steps.push(AbortStep::FoundCommitted(found));
        }
        steps.extend(self.after_round(last, now, policy));
        steps
    }

    fn after_round(&mut self, reason: String, now: Duration, policy: &RetryPolicy) -> Option<AbortStep> {
        self.phase = Phase::Idle;
        if self.left.is_empty() {
            return None;
        }
        self.failures += 1;
        if self.failures >= policy.attempts {
            return Some(AbortStep::Failed(self.left.clone(), reason));
        }
        self.phase = Phase::BackingOff { until: now + policy.delay(self.failures) };
        None
    }
}
