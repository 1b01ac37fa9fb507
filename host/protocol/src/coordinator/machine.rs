//! The machine.

use super::{CompletedCheckpoint, CoordEffect, CoordEvent, CoordinatorConfig};
use std::time::Duration;

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckpointCoordinator {}

impl CheckpointCoordinator {
    /// A coordinator of one attempt. `completed`: every checkpoint that stands in the log, in id order. `now`: the attempt
    /// begins; the first interval counts from here.
    pub fn new(_config: CoordinatorConfig, _completed: &[CompletedCheckpoint], _now: Duration) -> Self {
        CheckpointCoordinator {}
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, _event: CoordEvent, _effects: &mut Vec<CoordEffect>) {}

    /// When a `Tick` is due, if nothing else happens before. To be asked after each event.
    pub fn next_deadline(&self) -> Option<Duration> {
        None
    }
}
