//! Counts records by key: emits the key, and its count as eight little-endian bytes. The hot path of the benches.

use weir_sdk::prelude::*;

#[derive(Default)]
struct KeyedCount;

impl KeyedOperator for KeyedCount {
    const INFO: Info = weir_sdk::info!();
    type State = Value<u64>;
    const STATES: &'static [StateName] = &[StateName::new("count")];

    #[inline]
    fn process(&mut self, record: Record<'_>, count: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
        let count = count.or_default();
        *count += 1;
        out.emit(record.key(), count.to_le_bytes(), record.time());
        Ok(())
    }
}

weir_sdk::export_operator!(KeyedCount);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn counts_do_not_depend_on_the_batching() {
        let keys: Vec<String> = (0..100).map(|i| format!("k{}", i * 7 % 13)).collect();
        let records: Vec<_> = keys.iter().map(|key| (key, "", 5)).collect();
        for size in [1, 7, 100] {
            let mut harness = Harness::open(KeyedCount, "{}").unwrap();
            harness.send_in_batches(0, &records, size).unwrap();
            let got = harness.take_main();
            for (i, record) in got.iter().enumerate() {
                let expected = keys[..=i].iter().filter(|key| **key == keys[i]).count() as u64;
                assert_eq!((record.key(), &record.value[..]), (&keys[i][..], &expected.to_le_bytes()[..]));
            }
            assert_eq!(harness.state().get(0, b"k0"), Some(8u64.to_le_bytes().to_vec()));
        }
    }
}
