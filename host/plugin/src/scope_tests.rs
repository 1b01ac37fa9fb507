//! What a call may touch, and what is forgotten when it fails.

use super::*;
use crate::testing::MemoryState;
use std::collections::BTreeMap;

/// A small generator (xorshift64*): the seed is in every failure.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

fn declared(kinds: &[StateKind]) -> Vec<StateDescriptor> {
    let one = |(i, kind): (usize, &StateKind)| StateDescriptor {
        name: format!("state-{i}"),
        kind: *kind,
        schema_version: 1,
        prefetch: false,
    };
    kinds.iter().enumerate().map(one).collect()
}

fn key(i: u64) -> Vec<u8> {
    format!("key-{i}").into_bytes()
}

/// One call with random reads, writes and updates, beside a plain map.
fn one_call(random: &mut Random, state: &mut MemoryState, model: &mut BTreeMap<(StateId, Vec<u8>), Vec<u8>>) {
    const STATES: u64 = 3;
    let declared = declared(&[StateKind::Value; STATES as usize]);
    const PREFETCHED: &[StateId] = &[0, 2];
    let mut batch = RecordBatch::new();
    for _ in 0..=random.below(6) {
        batch.push(&key(random.below(8)), b"", 0);
    }
    let mut grouping = KeyGrouping::new();
    grouping.group(&batch);
    let keys: Vec<Vec<u8>> = (0..grouping.spans.len()).map(|i| grouping.keys(&batch).key(i).to_vec()).collect();
    let mut cells = Vec::new();
    state.prefetch(grouping.keys(&batch), PREFETCHED, &mut cells).expect("memory does not fail");
    let mut scope = CallScope::new(state, &batch, &grouping, PREFETCHED, &cells, &declared);
    let mut seen = model.clone();
    for _ in 0..random.below(6) {
        let id = random.below(STATES) as StateId;
        let mut chosen = Column::new();
        let mut values = Column::new();
        let mut picks = Vec::new();
        for _ in 0..random.below(4) {
            let pick = keys[random.below(keys.len() as u64) as usize].clone();
            let value = vec![b'v'; random.below(4) as usize];
            chosen.push(&pick);
            values.push(&value);
            picks.push((pick, value));
        }
        match random.below(3) {
            0 => {
                let answer = scope.get_many(u32::from(id), &chosen, 1 << 20).expect("own keys");
                for (i, (pick, _)) in picks.iter().enumerate() {
                    assert_eq!(answer.get(i), seen.get(&(id, pick.clone())).map(Vec::as_slice));
                }
            }
            1 => {
                scope.put_many(u32::from(id), &chosen, &values).expect("own keys");
                for (pick, value) in picks {
                    seen.insert((id, pick), value);
                }
            }
            _ => {
                scope.delete_many(u32::from(id), &chosen).expect("own keys");
                for (pick, _) in picks {
                    seen.remove(&(id, pick));
                }
            }
        }
    }
    // A call in three fails: nothing of it may show.
    if random.below(3) == 0 {
        return;
    }
    let mut updates = Vec::new();
    if random.below(2) == 0 {
        for &id in PREFETCHED {
            let mut column = Cells::new();
            for key in &keys {
                match random.below(3) {
                    0 => column.push_none(),
                    1 => {
                        column.push_put(b"update");
                        seen.insert((id, key.clone()), b"update".to_vec());
                    }
                    _ => {
                        column.push_delete();
                        seen.remove(&(id, key.clone()));
                    }
                }
            }
            updates.push(column);
        }
    }
    scope.apply(updates).expect("memory does not fail");
    *model = seen;
}

#[test]
fn calls_read_and_write_like_a_map() {
    for seed in 1..=300 {
        let mut random = Random(seed);
        let (mut state, mut model) = (MemoryState::new(), BTreeMap::new());
        for call in 0..30 {
            one_call(&mut random, &mut state, &mut model);
            assert_eq!(*state.cells(), model, "seed {seed}, call {call}");
        }
    }
}

#[test]
fn an_answer_over_the_budget_is_refused_before_it_is_built() {
    let mut batch = RecordBatch::new();
    batch.push(b"k", b"", 0);
    let mut grouping = KeyGrouping::new();
    grouping.group(&batch);
    let mut state = MemoryState::new();
    state.set(0, b"k", &[0; 100]);
    let declared = declared(&[StateKind::Value]);
    let mut scope = CallScope::new(&mut state, &batch, &grouping, &[], &[], &declared);
    let mut twice = Column::new();
    twice.push(b"k");
    twice.push(b"k");
    assert!(scope.get_many(0, &twice, 200).is_ok());
    assert!(matches!(scope.get_many(0, &twice, 199), Err(Refusal::TooLarge)));
}

#[test]
fn keys_are_shown_as_text_and_short() {
    assert_eq!(key_text(b"a\xff\""), "\"a\\xff\\\"\"");
    assert_eq!(key_text(&[b'a'; 50]), format!("\"{}…\"", "a".repeat(40)));
}
