//! Random checkpoints over random files; S1 and S4 are the oracle, kept with plain sets.

use super::{FileOrigin, FileRef, RegistryEffect, RegistryEvent, SharedStateRegistry};
use crate::ids::{CheckpointId, Generation};
use crate::testkit::{Rng, for_seeds};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Oracle {
    store: BTreeSet<String>,
    pending: BTreeMap<CheckpointId, BTreeSet<String>>,
    completed: BTreeMap<CheckpointId, BTreeSet<String>>,
}

impl Oracle {
    fn apply(&mut self, effects: Vec<RegistryEffect>) {
        for effect in effects {
            match effect {
                RegistryEffect::Gone { names } => {
                    let stored: BTreeSet<&String> = self.completed.values().flatten().collect();
                    assert!(names.iter().all(|name| !stored.contains(name)), "a stored file is called gone");
                }
                RegistryEffect::Subsumed { checkpoint } => {
                    assert_eq!(self.completed.keys().next(), Some(&checkpoint), "S1: retention goes oldest first");
                    self.completed.remove(&checkpoint);
                    assert!(!self.completed.is_empty(), "S1: the newest completed checkpoint is kept");
                }
                RegistryEffect::Released { names } => {
                    for name in names {
                        let held = self.pending.values().chain(self.completed.values()).any(|files| files.contains(&name));
                        assert!(!held, "S1: {name} is referred to and was released");
                        assert!(self.store.remove(&name), "{name} was released twice");
                    }
                }
            }
        }
    }

    fn check(&self, registry: &SharedStateRegistry) {
        let reachable: BTreeSet<String> = self.pending.values().chain(self.completed.values()).flatten().cloned().collect();
        assert_eq!(self.store, reachable, "S4: stored = referred to");
        assert_eq!(registry.files().keys().cloned().collect::<BTreeSet<_>>(), reachable, "S4: known = referred to");
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut registry = SharedStateRegistry::new(1 + rng.below(3));
    let mut oracle = Oracle::default();
    let mut next = CheckpointId::new(Generation(1), 1);
    for step in 0..60 {
        let mut effects = Vec::new();
        let pending: Vec<CheckpointId> = oracle.pending.keys().copied().collect();
        match rng.below(5) {
            0 if pending.len() < 3 => {
                oracle.pending.insert(next, BTreeSet::new());
                next = next.next();
            }
            1 | 2 if !pending.is_empty() => {
                let checkpoint = *rng.pick(&pending);
                let name = format!("f{step}");
                oracle.store.insert(name.clone());
                let mut files = vec![FileRef { name: name.clone(), origin: FileOrigin::Uploaded }];
                // Some that are stored, and some that a subtask only believes to be.
                for _ in 0..rng.below(3) {
                    files.push(FileRef { name: format!("f{}", rng.below(step + 1)), origin: FileOrigin::Stored });
                }
                files.dedup_by(|a, b| a.name == b.name);
                let stored = |name: &String| oracle.completed.values().any(|files| files.contains(name));
                let held: Vec<String> = files.iter().map(|file| file.name.clone()).filter(|n| *n == name || stored(n)).collect();
                oracle.pending.get_mut(&checkpoint).expect("picked from it").extend(held);
                registry.handle(RegistryEvent::Registered { checkpoint, files }, &mut effects);
            }
            3 if !pending.is_empty() => {
                let checkpoint = *rng.pick(&pending);
                oracle.pending.remove(&checkpoint);
                registry.handle(RegistryEvent::Aborted { checkpoint }, &mut effects);
            }
            4 if !pending.is_empty() => {
                let checkpoint = *rng.pick(&pending);
                let files = oracle.pending.remove(&checkpoint).expect("picked from it");
                oracle.completed.insert(checkpoint, files);
                registry.handle(RegistryEvent::Completed { checkpoint }, &mut effects);
                for older in pending.into_iter().filter(|older| *older < checkpoint) {
                    oracle.pending.remove(&older);
                    registry.handle(RegistryEvent::Aborted { checkpoint: older }, &mut effects);
                }
                registry.handle(RegistryEvent::Retire { needed: checkpoint }, &mut effects);
            }
            _ => {}
        }
        oracle.apply(effects);
        oracle.check(&registry);
    }
}

#[test]
fn random_checkpoints_keep_the_invariants() {
    for_seeds(0..5_000, run);
}
