//! Bad records and traps: the culprit is found, the rest goes on, and nothing is done twice.

use crate::guest::{ECHO, Guest};
use crate::{batch, granted, load, setup, values};
use std::time::Duration;
use weir_plugin::batch::RecordBatch;
use weir_plugin::testing::MemoryState;
use weir_plugin::*;

const NO_PAUSE: Retries = Retries { attempts: 3, pause: Duration::ZERO };

fn supervise_with(guest: &Guest, setup: TaskSetup) -> SupervisedOperator {
    let spec = OperatorSpec { plugin: load(guest).expect("it loads"), setup, retries: NO_PAUSE };
    SupervisedOperator::new(spec).expect("it opens")
}

fn supervise(guest: &Guest) -> SupervisedOperator {
    supervise_with(guest, setup())
}

/// Runs `then` for each record whose value begins with this letter ($i is its index), then echoes.
fn on_value(letter: char, then: &str) -> String {
    let letter = letter as u32;
    format!(
        "(block $done (loop $l
           (br_if $done (i32.eq (local.get $i) (local.get $count)))
           (if (i32.eq (i32.const {letter}) (i32.load8_u (i32.add (local.get $data)
               (i32.load offset=4 (i32.add (local.get $index) (i32.shl (local.get $i) (i32.const 3)))))))
             (then {then}))
           (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br $l)))"
    )
}

fn poison(then: &str) -> Guest {
    Guest::operator(&[], &[]).process(on_value('x', then) + ECHO)
}

fn letters(text: &str) -> RecordBatch {
    let mut batch = RecordBatch::new();
    for (i, letter) in text.chars().enumerate() {
        batch.push(b"k", letter.to_string().as_bytes(), i as i64);
    }
    batch
}

fn indices(processed: &Processed) -> Vec<u32> {
    processed.skipped.iter().map(|bad| bad.index).collect()
}

#[test]
fn the_record_that_traps_is_found_and_the_rest_goes_on_once() {
    let mut operator = supervise(&poison("unreachable"));
    let done = operator.process(0, &letters("abxcxd"), None, BadRecordPolicy::Skip).expect("the rest goes on");
    assert_eq!(values(&done.output.main).concat(), "abcd");
    assert_eq!(done.output.main.len(), 1, "small chunks are joined");
    assert_eq!(indices(&done), [2, 4]);
    assert!(done.skipped[0].reason.contains("unreachable"), "{:?}", done.skipped);
    let counts = SupervisorCounts { traps: 3, unreproduced: 0, skipped: 2, fresh_instances: 3 };
    assert_eq!(operator.counts(), counts);
    let done = operator.process(0, &letters("ef"), None, BadRecordPolicy::Skip).expect("it goes on");
    assert_eq!(values(&done.output.main).concat(), "ef");
    assert_eq!(operator.counts(), counts);
}

#[test]
fn with_fail_the_culprit_is_named() {
    let failure =
        supervise(&poison("unreachable")).process(0, &letters("abxcx"), None, BadRecordPolicy::Fail).expect_err("it fails");
    assert!(matches!(&failure, Failure::BadRecord { record, .. } if record.index == 2), "{failure}");
    let text = failure.to_string();
    assert!(text.contains("plugin `test-plugin` as `op`, subtask 3, process: record 2 of the batch"), "{text}");
}

#[test]
fn limits_and_malformed_answers_are_traced_to_their_record_too() {
    let limits = Limits { call: Duration::from_millis(30), ..Limits::default() };
    let endless = poison("(loop $e (br $e))");
    let mut operator = supervise_with(&endless, TaskSetup { limits, ..setup() });
    let done = operator.process(0, &letters("axb"), None, BadRecordPolicy::Skip).expect("the rest goes on");
    assert_eq!((values(&done.output.main).concat(), indices(&done)), ("ab".into(), vec![1]));
    assert!(done.skipped[0].reason.contains("limits.call"), "{:?}", done.skipped);
    let lying = poison("(local.set $times_len (i32.const 1))");
    let done = supervise(&lying).process(0, &letters("axb"), None, BadRecordPolicy::Skip).expect("the rest goes on");
    assert_eq!((values(&done.output.main).concat(), indices(&done)), ("ab".into(), vec![1]));
}

/// Names the first record whose value begins with x as bad.
fn naming() -> Guest {
    let mut guest = Guest::operator(&[], &[]);
    let reason = guest.place(b"an x");
    let name = format!(
        "(i32.store (i32.const 1024) (local.get $i)) (i32.store (i32.const 1028) (i32.const {reason}))
         (i32.store (i32.const 1032) (i32.const 4)) (return (call $error (i32.const 1) (i32.const 1024) (i32.const 1)))"
    );
    guest.process(on_value('x', &name) + ECHO)
}

#[test]
fn named_records_are_taken_out_however_many_rounds_it_takes() {
    for text in ["abxc", "x", "axbxcx", "xxxxxxxxxxxxa", "xaxaxaxaxaxaxaxaxaxaxa"] {
        let mut operator = supervise(&naming());
        let done = operator.process(0, &letters(text), None, BadRecordPolicy::Skip).expect("the rest goes on");
        assert_eq!(values(&done.output.main).concat(), text.replace('x', ""), "{text}");
        let expected: Vec<_> = (0..).zip(text.chars()).filter(|(_, c)| *c == 'x').map(|(i, _)| i).collect();
        assert_eq!(indices(&done), expected, "{text}");
        assert!(done.skipped.iter().all(|bad| bad.reason == "an x"));
        assert_eq!(operator.counts().traps, 0);
    }
    let failure = supervise(&naming()).process(0, &letters("abx"), None, BadRecordPolicy::Fail).expect_err("it fails");
    let Failure::BadRecord { record, .. } = failure else { panic!("{failure}") };
    assert_eq!(record, BadRecord { index: 2, reason: "an x".into() });
}

#[test]
fn a_trap_that_no_single_record_causes_is_survived_and_counted() {
    let batch_only =
        Guest::operator(&[], &[]).process(format!("(if (i32.gt_u (local.get $count) (i32.const 1)) (then unreachable)) {ECHO}"));
    for policy in [BadRecordPolicy::Skip, BadRecordPolicy::Fail] {
        let mut operator = supervise(&batch_only);
        let done = operator.process(0, &letters("abc"), None, policy).expect("one by one it goes");
        assert_eq!((values(&done.output.main).concat(), indices(&done)), ("abc".into(), vec![]));
        let counts = SupervisorCounts { traps: 1, unreproduced: 1, skipped: 0, fresh_instances: 1 };
        assert_eq!(operator.counts(), counts);
    }
}

#[test]
fn poison_without_end_is_given_up() {
    let failure = supervise(&poison("unreachable"))
        .process(0, &letters(&"x".repeat(1000)), None, BadRecordPolicy::Skip)
        .expect_err("too many");
    let Failure::GaveUp { why, last: Some(_) } = &failure else { panic!("{failure}") };
    assert!(why.contains("more than 16 instances"), "{why}");
}

#[test]
fn poison_in_every_batch_is_given_up_after_a_hundred_instances() {
    let mut operator = supervise(&poison("unreachable"));
    let mut batches = 0;
    let failure = loop {
        match operator.process(0, &letters("ax"), None, BadRecordPolicy::Skip) {
            Ok(done) => assert_eq!(indices(&done), [1]),
            Err(failure) => break failure,
        }
        batches += 1;
        assert!(batches < 100, "two instances a batch, a hundred a minute");
    };
    assert!(matches!(&failure, Failure::GaveUp { why, .. } if why.contains("100 instances")), "{failure}");
    assert_eq!(batches, 50);
}

#[test]
fn a_replay_that_takes_too_long_is_given_up() {
    // A whole batch traps; one record is far below the limit, a thousand of them are over ten times the limit.
    let spin = "(if (i32.gt_u (local.get $count) (i32.const 1)) (then unreachable))
        (local.set $i (i32.const 1000000)) (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    let limits = Limits { call: Duration::from_millis(100), ..Limits::default() };
    let guest = Guest::operator(&[], &[]).process(spin.to_owned() + ECHO);
    let mut operator = supervise_with(&guest, TaskSetup { limits, ..setup() });
    let failure = operator.process(0, &letters(&"a".repeat(20_000)), None, BadRecordPolicy::Skip).expect_err("too slow");
    assert!(matches!(&failure, Failure::GaveUp { why, .. } if why.contains("one by one")), "{failure}");
}

#[test]
fn with_granted_folders_a_trap_is_a_task_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut guest = Guest::operator(&[], &[]).import("$mkdir");
    let (grant, path) = (guest.text(b"out"), guest.text(b"a"));
    let guest = guest.process(format!("(call $mkdir {grant} {path} (i32.const 1024)) {} {ECHO}", on_value('x', "unreachable")));
    let mut operator = supervise_with(&guest, granted("out", folder.path().to_owned()));
    operator.process(0, &letters("ab"), None, BadRecordPolicy::Skip).expect("it runs");
    let failure = operator.process(0, &letters("axb"), None, BadRecordPolicy::Skip).expect_err("no replay");
    assert!(matches!(&failure, Failure::Task(error) if matches!(error.kind, CallErrorKind::Trap { .. })), "{failure}");
    // Without the grant it can't have done anything: it is replayed.
    let done = supervise(&guest).process(0, &letters("axb"), None, BadRecordPolicy::Skip).expect("a replay");
    assert_eq!(indices(&done), [1]);
}

/// Asks to try again this many times, then echoes.
fn reluctant(times: u32) -> Guest {
    let mut guest = Guest::operator(&[], &[]);
    let why = guest.text(b"busy");
    let body = format!(
        "(if (i32.gt_u (global.get $left) (i32.const 0)) (then
           (global.set $left (i32.sub (global.get $left) (i32.const 1))) (return (call $error (i32.const 0) {why})))) {ECHO}"
    );
    guest.extra(&format!("(global $left (mut i32) (i32.const {times}))")).process(body)
}

#[test]
fn retries_are_bounded() {
    let mut operator = supervise(&reluctant(2));
    let done = operator.process(0, &letters("a"), None, BadRecordPolicy::Fail).expect("the third call goes");
    assert_eq!(values(&done.output.main).concat(), "a");
    let failure = supervise(&reluctant(3)).process(0, &letters("a"), None, BadRecordPolicy::Skip).expect_err("three tries");
    assert!(failure.to_string().contains("asks to try again: busy"), "{failure}");
}

#[test]
fn fatal_errors_blame_no_record() {
    let mut guest = Guest::operator(&[], &[]);
    let why = guest.text(b"no");
    let mut operator = supervise(&guest.process(format!("(call $error (i32.const 2) {why})")));
    let failure = operator.process(0, &letters("abc"), None, BadRecordPolicy::Skip).expect_err("fatal");
    assert!(matches!(failure, Failure::Task(_)), "{failure}");
    assert_eq!(operator.counts(), SupervisorCounts::default());
}

#[test]
fn a_trap_at_the_end_is_a_task_failure() {
    let guest = Guest::bounded(&[]).body("end-of-input#on-end", "unreachable");
    let failure = supervise(&guest).on_end(0).expect_err("it traps");
    assert!(matches!(failure, Failure::Task(_)), "{failure}");
}

#[test]
fn state_holds_every_good_record_once_after_a_replay() {
    // Adds one byte to the state of each record's key: a put of the prefetched value and one more byte would need copying,
    // so the state is the last value seen: the record's own value under its key, written by put-many.
    let put = on_value('x', "unreachable").replace(
        "(local.set $i (i32.add",
        "(call $store (local.get $data) (local.get $index) (local.get $i)) (local.set $i (i32.add",
    );
    let store = "(func $store (param $data i32) (param $index i32) (param $i i32) (local $at i32) (local $key i32) (local $value i32) (local $end i32)
        (local.set $at (i32.add (local.get $index) (i32.shl (local.get $i) (i32.const 3))))
        (local.set $key (i32.load (local.get $at))) (local.set $value (i32.load offset=4 (local.get $at))) (local.set $end (i32.load offset=8 (local.get $at)))
        (i32.store (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (i32.sub (local.get $value) (local.get $key)))
        (i32.store (i32.const 1032) (i32.const 0)) (i32.store (i32.const 1036) (i32.sub (local.get $end) (local.get $value)))
        (call $put_many (i32.const 0) (i32.add (local.get $data) (local.get $key)) (i32.load (i32.const 1028)) (i32.const 1024) (i32.const 8)
          (i32.add (local.get $data) (local.get $value)) (i32.load (i32.const 1036)) (i32.const 1032) (i32.const 8)))";
    let guest = Guest::operator(&[("last", "value", false)], &[]).import("$put_many").extra(store).process(put + ECHO);
    let mut operator = supervise(&guest);
    let mut state = MemoryState::new();
    let input = batch(&[("a", "1"), ("b", "2"), ("a", "x"), ("a", "3"), ("c", "x")]);
    let done = operator.process(0, &input, Some(&mut state), BadRecordPolicy::Skip).expect("the rest goes on");
    assert_eq!(indices(&done), [2, 4]);
    let cells: Vec<_> = state.cells().iter().map(|((_, key), value)| (key.as_slice(), value.as_slice())).collect();
    assert_eq!(cells, [(&b"a"[..], &b"3"[..]), (b"b", b"2")]);
    // The first call had staged a and b before it trapped: had it been applied, there would be one more put.
    assert_eq!(state.calls.put_many, 3, "one for each good record");
}

#[test]
fn a_sink_writes_all_but_what_it_refuses() {
    let mut guest = Guest::sink().import("$append");
    let (grant, path, reason) = (guest.text(b"out"), guest.text(b"f"), guest.place(b"an x"));
    let name = format!(
        "(i32.store (i32.const 1024) (local.get $i)) (i32.store (i32.const 1028) (i32.const {reason}))
         (i32.store (i32.const 1032) (i32.const 4)) (return (call $error (i32.const 1) (i32.const 1024) (i32.const 1)))"
    );
    let append = format!("(call $append {grant} {path} (local.get $data) (local.get $data_len) (i32.const 1040))");
    let guest = guest.body("sink-writer#write", format!("{append} {} (call $ok)", on_value('x', &name)));
    let folder = tempfile::tempdir().expect("a folder");
    let plugin = load(&guest).expect("it loads");
    let setup = granted("out", folder.path().to_owned());
    let mut writer = SupervisedWriter::new(&plugin, &setup, NO_PAUSE).expect("it opens");
    writer.begin("l.1.out.0.1").expect("it begins");
    let refused = writer.write(&letters("axbx"), BadRecordPolicy::Skip).expect("the rest is written");
    assert_eq!(refused.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(std::fs::read(folder.path().join("f")).expect("the file"), b"kakb", "appended once");
    let failure = writer.write(&letters("cx"), BadRecordPolicy::Fail).expect_err("it fails");
    assert!(matches!(&failure, Failure::BadRecord { record, .. } if record.index == 1), "{failure}");
    assert!(writer.write(&letters("xx"), BadRecordPolicy::Skip).expect("all are refused").len() == 2);
    assert_eq!(std::fs::read(folder.path().join("f")).expect("the file"), b"kakb");
}

/// A MiB of memory is lost with each call.
const LEAK: &str = "(drop (memory.grow (i32.const 16)))";

fn four_mib() -> Limits {
    Limits { memory: 4 << 20, ..Limits::default() }
}

#[test]
fn an_operator_that_loses_memory_goes_on_in_fresh_instances() {
    let leaky = Guest::operator(&[], &[]).process(LEAK.to_owned() + ECHO);
    let mut operator = supervise_with(&leaky, TaskSetup { limits: four_mib(), ..setup() });
    for _ in 0..50 {
        let done = operator.process(0, &letters("ab"), None, BadRecordPolicy::Fail).expect("it goes on");
        assert_eq!(values(&done.output.main).concat(), "ab");
        assert!(operator.memory_bytes() <= 4 << 20);
    }
    let counts = operator.counts();
    assert_eq!((counts.traps, counts.skipped), (0, 0));
    assert!((10..=25).contains(&counts.fresh_instances), "{counts:?}");
}

#[test]
fn a_writer_that_loses_memory_goes_on_in_fresh_instances() {
    let leaky = Guest::sink().body("sink-writer#begin", format!("{LEAK} (call $ok)"));
    let setup = TaskSetup { limits: four_mib(), ..setup() };
    let mut writer = SupervisedWriter::new(&load(&leaky).expect("it loads"), &setup, NO_PAUSE).expect("it opens");
    for number in 0..50 {
        writer.begin(&format!("l.1.out.0.{number}")).expect("it begins");
        writer.write(&letters("ab"), BadRecordPolicy::Fail).expect("it writes");
        writer.prepare("1-1", false).expect("it prepares");
    }
}
