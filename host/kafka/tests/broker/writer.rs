//! A producer and a reader in the raw protocol: what librdkafka does up to the commit, and what a reader sees.

use crate::setup::soon;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::{AbortedTransaction, PartitionData};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_kafka::TransactionHandle;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// A connection to a broker, which leads all partitions that are written. Wrong answers are panics.
pub struct Writer {
    stream: TcpStream,
    port: u16,
    correlation: i32,
    /// To the coordinator of the last id that was taken, if that is another broker.
    coordinator: Option<Box<Writer>>,
}

impl Writer {
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is not zero");
        Writer { stream, port, correlation: 0, coordinator: None }
    }

    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request);
        self.receive::<R>(version)
    }

    /// Asks, and does not wait for the answer.
    pub fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(text("writer")));
        let mut body = BytesMut::new();
        header.encode(&mut body, R::header_version(version)).expect("it can be written");
        request.encode(&mut body, version).expect("it can be written");
        let mut frame = BytesMut::new();
        frame.put_u32(body.len() as u32);
        frame.put(body);
        self.stream.write_all(&frame).expect("the broker reads");
    }

    fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("the broker answers");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).expect("the broker answers");
        let mut frame = Bytes::from(frame);
        ResponseHeader::decode(&mut frame, R::Response::header_version(version)).expect("a header");
        let answer = R::Response::decode(&mut frame, version).expect("an answer");
        assert!(!frame.has_remaining(), "bytes are left over");
        answer
    }

    fn at_coordinator(&mut self) -> &mut Writer {
        match self.coordinator.take() {
            Some(other) => self.coordinator.insert(other),
            None => self,
        }
    }

    /// Whether another broker coordinates the id that was taken last.
    pub fn is_coordinated_elsewhere(&self) -> bool {
        self.coordinator.is_some()
    }

    /// Makes a topic on broker 1 and waits until its partitions have leaders.
    pub fn topic(&mut self, name: &str, partitions: i32) {
        let on_first = |i| CreatableReplicaAssignment::default().with_partition_index(i).with_broker_ids(vec![1.into()]);
        let topic = CreatableTopic::default()
            .with_name(text(name).into())
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments((0..partitions).map(on_first).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        let answer = self.call(4, &request);
        assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
        until("the topic has leaders", || {
            let wanted = metadata_request::MetadataRequestTopic::default().with_name(Some(text(name).into()));
            let answer = self.call(8, &MetadataRequest::default().with_topics(Some(vec![wanted])));
            let topic = &answer.topics[0];
            topic.error_code == 0
                && topic.partitions.len() == partitions as usize
                && topic.partitions.iter().all(|partition| partition.leader_id.0 >= 0)
        });
    }

    /// Takes an id, as a fresh producer does; waits while a transaction of another one is being ended.
    pub fn init(&mut self, id: &str, timeout_ms: i32) -> TransactionHandle {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(text(id).into()))
            .with_transaction_timeout_ms(timeout_ms)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        // The first search of all makes the coordinators' topic.
        let search = FindCoordinatorRequest::default().with_key(text(id)).with_key_type(1);
        let mut answer = InitProducerIdResponse::default();
        until("the id is taken", || {
            let found = self.call(3, &search);
            if found.error_code != 0 {
                return false;
            }
            let port = u16::try_from(found.port).expect("a port");
            self.coordinator = (port != self.port).then(|| Box::new(Writer::connect(port)));
            answer = self.at_coordinator().call(4, &request);
            !matches!(answer.error_code, 14 | 15 | 16 | 51)
        });
        assert_eq!(answer.error_code, 0, "InitProducerId");
        TransactionHandle { transactional_id: id.to_owned(), producer_id: answer.producer_id.0, epoch: answer.producer_epoch }
    }

    /// Writes records into a partition of the transaction, as librdkafka does (AddPartitionsToTxn and Produce of the older
    /// protocol). Gives the error codes of both.
    pub fn try_write(&mut self, handle: &TransactionHandle, topic: &str, partition: i32, values: &[&str]) -> (i16, i16) {
        let to = AddPartitionsToTxnTopic::default().with_name(text(topic).into()).with_partitions(vec![partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(text(&handle.transactional_id).into())
            .with_v3_and_below_producer_id(handle.producer_id.into())
            .with_v3_and_below_producer_epoch(handle.epoch)
            .with_v3_and_below_topics(vec![to]);
        let mut added = 51;
        until("the partition is added", || {
            let answer = self.at_coordinator().call(0, &request);
            added = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code;
            // The markers of the transaction before may still be under way.
            added != 51
        });
        if added != 0 {
            return (added, 0);
        }
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch(handle, values)));
        let topic = TopicProduceData::default().with_name(text(topic).into()).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(Some(text(&handle.transactional_id).into()))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let mut produced = 0;
        until("the partition takes records", || {
            produced = self.call(9, &request).responses[0].partition_responses[0].error_code;
            // A new topic's leader may not know of it yet: nothing was written then.
            !matches!(produced, 3 | 6)
        });
        (0, produced)
    }

    /// Takes an id, begins a transaction and writes records into partition 0; what a producer leaves that dies after its flush.
    pub fn prepare(&mut self, id: &str, topic: &str, timeout_ms: i32, values: &[&str]) -> TransactionHandle {
        let handle = self.init(id, timeout_ms);
        assert_eq!(self.try_write(&handle, topic, 0, values), (0, 0), "AddPartitionsToTxn and Produce");
        handle
    }

    /// Values that a reader sees in partition 0 that reads what is committed, and whether an open transaction holds it back.
    pub fn read(&mut self, topic: &str) -> (Vec<String>, bool) {
        let (mut records, mut aborted) = (Vec::new(), Vec::new());
        loop {
            let next = records.last().map_or(0, |record: &Record| record.offset + 1);
            let found = self.fetch(topic, next);
            let mut bytes = found.records.unwrap_or_default();
            while bytes.has_remaining() {
                records.extend(RecordBatchDecoder::decode(&mut bytes).expect("record batches").records);
            }
            aborted.extend(found.aborted_transactions.unwrap_or_default());
            if records.last().map_or(0, |record| record.offset + 1) >= found.last_stable_offset {
                return (committed(&records, &aborted), found.last_stable_offset < found.high_watermark);
            }
        }
    }

    fn fetch(&mut self, topic: &str, from: i64) -> PartitionData {
        let partition = FetchPartition::default().with_partition(0).with_fetch_offset(from).with_partition_max_bytes(1 << 20);
        let wanted = FetchTopic::default().with_topic(text(topic).into()).with_partitions(vec![partition]);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(10)
            .with_max_bytes(1 << 20)
            .with_isolation_level(1)
            .with_topics(vec![wanted]);
        let found = self.call(11, &request).responses.remove(0).partitions.remove(0);
        assert_eq!(found.error_code, 0, "Fetch");
        found
    }

    /// Waits until a reader sees exactly these, with nothing held back.
    pub fn expect(&mut self, topic: &str, values: &[&str]) {
        until("a reader sees what is committed", || !self.read(topic).1);
        assert_eq!(self.read(topic), (values.iter().map(ToString::to_string).collect(), false));
    }
}

/// Asks until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = soon();
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "{what}: not in time");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// One batch with a record for each value, the first of its producer in this partition.
fn batch(handle: &TransactionHandle, values: &[&str]) -> Bytes {
    // Of today, as the markers are: records of long ago would get files of their own, and be deleted as too old.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as i64;
    let records: Vec<Record> = values
        .iter()
        .enumerate()
        .map(|(i, value)| Record {
            transactional: true,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: handle.producer_id,
            producer_epoch: handle.epoch,
            timestamp_type: TimestampType::Creation,
            offset: i as i64,
            sequence: i as i32,
            timestamp: now,
            key: None,
            value: Some(Bytes::from(value.to_string())),
            headers: Default::default(),
        })
        .collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).expect("they can be written");
    bytes.freeze()
}

/// Leaves out what was aborted, as every reader must: from a transaction's first offset to its marker.
fn committed(records: &[Record], aborted: &[AbortedTransaction]) -> Vec<String> {
    let mut skipped = BTreeSet::new();
    let mut values = Vec::new();
    for record in records {
        skipped.extend(aborted.iter().filter(|one| one.first_offset == record.offset).map(|one| one.producer_id.0));
        if record.control {
            skipped.remove(&record.producer_id);
        } else if !skipped.contains(&record.producer_id) {
            let value = record.value.as_ref().expect("every record has one");
            values.push(String::from_utf8(value.to_vec()).expect("text"));
        }
    }
    values
}
