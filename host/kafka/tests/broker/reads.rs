//! Describing, listing, and what a check of a job reads.

use crate::setup::{shared, soon};
use weir_kafka::{BrokerSetting, Described, End, EndOutcome, TopicFacts, TopicRights, TransactionState};

#[test]
fn many_ids_are_described_in_the_order_asked_for() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("many", 1);
    let names: Vec<String> = (0..30).map(|i| format!("many-{i}")).collect();
    for name in names.iter().step_by(2) {
        writer.prepare(name, "many", 60_000, &["x"]);
    }
    let ids: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut admin = broker.admin();
    let described = admin.describe(&ids, soon()).expect("the broker runs");
    assert_eq!(described.len(), ids.len());
    for (i, described) in described.iter().enumerate() {
        match described {
            Described::Known(now) => assert!(i % 2 == 0 && now.state == TransactionState::Ongoing, "{i}: {now}"),
            Described::UnknownId => assert!(i % 2 == 1, "{i}"),
        }
    }
}

#[test]
fn a_listing_has_every_state_and_only_ids_with_the_beginning() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("listed", 1);
    let mut admin = broker.admin();
    // What a pattern would take for more than itself.
    let prefix = "job.a(1)-";
    writer.prepare(&format!("{prefix}open"), "listed", 60_000, &["a"]);
    writer.prepare("joba(1)-other", "listed", 60_000, &["a"]);
    writer.init(&format!("{prefix}empty"), 60_000);
    let committed = writer.prepare(&format!("{prefix}committed"), "listed", 60_000, &["a"]);
    assert_eq!(admin.end(&committed, End::Commit, soon()), EndOutcome::Committed);
    let aborted = writer.prepare(&format!("{prefix}zaborted\nü"), "listed", 60_000, &["a"]);
    assert_eq!(admin.end(&aborted, End::Abort, soon()), EndOutcome::Aborted);

    let listing = admin.list(prefix, soon()).expect("the broker runs");
    assert_eq!(listing.unchecked, None);
    let found: Vec<(&str, &TransactionState)> =
        listing.transactions.iter().map(|listed| (&listed.transactional_id[prefix.len()..], &listed.state)).collect();
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["committed", "empty", "open", "zaborted\nü"]);
    assert!(matches!(found[0].1, TransactionState::PrepareCommit | TransactionState::CompleteCommit));
    assert_eq!(*found[1].1, TransactionState::Empty);
    assert_eq!(*found[2].1, TransactionState::Ongoing);
    assert!(matches!(found[3].1, TransactionState::PrepareAbort | TransactionState::CompleteAbort));
    assert_eq!(listing.transactions[0].producer_id, committed.producer_id);
    assert_eq!(admin.list("nobody's", soon()).expect("the broker runs").transactions, []);
    assert!(admin.list("", soon()).expect("the broker runs").transactions.len() >= 5);
}

#[test]
fn settings_of_brokers_and_facts_of_topics_are_read() {
    let broker = shared();
    broker.writer().topic("facts", 3);
    let mut admin = broker.admin();
    let longest = admin.describe_broker_config("transaction.max.timeout.ms", soon()).expect("the broker runs");
    assert_eq!(longest, [BrokerSetting { broker: 1, value: Some("3600000".to_owned()) }]);
    let unknown = admin.describe_broker_config("no.such.setting", soon()).expect("the broker runs");
    assert_eq!(unknown, [BrokerSetting { broker: 1, value: None }]);
    let facts = admin.topics(&["no-such-topic", "facts"], soon()).expect("the broker runs");
    let expected = TopicFacts {
        name: "facts".to_owned(),
        partitions: 3,
        replication_factor: 1,
        min_insync_replicas: Some(1),
        rights: Some(TopicRights { read: true, write: true }),
    };
    assert_eq!(facts, [None, Some(expected)]);
    assert_eq!(admin.topics(&["no-such-topic"], soon()).expect("the broker runs"), [None], "asking has not made it");
}
