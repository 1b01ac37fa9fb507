//! The sink on folders that lose power, stopped at each of its steps.

use crate::committer::Committer;
use crate::writer::Writer;
use weir_sdk::prelude::*;
use weir_sdk::testing::{MemoryFolders, SinkHarness};

type Sink = SinkHarness<Writer, Committer>;

const LINEAGE: &str = "0123456789abcdef0123456789abcdef";

fn identity(number: u32) -> String {
    format!("{LINEAGE}.3.out-files.1.{number}")
}

fn staging(number: u32) -> String {
    format!(".weir-staging/{LINEAGE}/out-files/{}", identity(number))
}

fn open(folders: &MemoryFolders) -> Sink {
    Sink::open(folders, "out-files", "{}").expect("opens")
}

/// One prepared transaction of two records.
fn prepared(folders: &MemoryFolders, number: u32) -> Committable {
    let mut sink = open(folders);
    sink.begin(&identity(number)).unwrap();
    sink.write(&[("k", "one", 1)]).unwrap();
    sink.write(&[("k", "two", 2)]).unwrap();
    sink.prepare(&format!("3-{number}"), false).unwrap().expect("something was written")
}

fn names(folders: &MemoryFolders) -> Vec<String> {
    folders.files("out").into_keys().collect()
}

#[test]
fn records_appear_with_the_commit_and_whole() {
    let folders = MemoryFolders::new(&["out"]);
    let committable = prepared(&folders, 1);
    folders.crash();
    assert_eq!(names(&folders), [staging(1), format!("{}.prepared", staging(1))], "prepare alone survives, invisibly");
    let sink = open(&folders);
    assert!(matches!(sink.status(&committable).unwrap(), Outcome::Retry(_)));
    assert_eq!(sink.list_dangling().unwrap(), [identity(1)]);
    assert_eq!(sink.commit(std::slice::from_ref(&committable)).unwrap(), [Outcome::Committed]);
    folders.crash();
    assert_eq!(folders.files("out")["part-1-3-1"], b"one\ntwo\n");
    assert_eq!(sink.commit(std::slice::from_ref(&committable)).unwrap(), [Outcome::AlreadyCommitted]);
    assert_eq!(sink.status(&committable).unwrap(), Outcome::AlreadyCommitted);
    sink.forget(&identity(1)).unwrap();
    sink.forget(&identity(1)).unwrap();
    assert_eq!(names(&folders), ["part-1-3-1"]);
    assert_eq!(sink.list_dangling().unwrap(), Vec::<String>::new());
}

#[test]
fn nothing_written_leaves_nothing() {
    let folders = MemoryFolders::new(&["out"]);
    let mut sink = open(&folders);
    sink.begin(&identity(1)).unwrap();
    sink.write::<&str, &str>(&[]).unwrap();
    assert!(sink.prepare("3-1", true).unwrap().is_none());
    assert_eq!(names(&folders), Vec::<String>::new());
}

#[test]
fn a_consumer_may_take_the_file_and_a_repeat_still_knows() {
    let folders = MemoryFolders::new(&["out"]);
    let committable = prepared(&folders, 1);
    let sink = open(&folders);
    sink.commit(std::slice::from_ref(&committable)).unwrap();
    assert!(folders.grants().folder("out").remove("part-1-3-1").unwrap());
    assert_eq!(sink.commit(std::slice::from_ref(&committable)).unwrap(), [Outcome::AlreadyCommitted]);
}

#[test]
fn both_gone_is_lost_and_a_taken_name_keeps_the_records() {
    let folders = MemoryFolders::new(&["out"]);
    let (first, second) = (prepared(&folders, 1), prepared(&folders, 2));
    let (sink, out) = (open(&folders), folders.grants().folder("out"));
    out.append("part-1-3-2", b"somebody else's\n").unwrap();
    assert!(
        matches!(&sink.commit(std::slice::from_ref(&second)).unwrap()[..], [Outcome::Lost(why)] if why.contains("part-1-3-2 is there already"))
    );
    assert!(matches!(sink.status(&second).unwrap(), Outcome::Lost(_)));
    assert_eq!(folders.files("out")[&staging(2)], b"one\ntwo\n");
    assert_eq!(folders.files("out")["part-1-3-2"], b"somebody else's\n");
    out.remove(&staging(1)).unwrap();
    out.remove(&format!("{}.prepared", staging(1))).unwrap();
    assert!(matches!(sink.status(&first).unwrap(), Outcome::Lost(_)));
    let answers = sink.commit(&[first, second]).unwrap();
    assert!(matches!(&answers[..], [Outcome::Lost(_), Outcome::Retry(why)] if why.contains("not tried")), "{answers:?}");
}

#[test]
fn abort_removes_both_files_of_any_lineage() {
    let folders = MemoryFolders::new(&["out"]);
    prepared(&folders, 1);
    let other = format!("{}.9.out-files.0.4", "f".repeat(32));
    let mut sink = open(&folders);
    sink.begin(&other).unwrap();
    sink.write(&[("", "unprepared", 0)]).unwrap();
    assert_eq!(sink.list_dangling().unwrap(), [identity(1), other.clone()]);
    for transaction in [&identity(1), &other] {
        for _ in 0..2 {
            assert_eq!(sink.abort(transaction).unwrap(), AbortOutcome::Aborted);
        }
    }
    folders.crash();
    assert_eq!(names(&folders), Vec::<String>::new());
}

#[test]
fn another_sinks_transactions_are_not_listed() {
    let folders = MemoryFolders::new(&["out"]);
    prepared(&folders, 1);
    let other = Sink::open(&folders, "other", "{}").unwrap();
    assert_eq!(other.list_dangling().unwrap(), Vec::<String>::new());
}

#[test]
fn an_abort_of_what_is_committed_says_so_and_keeps_the_file() {
    let folders = MemoryFolders::new(&["out"]);
    let committable = prepared(&folders, 1);
    let sink = open(&folders);
    sink.commit(std::slice::from_ref(&committable)).unwrap();
    assert_eq!(sink.list_dangling().unwrap(), [identity(1)]);
    assert_eq!(sink.abort(&identity(1)).unwrap(), AbortOutcome::Committed);
    assert_eq!(sink.status(&committable).unwrap(), Outcome::AlreadyCommitted);
    sink.forget(&identity(1)).unwrap();
    assert_eq!(names(&folders), ["part-1-3-1"]);
}

#[test]
fn a_power_loss_before_any_step_of_prepare_loses_only_what_was_not_prepared() {
    let mut finished = false;
    for calls in 0.. {
        let folders = MemoryFolders::new(&["out"]);
        let mut sink = open(&folders);
        sink.begin(&identity(1)).unwrap();
        sink.write(&[("k", "one", 1)]).unwrap();
        folders.fail_after(calls);
        finished = sink.prepare("3-1", false).is_ok();
        folders.crash();
        let files = folders.files("out");
        assert!(!files.keys().any(|name| name.starts_with("part-")), "nothing is visible before the commit");
        if files.contains_key(&format!("{}.prepared", staging(1))) {
            assert_eq!(files.get(&staging(1)).map(Vec::as_slice), Some(&b"one\n"[..]), "a marker vouches for the content");
        }
        let fresh = open(&folders);
        for dangling in fresh.list_dangling().unwrap() {
            assert_eq!(fresh.abort(&dangling).unwrap(), AbortOutcome::Aborted);
        }
        assert_eq!(names(&folders), Vec::<String>::new());
        if finished {
            break;
        }
    }
    assert!(finished);
}

#[test]
fn a_power_loss_before_any_step_of_commit_is_made_good_by_the_repeat() {
    for calls in 0.. {
        let folders = MemoryFolders::new(&["out"]);
        let committable = prepared(&folders, 1);
        folders.fail_after(calls);
        let first = open(&folders).commit(std::slice::from_ref(&committable)).unwrap();
        folders.crash();
        let second = open(&folders).commit(std::slice::from_ref(&committable)).unwrap();
        assert_eq!(folders.files("out")["part-1-3-1"], b"one\ntwo\n");
        match &first[0] {
            Outcome::Committed => {
                assert_eq!(second, [Outcome::AlreadyCommitted]);
                return;
            }
            Outcome::Retry(_) => assert_eq!(second, [Outcome::Committed]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_power_loss_before_any_step_of_abort_never_looks_committed() {
    for calls in 0.. {
        let folders = MemoryFolders::new(&["out"]);
        let committable = prepared(&folders, 1);
        folders.fail_after(calls);
        let first = open(&folders).abort(&identity(1)).unwrap();
        folders.crash();
        let sink = open(&folders);
        assert_ne!(sink.status(&committable).unwrap(), Outcome::AlreadyCommitted, "after {calls} calls");
        assert_eq!(sink.abort(&identity(1)).unwrap(), AbortOutcome::Aborted);
        assert_eq!(names(&folders), Vec::<String>::new());
        if first == AbortOutcome::Aborted {
            return;
        }
    }
}

#[test]
fn damage_is_lost_and_left_where_it_is() {
    let folders = MemoryFolders::new(&["out"]);
    let (unmarked, longer) = (prepared(&folders, 1), prepared(&folders, 2));
    let (sink, out) = (open(&folders), folders.grants().folder("out"));
    out.remove(&format!("{}.prepared", staging(1))).unwrap();
    out.append(&staging(2), b"more").unwrap();
    for (committable, why) in [(unmarked, "has no marker any more"), (longer, "has not the 8 bytes")] {
        let before = folders.files("out");
        let answer = sink.commit(std::slice::from_ref(&committable)).unwrap();
        assert!(matches!(&answer[..], [Outcome::Lost(text)] if text.contains(why)), "{answer:?}");
        assert_eq!(sink.status(&committable).unwrap(), answer[0]);
        assert_eq!(folders.files("out"), before);
    }
}

#[test]
fn a_writer_sees_that_it_was_aborted_meanwhile() {
    let folders = MemoryFolders::new(&["out"]);
    let mut sink = open(&folders);
    sink.begin(&identity(1)).unwrap();
    sink.write(&[("", "one", 0)]).unwrap();
    assert_eq!(open(&folders).abort(&identity(1)).unwrap(), AbortOutcome::Aborted);
    assert!(sink.prepare("3-1", false).is_err());
}

#[test]
fn what_can_not_be_right_is_refused() {
    let folders = MemoryFolders::new(&["out"]);
    assert!(Sink::open(&folders, "out-files", r#"{"path":"x"}"#).is_err());
    let mut sink = open(&folders);
    assert!(sink.begin("no-identity").is_err());
    let committable = prepared(&folders, 1);
    assert!(sink.begin(&identity(1)).is_err(), "an identity is never used twice");
    let newer = Committable { version: 2, ..committable };
    assert!(matches!(&sink.commit(&[newer]).unwrap()[..], [Outcome::Unknown(_)]));
    let ungranted = MemoryFolders::new(&[]);
    assert!(open(&ungranted).begin(&identity(2)).is_err());
}

#[test]
fn a_null_value_is_no_empty_line() {
    let folders = MemoryFolders::new(&["out"]);
    let mut sink = open(&folders);
    sink.begin(&identity(1)).unwrap();
    let deletion = RecordParts { key: Some(b"k"), value: None, time: 1, headers: Headers::default() };
    sink.write_parts(&[RecordParts { value: Some(b""), ..deletion }]).unwrap();
    let refused = sink.write_parts(&[deletion]).unwrap_err();
    assert!(format!("{refused:?}").contains("value is null"), "{refused:?}");
}
