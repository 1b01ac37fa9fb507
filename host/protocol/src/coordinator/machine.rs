//! The machine: what it knows, and what each event means.

use super::pending::{Ended, Pending, Phase};
use super::{AbortReason, AckOutcome, CheckpointKind, Committable, CompletedCheckpoint, CoordEffect, CoordEvent};
use super::{CoordinatorConfig, FailOverReason};
use crate::bounds;
use crate::ids::{CheckpointId, Generation, SubtaskIndex, TransactionId};
use crate::mutant::{Mutant, Mutation};
use crate::shared::{FileRef, RegistryEffect, RegistryEvent, SharedStateRegistry};
use crate::trigger::{TriggerEvent, TriggerPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The coordinator of one attempt. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckpointCoordinator {
    pub(super) config: CoordinatorConfig,
    pub(super) phase: RunPhase,
    pub(super) trigger: TriggerPolicy,
    pub(super) registry: SharedStateRegistry,
    pub(super) pending: BTreeMap<CheckpointId, Pending>,
    pub(super) ended: BTreeMap<CheckpointId, Ended>,
    /// Sequence of the next checkpoint.
    pub(super) next_sequence: u32,
    /// The newest checkpoint that stands in the log.
    pub(super) newest: Option<CheckpointId>,
    /// Where the state of the subtasks comes from: the newest own completed checkpoint, before that the restored one.
    pub(super) base: CheckpointId,
    /// Transactions of completed checkpoints that may still ride: a permit names them already.
    pub(super) permitted: BTreeSet<TransactionId>,
    /// Source subtasks that have reported EndOfData.
    pub(super) ended_sources: BTreeSet<SubtaskIndex>,
    /// Aborted checkpoints in a row.
    pub(super) failures: u32,
    pub(super) mutation: Mutation,
}

/// How far the attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RunPhase {
    /// Checkpoints come and go.
    Running,
    /// The last checkpoint is complete and its commits are awaited.
    Committing { checkpoint: CheckpointId, kind: CheckpointKind },
    /// The attempt is over: nothing is decided any more.
    Done,
}

impl CheckpointCoordinator {
    /// A coordinator of one attempt that starts at `now`. `completed`: every checkpoint that stands in the log, in id order.
    /// `restored`: the one that the subtasks start from, if any.
    pub fn new(
        config: CoordinatorConfig,
        completed: &[CompletedCheckpoint],
        restored: Option<CheckpointId>,
        now: Duration,
    ) -> Self {
        assert!(!config.sources.is_empty(), "C2: a job has a source");
        assert!(config.sources.is_subset(&config.subtasks), "C2: a source is a subtask");
        assert!(config.first_sequence > 0, "C5: sequences start at 1");
        let newest = completed.last().map(|checkpoint| checkpoint.checkpoint);
        let first = CheckpointId::new(config.generation, config.first_sequence);
        assert!(newest < Some(first), "C5: {first} is not newer than {newest:?}");
        assert!(
            restored.is_none_or(|id| completed.iter().any(|checkpoint| checkpoint.checkpoint == id)),
            "S1: the restored checkpoint {restored:?} does not stand in the log"
        );
        let mut registry = SharedStateRegistry::new(config.retain);
        let mut nothing = Vec::new();
        for checkpoint in completed {
            let files = checkpoint.files.clone();
            registry.handle(RegistryEvent::Restored { checkpoint: checkpoint.checkpoint, files }, &mut nothing);
        }
        CheckpointCoordinator {
            phase: RunPhase::Running,
            trigger: TriggerPolicy::new(config.interval, config.min_pause, config.max_concurrent, now),
            registry,
            pending: BTreeMap::new(),
            ended: BTreeMap::new(),
            next_sequence: config.first_sequence,
            newest,
            base: restored.unwrap_or(CheckpointId::new(Generation(0), 0)),
            permitted: completed.iter().flat_map(|checkpoint| checkpoint.transactions.iter().cloned()).collect(),
            ended_sources: BTreeSet::new(),
            failures: 0,
            mutation: Mutation::default(),
            config,
        }
    }

    /// The same with a deliberate fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutant(mut self, mutant: Mutant) -> Self {
        self.mutation = Mutation::of(mutant);
        self
    }

    /// Takes one event and appends what has to be done.
    ///
    /// # Panics
    /// If the log contradicts itself or the machine (C1–C6), or a file name was used twice (S3): these are bugs of ours.
    pub fn handle(&mut self, event: CoordEvent, effects: &mut Vec<CoordEffect>) {
        let now = event.now();
        if self.phase == RunPhase::Done {
            return self.after_the_end(event, effects);
        }
        match event {
            CoordEvent::Tick { now: _ } => {}
            CoordEvent::Acknowledge { now, checkpoint, subtask, files, committables } => {
                self.acknowledge(now, checkpoint, subtask, files, committables, effects);
            }
            CoordEvent::Decline { now, checkpoint, subtask } => {
                if self.pending.get(&checkpoint).is_some_and(|pending| pending.phase == Phase::Collecting) {
                    self.abort(now, checkpoint, AbortReason::Declined(subtask), effects);
                }
            }
            CoordEvent::TaskFailed { now, generation, subtask } => {
                if generation == self.config.generation {
                    self.fail_over(now, FailOverReason::TaskFailed(subtask), effects);
                }
            }
            CoordEvent::SourceEndOfData { now: _, generation, subtask } => self.source_ended(generation, subtask),
            CoordEvent::Published { now, checkpoint } => self.published(now, checkpoint, effects),
            CoordEvent::PublishUnknown { now, checkpoint } => self.publish_unknown(now, checkpoint, effects),
            CoordEvent::TombstoneStands { now, checkpoint } => self.tombstone_stands(now, checkpoint, effects),
            // Nothing is aborted or deleted: our manifest may stand below the claim, and the new owner start from it.
            CoordEvent::NewerClaim { now: _ } => self.end_with(CoordEffect::Fenced, effects),
            CoordEvent::RequestSuspend { now: _ } => self.trigger.handle(TriggerEvent::SuspendRequested),
            CoordEvent::RequestSwap { now: _ } => self.trigger.handle(TriggerEvent::SwapRequested),
            CoordEvent::CommitsDone { now: _, checkpoint } => self.commits_done(checkpoint, effects),
        }
        self.advance(now, effects);
    }

    /// The retained checkpoints and the files that they and those under way refer to.
    pub fn registry(&self) -> &SharedStateRegistry {
        &self.registry
    }

    /// The newest checkpoint that stands in the log.
    pub fn newest_completed(&self) -> Option<CheckpointId> {
        self.newest
    }

    /// The checkpoints under way, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.pending.keys().copied()
    }

    /// Whether the attempt is over for this machine.
    pub fn is_done(&self) -> bool {
        self.phase == RunPhase::Done
    }

    /// A late acknowledgement still gets its answer; what it uploaded is left to the next attempt's garbage collection.
    fn after_the_end(&mut self, event: CoordEvent, effects: &mut Vec<CoordEffect>) {
        if let CoordEvent::Acknowledge { checkpoint, subtask, .. } = event {
            let outcome = self.outcome_of_ended(checkpoint, subtask);
            effects.push(CoordEffect::Acknowledged { checkpoint, subtask, outcome });
        }
    }

    fn acknowledge(
        &mut self,
        now: Duration,
        checkpoint: CheckpointId,
        subtask: SubtaskIndex,
        files: Vec<FileRef>,
        committables: Vec<Committable>,
        effects: &mut Vec<CoordEffect>,
    ) {
        let known = self.config.subtasks.contains(&subtask);
        let Some(pending) = self.pending.get_mut(&checkpoint).filter(|_| known) else {
            return self.acknowledge_ended(checkpoint, subtask, files, effects);
        };
        if !pending.acknowledged.insert(subtask) {
            return effects.push(CoordEffect::Acknowledged { checkpoint, subtask, outcome: AckOutcome::Duplicate });
        }
        assert!(pending.phase == Phase::Collecting, "C2: {checkpoint} took a snapshot after the last one");
        effects.push(CoordEffect::Acknowledged { checkpoint, subtask, outcome: AckOutcome::Accepted });
        let over_bound = files.len() > bounds::FILES_PER_ACK || committables.len() > bounds::COMMITTABLES_PER_ACK;
        pending.add_committables(committables);
        let expected = self.config.subtasks.len() - self.skipped();
        let pending = self.pending.get_mut(&checkpoint).expect("looked up above");
        if pending.acknowledged.len() >= expected {
            pending.phase = Phase::Ready;
        }
        // Registered even if the checkpoint is aborted for it, so that what was uploaded is released with it (S4).
        let gone = self.registry_event(RegistryEvent::Registered { checkpoint, files }, effects);
        if over_bound {
            self.abort(now, checkpoint, AbortReason::OverBound(subtask), effects);
        } else if gone {
            self.abort(now, checkpoint, AbortReason::FileGone(subtask), effects);
        }
    }

    /// Subtasks that need not acknowledge: none, unless the machine is faulty.
    fn skipped(&self) -> usize {
        if self.mutation.is(Mutant::OwedSkipsEnded) { self.ended_sources.len() } else { 0 }
    }

    fn acknowledge_ended(
        &mut self,
        checkpoint: CheckpointId,
        subtask: SubtaskIndex,
        files: Vec<FileRef>,
        effects: &mut Vec<CoordEffect>,
    ) {
        let outcome = self.outcome_of_ended(checkpoint, subtask);
        effects.push(CoordEffect::Acknowledged { checkpoint, subtask, outcome });
        let releases = match outcome {
            AckOutcome::Late => true,
            // Forgotten, if there ever was one; else nobody knows whose files these are.
            AckOutcome::Unknown => self.config.subtasks.contains(&subtask) && checkpoint.sequence() < self.next_sequence,
            AckOutcome::Accepted | AckOutcome::Duplicate | AckOutcome::StaleGeneration => false,
        };
        if releases {
            self.registry_event(RegistryEvent::Refused { files }, effects);
        }
    }

    fn outcome_of_ended(&mut self, checkpoint: CheckpointId, subtask: SubtaskIndex) -> AckOutcome {
        if checkpoint.generation() != self.config.generation {
            return AckOutcome::StaleGeneration;
        }
        if !self.config.subtasks.contains(&subtask) {
            return AckOutcome::Unknown;
        }
        match self.ended.get_mut(&checkpoint) {
            None => AckOutcome::Unknown,
            Some(Ended::Completed) => AckOutcome::Duplicate,
            Some(Ended::Aborted { acknowledged }) => {
                if acknowledged.insert(subtask) {
                    AckOutcome::Late
                } else {
                    AckOutcome::Duplicate
                }
            }
        }
    }

    fn source_ended(&mut self, generation: Generation, subtask: SubtaskIndex) {
        if generation != self.config.generation || !self.config.sources.contains(&subtask) {
            return;
        }
        self.ended_sources.insert(subtask);
        if self.ended_sources.len() == self.config.sources.len() {
            self.trigger.handle(TriggerEvent::SourcesEnded);
        }
    }

    fn commits_done(&mut self, checkpoint: CheckpointId, effects: &mut Vec<CoordEffect>) {
        let RunPhase::Committing { checkpoint: last, kind } = self.phase else { return };
        if checkpoint != last {
            return;
        }
        match kind {
            CheckpointKind::Final => self.end_with(CoordEffect::Finished { checkpoint }, effects),
            CheckpointKind::Suspension => self.end_with(CoordEffect::Suspended { checkpoint }, effects),
            CheckpointKind::Periodic | CheckpointKind::Swap => {
                unreachable!("nobody waits for the commits of one that others follow")
            }
        }
    }

    /// Tells the registry and passes on what follows. True if a file is gone on which the event counts.
    pub(super) fn registry_event(&mut self, event: RegistryEvent, effects: &mut Vec<CoordEffect>) -> bool {
        let mut from_registry = Vec::new();
        self.registry.handle(event, &mut from_registry);
        let mut gone = false;
        for effect in from_registry {
            match effect {
                RegistryEffect::Gone { names: _ } => gone = true,
                RegistryEffect::Subsumed { checkpoint } => effects.push(CoordEffect::Subsume { checkpoint }),
                RegistryEffect::Released { names } => effects.push(CoordEffect::ReleaseFiles { names }),
            }
        }
        gone
    }

    /// The attempt ends with this effect.
    pub(super) fn end_with(&mut self, effect: CoordEffect, effects: &mut Vec<CoordEffect>) {
        effects.push(effect);
        self.phase = RunPhase::Done;
    }
}
