//! `weir check` and `weir txn` on a real broker: what is told of a cluster, and how transactions get an end without their job.

use serde_json::Value;
use std::collections::BTreeSet;
use weir_tests::kafka::{OrdersCase, SLOW, broker};
use weir_tests::process::Ended;

/// A job that died when its third checkpoint was decided and not committed.
fn dead(name: &str) -> OrdersCase<'static> {
    let case = OrdersCase::new(broker(), name, SLOW);
    case.fill(0..60_000);
    let killed = case.start(&[], &[("WEIR_CRASH_AT", "manifest-published:3")]).finish();
    assert!(killed.was_killed(), "{killed:?}");
    case
}

/// Names of those of this standing in the answer to `weir txn … --json`.
pub fn names(answer: &Ended, standing: &str) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(&answer.stdout).expect("it is JSON");
    let rows =
        document["sinks"].as_array().expect("sinks").iter().flat_map(|sink| sink["transactions"].as_array().expect("rows"));
    rows.filter(|row| row["standing"] == standing).map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn what_a_dead_job_has_decided_is_committed_by_its_data_folder_alone() {
    let case = dead("dead");
    let before = broker().read(&case.output()).len();
    let told = ["Ongoing", "weir-dead-balances-1-", "'weir txn commit'", "records of 'orders', in-dead/", "out-dead/"];
    case.weir(&["txn", "list", "job.toml", "--data", "data"]).expect_code(0).expect_text(&told);
    std::fs::remove_file(case.scratch.path("job.toml")).unwrap();
    let committed = case.weir(&["txn", "commit", "data"]).expect_code(0);
    assert!(committed.stdout.contains("of the newest checkpoint are committed"), "{committed:?}");
    let after = broker().read(&case.output()).len();
    assert!(after > before, "{before} records before, {after} after");
    // Once more does no harm.
    let again = case.weir(&["txn", "commit", "data", "--json"]).expect_code(0);
    assert_eq!(names(&again, "in-checkpoint"), BTreeSet::new());
    assert_eq!(broker().read(&case.output()).len(), after);
    // Nor to a job that is found again: it commits a third time what is committed, and goes on from there.
    case.write_job("job.toml", SLOW);
    case.start(&[], &[]).finish().expect_code(0);
    case.judge().unwrap();
    case.weir(&["txn", "list", "job.toml", "--data", "data"]).expect_code(0).expect_text(&["nothing dangling"]);
}

#[test]
fn what_a_checkpoint_holds_is_aborted_only_if_that_is_said() {
    let case = dead("given-up");
    let txn = |words: &[&str]| case.weir(&[&["txn"], words, &["--json"]].concat());
    let job = ["job.toml", "--data", "data"];
    let list = || txn(&[&["list"], &job[..]].concat()).expect_code(0);
    let held = names(&list(), "in-checkpoint");
    let one = held.first().expect("one waits for its commit").clone();
    txn(&[&["abort"], &job[..], &[&one]].concat()).expect_code(2).expect_text(&[&one, "weir txn commit", "--lose-output"]);
    let unknown = txn(&[&["abort"], &job[..], &["weir-given-up-balances-9-9-9", "--lose-output"]].concat());
    unknown.expect_code(2).expect_text(&["no such transaction is open"]);
    txn(&[&["abort"], &job[..], &["--all"]].concat()).expect_code(0);
    let left = list();
    assert_eq!((names(&left, "in-checkpoint"), names(&left, "in-none")), (held, BTreeSet::new()));
    txn(&[&["abort"], &job[..], &[&one, "--lose-output"]].concat()).expect_code(0);
    let lost = txn(&[&["list"], &job[..]].concat()).expect_code(3);
    assert_eq!(names(&lost, "lost").len(), 1, "{lost:?}");
    case.start(&[], &[]).finish().expect_code(3).expect_text(&[&one, "in-given-up/"]);
}

/// Whoever reads what it wrote to must not wait for its timeout.
#[test]
fn a_job_that_fails_for_good_leaves_no_transaction_open() {
    let case = OrdersCase::new(broker(), "failed", &[("interval = \"500ms\"", "interval = \"60s\"")]);
    case.fill(0..5_000);
    let mut running = case.start(&[], &[("UNTIL", "never")]);
    let list = || case.weir(&["txn", "list", "job.toml", "--data", "data", "--json"]);
    running.wait_until("a transaction is open", || {
        let listed = list();
        listed.code() == Some(0) && !names(&listed, "in-none").is_empty()
    });
    broker().write(&case.input(), [(0, "a1".to_owned(), "no order".to_owned())]);
    running.finish().expect_code(1);
    let listed = list().expect_code(0);
    assert_eq!(names(&listed, "in-none"), BTreeSet::new(), "{listed:?}");
}

#[test]
fn a_job_that_runs_ends_its_transactions_itself() {
    let case = OrdersCase::new(broker(), "runs", &[("until = \"${UNTIL:-never}\"", "")]);
    case.fill(0..1_000);
    let mut running = case.start(&[], &[]);
    let output = case.output();
    running.wait_until("the orders are booked", || broker().read(&output).len() == 1_000);
    case.weir(&["txn", "list", "job.toml", "--data", "data"]).expect_code(0).expect_text(&["it seems to run"]);
    case.weir(&["txn", "commit", "job.toml", "--data", "data"]).expect_code(2).expect_text(&["is in use by"]);
    case.weir(&["txn", "abort", "job.toml", "--data", "data", "--all"]).expect_code(2).expect_text(&["is in use by"]);
    running.signal(rustix::process::Signal::TERM);
    running.finish().expect_code(0);
    case.judge().unwrap();
}

#[test]
fn check_tells_what_the_brokers_say() {
    let case = OrdersCase::new(broker(), "checked", &[]);
    case.fill(0..100);
    case.weir(&["check", "job.toml", "--data", "data"]).expect_code(0).expect_text(&[
        "topic in-checked: 4 partitions, 100 offsets stored",
        "topic out-checked: 4 partitions, 1 replica, min.insync.replicas 1",
        "WARNING: topic out-checked has one replica",
        "WARNING: the brokers keep one copy of what they know of transactions",
        "transactions weir-checked-balances-…: 0 names known to the brokers, 0 open",
        "a transaction may be open for 15m",
        "the usual formula",
        "must run again within",
        "isolation.level = read_committed",
    ]);
    let long = ("topic = \"${OUT:-balances}\"", "topic = \"${OUT:-balances}\"\ntransaction_timeout = \"2h\"");
    case.write_job("long.toml", &[long]);
    case.weir(&["check", "long.toml"]).expect_code(2).expect_text(&["the brokers allow 1h", "transaction.max.timeout.ms"]);
    case.write_job("nowhere.toml", &[("topic = \"${OUT:-balances}\"", "topic = \"nowhere\"")]);
    case.weir(&["check", "nowhere.toml"]).expect_code(2).expect_text(&["there is no topic nowhere"]);
    case.weir(&["check", "nowhere.toml", "--offline"]).expect_code(0);
    // Another data folder, and names that this one has used.
    case.start(&[], &[]).finish().expect_code(0);
    case.weir(&["check", "job.toml", "--data", "data"]).expect_code(0);
    case.weir(&["check", "job.toml", "--data", "other"]).expect_code(2).expect_text(&["--take-over", "transaction_prefix"]);
}
