//! Kafka to Kafka on a real broker, exactly once: killed at every point and at random, judged by what a `read_committed` reader
//! sees.

use crate::outside::names;
use std::collections::BTreeSet;
use std::time::Duration;
use weir_tests::kafka::{Broker, OrdersCase, SLOW, broker};
use weir_tests::{Seeded, soak};

/// Points that a job without Kafka never passes.
pub const OWN_POINTS: [&str; 3] = ["kafka-standby-ready", "kafka-flushed", "recover-fencing"];

/// Points that a checkpoint of this job passes, and a recovery of it: all but the last one's.
const POINTS: &[&str] = &[
    "barrier-injected",
    "barrier-aligned",
    "snapshot-sync-done",
    "upload-partial",
    "kafka-standby-ready:3",
    "kafka-flushed",
    "sink-prepared",
    "ack-received",
    "all-acked",
    "manifest-partial",
    "claimed",
    "manifest-published",
    "commit-sent",
    "commit-partial",
    "committed",
    "retention",
    "restore-begun",
    "recover-committed",
    "recover-fencing",
    "recover-aborted",
];

/// Ids of orders, as (partition, key, value).
pub fn ids(records: &[(i32, String, String)]) -> BTreeSet<u64> {
    let id = |value: &str| serde_json::from_str::<serde_json::Value>(value).ok()?["id"].as_u64();
    records.iter().map(|(_, _, value)| id(value).expect("an order has an id")).collect()
}

#[test]
fn orders_survive_a_kill_at_every_point() {
    let tried = |point: &str| POINTS.iter().any(|tried| tried.split(':').next() == Some(point));
    let known = weir_host::crash::POINTS.iter().map(|(point, _)| *point);
    let missing: Vec<&str> =
        known.filter(|point| *point != "final-checkpoint" && !point.starts_with("swap-") && !tried(point)).collect();
    assert!(missing.is_empty(), "points that nobody tries: {missing:?}");
    let case = OrdersCase::new(broker(), "points", SLOW);
    case.fill(0..150_000);
    // A life before, so that recoveries have something to do.
    case.start(&[], &[("WEIR_CRASH_AT", "committed:2")]).finish();
    for point in POINTS {
        let killed = case.start(&[], &[("WEIR_CRASH_AT", point)]).finish();
        assert!(killed.was_killed(), "{point} was never passed: {killed:?}");
    }
    case.start(&[], &[]).finish().expect_code(0);
    case.judge().unwrap();
}

#[test]
fn orders_survive_kills_at_random_moments() {
    let kills = if soak() { 200 } else { 8 };
    let case = OrdersCase::new(broker(), "random", SLOW);
    case.fill(0..if soak() { 1_500_000 } else { 80_000 });
    let mut random = Seeded(0x0DE5);
    for _ in 0..kills {
        let delay = Duration::from_millis(50 + random.below(900));
        let ended = case.start(&[], &[]).kill_after(delay);
        assert!(ended.was_killed(), "the input is too short: {ended:?}");
    }
    case.start(&[], &[]).finish().expect_code(0);
    case.judge().unwrap();
}

/// Transactions have connections of their own, and a broker that comes back takes first what comes first.
#[test]
fn orders_survive_a_broker_that_dies_and_comes_back() {
    let own = Broker::start();
    let case = OrdersCase::new(&own, "broker", SLOW);
    case.fill(0..if soak() { 1_000_000 } else { 60_000 });
    let mut random = Seeded(0xB20C);
    let mut running = case.start(&[], &[]);
    for _ in 0..if soak() { 20 } else { 2 } {
        if running.wait_for(Duration::from_millis(300 + random.below(1_200))).is_some() {
            break;
        }
        own.kill();
        own.up();
    }
    running.finish().expect_code(0);
    case.judge().unwrap();
}

/// A broker that has just started leads its partitions before it coordinates their transactions: what it lists then is not all.
#[test]
fn a_start_beside_that_of_the_broker_misses_no_open_transaction() {
    let own = Broker::start();
    for round in 0..if soak() { 12 } else { 3 } {
        let case = OrdersCase::new(&own, &format!("beside-{round}"), SLOW);
        case.fill(0..20_000);
        assert!(case.start(&[], &[("WEIR_CRASH_AT", "kafka-flushed:3")]).finish().was_killed());
        own.kill();
        std::thread::scope(|scope| {
            scope.spawn(|| own.up());
            // As a supervisor would: again until the brokers can be reached.
            let ended = std::iter::repeat_with(|| case.start(&[], &[]).finish()).find(|ended| ended.code() != Some(2));
            ended.expect("without end").expect_code(0);
        });
        let listed = case.weir(&["txn", "list", "job.toml", "--data", "data", "--json"]).expect_code(0);
        assert_eq!(names(&listed, "in-none"), BTreeSet::new(), "{listed:?}");
        case.judge().unwrap();
    }
}

/// Decided and not committed, and aborted outside meanwhile: nobody can make it good, so nobody may pass over it.
#[test]
fn a_transaction_that_was_aborted_before_its_commit_stops_the_job_with_its_ranges() {
    let case = OrdersCase::new(broker(), "lost", SLOW);
    case.fill(0..30_000);
    let killed = case.start(&[], &[("WEIR_CRASH_AT", "manifest-published:3")]).finish();
    assert!(killed.was_killed(), "{killed:?}");
    let before = broker().read(&case.output()).len();
    // The first slot of either writer is that of its first transaction, or was used again since: one of them is open.
    for slot in ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"] {
        broker().take_id(&format!("weir-lost-balances-1-{slot}"));
    }
    for _ in 0..2 {
        let ended = case.start(&[], &[]).finish();
        ended.expect_code(3).expect_text(&["weir-lost-balances-1-", "in-lost/"]);
        assert_eq!(broker().read(&case.output()).len(), before, "nothing was written over the gap");
    }
}

#[test]
fn at_least_once_loses_nothing() {
    let asked =
        [SLOW[0], SLOW[1], ("topic = \"${OUT:-balances}\"", "topic = \"${OUT:-balances}\"\nguarantee = \"at-least-once\"")];
    let case = OrdersCase::new(broker(), "alo", &asked);
    case.fill(0..60_000);
    let killed = case.start(&[], &[("WEIR_CRASH_AT", "all-acked:3")]).finish();
    assert!(killed.was_killed(), "{killed:?}");
    case.start(&[], &[]).finish().expect_code(0);
    let (input, output) = (broker().read(&case.input()), broker().read(&case.output()));
    assert_eq!(ids(&output), ids(&input));
    assert!(output.len() > input.len(), "the kill came after a write: some come twice");
}

#[test]
fn a_second_checkout_is_refused_until_it_takes_over() {
    let case = OrdersCase::new(broker(), "checkouts", &[]);
    case.fill(0..1_000);
    case.start(&[], &[]).finish().expect_code(0);
    case.judge().unwrap();
    std::fs::rename(case.scratch.path("data"), case.scratch.path("gone")).unwrap();
    case.start(&[], &[]).finish().expect_code(2).expect_text(&["weir-checkouts-balances", "transaction_prefix", "--take-over"]);
    case.judge().unwrap();
    case.start(&["--take-over"], &[]).finish().expect_code(0).expect_text(&["generation 2 starts at the beginning"]);
}

#[test]
fn a_partition_that_comes_under_way_is_read() {
    let case = OrdersCase::new(broker(), "grows", &[("until = \"${UNTIL:-never}\"", "discovery = \"300ms\"")]);
    case.fill(0..1_000);
    let mut running = case.start(&[], &[]);
    let output = case.output();
    running.wait_until("the first orders are booked", || broker().read(&output).len() == 1_000);
    broker().grow(&case.input(), 5);
    let late = (0..100).map(|id| (4, "late".to_owned(), format!(r#"{{"id":{id},"account":"late","amount":1}}"#)));
    broker().write(&case.input(), late);
    running.wait_until("those of the new partition, too", || broker().read(&output).len() == 1_100);
    running.signal(rustix::process::Signal::TERM);
    running.finish().expect_code(0).expect_text(&["in-grows/4 came"]);
    case.judge().unwrap();
}

#[test]
fn what_cannot_be_reached_is_told() {
    let case = OrdersCase::new(broker(), "nobody", &[]);
    case.start(&[], &[("IN", "nowhere")]).finish().expect_code(2).expect_text(&["topic nowhere", "create it first"]);
    case.start(&[], &[("OUT", "nowhere")]).finish().expect_code(2).expect_text(&["there is no topic nowhere"]);
    case.start(&[], &[("BROKERS", "127.0.0.1:1")]).finish().expect_code(2).expect_text(&["brokers"]);
}
