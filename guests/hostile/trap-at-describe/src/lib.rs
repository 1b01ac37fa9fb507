//! An operator that traps before it has said what it is.
#![cfg(any(target_family = "wasm", test))]

use weir_sdk::bindings::Descriptor;
use weir_sdk::bindings::operator::exports::weir::plugin::operator::Guest;
use weir_sdk::bindings::types::{Batch, Cells, Error, Output, TaskInfo};

struct TrapAtDescribe;

impl Guest for TrapAtDescribe {
    fn describe() -> Descriptor {
        panic!("trap at describe, as always")
    }

    fn open(_: TaskInfo, _: String) -> Result<(), Error> {
        Ok(())
    }

    fn process(_: u32, _: Batch, _: Vec<u8>, _: Vec<Cells>) -> Result<Output, Error> {
        Err(Error::Fatal("nobody should have come this far".to_owned()))
    }

    fn close() {}
}

#[cfg(target_family = "wasm")]
weir_sdk::bindings::operator::export!(TrapAtDescribe with_types_in weir_sdk::bindings::operator);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "trap at describe")]
    fn describe_traps() {
        TrapAtDescribe::describe();
    }
}
