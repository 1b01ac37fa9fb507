//! A producer of one transaction: made, begun, filled, flushed, dropped. It never commits its transaction.

use super::{Events, Handle, Patience, check, milliseconds};
use crate::clock;
use rdkafka::ClientConfig;
use rdkafka::bindings as rd;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_plugin::batch::Headers;

/// How long a look at the brokers takes at most before its caller looks at its deadline again.
const SLICE: Duration = Duration::from_millis(100);

/// How long one question to the brokers waits for its answer.
const QUESTION: Duration = Duration::from_secs(3);
/// How long a topic may be unknown to a broker that has just started.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(in super::super) struct Producer {
    topics: Mutex<BTreeMap<String, Topic>>,
    handle: Handle,
}

#[derive(Clone, Copy)]
struct Topic {
    rkt: *mut rd::rd_kafka_topic_t,
    /// 0: they were never told.
    partitions: u32,
}

// SAFETY: a topic's handle belongs to its client, which may go to another thread.
unsafe impl Send for Topic {}

/// A topic that its producer knows.
#[derive(Clone, Copy)]
pub(in super::super) struct KnownTopic<'p> {
    producer: &'p Producer,
    topic: Topic,
}

/// A record to be written.
#[derive(Clone, Copy)]
pub(in super::super) struct Outbound<'b> {
    /// None: null.
    pub(in super::super) key: Option<&'b [u8]>,
    /// None: null.
    pub(in super::super) value: Option<&'b [u8]>,
    /// Its timestamp, ms since the Unix epoch; none: now.
    pub(in super::super) time_ms: Option<i64>,
    /// Its headers.
    pub(in super::super) headers: Headers<'b>,
}

/// Records on their way into a call: pointers into a batch.
#[derive(Default)]
pub(in super::super) struct Outgoing {
    messages: Vec<rd::rd_kafka_message_t>,
}

// SAFETY: between calls it is empty.
unsafe impl Send for Outgoing {}

/// What a call could not take.
#[derive(Debug)]
pub(in super::super) enum Refused {
    /// The queue is full: the records from this one on are to be given again once there is room.
    Full(usize),
    /// The producer can't go on.
    Failed(RDKafkaErrorCode),
}

impl Producer {
    /// Connects; nothing is written.
    pub(in super::super) fn new(config: &ClientConfig) -> Result<Self, KafkaError> {
        Ok(Producer { topics: Mutex::default(), handle: Handle::new(config, rd::rd_kafka_type_t::RD_KAFKA_PRODUCER)? })
    }

    /// What it has told so far.
    pub(in super::super) fn events(&self) -> &Events {
        self.handle.events()
    }

    /// Makes a topic known to the client, with its partitions: a producer that does not know them adds a partition -1 to the
    /// transaction (rdkafka_msg.c). Asked twice: at the first question librdkafka gives up the connection that it began with,
    /// and what is asked next would wait half a second for another one. One that is known is given at once.
    pub(in super::super) fn topic(&self, name: &str, patience: Patience<'_>) -> Result<KnownTopic<'_>, KafkaError> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let rkt = match topics.get(name) {
            Some(known @ Topic { partitions: 1.., .. }) => return Ok(KnownTopic { producer: self, topic: *known }),
            Some(asked) => asked.rkt,
            None => self.open(name, &mut topics)?,
        };
        let mut partitions = 0;
        for _ in 0..2 {
            partitions = partitions_of(&self.handle, rkt, patience)?;
        }
        let topic = Topic { rkt, partitions };
        topics.insert(name.to_owned(), topic);
        Ok(KnownTopic { producer: self, topic })
    }

    /// A topic's handle, which is destroyed with `self`.
    fn open(&self, name: &str, topics: &mut BTreeMap<String, Topic>) -> Result<*mut rd::rd_kafka_topic_t, KafkaError> {
        let c_name = CString::new(name).map_err(|_| KafkaError::MetadataFetch(RDKafkaErrorCode::InvalidTopic))?;
        // SAFETY: the client lives; the topic's handle is destroyed with `self`, before the client.
        let rkt = unsafe { rd::rd_kafka_topic_new(self.handle.rk, c_name.as_ptr(), std::ptr::null_mut()) };
        if rkt.is_null() {
            return Err(KafkaError::MetadataFetch(RDKafkaErrorCode::InvalidTopic));
        }
        topics.insert(name.to_owned(), Topic { rkt, partitions: 0 });
        Ok(rkt)
    }

    /// Gets the transactional id's next epoch, which fences who had it before and aborts what is open under it.
    pub(in super::super) fn init_transactions(&self, patience: Patience<'_>) -> Result<(), String> {
        loop {
            let left = patience.left();
            let slice = left.clamp(SLICE, QUESTION);
            // SAFETY: the client lives, and the error is ours.
            match unsafe { check(rd::rd_kafka_init_transactions(self.handle.rk, milliseconds(slice))) } {
                Ok(()) => return Ok(()),
                // It goes on in the background, and the next call waits for it again. Events are heard in between.
                Err((_, _, true)) if !left.is_zero() => self.handle.poll(Duration::ZERO),
                Err((code, what, _)) => {
                    return Err(format!("{what}; {}", super::super::client::said(&KafkaError::Global(code))));
                }
            }
        }
    }

    /// Begins the transaction; the brokers hear of it with the first record.
    pub(in super::super) fn begin(&self) -> Result<(), String> {
        // SAFETY: the client lives, and the error is ours.
        unsafe { check(rd::rd_kafka_begin_transaction(self.handle.rk)) }.map_err(|(_, what, _)| what)
    }

    /// Aborts the transaction, and forgets what of it was not sent.
    pub(in super::super) fn abort(&self, timeout: Duration) -> Result<(), String> {
        // SAFETY: the client lives, and the error is ours.
        unsafe { check(rd::rd_kafka_abort_transaction(self.handle.rk, milliseconds(timeout))) }.map_err(|(_, what, _)| what)
    }

    /// Producer id and epoch, which come with the statistics.
    pub(in super::super) fn identity(&self, deadline: Instant) -> Option<(i64, i16)> {
        loop {
            if let Some(identity) = self.events().heard().identity {
                return Some(identity);
            }
            if clock::monotonic() >= deadline {
                return None;
            }
            self.handle.poll(SLICE);
        }
    }

    /// Serves delivery reports; does not wait.
    pub(in super::super) fn serve(&self) {
        self.handle.poll(Duration::ZERO);
    }

    /// Waits for room in the queue, or a while.
    pub(in super::super) fn wait_for_room(&self) {
        self.handle.poll(Duration::from_millis(5));
    }

    /// Waits until all that was handed over is acknowledged, for one slice of time. True: it is.
    pub(in super::super) fn flush_slice(&self) -> bool {
        // SAFETY: the client lives. It serves the callbacks meanwhile.
        let code = unsafe { rd::rd_kafka_flush(self.handle.rk, milliseconds(SLICE)) };
        RDKafkaErrorCode::from(code) == RDKafkaErrorCode::NoError
    }
}

impl KnownTopic<'_> {
    /// Its partitions.
    pub(in super::super) fn partitions(&self) -> u32 {
        self.topic.partitions
    }

    /// Hands records of one partition over, as (key, value), where none is null. They are copied; their timestamp is now.
    pub(in super::super) fn produce_all<'b>(
        &self,
        partition: i32,
        records: impl Iterator<Item = (Option<&'b [u8]>, Option<&'b [u8]>)>,
        outgoing: &mut Outgoing,
    ) -> Result<(), Refused> {
        outgoing.messages.clear();
        outgoing.messages.extend(records.map(|(key, value)| message(partition, key, value)));
        let count = outgoing.messages.len();
        let messages = outgoing.messages.as_mut_ptr();
        // SAFETY: client and topic live, and the records are copied (F_COPY) before the call returns. One call for one partition:
        // with many in one, an unknown one would be added to the transaction as -1.
        let taken =
            unsafe { rd::rd_kafka_produce_batch(self.topic.rkt, partition, rd::RD_KAFKA_MSG_F_COPY, messages, count as c_int) };
        if taken as usize == count {
            return Ok(());
        }
        let refused = outgoing.messages.iter().enumerate().find_map(|(at, message)| {
            let code = RDKafkaErrorCode::from(message.err);
            (code != RDKafkaErrorCode::NoError).then_some((at, code))
        });
        match refused {
            // The queue takes none after the first that it refuses.
            Some((at, RDKafkaErrorCode::QueueFull)) => Err(Refused::Full(at)),
            Some((_, code)) => Err(Refused::Failed(code)),
            None => Ok(()),
        }
    }

    /// Hands one record over, which is copied.
    pub(in super::super) fn produce(&self, partition: i32, record: Outbound<'_>) -> Result<(), Refused> {
        use rd::rd_kafka_vtype_t::{
            RD_KAFKA_VTYPE_HEADERS, RD_KAFKA_VTYPE_KEY, RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_VTYPE_PARTITION, RD_KAFKA_VTYPE_RKT,
            RD_KAFKA_VTYPE_TIMESTAMP, RD_KAFKA_VTYPE_VALUE,
        };
        type Union = rd::rd_kafka_vu_s__bindgen_ty_1;
        let memory = |bytes: Option<&[u8]>| {
            let (ptr, size) = (start(bytes), bytes.map_or(0, <[u8]>::len));
            Union { mem: rd::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr, size } }
        };
        let argument = |vtype, u| rd::rd_kafka_vu_t { vtype, u };
        let headers = OwnHeaders::of(record.headers);
        let arguments = [
            argument(RD_KAFKA_VTYPE_RKT, Union { rkt: self.topic.rkt }),
            argument(RD_KAFKA_VTYPE_PARTITION, Union { i32_: partition }),
            argument(RD_KAFKA_VTYPE_MSGFLAGS, Union { i: rd::RD_KAFKA_MSG_F_COPY }),
            // 0 is librdkafka's word for now.
            argument(RD_KAFKA_VTYPE_TIMESTAMP, Union { i64_: record.time_ms.unwrap_or(0) }),
            argument(RD_KAFKA_VTYPE_VALUE, memory(record.value)),
            argument(RD_KAFKA_VTYPE_KEY, memory(record.key)),
            argument(RD_KAFKA_VTYPE_HEADERS, Union { headers: headers.0 }),
        ];
        let count = arguments.len() - usize::from(headers.0.is_null());
        // SAFETY: client and topic live, and the record is copied (F_COPY) before the call returns; the error is ours.
        match unsafe { check(rd::rd_kafka_produceva(self.producer.handle.rk, arguments.as_ptr(), count)) } {
            Ok(()) => {
                // They are the record's now.
                std::mem::forget(headers);
                Ok(())
            }
            Err((RDKafkaErrorCode::QueueFull, _, _)) => Err(Refused::Full(0)),
            Err((code, _, _)) => Err(Refused::Failed(code)),
        }
    }
}

/// Headers of a record that was not taken yet; null if it has none.
struct OwnHeaders(*mut rd::rd_kafka_headers_t);

impl OwnHeaders {
    fn of(headers: Headers<'_>) -> Self {
        if headers.is_empty() {
            return OwnHeaders(std::ptr::null_mut());
        }
        // SAFETY: the list is made here and ours; names and values are copied into it.
        unsafe {
            let list = OwnHeaders(rd::rd_kafka_headers_new(8));
            for (name, value) in headers {
                let length = value.map_or(0, <[u8]>::len) as isize;
                rd::rd_kafka_header_add(list.0, name.as_ptr().cast(), name.len() as isize, start(value), length);
            }
            list
        }
    }
}

impl Drop for OwnHeaders {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it was made once, and no record has taken it.
            unsafe { rd::rd_kafka_headers_destroy(self.0) };
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        for topic in self.topics.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            // SAFETY: each was made once; the client goes after them.
            unsafe { rd::rd_kafka_topic_destroy(topic.rkt) };
        }
    }
}

/// The number of a topic's partitions. Asked in slices: a question that went to a broker which then stood still is not asked again
/// by librdkafka. A broker that has just come back may not know its topics yet.
fn partitions_of(handle: &Handle, rkt: *mut rd::rd_kafka_topic_t, patience: Patience<'_>) -> Result<u32, KafkaError> {
    let unknown_until = clock::monotonic() + UNKNOWN_PATIENCE;
    loop {
        let error = match ask_partitions(handle, rkt, QUESTION) {
            Ok(partitions) => return Ok(partitions),
            Err(error) => error,
        };
        let may_pass = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                clock::monotonic() < unknown_until
            }
            Some(
                RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::LeaderNotAvailable,
            ) => true,
            _ => false,
        };
        if !may_pass || patience.left().is_zero() {
            return Err(error);
        }
        handle.poll(SLICE);
    }
}

fn ask_partitions(handle: &Handle, rkt: *mut rd::rd_kafka_topic_t, timeout: Duration) -> Result<u32, KafkaError> {
    let mut metadata = std::ptr::null();
    // SAFETY: client and topic live; what is given is read here and destroyed once.
    unsafe {
        let code = rd::rd_kafka_metadata(handle.rk, 0, rkt, &mut metadata, milliseconds(timeout));
        let code = RDKafkaErrorCode::from(code);
        if code != RDKafkaErrorCode::NoError {
            return Err(KafkaError::MetadataFetch(code));
        }
        let found = match usize::try_from((*metadata).topic_cnt) {
            Ok(1..) => Some(&*(*metadata).topics),
            _ => None,
        };
        let answer = match found.map(|topic| (RDKafkaErrorCode::from(topic.err), topic.partition_cnt)) {
            Some((RDKafkaErrorCode::NoError, count @ 1..)) => Ok(count as u32),
            Some((RDKafkaErrorCode::NoError, _)) | None => {
                Err(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))
            }
            Some((code, _)) => Err(KafkaError::MetadataFetch(code)),
        };
        rd::rd_kafka_metadata_destroy(metadata);
        answer
    }
}

/// Where bytes begin; null for none.
fn start(bytes: Option<&[u8]>) -> *mut c_void {
    bytes.map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut().cast())
}

fn message(partition: i32, key: Option<&[u8]>, value: Option<&[u8]>) -> rd::rd_kafka_message_t {
    rd::rd_kafka_message_t {
        err: rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: std::ptr::null_mut(),
        partition,
        payload: start(value),
        len: value.map_or(0, <[u8]>::len),
        key: start(key),
        key_len: key.map_or(0, <[u8]>::len),
        offset: 0,
        _private: std::ptr::null_mut(),
    }
}
