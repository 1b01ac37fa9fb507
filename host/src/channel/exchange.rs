//! The output gate of an edge that leaves the thread: spreads batches over the subtasks of the reader.

use super::element::{Batch, StreamElement};
use super::gate::{Cancelled, ChannelWriter};
use crate::graph::Partition;

/// The writing side of one edge, in one upstream subtask.
pub struct OutputGate<C> {
    /// One for each downstream subtask; exactly one for `Forward`.
    writers: Vec<ChannelWriter<C>>,
    partition: Partition,
    /// Next writer for `Rebalance`.
    turn: usize,
}

impl<C> OutputGate<C> {
    /// `first_turn` staggers the upstream subtasks, so that they don't all begin with the same reader.
    ///
    /// # Panics
    /// If there is no writer, or more than one for `Forward`.
    pub fn new(writers: Vec<ChannelWriter<C>>, partition: Partition, first_turn: usize) -> Self {
        assert!(!writers.is_empty(), "an edge has a reader");
        assert!(partition != Partition::Forward || writers.len() == 1, "a forward edge has one reader");
        let turn = first_turn % writers.len();
        OutputGate { writers, partition, turn }
    }

    /// Sends records to where the partition says. True: it had to wait.
    pub fn send_batch<E: From<Cancelled>>(
        &mut self,
        batch: Batch,
        mut background: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if batch.records.is_empty() {
            return Ok(false);
        }
        match self.partition {
            Partition::Forward => self.writers[0].send(StreamElement::Batch(batch), background),
            Partition::Rebalance => {
                let writer = self.turn;
                self.turn = (self.turn + 1) % self.writers.len();
                self.writers[writer].send(StreamElement::Batch(batch), background)
            }
            Partition::Broadcast => self.send_to_all(StreamElement::Batch(batch), background),
            Partition::Key if self.writers.len() == 1 => self.writers[0].send(StreamElement::Batch(batch), background),
            Partition::Key => {
                let mut waited = false;
                let provenance = batch.provenance.derived();
                let parts = batch.records.split_by_key(self.writers.len() as u32);
                for (reader, records) in parts.into_iter().enumerate() {
                    if !records.is_empty() {
                        let part = Batch { records, provenance: provenance.clone() };
                        waited |= self.writers[reader].send(StreamElement::Batch(part), &mut background)?;
                    }
                }
                Ok(waited)
            }
        }
    }

    /// Sends an element to every reader: barriers, cancels, watermarks, ends.
    pub fn send_to_all<E: From<Cancelled>>(
        &self,
        element: StreamElement,
        mut background: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut waited = false;
        let (last, others) = self.writers.split_last().expect("an edge has a reader");
        for writer in others {
            waited |= writer.send(element.clone(), &mut background)?;
        }
        Ok(last.send(element, background)? | waited)
    }
}
