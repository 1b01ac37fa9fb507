//! Lists and maps beside a vector and a `BTreeMap`, call by call, over a backend that watches its caller.

use std::collections::BTreeMap;
use std::ops::Bound;
use weir_plugin::batch::{Column, RecordBatch};
use weir_plugin::collections::{CollectionError, StagedCells, View};
use weir_plugin::state::{KeyGrouping, PAGES, StateId, cell_hash, key_group, key_hash, page_hash, pages_of};
use weir_plugin::testing::MemoryState;

/// A small generator (xorshift64*): the seed is in every failure.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    /// Mostly short, at times longer than a node.
    fn value(&mut self) -> Vec<u8> {
        let length = match self.below(40) {
            0 => self.below(5000),
            1..6 => self.below(300),
            _ => self.below(12),
        };
        vec![self.below(256) as u8; length as usize]
    }

    /// One of so many map keys; some of one prefix, some long.
    fn map_key(&mut self, keys: u64) -> Vec<u8> {
        let n = self.below(keys);
        match n % 7 {
            0 => format!("prefix/that/is/long/enough/to/be/cut/{n:06}").into_bytes(),
            1 => (n as u32).to_be_bytes().to_vec(),
            2 if n < 10 => vec![b'k'; n as usize],
            _ => format!("{n}").into_bytes(),
        }
    }
}

const KEYS: [&str; 3] = ["a", "b", ""];

/// The keys of a call, and what it has staged.
struct Call {
    batch: RecordBatch,
    grouping: KeyGrouping,
    staged: StagedCells,
}

impl Call {
    fn new() -> Self {
        let mut batch = RecordBatch::new();
        KEYS.iter().for_each(|key| batch.push(key.as_bytes(), b"", 0));
        let mut grouping = KeyGrouping::new();
        grouping.group(&batch);
        Call { batch, grouping, staged: StagedCells::new(3) }
    }

    fn run<R>(
        &mut self,
        state: &mut MemoryState,
        call: impl FnOnce(&mut StagedCells, &mut View<'_>) -> Result<R, CollectionError>,
    ) -> R {
        let mut view = View { backend: state, keys: self.grouping.keys(&self.batch), budget: 1 << 30 };
        call(&mut self.staged, &mut view).expect("it succeeds")
    }

    fn flush(&self, state: &mut MemoryState) {
        self.staged.flush(state, self.grouping.keys(&self.batch)).expect("memory does not fail");
    }
}

fn column<T: AsRef<[u8]>>(strings: &[T]) -> Column {
    let mut column = Column::new();
    strings.iter().for_each(|string| column.push(string.as_ref()));
    column
}

fn strings(column: &Column) -> Vec<Vec<u8>> {
    (0..column.len()).map(|i| column.get(i).to_vec()).collect()
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// All of a map's entries in a range, in pages.
fn scan(call: &mut Call, state: &mut MemoryState, key: u32, start: &[u8], end: Option<&[u8]>, limit: usize, bytes: usize) -> Map {
    let (mut found, mut start) = (Map::new(), start.to_vec());
    loop {
        let page = call.run(state, |maps, view| maps.map_scan(view, key, (&start, end), limit, bytes));
        assert!(page.map_keys.len() <= limit && page.map_keys.len() == page.values.len());
        assert!(page.done || !page.map_keys.is_empty(), "a page that is not the last has an entry");
        for (map_key, value) in strings(&page.map_keys).into_iter().zip(strings(&page.values)) {
            assert!(map_key >= start, "ascending");
            start = [&map_key[..], &[0]].concat();
            found.insert(map_key, value);
        }
        if page.done {
            return found;
        }
    }
}

#[test]
fn maps_are_as_a_btree_map() {
    for seed in 1..=60 {
        let mut random = Random(seed);
        let (mut state, mut model) = (MemoryState::new(), vec![Map::new(); KEYS.len()]);
        // Few map keys are removed and set again; many grow to several levels.
        let map_keys = [30, 300, 3000][seed as usize % 3];
        for step in 0..40 {
            let mut call = Call::new();
            let before = model.clone();
            for _ in 0..random.below(6) {
                let n = 1 + random.below(200) as usize;
                let keys: Vec<u32> = (0..n).map(|_| random.below(KEYS.len() as u64) as u32).collect();
                let mut chosen: Vec<Vec<u8>> = (0..n).map(|_| random.map_key(map_keys)).collect();
                match random.below(9) {
                    0..4 => {
                        if random.below(3) == 0 {
                            chosen.sort();
                        }
                        let values: Vec<Vec<u8>> = (0..n).map(|_| random.value()).collect();
                        call.run(&mut state, |maps, view| maps.map_put_many(view, &keys, &column(&chosen), &column(&values)));
                        for ((key, map_key), value) in keys.iter().zip(chosen).zip(values) {
                            model[*key as usize].insert(map_key, value);
                        }
                    }
                    4..7 => {
                        call.run(&mut state, |maps, view| maps.map_remove_many(view, &keys, &column(&chosen)));
                        for (key, map_key) in keys.iter().zip(chosen) {
                            model[*key as usize].remove(&map_key);
                        }
                    }
                    7 => {
                        let cells = call.run(&mut state, |maps, view| maps.map_get_many(view, &keys, &column(&chosen), 1 << 30));
                        for (i, (key, map_key)) in keys.iter().zip(&chosen).enumerate() {
                            assert_eq!(
                                cells.get(i),
                                model[*key as usize].get(map_key).map(Vec::as_slice),
                                "seed {seed}, step {step}"
                            );
                        }
                    }
                    _ if random.below(4) == 0 => {
                        let key = keys[0];
                        call.run(&mut state, |maps, view| maps.clear_map(view, key));
                        model[key as usize].clear();
                    }
                    _ => {}
                }
            }
            for (key, map) in model.iter().enumerate() {
                let key = key as u32;
                assert_eq!(call.run(&mut state, |maps, view| maps.map_is_empty(view, key)), map.is_empty());
                let (limit, bytes) = (1 + random.below(500) as usize, 1 + random.below(20_000) as usize);
                assert_eq!(&scan(&mut call, &mut state, key, b"", None, limit, bytes), map, "seed {seed}, step {step}");
                let (mut start, mut end) = (random.map_key(map_keys), random.map_key(map_keys));
                if start > end {
                    std::mem::swap(&mut start, &mut end);
                }
                let range = (Bound::Included(start.clone()), Bound::Excluded(end.clone()));
                let expected: Map = map.range(range).map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_eq!(
                    scan(&mut call, &mut state, key, &start, Some(&end), limit, bytes),
                    expected,
                    "seed {seed}, step {step}"
                );
            }
            // A call in four fails: nothing of it shows.
            if random.below(4) == 0 {
                model = before;
            } else {
                call.flush(&mut state);
            }
            if model.iter().all(Map::is_empty) {
                assert!(state.cells().is_empty(), "seed {seed}, step {step}: nothing is left of empty maps");
            }
        }
        // Removed to the last entry, no page stays.
        let mut call = Call::new();
        for (key, map) in model.iter().enumerate() {
            let chosen: Vec<_> = map.keys().cloned().collect();
            let keys = vec![key as u32; chosen.len()];
            call.run(&mut state, |maps, view| maps.map_remove_many(view, &keys, &column(&chosen)));
        }
        call.flush(&mut state);
        assert!(state.cells().is_empty(), "seed {seed}");
    }
}

/// All elements of a list, in pages.
fn elements(call: &mut Call, state: &mut MemoryState, key: u32, limit: usize, bytes: usize) -> Vec<Vec<u8>> {
    let (mut found, mut start) = (Vec::new(), 0);
    loop {
        let page = call.run(state, |lists, view| lists.list_page(view, key, start, limit, bytes));
        assert!(page.values.len() <= limit && (page.next == 0 || !page.values.is_empty()));
        found.extend(strings(&page.values));
        start = page.next;
        if start == 0 {
            return found;
        }
    }
}

#[test]
fn lists_are_as_a_vector() {
    for seed in 1..=60 {
        let mut random = Random(seed);
        let (mut state, mut model) = (MemoryState::new(), vec![Vec::<Vec<u8>>::new(); KEYS.len()]);
        for step in 0..40 {
            let mut call = Call::new();
            let before = model.clone();
            for _ in 0..random.below(6) {
                let n = random.below(200) as usize;
                let keys: Vec<u32> = (0..n).map(|_| random.below(KEYS.len() as u64) as u32).collect();
                if random.below(12) == 0 {
                    let key = random.below(KEYS.len() as u64) as u32;
                    call.run(&mut state, |lists, view| lists.clear_list(view, key));
                    model[key as usize].clear();
                    continue;
                }
                let values: Vec<Vec<u8>> = (0..n).map(|_| random.value()).collect();
                call.run(&mut state, |lists, view| lists.append_many(view, &keys, values.iter().map(Vec::as_slice)));
                keys.iter().zip(values).for_each(|(key, value)| model[*key as usize].push(value));
            }
            for (key, list) in model.iter().enumerate() {
                let key = key as u32;
                let (limit, bytes) = (1 + random.below(500) as usize, 1 + random.below(20_000) as usize);
                assert_eq!(&elements(&mut call, &mut state, key, limit, bytes), list, "seed {seed}, step {step}");
                assert_eq!(call.run(&mut state, |lists, view| lists.list_len(view, key)), list.len() as u64);
                let mut whole = Column::new();
                let count = call.run(&mut state, |lists, view| lists.whole_list(view, key, &mut whole, 1 << 30));
                assert_eq!((count as usize, &strings(&whole)), (list.len(), list));
            }
            if random.below(4) == 0 {
                model = before;
            } else {
                call.flush(&mut state);
            }
            if model.iter().all(Vec::is_empty) {
                assert!(state.cells().is_empty(), "seed {seed}, step {step}: nothing is left of empty lists");
            }
        }
    }
}

#[test]
fn a_place_in_a_list_stays_what_it_is_while_the_list_grows() {
    let (mut state, mut call) = (MemoryState::new(), Call::new());
    let append = |call: &mut Call, state: &mut MemoryState, values: std::ops::Range<u32>| {
        let values: Vec<[u8; 4]> = values.map(u32::to_be_bytes).collect();
        let keys = vec![0; values.len()];
        call.run(state, |lists, view| lists.append_many(view, &keys, values.iter().map(|value| &value[..])));
    };
    append(&mut call, &mut state, 0..100);
    let first = call.run(&mut state, |lists, view| lists.list_page(view, 0, 0, 70, 1 << 20));
    append(&mut call, &mut state, 100..1000);
    let second = call.run(&mut state, |lists, view| lists.list_page(view, 0, first.next, 5, 1 << 20));
    assert_eq!(strings(&second.values), (70u32..75).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>());
}

#[test]
fn an_append_reads_and_writes_only_the_end_of_the_list() {
    let mut state = MemoryState::new();
    for round in 0..2000u32 {
        let mut call = Call::new();
        call.run(&mut state, |lists, view| lists.append_many(view, &[0], [&round.to_be_bytes()[..]; 10].into_iter()));
        let before = state.calls;
        call.flush(&mut state);
        assert!(state.calls.put_many - before.put_many <= 2, "the root, and a chunk at times");
    }
    assert!(state.value(3, b"a").expect("a list").len() < 1100);
    assert_eq!(state.calls.get_many, 2000, "one read of the root a call");
}

#[test]
fn ascending_map_keys_fill_their_pages() {
    let mut state = MemoryState::new();
    let mut call = Call::new();
    let map_keys: Vec<[u8; 8]> = (0..20_000u64).map(u64::to_be_bytes).collect();
    let keys = vec![0; map_keys.len()];
    call.run(&mut state, |maps, view| maps.map_put_many(view, &keys, &column(&map_keys), &column(&map_keys)));
    call.flush(&mut state);
    let bytes: usize = state.cells().values().map(Vec::len).sum();
    assert!(bytes < 20_000 * 18 * 11 / 10, "{bytes} bytes for {}", 20_000 * 18);
    assert!(state.cells().values().all(|cell| cell.len() <= 2 << 10));
    // A queue: what is taken away at the front leaves no pages behind.
    let mut call = Call::new();
    call.run(&mut state, |maps, view| maps.map_remove_many(view, &keys[..19_990], &column(&map_keys[..19_990])));
    call.flush(&mut state);
    assert_eq!(state.cells().len(), 1, "ten entries lie in the root");
}

#[test]
fn a_budget_bounds_what_is_staged() {
    let (mut state, mut call) = (MemoryState::new(), Call::new());
    let map_keys: Vec<[u8; 8]> = (0..5000u64).map(u64::to_be_bytes).collect();
    let keys = vec![0; map_keys.len()];
    call.run(&mut state, |maps, view| maps.map_put_many(view, &keys, &column(&map_keys), &column(&map_keys)));
    call.flush(&mut state);
    let mut call = Call::new();
    let mut view = View { backend: &mut state, keys: call.grouping.keys(&call.batch), budget: 20_000 };
    // Each entry is in another page.
    let some: Vec<_> = map_keys.iter().step_by(300).collect();
    let done = call.staged.map_put_many(&mut view, &keys[..some.len()], &column(&some), &column(&vec![b"new"; some.len()]));
    assert!(matches!(done, Err(CollectionError::TooMuch)), "{done:?}");
}

#[test]
fn damaged_cells_are_told() {
    for (root, page) in [(&b"\x01"[..], &b""[..]), (b"\x00\x05", b""), (b"", b""), (b"\x01\0\0\0\0\0\0\0\0\x00\x07", b"\x09x")] {
        let (mut state, mut call) = (MemoryState::new(), Call::new());
        state.set(3, b"a", root);
        state.set(pages_of(3), &[&b"a"[..], &7u64.to_be_bytes()].concat(), page);
        let mut view = View { backend: &mut state, keys: call.grouping.keys(&call.batch), budget: 20_000 };
        let error = call.staged.map_get_many(&mut view, &[0], &column(&["x"]), 100).expect_err("it is no map");
        let CollectionError::State(error) = error else { panic!("{error:?}") };
        assert!(error.to_string().contains("of a map: its stored form is damaged"), "{error}");
    }
}

#[test]
fn pages_are_of_the_key_group_of_their_key() {
    for n in 0..1000u64 {
        let key = n.to_be_bytes();
        let hashes: Vec<u64> = (0..100).map(|page| page_hash(key_hash(&key), page)).collect();
        for (page, &hash) in (0u64..).zip(&hashes) {
            assert_eq!(key_group(hash), key_group(key_hash(&key)));
            assert_eq!(cell_hash(PAGES, &[key, page.to_be_bytes()].concat()), hash);
        }
        let mut low: Vec<u32> = hashes.iter().map(|hash| *hash as u32).collect();
        low.sort_unstable();
        low.dedup();
        assert_eq!(low.len(), 100, "their slots differ");
    }
    assert_eq!(cell_hash(0, b"a longer key"), key_hash(b"a longer key"));
    assert_eq!(cell_hash(StateId::MAX, b"a longer key"), key_hash(b"a longer key"));
}
