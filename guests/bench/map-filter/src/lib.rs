//! Mixes the first eight bytes of each value and passes half of the records on: a map and a filter in one component.

use weir_bench_work::{mixed, passes};
use weir_sdk::prelude::*;

#[derive(Default)]
struct MapFilter;

impl Operator for MapFilter {
    const INFO: Info = weir_sdk::info!();
    const INPUTS: u32 = 0;

    #[inline]
    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let value = record.value();
        let mixed = mixed(value).ok_or_else(|| Error::bad_record("the value has fewer than eight bytes"))?;
        if passes(mixed, value) {
            out.emit_with(record.key(), record.time(), |bytes| {
                bytes.push(&mixed);
                bytes.push(&value[8..]);
            });
        }
        Ok(())
    }
}

weir_sdk::export_operator!(MapFilter);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn what_passes_is_mixed() {
        let mut harness = Harness::open(MapFilter, "{}").unwrap();
        harness.send(0, &[("a", "00000000b", 1), ("b", "00000000a", 2)]).unwrap();
        let [passed] = &harness.take_main()[..] else { panic!("one of the two passes") };
        let value = b"00000000a".to_vec();
        assert_eq!(passed.value, [&mixed(&value).unwrap()[..], b"b"].concat());
        assert_eq!(passed.time, 1);
    }

    #[test]
    fn a_short_value_is_a_bad_record() {
        let mut harness = Harness::open(MapFilter, "{}").unwrap();
        assert!(harness.send(0, &[("a", "short", 1)]).is_err());
    }
}
