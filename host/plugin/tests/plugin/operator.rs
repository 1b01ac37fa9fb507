//! An operator's calls: what goes in, what comes out, what an answer must fit.

use crate::guest::{ECHO, Guest};
use crate::{batch, instance, load, setup, values};
use weir_plugin::batch::RecordBatch;
use weir_plugin::*;

/// An output record with these words: main (9 words), sides (2), updates (2).
fn answer(words: [&str; 13]) -> String {
    let mut body = String::from("(i32.store (i32.const 64) (i32.const 0))");
    for (i, word) in words.iter().enumerate() {
        body.push_str(&format!("(i32.store (i32.const {}) {word})", 68 + 4 * i));
    }
    body + "(i32.const 64)"
}

const ZERO: &str = "(i32.const 0)";
/// The input's batch as words.
const INPUT: [&str; 9] = [
    "(local.get $count)",
    "(local.get $data)",
    "(local.get $data_len)",
    "(local.get $index)",
    "(local.get $index_len)",
    "(local.get $times)",
    "(local.get $times_len)",
    "(local.get $aux)",
    "(local.get $aux_len)",
];

fn with_main(change: impl FnOnce(&mut [&str; 13])) -> String {
    let mut words = [ZERO; 13];
    words[..9].copy_from_slice(&INPUT);
    change(&mut words);
    answer(words)
}

#[track_caller]
fn malformed(guest: &Guest, words: &str) {
    let mut operator = instance(guest);
    let error = operator.process(0, &batch(&[("k", "v"), ("l", "w")]), None).expect_err("it is malformed");
    assert!(matches!(error.kind, CallErrorKind::Malformed(_)), "{error}");
    assert!(error.to_string().contains(words), "`{words}` is missing in: {error}");
}

#[test]
fn a_batch_comes_back_as_it_went_in() {
    let mut operator = instance(&Guest::operator(&[], &[]));
    let mut input = batch(&[("", ""), ("key", "value"), ("ключ", "значение"), ("", "x")]);
    input.push(b"t", b"u", i64::MIN);
    assert_eq!(operator.process(0, &input, None).expect("it echoes").main, [input.clone()]);
    assert_eq!(operator.process(0, &RecordBatch::new(), None).expect("it echoes"), Output::default());
    let aux = vec![7, 0, 3, 0, 0, 0, 1, 2, 3];
    let with_aux =
        RecordBatch::from_parts(input.len() as u32, input.data().to_vec(), input.index().to_vec(), input.times().to_vec(), aux);
    let with_aux = with_aux.expect("it is whole");
    assert_eq!(operator.process(0, &with_aux, None).expect("it echoes").main, [with_aux]);
    operator.close().expect("it closes");
}

#[test]
fn the_port_is_passed() {
    let body = format!("(if (i32.ne (local.get $port) (i32.const 5)) (then unreachable)) {ECHO}");
    let mut operator = instance(&Guest::operator(&[], &[]).process(body));
    assert!(operator.process(5, &batch(&[("k", "v")]), None).is_ok());
    assert!(operator.process(4, &batch(&[("k", "v")]), None).is_err());
}

#[test]
fn the_task_is_told_at_open() {
    // subtask, parallelism, attempt are the words after two strings.
    let open = "(if (i32.ne (local.get 4) (i32.const 3)) (then unreachable))
        (if (i32.ne (local.get 5) (i32.const 4)) (then unreachable))
        (if (i32.ne (local.get 6) (i32.const 1)) (then unreachable)) (call $ok)";
    instance(&Guest::operator(&[], &[]).body("operator#open", open));
}

#[test]
fn a_refused_open_says_why() {
    let mut guest = Guest::operator(&[], &[]);
    let why = guest.text(b"config: no such zone");
    let guest = guest.body("operator#open", format!("(call $error (i32.const 2) {why})"));
    let error = OperatorInstance::new(&load(&guest).expect("it loads"), &setup()).err().expect("it is refused").to_string();
    assert_eq!(error, "plugin `test-plugin` as `op`, subtask 3, open: gives up: config: no such zone");
}

#[test]
fn emitted_chunks_come_before_the_returned_output_and_go_to_their_ports() {
    let emit = |port: u32| {
        format!(
            "(call $emit (i32.const {port}) (local.get $count) (local.get $data) (local.get $data_len) (local.get $index) \
             (local.get $index_len) (local.get $times) (local.get $times_len) (local.get $aux) (local.get $aux_len))"
        )
    };
    // The first byte of data tells the chunks apart.
    let next = "(i32.store8 (local.get $data) (i32.add (i32.const 1) (i32.load8_u (local.get $data))))";
    let body = [emit(0), next.into(), emit(2), next.into(), emit(0), next.into(), ECHO.into()].concat();
    let guest = Guest::operator(&[], &["late", "bad"]).import("$emit").process(body);
    let output = instance(&guest).process(0, &batch(&[("", "a")]), None).expect("it emits");
    assert_eq!(values(&output.main), ["a", "c", "d"]);
    assert_eq!(output.sides.iter().map(|(side, chunks)| (*side, values(chunks))).collect::<Vec<_>>(), [(1, vec!["b".into()])]);
}

#[test]
fn an_error_forgets_what_was_emitted() {
    let mut guest = Guest::operator(&[], &[]).import("$emit");
    let why = guest.text(b"not now");
    let body = format!(
        "(call $emit (i32.const 0) (local.get $count) (local.get $data) (local.get $data_len) (local.get $index)
         (local.get $index_len) (local.get $times) (local.get $times_len) (local.get $aux) (local.get $aux_len))
         (if (result i32) (i32.eq (i32.load8_u (local.get $data)) (i32.const 98))
           (then (call $error (i32.const 0) {why})) (else {ECHO}))"
    );
    let mut operator = instance(&guest.process(body));
    let error = operator.process(0, &batch(&[("", "b")]), None).expect_err("it asks to try again");
    assert!(matches!(&error.kind, CallErrorKind::Retry(why) if why == "not now"), "{error}");
    let output = operator.process(0, &batch(&[("", "a")]), None).expect("the same instance goes on");
    assert_eq!(values(&output.main), ["a", "a"]);
}

#[test]
fn an_answer_that_does_not_fit_is_malformed() {
    let guest = |body: String| Guest::operator(&[], &["late"]).process(body);
    malformed(&guest(with_main(|w| w[0] = "(i32.const 3)")), "the index has 20 bytes, 28 were expected");
    malformed(&guest(with_main(|w| w[2] = "(i32.const 1)")), "the last offset is 4, but there are 1 bytes of data");
    malformed(&guest(with_main(|w| w[6] = "(i32.const 8)")), "times has 8 bytes, 16 were expected");
    malformed(&guest(with_main(|w| w[8] = "(i32.const 4)")), "aux ends inside the head");
    let disorder = "(i32.store (i32.add (local.get $index) (i32.const 4)) (i32.const 9))";
    malformed(&guest(format!("{disorder} {ECHO}")), "offset 2 is 2, below the one before it, 9");
    malformed(&guest(format!("(i32.store (local.get $index) (i32.const 1)) {ECHO}")), "the first offset is 1");
    // One side output entry: a port and an empty batch, at 1024.
    let side = |port: u32| {
        let entry = format!(
            "(memory.fill (i32.const 1024) (i32.const 0) (i32.const 40)) (i32.store (i32.const 1024) (i32.const {port}))"
        );
        entry + &with_main(|w| (w[9], w[10]) = ("(i32.const 1024)", "(i32.const 1)"))
    };
    malformed(&guest(side(1)), "side output 1, but declares 1");
    assert!(instance(&guest(side(0))).process(0, &batch(&[("k", "v")]), None).is_ok());
    let updates = with_main(|w| (w[11], w[12]) = ("(i32.const 1024)", "(i32.const 1)"));
    malformed(&guest(format!("(memory.fill (i32.const 1024) (i32.const 0) (i32.const 24)) {updates}")), "updates of 1 states");
}

#[test]
fn a_malformed_emit_is_malformed_too() {
    let emit = |port: &str, count: &str| {
        format!(
            "(call $emit {port} {count} (local.get $data) (local.get $data_len) (local.get $index) (local.get $index_len)
             (local.get $times) (local.get $times_len) (local.get $aux) (local.get $aux_len)) {ECHO}"
        )
    };
    let guest = |body: String| Guest::operator(&[], &["late"]).import("$emit").process(body);
    malformed(&guest(emit("(i32.const 2)", "(local.get $count)")), "emit: port 2, but the plugin declares 1 side outputs");
    malformed(&guest(emit("(i32.const 0)", "(i32.const 7)")), "emit: batch: the index has 20 bytes");
}

#[test]
fn bad_input_names_records_of_the_batch_or_is_malformed() {
    let bad = |entries: &[(u32, &[u8])]| {
        let mut guest = Guest::operator(&[], &[]);
        let mut list = Vec::new();
        for (index, reason) in entries {
            let at = guest.place(reason);
            list.extend([*index, at, reason.len() as u32].iter().flat_map(|word| word.to_le_bytes()));
        }
        let at = guest.place(&list);
        guest.process(format!("(call $error (i32.const 1) (i32.const {at}) (i32.const {}))", entries.len()))
    };
    let mut operator = instance(&bad(&[(1, b"second"), (0, b"first"), (1, b"again")]));
    let error = operator.process(0, &batch(&[("k", "v"), ("l", "w")]), None).expect_err("bad input");
    let CallErrorKind::BadInput(records) = &error.kind else { panic!("{error}") };
    assert_eq!(*records, [(0, "first".into()), (1, "second".into())]);
    malformed(&bad(&[(2, b"outside")]), "names record 2 of a batch of 2");
    malformed(&bad(&[]), "names no record");
}

#[test]
fn the_end_is_told_to_who_wants_it() {
    let mut plain = instance(&Guest::operator(&[], &[]));
    assert!(!plain.wants_end());
    assert_eq!(plain.on_end(0).expect("nothing to do"), Output::default());
    let emit = "(i32.store8 (i32.const 1024) (i32.const 120)) (memory.fill (i32.const 1028) (i32.const 0) (i32.const 20))
        (i32.store (i32.const 1036) (i32.const 1))
        (call $emit (i32.const 0) (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1028) (i32.const 12) (i32.const 1040)
          (i32.const 8) (i32.const 0) (i32.const 0)) (call $empty)";
    let mut bounded = instance(&Guest::bounded(&[]).import("$emit").body("end-of-input#on-end", emit));
    assert!(bounded.wants_end());
    assert_eq!(values(&bounded.on_end(0).expect("it emits").main), ["x"]);
}

#[test]
fn emit_and_state_are_for_processing_calls_only() {
    let emit = "(call $emit (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0) (i32.const 0)) (call $ok)";
    let plugin = load(&Guest::operator(&[], &[]).import("$emit").body("operator#open", emit)).expect("it loads");
    let error = OperatorInstance::new(&plugin, &setup()).err().expect("it traps").to_string();
    assert!(error.contains("emit in open: only an operator that processes may emit"), "{error}");
}

#[test]
fn instances_move_to_the_thread_that_runs_them() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<OperatorInstance>();
    moves::<SupervisedOperator>();
    moves::<SupervisedWriter>();
    moves::<CommitterInstance>();
    is_shared::<PluginEngine>();
    is_shared::<Plugin>();
    let mut operator = instance(&Guest::operator(&[], &[]));
    let moved = std::thread::spawn(move || operator.process(0, &batch(&[("k", "v")]), None).map(|output| output.main.len()));
    assert!(matches!(moved.join().expect("it does not panic"), Ok(1)));
}
