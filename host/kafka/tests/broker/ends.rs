//! Committing and aborting what another producer wrote.

use crate::setup::{shared, soon};
use crate::writer::until;
use kafka_protocol::messages::EndTxnRequest;
use kafka_protocol::protocol::StrBytes;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_kafka::{Described, Description, End, EndOutcome, TransactionAdmin, TransactionHandle, TransactionState};

const MINUTE: i32 = 60_000;

fn commit(admin: &mut TransactionAdmin, handle: &TransactionHandle) -> EndOutcome {
    admin.end(handle, End::Commit, soon())
}

fn abort(admin: &mut TransactionAdmin, handle: &TransactionHandle) -> EndOutcome {
    admin.end(handle, End::Abort, soon())
}

fn describe(admin: &mut TransactionAdmin, id: &str) -> Option<Description> {
    match admin.describe(&[id], soon()).expect("the broker runs").remove(0) {
        Described::UnknownId => None,
        Described::Known(description) => Some(description),
    }
}

/// Epoch of who has the id now.
fn fenced_by(outcome: EndOutcome) -> i16 {
    match outcome {
        EndOutcome::Fenced { now: Some(now), unanswered: false } => now.epoch,
        other => panic!("{other:?}"),
    }
}

/// The other side of the next test: writes into a transaction, says which, and waits to be killed.
#[test]
fn a_process_that_writes_and_dies() {
    let Ok(port) = std::env::var("WEIR_KAFKA_WRITER_PORT") else { return };
    let mut writer = crate::writer::Writer::connect(port.parse().expect("a port"));
    let handle = writer.prepare("dying", "dying", MINUTE, &["a", "b", "c"]);
    println!("\nprepared {} {}", handle.producer_id, handle.epoch);
    loop {
        std::thread::park();
    }
}

#[test]
fn a_transaction_of_a_process_that_was_killed_is_committed() {
    let broker = shared();
    let mut reader = broker.writer();
    reader.topic("dying", 1);
    let mut process = Command::new(std::env::current_exe().expect("this file"))
        .args(["ends::a_process_that_writes_and_dies", "--exact", "--nocapture"])
        .env("WEIR_KAFKA_WRITER_PORT", broker.port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this file can be started again");
    let output = BufReader::new(process.stdout.take().expect("it is piped"));
    let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("prepared ")).expect("it prepares");
    process.kill().expect("it runs");
    process.wait().expect("it was started here");
    let numbers: Vec<i64> = line.split(' ').skip(1).map(|number| number.parse().expect("a number")).collect();
    let handle = TransactionHandle { transactional_id: "dying".to_owned(), producer_id: numbers[0], epoch: numbers[1] as i16 };

    assert_eq!(reader.read("dying"), (vec![], true), "nothing is readable before the commit");
    let mut admin = broker.admin();
    let description = describe(&mut admin, "dying").expect("it is known");
    assert_eq!((description.state, description.epoch), (TransactionState::Ongoing, handle.epoch));
    assert_eq!(description.partitions, [("dying".to_owned(), vec![0])]);
    assert_eq!(description.timeout, Duration::from_millis(MINUTE as u64));
    assert!(description.start_ms.is_some_and(|ms| ms > 1_500_000_000_000));

    assert_eq!(commit(&mut admin, &handle), EndOutcome::Committed);
    reader.expect("dying", &["a", "b", "c"]);
}

#[test]
fn committing_three_times_is_committing_once() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("thrice", 1);
    let handle = writer.prepare("thrice", "thrice", MINUTE, &["a"]);
    let mut admin = broker.admin();
    for _ in 0..3 {
        assert_eq!(commit(&mut admin, &handle), EndOutcome::Committed);
    }
    // From a client that knows nothing of it, and at once.
    assert_eq!(commit(&mut broker.admin(), &handle), EndOutcome::Committed);
    // Too late to abort: the answer says what it is.
    assert_eq!(abort(&mut admin, &handle), EndOutcome::Committed);
    writer.expect("thrice", &["a"]);
}

#[test]
fn what_was_aborted_stays_aborted() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("aborted", 1);
    let handle = writer.prepare("aborted", "aborted", MINUTE, &["a"]);
    let mut admin = broker.admin();
    assert_eq!(abort(&mut admin, &handle), EndOutcome::Aborted);
    // At once, while the markers may be under way, and later.
    assert!(matches!(commit(&mut admin, &handle), EndOutcome::Lost(_)));
    assert_eq!(abort(&mut admin, &handle), EndOutcome::Aborted);
    until("the abort is complete", || {
        describe(&mut admin, "aborted").is_some_and(|now| now.state == TransactionState::CompleteAbort)
    });
    match commit(&mut admin, &handle) {
        EndOutcome::Lost(why) => assert!(why.contains("CompleteAbort"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(abort(&mut admin, &handle), EndOutcome::Aborted);
    writer.expect("aborted", &[]);
}

#[test]
fn a_fence_aborts_what_is_open_and_shuts_its_producer_out() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("fenced", 1);
    let handle = writer.prepare("fenced", "fenced", MINUTE, &["a"]);
    let mut admin = broker.admin();
    let fenced = admin.fence("fenced", soon()).expect("the broker runs");
    assert_eq!(fenced.producer_id, handle.producer_id);
    assert_eq!(fenced.epoch, handle.epoch + 2, "one for the abort, one for the new owner");
    assert_eq!(fenced_by(commit(&mut admin, &handle)), fenced.epoch);
    assert_eq!(fenced_by(abort(&mut admin, &handle)), fenced.epoch);
    let (added, produced) = writer.try_write(&handle, "fenced", 0, &["b"]);
    assert!(added != 0 || produced != 0, "the old producer may not write");
    writer.expect("fenced", &[]);
    // Fencing what is not open raises the epoch by one.
    assert_eq!(admin.fence("fenced", soon()).expect("the broker runs").epoch, fenced.epoch + 1);
    // An id that nobody has used becomes known.
    assert_eq!(describe(&mut admin, "never"), None);
    assert_eq!(admin.fence("never", soon()).expect("the broker runs").epoch, 0);
    let now = describe(&mut admin, "never").expect("it is known");
    assert_eq!((now.state, now.start_ms, now.partitions.len()), (TransactionState::Empty, None, 0));
}

#[test]
fn a_late_commit_cannot_hit_the_transaction_of_the_next_producer() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("next", 1);
    let first = writer.prepare("next", "next", MINUTE, &["a"]);
    let mut admin = broker.admin();
    assert_eq!(commit(&mut admin, &first), EndOutcome::Committed);
    let second = writer.prepare("next", "next", MINUTE, &["b"]);
    assert_eq!(fenced_by(commit(&mut admin, &first)), second.epoch);
    assert_eq!(fenced_by(abort(&mut admin, &first)), second.epoch);
    let now = describe(&mut admin, "next").expect("it is known");
    assert_eq!((now.state, now.epoch), (TransactionState::Ongoing, second.epoch), "untouched");
    assert_eq!(abort(&mut admin, &second), EndOutcome::Aborted);
    writer.expect("next", &["a"]);
}

#[test]
fn a_transaction_that_the_broker_has_timed_out_is_fenced() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("late", 1);
    let handle = writer.prepare("late", "late", 1_000, &["a"]);
    let mut admin = broker.admin();
    until("the timeout aborts it", || {
        describe(&mut admin, "late").is_some_and(|now| now.state == TransactionState::CompleteAbort)
    });
    match commit(&mut admin, &handle) {
        EndOutcome::Fenced { now: Some(now), unanswered: false } => {
            assert_eq!((now.state, now.epoch), (TransactionState::CompleteAbort, handle.epoch + 1));
        }
        other => panic!("{other:?}"),
    }
    writer.expect("late", &[]);
}

#[test]
fn ids_and_producers_that_the_coordinator_does_not_know_are_told_apart() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("strange", 1);
    let mut admin = broker.admin();
    let unknown = TransactionHandle { transactional_id: "no such id".to_owned(), producer_id: 5, epoch: 0 };
    assert_eq!(commit(&mut admin, &unknown), EndOutcome::UnknownId { now: None });
    assert_eq!(abort(&mut admin, &unknown), EndOutcome::UnknownId { now: None });

    let handle = writer.prepare("strange", "strange", MINUTE, &["a"]);
    let other = TransactionHandle { producer_id: handle.producer_id + 1_000_000, ..handle.clone() };
    match commit(&mut admin, &other) {
        EndOutcome::UnknownId { now: Some(now) } => assert_eq!(now.producer_id, handle.producer_id),
        other => panic!("{other:?}"),
    }
    for epoch in [handle.epoch + 1, handle.epoch + 5] {
        let wrong = TransactionHandle { epoch, ..handle.clone() };
        assert_eq!(fenced_by(commit(&mut admin, &wrong)), handle.epoch);
        assert_eq!(fenced_by(abort(&mut admin, &wrong)), handle.epoch);
    }
    // None of that has touched it.
    assert_eq!(commit(&mut admin, &handle), EndOutcome::Committed);
    writer.expect("strange", &["a"]);
}

#[test]
fn a_transaction_that_was_never_written_cannot_be_committed() {
    let broker = shared();
    let mut writer = broker.writer();
    let handle = writer.init("empty", MINUTE);
    let mut admin = broker.admin();
    match commit(&mut admin, &handle) {
        EndOutcome::Lost(why) => assert!(why.contains("48 INVALID_TXN_STATE") && why.contains("Empty"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(abort(&mut admin, &handle), EndOutcome::Aborted, "there is nothing to abort");
}

fn end_txn(handle: &TransactionHandle, end: End) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(StrBytes::from_string(handle.transactional_id.clone()).into())
        .with_producer_id(handle.producer_id.into())
        .with_producer_epoch(handle.epoch)
        .with_committed(end == End::Commit)
}

/// Somebody else asks for an end and dies before the answer; at once we ask for the same or for the other one.
#[test]
fn what_is_said_is_what_readers_see_whoever_else_has_asked() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("raced", 1);
    let mut admin = broker.admin();
    let mut committed = Vec::new();
    for i in 0..40 {
        let value = format!("raced-{i}");
        let handle = writer.prepare("raced", "raced", MINUTE, &[&value]);
        let (theirs, ours) = match i % 4 {
            0 => (End::Commit, End::Commit),
            1 => (End::Abort, End::Commit),
            2 => (End::Commit, End::Abort),
            _ => (End::Abort, End::Abort),
        };
        broker.writer().send(4, &end_txn(&handle, theirs));
        match (admin.end(&handle, ours, soon()), theirs, ours) {
            (EndOutcome::Committed, End::Commit, _) | (EndOutcome::Committed, _, End::Commit) => committed.push(value),
            (EndOutcome::Lost(_), End::Abort, End::Commit) | (EndOutcome::Aborted, _, End::Abort) => {}
            other => panic!("{i}: {other:?}"),
        }
    }
    assert!(committed.len() >= 10, "two commits are a commit");
    writer.expect("raced", &committed.iter().map(String::as_str).collect::<Vec<_>>());
}

/// What the decisions of `src/end.rs` rest on: the coordinator's own codes, in every version that is spoken.
#[test]
fn the_coordinator_answers_as_the_table_of_decisions_says() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("codes", 1);
    let mut admin = broker.admin();
    for version in 2..=4 {
        let id = format!("codes-{version}");
        let empty = writer.init(&id, MINUTE);
        let stranger = TransactionHandle { producer_id: empty.producer_id + 1_000_000, ..empty.clone() };
        let late = TransactionHandle { epoch: empty.epoch + 1, ..empty.clone() };
        let unknown = TransactionHandle { transactional_id: format!("codes-unknown-{version}"), ..empty.clone() };
        let mut code = |handle: &TransactionHandle, end| {
            let request = end_txn(handle, end);
            let mut code = 51;
            until("the markers are written", || {
                code = writer.call(version, &request).error_code;
                code != 51
            });
            code
        };
        for (handle, expected) in [(&empty, 48), (&stranger, 49), (&late, 90), (&unknown, 49)] {
            for end in [End::Commit, End::Abort] {
                assert_eq!(code(handle, end), expected, "{end:?} of {handle:?} by v{version}");
            }
        }
        let committed = broker.writer().prepare(&id, "codes", MINUTE, &["x"]);
        for (end, expected) in [(End::Commit, 0), (End::Commit, 0), (End::Abort, 48), (End::Commit, 0)] {
            assert_eq!(code(&committed, end), expected, "{end:?} once committed, by v{version}");
        }
        let aborted = broker.writer().prepare(&id, "codes", MINUTE, &["x"]);
        for (end, expected) in [(End::Abort, 0), (End::Commit, 48), (End::Abort, 0), (End::Commit, 48)] {
            assert_eq!(code(&aborted, end), expected, "{end:?} once aborted, by v{version}");
        }
        let fenced = admin.fence(&id, soon()).expect("the broker runs");
        assert_eq!(fenced.epoch, aborted.epoch + 1);
        for end in [End::Commit, End::Abort] {
            assert_eq!(code(&aborted, end), 90, "{end:?} of an older epoch, by v{version}");
        }
    }
}
