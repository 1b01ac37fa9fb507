//! Lists and maps through their host calls: staged as other state, and closed to guests that break the rules.

use crate::guest::{ECHO, Guest, State};
use crate::{batch, instance, load, setup};
use weir_plugin::state::pages_of;
use weir_plugin::testing::MemoryState;
use weir_plugin::*;

const STATES: &[State] = &[("v", "value", false), ("l", "list", false), ("m", "map", false)];

/// The batch's first key as a column, and as bytes.
const KEYS: &str = "(local.get $data) (i32.load offset=4 (local.get $index)) (local.get $index) (i32.const 8)";
const KEY: &str = "(local.get $data) (i32.load offset=4 (local.get $index))";
/// Its value as a column, whose offsets are put at 1024, and its length.
const VALUES: &str = "(i32.add (local.get $data) (i32.load offset=4 (local.get $index)))
    (i32.sub (i32.load offset=8 (local.get $index)) (i32.load offset=4 (local.get $index))) (i32.const 1024) (i32.const 8)";
const OFFSETS: &str = "(i32.store (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1028) (i32.sub (i32.load offset=8 (local.get $index)) (i32.load offset=4 (local.get $index))))";
/// Where answers are written.
const ANSWER: &str = "(i32.const 1040)";

fn guest(body: impl AsRef<str>) -> Guest {
    let imports = ["$put_many", "$list_append", "$list_get", "$list_page", "$list_clear", "$map_get", "$map_put", "$map_scan"];
    let guest = Guest::operator(STATES, &[]).process([OFFSETS, body.as_ref()].concat());
    imports.into_iter().fold(guest, Guest::import)
}

fn append(state: u32) -> String {
    format!("(call $list_append (i32.const {state}) {KEYS} {VALUES})")
}

/// Puts the value at itself.
fn put(state: u32) -> String {
    format!("(call $map_put (i32.const {state}) {KEYS} {VALUES} {VALUES})")
}

fn scan(state: u32, key: &str) -> String {
    let all = "(i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 100)";
    format!("(call $map_scan (i32.const {state}) {key} {all} {ANSWER})")
}

/// Traps unless the 32-bit number at this place is that one.
fn expect(at: &str, number: u32) -> String {
    format!("(if (i32.ne (i32.load {at}) (i32.const {number})) (then unreachable))")
}

#[test]
fn a_call_sees_what_it_appended_and_put_and_the_backend_once_it_has_succeeded() {
    let mut state = MemoryState::new();
    let get = format!("(call $list_get (i32.const 1) {KEYS} {ANSWER})");
    let page = format!("(call $list_page (i32.const 1) {KEY} (i64.const 0) (i32.const 1) {ANSWER})");
    let lookup = format!("(call $map_get (i32.const 2) {KEYS} {VALUES} {ANSWER})");
    let count = expect("(i32.load (i32.const 1040))", 2);
    // Two appends: a count of two, a page of one with 7 bytes and another page after it.
    let lists = [append(1), append(1), get, count, page, expect("(i32.const 1044)", 7), expect("(i32.const 1056)", 1)].concat();
    // One entry: present, of 7 bytes; and all of the map.
    let maps = [put(2), lookup, expect("(i32.const 1052)", 7), scan(2, KEY), expect("(i32.const 1044)", 7)].concat();
    let body = [&lists[..], &maps, ECHO].concat();
    let input = batch(&[("k", "element")]);
    for end in ["unreachable", ""] {
        instance(&guest(format!("{body} {end}")))
            .process(0, &input, Some(&mut state))
            .map_or_else(|error| assert!(!end.is_empty(), "{error}"), |_| assert!(end.is_empty()));
        assert_eq!(state.cells().is_empty(), !end.is_empty());
    }
    let states: Vec<_> = state.cells().keys().map(|(state, key)| (*state, key.clone())).collect();
    assert_eq!(states, [(1, b"k".to_vec()), (2, b"k".to_vec())], "what is small is one cell");
    // A later call goes on: elements enough for a chunk, which is a cell of its own.
    let long = "x".repeat(2000);
    instance(&guest([&append(1), ECHO].concat())).process(0, &batch(&[("k", &long)]), Some(&mut state)).expect("it runs");
    assert!(state.cells().keys().any(|(state, _)| *state == pages_of(1)));
    let clear = format!("(call $list_clear (i32.const 1) {KEYS}) {ECHO}");
    instance(&guest(clear)).process(0, &input, Some(&mut state)).expect("it runs");
    assert_eq!(state.cells().len(), 1, "only the map is left");
}

#[test]
fn states_kinds_and_keys_that_are_not_the_guests_are_a_trap() {
    let mut state = MemoryState::new();
    let mut fails = |body: String| {
        let mut operator = instance(&guest([&body, ECHO].concat()));
        operator.process(0, &batch(&[("key", "value")]), Some(&mut state)).expect_err("it traps").to_string()
    };
    let uneven = |call: &str| format!("({call} {KEYS} (i32.const 0) (i32.const 0) (i32.const 1032) (i32.const 4))");
    let foreign = "(i32.add (local.get $data) (i32.load offset=4 (local.get $index))) (i32.const 5)";
    for (body, words) in [
        (append(3), "list-state: state 3: the plugin declares 3 states"),
        (append(0), "list-state: state 0 (`v`) is a value, which is reached through keyed-state"),
        (append(2), "list-state: state 2 (`m`) is a map, which is reached through map-state"),
        (put(1), "map-state: state 1 (`l`) is a list, which is reached through list-state"),
        (format!("(call $put_many (i32.const 2) {KEYS} {VALUES})"), "keyed-state: state 2 (`m`) is a map, which is reached"),
        (
            format!("(call $list_append (i32.const 1) {VALUES} {VALUES})"),
            "list-state: key \"value\" is none of the running call's keys",
        ),
        (scan(2, foreign), "map-state: key \"value\" is none of the running call's keys"),
        (uneven("call $list_append (i32.const 1)"), "list-state: append-many: 1 keys and 0 values"),
        (
            format!("(call $map_put (i32.const 2) {KEYS} {VALUES} (i32.const 0) (i32.const 0) (i32.const 1032) (i32.const 4))"),
            "map-state: put-many: 1 keys and 0 values",
        ),
    ] {
        let error = fails(body);
        assert!(error.contains(words), "`{words}` is missing in: {error}");
    }
    let error = instance(&guest([&put(2), ECHO].concat()))
        .process(0, &batch(&[("key", &"x".repeat(65_537))]), Some(&mut state))
        .expect_err("too long")
        .to_string();
    assert!(error.contains("map-state: put-many: map key 0 has 65537 bytes, more than 65536"), "{error}");
    assert!(state.cells().is_empty());
}

#[test]
fn lists_and_maps_outside_of_processing_are_a_trap() {
    let nothing = "(i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 4)";
    for (import, call, interface) in [("$list_clear", "$list_clear", "list-state"), ("$map_clear", "$map_clear", "map-state")] {
        let body = format!("(call {call} (i32.const 1) {nothing}) (call $ok)");
        let guest = Guest::operator(STATES, &[]).import(import).body("operator#open", body);
        let error = OperatorInstance::new(&load(&guest).expect("it loads"), &setup()).err().expect("it traps").to_string();
        assert!(error.contains(&format!("{interface} in open: there is no state here")), "{error}");
    }
}

#[test]
fn scans_and_appends_without_end_pass_a_limit() {
    let mut state = MemoryState::new();
    let mut breaches = |body: String, limits: Limits, which: LimitKind| {
        let plugin = load(&guest(body)).expect("it loads");
        let mut operator = OperatorInstance::new(&plugin, &TaskSetup { limits, ..setup() }).expect("it opens");
        let error = operator.process(0, &batch(&[("k", &"v".repeat(500))]), Some(&mut state)).expect_err("it is stopped");
        assert!(matches!(&error.kind, CallErrorKind::Limit(breach) if breach.which == which), "{error}");
    };
    breaches(format!("(loop $l {} (br $l)) unreachable", scan(2, KEY)), Limits::default(), LimitKind::HostCalls);
    let flood = format!("(loop $l {} (br $l)) unreachable", append(1));
    breaches(flood.clone(), Limits::default(), LimitKind::HostCalls);
    breaches(flood, Limits { emit: 10_000, ..Limits::default() }, LimitKind::Emit);
    let large =
        [append(1), append(1), append(1), format!("(call $list_get (i32.const 1) {KEYS} {ANSWER})"), ECHO.into()].concat();
    breaches(large, Limits { transfer: 1200, ..Limits::default() }, LimitKind::Transfer);
}

#[test]
fn a_broken_backend_is_the_environments_fault() {
    for (body, what) in [(append(1), "get"), (put(2), "get"), (scan(2, KEY), "get")] {
        let mut state = MemoryState::new();
        state.fail_after(0);
        let mut operator = instance(&guest([&body, ECHO].concat()));
        let error = operator.process(0, &batch(&[("k", "v")]), Some(&mut state)).expect_err("it fails");
        let CallErrorKind::State(state) = &error.kind else { panic!("{error}") };
        assert_eq!(state.what, format!("{what} in memory"));
    }
}
