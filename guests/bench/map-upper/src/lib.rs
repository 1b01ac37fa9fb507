//! Upper-cases the ASCII letters of each value, one byte for one: a map that touches every byte.

use weir_sdk::prelude::*;

#[derive(Default)]
struct MapUpper;

impl Operator for MapUpper {
    const INFO: Info = weir_sdk::info!();
    const INPUTS: u32 = 0;

    #[inline]
    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        out.emit_with(record.key(), record.time(), |value| {
            value.push_mapped(record.value(), |byte| byte.to_ascii_uppercase())
        });
        Ok(())
    }
}

weir_sdk::export_operator!(MapUpper);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Emitted, Harness};

    #[test]
    fn letters_become_upper_case_and_all_else_stays() {
        let mut harness = Harness::open(MapUpper, "{}").unwrap();
        harness.send(0, &[("key", &b"aZ 9\xff"[..], -3)]).unwrap();
        assert_eq!(harness.take_main(), [Emitted { key: b"key".to_vec(), value: b"AZ 9\xff".to_vec(), time: -3 }]);
    }
}
