//! Numbers its records from 1, and counts in a global: after a restart it begins anew, and nobody hears of it.

use std::cell::Cell;
use weir_sdk::prelude::*;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
struct KeepsGlobal;

impl Operator for KeepsGlobal {
    const INFO: Info = weir_sdk::info!();

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let number = COUNT.get() + 1;
        COUNT.set(number);
        out.emit(record.key(), number.to_string(), record.time());
        Ok(())
    }
}

weir_sdk::export_operator!(KeepsGlobal);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn a_second_instance_goes_on_where_the_first_stopped() {
        for expected in ["1", "2"] {
            let mut harness = Harness::open(KeepsGlobal, "{}").unwrap();
            harness.send(0, &[("k", "v", 1)]).unwrap();
            assert_eq!(harness.take_main()[0].text(), expected);
        }
    }
}
