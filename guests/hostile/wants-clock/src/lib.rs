//! An operator that stamps records with the wall clock. No plugin gets a real one: it must see the one that stands still, so that
//! a replayed record gets the same stamp.

use weir_sdk::prelude::*;

mod clock {
    //! The interface that it asks for.
    wit_bindgen::generate!({ path: "wit", world: "asks" });
}

#[derive(Default)]
struct WantsClock;

impl Operator for WantsClock {
    const INFO: Info = weir_sdk::info!();

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let now = clock::wasi::clocks::wall_clock::now();
        let ms = now.seconds as i64 * 1000 + i64::from(now.nanoseconds / 1_000_000);
        out.emit(record.key(), ms.to_string(), record.time());
        Ok(())
    }
}

weir_sdk::export_operator!(WantsClock);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn it_opens_without_looking_at_the_clock() {
        assert!(Harness::open(WantsClock, "{}").is_ok());
    }
}
