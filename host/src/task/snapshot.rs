//! Collects the parts of one subtask's snapshot, which become ready on different threads, and hands the whole over once.

use super::messages::{OperatorSnapshot, SinkSnapshot, SourceSnapshot, SubtaskSnapshot, TaskEvent, TaskFailure};
use crate::connectors::Remedy;
use crate::state::LocalSnapshot;
use std::sync::{Arc, Mutex};
use weir_protocol::{CheckpointId, SubtaskIndex};

/// Where subtasks send their events.
pub type EventSender = tokio::sync::mpsc::UnboundedSender<TaskEvent>;

/// A snapshot whose parts are still on their way. Cloned into every part's thread; the last one sends the whole.
#[derive(Clone)]
pub struct SnapshotParts {
    shared: Arc<Mutex<Parts>>,
    events: EventSender,
    place: Arc<str>,
}

struct Parts {
    snapshot: SubtaskSnapshot,
    /// Parts that are still owed, the barrier's own (`seal`) included.
    owed: usize,
}

impl SnapshotParts {
    /// Begins a snapshot. `place`: for messages.
    pub fn begin(
        subtask: SubtaskIndex,
        checkpoint: CheckpointId,
        source: Option<SourceSnapshot>,
        events: EventSender,
        place: Arc<str>,
    ) -> Self {
        let snapshot = SubtaskSnapshot { subtask, checkpoint, source, operators: Vec::new(), sinks: Vec::new() };
        SnapshotParts { shared: Arc::new(Mutex::new(Parts { snapshot, owed: 1 })), events, place }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parts> {
        // Parts are only pushed under the lock: a panic elsewhere leaves them whole.
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds an operator; `owes_state`: its state comes later through [`SnapshotParts::state`].
    pub fn operator(&self, operator: OperatorSnapshot, owes_state: bool) {
        let mut parts = self.lock();
        parts.snapshot.operators.push(operator);
        parts.owed += usize::from(owes_state);
    }

    /// Owes one sink's part, which comes through [`SnapshotParts::sink`].
    pub fn owe_sink(&self) {
        self.lock().owed += 1;
    }

    /// An operator's state is linked.
    pub fn state(&self, operator: usize, state: LocalSnapshot) {
        let mut parts = self.lock();
        let own = parts.snapshot.operators.iter_mut().find(|o| o.operator == operator);
        own.expect("an operator is added before its state").state = Some(state);
        self.one_less(parts);
    }

    /// A sink's transaction is prepared.
    pub fn sink(&self, sink: SinkSnapshot) {
        let mut parts = self.lock();
        parts.snapshot.sinks.push(sink);
        self.one_less(parts);
    }

    /// The barrier has passed the whole chain: no part is owed beyond those announced.
    pub fn seal(&self) {
        let parts = self.lock();
        self.one_less(parts);
    }

    /// A part could not be made durable: the attempt ends. The other parts find nobody waiting.
    pub fn fail(&self, message: String) {
        let subtask = self.lock().snapshot.subtask;
        let failure = TaskFailure { place: self.place.to_string(), message, remedy: Remedy::Restart };
        let _ = self.events.send(TaskEvent::Failed { subtask, failure, culprit: None });
    }

    fn one_less(&self, mut parts: std::sync::MutexGuard<'_, Parts>) {
        assert!(parts.owed > 0, "C2: a part of snapshot {} came twice", parts.snapshot.checkpoint);
        parts.owed -= 1;
        if parts.owed == 0 {
            // Nobody listens once the attempt has ended.
            let _ = self.events.send(TaskEvent::Snapshot(parts.snapshot.clone()));
        }
    }
}
