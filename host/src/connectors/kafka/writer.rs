//! Writers: one transaction from checkpoint to checkpoint, or none at all.

use super::super::{ConnectorError, DurableStep, Prepared, SinkWriter};
use super::committable::{PreparedTransaction, VERSION};
use super::flushed::{self, Flushed};
use super::native::{Outbound, Outgoing, Patience, Producer, Refused};
use super::partitioner::Partitioner;
use super::producer::{READY_TIMEOUT, Ready};
use super::routing;
use super::sink::SinkSettings;
use super::slots::Slots;
use super::standby::Standby;
use super::waiting::Waiting;
use crate::graph::TransactionNeeds;
use crate::{clock, crash};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_kafka::{Described, TransactionState};
use weir_plugin::batch::RecordBatch;
use weir_protocol::{CheckpointId, TransactionId};

/// How long a full queue may stay full: nothing moves then.
const STUCK: Duration = Duration::from_secs(120);

/// How long one question to a coordinator waits before the user may hear of it.
const SLICE: Duration = Duration::from_secs(3);

/// Spreads batches over topics and their partitions.
pub(super) struct Spreader {
    settings: Arc<SinkSettings>,
    partitioner: Partitioner,
    /// Records of each partition, by number in the batch.
    of_partition: Vec<Vec<u32>>,
    outgoing: Outgoing,
}

impl Spreader {
    pub(super) fn new(settings: Arc<SinkSettings>) -> Self {
        Spreader { settings, partitioner: Partitioner::default(), of_partition: Vec::new(), outgoing: Outgoing::default() }
    }

    /// Hands a batch over, each partition's records in order.
    fn write(&mut self, producer: &Producer, records: &RecordBatch) -> Result<(), ConnectorError> {
        self.partitioner.next_batch();
        let settings = Arc::clone(&self.settings);
        let all = 0..records.len() as u32;
        match (&settings.spec.topic_header, &settings.spec.topic) {
            // What has no headers names no topic.
            (Some(header), topic) if topic.is_none() || records.has_headers() => {
                let mut of_topic: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
                for i in all {
                    let topic = routing::topic_of(records, i as usize, header, topic.as_deref());
                    let topic = topic.map_err(|why| ConnectorError::permanent(format!("{}: {why}", settings.place)))?;
                    of_topic.entry(topic).or_default().push(i);
                }
                for (name, numbers) in of_topic {
                    if topic.as_deref() != Some(name) {
                        settings.find_named(name)?;
                    }
                    self.write_to(producer, name, records, numbers.into_iter())?;
                }
            }
            (_, Some(topic)) => self.write_to(producer, topic, records, all)?,
            (_, None) => unreachable!("a sink has a topic, or a header that names it"),
        }
        producer.serve();
        check(&settings, producer)
    }

    /// Hands some records of a batch over to one topic. `numbers`: theirs in the batch, ascending.
    fn write_to(
        &mut self,
        producer: &Producer,
        topic: &str,
        records: &RecordBatch,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<(), ConnectorError> {
        let Spreader { settings, partitioner, of_partition, outgoing } = self;
        let known = producer
            .topic(topic, Patience::of(READY_TIMEOUT))
            .map_err(|error| super::client::error(&format!("{}: topic {topic}", settings.place), &error))?;
        of_partition.resize(known.partitions() as usize, Vec::new());
        of_partition.iter_mut().for_each(Vec::clear);
        for i in numbers {
            let partition = partitioner.of(records.key_or_null(i as usize), known.partitions());
            of_partition[partition as usize].push(i);
        }
        // Only single records can have a timestamp or headers.
        let singly = settings.spec.keep_time || records.has_headers();
        for (partition, numbers) in (0..).zip(of_partition) {
            let mut rest = &numbers[..];
            let mut waiting = Waiting::new(settings, "take no records");
            while !rest.is_empty() {
                let given = if singly {
                    let given = known.produce(partition, outbound(records, rest[0] as usize, settings.spec.keep_time));
                    if given.is_ok() {
                        rest = &rest[1..];
                    }
                    given
                } else {
                    let pair = |i: &u32| (records.key_or_null(*i as usize), records.value_or_null(*i as usize));
                    let given = known.produce_all(partition, rest.iter().map(pair), outgoing);
                    rest = match &given {
                        Ok(()) => &[],
                        Err(Refused::Full(at)) => &rest[*at..],
                        Err(Refused::Failed(_)) => rest,
                    };
                    given
                };
                match given {
                    Ok(()) => waiting.is_over(),
                    Err(Refused::Full(_)) => {
                        check(settings, producer)?;
                        if waiting.goes_on(|| producer.events().heard().last_error) > STUCK {
                            let why = "no broker has taken a record for two minutes";
                            return Err(ConnectorError::restart(format!("{}: {why}", settings.place)));
                        }
                        producer.wait_for_room();
                    }
                    Err(Refused::Failed(code)) => {
                        check(settings, producer)?;
                        return Err(not_taken(settings, topic, records, rest[0] as usize, code));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Why the client does not take a record, or one of those after it.
fn not_taken(
    settings: &SinkSettings,
    topic: &str,
    records: &RecordBatch,
    first: usize,
    code: RDKafkaErrorCode,
) -> ConnectorError {
    let place = format!("{}: topic {topic}", settings.place);
    if code != RDKafkaErrorCode::MessageSizeTooLarge {
        return super::client::error(&place, &KafkaError::MessageProduction(code));
    }
    let key = routing::shown(records.key(first));
    ConnectorError::permanent(format!(
        "{place}: the record with the key '{key}', or one of those after it, takes more than message.max.bytes (1,000,000) with its \
         headers: leave such records out before, or make them smaller"
    ))
}

#[inline]
fn outbound(records: &RecordBatch, i: usize, keep_time: bool) -> Outbound<'_> {
    Outbound {
        key: records.key_or_null(i),
        value: records.value_or_null(i),
        time_ms: keep_time.then(|| records.time(i)),
        headers: records.headers(i),
    }
}

/// Fails if a record was not delivered, or none can be any more.
fn check(settings: &SinkSettings, producer: &Producer) -> Result<(), ConnectorError> {
    let heard = producer.events().heard();
    let failed = |why: String| Err(ConnectorError::restart(format!("{}: {why}", settings.place)));
    if let Some(fatal) = heard.fatal {
        return failed(format!("the producer can't go on: {fatal}"));
    }
    if heard.undelivered > 0 {
        let first = heard.first_failure.unwrap_or_default();
        let beside = heard.last_error.map(|error| format!("; last error: {error}")).unwrap_or_default();
        return failed(format!("{} records were not delivered: {first}{beside}", heard.undelivered));
    }
    Ok(())
}

/// Waits until all is acknowledged.
fn flush(settings: &SinkSettings, producer: &Producer, deadline: Instant) -> Result<(), ConnectorError> {
    let mut waiting = Waiting::new(settings, "acknowledge no records");
    loop {
        let done = producer.flush_slice();
        // A flush may succeed over records that have failed, and may hang over a transaction that has.
        check(settings, producer)?;
        if done {
            waiting.is_over();
            return Ok(());
        }
        waiting.goes_on(|| producer.events().heard().last_error);
        if clock::monotonic() >= deadline {
            let why = "the brokers did not acknowledge all records within the checkpoint timeout";
            return Err(ConnectorError::restart(format!("{}: {why}", settings.place)));
        }
    }
}

/// Exactly-once: a producer for each transaction.
pub(super) struct TransactionalWriter {
    settings: Arc<SinkSettings>,
    slots: Arc<Slots>,
    standby: Standby,
    spreader: Spreader,
    /// How long a transaction may live.
    timeout: Duration,
    open: Option<Open>,
    /// The transaction before, until all its records have arrived.
    before: Option<Flushed>,
}

struct Open {
    transaction: TransactionId,
    ready: Ready,
    begun: Instant,
}

impl TransactionalWriter {
    pub(super) fn new(settings: Arc<SinkSettings>, slots: Arc<Slots>, standby: Standby, timeout: Duration) -> Self {
        let spreader = Spreader::new(Arc::clone(&settings));
        TransactionalWriter { settings, slots, standby, spreader, timeout, open: None, before: None }
    }

    /// Waits until the records of the transaction before have arrived: none of this one's may overtake them.
    fn keep_order(&mut self) -> Result<(), ConnectorError> {
        let Some(before) = &self.before else { return Ok(()) };
        let failed = |why: &str| Err(ConnectorError::restart(format!("{}: {why}", self.settings.place)));
        // It gives up by itself at the end of this time.
        let patience = self.settings.spec.needs.checkpoint_timeout + STUCK;
        match before.wait(patience) {
            Some(true) => self.before = None,
            Some(false) => return failed("the transaction before is still being written: a bug in Weir"),
            None => return failed("the transaction before could not be written"),
        }
        Ok(())
    }
}

impl SinkWriter for TransactionalWriter {
    fn begin(&mut self, transaction: &TransactionId) -> Result<(), ConnectorError> {
        let ready = self.standby.take(&self.settings)?;
        // Its time runs from the first record on.
        self.open = Some(Open { transaction: transaction.clone(), ready, begun: clock::monotonic() });
        Ok(())
    }

    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        self.keep_order()?;
        let Open { ready, .. } = self.open.as_ref().expect("a transaction is begun before it is written");
        self.spreader.write(&ready.producer, records)
    }

    fn prepare(&mut self, _: CheckpointId, _: bool) -> Result<Option<DurableStep>, ConnectorError> {
        let Some(Open { transaction, ready, begun }) = self.open.take() else { return Ok(None) };
        self.slots.prepared(transaction, ready.slot);
        let (settings, timeout) = (Arc::clone(&self.settings), self.timeout);
        let deadline = clock::monotonic() + settings.spec.needs.checkpoint_timeout;
        let (flushing, flushed) = flushed::pair();
        self.before = Some(flushed);
        Ok(Some(Box::new(move || {
            flush(&settings, &ready.producer, deadline)?;
            flushing.done();
            crash::point("kafka-flushed");
            let identity = ready.identity().map_err(|why| ConnectorError::restart(format!("{}: {why}", settings.place)))?;
            let start_ms = look_at(&settings, &ready, identity, deadline)?;
            let prepared = PreparedTransaction {
                transactional_id: ready.slot.name(&settings.spec.prefix),
                producer_id: identity.0,
                producer_epoch: identity.1,
                start_ms,
                timeout_ms: timeout.as_millis() as u64,
            };
            let bytes = serde_json::to_vec(&prepared).expect("texts and numbers are always JSON");
            // The client's threads take a while to end; the barrier need not wait for them.
            let ending = std::thread::Builder::new().name("kafka-ending".to_owned()).spawn(move || ready.keep());
            if let Err(error) = ending {
                tracing::debug!("a producer was ended on the spot: {error}");
            }
            let valid_until = begun + timeout.saturating_sub(settings.spec.needs.restart() + TransactionNeeds::MARGIN);
            Ok(Some(Prepared { version: VERSION, bytes, valid_until: Some(valid_until) }))
        })))
    }
}

/// Asks the coordinator whether the transaction is open as we think it is; and since when.
fn look_at(
    settings: &SinkSettings,
    ready: &Ready,
    identity: (i64, i16),
    deadline: Instant,
) -> Result<Option<u64>, ConnectorError> {
    let id = ready.slot.name(&settings.spec.prefix);
    let failed = |why: String| ConnectorError::restart(format!("{}: transaction {id}: {why}", settings.place));
    let mut waiting = Waiting::new(settings, "don't say how a transaction stands");
    let described = loop {
        let slice = deadline.min(clock::monotonic() + SLICE);
        match settings.admin()?.describe(&[&id], slice) {
            Ok(described) => break described,
            Err(error) if error.is_transient() && clock::monotonic() < deadline => {
                waiting.goes_on(|| Some(error.to_string()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    waiting.is_over();
    match &described[..] {
        [Described::Known(now)] if now.state == TransactionState::Ongoing && (now.producer_id, now.epoch) == identity => {
            Ok(now.start_ms)
        }
        // Aborted by its timeout, or fenced by another process.
        [Described::Known(now)] => Err(failed(format!("it is not open any more: the coordinator says {now}"))),
        _ => Err(failed("the coordinator does not know it".to_owned())),
    }
}

/// At-least-once: one producer for all.
pub(super) struct PlainWriter {
    settings: Arc<SinkSettings>,
    spreader: Spreader,
    producer: Arc<Producer>,
}

impl PlainWriter {
    pub(super) fn new(settings: Arc<SinkSettings>, producer: Producer) -> Self {
        let spreader = Spreader::new(Arc::clone(&settings));
        PlainWriter { settings, spreader, producer: Arc::new(producer) }
    }
}

impl SinkWriter for PlainWriter {
    fn begin(&mut self, _: &TransactionId) -> Result<(), ConnectorError> {
        Ok(())
    }

    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        self.spreader.write(&self.producer, records)
    }

    fn prepare(&mut self, _: CheckpointId, _: bool) -> Result<Option<DurableStep>, ConnectorError> {
        let (settings, producer) = (Arc::clone(&self.settings), Arc::clone(&self.producer));
        let deadline = clock::monotonic() + settings.spec.needs.checkpoint_timeout;
        // Also what is written meanwhile is waited for, which costs time and no promise.
        Ok(Some(Box::new(move || flush(&settings, &producer, deadline).map(|()| None))))
    }
}
