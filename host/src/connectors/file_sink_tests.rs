//! Tests of the file sink beyond the suite that every sink passes.

use super::*;
use crate::connectors::conformance::{self, Rig};
use crate::connectors::{AbortAnswer, CommitAnswer, Committable, Remedy};
use std::fs;
use std::process::Command;
use weir_plugin::batch::RecordBatch;
use weir_protocol::{CheckpointId, Generation, Lineage, TransactionId};

const LINEAGE: Lineage = Lineage(0xfeed);

fn connector(path: &Path) -> FileSinkConnector {
    FileSinkConnector::new("out", path).expect("a UTF-8 path")
}

fn context(generation: u32) -> CommitterContext {
    CommitterContext { job: "job".to_owned(), lineages: vec![LINEAGE], generation: Generation(generation), plugin: None }
}

fn committer(path: &Path, generation: u32) -> Box<dyn Committer> {
    connector(path).committer(&context(generation)).expect("opens").expect("it has one")
}

fn writer(path: &Path, subtask: u32) -> Box<dyn SinkWriter> {
    let task = SinkTask { job: "job".to_owned(), lineage: LINEAGE, generation: Generation(1), subtask, parallelism: 2 };
    connector(path).writer(&task).expect("opens")
}

fn id(number: u64) -> TransactionId {
    TransactionId { lineage: LINEAGE, generation: Generation(1), sink: "out".to_owned(), writer: 0, number }
}

fn values(values: &[&str]) -> RecordBatch {
    let mut records = RecordBatch::new();
    values.iter().for_each(|value| records.push(b"", value.as_bytes(), 0));
    records
}

/// One prepared transaction of subtask 0.
fn prepared(path: &Path, number: u32, lines: &[&str]) -> Committable {
    let mut writer = writer(path, 0);
    writer.begin(&id(number.into())).expect("begins");
    writer.write(&values(lines)).expect("writes");
    let checkpoint = CheckpointId::new(Generation(1), number);
    let prepared =
        writer.prepare(checkpoint, false).expect("prepares").expect("has records")().expect("durable").expect("has records");
    Committable {
        id: id(number.into()),
        checkpoint,
        version: prepared.version,
        bytes: prepared.bytes,
        plugin: None,
        sources: Vec::new(),
        valid_until: None,
    }
}

/// Every file below a folder, relative to it.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("list") {
            let path = entry.expect("entry").path();
            let name = path.strip_prefix(folder).expect("below").display().to_string();
            if path.is_dir() {
                found.push(name + "/");
                open.push(path);
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

fn lost(answer: &CommitAnswer) -> &str {
    match answer {
        CommitAnswer::Lost(why) => why,
        other => panic!("{other:?} instead of lost"),
    }
}

#[test]
fn it_keeps_every_promise_of_a_sink() {
    let mut make = || {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("a/out");
        let parts =
            |path: &Path| names(path).expect("list").into_iter().filter(|name| name.starts_with(PART)).collect::<Vec<_>>();
        let (seen, taken, left) = (path.clone(), path.clone(), path.clone());
        Rig {
            connector: Box::new(connector(&path)),
            sink: "out".to_owned(),
            visible: Box::new(move || {
                let read = |name: &String| fs::read_to_string(seen.join(name)).expect("a part is readable");
                parts(&seen).iter().flat_map(|name| read(name).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
            }),
            take_away: Some(Box::new(move || {
                parts(&taken).iter().for_each(|name| fs::remove_file(taken.join(name)).expect("remove"))
            })),
            leftovers: Box::new(move || tree(&left).into_iter().filter(|name| !name.starts_with(PART)).collect()),
            tells_output: true,
            guard: Box::new(folder),
        }
    };
    let failures = conformance::failures(&mut make);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn names_are_those_of_the_contract() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = prepared(folder.path(), 7, &["x", "y"]);
    let staged = ".weir-staging/0000000000000000000000000000feed/out/0000000000000000000000000000feed.1.out.0.7";
    let expected = [
        ".weir-staging/",
        ".weir-staging/0000000000000000000000000000feed/",
        ".weir-staging/0000000000000000000000000000feed/out/",
    ];
    let mut expected: Vec<String> = expected.iter().map(|&name| name.to_owned()).collect();
    expected.extend([staged.to_owned(), format!("{staged}.prepared")]);
    assert_eq!(tree(folder.path()), expected);
    assert_eq!(committer(folder.path(), 1).commit(&[what]), [CommitAnswer::Committed]);
    assert_eq!(fs::read(folder.path().join("part-0-1-7")).expect("final file"), b"x\ny\n");
}

#[test]
fn preparing_the_target_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("deep/out");
    connector(&path).prepare_target().expect("prepared");
    connector(&path).prepare_target().expect("prepared again");
    assert_eq!(tree(&path), Vec::<String>::new());
    let file = folder.path().join("file");
    fs::write(&file, "mine").expect("write");
    let error = connector(&file).prepare_target().expect_err("a file is no folder");
    assert!(error.message.contains("is a file") && error.remedy == Remedy::Permanent, "{error}");
    assert_eq!(fs::read(&file).expect("read"), b"mine");
}

#[test]
fn output_is_found_by_its_name() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let has = |path: &Path| connector(path).output().expect("listed").is_some();
    assert!(!has(&folder.path().join("missing")));
    fs::write(folder.path().join("notes.txt"), "").expect("write");
    assert!(!has(folder.path()));
    fs::write(folder.path().join("part-0-1-1"), "").expect("write");
    assert!(has(folder.path()));
}

#[test]
fn the_newest_generation_is_read_from_names() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let newest = |path: &Path| connector(path).output().expect("listed").unwrap_or_default();
    assert_eq!(newest(&folder.path().join("missing")), Generation(0));
    for (name, generation) in
        [("part-0", 0), ("part-9-x-9", 0), ("part-0-3-99", 3), ("part-12-2-7", 3), ("part-1-10-1", 10), ("port-1-11-1", 10)]
    {
        fs::write(folder.path().join(name), "").expect("write");
        assert_eq!(newest(folder.path()), Generation(generation), "with {name}");
    }
}

#[test]
fn a_name_that_is_taken_stops_and_is_not_replaced() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["ours"])];
    let part = folder.path().join("part-0-1-1");
    fs::write(&part, "theirs").expect("write");
    let mut committer = committer(folder.path(), 1);
    assert!(lost(&committer.status(&what)[0]).contains("Move it away"));
    assert!(lost(&committer.commit(&what)[0]).contains("part-0-1-1"));
    assert_eq!(fs::read(&part).expect("read"), b"theirs");
    fs::remove_file(&part).expect("the user moves it away");
    assert_eq!(committer.commit(&what), [CommitAnswer::Committed], "the staged file was kept");
}

#[test]
fn a_committable_whose_files_are_gone_is_lost_or_proved_by_its_content() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["a"])];
    let mut committer = committer(folder.path(), 1);
    assert_eq!(committer.commit(&what), [CommitAnswer::Committed]);
    fs::remove_dir_all(folder.path().join(".weir-staging")).expect("the user cleans up");
    assert_eq!(committer.commit(&what), [CommitAnswer::AlreadyCommitted], "the final file has its name and its content");
    fs::write(folder.path().join("part-0-1-1"), "b\n").expect("write");
    assert!(lost(&committer.commit(&what)[0]).contains("someone removed them"));
}

#[test]
fn a_damaged_staged_file_is_not_committed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["abc"])];
    let staged = connector(folder.path()).staging.staged(&what[0].id);
    fs::write(&staged, "abd\n").expect("write");
    assert!(
        lost(&committer(folder.path(), 2).commit(&what)[0]).contains("damaged"),
        "same length, other content, after a failover"
    );
    fs::write(&staged, "ab").expect("write");
    assert!(lost(&committer(folder.path(), 1).commit(&what)[0]).contains("2 bytes"));
    assert!(!folder.path().join("part-0-1-1").exists());
}

#[test]
fn an_abort_that_was_cut_short_is_finished_and_never_commits() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["a"])];
    // The crash after the first removal of an abort.
    fs::remove_file(connector(folder.path()).staging.marker(&what[0].id)).expect("remove");
    let mut committer = committer(folder.path(), 2);
    assert!(lost(&committer.commit(&what)[0]).contains("no marker"));
    assert_eq!(committer.list_dangling().expect("listed"), [what[0].id.clone()]);
    assert_eq!(committer.abort(&[what[0].id.clone()]), [AbortAnswer::Aborted]);
    assert_eq!(committer.list_dangling().expect("listed"), []);
}

#[test]
fn an_abort_removes_the_marker_before_the_staged_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = prepared(folder.path(), 1, &["a"]);
    let staging = connector(folder.path()).staging;
    // A folder in the place of the staged file can't be removed: the abort stops where a crash might.
    fs::remove_file(staging.staged(&what.id)).expect("remove");
    fs::create_dir(staging.staged(&what.id)).expect("create");
    let answers = committer(folder.path(), 2).abort(std::slice::from_ref(&what.id));
    assert!(matches!(&answers[..], [AbortAnswer::Retryable(why)] if why.contains("cannot remove")), "{answers:?}");
    assert!(!staging.marker(&what.id).exists(), "alone, it would say: committed");
    assert!(staging.staged(&what.id).exists());
}

#[test]
fn a_writer_that_was_taken_over_leaves_no_marker() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut stalled = writer(folder.path(), 0);
    stalled.begin(&id(1)).expect("begins");
    stalled.write(&values(&["a"])).expect("writes");
    assert_eq!(committer(folder.path(), 2).abort(&[id(1)]), [AbortAnswer::Aborted]);
    let step = stalled.prepare(CheckpointId::new(Generation(1), 1), false).expect("prepares").expect("has records");
    let error = step().expect_err("its staged file is gone");
    assert!(error.message.contains("taken this job over"), "{error}");
    assert_eq!(committer(folder.path(), 2).list_dangling().expect("listed"), [], "a marker alone would say: committed");
}

#[test]
fn two_names_of_one_file_are_a_commit_that_was_cut_short() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["a"])];
    fs::hard_link(connector(folder.path()).staging.staged(&what[0].id), folder.path().join("part-0-1-1")).expect("link");
    let mut committer = committer(folder.path(), 2);
    assert_eq!(committer.commit(&what), [CommitAnswer::Committed]);
    assert_eq!(committer.commit(&what), [CommitAnswer::AlreadyCommitted]);
    assert_eq!(fs::read(folder.path().join("part-0-1-1")).expect("read"), b"a\n");
}

#[test]
fn committables_of_another_kind_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let good = prepared(folder.path(), 1, &["a"]);
    let escape = String::from_utf8(good.bytes.clone()).expect("JSON").replace("part-0-1-1", "part-/../../x");
    let cases = [
        (Committable { version: 2, ..good.clone() }, "version 2"),
        (Committable { bytes: b"{}".to_vec(), ..good.clone() }, "can't be read"),
        (Committable { bytes: escape.into_bytes(), ..good.clone() }, "no final file"),
    ];
    for (bad, why) in cases {
        let answer = committer(folder.path(), 1).commit(&[bad]);
        assert!(lost(&answer[0]).contains(why), "{answer:?}");
    }
}

#[test]
fn a_changed_path_is_named() {
    let (before, after) = (tempfile::tempdir().expect("temporary folder"), tempfile::tempdir().expect("temporary folder"));
    let what = [prepared(before.path(), 1, &["a"])];
    let answer = committer(after.path(), 1).commit(&what);
    assert!(lost(&answer[0]).contains(&before.path().display().to_string()), "{answer:?}");
}

#[test]
fn what_is_not_committed_is_not_forgotten() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["a"])];
    let mut committer = committer(folder.path(), 1);
    assert!(committer.forget(&[what[0].id.clone()]).is_err());
    assert_eq!(committer.commit(&what), [CommitAnswer::Committed]);
}

#[test]
fn a_finished_job_sweeps_markers_that_nobody_forgot() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let what = [prepared(folder.path(), 1, &["a"])];
    assert_eq!(committer(folder.path(), 1).commit(&what), [CommitAnswer::Committed]);
    committer(folder.path(), 1).close(false).expect("closed");
    assert_eq!(committer(folder.path(), 1).commit(&what), [CommitAnswer::AlreadyCommitted], "a stop keeps the marker");
    fs::write(folder.path().join(".weir-staging/probe-x"), "").expect("what a killed start leaves");
    committer(folder.path(), 1).close(true).expect("closed");
    assert_eq!(tree(folder.path()), ["part-0-1-1"]);
}

#[test]
fn a_used_identity_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    prepared(folder.path(), 1, &["a"]);
    let mut twin = writer(folder.path(), 0);
    twin.begin(&id(1)).expect("begins");
    let error = twin.write(&values(&["b"])).expect_err("it is there already");
    assert!(error.message.contains("copies of one data folder") && error.remedy == Remedy::Permanent, "{error}");
}

#[test]
fn a_null_value_is_no_empty_line() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let mut writer = writer(dir.path(), 0);
    writer.begin(&id(1)).expect("begins");
    let mut records = values(&["a", ""]);
    writer.write(&records).expect("an empty value is a line");
    records.push_nullable(Some(b"k"), None, 0);
    let refused = writer.write(&records).expect_err("a line can't say it");
    assert_eq!(refused.remedy, Remedy::Permanent);
    assert!(refused.message.contains("sink out: a record's value is null"), "{refused}");
}

#[test]
fn large_transactions_are_whole() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let line = "x".repeat(999);
    let mut writer = writer(folder.path(), 0);
    writer.begin(&id(1)).expect("begins");
    let batch = values(&vec![line.as_str(); 100]);
    for _ in 0..20 {
        writer.write(&batch).expect("writes");
    }
    let checkpoint = CheckpointId::new(Generation(1), 1);
    let prepared =
        writer.prepare(checkpoint, false).expect("prepares").expect("has records")().expect("durable").expect("has records");
    let what = Committable {
        id: id(1),
        checkpoint,
        version: prepared.version,
        bytes: prepared.bytes,
        plugin: None,
        sources: Vec::new(),
        valid_until: None,
    };
    // Another generation commits it, so its checksum is compared too.
    assert_eq!(committer(folder.path(), 2).commit(&[what]), [CommitAnswer::Committed]);
    let content = fs::read_to_string(folder.path().join("part-0-1-1")).expect("final file");
    assert_eq!(content.lines().filter(|&got| got == line).count(), 2000);
    assert_eq!(content.len(), 2_000_000);
}

/// Something mounted for a test, which needs root.
struct Mount(PathBuf);

impl Mount {
    /// None, and a note, where this machine does not allow it.
    fn new(arguments: &[&str], on: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(arguments).arg(on).output();
        if mounted.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Mount(on.to_owned()));
        }
        println!("skipped: `mount {}` is not permitted here: {mounted:?}", arguments.join(" "));
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_mount_on_the_staging_folder_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (path, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
    let staging = path.join(".weir-staging");
    fs::create_dir_all(&staging).expect("create");
    fs::create_dir_all(&elsewhere).expect("create");
    let elsewhere = elsewhere.display().to_string();
    // The second has the same device number, so only the rename itself finds it.
    for arguments in [&["-t", "tmpfs", "none"][..], &["--bind", &elsewhere]] {
        let Some(_mount) = Mount::new(arguments, &staging) else { return };
        let error = connector(&path).prepare_target().expect_err("no rename crosses a mount");
        assert!(error.message.contains("different file systems") && error.remedy == Remedy::Permanent, "{error}");
        assert_eq!(tree(&path), [".weir-staging/"], "nothing stays");
    }
    connector(&path).prepare_target().expect("unmounted");
}

#[test]
fn a_full_disk_is_said_and_nothing_is_visible() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=1m", "none"], folder.path()) else { return };
    let path = folder.path().join("out");
    connector(&path).prepare_target().expect("there is room for a probe");
    let small = [prepared(&path, 1, &["before"])];
    let mut writer = writer(&path, 0);
    writer.begin(&id(2)).expect("begins");
    let batch = values(&vec!["0123456789"; 10_000]);
    let failed = (0..20).find_map(|_| writer.write(&batch).err()).expect("two megabytes don't fit");
    assert!(failed.message.contains("disk is full") && failed.message.contains("out/.weir-staging"), "{failed}");
    assert_eq!(failed.remedy, Remedy::Restart);
    assert_eq!(connector(&path).output().expect("listed"), None);
    drop(writer);
    // Recovery: first what the checkpoint holds, then room is made by aborting the rest.
    let mut committer = committer(&path, 2);
    assert_eq!(committer.commit(&small), [CommitAnswer::Committed]);
    assert_eq!(committer.abort(&[id(2)]), [AbortAnswer::Aborted]);
    let staged = connector(&path).staging.staged(&id(2));
    assert!(!staged.exists(), "what it filled is given back");
}
