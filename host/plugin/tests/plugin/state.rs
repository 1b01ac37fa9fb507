//! Keyed state: prefetched with the batch, on demand by host calls, applied only when the call succeeds.

use crate::guest::{ECHO, Guest};
use crate::{batch, instance};
use weir_plugin::testing::{MemoryState, MemoryStateCalls};
use weir_plugin::*;

/// The batch's first key as a column: its bytes, and the first two offsets of the batch's index.
const KEY: &str = "(local.get $data) (i32.load offset=4 (local.get $index)) (local.get $index) (i32.const 8)";
/// Its value as a column, whose offsets are put at 1024.
const VALUE: &str = "(i32.add (local.get $data) (i32.load offset=4 (local.get $index)))
    (i32.sub (i32.load offset=8 (local.get $index)) (i32.load offset=4 (local.get $index))) (i32.const 1024) (i32.const 8)";
const VALUE_OFFSETS: &str = "(i32.store (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1028) (i32.sub (i32.load offset=8 (local.get $index)) (i32.load offset=4 (local.get $index))))";

fn put(state: u32) -> String {
    format!("{VALUE_OFFSETS} (call $put_many (i32.const {state}) {KEY} {VALUE})")
}

/// Reads the first key's cell and traps unless its operation byte is this.
fn expect_op(state: u32, op: u32) -> String {
    format!(
        "(call $get_many (i32.const {state}) {KEY} (i32.const 1040))
         (if (i32.ne (i32.load8_u (i32.load (i32.const 1040))) (i32.const {op})) (then unreachable))"
    )
}

/// Hands the prefetched cells back as updates, with every operation byte replaced.
fn updates(op: u32) -> String {
    let update =
        "(i32.store (i32.const 112) (local.get $states)) (i32.store (i32.const 116) (local.get $states_len)) (i32.const 64)";
    format!(
        "(memory.fill (i32.load (local.get $states)) (i32.const {op}) (i32.load offset=4 (local.get $states))) {ECHO} drop {update}"
    )
}

const PREFETCHED: &[crate::guest::State] = &[("a", "value", true)];
const ON_DEMAND: &[crate::guest::State] = &[("a", "value", false), ("b", "value", false)];

fn state_guest(states: &[crate::guest::State], body: String) -> Guest {
    Guest::operator(states, &[]).import("$get_many").import("$put_many").import("$delete_many").process(body)
}

#[test]
fn prefetched_cells_come_with_the_batch_and_go_back_as_updates() {
    let input = batch(&[("k", "1"), ("l", "2"), ("k", "3")]);
    let mut state = MemoryState::new();
    state.set(0, b"k", b"old");
    // keep
    instance(&state_guest(PREFETCHED, updates(0))).process(0, &input, Some(&mut state)).expect_err("keep takes no value");
    // put: absent cells have an empty value, and an empty value is a value
    instance(&state_guest(PREFETCHED, updates(1))).process(0, &input, Some(&mut state)).expect("it runs");
    assert_eq!((state.value(0, b"k"), state.value(0, b"l")), (Some(&b"old"[..]), Some(&b""[..])));
    assert_eq!(state.calls, MemoryStateCalls { prefetch: 2, apply: 1, ..MemoryStateCalls::default() });
    // no updates: nothing is applied
    instance(&state_guest(PREFETCHED, ECHO.into())).process(0, &input, Some(&mut state)).expect("it runs");
    assert_eq!(state.calls.apply, 1);
    // Every record is told its key: two distinct ones, the third record is the first's again.
    let key_of = "(if (i32.ne (local.get $key_of_len) (i32.const 12)) (then unreachable))
        (if (i32.ne (i32.load offset=4 (local.get $key_of)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load offset=8 (local.get $key_of)) (i32.const 0)) (then unreachable))
        (if (i32.ne (i32.load offset=4 (local.get $states)) (i32.const 2)) (then unreachable))";
    let guest = state_guest(PREFETCHED, [key_of, ECHO].concat());
    instance(&guest).process(0, &input, Some(&mut state)).expect("the grouping is right");
}

#[test]
fn updates_must_fit_the_keys() {
    let one_less = format!(
        "(i32.store offset=4 (local.get $states) (i32.const 1)) (i32.store offset=20 (local.get $states) (i32.const 8)) {}",
        updates(1)
    );
    let mut state = MemoryState::new();
    let error = instance(&state_guest(PREFETCHED, one_less))
        .process(0, &batch(&[("k", "1"), ("l", "2")]), Some(&mut state))
        .expect_err("one cell for two keys");
    assert!(error.to_string().contains("update 0: 1 cells for 2 keys"), "{error}");
    assert!(state.cells().is_empty());
}

#[test]
fn a_call_sees_its_own_writes_and_leaves_them_when_it_succeeds() {
    let body = [expect_op(1, 0), put(1), expect_op(1, 1), expect_op(0, 0), ECHO.into()].concat();
    let mut state = MemoryState::new();
    instance(&state_guest(ON_DEMAND, body)).process(0, &batch(&[("key", "value")]), Some(&mut state)).expect("it runs");
    assert_eq!(state.value(1, b"key"), Some(&b"value"[..]));
    assert_eq!(state.cells().len(), 1);
    let delete = [format!("(call $delete_many (i32.const 1) {KEY})"), expect_op(1, 0), ECHO.into()].concat();
    instance(&state_guest(ON_DEMAND, delete)).process(0, &batch(&[("key", "")]), Some(&mut state)).expect("it runs");
    assert!(state.cells().is_empty());
}

#[test]
fn writes_of_a_failed_call_are_forgotten() {
    let ends = ["(call $error (i32.const 0) (i32.const 0) (i32.const 0))", "unreachable", "(loop $l (br $l)) unreachable"];
    for end in ends {
        let guest = state_guest(ON_DEMAND, put(0) + end);
        let limits = Limits { call: std::time::Duration::from_millis(30), ..Limits::default() };
        let setup = TaskSetup { limits, ..crate::setup() };
        let mut operator = OperatorInstance::new(&crate::load(&guest).expect("it loads"), &setup).expect("it opens");
        let mut state = MemoryState::new();
        operator.process(0, &batch(&[("key", "value")]), Some(&mut state)).expect_err("it fails");
        assert_eq!(state.calls, MemoryStateCalls::default(), "{end}");
    }
}

#[test]
fn a_malformed_answer_changes_no_state() {
    let body = [put(0), ECHO.replace("(local.get $count)", "(i32.const 9)")].concat();
    let mut state = MemoryState::new();
    let error =
        instance(&state_guest(ON_DEMAND, body)).process(0, &batch(&[("k", "v")]), Some(&mut state)).expect_err("malformed");
    assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
    assert!(state.cells().is_empty());
}

#[test]
fn own_writes_to_a_prefetched_state_stand_below_the_updates() {
    let input = batch(&[("k", "written"), ("l", "")]);
    let mut state = MemoryState::new();
    state.set(0, b"k", b"old");
    // The write alone: one apply, right after prefetch, as the backend demands.
    instance(&state_guest(PREFETCHED, [put(0), expect_op(0, 1), ECHO.into()].concat()))
        .process(0, &input, Some(&mut state))
        .expect("it runs");
    assert_eq!(state.value(0, b"k"), Some(&b"written"[..]));
    assert_eq!(state.calls, MemoryStateCalls { prefetch: 1, apply: 1, ..MemoryStateCalls::default() });
    // An update that puts wins over the write: the prefetched cells of this call still hold "written".
    let input = batch(&[("k", "newer")]);
    instance(&state_guest(PREFETCHED, [put(0), updates(1)].concat())).process(0, &input, Some(&mut state)).expect("it runs");
    assert_eq!(state.value(0, b"k"), Some(&b"written"[..]));
}

#[test]
fn keys_and_states_of_others_are_a_trap() {
    let mut state = MemoryState::new();
    let mut fails = |body: String| {
        let mut operator = instance(&state_guest(ON_DEMAND, body));
        operator.process(0, &batch(&[("key", "value")]), Some(&mut state)).expect_err("it traps").to_string()
    };
    // The value, as if it were a key.
    let foreign = fails(format!("{VALUE_OFFSETS} (call $get_many (i32.const 0) {VALUE} (i32.const 1040)) {ECHO}"));
    assert!(foreign.contains("key \"value\" is none of the running call's keys"), "{foreign}");
    let undeclared = fails(put(2) + ECHO);
    assert!(undeclared.contains("state 2: the plugin declares 2 states"), "{undeclared}");
    let uneven =
        fails(format!("(call $put_many (i32.const 0) {KEY} (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 4)) {ECHO}"));
    assert!(uneven.contains("1 keys and 0 values"), "{uneven}");
    let disorder = fails(format!("(i32.store (local.get $index) (i32.const 1)) (call $delete_many (i32.const 0) {KEY}) {ECHO}"));
    assert!(disorder.contains("column: the first offset is 1"), "{disorder}");
    assert!(state.cells().is_empty());
}

#[test]
fn state_outside_of_processing_is_a_trap() {
    let get =
        "(call $get_many (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 4) (i32.const 1040)) (call $ok)";
    let guest = Guest::operator(ON_DEMAND, &[]).import("$get_many").body("operator#open", get);
    let error = OperatorInstance::new(&crate::load(&guest).expect("it loads"), &crate::setup()).err().expect("it traps");
    assert!(error.to_string().contains("keyed-state in open: there is no state here"), "{error}");
}

#[test]
fn a_broken_backend_is_the_environments_fault() {
    let input = batch(&[("k", "v")]);
    let cases = [
        (PREFETCHED, ECHO.to_owned(), "prefetch"),
        (ON_DEMAND, expect_op(0, 0) + ECHO, "get"),
        (ON_DEMAND, put(0) + ECHO, "put"),
    ];
    for (states, body, what) in cases {
        let mut state = MemoryState::new();
        state.fail_after(0);
        let error = instance(&state_guest(states, body)).process(0, &input, Some(&mut state)).expect_err("it fails");
        let CallErrorKind::State(state) = &error.kind else { panic!("{error}") };
        assert_eq!(state.what, format!("{what} in memory"));
    }
}

#[test]
fn pages_of_keys_come_with_their_cells() {
    // Puts the prefetched cells back with the same values, and deletes the other state's.
    let body = "(memory.fill (i32.load (local.get $states)) (i32.const 1) (i32.load offset=4 (local.get $states)))
         (drop (call $empty)) (i32.store (i32.const 112) (local.get $states)) (i32.store (i32.const 116) (local.get $states_len))
         (call $delete_many (i32.const 1) (local.get $data) (local.get $data_len) (local.get $index) (local.get $index_len))
         (i32.const 64)";
    let guest = Guest::bounded(&[("a", "value", true), ("b", "value", false)])
        .import("$delete_many")
        .body("end-of-input#on-end-keys", body);
    let mut operator = instance(&guest);
    let mut state = MemoryState::new();
    for key in [b"a", b"b", b"c"] {
        state.set(0, key, b"x");
        state.set(1, key, b"y");
    }
    use weir_plugin::state::KeyedStateBackend;
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = state.scan_keys(&[0], after.as_deref(), 2).expect("it scans");
        operator.on_end_keys(&page, Some(&mut state)).expect("it runs");
        let full = page.len() == 2;
        after = page.into_iter().last();
        if !full {
            break;
        }
    }
    let left: Vec<_> = state.cells().keys().map(|(state, key)| (*state, key.clone())).collect();
    assert_eq!(left, [(0, b"a".to_vec()), (0, b"b".to_vec()), (0, b"c".to_vec())]);
}
