//! Shapes against the crate that encodes, and bytes that nobody should send.

use super::{Ask, frame, shape};
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::describe_configs_response::*;
use kafka_protocol::messages::describe_transactions_response as describe;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::list_transactions_response as list;
use kafka_protocol::messages::metadata_response::*;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, HeaderVersion, StrBytes};

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

/// A frame with this answer, as a broker would send it.
fn frame_of<R: Ask>(version: i16, correlation: i32, answer: &R::Response) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    bytes.put_i32(correlation);
    if R::Response::header_version(version) >= 1 {
        // One tagged field that nobody knows: number 9, two bytes.
        bytes.put_slice(&[1, 9, 2, 0xff, 0xff]);
    }
    answer.encode(&mut bytes, version).expect("the sample is right in this version");
    bytes.to_vec()
}

/// Every version of a request's answer is understood, and no prefix or change of it does harm.
fn check<R: Ask>(sample: impl Fn(i16) -> R::Response)
where
    R::Response: PartialEq + std::fmt::Debug,
{
    for version in R::SPOKEN.0..=R::SPOKEN.1 {
        let answer = sample(version);
        let whole = frame_of::<R>(version, 7, &answer);
        let decoded = frame::decode::<R>(whole.clone(), version, 7).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(decoded, answer, "{} v{version}", R::NAME);

        for cut in 0..whole.len() {
            assert!(frame::decode::<R>(whole[..cut].to_vec(), version, 7).is_err(), "{} v{version} cut at {cut}", R::NAME);
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(frame::decode::<R>(longer, version, 7).is_err(), "{} v{version} with one byte more", R::NAME);
        assert!(frame::decode::<R>(whole.clone(), version, 8).is_err(), "another request's answer");
        // Whatever a byte becomes: an answer or a fault, in memory that is in proportion.
        for at in 4..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                drop(frame::decode::<R>(changed, version, 7));
            }
        }
    }
}

#[test]
fn every_answer_is_understood_in_every_version_that_is_spoken() {
    check::<ApiVersionsRequest>(|version| {
        let key = |key, max| api_versions_response::ApiVersion::default().with_api_key(key).with_max_version(max);
        let answer = ApiVersionsResponse::default().with_api_keys(vec![key(26, 5), key(10, 6)]);
        if version >= 1 { answer.with_throttle_time_ms(3) } else { answer }
    });
    check::<SaslHandshakeRequest>(|_| SaslHandshakeResponse::default().with_mechanisms(vec![text("PLAIN"), text("X")]));
    check::<SaslAuthenticateRequest>(|version| {
        let answer = SaslAuthenticateResponse::default()
            .with_error_code(58)
            .with_error_message(Some(text("no")))
            .with_auth_bytes(Bytes::from_static(b"v=abc"));
        if version >= 1 { answer.with_session_lifetime_ms(9) } else { answer }
    });
    check::<FindCoordinatorRequest>(|version| match version {
        4 => {
            let one = Coordinator::default().with_key(text("id")).with_host(text("host")).with_port(9092);
            FindCoordinatorResponse::default().with_coordinators(vec![one.clone(), one.with_error_code(15)])
        }
        _ => FindCoordinatorResponse::default().with_host(text("host")).with_port(9092).with_error_message(Some(text("why"))),
    });
    check::<EndTxnRequest>(|_| EndTxnResponse::default().with_error_code(48));
    check::<InitProducerIdRequest>(|_| InitProducerIdResponse::default().with_producer_id(5.into()).with_producer_epoch(2));
    check::<DescribeTransactionsRequest>(|_| {
        let topic = describe::TopicData::default().with_topic(text("t").into()).with_partitions(vec![0, 1, 2]);
        let one = describe::TransactionState::default()
            .with_transactional_id(text("id").into())
            .with_transaction_state(text("Ongoing"))
            .with_topics(vec![topic.clone(), topic]);
        DescribeTransactionsResponse::default().with_transaction_states(vec![one.clone(), one])
    });
    check::<ListTransactionsRequest>(|_| {
        let one =
            list::TransactionState::default().with_transactional_id(text("id").into()).with_transaction_state(text("Empty"));
        ListTransactionsResponse::default().with_unknown_state_filters(vec![text("x")]).with_transaction_states(vec![one])
    });
    check::<DescribeConfigsRequest>(|version| {
        let synonym = DescribeConfigsSynonym::default().with_name(text("n")).with_value(None);
        let config = DescribeConfigsResourceResult::default()
            .with_name(text("transaction.max.timeout.ms"))
            .with_value(Some(text("900000")))
            .with_config_source(5)
            .with_synonyms(vec![synonym.clone(), synonym]);
        let config = if version >= 3 { config.with_config_type(5) } else { config };
        let result = DescribeConfigsResult::default().with_resource_name(text("1")).with_configs(vec![config]);
        DescribeConfigsResponse::default().with_results(vec![result])
    });
    check::<MetadataRequest>(|version| {
        let broker = MetadataResponseBroker::default().with_host(text("h")).with_port(1).with_rack(Some(text("r")));
        let partition = MetadataResponsePartition::default()
            .with_leader_epoch(4)
            .with_replica_nodes(vec![1.into(), 2.into()])
            .with_isr_nodes(vec![1.into()])
            .with_offline_replicas(vec![2.into()]);
        let topic = MetadataResponseTopic::default().with_name(Some(text("t").into())).with_partitions(vec![partition]);
        let answer = MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic]);
        if version >= 8 { answer.with_cluster_authorized_operations(3) } else { answer }
    });
}

#[test]
fn an_array_that_claims_more_than_there_is_gets_no_memory() {
    // ListTransactions v0: throttle, error, no filters, then an array of 2³² - 2.
    let hostile = [&[0, 0, 0, 7, 0], &[0; 6][..], &[1], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    let fault = frame::decode::<ListTransactionsRequest>(hostile, 0, 7).expect_err("it claims too much");
    assert!(fault.contains("an array of 4294967294 elements can't stand in 0 bytes"), "{fault}");
    // SaslHandshake v1: error, then an array of 2³¹ - 1.
    let hostile = [&[0, 0, 0, 7, 0, 0], &i32::MAX.to_be_bytes()[..]].concat();
    assert!(frame::decode::<SaslHandshakeRequest>(hostile, 1, 7).is_err());
}

#[test]
fn lengths_of_more_than_32_bits_are_faults() {
    for bytes in [[0xff; 5], [0xff, 0xff, 0xff, 0xff, 0x7f]] {
        assert!(shape::skip_tags(&bytes).is_err(), "{bytes:?}");
    }
    assert_eq!(shape::skip_tags(&[0, 5]), Ok(&[5][..]));
}

#[test]
fn no_bytes_at_random_do_harm() {
    // xorshift with a fixed seed: a failure repeats.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..next() % 64).map(|_| (next() >> 24) as u8).collect();
        bytes.splice(0..0, 7i32.to_be_bytes());
        drop(frame::decode::<MetadataRequest>(bytes.clone(), 9, 7));
        drop(frame::decode::<MetadataRequest>(bytes.clone(), 7, 7));
        drop(frame::decode::<DescribeTransactionsRequest>(bytes.clone(), 0, 7));
        drop(frame::decode::<DescribeConfigsRequest>(bytes.clone(), 4, 7));
        drop(frame::decode::<DescribeConfigsRequest>(bytes.clone(), 1, 7));
        drop(frame::decode::<FindCoordinatorRequest>(bytes.clone(), 4, 7));
        drop(frame::decode::<ApiVersionsRequest>(bytes, 2, 7));
    }
}
