//! What time and free places bring about: expiry, the next publish, retention, the next trigger.

use super::machine::{CheckpointCoordinator, RunPhase};
use super::pending::{Pending, Phase};
use super::{AbortReason, CheckpointKind, CoordEffect, FailOverReason};
use crate::ids::CheckpointId;
use crate::shared::RegistryEvent;
use crate::trigger::{TriggerDecision, TriggerEvent};
use std::time::Duration;

impl CheckpointCoordinator {
    /// When a `Tick` is due, if nothing else happens before. To be asked after each event; none: only an event can change
    /// anything.
    pub fn next_deadline(&self) -> Option<Duration> {
        let trigger = match (self.phase, self.trigger.decision()) {
            (RunPhase::Done, _) => return None,
            (RunPhase::Running, TriggerDecision::At { at, kind: _ }) => Some(at),
            (RunPhase::Running, TriggerDecision::AfterPending | TriggerDecision::Never) => None,
            (RunPhase::Committing { .. }, _) => None,
        };
        let timeouts = self.pending.values().filter_map(|pending| self.times_out(pending));
        let expiries = self.pending.values().filter_map(|pending| self.expires(pending));
        timeouts.chain(expiries).chain(trigger).min()
    }

    /// Does what has become due, in this order: what has expired must not be published, and a publish or an abort may make
    /// room for a trigger.
    pub(super) fn advance(&mut self, now: Duration, effects: &mut Vec<CoordEffect>) {
        self.expire(now, effects);
        self.publish_next(effects);
        self.retire(effects);
        self.trigger_due(now, effects);
    }

    fn expire(&mut self, now: Duration, effects: &mut Vec<CoordEffect>) {
        let ids: Vec<CheckpointId> = self.pending.keys().copied().collect();
        for n in ids {
            // An abort before it may have ended the attempt and with it every checkpoint under way.
            let (RunPhase::Running, Some(pending)) = (self.phase, self.pending.get(&n)) else { return };
            let timed_out = self.times_out(pending).is_some_and(|at| now >= at);
            let expired = self.expires(pending).is_some_and(|at| now >= at);
            match pending.phase {
                Phase::Collecting | Phase::Ready if expired => {
                    self.abort(now, n, AbortReason::Expired, effects);
                    self.fail_over(now, FailOverReason::Expired(n), effects);
                }
                Phase::Publishing if expired => {
                    self.pending.get_mut(&n).expect("looked up above").phase = Phase::Withdrawing;
                    effects.push(CoordEffect::PutTombstone { checkpoint: n });
                }
                Phase::Collecting if timed_out => self.abort(now, n, AbortReason::Timeout, effects),
                Phase::Collecting | Phase::Ready | Phase::Publishing | Phase::Withdrawing => {}
            }
        }
    }

    /// Only while acknowledgements are owed: then nothing has been asked of the log.
    fn times_out(&self, pending: &Pending) -> Option<Duration> {
        match pending.phase {
            Phase::Collecting => Some(pending.triggered.saturating_add(self.config.timeout)),
            Phase::Ready | Phase::Publishing | Phase::Withdrawing => None,
        }
    }

    /// When a committable of it expires that has no permit. While a publish is being withdrawn nobody knows what has one: its
    /// outcome decides for the others too.
    fn expires(&self, pending: &Pending) -> Option<Duration> {
        let withdrawing = self.pending.values().any(|pending| pending.phase == Phase::Withdrawing);
        pending.valid_until(&self.permitted).filter(|_| !withdrawing)
    }

    /// One publish at a time, in id order among those that are ready.
    fn publish_next(&mut self, effects: &mut Vec<CoordEffect>) {
        if self.phase != RunPhase::Running || self.pending.values().any(|pending| pending.phase >= Phase::Publishing) {
            return;
        }
        let Some((&n, pending)) = self.pending.iter_mut().find(|(_, pending)| pending.phase == Phase::Ready) else { return };
        pending.phase = Phase::Publishing;
        effects.push(CoordEffect::PublishManifest { checkpoint: n });
    }

    /// Keeps what a snapshot under way may count on.
    fn retire(&mut self, effects: &mut Vec<CoordEffect>) {
        if self.phase == RunPhase::Done {
            return;
        }
        let collecting = self.pending.values().filter(|pending| pending.phase == Phase::Collecting);
        let needed = collecting.map(|pending| pending.base).fold(self.base, CheckpointId::min);
        self.registry_event(RegistryEvent::Retire { needed }, effects);
    }

    fn trigger_due(&mut self, now: Duration, effects: &mut Vec<CoordEffect>) {
        while self.phase == RunPhase::Running {
            match self.trigger.decision() {
                TriggerDecision::At { at, kind } if now >= at => self.inject(now, kind, effects),
                TriggerDecision::At { .. } | TriggerDecision::AfterPending | TriggerDecision::Never => return,
            }
        }
    }

    fn inject(&mut self, now: Duration, kind: CheckpointKind, effects: &mut Vec<CoordEffect>) {
        let Some(following) = self.next_sequence.checked_add(1) else {
            return self.fail_over(now, FailOverReason::SequenceExhausted, effects);
        };
        let n = CheckpointId::new(self.config.generation, self.next_sequence);
        assert!(self.newest < Some(n) && self.pending.keys().all(|id| *id < n), "C5: {n} was used before");
        assert!(self.pending.len() < self.config.max_concurrent, "C6: {} checkpoints are under way", self.pending.len());
        self.next_sequence = following;
        self.pending.insert(n, Pending::new(kind, now, self.base));
        self.trigger.handle(TriggerEvent::Triggered { now, kind });
        effects.push(CoordEffect::InjectBarrier { checkpoint: n, kind, sources: self.config.sources.clone() });
    }
}
