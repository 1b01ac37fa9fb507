//! A consumer of assigned partitions: records by batches, out of the buffers that they came in.

use super::{Events, Handle, check, milliseconds, text};
use rdkafka::ClientConfig;
use rdkafka::bindings as rd;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::ffi::{CStr, CString};
use std::time::Duration;

/// Records of one call at most.
const FETCHED_MAX: usize = 4096;

/// A partition, and the offset of the next record to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Position {
    /// Topic.
    pub(in super::super) topic: String,
    /// Partition.
    pub(in super::super) partition: i32,
    /// Offset.
    pub(in super::super) offset: i64,
}

/// See the module.
pub(in super::super) struct Consumer {
    queue: *mut rd::rd_kafka_queue_t,
    handle: Handle,
}

// SAFETY: the queue belongs to the handle, which may go to another thread.
unsafe impl Send for Consumer {}

impl Consumer {
    /// Connects; nothing is read before [`Self::assign`].
    pub(in super::super) fn new(config: &ClientConfig) -> Result<Self, KafkaError> {
        let handle = Handle::new(config, rd::rd_kafka_type_t::RD_KAFKA_CONSUMER)?;
        // SAFETY: the handle is a live consumer. Its main queue goes into the consumer's, so that one call serves both.
        let queue = unsafe {
            rd::rd_kafka_poll_set_consumer(handle.rk);
            rd::rd_kafka_queue_get_consumer(handle.rk)
        };
        assert!(!queue.is_null(), "a consumer has a queue");
        Ok(Consumer { queue, handle })
    }

    /// What it has told so far.
    pub(in super::super) fn events(&self) -> &Events {
        self.handle.events()
    }

    /// Reads these partitions and no others from now on. What was fetched before and not taken is forgotten.
    pub(in super::super) fn assign(&self, positions: &[Position]) -> Result<(), KafkaError> {
        with_list(positions, |list| {
            // SAFETY: the client and the list live.
            let code = RDKafkaErrorCode::from(unsafe { rd::rd_kafka_assign(self.handle.rk, list) });
            if code == RDKafkaErrorCode::NoError { Ok(()) } else { Err(KafkaError::Global(code)) }
        })
    }

    /// Reads these partitions no more; the others go on.
    pub(in super::super) fn unassign(&self, positions: &[Position]) -> Result<(), KafkaError> {
        with_list(positions, |list| {
            // SAFETY: the client and the list live, and the error is ours.
            unsafe { check(rd::rd_kafka_incremental_unassign(self.handle.rk, list)) }
                .map_err(|(code, _, _)| KafkaError::Global(code))
        })
    }

    /// Moves one partition to another offset; what was fetched of it is forgotten.
    pub(in super::super) fn seek(&self, position: &Position, timeout: Duration) -> Result<(), KafkaError> {
        with_list(std::slice::from_ref(position), |list| {
            // SAFETY: the client and the list live, and the error is ours.
            unsafe { check(rd::rd_kafka_seek_partitions(self.handle.rk, list, milliseconds(timeout))) }
                .map_err(|(code, _, _)| KafkaError::Global(code))
        })
    }

    /// Writes positions to the group, without waiting for the answer.
    pub(in super::super) fn commit(&self, positions: &[Position]) -> Result<(), KafkaError> {
        with_list(positions, |list| {
            // SAFETY: the client and the list live.
            let code = RDKafkaErrorCode::from(unsafe { rd::rd_kafka_commit(self.handle.rk, list, 1) });
            if code == RDKafkaErrorCode::NoError { Ok(()) } else { Err(KafkaError::Global(code)) }
        })
    }

    /// Takes what is there; waits so long for the first record.
    pub(in super::super) fn take(&self, fetched: &mut Fetched, timeout: Duration) {
        fetched.clear();
        fetched.messages.resize(FETCHED_MAX, std::ptr::null_mut());
        // SAFETY: the array has room for as many as it says, and the queue lives as long as the client.
        let count = unsafe {
            rd::rd_kafka_consume_batch_queue(
                self.queue,
                milliseconds(timeout),
                fetched.messages.as_mut_ptr(),
                fetched.messages.len(),
            )
        };
        fetched.messages.truncate(usize::try_from(count).unwrap_or(0));
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // SAFETY: the queue was got once; the client goes after it.
        unsafe { rd::rd_kafka_queue_destroy(self.queue) };
    }
}

fn with_list<R>(positions: &[Position], work: impl FnOnce(*mut rd::rd_kafka_topic_partition_list_t) -> R) -> R {
    // SAFETY: the list is made, filled and destroyed here; a topic's name is copied into it.
    unsafe {
        let list = rd::rd_kafka_topic_partition_list_new(positions.len() as i32);
        for Position { topic, partition, offset } in positions {
            let topic = CString::new(topic.as_str()).expect("a topic's name has no zero byte");
            (*rd::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), *partition)).offset = *offset;
        }
        let result = work(list);
        rd::rd_kafka_topic_partition_list_destroy(list);
        result
    }
}

/// Records that were taken. They lie in librdkafka's buffers until this is filled again or dropped: before its consumer.
#[derive(Default)]
pub(in super::super) struct Fetched {
    messages: Vec<*mut rd::rd_kafka_message_t>,
}

// SAFETY: messages may be read and destroyed by any thread.
unsafe impl Send for Fetched {}

/// One element of what was taken.
pub(in super::super) struct Message<'f> {
    message: &'f rd::rd_kafka_message_t,
}

impl Fetched {
    /// How many.
    pub(in super::super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// One of them.
    pub(in super::super) fn get(&self, at: usize) -> Message<'_> {
        // SAFETY: librdkafka gave it, and it is destroyed only by `clear`.
        Message { message: unsafe { &*self.messages[at] } }
    }

    /// Gives all back.
    pub(in super::super) fn clear(&mut self) {
        for message in self.messages.drain(..) {
            if !message.is_null() {
                // SAFETY: it was given to us and is destroyed once.
                unsafe { rd::rd_kafka_message_destroy(message) };
            }
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<'f> Message<'f> {
    /// What it is instead of a record.
    #[inline]
    pub(in super::super) fn error(&self) -> Option<RDKafkaErrorCode> {
        match RDKafkaErrorCode::from(self.message.err) {
            RDKafkaErrorCode::NoError => None,
            code => Some(code),
        }
    }

    /// The error's text.
    pub(in super::super) fn why(&self) -> String {
        // SAFETY: the message lives.
        unsafe { text(rd::rd_kafka_message_errstr(self.message)) }
    }

    /// A number that stands for its topic as long as the consumer lives; 0 if it has none.
    #[inline]
    pub(in super::super) fn topic_handle(&self) -> usize {
        self.message.rkt as usize
    }

    /// Its topic; empty if it has none.
    pub(in super::super) fn topic(&self) -> String {
        if self.message.rkt.is_null() {
            return String::new();
        }
        // SAFETY: the message holds its topic.
        unsafe { text(rd::rd_kafka_topic_name(self.message.rkt)) }
    }

    /// Its partition.
    #[inline]
    pub(in super::super) fn partition(&self) -> i32 {
        self.message.partition
    }

    /// Its offset.
    #[inline]
    pub(in super::super) fn offset(&self) -> i64 {
        self.message.offset
    }

    /// Its key; none if it is null.
    #[inline]
    pub(in super::super) fn key(&self) -> Option<&'f [u8]> {
        // SAFETY: the key lies in the message's buffer.
        unsafe { bytes(self.message.key.cast(), self.message.key_len) }
    }

    /// Its value; none if it is null.
    #[inline]
    pub(in super::super) fn value(&self) -> Option<&'f [u8]> {
        // SAFETY: the value lies in the message's buffer.
        unsafe { bytes(self.message.payload.cast(), self.message.len) }
    }

    /// Hands over its headers, in order: names, and values or null. A name ends at its first zero byte, if it has one: librdkafka
    /// tells no more of it.
    #[inline]
    pub(in super::super) fn each_header(&self, each: impl FnMut(&[u8], Option<&[u8]>)) -> Result<(), RDKafkaErrorCode> {
        let mut headers = std::ptr::null_mut();
        // SAFETY: the message lives, and keeps what it gives.
        let code = unsafe { rd::rd_kafka_message_headers(self.message, &mut headers) };
        match RDKafkaErrorCode::from(code) {
            RDKafkaErrorCode::NoEnt => Ok(()),
            RDKafkaErrorCode::NoError => {
                // SAFETY: they are the message's, which outlives the call.
                unsafe { each_of(headers, each) };
                Ok(())
            }
            code => Err(code),
        }
    }

    /// Its time, ms since the Unix epoch; 0 if it has none.
    #[inline]
    pub(in super::super) fn timestamp_ms(&self) -> i64 {
        let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives.
        let time = unsafe { rd::rd_kafka_message_timestamp(self.message, &mut kind) };
        time.max(0)
    }
}

/// # Safety
/// The headers must live until this returns.
unsafe fn each_of(headers: *const rd::rd_kafka_headers_t, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
    let (mut name, mut value, mut length) = (std::ptr::null(), std::ptr::null(), 0);
    for at in 0.. {
        // SAFETY: the headers live, and what is given lies in them; behind the last one there is an error.
        unsafe {
            let code = rd::rd_kafka_header_get_all(headers, at, &mut name, &mut value, &mut length);
            if RDKafkaErrorCode::from(code) != RDKafkaErrorCode::NoError {
                return;
            }
            each(CStr::from_ptr(name).to_bytes(), bytes(value.cast(), length));
        }
    }
}

/// None if it is null.
///
/// # Safety
/// `start` must be null, or lead to `length` bytes that live as long as what asks.
#[inline]
unsafe fn bytes<'f>(start: *const u8, length: usize) -> Option<&'f [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(start, length) })
}
