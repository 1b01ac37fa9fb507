//! Barrier alignment of one subtask that has inputs.
//!
//! Invariants:
//! - A1: no record received after barrier n on its channel is processed before snapshot n.
//! - A2: every record received before it is.
//! - A3: an ended channel never blocks alignment.
//! - A4: completed ids strictly increase.
//! - A5: no channel stays blocked while idle.

use crate::ids::{ChannelIndex, CheckpointId, Generation};

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
pub struct BarrierAligner {}

impl BarrierAligner {
    /// An aligner of one attempt. `channels`: the inputs, at least one, all open.
    pub fn new(_generation: Generation, _channels: &[ChannelIndex]) -> Self {
        BarrierAligner {}
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, _event: AlignEvent, _effects: &mut Vec<AlignEffect>) {}
}
