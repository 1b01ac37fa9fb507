//! The calls of librdkafka that crate `rdkafka` does not wrap, or only with waits of its own: records in batches, a flush that
//! ends when all is sent, a producer that goes without a goodbye.
//!
//! All `unsafe` of the connector is here. What the callbacks hear lands in [`Events`].

mod consumer;
mod producer;

pub(super) use consumer::{Consumer, Fetched, Message, Position};
pub(super) use producer::{Outbound, Outgoing, Producer, Refused};

use crate::clock;
use rdkafka::ClientConfig;
use rdkafka::bindings as rd;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the brokers' answer is waited for.
#[derive(Clone, Copy)]
pub(super) struct Patience<'p> {
    deadline: Instant,
    given_up: Option<&'p AtomicBool>,
}

impl<'p> Patience<'p> {
    /// So long, from now on.
    pub(super) fn of(time: Duration) -> Self {
        Patience { deadline: clock::monotonic() + time, given_up: None }
    }

    /// The same, or until nobody wants the answer any more.
    pub(super) fn unless(time: Duration, given_up: &'p AtomicBool) -> Self {
        Patience { given_up: Some(given_up), ..Patience::of(time) }
    }

    /// What is left of it.
    fn left(&self) -> Duration {
        match self.given_up.is_some_and(|given_up| given_up.load(Ordering::Relaxed)) {
            true => Duration::ZERO,
            false => self.deadline.saturating_duration_since(clock::monotonic()),
        }
    }
}

/// What a client has told us beside its answers.
#[derive(Debug)]
pub(super) struct Events {
    heard: Mutex<Heard>,
    /// The brokers that it begins with.
    brokers: CString,
}

/// See [`Events`].
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Records that were not delivered, and why the first one was not.
    pub(super) undelivered: u64,
    pub(super) first_failure: Option<String>,
    /// A fatal error of the client, or one of its transaction, which librdkafka only logs.
    pub(super) fatal: Option<String>,
    /// The last error that it goes on after.
    pub(super) last_error: Option<String>,
    /// Producer id and epoch, from the statistics.
    pub(super) identity: Option<(i64, i16)>,
}

impl Events {
    fn change(&self, change: impl FnOnce(&mut Heard)) {
        change(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All so far.
    pub(super) fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A client, destroyed when dropped.
pub(super) struct Handle {
    rk: *mut rd::rd_kafka_t,
    // Boxed: the client holds its address.
    events: Box<Events>,
}

// SAFETY: librdkafka's handles may be used from any thread, also at the same time; `Events` is behind a lock.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn new(config: &ClientConfig, kind: rd::rd_kafka_type_t) -> Result<Self, KafkaError> {
        let brokers = CString::new(config.get("bootstrap.servers").unwrap_or_default()).unwrap_or_default();
        let config = config.create_native_config()?;
        let events = Box::new(Events { heard: Mutex::default(), brokers });
        let opaque: *const Events = &*events;
        let mut why = [0 as c_char; 512];
        // SAFETY: `config` is a live configuration, and the client takes it over only if it is made. The callbacks get `opaque`,
        // which lives as long as the handle, and the handle destroys the client before it goes.
        unsafe {
            let conf = config.ptr();
            rd::rd_kafka_conf_set_opaque(conf, opaque.cast_mut().cast());
            rd::rd_kafka_conf_set_log_cb(conf, Some(on_log));
            rd::rd_kafka_conf_set_error_cb(conf, Some(on_error));
            rd::rd_kafka_conf_set_stats_cb(conf, Some(on_stats));
            rd::rd_kafka_conf_set_throttle_cb(conf, Some(on_throttle));
            if matches!(kind, rd::rd_kafka_type_t::RD_KAFKA_PRODUCER) {
                rd::rd_kafka_conf_set_dr_msg_cb(conf, Some(on_delivery));
            }
            let rk = rd::rd_kafka_new(kind, conf, why.as_mut_ptr(), why.len());
            if rk.is_null() {
                return Err(KafkaError::ClientCreation(text(why.as_ptr())));
            }
            let _taken_over = ManuallyDrop::new(config);
            Ok(Handle { rk, events })
        }
    }

    /// What it has told so far.
    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// Serves the callbacks for so long, or until there is nothing to serve.
    fn poll(&self, timeout: Duration) {
        // SAFETY: the client lives as long as `self`.
        unsafe { rd::rd_kafka_poll(self.rk, milliseconds(timeout)) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle any more. Nothing is flushed, no group is left, no transaction ended.
        unsafe { rd::rd_kafka_destroy_flags(self.rk, rd::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE) };
    }
}

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

/// # Safety
/// `text` must be null or a C string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Takes an error object over; none is success.
///
/// # Safety
/// `error` must be null, or an error that nobody else destroys.
unsafe fn check(error: *mut rd::rd_kafka_error_t) -> Result<(), (RDKafkaErrorCode, String, bool)> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: it is a live error; it is destroyed once, after its text was copied.
    unsafe {
        let code = RDKafkaErrorCode::from(rd::rd_kafka_error_code(error));
        let what = text(rd::rd_kafka_error_string(error));
        let retriable = rd::rd_kafka_error_is_retriable(error) != 0;
        rd::rd_kafka_error_destroy(error);
        Err((code, what, retriable))
    }
}

/// # Safety
/// `opaque` must be that of a client made by [`Handle::new`].
unsafe fn events<'a>(opaque: *mut c_void) -> Option<&'a Events> {
    // SAFETY: it is null while the client is being made, and lives longer than the client afterwards.
    unsafe { opaque.cast::<Events>().as_ref() }
}

unsafe extern "C" fn on_log(rk: *const rd::rd_kafka_t, level: c_int, facility: *const c_char, line: *const c_char) {
    // SAFETY: librdkafka gives C strings, and a client of ours or none.
    let (facility, line) = unsafe { (text(facility), text(line)) };
    // An abortable error of a transaction is told in no other way (rdkafka_txnmgr.c, rd_kafka_txn_set_abortable_error).
    if facility == "TXNERR" && !rk.is_null() {
        // SAFETY: as above.
        if let Some(events) = unsafe { events(rd::rd_kafka_opaque(rk)) } {
            events.change(|heard| _ = heard.fatal.get_or_insert_with(|| line.clone()));
        }
    }
    match level {
        0..=3 => tracing::warn!(target: "librdkafka", "{facility}: {line}"),
        4..=5 => tracing::info!(target: "librdkafka", "{facility}: {line}"),
        _ => tracing::debug!(target: "librdkafka", "{facility}: {line}"),
    }
}

unsafe extern "C" fn on_error(rk: *mut rd::rd_kafka_t, code: c_int, reason: *const c_char, opaque: *mut c_void) {
    // SAFETY: librdkafka gives its own client, a C string, and the opaque that it was made with.
    unsafe {
        let reason = text(reason);
        let mut why = [0 as c_char; 512];
        let fatal = RDKafkaErrorCode::from(rd::rd_kafka_fatal_error(rk, why.as_mut_ptr(), why.len()));
        let fatal = (fatal != RDKafkaErrorCode::NoError).then(|| text(why.as_ptr()));
        if let Some(events) = events(opaque) {
            events.change(|heard| match fatal {
                Some(fatal) => _ = heard.fatal.get_or_insert(fatal),
                None => heard.last_error = Some(format!("{reason} ({code})")),
            });
            // A cluster that has just come back may name no broker for a moment. librdkafka forgets all it knew then, and may call
            // off the start from the first ones that it has planned: it would stay alone for good (its issue 5301).
            if code == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as c_int {
                rd::rd_kafka_brokers_add(rk, events.brokers.as_ptr());
            }
        }
    }
}

unsafe extern "C" fn on_throttle(_: *mut rd::rd_kafka_t, broker: *const c_char, id: i32, throttle_ms: c_int, _: *mut c_void) {
    // SAFETY: librdkafka gives a C string.
    let broker = unsafe { text(broker) };
    // Each answer of a throttled client is another one.
    tracing::debug!("broker {id} ({broker}) holds this client back by {throttle_ms} ms: it has used up its quota");
}

unsafe extern "C" fn on_stats(_: *mut rd::rd_kafka_t, json: *mut c_char, length: usize, opaque: *mut c_void) -> c_int {
    /// What is read of the statistics.
    #[derive(serde::Deserialize)]
    struct Statistics {
        eos: Option<Eos>,
    }
    #[derive(serde::Deserialize)]
    struct Eos {
        producer_id: i64,
        producer_epoch: i16,
    }
    // SAFETY: librdkafka gives `length` bytes, which it frees when 0 is returned.
    let json = unsafe { std::slice::from_raw_parts(json.cast::<u8>(), length) };
    if let Ok(Statistics { eos: Some(Eos { producer_id, producer_epoch }) }) = serde_json::from_slice(json)
        && producer_id >= 0
    {
        // SAFETY: the opaque that the client was made with.
        if let Some(events) = unsafe { events(opaque) } {
            events.change(|heard| heard.identity = Some((producer_id, producer_epoch)));
        }
    }
    0
}

unsafe extern "C" fn on_delivery(_: *mut rd::rd_kafka_t, message: *const rd::rd_kafka_message_t, opaque: *mut c_void) {
    // SAFETY: librdkafka gives a live message and the opaque that the client was made with.
    unsafe {
        let code = RDKafkaErrorCode::from((*message).err);
        if code == RDKafkaErrorCode::NoError {
            return;
        }
        if let Some(events) = events(opaque) {
            events.change(|heard| {
                heard.undelivered += 1;
                heard.first_failure.get_or_insert_with(|| code.to_string());
            });
        }
    }
}
