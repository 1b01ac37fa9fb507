//! Counts records by key: emits `key,count,build`, the key as a decimal number. Tests of hot swap make other builds of it by
//! writing another number and another action over [`BUILD`] in the component.
//!
//! Actions:
//! - `good`: nothing but that;
//! - `trap`: panics at its first record;
//! - `loop`: never returns from it;
//! - `fail`: fails at its first record;
//! - `late`: panics at the 1,000th record of an instance;
//! - `open`: does not open.

use std::hint::black_box;
use weir_sdk::prelude::*;

/// `weir-build:` number `-` action.
static BUILD: [u8; 20] = *b"weir-build:0000-good";

#[derive(Default)]
struct ManyBuilds {
    records: u32,
}

/// Number and action of this build. A compiler that knew them would not read them.
fn build() -> (&'static [u8], &'static [u8]) {
    let build = black_box(&BUILD);
    (&build[11..15], &build[16..])
}

impl KeyedOperator for ManyBuilds {
    const INFO: Info = weir_sdk::info!();
    type State = Value<u64>;
    const STATES: &'static [StateName] = &[StateName::new("count")];

    fn open(&mut self, _: &Task, _: &str) -> Result<(), Error> {
        match build().1 {
            b"open" => Err(Error::fatal("this build does not open")),
            _ => Ok(()),
        }
    }

    fn process(&mut self, record: Record<'_>, count: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
        self.records += 1;
        let (number, action) = build();
        match action {
            b"trap" => panic!("this build traps"),
            b"late" if self.records == 1_000 => panic!("this build traps late"),
            b"fail" => return Err(Error::fatal("this build fails")),
            b"loop" => loop {
                black_box(&self.records);
            },
            _ => {}
        }
        let count = count.or_default();
        *count += 1;
        let key = record.key().iter().rev().fold(0u64, |key, byte| key << 8 | u64::from(*byte));
        let line = format!("{key},{count},{}", String::from_utf8_lossy(number));
        out.emit(record.key(), line, record.time());
        Ok(())
    }
}

weir_sdk::export_operator!(ManyBuilds);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn each_record_gives_count_and_build() {
        let mut harness = Harness::open(ManyBuilds::default(), "{}").unwrap();
        let records: Vec<_> = [[7, 0], [1, 1], [7, 0]].iter().map(|key| (key, "", 1)).collect();
        harness.send_in_batches(0, &records, 2).unwrap();
        let lines: Vec<_> = harness.take_main().iter().map(|record| record.text().to_owned()).collect();
        assert_eq!(lines, ["7,1,0000", "257,1,0000", "7,2,0000"]);
    }
}
