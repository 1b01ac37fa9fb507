//! An operator that draws a number at its start and adds it to each record. Every instance draws the same one, so that a replay
//! is exact; it is the host's goodness, not the operator's.

use weir_sdk::prelude::*;

mod random {
    //! The interface that it asks for.
    wit_bindgen::generate!({ path: "wit", world: "asks" });
}

#[derive(Default)]
struct WantsRandom {
    drawn: u64,
}

impl Operator for WantsRandom {
    const INFO: Info = weir_sdk::info!();

    fn open(&mut self, _: &Task, _: &str) -> Result<(), Error> {
        // There is no host in a native test.
        if cfg!(target_family = "wasm") {
            self.drawn = random::wasi::random::random::get_random_u64();
        }
        Ok(())
    }

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        out.emit(record.key(), format!("{:x}", self.drawn), record.time());
        Ok(())
    }
}

weir_sdk::export_operator!(WantsRandom);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn what_was_drawn_stands_in_every_record() {
        let mut harness = Harness::open(WantsRandom { drawn: 0xab }, "{}").unwrap();
        harness.send(0, &[("k", "v", 1)]).unwrap();
        assert_eq!(harness.take_main()[0].text(), "ab");
    }
}
