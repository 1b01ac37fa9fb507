//! Sinks: staged appends, the lifecycle, and a committer that survives its traps.

use crate::guest::Guest;
use crate::{batch, granted, load, setup};
use std::fs;
use weir_plugin::*;

/// A guest that appends the batch's data to `out/f` in `write`.
fn appender(more: &str) -> Guest {
    let mut guest = Guest::sink().import("$append").import("$sync").import("$mkdir");
    let (grant, path) = (guest.text(b"out"), guest.text(b"f"));
    let why = guest.text(b"no");
    let more = more.replace("WHY", &why);
    guest.body(
        "sink-writer#write",
        format!(
            "(call $append {grant} {path} (local.get $data) (local.get $data_len) (i32.const 1024))
             (if (i32.load8_u (i32.const 1024)) (then unreachable)) {more}"
        ),
    )
}

#[test]
fn appends_reach_the_file_when_write_returns() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = granted("out", folder.path().to_owned());
    let plugin = load(&appender("(call $ok)")).expect("it loads");
    assert!(plugin.acts_outside());
    let mut writer = SinkWriterInstance::new(&plugin, &setup).expect("it opens");
    writer.begin("l.1.out.3.1").expect("it begins");
    writer.write(&batch(&[("a", "b")])).expect("it writes");
    writer.write(&batch(&[("c", "d"), ("", "e")])).expect("it writes");
    assert_eq!(fs::read(folder.path().join("f")).expect("the file"), b"abcde");
    assert_eq!(writer.prepare("3-17", false).expect("it prepares"), None);
    writer.close().expect("it closes");
}

#[test]
fn appends_of_a_failed_write_are_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    for end in ["(call $error (i32.const 0) WHY)", "unreachable", "(i32.const -4)"] {
        let plugin = load(&appender(end)).expect("it loads");
        let mut writer = SinkWriterInstance::new(&plugin, &granted("out", folder.path().to_owned())).expect("it opens");
        writer.write(&batch(&[("a", "b")])).expect_err("it fails");
        assert!(!folder.path().join("f").exists(), "{end}");
    }
}

#[test]
fn a_failing_append_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("f")).expect("a folder where the file should be");
    let plugin = load(&appender("(call $ok)")).expect("it loads");
    let mut writer = SinkWriterInstance::new(&plugin, &granted("out", folder.path().to_owned())).expect("it opens");
    let error = writer.write(&batch(&[("a", "b")])).expect_err("it can't be appended to");
    assert!(matches!(error.kind, CallErrorKind::Environment { .. }), "{error}");
    assert!(error.to_string().contains("appending 2 bytes to f in"), "{error}");
}

#[test]
fn what_acts_at_once_is_a_trap_in_write_and_works_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let call = |function: &str, body: &str| {
        let mut guest = Guest::sink().import("$mkdir");
        let (grant, path) = (guest.text(b"out"), guest.text(b"a/b"));
        guest.body(function, format!("(call $mkdir {grant} {path} (i32.const 1024)) {body}"))
    };
    let plugin = load(&call("sink-writer#write", "(call $ok)")).expect("it loads");
    let mut writer = SinkWriterInstance::new(&plugin, &granted("out", folder.path().to_owned())).expect("it opens");
    let error = writer.write(&batch(&[("a", "b")])).expect_err("it traps").to_string();
    assert!(error.contains("files.mkdir in write: only append and read"), "{error}");
    assert!(!folder.path().join("a").exists());
    let plugin = load(&call("sink-writer#begin", "(call $ok)")).expect("it loads");
    let mut writer = SinkWriterInstance::new(&plugin, &granted("out", folder.path().to_owned())).expect("it opens");
    writer.begin("l.1.out.3.1").expect("it begins");
    assert!(folder.path().join("a/b").is_dir());
}

#[test]
fn what_is_not_granted_is_an_answer_and_a_missing_folder_is_refused() {
    // The guest traps if append answers with an error.
    let plugin = load(&appender("(call $ok)")).expect("it loads");
    let mut writer = SinkWriterInstance::new(&plugin, &setup()).expect("it opens");
    assert!(writer.write(&batch(&[("a", "b")])).expect_err("nothing is granted").to_string().contains("unreachable"));
    let gone = granted("out", "/no/such/folder".into());
    let error = SinkWriterInstance::new(&plugin, &gone).err().expect("it is refused").to_string();
    assert!(error.contains("granted folder `out` (/no/such/folder) can't be opened"), "{error}");
}

#[test]
fn a_prepared_version_that_is_not_declared_is_malformed() {
    let prepare = |version: u32| {
        let body = format!(
            "(drop (call $empty)) (i32.store (i32.const 68) (i32.const 1)) (i32.store (i32.const 72) (i32.const {version})) (i32.const 64)"
        );
        let plugin = load(&Guest::sink().body("sink-writer#prepare", body)).expect("it loads");
        SinkWriterInstance::new(&plugin, &setup()).expect("it opens").prepare("1-1", true)
    };
    assert_eq!(prepare(1).expect("it is declared"), Some(Prepared { version: 1, bytes: vec![] }));
    let error = prepare(2).expect_err("it is not").to_string();
    assert!(error.contains("prepared version 2, but committable-versions are [1]"), "{error}");
}

#[test]
fn a_sink_has_no_state_and_does_not_emit() {
    let emit = "(call $emit (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0) (i32.const 0)) (call $ok)";
    let plugin = load(&Guest::sink().import("$emit").body("sink-writer#write", emit)).expect("it loads");
    let mut writer = SinkWriterInstance::new(&plugin, &setup()).expect("it opens");
    let error = writer.write(&batch(&[("a", "b")])).expect_err("it traps").to_string();
    assert!(error.contains("emit in write"), "{error}");
}

fn committer(guest: Guest) -> CommitterInstance {
    let setup = CommitterSetup {
        job: "job".into(),
        sink: "out".into(),
        config: "{}".into(),
        limits: Limits::default(),
        grants: Grants::default(),
    };
    CommitterInstance::new(&load(&guest).expect("it loads"), setup).expect("it opens")
}

fn committables(n: usize) -> Vec<Committable> {
    let one = |i| Committable { id: format!("l.1.out.0.{i}"), checkpoint: "1-2".into(), version: 1, bytes: vec![i as u8; i] };
    (0..n).map(one).collect()
}

#[test]
fn a_committer_answers_for_each() {
    let mut committer = committer(Guest::sink());
    assert_eq!(committer.commit(&committables(3)), vec![Outcome::Committed; 3]);
    assert_eq!(committer.status(&committables(2)), vec![Outcome::Committed; 2]);
    assert_eq!(committer.abort(&["l.1.out.0.1".into()]), [AbortOutcome::Aborted]);
    assert_eq!(committer.list_dangling().expect("it lists"), Vec::<String>::new());
    committer.forget(&["l.1.out.0.1".into()]).expect("it forgets");
    committer.close().expect("it closes");
}

#[test]
fn every_outcome_is_understood() {
    // Five outcomes, discriminants 0 to 4, each with the text "why".
    let mut guest = Guest::sink();
    let why = guest.place(b"why");
    let list: Vec<u8> = (0..5u32).flat_map(|kind| [kind, why, 3]).flat_map(u32::to_le_bytes).collect();
    let list = guest.place(&list);
    let body = format!("(i32.store (i32.const 64) (i32.const {list})) (i32.store (i32.const 68) (i32.const 5)) (i32.const 64)");
    let why = || "why".to_owned();
    assert_eq!(
        committer(guest.body("sink-committer#commit", body)).commit(&committables(5)),
        [Outcome::Committed, Outcome::AlreadyCommitted, Outcome::Retry(why()), Outcome::Unknown(why()), Outcome::Lost(why())]
    );
}

#[test]
fn a_committer_that_traps_has_answered_unknown_and_a_fresh_one_goes_on() {
    // Traps on any list but of two.
    let body = "(if (i32.ne (local.get $len) (i32.const 2)) (then unreachable)) (local.get $len) (call $outcomes)";
    let mut committer = committer(Guest::sink().body("sink-committer#commit", body).body("sink-committer#abort", "unreachable"));
    let outcomes = committer.commit(&committables(3));
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        assert!(matches!(&outcome, Outcome::Unknown(why) if why.contains("commit: trapped")), "{outcome:?}");
    }
    assert_eq!(committer.commit(&committables(2)), vec![Outcome::Committed; 2]);
    let aborted = committer.abort(&["x".into(), "y".into()]);
    assert!(matches!(&aborted[..], [AbortOutcome::Retry(_), AbortOutcome::Retry(_)]), "{aborted:?}");
    assert_eq!(committer.status(&committables(1)), [Outcome::Committed]);
}

#[test]
fn a_wrong_number_of_outcomes_is_unknown_for_all() {
    let mut committer = committer(Guest::sink().body("sink-committer#commit", "(i32.const 1) (call $outcomes)"));
    let outcomes = committer.commit(&committables(2));
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Unknown(why) if why.contains("1 outcomes for 2"))), "{outcomes:?}");
    assert_eq!(outcomes.len(), 2);
}
