//! Barrier alignment of one subtask that has inputs.
//!
//! Invariants:
//! - A1: no record received after barrier n on its channel is processed before snapshot n.
//! - A2: every record received before it is.
//! - A3: an ended channel never blocks alignment.
//! - A4: completed ids strictly increase.
//! - A5: no channel stays blocked while idle.

use crate::bounds;
use crate::ids::{ChannelIndex, CheckpointId, Generation};
use crate::mutant::{Mutant, Mutation};
use std::collections::BTreeSet;

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;

/// What the aligner is told. Elements of a channel are given in the order of the channel, and none of a blocked one.
///
/// `EndOfData` is not among them: a channel whose bounded input has ended goes on carrying barriers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AlignEvent {
    /// A barrier was received.
    Barrier {
        /// Where.
        channel: ChannelIndex,
        /// Of which checkpoint.
        checkpoint: CheckpointId,
    },
    /// The barriers of this checkpoint and of all before it will not come on this channel.
    Cancel {
        /// Where it was received.
        channel: ChannelIndex,
        /// The newest one that will not come.
        checkpoint: CheckpointId,
    },
    /// The coordinator aborted a checkpoint.
    Abort {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// Nothing follows on this channel.
    EndOfInput {
        /// Which.
        channel: ChannelIndex,
    },
}

/// What the driver does, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AlignEffect {
    /// Read nothing more from this channel.
    Block(ChannelIndex),
    /// Read again from every blocked channel.
    UnblockAll,
    /// Forward the barrier to every output and take the synchronous part of the snapshot, with no record in between.
    Complete(CheckpointId),
    /// An alignment that had begun was given up: decline the checkpoint at the coordinator.
    Aborted {
        /// Which.
        checkpoint: CheckpointId,
        /// Why.
        reason: AlignAbort,
    },
    /// Forward `Cancel` to every output.
    ForwardCancel(CheckpointId),
    /// Every input has ended.
    Finished,
    /// A barrier of a checkpoint that is over here was dropped. To be counted, nothing else.
    Stale {
        /// Where it was received.
        channel: ChannelIndex,
        /// Of which checkpoint.
        checkpoint: CheckpointId,
    },
}

/// Why an alignment was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlignAbort {
    /// The barrier of a newer checkpoint arrived first.
    Subsumed,
    /// A `Cancel` came from upstream.
    Cancelled,
    /// The coordinator aborted it.
    Aborted,
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BarrierAligner {
    generation: Generation,
    /// Channels that have not ended.
    open: BTreeSet<ChannelIndex>,
    phase: Phase,
    /// Aborted checkpoints whose barriers have not come yet; all newer than what is over or aligning.
    aborted: BTreeSet<CheckpointId>,
    mutation: Mutation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Every open channel is read.
    Idle {
        /// What is over here: this checkpoint and all before it.
        last: CheckpointId,
    },
    /// Barriers of one checkpoint are being awaited.
    Aligning {
        id: CheckpointId,
        /// Channels whose barrier has come, which are exactly the blocked ones.
        aligned: BTreeSet<ChannelIndex>,
    },
}

impl BarrierAligner {
    /// An aligner of one attempt. `channels`: the inputs, at least one, all open.
    pub fn new(generation: Generation, channels: &[ChannelIndex]) -> Self {
        let open: BTreeSet<ChannelIndex> = channels.iter().copied().collect();
        assert!(!open.is_empty(), "A3: a subtask without inputs has nothing to align");
        assert!(open.len() == channels.len(), "A3: every input channel is named once");
        // Sequences start at 1, so nothing of this attempt is over yet.
        let phase = Phase::Idle { last: CheckpointId::new(generation, 0) };
        BarrierAligner { generation, open, phase, aborted: BTreeSet::new(), mutation: Mutation::default() }
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
    /// If an element comes from a channel that is blocked or has ended: the driver must not read there (A1).
    pub fn handle(&mut self, event: AlignEvent, effects: &mut Vec<AlignEffect>) {
        match event {
            AlignEvent::Barrier { channel, checkpoint } => {
                self.assert_readable(channel);
                self.barrier(channel, checkpoint, effects);
            }
            AlignEvent::Cancel { channel, checkpoint } => {
                self.assert_readable(channel);
                if checkpoint.generation() == self.generation {
                    self.cancel(checkpoint, effects);
                }
            }
            AlignEvent::Abort { checkpoint } => {
                if checkpoint.generation() == self.generation {
                    self.abort(checkpoint, effects);
                }
            }
            AlignEvent::EndOfInput { channel } => {
                self.assert_readable(channel);
                self.end_of_input(channel, effects);
            }
        }
    }

    /// The channels that may be read now.
    pub fn readable(&self) -> impl Iterator<Item = ChannelIndex> + '_ {
        self.open.iter().copied().filter(|channel| !self.is_blocked(*channel))
    }

    /// The checkpoint whose barriers are being awaited.
    pub fn aligning(&self) -> Option<CheckpointId> {
        match &self.phase {
            Phase::Idle { .. } => None,
            Phase::Aligning { id, .. } => Some(*id),
        }
    }

    fn is_blocked(&self, channel: ChannelIndex) -> bool {
        match &self.phase {
            Phase::Idle { .. } => false,
            Phase::Aligning { aligned, .. } => aligned.contains(&channel),
        }
    }

    fn assert_readable(&self, channel: ChannelIndex) {
        assert!(self.open.contains(&channel), "A3: {channel:?} has ended or never was an input");
        assert!(!self.is_blocked(channel), "A1: {channel:?} is blocked and was read");
    }

    fn barrier(&mut self, channel: ChannelIndex, n: CheckpointId, effects: &mut Vec<AlignEffect>) {
        if n.generation() != self.generation {
            return effects.push(AlignEffect::Stale { channel, checkpoint: n });
        }
        match &mut self.phase {
            Phase::Idle { last } if n <= *last => effects.push(AlignEffect::Stale { channel, checkpoint: n }),
            Phase::Idle { .. } => self.begin(channel, n, effects),
            Phase::Aligning { id, .. } if n < *id => effects.push(AlignEffect::Stale { channel, checkpoint: n }),
            Phase::Aligning { id, aligned } if n == *id => {
                aligned.insert(channel);
                effects.push(AlignEffect::Block(channel));
                self.complete_if_aligned(effects);
            }
            Phase::Aligning { id, .. } => {
                let id = *id;
                self.give_up(id, AlignAbort::Subsumed, effects);
                self.rest_after(id);
                self.begin(channel, n, effects);
            }
        }
    }

    /// The first barrier of a checkpoint, while idle.
    fn begin(&mut self, channel: ChannelIndex, n: CheckpointId, effects: &mut Vec<AlignEffect>) {
        if self.aborted.contains(&n) {
            effects.push(AlignEffect::ForwardCancel(n));
            return self.rest_after(n);
        }
        self.phase = Phase::Aligning { id: n, aligned: BTreeSet::from([channel]) };
        effects.push(AlignEffect::Block(channel));
        self.complete_if_aligned(effects);
    }

    fn cancel(&mut self, n: CheckpointId, effects: &mut Vec<AlignEffect>) {
        match self.phase {
            Phase::Idle { last } if n <= last => {}
            Phase::Aligning { id, .. } if n < id => {}
            Phase::Idle { .. } => {
                effects.push(AlignEffect::ForwardCancel(n));
                self.rest_after(n);
            }
            Phase::Aligning { id, .. } => {
                self.give_up(id, AlignAbort::Cancelled, effects);
                effects.push(AlignEffect::ForwardCancel(n));
                self.rest_after(n);
            }
        }
    }

    fn abort(&mut self, n: CheckpointId, effects: &mut Vec<AlignEffect>) {
        match self.phase {
            Phase::Idle { last } if n <= last => {}
            Phase::Aligning { id, .. } if n < id => {}
            Phase::Aligning { id, .. } if n == id => {
                self.give_up(id, AlignAbort::Aborted, effects);
                effects.push(AlignEffect::ForwardCancel(n));
                self.rest_after(n);
            }
            Phase::Idle { .. } | Phase::Aligning { .. } => self.remember_aborted(n),
        }
    }

    /// Its barrier is still on the way and is answered when it comes.
    fn remember_aborted(&mut self, n: CheckpointId) {
        self.aborted.insert(n);
        if self.aborted.len() > bounds::REMEMBERED_ABORTS {
            self.aborted.pop_first();
        }
    }

    fn end_of_input(&mut self, channel: ChannelIndex, effects: &mut Vec<AlignEffect>) {
        if self.mutation.is(Mutant::ForgetEndedInput) {
            return;
        }
        self.open.remove(&channel);
        match &self.phase {
            Phase::Idle { .. } if self.open.is_empty() => effects.push(AlignEffect::Finished),
            Phase::Idle { .. } => {}
            Phase::Aligning { .. } => self.complete_if_aligned(effects),
        }
    }

    /// Completes once the barrier has come on every channel that has not ended (A2, A3).
    fn complete_if_aligned(&mut self, effects: &mut Vec<AlignEffect>) {
        let Phase::Aligning { id, aligned } = &self.phase else { return };
        assert!(aligned.is_subset(&self.open), "A3: an ended channel takes part in an alignment");
        if *aligned != self.open {
            return;
        }
        let id = *id;
        // The snapshot comes before the first record behind the barrier (A1), so nothing is unblocked earlier.
        effects.push(AlignEffect::Complete(id));
        effects.push(AlignEffect::UnblockAll);
        self.rest_after(id);
    }

    /// Ends the alignment under way without a snapshot. The caller says what is over with it.
    fn give_up(&self, id: CheckpointId, reason: AlignAbort, effects: &mut Vec<AlignEffect>) {
        effects.push(AlignEffect::Aborted { checkpoint: id, reason });
        effects.push(AlignEffect::UnblockAll);
    }

    /// Everything up to `n` is over here: complete, or given up for good.
    fn rest_after(&mut self, n: CheckpointId) {
        match self.phase {
            Phase::Idle { last } => assert!(n > last, "A4: {n} is over a second time, after {last}"),
            Phase::Aligning { id, .. } => assert!(n >= id, "A4: {n} is over before {id}, which is newer"),
        }
        self.phase = Phase::Idle { last: n };
        self.aborted.retain(|aborted| *aborted > n);
    }
}
