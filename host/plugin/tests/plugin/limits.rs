//! Time that the host takes does not count against the guest.

use crate::guest::{ECHO, Guest};
use crate::{batch, load, setup};
use std::time::Duration;
use weir_plugin::batch::Cells;
use weir_plugin::state::{KeyedStateBackend, Keys, StateError, StateId};
use weir_plugin::testing::MemoryState;
use weir_plugin::*;

/// State on a slow disk.
struct Slow(MemoryState);

impl KeyedStateBackend for Slow {
    fn prefetch(&mut self, keys: Keys<'_>, states: &[StateId], out: &mut Vec<Cells>) -> Result<(), StateError> {
        self.0.prefetch(keys, states, out)
    }
    fn apply(&mut self, keys: Keys<'_>, states: &[StateId], updates: &[Cells]) -> Result<(), StateError> {
        self.0.apply(keys, states, updates)
    }
    fn get_many(&mut self, state: StateId, keys: Keys<'_>, out: &mut Cells) -> Result<(), StateError> {
        // Waits for what the test is about: ten ticks of the engine's clock.
        std::thread::park_timeout(Duration::from_millis(100));
        self.0.get_many(state, keys, out)
    }
    fn put_many(&mut self, state: StateId, keys: Keys<'_>, cells: &Cells) -> Result<(), StateError> {
        self.0.put_many(state, keys, cells)
    }
    fn scan_keys(&mut self, states: &[StateId], after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, StateError> {
        self.0.scan_keys(states, after, limit)
    }
}

#[test]
fn a_slow_disk_is_not_the_guests_fault() {
    // A batch of one record with key "k": its key as a column is data[0..1] and the offsets 0, 1 at 1024.
    let get = "(i32.store (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (i32.const 1))
        (call $get_many (i32.const 0) (local.get $data) (i32.const 1) (i32.const 1024) (i32.const 8) (i32.const 1040))";
    let guest = Guest::operator(&[("s", "value", false)], &[]).import("$get_many").process([get, ECHO].concat());
    let limits = Limits { call: Duration::from_millis(30), ..Limits::default() };
    let mut operator =
        OperatorInstance::new(&load(&guest).expect("it loads"), &TaskSetup { limits, ..setup() }).expect("it opens");
    operator.process(0, &batch(&[("k", "v")]), Some(&mut Slow(MemoryState::new()))).expect("the guest itself is quick");
    // But what it computes afterwards still counts.
    let guest = Guest::operator(&[("s", "value", false)], &[])
        .import("$get_many")
        .process([get, "(loop $l (br $l)) unreachable"].concat());
    let mut operator =
        OperatorInstance::new(&load(&guest).expect("it loads"), &TaskSetup { limits, ..setup() }).expect("it opens");
    let error = operator.process(0, &batch(&[("k", "v")]), Some(&mut Slow(MemoryState::new()))).expect_err("endless");
    assert!(matches!(&error.kind, CallErrorKind::Limit(breach) if breach.which == LimitKind::Call), "{error}");
}
