//! {{name}}: counts the records of each key, and gives the count with every record.

use weir_sdk::prelude::*;

#[derive(Default)]
struct {{Name}};

impl KeyedOperator for {{Name}} {
    const INFO: Info = weir_sdk::info!();
    /// The state of each key. The host keeps it: nothing that must survive belongs into the fields of this struct.
    type State = Value<u64>;
    /// A checkpoint finds it by this name.
    const STATES: &'static [StateName] = &[StateName::new("count")];

    fn process(&mut self, record: Record<'_>, count: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
        let now = count.or_default();
        *now += 1;
        out.emit(record.key(), now.to_string(), record.time());
        Ok(())
    }
}

weir_sdk::export_operator!({{Name}});

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn each_key_has_its_own_count() {
        let mut harness = Harness::open({{Name}}, "{}").unwrap();
        harness.send(0, &[("ann", "a", 1), ("bob", "b", 2), ("ann", "c", 3)]).unwrap();
        let counts: Vec<_> = harness.take_main().iter().map(|r| format!("{} {}", r.key(), r.text())).collect();
        assert_eq!(counts, ["ann 1", "bob 1", "ann 2"]);
    }
}
