//! {{name}}: passes each value on in capital letters.

use weir_sdk::prelude::*;

#[derive(Default)]
struct {{Name}};

impl Operator for {{Name}} {
    const INFO: Info = weir_sdk::info!();

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        // A value that is no UTF-8 makes a bad record: the job file's `on_bad_record` says what becomes of it.
        let capitals = record.text()?.to_uppercase();
        // Key, event time and headers stay.
        out.forward_with(record, |value| value.push(capitals.as_bytes()));
        Ok(())
    }
}

weir_sdk::export_operator!({{Name}});

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn values_become_capitals() {
        let mut harness = Harness::open({{Name}}, "{}").unwrap();
        harness.send(0, &[("ann", "hello", 1), ("bob", "Weir", 2)]).unwrap();
        let values: Vec<_> = harness.take_main().iter().map(|record| record.text().to_owned()).collect();
        assert_eq!(values, ["HELLO", "WEIR"]);
    }

    #[test]
    fn a_value_that_is_no_text_is_a_bad_record() {
        let mut harness = Harness::open({{Name}}, "{}").unwrap();
        assert!(harness.send(0, &[("ann", &b"\xff"[..], 1)]).is_err());
    }
}
