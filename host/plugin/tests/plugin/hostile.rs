//! Guests that mean harm: each is stopped, named, and leaves the host as it was.

use crate::guest::{ECHO, Guest};
use crate::{batch, instance, load, setup};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use weir_plugin::*;

fn quick() -> TaskSetup {
    TaskSetup { limits: Limits { call: Duration::from_millis(30), ..Limits::default() }, ..setup() }
}

fn fails(guest: &Guest, setup: &TaskSetup) -> CallError {
    let mut operator = OperatorInstance::new(&load(guest).expect("it loads"), setup).expect("it opens");
    let error = operator.process(0, &batch(&[("k", "v")]), None).expect_err("it is stopped");
    assert!(operator.is_poisoned(), "an instance that was stopped can't go on");
    let again = operator.process(0, &batch(&[("k", "v")]), None).expect_err("nor be entered");
    assert!(matches!(again.kind, CallErrorKind::Trap { .. }), "{again}");
    error
}

#[track_caller]
fn breaches(guest: &Guest, setup: &TaskSetup, which: LimitKind) {
    let error = fails(guest, setup);
    let CallErrorKind::Limit(breach) = &error.kind else { panic!("{error}") };
    assert_eq!(breach.which, which);
    let text = error.to_string();
    assert!(text.contains(&format!("`limits.{}` in the job file raises it", which.key())), "{text}");
    assert!(text.contains("plugin `test-plugin` as `op`, subtask 3, process"), "{text}");
}

#[track_caller]
fn traps(guest: &Guest, words: &str) {
    let error = fails(guest, &setup());
    assert!(matches!(error.kind, CallErrorKind::Trap { .. }), "{error}");
    assert!(error.to_string().contains(words), "`{words}` is missing in: {error}");
}

fn operator(body: &str) -> Guest {
    Guest::operator(&[], &["late"]).process(body)
}

#[test]
fn an_endless_loop_is_cut_off() {
    breaches(&operator("(loop $l (br $l)) unreachable"), &quick(), LimitKind::Call);
}

#[test]
fn an_endless_loop_in_any_call_is_cut_off() {
    let endless = "(loop $l (br $l)) unreachable";
    let load = |guest: Guest| {
        let options = LoadOptions { limits: quick().limits, ..LoadOptions::default() };
        crate::ENGINE.load_bytes("loops.wasm", &guest.build(), &options).expect_err("it is stopped").to_string()
    };
    let describe = load(Guest::operator(&[], &[]).body("operator#describe", endless));
    assert!(describe.contains("loops.wasm") && describe.contains("describe") && describe.contains("limits.call"), "{describe}");
    let start = load(Guest::operator(&[], &[]).extra("(func $spin (loop $l (br $l))) (start $spin)"));
    assert!(start.contains("start") && start.contains("limits.call"), "{start}");
    // What runs after the result is given counts too.
    let post = Guest::operator(&[], &[]).post_return("operator#process", "(loop $l (br $l))");
    breaches(&post, &quick(), LimitKind::Call);
}

#[test]
fn each_call_has_a_deadline_of_its_own() {
    // Many calls, longer together than the limit, each within it.
    let spin = format!(
        "(local.set $i (i32.const 3000000)) (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1))))) {ECHO}"
    );
    let limits = Limits { call: Duration::from_millis(200), ..Limits::default() };
    let plugin = load(&operator(&spin)).expect("it loads");
    let mut operator = OperatorInstance::new(&plugin, &TaskSetup { limits, ..setup() }).expect("it opens");
    for _ in 0..200 {
        operator.process(0, &batch(&[("k", "v")]), None).expect("each call is short");
    }
}

#[test]
fn a_memory_bomb_is_refused_its_memory() {
    let bomb = "(loop $l (drop (memory.grow (i32.const 16))) (br $l)) unreachable";
    breaches(&operator(bomb), &setup(), LimitKind::Memory);
    let initial = Guest::operator(&[], &[]).memory("(memory (export \"memory\") 1025)");
    let error = load(&initial).expect_err("65 MiB at start").to_string();
    assert!(error.contains("limits.memory") && error.contains("64MiB"), "{error}");
}

#[test]
fn an_input_that_does_not_fit_names_the_memory_limit() {
    let mut operator = instance(&operator(ECHO));
    let mut big = weir_plugin::batch::RecordBatch::new();
    big.push(b"", &vec![0; 70 << 20], 0);
    let error = operator.process(0, &big, None).expect_err("70 MiB into 64");
    assert!(matches!(&error.kind, CallErrorKind::Limit(breach) if breach.which == LimitKind::Memory), "{error}");
}

#[test]
fn a_table_bomb_is_refused_its_elements() {
    let bomb = operator("(drop (table.grow $t (ref.null func) (i32.const 2000000))) unreachable");
    breaches(&bomb.extra("(table $t 1 funcref)"), &setup(), LimitKind::TableElements);
}

#[test]
fn a_stack_overflow_is_a_trap_with_a_short_backtrace() {
    let error = fails(&operator("(call $deep) unreachable").extra("(func $deep (call $deep))"), &setup());
    let CallErrorKind::Trap { reason, backtrace } = &error.kind else { panic!("{error}") };
    assert!(reason.contains("call stack exhausted"), "{reason}");
    assert!(backtrace.contains("deep") && backtrace.len() < 8 << 10, "{} bytes of backtrace", backtrace.len());
}

const EMIT_INPUT: &str = "(call $emit (i32.const 0) (local.get $count) (local.get $data) (local.get $data_len) (local.get $index)
    (local.get $index_len) (local.get $times) (local.get $times_len) (local.get $aux) (local.get $aux_len))";

#[test]
fn an_emit_flood_is_stopped_by_calls_and_by_bytes() {
    let flood = format!("(loop $l {EMIT_INPUT} (br $l)) unreachable");
    breaches(&operator(&flood).import("$emit"), &setup(), LimitKind::HostCalls);
    let limits = Limits { emit: 1000, ..Limits::default() };
    breaches(&operator(&flood).import("$emit"), &TaskSetup { limits, ..setup() }, LimitKind::Emit);
}

#[test]
fn the_returned_output_counts_with_the_emitted_chunks() {
    let mut operator = {
        let limits = Limits { emit: 70, ..Limits::default() };
        let plugin = load(&operator(&format!("{EMIT_INPUT} {ECHO}")).import("$emit")).expect("it loads");
        OperatorInstance::new(&plugin, &TaskSetup { limits, ..setup() }).expect("it opens")
    };
    // A record of 12 bytes weighs 32, and is given twice.
    let ok = operator.process(0, &batch(&[("", "123456789012")]), None).map(|output| output.main.len());
    assert!(matches!(ok, Ok(2)), "{ok:?}");
    let error = operator.process(0, &batch(&[("", "12345678901234567890")]), None).expect_err("80 bytes of 70");
    assert!(matches!(&error.kind, CallErrorKind::Limit(breach) if breach.which == LimitKind::Emit), "{error}");
}

#[test]
fn a_giant_list_is_refused_before_it_is_copied() {
    let giant = |len: u32| {
        ECHO.replace("(i32.store (i32.const 76) (local.get $data_len))", &format!("(i32.store (i32.const 76) (i32.const {len}))"))
    };
    // Out of bounds of the guest's memory: never read.
    traps(&operator(&giant(u32::MAX)), "out of bounds");
    // In bounds, but more than may cross at once.
    let limits = Limits { transfer: 100_000, ..Limits::default() };
    let one_page_more = giant(120_000).replace("(local.get $data))", "(i32.const 0))");
    breaches(&operator(&one_page_more), &TaskSetup { limits, ..setup() }, LimitKind::Transfer);
    // A list of records that are not there.
    let sides = ECHO.replace("(i64.store (i32.const 104) (i64.const 0))", "(i64.store (i32.const 104) (i64.const -1))");
    traps(&operator(&sides), "out of bounds");
}

#[test]
fn a_result_that_points_nowhere_is_a_trap() {
    traps(&operator("(i32.const -4)"), "out of bounds");
    traps(&operator("(i32.const 65)"), "not aligned");
    traps(&operator("(i32.store8 (i32.const 64) (i32.const 9)) (i32.const 64)"), "discriminant");
}

#[test]
fn an_allocator_that_lies_is_a_trap() {
    let guest = Guest::operator(&[], &[]).realloc("(i32.const -16)");
    // The first allocation of its life is for open's strings.
    let error = OperatorInstance::new(&load(&guest).expect("describe allocates nothing"), &setup()).err().expect("it traps");
    assert!(error.to_string().contains("beyond end of memory"), "{error}");
}

#[test]
fn a_trap_names_the_function_and_what_it_logged_last() {
    let mut guest = Guest::operator(&[], &[]).import("$log");
    let (level, message) = (guest.text(b"error"), guest.text(b"panicked at src/lib.rs:7: no such airport"));
    let error = fails(
        &guest.process(format!("(call $log {level} {message}) (call $inner) unreachable")).extra("(func $inner unreachable)"),
        &setup(),
    );
    let text = error.to_string();
    for word in ["process: trapped", "`unreachable`", "no such airport", "inner"] {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[test]
fn a_bad_log_call_is_a_trap() {
    let log = |level: &[u8], message: &[u8]| {
        let mut guest = Guest::operator(&[], &[]).import("$log");
        let (level, message) = (guest.text(level), guest.text(message));
        guest.process(format!("(call $log {level} {message}) {ECHO}"))
    };
    traps(&log(b"shout", b"hello"), "there is no level \"shout\"");
    traps(&log(b"info", b"caf\xe9"), "log: the message is not UTF-8");
    traps(&log(b"\xff", b"hello"), "log: the level is not UTF-8");
}

/// Collects the lines of the plugin log on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Visit for &Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut lines = self.0.lock().expect("no test panics while it logs");
        lines.last_mut().expect("an event comes first").push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "plugin"
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().expect("no test panics while it logs").push(event.metadata().level().to_string());
        event.record(&mut &*self);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_log_flood_is_dropped_and_counted() {
    let mut guest = Guest::operator(&[], &[]).import("$log");
    let (level, message) = (guest.text(b"warn"), guest.text("Grüße".as_bytes()));
    let body = format!(
        "(local.set $i (i32.const 500)) (loop $l (call $log {level} {message})
           (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1))))) {ECHO}"
    );
    let limits = Limits { log_lines: 3, ..Limits::default() };
    let plugin = load(&guest.process(body)).expect("it loads");
    let mut operator = OperatorInstance::new(&plugin, &TaskSetup { limits, ..setup() }).expect("it opens");
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        operator.process(0, &batch(&[("k", "v")]), None).expect("a flood is no error");
        operator.close().expect("it closes");
    });
    let lines = lines.0.lock().expect("nothing logs any more").clone();
    assert_eq!(lines.first().map(String::as_str), Some("WARN message=Grüße plugin=\"test-plugin\" operator=\"op\" subtask=3"));
    // A second may have passed on a slow machine: what counts is that every line is written or told of.
    let written = lines.iter().filter(|line| line.contains("Grüße")).count();
    let dropped = |line: &String| line.split("message=").nth(1)?.split(' ').next()?.parse::<usize>().ok();
    assert_eq!(written + lines.iter().filter_map(dropped).sum::<usize>(), 500, "{lines:?}");
    assert!(written < 400, "{written} lines were written");
}
