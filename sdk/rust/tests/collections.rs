//! Lists and maps as an author uses them, beside a vector and a `BTreeMap`: in batches of every size, through calls that fail.

use std::collections::BTreeMap;
use weir_sdk::prelude::*;
use weir_sdk::testing::Harness;

/// Does what its records say, and emits what that gives.
#[derive(Default)]
struct Obedient;

type State = (Map<i64, String>, Value<u64>, List<String>);

impl KeyedOperator for Obedient {
    const INFO: Info = weir_sdk::info!();
    type State = State;
    const STATES: &'static [StateName] = &[StateName::new("map"), StateName::new("calls"), StateName::new("list")];

    fn process(&mut self, record: Record<'_>, (map, calls, list): &mut State, out: &mut Output) -> Result<(), Error> {
        *calls.or_default() += 1;
        let words: Vec<&str> = record.text()?.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().expect("the test wrote it");
        let said = match words[0] {
            "push" => {
                list.push(&words[1].to_owned());
                String::new()
            }
            "list" => list.to_vec()?.join(","),
            "length" => format!("{} {}", list.len(), list.is_empty()),
            "clear-list" => {
                list.clear();
                String::new()
            }
            "put" => {
                map.put(&number(1), &words[2].to_owned());
                String::new()
            }
            "remove" => {
                map.remove(&number(1));
                String::new()
            }
            "get" => format!("{:?} {}", map.get(&number(1))?, map.contains(&number(1))),
            "first" => format!("{:?}", map.first(number(1)..)?),
            "scan" => format!("{:?}", map.to_vec(number(1)..=number(2))?),
            "cut" => {
                map.remove_range(..number(1))?;
                format!("{}", map.is_empty())
            }
            "clear-map" => {
                map.clear();
                String::new()
            }
            other => return Err(Error::bad_record(other)),
        };
        out.emit(record.key(), said, record.time());
        Ok(())
    }
}

/// What the operator should say.
#[derive(Clone, Default)]
struct Plain {
    map: BTreeMap<i64, String>,
    list: Vec<String>,
}

impl Plain {
    fn process(&mut self, text: &str) -> String {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().expect("the test wrote it");
        match words[0] {
            "push" => self.list.push(words[1].to_owned()),
            "list" => return self.list.join(","),
            "length" => return format!("{} {}", self.list.len(), self.list.is_empty()),
            "clear-list" => self.list.clear(),
            "put" => drop(self.map.insert(number(1), words[2].to_owned())),
            "remove" => drop(self.map.remove(&number(1))),
            "get" => return format!("{:?} {}", self.map.get(&number(1)), self.map.contains_key(&number(1))),
            "first" => return format!("{:?}", self.map.range(number(1)..).next()),
            "scan" => return format!("{:?}", self.map.range(number(1)..=number(2)).collect::<Vec<_>>()),
            "cut" => {
                self.map = self.map.split_off(&number(1));
                return format!("{}", self.map.is_empty());
            }
            "clear-map" => self.map.clear(),
            other => panic!("{other}"),
        }
        String::new()
    }
}

/// xorshift64*: the seed is in every failure.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn command(&mut self) -> String {
        let n = self.below(40) as i64 - 20;
        match self.below(40) {
            0..8 => format!("push {n}"),
            8..10 => "list".to_owned(),
            10..12 => "length".to_owned(),
            12 => "clear-list".to_owned(),
            13..22 => format!("put {n} v{}", self.below(100)),
            22..27 => format!("remove {n}"),
            27..32 => format!("get {n}"),
            32..34 => format!("first {n}"),
            34..37 => format!("scan {n} {}", n + self.below(15) as i64),
            37 => format!("cut {n}"),
            38 => "clear-map".to_owned(),
            _ => "length".to_owned(),
        }
    }
}

#[test]
fn lists_and_maps_are_as_plain_ones_whatever_the_batches() {
    for seed in 1..=60 {
        let mut random = Random(seed);
        let mut harness = Harness::open(Obedient, "{}").expect("it opens");
        let mut plain: BTreeMap<&str, Plain> = BTreeMap::new();
        for call in 0..40 {
            let records: Vec<(&str, String, i64)> = (0..1 + random.below(30))
                .map(|i| (["a", "b", ""][random.below(3) as usize], random.command(), i as i64))
                .collect();
            // A call in five has a bad record: nothing of it counts.
            if random.below(5) == 0 {
                let bad: Vec<_> = records.iter().cloned().chain([("a", "nonsense".to_owned(), 0)]).collect();
                harness.send(0, &bad).expect_err("a bad record");
            }
            harness.send(0, &records).expect("it runs");
            let said: Vec<String> = harness.take_main().iter().map(|record| record.text().to_owned()).collect();
            let wanted: Vec<String> = records.iter().map(|(key, text, _)| plain.entry(key).or_default().process(text)).collect();
            assert_eq!(said, wanted, "seed {seed}, call {call}: {records:?}");
        }
        for (key, Plain { map, list }) in plain {
            let state = harness.state();
            assert_eq!((state.map(0, key.as_bytes()).len(), state.list(2, key.as_bytes()).len()), (map.len(), list.len()));
        }
    }
}

/// The same kinds, asked for in whole batches.
#[derive(Default)]
struct InBatches;

impl BatchOperator for InBatches {
    const INFO: Info = weir_sdk::info!();
    const STATES: &'static [StateName] =
        &[StateName::new("list").kind(StateKind::List), StateName::new("map").kind(StateKind::Map)];

    fn process(&mut self, batch: Batch<'_>, state: &mut KeyedState, out: &mut Output, _: &mut BadRecords) -> Result<(), Error> {
        let (mut keys, mut map_keys, mut values) = (Column::new(), Column::new(), Vec::new());
        for record in batch.records() {
            keys.push(record.key());
            map_keys.push(record.value());
            values.push(record.time());
        }
        state.list_append_many(0, &keys, &values);
        let before = state.map_get_many::<i64>(1, &keys, &map_keys)?;
        state.map_put_many(1, &keys, &map_keys, &values);
        for (record, (list, before)) in batch.records().zip(state.list_get_many::<i64>(0, &keys)?.into_iter().zip(before)) {
            out.emit(record.key(), format!("{list:?} {before:?}"), record.time());
        }
        if let Some(record) = batch.records().find(|record| record.value() == b"forget") {
            let mut key = Column::new();
            key.push(record.key());
            state.list_clear_many(0, &key);
            state.map_remove_many(1, &keys, &map_keys);
            state.map_clear_many(1, &key);
        }
        Ok(())
    }
}

#[test]
fn whole_batches_read_and_write_lists_and_maps() {
    let mut harness = Harness::open(InBatches, "{}").expect("it opens");
    harness.send(0, &[("a", "x", 1), ("b", "x", 2), ("a", "x", 3)]).expect("it runs");
    harness.send(0, &[("a", "x", 4)]).expect("it runs");
    let said: Vec<String> = harness.take_main().iter().map(|record| record.text().to_owned()).collect();
    assert_eq!(said, ["[1, 3] None", "[2] None", "[1, 3] None", "[1, 3, 4] Some(3)"]);
    harness.send(0, &[("a", "forget", 5)]).expect("it runs");
    assert_eq!((harness.state().list(0, b"a").len(), harness.state().map(1, b"a").len()), (0, 0));
    assert_eq!(harness.state().list(0, b"b").len(), 1);
}
