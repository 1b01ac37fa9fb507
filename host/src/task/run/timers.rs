//! Timers in the loop of a subtask: set by calls, fired when their clock has passed them.

use super::{Task, TaskStop, failed, state_failed};
use crate::connectors::Remedy;
use crate::task::node::NodeKind;
use crate::task::timers::TimerFault;
use std::time::Duration;
use weir_plugin::TimerChange;
use weir_plugin::state::KeyedStateBackend;
use weir_protocol::watermark::FINAL_WATERMARK;

impl Task {
    /// A call has set timers, or taken some away. Those that are due already fire at once.
    pub(super) fn set_timers(&mut self, node: usize, changes: &[TimerChange]) -> Result<(), TaskStop> {
        if changes.is_empty() {
            return Ok(());
        }
        let own = &mut self.parts.nodes[node];
        // At the end of all input nothing is waited for.
        let watermark = if own.open_ports.is_empty() { FINAL_WATERMARK } else { own.event_time.watermark };
        let NodeKind::Operator(operator) = &mut own.kind else { return Ok(()) };
        let timers = operator.timers.as_mut().expect("only a plugin that has timers can set any");
        let backend = operator.backend.as_deref_mut().expect("an operator with timers has state");
        let applied = timers.apply(None, changes, backend);
        applied.map_err(|fault| self.timers_failed(node, fault))?;
        self.fire(node, watermark)
    }

    /// Fires all timers that are due at this watermark, and by the clock on the wall.
    pub(super) fn fire(&mut self, node: usize, watermark: i64) -> Result<(), TaskStop> {
        loop {
            let NodeKind::Operator(operator) = &mut self.parts.nodes[node].kind else { return Ok(()) };
            let Some(timers) = &mut operator.timers else { return Ok(()) };
            if operator.end_of_data_sent {
                // What a restore has brought back was dropped at the end, and is again.
                return Ok(());
            }
            let clocks = timers.clocks(watermark);
            let fired = match timers.take_due(clocks) {
                Ok(Some(fired)) => fired,
                Ok(None) => return Ok(()),
                Err(fault) => return Err(self.timers_failed(node, fault)),
            };
            operator.instance.set_clocks(clocks);
            let state = operator.backend.as_deref_mut().map(|backend| backend as &mut dyn KeyedStateBackend);
            let processed = operator.instance.on_timers(fired.kind, &fired.due, state);
            self.clock.lap_call(node, operator.instance.times(), operator.look_ups());
            let mut processed = match processed {
                Ok(processed) => processed,
                failure @ Err(_) => return self.emit_end(node, failure),
            };
            // They go from the state with what the call did, before anything else happens.
            let changes = std::mem::take(&mut processed.timers);
            let (Some(timers), Some(backend)) = (&mut operator.timers, &mut operator.backend) else { return Ok(()) };
            let applied = timers.apply(Some(&fired), &changes, &mut **backend);
            applied.map_err(|fault| self.timers_failed(node, fault))?;
            self.emit_end(node, Ok(processed))?;
        }
    }

    /// Fires those that wait for the clock on the wall.
    pub(super) fn fire_by_the_wall(&mut self) -> Result<(), TaskStop> {
        if self.until_timer().is_none_or(|wait| !wait.is_zero()) {
            return Ok(());
        }
        for node in 0..self.parts.nodes.len() {
            self.fire(node, self.parts.nodes[node].event_time.watermark)?;
        }
        Ok(())
    }

    /// Time until the next timer by the clock on the wall; none if there is none that will fire.
    pub(super) fn until_timer(&self) -> Option<Duration> {
        if self.paused {
            return None;
        }
        let wait = self.parts.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Operator(operator) if operator.end_of_data_sent => None,
            NodeKind::Operator(operator) => operator.timers.as_ref()?.wait_ms(),
            NodeKind::Source(_) | NodeKind::Sink(_) => None,
        });
        wait.min().map(Duration::from_millis)
    }

    /// All input of a node has ended: event time is at its end, and the clock on the wall is not waited for.
    pub(super) fn end_timers(&mut self, node: usize) -> Result<(), TaskStop> {
        self.fire(node, FINAL_WATERMARK)?;
        let own = &mut self.parts.nodes[node];
        let NodeKind::Operator(operator) = &mut own.kind else { return Ok(()) };
        let Some(timers) = &mut operator.timers else { return Ok(()) };
        let dropped = timers.drop_processing();
        // The calls at the end know it, too.
        operator.instance.set_clocks(timers.clocks(FINAL_WATERMARK));
        if dropped > 0 {
            let name = &own.name;
            tracing::warn!("{name}: all input has ended: {dropped} timers that wait for the clock on the wall are dropped");
        }
        Ok(())
    }

    fn timers_failed(&mut self, node: usize, fault: TimerFault) -> TaskStop {
        match fault {
            TimerFault::Plugin(why) => {
                self.blame(node);
                failed(&self.parts.place, format!("timers: {why}"), Remedy::Restart)
            }
            TimerFault::State(error) => state_failed(&self.parts.place, &error),
        }
    }
}
