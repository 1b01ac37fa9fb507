//! The producer of one transaction, ready to be written to: its id fenced, its epoch known, its topic learned.

use super::super::ConnectorError;
use super::client;
use super::committable::SlotId;
use super::native::{Patience, Producer};
use super::sink::SinkSettings;
use crate::clock;
use rdkafka::ClientConfig;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the brokers may take to make one ready.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Statistics come every 100 ms.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of a transaction that nobody needs is waited for.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);

/// See the module. Dropped, it aborts its transaction: one left open would hold up all readers of what was written to. One that
/// is prepared is left as it is by [`Self::keep`].
pub(super) struct Ready {
    /// The client.
    pub(super) producer: Producer,
    /// Where it is.
    pub(super) slot: SlotId,
    is_kept: bool,
}

impl Drop for Ready {
    fn drop(&mut self) {
        // One of another process, or of dead brokers, ends without us.
        if !self.is_kept
            && let Err(why) = self.producer.abort(ABORT_TIMEOUT)
        {
            tracing::debug!("a transaction that was not prepared is left to its timeout: {why}");
        }
    }
}

impl Ready {
    /// A checkpoint may hold the transaction from now on.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Producer id and epoch, as the client itself says: with the transactional id they name its transaction. They come with the
    /// statistics, up to a tenth of a second after it was made, which nobody waits for before it is prepared.
    pub(super) fn identity(&self) -> Result<(i64, i16), String> {
        let told = self.producer.identity(clock::monotonic() + IDENTITY_TIMEOUT);
        told.ok_or_else(|| "the client did not tell its producer id: it may be starved of processor time".to_owned())
    }
}

/// What producers with and without transactions have in common.
fn config(settings: &SinkSettings, client_id: &str) -> ClientConfig {
    let defaults = [
        ("linger.ms", "5"),
        ("batch.size", "1000000"),
        ("batch.num.messages", "10000"),
        ("queue.buffering.max.messages", "500000"),
        ("queue.buffering.max.kbytes", "65536"),
        ("compression.type", "lz4"),
        ("reconnect.backoff.ms", "20"),
    ];
    let mut config = client::config(&settings.spec.cluster, client_id, &defaults);
    config.set("enable.idempotence", "true").set("delivery.report.only.error", "true");
    config
}

/// Has a producer learn the topics that it will write to. Those that records have named are learned for speed alone: what is wrong
/// with one is told when a record names it again.
fn learn(settings: &SinkSettings, producer: &Producer, patience: Patience<'_>) -> Result<(), ConnectorError> {
    if let Some(topic) = &settings.spec.topic {
        producer.topic(topic, patience).map_err(|error| client::error(&settings.place, &error))?;
    }
    for topic in settings.named_topics() {
        if let Err(error) = producer.topic(&topic, patience) {
            tracing::debug!("{}: topic {topic} is not learned ahead: {error}", settings.place);
        }
    }
    Ok(())
}

/// A producer without transactions.
pub(super) fn plain(settings: &SinkSettings, writer: u32) -> Result<Producer, ConnectorError> {
    let mut config = config(settings, &format!("{}-{writer}", settings.spec.prefix));
    config.set("message.timeout.ms", milliseconds(settings.spec.needs.checkpoint_timeout));
    let failed = |error| client::error(&settings.place, &error);
    let producer = Producer::new(&config).map_err(failed)?;
    learn(settings, &producer, Patience::of(READY_TIMEOUT))?;
    Ok(producer)
}

/// Makes one ready, unless it is given up before. Takes 15 to 60 ms, and as long as the brokers need.
pub(super) fn ready(
    settings: &SinkSettings,
    slot: SlotId,
    timeout: Duration,
    given_up: &AtomicBool,
) -> Result<Ready, ConnectorError> {
    let id = slot.name(&settings.spec.prefix);
    let mut config = config(settings, &id);
    let socket_timeout = Duration::from_secs(30).min(timeout);
    config
        .set("transactional.id", &id)
        .set("transaction.timeout.ms", milliseconds(timeout))
        .set("message.timeout.ms", milliseconds(settings.spec.needs.checkpoint_timeout.min(timeout)))
        // Unset, librdkafka would take the transaction's timeout.
        .set("socket.timeout.ms", milliseconds(socket_timeout))
        .set("statistics.interval.ms", "100");
    let failed = |error| client::error(&settings.place, &error);
    let producer = Producer::new(&config).map_err(failed)?;
    learn(settings, &producer, Patience::unless(READY_TIMEOUT, given_up))?;
    let restart = |what: String| ConnectorError::restart(format!("{}: transaction {id}: {what}", settings.place));
    producer.init_transactions(Patience::unless(READY_TIMEOUT, given_up)).map_err(restart)?;
    producer.begin().map_err(restart)?;
    Ok(Ready { producer, slot, is_kept: false })
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().max(1).to_string()
}
