//! Lists and maps on every flavor, beside plain ones: through evictions, checkpoints and restores, random call by random call.
//!
//! A failure names its seed; `WEIR_STATE_SEED=<seed>` runs that one alone.

use super::rig::*;
use crate::state::{CheckpointedBackend, RestoredState};
use std::collections::{BTreeMap, BTreeSet};
use weir_plugin::batch::Column;
use weir_plugin::collections::{CollectionError, StagedCells, View};
use weir_plugin::state::{StateId, pages_of};

const STEPS: usize = 500;
const LISTS: StateId = 1;
const MAPS: StateId = 2;

/// xorshift64*: enough to mix calls.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn value(&mut self) -> Vec<u8> {
        let length = if self.below(50) == 0 { self.below(4000) } else { self.below(30) };
        vec![self.below(256) as u8; length]
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    lists: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    maps: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// Runs a call of lists or maps on some keys; what it staged reaches the backend.
fn call<R>(
    backend: &mut dyn CheckpointedBackend,
    state: StateId,
    keys: &OwnedKeys,
    call: impl FnOnce(&mut StagedCells, &mut View<'_>) -> Result<R, CollectionError>,
) -> R {
    let mut staged = StagedCells::new(state);
    let mut view = View { backend: &mut *backend, keys: keys.get(), budget: 1 << 30 };
    let done = call(&mut staged, &mut view).expect("it succeeds");
    staged.flush(backend, keys.get()).expect("a flush succeeds");
    done
}

fn strings(column: &Column) -> Vec<Vec<u8>> {
    (0..column.len()).map(|i| column.get(i).to_vec()).collect()
}

/// What a backend holds, as a plain one.
fn plain(backend: &mut dyn CheckpointedBackend) -> Plain {
    let mut plain = Plain::default();
    for ((_, key), value) in dump(backend, &[0]) {
        plain.values.insert(key, value);
    }
    for key in scan(backend, &[LISTS], 7) {
        let mut all = Column::new();
        call(backend, LISTS, &OwnedKeys::new([&key]), |lists, view| lists.whole_list(view, 0, &mut all, 1 << 30));
        plain.lists.insert(key, strings(&all));
    }
    for key in scan(backend, &[MAPS], 7) {
        let page = call(backend, MAPS, &OwnedKeys::new([&key]), |maps, view| {
            maps.map_scan(view, 0, (&[], None), usize::MAX, usize::MAX)
        });
        assert!(page.done);
        plain.maps.insert(key, strings(&page.map_keys).into_iter().zip(strings(&page.values)).collect());
    }
    plain
}

fn one_call(random: &mut Random, backend: &mut dyn CheckpointedBackend, plain: &mut Plain) {
    let names: BTreeSet<Vec<u8>> = (0..1 + random.below(4)).map(|_| format!("{}", random.below(12)).into_bytes()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let keys = OwnedKeys::new(&names);
    let pairs: Vec<(u32, Vec<u8>, Vec<u8>)> = (0..random.below(60))
        .map(|_| {
            let map_key = format!("map-key-{}", random.below(400)).into_bytes();
            (random.below(names.len()) as u32, map_key, random.value())
        })
        .collect();
    let of: Vec<u32> = pairs.iter().map(|(key, _, _)| *key).collect();
    let (mut map_keys, mut values) = (Column::new(), Column::new());
    for (_, map_key, value) in &pairs {
        map_keys.push(map_key);
        values.push(value);
    }
    match random.below(10) {
        0..3 => {
            call(backend, LISTS, &keys, |lists, view| {
                lists.append_many(view, &of, pairs.iter().map(|(_, _, value)| value.as_slice()))
            });
            for (key, _, value) in pairs {
                plain.lists.entry(names[key as usize].clone()).or_default().push(value);
            }
        }
        3..6 => {
            call(backend, MAPS, &keys, |maps, view| maps.map_put_many(view, &of, &map_keys, &values));
            for (key, map_key, value) in pairs {
                plain.maps.entry(names[key as usize].clone()).or_default().insert(map_key, value);
            }
        }
        6..8 => {
            call(backend, MAPS, &keys, |maps, view| maps.map_remove_many(view, &of, &map_keys));
            for (key, map_key, _) in pairs {
                plain.maps.entry(names[key as usize].clone()).or_default().remove(&map_key);
            }
            plain.maps.retain(|_, map| !map.is_empty());
        }
        8 => {
            let name = &names[0];
            match random.below(6) {
                0 => {
                    call(backend, LISTS, &keys, |lists, view| lists.clear_list(view, 0));
                    plain.lists.remove(name);
                }
                1 => {
                    call(backend, MAPS, &keys, |maps, view| maps.clear_map(view, 0));
                    plain.maps.remove(name);
                }
                _ => {
                    let cells = call(backend, MAPS, &keys, |maps, view| maps.map_get_many(view, &of, &map_keys, 1 << 30));
                    for (i, (key, map_key, _)) in pairs.iter().enumerate() {
                        let map = plain.maps.get(&names[*key as usize]);
                        assert_eq!(cells.get(i), map.and_then(|map| map.get(map_key)).map(Vec::as_slice));
                    }
                }
            }
        }
        _ => {
            let value = random.value();
            write(backend, 0, &[(&names[0], Some(&value))]);
            plain.values.insert(names[0].clone(), value);
        }
    }
}

fn run(flavor: Flavor, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut rig = Rig::new(flavor);
    let mut backend = rig.open(None);
    let mut plain_now = Plain::default();
    let mut completed: Vec<(RestoredState, Plain)> = vec![(RestoredState::default(), Plain::default())];
    for step in 0..STEPS {
        match random.below(40) {
            0 => assert_eq!(plain(backend.as_mut()), plain_now, "step {step}"),
            1..3 => {
                let snapshot = rig.snapshot(backend.as_mut());
                completed.push((rig.complete(backend.as_mut(), &snapshot), plain_now.clone()));
            }
            3 if step % 3 == 0 => {
                let (restored, before) = completed.last().expect("there is always one").clone();
                drop(backend);
                backend = rig.open(Some(restored));
                plain_now = before;
                assert_eq!(plain(backend.as_mut()), plain_now, "after a restore in step {step}");
            }
            4..8 => drop(backend.sweep().expect("a sweep succeeds")),
            _ => one_call(&mut random, backend.as_mut(), &mut plain_now),
        }
    }
    assert_eq!(plain(backend.as_mut()), plain_now, "at the end");
    // Cleared, nothing is left of them, in no state.
    let names: BTreeSet<Vec<u8>> = plain_now.lists.keys().chain(plain_now.maps.keys()).cloned().collect();
    let keys = OwnedKeys::new(&names);
    for key in 0..names.len() as u32 {
        call(backend.as_mut(), LISTS, &keys, |lists, view| lists.clear_list(view, key));
        call(backend.as_mut(), MAPS, &keys, |maps, view| maps.clear_map(view, key));
    }
    let restored = rig.checkpoint(backend.as_mut());
    for backend in [backend.as_mut(), Rig::new(flavor).open(Some(restored)).as_mut()] {
        for state in [LISTS, MAPS, pages_of(LISTS), pages_of(MAPS)] {
            assert!(scan(backend, &[state], 100).is_empty(), "state {state}");
        }
        assert_eq!(plain(backend).values, plain_now.values);
    }
}

#[test]
fn lists_and_maps_are_as_plain_ones_through_checkpoints_and_restores() {
    let only: Option<u64> = std::env::var("WEIR_STATE_SEED").ok().map(|seed| seed.parse().expect("a seed is a number"));
    for flavor in FLAVORS {
        for seed in only.map_or(1..9, |seed| seed..seed + 1) {
            let run = std::panic::AssertUnwindSafe(|| run(flavor, seed));
            if let Err(panic) = std::panic::catch_unwind(run) {
                let text = panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|s| s.to_string()));
                panic!("{flavor:?}, WEIR_STATE_SEED={seed}: {}", text.unwrap_or_default());
            }
        }
    }
}
