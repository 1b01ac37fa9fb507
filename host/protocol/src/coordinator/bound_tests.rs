//! What happens when a bound is hit.

use super::script::GENERATION;
use super::{AbortReason, CheckpointCoordinator, CoordEffect, CoordEvent, CoordinatorConfig};
use crate::bounds;
use crate::ids::{CheckpointId, SubtaskIndex};
use crate::shared::{FileOrigin, FileRef};
use std::collections::BTreeSet;
use std::time::Duration;

/// A machine with one subtask, at its first checkpoint.
fn at_first_checkpoint(tolerable_failures: u32) -> CheckpointCoordinator {
    let only = BTreeSet::from([SubtaskIndex(0)]);
    let config = CoordinatorConfig {
        generation: GENERATION,
        first_sequence: 1,
        sources: only.clone(),
        subtasks: only,
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(100),
        min_pause: Duration::ZERO,
        max_concurrent: 1,
        tolerable_failures,
        retain: 1,
    };
    let mut machine = CheckpointCoordinator::new(config, &[], None, Duration::ZERO);
    machine.handle(CoordEvent::Tick { now: Duration::from_secs(1) }, &mut Vec::new());
    machine
}

fn uploaded(names: impl Iterator<Item = usize>) -> Vec<FileRef> {
    names.map(|name| FileRef { name: format!("f{name}"), origin: FileOrigin::Uploaded }).collect()
}

#[test]
fn an_acknowledgement_over_the_bound_aborts_its_checkpoint_and_releases_its_uploads() {
    let mut machine = at_first_checkpoint(1);
    let (checkpoint, subtask) = (CheckpointId::new(GENERATION, 1), SubtaskIndex(0));
    let files = uploaded(0..bounds::FILES_PER_ACK + 1);
    let now = Duration::from_secs(1);
    let mut effects = Vec::new();
    machine.handle(CoordEvent::Acknowledge { now, checkpoint, subtask, files, committables: vec![] }, &mut effects);
    let reason = AbortReason::OverBound(subtask);
    assert_eq!(effects[1], CoordEffect::NotifyAborted { checkpoint, reason });
    assert!(matches!(&effects[2], CoordEffect::ReleaseFiles { names } if names.len() == bounds::FILES_PER_ACK + 1));
    assert_eq!(effects.len(), 3);
}

/// A subtask that acknowledges a checkpoint which is long forgotten must not leave its files behind.
#[test]
fn uploads_for_a_forgotten_checkpoint_are_released() {
    let mut machine = at_first_checkpoint(u32::MAX);
    let subtask = SubtaskIndex(0);
    let first = CheckpointId::new(GENERATION, 1);
    let mut checkpoint = first;
    for round in 0..=bounds::REMEMBERED_CHECKPOINTS as u64 {
        let now = Duration::from_secs(2 + round);
        machine.handle(CoordEvent::Decline { now, checkpoint, subtask }, &mut Vec::new());
        checkpoint = checkpoint.next();
    }
    let now = Duration::from_secs(500);
    let mut effects = Vec::new();
    let files = uploaded(0..1);
    machine.handle(CoordEvent::Acknowledge { now, checkpoint: first, subtask, files, committables: vec![] }, &mut effects);
    let names = BTreeSet::from(["f0".to_owned()]);
    assert!(effects.contains(&CoordEffect::ReleaseFiles { names }), "{effects:?}");
}
