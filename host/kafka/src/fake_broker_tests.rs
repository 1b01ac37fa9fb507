//! Calls against brokers that are slow, gone, outdated, confused or hostile.

use crate::describe::Described;
use crate::end::{End, EndOutcome, TransactionHandle};
use crate::error::KafkaError;
use crate::fake_broker::{Asked, FakeBroker, Reply, answer, greet, versions};
use crate::settings::Settings;
use crate::{TransactionAdmin, clock};
use bytes::Bytes;
use kafka_protocol::messages::describe_transactions_response::TransactionState as Row;
use kafka_protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::time::{Duration, Instant};

fn handle() -> TransactionHandle {
    TransactionHandle { transactional_id: "t".to_owned(), producer_id: 7, epoch: 3 }
}

fn admin(broker: &FakeBroker, more: &[(&str, &str)]) -> TransactionAdmin {
    let servers = broker.address();
    let properties = [("bootstrap.servers", servers.as_str())].into_iter().chain(more.iter().copied());
    TransactionAdmin::new(Settings::from_properties(properties).expect("they are right")).expect("no files are needed")
}

fn within(ms: u64) -> Instant {
    clock::monotonic() + Duration::from_millis(ms)
}

fn commit(broker: &FakeBroker, ms: u64) -> EndOutcome {
    admin(broker, &[]).end(&handle(), End::Commit, within(ms))
}

fn end_answer(asked: &Asked, error: i16) -> Reply {
    answer::<EndTxnRequest>(asked, &EndTxnResponse::default().with_error_code(error))
}

fn describe_answer(asked: &Asked, state: &'static str, epoch: i16) -> Reply {
    let row = Row::default()
        .with_transactional_id(StrBytes::from_static_str("t").into())
        .with_transaction_state(StrBytes::from_static_str(state))
        .with_producer_id(7.into())
        .with_producer_epoch(epoch);
    answer::<DescribeTransactionsRequest>(asked, &DescribeTransactionsResponse::default().with_transaction_states(vec![row]))
}

/// A broker that answers EndTxn by `ends`, one after the other, the last for ever, and describes as `state`.
fn ending(ends: &'static [Option<i16>], state: &'static str, epoch: i16) -> FakeBroker {
    let mut turn = 0;
    FakeBroker::start(move |asked| {
        if let Some(reply) = greet(asked) {
            return reply;
        }
        if asked.is::<DescribeTransactionsRequest>() {
            return describe_answer(asked, state, epoch);
        }
        let end = ends[turn.min(ends.len() - 1)];
        turn += 1;
        end.map_or(Reply::Close, |error| end_answer(asked, error))
    })
}

#[test]
fn setbacks_pass_and_the_answer_stands() {
    let broker = ending(&[Some(16), Some(14), None, Some(51), Some(0)], "Ongoing", 3);
    assert_eq!(commit(&broker, 10_000), EndOutcome::Committed);
    assert_eq!(broker.count::<EndTxnRequest>(), 5);
    assert!(
        broker.count::<FindCoordinatorRequest>() >= 4,
        "the coordinator is asked for again after 16, 14 and a lost connection"
    );
    assert!(broker.versions_of::<EndTxnRequest>().iter().all(|version| *version == 4));
}

#[test]
fn a_decision_that_is_durable_is_not_waited_for() {
    let broker = ending(&[Some(51)], "PrepareCommit", 3);
    assert_eq!(commit(&broker, 10_000), EndOutcome::Committed);
    assert_eq!(broker.count::<EndTxnRequest>(), 1);
}

#[test]
fn what_nobody_answered_is_unknown_and_what_was_not_done_is_not() {
    // Never answered: it may have been carried out.
    let lost = ending(&[None], "Ongoing", 3);
    assert!(matches!(commit(&lost, 300), EndOutcome::Unknown(_)));
    // Always refused before anything is done.
    let loading = ending(&[Some(14)], "Ongoing", 3);
    assert!(matches!(commit(&loading, 300), EndOutcome::Retryable(_)));
    // Once unanswered stays unknown, whatever is said without a decision later.
    let both = ending(&[None, Some(14)], "Ongoing", 3);
    assert!(matches!(commit(&both, 300), EndOutcome::Unknown(_)));
    // A pending decision may be our own.
    let pending = ending(&[Some(51)], "Ongoing", 3);
    assert!(matches!(commit(&pending, 300), EndOutcome::Unknown(_)));
    // Nobody there: nothing was sent.
    let port = FakeBroker::start(|_| Reply::Close).port;
    let settings = Settings::from_properties([("bootstrap.servers", format!("127.0.0.1:{port}"))]).expect("right");
    let outcome = TransactionAdmin::new(settings).expect("right").end(&handle(), End::Commit, within(200));
    assert!(matches!(&outcome, EndOutcome::Retryable(why) if why.contains("no connection")), "{outcome:?}");
}

#[test]
fn a_fence_after_a_lost_request_says_so() {
    let broker = ending(&[None, Some(90)], "Ongoing", 4);
    match commit(&broker, 5_000) {
        EndOutcome::Fenced { now: Some(now), unanswered: true } => assert_eq!(now.epoch, 4),
        other => panic!("{other:?}"),
    }
    let broker = ending(&[Some(90)], "CompleteAbort", 4);
    assert!(matches!(commit(&broker, 5_000), EndOutcome::Fenced { now: Some(_), unanswered: false }));
    // Refused now, but an earlier attempt may have been carried out.
    let broker = ending(&[None, Some(53)], "Ongoing", 3);
    assert!(matches!(commit(&broker, 5_000), EndOutcome::Unknown(why) if why.contains("WRITE on this TransactionalId")));
    let broker = ending(&[Some(53)], "Ongoing", 3);
    match commit(&broker, 5_000) {
        EndOutcome::Refused(error) => assert!(error.to_string().starts_with(&broker.address()), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_newest_version_of_end_txn_is_never_sent() {
    let broker = FakeBroker::start(|asked| {
        if asked.is::<ApiVersionsRequest>() {
            return versions(asked, &[(10, 0, 3), (26, 0, 5)]);
        }
        greet(asked).unwrap_or_else(|| end_answer(asked, 0))
    });
    assert_eq!(commit(&broker, 5_000), EndOutcome::Committed);
    assert_eq!(broker.versions_of::<EndTxnRequest>(), [4]);
    let newest_only = FakeBroker::start(|asked| {
        if asked.is::<ApiVersionsRequest>() {
            return versions(asked, &[(10, 0, 3), (26, 5, 6)]);
        }
        greet(asked).unwrap_or_else(|| end_answer(asked, 0))
    });
    let outcome = commit(&newest_only, 5_000);
    assert!(matches!(&outcome, EndOutcome::Refused(KafkaError::Unsupported { api: "EndTxn", .. })), "{outcome:?}");
    assert_eq!(newest_only.count::<EndTxnRequest>(), 0);
}

#[test]
fn a_broker_that_lacks_a_request_is_named_with_what_it_has() {
    let old = FakeBroker::start(|asked| {
        if asked.is::<ApiVersionsRequest>() {
            return versions(asked, &[(3, 0, 9), (10, 0, 3), (22, 0, 2), (26, 0, 1)]);
        }
        greet(asked).unwrap_or(Reply::Close)
    });
    match commit(&old, 5_000) {
        EndOutcome::Refused(error) => {
            let expected = format!(
                "{} can't be used: it offers versions 0 to 1 of EndTxn, but versions 2 to 4 are needed, which Kafka 2.7 has and \
                 every broker after it; use a newer broker",
                old.address()
            );
            assert_eq!(error.to_string(), expected);
        }
        other => panic!("{other:?}"),
    }
    let error = admin(&old, &[]).describe(&["t"], within(5_000)).expect_err("it has none");
    assert!(error.to_string().contains("it offers no version of DescribeTransactions"), "{error}");
    assert!(error.to_string().contains("Kafka 3.0"), "{error}");
}

#[test]
fn no_call_outlasts_its_deadline() {
    let silent = FakeBroker::start(|_| Reply::Silence);
    let begun = clock::monotonic();
    assert!(matches!(commit(&silent, 300), EndOutcome::Retryable(_)), "not even the greeting was answered");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let silent = FakeBroker::start(|asked| greet(asked).unwrap_or(Reply::Silence));
    assert!(matches!(commit(&silent, 300), EndOutcome::Unknown(_)));
    // A deadline in the past asks nobody.
    let nobody = FakeBroker::start(|_| Reply::Silence);
    assert!(matches!(commit(&nobody, 0), EndOutcome::Retryable(_)));
    // One that answers drop by drop gets no longer.
    let slow = FakeBroker::start(|_| Reply::Raw(vec![0, 0, 1, 0, 0]));
    let begun = clock::monotonic();
    assert!(matches!(commit(&slow, 300), EndOutcome::Retryable(_)));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_request_that_is_not_answered_in_time_is_asked_again() {
    let mut turn = 0;
    let broker = FakeBroker::start(move |asked| {
        greet(asked).unwrap_or_else(|| {
            turn += 1;
            if turn == 1 { Reply::Silence } else { end_answer(asked, 0) }
        })
    });
    let outcome = admin(&broker, &[("socket.timeout.ms", "200")]).end(&handle(), End::Commit, within(10_000));
    assert_eq!(outcome, EndOutcome::Committed);
}

#[test]
fn bytes_of_all_kinds_are_errors_and_never_a_panic() {
    // xorshift with a fixed seed: a failure repeats.
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let broker = FakeBroker::start(move |asked| {
        // Each kind of request is reached now and then.
        if next() % 3 > 0
            && let Some(reply) = greet(asked)
        {
            return reply;
        }
        let mut garbage: Vec<u8> = (0..next() % 80).map(|_| (next() >> 32) as u8).collect();
        match next() % 5 {
            0 => Reply::Raw(garbage),
            1 => Reply::Close,
            // The right number, then garbage.
            2 => {
                garbage.splice(0..0, asked.correlation.to_be_bytes());
                Reply::Frame(garbage)
            }
            // A claim of more than any answer has.
            3 => Reply::Raw([&i32::MAX.to_be_bytes()[..], &garbage].concat()),
            _ => Reply::Frame(garbage),
        }
    });
    let quick = [("socket.timeout.ms", "20")];
    for _ in 0..30 {
        let mut admin = admin(&broker, &quick);
        drop(admin.end(&handle(), End::Commit, within(60)));
        drop(admin.fence("t", within(60)));
        drop(admin.describe(&["t", "u"], within(60)));
        drop(admin.list("t", within(60)));
        drop(admin.describe_broker_config("x", within(60)));
        drop(admin.topics(&["x"], within(60)));
    }
}

#[test]
fn an_answer_to_another_request_is_not_taken() {
    let broker = FakeBroker::start(|asked| {
        let other = Asked { correlation: asked.correlation + 1, ..*asked };
        greet(asked).unwrap_or_else(|| end_answer(&other, 0))
    });
    let outcome = commit(&broker, 200);
    assert!(matches!(&outcome, EndOutcome::Unknown(why) if why.contains("it answers request")), "{outcome:?}");
    // Nor a description of an id that was not asked for.
    let broker = FakeBroker::start(|asked| greet(asked).unwrap_or_else(|| describe_answer(asked, "Ongoing", 3)));
    let error = admin(&broker, &[]).describe(&["u"], within(200)).expect_err("it described t");
    assert!(error.to_string().contains("asked to describe u"), "{error}");
}

#[test]
fn a_listener_that_speaks_tls_is_recognised() {
    let alert = FakeBroker::start(|_| Reply::Raw(vec![0x15, 3, 3, 0, 2, 2, 0x50]));
    let outcome = commit(&alert, 5_000);
    assert!(
        matches!(&outcome, EndOutcome::Refused(KafkaError::Tls { why, .. }) if why.contains("security.protocol")),
        "{outcome:?}"
    );
}

#[test]
fn a_server_that_cannot_prove_itself_gets_no_request() {
    let broker = FakeBroker::start(|asked| {
        if asked.is::<SaslHandshakeRequest>() {
            return answer::<SaslHandshakeRequest>(asked, &SaslHandshakeResponse::default());
        }
        if asked.is::<SaslAuthenticateRequest>() {
            // A challenge that is not for our nonce.
            let bytes = Bytes::from_static(b"r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
            return answer::<SaslAuthenticateRequest>(asked, &SaslAuthenticateResponse::default().with_auth_bytes(bytes));
        }
        greet(asked).unwrap_or_else(|| end_answer(asked, 0))
    });
    let sasl = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("sasl.username", "u"),
        ("sasl.password", "hunter2"),
    ];
    match admin(&broker, &sasl).end(&handle(), End::Commit, within(5_000)) {
        EndOutcome::Refused(KafkaError::Authentication { why, .. }) => {
            assert!(why.contains("does not continue our nonce") && !why.contains("hunter2"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(broker.count::<EndTxnRequest>(), 0);
}

#[test]
fn an_authentication_that_ends_is_renewed_before_it_does() {
    let broker = FakeBroker::start(|asked| {
        if asked.is::<SaslHandshakeRequest>() {
            return answer::<SaslHandshakeRequest>(asked, &SaslHandshakeResponse::default());
        }
        if asked.is::<SaslAuthenticateRequest>() {
            let accepted = SaslAuthenticateResponse::default().with_session_lifetime_ms(100);
            return answer::<SaslAuthenticateRequest>(asked, &accepted);
        }
        greet(asked).unwrap_or_else(|| end_answer(asked, 0))
    });
    let sasl =
        [("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "PLAIN"), ("sasl.username", "u"), ("sasl.password", "p")];
    let mut admin = admin(&broker, &sasl);
    assert_eq!(admin.end(&handle(), End::Commit, within(5_000)), EndOutcome::Committed);
    let before = broker.count::<SaslAuthenticateRequest>();
    clock::pause(Duration::from_millis(80));
    assert_eq!(admin.end(&handle(), End::Commit, within(5_000)), EndOutcome::Committed);
    assert!(broker.count::<SaslAuthenticateRequest>() > before);
    assert_eq!(broker.count::<EndTxnRequest>(), 2, "no request met the end");
}

#[test]
fn a_client_may_be_given_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<TransactionAdmin>();
}

/// Metadata of a cluster of this broker alone, whose partition of the coordinators' topic has this leader and epoch.
fn metadata(asked: &Asked, leader: i32, epoch: i32) -> Reply {
    let host = StrBytes::from_static_str("127.0.0.1");
    let broker = MetadataResponseBroker::default().with_node_id(1.into()).with_host(host).with_port(asked.port.into());
    let partition = MetadataResponsePartition::default().with_leader_id(leader.into()).with_leader_epoch(epoch);
    let name = StrBytes::from_static_str("__transaction_state");
    let topic = MetadataResponseTopic::default().with_name(Some(name.into())).with_partitions(vec![partition]);
    answer::<MetadataRequest>(asked, &MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic]))
}

fn list_answer(asked: &Asked, error: i16, ids: &[&'static str]) -> Reply {
    let row = |id: &&'static str| {
        list_transactions_response::TransactionState::default()
            .with_transactional_id(StrBytes::from_static_str(id).into())
            .with_transaction_state(StrBytes::from_static_str("Ongoing"))
    };
    let rows = ids.iter().map(row).collect();
    answer::<ListTransactionsRequest>(
        asked,
        &ListTransactionsResponse::default().with_error_code(error).with_transaction_states(rows),
    )
}

/// What is said of the only id of nobody in a cluster of one partition.
fn nobodys_answer(asked: &Asked, error: i16) -> Reply {
    let row = Row::default().with_transactional_id(StrBytes::from_static_str("t-nobody-0").into()).with_error_code(error);
    answer::<DescribeTransactionsRequest>(asked, &DescribeTransactionsResponse::default().with_transaction_states(vec![row]))
}

#[test]
fn a_listing_waits_for_loading_coordinators_and_for_moves_to_end() {
    // No coordinator yet at first, then loading, then a move between the two looks, then still.
    let (mut described, mut looks, mut lists) = (0, 0, 0);
    let broker = FakeBroker::start(move |asked| {
        if asked.is::<MetadataRequest>() {
            looks += 1;
            return metadata(asked, 1, if looks <= 3 { 5 } else { 6 });
        }
        if asked.is::<DescribeTransactionsRequest>() {
            described += 1;
            return nobodys_answer(asked, if described == 1 { 16 } else { 105 });
        }
        if asked.is::<ListTransactionsRequest>() {
            lists += 1;
            return list_answer(asked, if lists == 1 { 14 } else { 0 }, &["t-2", "other", "t-1"]);
        }
        greet(asked).unwrap_or(Reply::Close)
    });
    let listing = admin(&broker, &[]).list("t-", within(10_000)).expect("it is still at last");
    let ids: Vec<&str> = listing.transactions.iter().map(|listed| listed.transactional_id.as_str()).collect();
    assert_eq!(ids, ["t-1", "t-2"], "others are left out although this broker can't filter by id");
    assert_eq!(listing.unchecked, None);
    assert_eq!((broker.count::<DescribeTransactionsRequest>(), broker.count::<ListTransactionsRequest>()), (4, 3));
}

#[test]
fn a_listing_without_a_coordinator_is_an_error() {
    let broker = FakeBroker::start(|asked| {
        if asked.is::<MetadataRequest>() {
            return metadata(asked, -1, 5);
        }
        if asked.is::<ListTransactionsRequest>() {
            return list_answer(asked, 0, &[]);
        }
        greet(asked).unwrap_or(Reply::Close)
    });
    let error = admin(&broker, &[]).list("t-", within(200)).expect_err("some ids can't be seen");
    assert!(error.to_string().contains("has no leader"), "{error}");
}

#[test]
fn ids_that_no_broker_takes_are_refused_before_they_are_sent() {
    let broker = FakeBroker::start(|_| Reply::Close);
    let mut admin = admin(&broker, &[]);
    assert!(matches!(admin.fence("", within(5_000)), Err(KafkaError::Request(_))));
    assert!(matches!(admin.fence(&"x".repeat(40_000), within(5_000)), Err(KafkaError::Request(_))));
    assert!(matches!(admin.describe(&["ok", ""], within(5_000)), Err(KafkaError::Request(_))));
    assert_eq!(admin.describe(&[], within(5_000)), Ok(Vec::<Described>::new()));
    assert_eq!(broker.count::<ApiVersionsRequest>(), 0);
}

#[test]
fn one_server_of_several_is_enough() {
    let gone = FakeBroker::start(|_| Reply::Close).port;
    let broker = ending(&[Some(0)], "Ongoing", 3);
    let servers = format!("127.0.0.1:{gone},127.0.0.1:{}", broker.port);
    let settings = Settings::from_properties([("bootstrap.servers", servers)]).expect("right");
    let mut admin = TransactionAdmin::new(settings).expect("right");
    assert_eq!(admin.end(&handle(), End::Commit, within(5_000)), EndOutcome::Committed);
    assert_eq!(admin.end(&handle(), End::Commit, within(5_000)), EndOutcome::Committed);
    assert_eq!(broker.count::<ApiVersionsRequest>(), 1, "the connection is kept");
    assert_eq!(broker.count::<FindCoordinatorRequest>(), 1, "so is the coordinator");
}
