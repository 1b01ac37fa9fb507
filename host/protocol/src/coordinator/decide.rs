//! How a checkpoint ends: the log has decided, or it is aborted; and how an attempt fails.

use super::machine::{CheckpointCoordinator, RunPhase};
use super::pending::{Ended, Phase};
use super::{AbortReason, CheckpointKind, CommitPermit, CoordEffect, FailOverReason};
use crate::bounds;
use crate::ids::CheckpointId;
use crate::mutant::Mutant;
use crate::shared::RegistryEvent;
use crate::trigger::TriggerEvent;
use std::time::Duration;

impl CheckpointCoordinator {
    /// The manifest stands. Told again, it changes nothing.
    pub(super) fn published(&mut self, now: Duration, n: CheckpointId, effects: &mut Vec<CoordEffect>) {
        match self.pending.get(&n).map(|pending| pending.phase) {
            Some(Phase::Publishing | Phase::Withdrawing) => self.complete(now, n, effects),
            Some(phase @ (Phase::Collecting | Phase::Ready)) => {
                panic!("C3: the manifest of {n} stands while it is {phase:?}")
            }
            None => {
                let aborted = matches!(self.ended.get(&n), Some(Ended::Aborted { .. }));
                assert!(!aborted, "C4: the manifest of {n} stands and it was aborted");
            }
        }
    }

    /// Neither complete nor aborted: only the next claim can find out, so the attempt ends and leaves the publish alone.
    pub(super) fn publish_unknown(&mut self, now: Duration, n: CheckpointId, effects: &mut Vec<CoordEffect>) {
        match self.pending.get(&n).map(|pending| pending.phase) {
            Some(Phase::Publishing | Phase::Withdrawing) => {
                if self.mutation.is(Mutant::UnknownPublishIsAbort) {
                    return self.abort(now, n, AbortReason::Tombstone, effects);
                }
                self.fail_over(now, FailOverReason::PublishUnknown(n), effects);
            }
            Some(Phase::Collecting | Phase::Ready) | None => {}
        }
    }

    /// The manifest never will stand.
    pub(super) fn tombstone_stands(&mut self, now: Duration, n: CheckpointId, effects: &mut Vec<CoordEffect>) {
        match self.pending.get(&n).map(|pending| pending.phase) {
            Some(Phase::Publishing) => self.abort(now, n, AbortReason::Tombstone, effects),
            Some(Phase::Withdrawing) => {
                self.abort(now, n, AbortReason::Expired, effects);
                self.fail_over(now, FailOverReason::Expired(n), effects);
            }
            Some(phase @ (Phase::Collecting | Phase::Ready)) => {
                panic!("C4: a tombstone of {n} stands while it is {phase:?}")
            }
            None => {
                let completed = matches!(self.ended.get(&n), Some(Ended::Completed));
                assert!(!completed, "C4: a tombstone of {n} stands and it is complete");
            }
        }
    }

    /// The decision point: from here on `n` is never taken back.
    fn complete(&mut self, now: Duration, n: CheckpointId, effects: &mut Vec<CoordEffect>) {
        let mut done = self.pending.remove(&n).expect("the caller has looked it up");
        assert!(self.newest < Some(n), "C1: {n} completes after {:?}", self.newest);
        assert!(done.acknowledged == self.config.subtasks, "C2: {n} completes without every snapshot");
        assert!(!self.ended.contains_key(&n), "C4: {n} had ended before");
        if self.mutation.is(Mutant::PermitByIds) {
            let older = self.pending.range(..n).flat_map(|(_, pending)| pending.committables.clone());
            done.committables.extend(older);
        }
        self.newest = Some(n);
        self.base = n;
        self.failures = 0;
        self.remember(n, Ended::Completed);
        self.trigger.handle(TriggerEvent::Completed { now, kind: done.kind });
        self.registry_event(RegistryEvent::Completed { checkpoint: n }, effects);
        // Whatever rides from now on and has a permit already is in this manifest: a later snapshot carries all that is not
        // known committed, so what `n` left out is known committed.
        self.permitted = done.committables.into_keys().collect();
        effects.push(CoordEffect::NotifyComplete { checkpoint: n });
        effects.push(CoordEffect::Commit(CommitPermit::new(n, self.permitted.clone())));
        self.subsume_older(now, n, effects);
        match done.kind {
            CheckpointKind::Periodic | CheckpointKind::Swap => {}
            CheckpointKind::Suspension | CheckpointKind::Final => {
                assert!(self.pending.is_empty(), "C6: a checkpoint was triggered after the last one");
                self.phase = RunPhase::Committing { checkpoint: n, kind: done.kind };
            }
        }
    }

    /// An older one can't complete any more (C1), also if its last acknowledgement came while `n` was being published.
    fn subsume_older(&mut self, now: Duration, n: CheckpointId, effects: &mut Vec<CoordEffect>) {
        let older: Vec<CheckpointId> = self.pending.range(..n).map(|(id, _)| *id).collect();
        for id in older {
            self.abort(now, id, AbortReason::Subsumed, effects);
        }
    }

    /// Ends a checkpoint whose manifest certainly does not stand and never will. Transactions and freezes go on: what was
    /// prepared rides in the next snapshot.
    pub(super) fn abort(&mut self, now: Duration, n: CheckpointId, reason: AbortReason, effects: &mut Vec<CoordEffect>) {
        let pending = self.pending.remove(&n).expect("only what is under way is aborted");
        assert!(!self.ended.contains_key(&n), "C4: {n} had ended before");
        if self.mutation.is(Mutant::AbortTransactionWithCheckpoint) {
            for later in self.pending.values_mut() {
                later.committables.retain(|id, _| !pending.committables.contains_key(id));
            }
        }
        let kind = pending.kind;
        self.remember(n, Ended::Aborted { acknowledged: pending.acknowledged });
        self.trigger.handle(TriggerEvent::Aborted { now, kind });
        effects.push(CoordEffect::NotifyAborted { checkpoint: n, reason });
        self.registry_event(RegistryEvent::Aborted { checkpoint: n }, effects);
        if reason.is_failure() {
            self.failures += 1;
            if self.failures > self.config.tolerable_failures {
                return self.fail_over(now, FailOverReason::TooManyAborts(n), effects);
            }
        }
        // Behind its barrier some subtasks may have exchanged, and others never will.
        let ends = match reason {
            // The attempt ends already.
            AbortReason::Expired | AbortReason::FailOver => false,
            AbortReason::Timeout
            | AbortReason::Declined(_)
            | AbortReason::Subsumed
            | AbortReason::FileGone(_)
            | AbortReason::OverBound(_)
            | AbortReason::Tombstone => kind == CheckpointKind::Swap && !self.mutation.is(Mutant::SwapSurvivesAbort),
        };
        if ends {
            self.fail_over(now, FailOverReason::SwapAborted(n), effects);
        }
    }

    /// Ends the attempt. A checkpoint whose publish is under way is left alone: its manifest may stand, so its files stay,
    /// and the next attempt's claim settles it.
    pub(super) fn fail_over(&mut self, now: Duration, reason: FailOverReason, effects: &mut Vec<CoordEffect>) {
        let unpublished = |phase: Phase| match phase {
            Phase::Collecting | Phase::Ready => true,
            Phase::Publishing | Phase::Withdrawing => false,
        };
        let aborted: Vec<CheckpointId> =
            self.pending.iter().filter(|(_, pending)| unpublished(pending.phase)).map(|(id, _)| *id).collect();
        for id in aborted {
            self.abort(now, id, AbortReason::FailOver, effects);
        }
        self.end_with(CoordEffect::FailOver { reason }, effects);
    }

    fn remember(&mut self, n: CheckpointId, ended: Ended) {
        self.ended.insert(n, ended);
        if self.ended.len() > bounds::REMEMBERED_CHECKPOINTS {
            self.ended.pop_first();
        }
    }
}

impl AbortReason {
    /// Whether it counts against the tolerable failures.
    fn is_failure(self) -> bool {
        match self {
            AbortReason::Timeout
            | AbortReason::Declined(_)
            | AbortReason::FileGone(_)
            | AbortReason::OverBound(_)
            | AbortReason::Tombstone => true,
            // A newer one has completed, or the attempt ends anyway.
            AbortReason::Subsumed | AbortReason::Expired | AbortReason::FailOver => false,
        }
    }
}
