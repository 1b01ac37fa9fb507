//! Timers: what a call may set, what it gives when it fails, and what fires.

use crate::guest::{ECHO, Guest};
use crate::{batch, instance, load, setup};
use weir_plugin::batch::RecordBatch;
use weir_plugin::testing::MemoryState;
use weir_plugin::*;

const STATES: &[crate::guest::State] = &[("a", "value", true)];
/// The input's batch: its records are the timers.
const INPUT: &str = "(local.get $count) (local.get $data) (local.get $data_len) (local.get $index) (local.get $index_len) \
    (local.get $times) (local.get $times_len) (local.get $aux) (local.get $aux_len)";

/// A guest that calls this function of the timer service with this kind and batch, and then echoes.
fn calling(function: &str, kind: &str, timers: &str) -> Guest {
    let mut guest = Guest::timed(STATES).import("$register").import("$delete");
    let kind = guest.text(kind.as_bytes());
    guest.process(format!("(call {function} {kind} {timers}) {ECHO}"))
}

fn change(op: TimerOp, kind: TimerKind, timers: &RecordBatch) -> TimerChange {
    TimerChange { op, kind, timers: timers.clone() }
}

#[test]
fn what_a_call_sets_comes_with_its_output() {
    let mut input = batch(&[("k", "payload"), ("l", "")]);
    input.push(b"k", b"any time", i64::MIN);
    input.push(b"l", b"", i64::MAX);
    for (function, op) in [("$register", TimerOp::Register), ("$delete", TimerOp::Delete)] {
        for kind in TimerKind::ALL {
            let mut state = MemoryState::new();
            let output = instance(&calling(function, kind.name(), INPUT)).process(0, &input, Some(&mut state)).expect("it runs");
            assert_eq!(output.timers, [change(op, kind, &input)]);
            assert_eq!(output.main, [input.clone()]);
        }
    }
}

#[test]
fn thousands_in_one_call_are_no_more_than_their_bytes() {
    let mut input = RecordBatch::new();
    (0..20_000).for_each(|i| input.push(b"k", b"", i));
    let guest = calling("$register", "event-time", INPUT);
    let output = instance(&guest).process(0, &input, Some(&mut MemoryState::new())).expect("it runs");
    assert_eq!(output.timers[0].timers.len(), 20_000);
    let small = TaskSetup { limits: Limits { emit: 100_000, ..Limits::default() }, ..setup() };
    let mut limited = OperatorInstance::new(&load(&guest).expect("it loads"), &small).expect("it opens");
    let error = limited.process(0, &input, Some(&mut MemoryState::new())).expect_err("it is too much");
    assert!(matches!(&error.kind, CallErrorKind::Limit(breach) if breach.which == LimitKind::Emit), "{error}");
}

#[test]
fn a_call_that_fails_sets_nothing() {
    let mut guest = Guest::timed(STATES).import("$register");
    let (kind, why) = (guest.text(b"event-time"), guest.text(b"not now"));
    let guest = guest.process(format!(
        "(call $register {kind} {INPUT}) (if (result i32) (i32.eq (i32.load8_u (local.get $data)) (i32.const 98))
         (then (call $error (i32.const 0) {why})) (else {ECHO}))"
    ));
    let mut operator = instance(&guest);
    operator.process(0, &batch(&[("b", "")]), Some(&mut MemoryState::new())).expect_err("it asks to try again");
    let output = operator.process(0, &batch(&[("a", "")]), Some(&mut MemoryState::new())).expect("it runs");
    assert_eq!(output.timers.len(), 1);
}

#[test]
fn what_breaks_a_rule_traps_and_is_named() {
    // A batch of one timer whose key is the byte 255: no key of the call.
    let strange = "(i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1028) (i32.const 12) (i32.const 1040) (i32.const 8) \
        (i32.const 0) (i32.const 0)";
    let store = "(i32.store8 (i32.const 1024) (i32.const 255)) (i32.store (i32.const 1032) (i32.const 1)) \
        (i32.store (i32.const 1036) (i32.const 1))";
    let short = "(local.get $count) (local.get $data) (local.get $data_len) (local.get $index) (i32.const 4) \
        (local.get $times) (local.get $times_len) (local.get $aux) (local.get $aux_len)";
    let mut with_store = Guest::timed(STATES).import("$register");
    let kind = with_store.text(b"event-time");
    let with_store = with_store.process(format!("{store} (call $register {kind} {strange}) {ECHO}"));
    for (guest, why) in [
        (with_store, "key \"\\xff\" is none of the running call's keys"),
        (calling("$register", "lunar-time", INPUT), "there is no kind \"lunar-time\""),
        (calling("$delete", "", INPUT), "there is no kind \"\""),
        (calling("$register", "event-time", short), "the index has 4 bytes"),
    ] {
        let mut operator = instance(&guest);
        let error = operator.process(0, &batch(&[("k", "v")]), Some(&mut MemoryState::new())).expect_err(why);
        assert!(error.to_string().contains(why), "`{why}` is missing in: {error}");
        assert!(operator.is_poisoned());
    }
    let large = batch(&[("k", &"x".repeat((64 << 10) + 1))]);
    let error = instance(&calling("$register", "event-time", INPUT)).process(0, &large, Some(&mut MemoryState::new()));
    assert!(error.expect_err("it is too large").to_string().contains("timer 0 has 65537 bytes"));
    // Where a call has no keys, nobody can have a timer.
    let mut at_open = Guest::timed(STATES).import("$register");
    let kind = at_open.text(b"event-time");
    let none = "(i32.const 0) ".repeat(9);
    let at_open = at_open.body("operator#open", format!("(call $register {kind} {none}) (call $ok)"));
    let error = OperatorInstance::new(&load(&at_open).expect("it loads"), &setup()).err().expect("it is refused");
    assert!(error.to_string().contains("timer-service in open: the call has no keys"), "{error}");
}

#[test]
fn due_timers_are_told_with_their_keys_and_states_and_kind() {
    let body = format!(
        "(if (i32.ne (local.get $kind_len) (i32.const 15)) (then unreachable))
         (if (i32.ne (local.get $key_of_len) (i32.const 12)) (then unreachable))
         (if (i32.ne (i32.load offset=8 (local.get $key_of)) (i32.const 0)) (then unreachable))
         (if (i32.ne (i32.load8_u (i32.load (local.get $states))) (i32.const 1)) (then unreachable)) {ECHO}"
    );
    let guest = Guest::timed(STATES).body("timers#on-timers", body);
    let mut state = MemoryState::new();
    state.set(0, b"k", b"value");
    let due = batch(&[("k", "x"), ("l", ""), ("k", "y")]);
    let mut operator = instance(&guest);
    assert!(operator.has_timers());
    let output = operator.on_timers(TimerKind::ProcessingTime, &due, Some(&mut state)).expect("it echoes");
    assert_eq!(output.main, std::slice::from_ref(&due));
    operator.on_timers(TimerKind::EventTime, &due, Some(&mut state)).expect_err("another kind has another name");
    // A plugin without them is not called.
    let mut without = instance(&Guest::operator(STATES, &[]));
    assert!(!without.has_timers());
    assert_eq!(without.on_timers(TimerKind::EventTime, &due, Some(&mut state)).expect("nothing is done"), Output::default());
}

#[test]
fn the_clocks_are_those_that_the_host_set_and_a_fresh_instance_knows_them() {
    let mut guest = Guest::timed(STATES).import("$current");
    let kinds = [guest.text(b"event-time"), guest.text(b"processing-time")];
    let body = format!(
        "(if (i64.ne (call $current {}) (i64.const -5)) (then unreachable))
         (if (i64.ne (call $current {}) (i64.const 7)) (then unreachable)) {ECHO}",
        kinds[0], kinds[1]
    );
    let guest = guest.process(body);
    let plugin = load(&guest).expect("it loads");
    let mut operator =
        SupervisedOperator::new(OperatorSpec { plugin, setup: setup(), retries: Retries::default() }).expect("it opens");
    let process = |operator: &mut SupervisedOperator| {
        operator
            .process(0, &batch(&[("k", "v")]), Some(&mut MemoryState::new()), BadRecordPolicy::Skip)
            .expect("it is supervised")
    };
    // Before they are set it traps: the record is left out, and the instance is another one.
    assert_eq!(process(&mut operator).skipped.len(), 1);
    operator.set_clocks(TimerClocks { watermark: -5, processing: 7 });
    assert_eq!(process(&mut operator).skipped, []);
}

#[test]
fn timers_need_state_and_their_export() {
    let error = load(&Guest::timed(&[])).expect_err("it has no keys").to_string();
    assert!(error.contains("timers, which belong to keys, but declares no state"), "{error}");
    let kind = load(&Guest::timed(STATES)).expect("it loads").kind();
    assert_eq!(kind, PluginKind::Operator { end_of_input: false, timers: true });
    let deaf = Guest::timed(STATES).import("$register").without("timers").world("timer-operator-plugin");
    assert!(std::panic::catch_unwind(|| deaf.build()).is_err(), "a component has all that its world exports");
}
