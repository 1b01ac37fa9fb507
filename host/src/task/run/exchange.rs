//! Another build of an operator, from a barrier on.

use super::Task;
use crate::task::messages::{Culprit, ExchangePause, NextBuild, TaskEvent};
use crate::task::node::{NodeKind, OperatorNode};
use crate::{clock, crash};
use std::time::Instant;
use weir_protocol::CheckpointId;

impl Task {
    /// Keeps an instance for the barrier of its swap checkpoint, which was not sent yet when this was.
    pub(super) fn keep_next(&mut self, next: NextBuild) {
        let node = self.operator(next.operator).expect("an instance is sent where its operator runs");
        node.next = Some(next);
    }

    /// The snapshot of this checkpoint is taken and its barrier has left: if it is a swap checkpoint, the new build runs from here
    /// on (X1), whatever becomes of the upload. What ran before is left in its place. `begun`: when the barrier was here.
    pub(super) fn exchange(&mut self, checkpoint: CheckpointId, begun: Instant) {
        for n in 0..self.parts.nodes.len() {
            let NodeKind::Operator(operator) = &mut self.parts.nodes[n].kind else { continue };
            let Some(next) = operator.next.take_if(|next| next.checkpoint == checkpoint) else { continue };
            let from = clock::monotonic();
            std::mem::swap(&mut operator.instance, &mut *next.slot.lock());
            operator.build = next.build;
            self.clock.exchanged(n);
            let until = clock::monotonic();
            let pause = ExchangePause { exchange: until - from, barrier: until - begun };
            // Nobody listens once the attempt has ended.
            let _ = self.parts.events.send(TaskEvent::Exchanged { pause });
            crash::point("swap-half");
        }
    }

    /// An operator's build has passed its probation.
    pub(super) fn trust(&mut self, operator: usize) {
        if let Some(node) = self.operator(operator) {
            node.instance.set_on_probation(false);
        }
    }

    /// A call of this node's operator has failed: whoever decides what runs next wants to know of which build.
    pub(super) fn blame(&mut self, node: usize) {
        if let NodeKind::Operator(operator) = &self.parts.nodes[node].kind {
            self.culprit = Some(Culprit { operator: operator.operator, build: operator.build.to_string() });
        }
    }

    fn operator(&mut self, operator: usize) -> Option<&mut OperatorNode> {
        self.parts.nodes.iter_mut().find_map(|node| match &mut node.kind {
            NodeKind::Operator(own) if own.operator == operator => Some(own),
            NodeKind::Operator(_) | NodeKind::Source(_) | NodeKind::Sink(_) => None,
        })
    }
}
