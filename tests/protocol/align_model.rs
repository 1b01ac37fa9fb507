//! Alignment with ended inputs: every order in which the channels of one subtask can deliver barriers, cancels, records and
//! their end, with aborts from the coordinator in between.
//!
//! What a channel holds is decided only when it is read, so that the model covers every content and every speed of every
//! upstream without keeping queues. Upstream is assumed to send rising ids; that what the aligner forwards rises too is a
//! property, so the assumption carries over from stage to stage.

use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;
use weir_protocol::align::{AlignEffect, AlignEvent, BarrierAligner};
use weir_protocol::{ChannelIndex, CheckpointId, Generation};

const GENERATION: Generation = Generation(2);

/// How much is explored, and whether the machine is to be faulty.
struct Alignment {
    channels: u16,
    checkpoints: u32,
    /// A driver that never tells the aligner of an end.
    forgets_ends: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Record(ChannelIndex),
    Barrier(ChannelIndex, u32),
    Cancel(ChannelIndex, u32),
    EndOfInput(ChannelIndex),
    Abort(u32),
}

/// A channel as an observer sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Channel {
    /// Sequence of the newest barrier or cancel that was read.
    newest: u32,
    /// Whether that was a barrier.
    barrier: bool,
    /// Whether a record was processed since.
    record: bool,
    ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    aligner: BarrierAligner,
    channels: Vec<Channel>,
    /// What the effects have blocked.
    blocked: BTreeSet<ChannelIndex>,
    /// Aborted by the coordinator, or not to come on some channel.
    disturbed: BTreeSet<u32>,
    /// Whether the coordinator has aborted it.
    aborted: BTreeSet<u32>,
    completed: Vec<u32>,
    /// Sequences of the barriers and cancels sent on.
    forwarded: Vec<u32>,
    finished: bool,
    /// What the last step led to.
    step: Step,
}

/// What the last step led to: a snapshot with the channels as they were, and other effects worth a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Step {
    snapshot: Option<(u32, Vec<Channel>)>,
    gave_up: bool,
    forwarded_cancel: bool,
    was_end: bool,
}

fn id(sequence: u32) -> CheckpointId {
    CheckpointId::new(GENERATION, sequence)
}

impl State {
    fn channel(&mut self, channel: ChannelIndex) -> &mut Channel {
        &mut self.channels[usize::from(channel.0)]
    }

    fn is_readable(&self, channel: ChannelIndex) -> bool {
        !self.channels[usize::from(channel.0)].ended && !self.blocked.contains(&channel)
    }

    fn tell(&mut self, event: AlignEvent) {
        let mut effects = Vec::new();
        self.aligner.handle(event, &mut effects);
        for effect in effects {
            match effect {
                AlignEffect::Block(channel) => assert!(self.blocked.insert(channel), "A5: blocked twice"),
                AlignEffect::UnblockAll => self.blocked.clear(),
                AlignEffect::Complete(n) => {
                    self.step.snapshot = Some((n.sequence(), self.channels.clone()));
                    self.completed.push(n.sequence());
                    self.forwarded.push(n.sequence());
                }
                AlignEffect::Aborted { checkpoint: _, reason: _ } => self.step.gave_up = true,
                AlignEffect::ForwardCancel(n) => {
                    self.step.forwarded_cancel = true;
                    self.forwarded.push(n.sequence());
                }
                AlignEffect::Finished => self.finished = true,
                AlignEffect::Stale { channel: _, checkpoint: _ } => {}
            }
        }
    }
}

impl Model for Alignment {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let indexes: Vec<ChannelIndex> = (0..self.channels).map(ChannelIndex).collect();
        vec![State {
            aligner: BarrierAligner::new(GENERATION, &indexes),
            channels: vec![Channel::default(); indexes.len()],
            blocked: BTreeSet::new(),
            disturbed: BTreeSet::new(),
            aborted: BTreeSet::new(),
            completed: Vec::new(),
            forwarded: Vec::new(),
            finished: false,
            step: Step::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for channel in (0..self.channels).map(ChannelIndex).filter(|channel| state.is_readable(*channel)) {
            let seen = &state.channels[usize::from(channel.0)];
            if !seen.record {
                actions.push(Action::Record(channel));
            }
            for sequence in seen.newest + 1..=self.checkpoints {
                actions.push(Action::Barrier(channel, sequence));
                actions.push(Action::Cancel(channel, sequence));
            }
            actions.push(Action::EndOfInput(channel));
        }
        if !state.finished {
            actions.extend((1..=self.checkpoints).filter(|n| !state.aborted.contains(n)).map(Action::Abort));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = State { step: Step::default(), ..last.clone() };
        match action {
            Action::Record(channel) => state.channel(channel).record = true,
            Action::Barrier(channel, sequence) => {
                let before = state.channel(channel).newest;
                state.disturbed.extend(before + 1..sequence);
                *state.channel(channel) = Channel { newest: sequence, barrier: true, ..Channel::default() };
                state.tell(AlignEvent::Barrier { channel, checkpoint: id(sequence) });
            }
            Action::Cancel(channel, sequence) => {
                state.disturbed.extend(1..=sequence);
                *state.channel(channel) = Channel { newest: sequence, ..Channel::default() };
                state.tell(AlignEvent::Cancel { channel, checkpoint: id(sequence) });
            }
            Action::EndOfInput(channel) => {
                state.channel(channel).ended = true;
                state.step.was_end = true;
                if !self.forgets_ends {
                    state.tell(AlignEvent::EndOfInput { channel });
                }
            }
            Action::Abort(sequence) => {
                state.disturbed.insert(sequence);
                state.aborted.insert(sequence);
                state.tell(AlignEvent::Abort { checkpoint: id(sequence) });
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("A1 no record from behind the barrier is in the snapshot", |_, state: &State| {
                let Some((n, channels)) = &state.step.snapshot else { return true };
                channels.iter().all(|channel| channel.newest < *n || (channel.newest == *n && !channel.record))
            }),
            Property::always("A2 every record from before the barrier is in the snapshot", |_, state: &State| {
                let Some((n, channels)) = &state.step.snapshot else { return true };
                channels.iter().all(|channel| channel.ended || (channel.newest == *n && channel.barrier))
            }),
            Property::always("A3 some channel can always be read until all have ended", |model, state: &State| {
                state.finished || (0..model.channels).any(|channel| state.is_readable(ChannelIndex(channel)))
            }),
            Property::always("A3 what nobody disturbs completes", |model, state: &State| {
                (1..=model.checkpoints).all(|n| {
                    let mut open = state.channels.iter().filter(|channel| !channel.ended).peekable();
                    let due = open.peek().is_some() && open.all(|channel| channel.newest == n && channel.barrier);
                    !due || state.disturbed.contains(&n) || state.completed.contains(&n)
                })
            }),
            Property::always("A4 completed ids rise", |_, state: &State| state.completed.is_sorted_by(|a, b| a < b)),
            Property::always("A4 forwarded ids rise", |_, state: &State| state.forwarded.is_sorted_by(|a, b| a < b)),
            Property::always("A5 nothing is blocked while idle", |_, state: &State| {
                state.aligner.aligning().is_some() || state.blocked.is_empty()
            }),
            Property::always("A5 driver and aligner agree on what can be read", |model, state: &State| {
                let readable = (0..model.channels).map(ChannelIndex).filter(|channel| state.is_readable(*channel));
                model.forgets_ends || readable.eq(state.aligner.readable())
            }),
            Property::sometimes("a checkpoint completes", |_, state: &State| !state.completed.is_empty()),
            Property::sometimes("every checkpoint completes", |model, state: &State| {
                state.completed.len() == model.checkpoints as usize
            }),
            Property::sometimes("an end completes an alignment", |_, state: &State| {
                state.step.was_end && state.step.snapshot.is_some()
            }),
            Property::sometimes("an alignment is given up and a newer one begins", |_, state: &State| {
                state.step.gave_up && state.aligner.aligning().is_some()
            }),
            Property::sometimes("a barrier is answered by a cancel", |_, state: &State| {
                state.step.forwarded_cancel && !state.step.gave_up && state.channels.iter().any(|channel| channel.barrier)
            }),
            Property::sometimes("all inputs end", |_, state: &State| state.finished),
        ]
    }
}

fn check(channels: u16, checkpoints: u32) {
    let checker = Alignment { channels, checkpoints, forgets_ends: false }.checker().threads(2).spawn_bfs().join();
    println!(
        "alignment of {channels} channels and {checkpoints} checkpoints: {} states ({} reached), depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    assert!(checker.is_done(), "not every state was visited");
    checker.assert_properties();
}

#[test]
fn alignment_of_two_channels_keeps_its_invariants() {
    check(2, 4);
}

#[test]
fn alignment_of_three_channels_keeps_its_invariants() {
    check(3, 3);
}

#[test]
fn alignment_of_four_channels_keeps_its_invariants() {
    check(4, 2);
}

#[test]
fn the_model_catches_a_forgotten_end() {
    let model = Alignment { channels: 2, checkpoints: 1, forgets_ends: true };
    let checker = model.checker().spawn_bfs().join();
    checker.assert_any_discovery("A3 some channel can always be read until all have ended");
    checker.assert_any_discovery("A3 what nobody disturbs completes");
}
