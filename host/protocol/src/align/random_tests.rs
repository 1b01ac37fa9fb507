//! Random channels with records between the barriers; A1–A5 are the oracle.

use super::{AlignEffect, AlignEvent, BarrierAligner};
use crate::ids::{ChannelIndex, CheckpointId, Generation};
use crate::testkit::{Rng, for_seeds};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const GENERATION: Generation = Generation(4);

#[derive(Clone, Copy, Debug)]
enum Element {
    Record,
    Barrier(CheckpointId),
    Cancel(CheckpointId),
    EndOfInput,
}

/// One subtask, its channels, and what an observer knows.
struct World {
    rng: Rng,
    aligner: BarrierAligner,
    channels: BTreeMap<ChannelIndex, VecDeque<Element>>,
    /// What the effects have blocked.
    blocked: BTreeSet<ChannelIndex>,
    /// Records processed, for each channel.
    processed: BTreeMap<ChannelIndex, usize>,
    /// Records before each barrier, for each channel; without a barrier of its own a channel's end counts.
    before: BTreeMap<(ChannelIndex, CheckpointId), usize>,
    total: BTreeMap<ChannelIndex, usize>,
    completed: Vec<CheckpointId>,
    /// What need not complete: aborted, cancelled or skipped somewhere.
    disturbed: BTreeSet<CheckpointId>,
    finished: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let indexes: Vec<ChannelIndex> = (0..1 + rng.below(4) as u16).map(ChannelIndex).collect();
        let mut world = World {
            aligner: BarrierAligner::new(GENERATION, &indexes),
            channels: indexes.iter().map(|channel| (*channel, VecDeque::new())).collect(),
            blocked: BTreeSet::new(),
            processed: indexes.iter().map(|channel| (*channel, 0)).collect(),
            before: BTreeMap::new(),
            total: BTreeMap::new(),
            completed: Vec::new(),
            disturbed: BTreeSet::new(),
            finished: false,
            rng: Rng::new(seed),
        };
        let calm = rng.one_in(4);
        for channel in indexes {
            world.fill(&mut rng, channel, calm);
        }
        world
    }

    /// A channel as upstream makes it: ids rise, and each is a barrier, a cancel, or skipped (upstream subsumed it).
    fn fill(&mut self, rng: &mut Rng, channel: ChannelIndex, calm: bool) {
        let ends_before = if rng.one_in(3) { 1 + rng.below(8) as u32 } else { u32::MAX };
        let mut records = 0;
        for sequence in 1..=6 {
            let queue = self.channels.get_mut(&channel).expect("made above");
            for _ in 0..rng.below(4) {
                queue.push_back(Element::Record);
                records += 1;
            }
            if sequence >= ends_before {
                break;
            }
            let n = CheckpointId::new(GENERATION, sequence);
            match if calm { 9 } else { rng.below(10) } {
                0 => {
                    queue.push_back(Element::Cancel(n));
                    self.disturbed.extend((1..=sequence).map(|sequence| CheckpointId::new(GENERATION, sequence)));
                }
                1 => {
                    self.disturbed.insert(n);
                }
                _ => {
                    queue.push_back(Element::Barrier(n));
                    self.before.insert((channel, n), records);
                }
            }
        }
        self.total.insert(channel, records);
        self.channels.get_mut(&channel).expect("made above").push_back(Element::EndOfInput);
    }

    fn run(&mut self) {
        while !self.finished {
            if !self.disturbed.is_empty() && self.rng.one_in(12) {
                let n = CheckpointId::new(GENERATION, 1 + self.rng.below(6) as u32);
                self.disturbed.insert(n);
                self.handle(AlignEvent::Abort { checkpoint: n });
                continue;
            }
            let ready: Vec<ChannelIndex> =
                self.channels.keys().copied().filter(|channel| !self.blocked.contains(channel)).collect();
            assert!(!ready.is_empty(), "A3: every channel that is left is blocked");
            let channel = *self.rng.pick(&ready);
            let queue = self.channels.get_mut(&channel).expect("still open");
            match queue.pop_front().expect("every channel ends with EndOfInput") {
                Element::Record => *self.processed.entry(channel).or_default() += 1,
                Element::Barrier(checkpoint) => self.handle(AlignEvent::Barrier { channel, checkpoint }),
                Element::Cancel(checkpoint) => self.handle(AlignEvent::Cancel { channel, checkpoint }),
                Element::EndOfInput => {
                    self.channels.remove(&channel);
                    self.handle(AlignEvent::EndOfInput { channel });
                }
            }
        }
        for n in (1..=6).map(|sequence| CheckpointId::new(GENERATION, sequence)) {
            let carried = self.before.keys().any(|(_, carried)| *carried == n);
            let owed = carried && self.disturbed.is_empty();
            assert!(!owed || self.completed.contains(&n), "A3: {n} was disturbed by nobody and is not complete");
        }
    }

    fn handle(&mut self, event: AlignEvent) {
        let mut effects = Vec::new();
        self.aligner.handle(event, &mut effects);
        for effect in effects {
            match effect {
                AlignEffect::Block(channel) => assert!(self.blocked.insert(channel), "A5: blocked twice"),
                AlignEffect::UnblockAll => self.blocked.clear(),
                AlignEffect::Complete(n) => self.check_snapshot(n),
                AlignEffect::Aborted { .. } | AlignEffect::ForwardCancel(_) | AlignEffect::Stale { .. } => {}
                AlignEffect::Finished => {
                    assert!(self.channels.is_empty(), "A2: finished before every input had ended");
                    self.finished = true;
                }
            }
        }
        assert!(self.aligner.aligning().is_some() || self.blocked.is_empty(), "A5: blocked while idle");
        let readable: BTreeSet<ChannelIndex> = self.aligner.readable().collect();
        let expected = self.channels.keys().copied().filter(|channel| !self.blocked.contains(channel)).collect();
        assert_eq!(readable, expected, "A5: what the aligner and its driver take for readable");
    }

    fn check_snapshot(&mut self, n: CheckpointId) {
        assert!(self.completed.last() < Some(&n), "A4: {n} completes after {:?}", self.completed.last());
        for (channel, &processed) in &self.processed {
            let ended = !self.channels.contains_key(channel);
            let until = match self.before.get(&(*channel, n)) {
                Some(before) => *before,
                None if ended => self.total[channel],
                None => panic!("A2: {n} completes without the barrier of {channel:?}, which is open"),
            };
            assert!(processed <= until, "A1: snapshot {n} holds a record from behind the barrier on {channel:?}");
            assert!(processed >= until, "A2: snapshot {n} lacks a record from before the barrier on {channel:?}");
        }
        self.completed.push(n);
    }
}

#[test]
fn random_channels_keep_the_invariants() {
    for_seeds(0..20_000, |seed| World::new(seed).run());
}
