//! Parses three fields of each value and rewrites the first: a map that works.

use weir_bench_work::{DIGITS, rewritten};
use weir_sdk::prelude::*;

#[derive(Default)]
struct RewriteField;

impl Operator for RewriteField {
    const INFO: Info = weir_sdk::info!();
    const INPUTS: u32 = 0;

    #[inline]
    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let value = record.value();
        let first = rewritten(value).ok_or_else(|| Error::bad_record("a field is not a number, or missing"))?;
        out.emit_with(record.key(), record.time(), |bytes| {
            bytes.push(&first);
            bytes.push(&value[DIGITS..]);
        });
        Ok(())
    }
}

weir_sdk::export_operator!(RewriteField);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn the_first_field_is_rewritten_and_the_rest_stays() {
        let mut harness = Harness::open(RewriteField, "{}").unwrap();
        harness.send(0, &[("key", "00000000000000000002aaaaaaaaaaaaaaabaaaaaaaaaaaaaaap rest", 7)]).unwrap();
        let [record] = &harness.take_main()[..] else { panic!("one record") };
        assert_eq!(record.value, b"00000000000000000013aaaaaaaaaaaaaaabaaaaaaaaaaaaaaap rest");
    }

    #[test]
    fn a_value_without_fields_is_a_bad_record() {
        let mut harness = Harness::open(RewriteField, "{}").unwrap();
        assert!(harness.send(0, &[("key", "no fields", 7)]).is_err());
    }
}
