//! Event time in the loop of a subtask: watermarks are made where the job says so, merged where streams meet, and passed on
//! behind the records that they cover.

use super::{Task, TaskStop};
use crate::channel::StreamElement;
use crate::task::event_time::{TICK, UnblockedClock, Watermarks, max_time};
use crate::task::node::{Node, NodeKind, Target};
use weir_plugin::batch::RecordBatch;
use weir_protocol::watermark::{EventTime, FINAL_WATERMARK, MergeEvent};

impl Task {
    /// What was restored is said again: who reads it may be new.
    pub(super) fn begin_event_time(&mut self) -> Result<(), TaskStop> {
        for node in 0..self.parts.nodes.len() {
            let own = &self.parts.nodes[node];
            let time = own.watermarks.as_ref().map_or(own.event_time, Watermarks::output);
            self.parts.times.nodes[node].event_time.set(time);
            if own.watermarks.is_some() {
                self.unblocked.get_or_insert_with(|| UnblockedClock::start(&self.parts.times));
                self.say(node, time)?;
            }
        }
        Ok(())
    }

    /// Asks the merge of all channels, and takes what follows.
    pub(super) fn merge(&mut self, event: MergeEvent) -> Result<(), TaskStop> {
        match self.merge.handle(event) {
            Some(time) => self.advance(0, time),
            None => Ok(()),
        }
    }

    /// A node's input says this of its event time.
    fn advance(&mut self, node: usize, time: EventTime) -> Result<(), TaskStop> {
        let own = &mut self.parts.nodes[node];
        // The final watermark comes with the end of the last port.
        if time.watermark == FINAL_WATERMARK || !own.event_time.advance(time) {
            return Ok(());
        }
        let (time, has_own) = (own.event_time, own.watermarks.is_some());
        // What timers give comes before the watermark that they waited for.
        self.fire(node, time.watermark)?;
        if has_own { Ok(()) } else { self.say(node, time) }
    }

    /// A node says this of its output's event time.
    fn say(&mut self, node: usize, time: EventTime) -> Result<(), TaskStop> {
        if time == EventTime::START || time.watermark == FINAL_WATERMARK {
            return Ok(());
        }
        self.parts.times.nodes[node].event_time.set(time);
        for output in 0..self.parts.nodes[node].outputs.len() {
            for t in 0..self.parts.nodes[node].outputs[output].len() {
                match self.parts.nodes[node].outputs[output][t] {
                    Target::Chained { node, .. } => self.advance(node, time)?,
                    Target::Gate(gate) => {
                        let element = StreamElement::Watermark(time);
                        self.send_through(gate, |output, background| output.send_to_all(element, background))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Before records of a node that makes watermarks are sent: an idle split is active from here on. Gives the greatest of
    /// their times; none: there is nothing to make.
    pub(super) fn before_sent(&mut self, node: usize, split: u32, batches: &[RecordBatch]) -> Result<Option<i64>, TaskStop> {
        let (Some(made), Some(unblocked)) = (&mut self.parts.nodes[node].watermarks, &self.unblocked) else { return Ok(None) };
        let Some(max_time) = batches.iter().filter_map(max_time).max() else { return Ok(None) };
        if let Some(time) = made.woken(split, unblocked.now()) {
            self.say(node, time)?;
        }
        Ok(Some(max_time))
    }

    /// After they were sent: the watermark that covers them follows them.
    pub(super) fn after_sent(&mut self, node: usize, split: u32, max_time: Option<i64>) -> Result<(), TaskStop> {
        let (Some(made), Some(unblocked)) = (&mut self.parts.nodes[node].watermarks, &self.unblocked) else { return Ok(()) };
        let Some(max_time) = max_time else { return Ok(()) };
        match made.sent(split, max_time, unblocked.now()) {
            Some(time) => self.say(node, time),
            None => Ok(()),
        }
    }

    /// Looks for inputs that have fallen idle or ended, some times a second.
    pub(super) fn tick(&mut self) -> Result<(), TaskStop> {
        let Some(unblocked) = &self.unblocked else { return Ok(()) };
        let now = unblocked.now();
        if self.paused || now < self.tick_at {
            return Ok(());
        }
        self.tick_at = now + TICK;
        for node in 0..self.parts.nodes.len() {
            let Node { kind, watermarks: Some(made), .. } = &mut self.parts.nodes[node] else { continue };
            let kind = &*kind;
            let said = made.tick(now, |split| match kind {
                NodeKind::Source(source) => source.reader.has_ended(split),
                NodeKind::Operator(_) | NodeKind::Sink(_) => false,
            });
            if let Some(time) = said {
                self.say(node, time)?;
            }
        }
        Ok(())
    }
}
