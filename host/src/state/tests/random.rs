//! Random calls against a map: what a backend answers now, and what each of its snapshots holds, is what the map held.
//!
//! A failure names its seed; `WEIR_STATE_SEED=<seed>` runs that one alone.

use super::rig::*;
use crate::state::{CheckpointedBackend, LocalSnapshot, RestoredState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use weir_plugin::batch::{CellOp, Cells};
use weir_plugin::state::{StateError, StateId};
use weir_protocol::CheckpointId;

const STEPS: usize = 2500;
const STATES: [StateId; 3] = [0, 1, 9];

/// xorshift64*: enough to mix calls.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    /// From few keys, so that they meet again; some too long for a cell.
    fn key(&mut self) -> Vec<u8> {
        let n = self.below(700);
        match n % 10 {
            0 => format!("a much longer key than a cell can hold: {n}").into_bytes(),
            1 => Vec::from(&n.to_le_bytes()[..2 + n % 5]),
            _ => format!("{n}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.below(40) {
            0 => 3000,
            1..4 => 0,
            n => n,
        };
        vec![self.below(256) as u8; len]
    }

    fn distinct_keys(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn states(&mut self) -> Vec<StateId> {
        let from = self.below(STATES.len());
        STATES[from..=from + self.below(STATES.len() - from)].to_vec()
    }
}

struct Pending {
    checkpoint: CheckpointId,
    done: Receiver<Result<LocalSnapshot, StateError>>,
    at_barrier: Model,
}

struct World {
    rig: Rig,
    random: Random,
    backend: Option<Box<dyn CheckpointedBackend>>,
    model: Model,
    /// Frozen, not linked yet.
    pending: Vec<Pending>,
    /// Completed, with what they held.
    completed: Vec<(RestoredState, Model)>,
}

impl World {
    fn new(flavor: Flavor, seed: u64) -> Self {
        let mut rig = Rig::new(flavor);
        let backend = Some(rig.open(None));
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        World { rig, random, backend, model: Model::new(), pending: Vec::new(), completed: Vec::new() }
    }

    fn backend(&mut self) -> &mut dyn CheckpointedBackend {
        self.backend.as_mut().expect("it is only away inside a restore").as_mut()
    }

    fn step(&mut self) {
        match self.random.below(200) {
            0..90 => self.process(),
            90..110 => self.put_many(),
            110..130 => self.get_many(),
            130..134 => self.scan(),
            134..170 => drop(self.backend().sweep().expect("a sweep succeeds")),
            170..185 => self.freeze(),
            185..197 => self.linked(),
            197..199 => self.restore(),
            _ => self.compare(),
        }
    }

    /// One call of an operator: prefetch, perhaps reads and writes, apply.
    fn process(&mut self) {
        let count = 1 + self.random.below(60);
        let (keys, states) = (self.random.distinct_keys(count), self.random.states());
        let owned = OwnedKeys::new(&keys);
        let mut out = Vec::new();
        self.backend().prefetch(owned.get(), &states, &mut out).expect("a prefetch succeeds");
        for (&state, cells) in states.iter().zip(&out) {
            self.check(state, &keys, cells);
        }
        if self.random.below(4) == 0 {
            self.get_many();
        }
        let mut updates = Vec::new();
        for &state in &states {
            let mut cells = Cells::new();
            for key in &keys {
                match self.random.below(6) {
                    0 => cells.push_none(),
                    1 => cells.push_delete(),
                    _ => cells.push_put(&self.random.value()),
                }
                self.model_write(state, key, &cells, cells.len() - 1);
            }
            updates.push(cells);
        }
        if self.random.below(10) == 0 {
            // Not a call that the contract allows in between; the backend finds the cells again.
            let _more = self.backend().sweep().expect("a sweep succeeds");
        }
        self.backend().apply(owned.get(), &states, &updates).expect("an apply succeeds");
    }

    fn model_write(&mut self, state: StateId, key: &[u8], cells: &Cells, i: usize) {
        match cells.op(i) {
            CellOp::None => {}
            CellOp::Put => drop(self.model.insert((state, key.to_vec()), cells.value(i).to_vec())),
            CellOp::Delete => drop(self.model.remove(&(state, key.to_vec()))),
        }
    }

    fn put_many(&mut self) {
        let state = STATES[self.random.below(STATES.len())];
        let keys: Vec<_> = (0..self.random.below(50)).map(|_| self.random.key()).collect();
        let cells = updates((0..keys.len()).map(|_| (self.random.below(5) > 0).then(|| self.random.value())));
        for (i, key) in keys.iter().enumerate() {
            self.model_write(state, key, &cells, i);
        }
        self.backend().put_many(state, OwnedKeys::new(&keys).get(), &cells).expect("a write succeeds");
    }

    fn get_many(&mut self) {
        let state = STATES[self.random.below(STATES.len())];
        let keys: Vec<_> = (0..self.random.below(100)).map(|_| self.random.key()).collect();
        let mut out = Cells::new();
        self.backend().get_many(state, OwnedKeys::new(&keys).get(), &mut out).expect("a read succeeds");
        self.check(state, &keys, &out);
    }

    fn check(&self, state: StateId, keys: &[Vec<u8>], cells: &Cells) {
        assert_eq!(cells.len(), keys.len());
        for (i, key) in keys.iter().enumerate() {
            let expected = self.model.get(&(state, key.clone())).map(Vec::as_slice);
            assert_eq!(cells.get(i), expected, "state {state}, key {key:?}");
        }
    }

    fn scan(&mut self) {
        let (states, page) = (self.random.states(), 1 + self.random.below(200));
        let mut got = scan(self.backend(), &states, page);
        let mut expected: Vec<_> =
            self.model.keys().filter(|(state, _)| states.contains(state)).map(|(_, key)| key.clone()).collect();
        got.sort();
        expected.sort();
        expected.dedup();
        assert_eq!(got, expected, "scan of {states:?} in pages of {page}");
    }

    fn compare(&mut self) {
        let now = dump(self.backend(), &STATES);
        assert!(now == self.model, "the backend and the map hold different things");
    }

    fn freeze(&mut self) {
        let checkpoint = self.rig.next_checkpoint();
        let done = freeze(self.backend(), checkpoint);
        self.pending.push(Pending { checkpoint, done, at_barrier: self.model.clone() });
    }

    /// Takes the oldest pending snapshot to its end, then completes or aborts it.
    fn linked(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let Pending { checkpoint, done, at_barrier } = self.pending.remove(0);
        let snapshot = finish(self.backend(), &done);
        assert_eq!(snapshot.checkpoint, checkpoint);
        if self.random.below(3) == 0 {
            return; // aborted, before anything was uploaded
        }
        let restored = self.rig.storage.upload(&snapshot);
        if self.random.below(4) == 0 {
            let mut other = Rig::new(self.rig.flavor);
            assert!(
                dump(other.open(Some(restored.clone())).as_mut(), &STATES) == at_barrier,
                "snapshot {checkpoint} is not exact"
            );
        }
        if self.random.below(4) == 0 {
            return; // aborted after the upload
        }
        self.rig.storage.complete(&snapshot);
        self.backend().completed(checkpoint);
        self.completed.push((restored, at_barrier));
    }

    /// A new generation from some completed checkpoint, mostly the newest.
    fn restore(&mut self) {
        let back = if self.random.below(4) == 0 { self.random.below(5) } else { 0 };
        let Some(at) = self.completed.len().checked_sub(1 + back) else { return };
        self.completed.truncate(at + 1);
        let (restored, model) = self.completed[at].clone();
        self.pending.clear();
        self.backend = None;
        self.backend = Some(self.rig.open(Some(restored)));
        self.model = model;
    }
}

fn run(flavor: Flavor, seed: u64) {
    let mut world = World::new(flavor, seed);
    for step in 0..STEPS {
        let result = catch_unwind(AssertUnwindSafe(|| world.step()));
        if let Err(panic) = result {
            let text = panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|s| s.to_string()));
            panic!("{flavor:?}, WEIR_STATE_SEED={seed}, step {step}: {}", text.unwrap_or_default());
        }
    }
    world.compare();
}

fn seeds() -> Vec<u64> {
    match std::env::var("WEIR_STATE_SEED") {
        Ok(seed) => vec![seed.parse().expect("WEIR_STATE_SEED is a number")],
        Err(_) => (1..=4).collect(),
    }
}

#[test]
fn cells_agree_with_a_map() {
    seeds().into_iter().for_each(|seed| run(Flavor::Rocks, seed));
}

#[test]
fn cells_over_a_store_agree_with_a_map() {
    seeds().into_iter().for_each(|seed| run(Flavor::Small, seed));
}

#[test]
fn cells_over_a_store_with_no_room_agree_with_a_map() {
    seeds().into_iter().for_each(|seed| run(Flavor::Tight, seed));
}

#[test]
fn cells_that_begin_new_bases_all_the_time_agree_with_a_map() {
    seeds().into_iter().for_each(|seed| run(Flavor::Memory, seed));
}
