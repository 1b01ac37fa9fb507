//! Passes records on, unchanged, whose value ends in an even byte; an empty value passes.

use weir_sdk::prelude::*;

#[derive(Default)]
struct FilterEven;

impl Operator for FilterEven {
    const INFO: Info = weir_sdk::info!();
    const INPUTS: u32 = 0;

    #[inline]
    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        if record.value().last().is_none_or(|byte| byte % 2 == 0) {
            out.forward(record);
        }
        Ok(())
    }
}

weir_sdk::export_operator!(FilterEven);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn odd_ends_are_dropped() {
        let mut harness = Harness::open(FilterEven, "{}").unwrap();
        harness.send(0, &[("a", "12", 1), ("b", "13", 2), ("c", "", 3)]).unwrap();
        assert_eq!(harness.take_main().iter().map(|r| r.time).collect::<Vec<_>>(), [1, 3]);
    }
}
