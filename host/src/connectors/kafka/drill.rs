//! What a drill needs of a cluster: topics of its own, and all that is committed in them.

use super::super::ConnectorError;
use super::client::{self, ASK_TIMEOUT};
use super::splits::Quiet;
use crate::graph::KafkaCluster;
use crate::{blocking, clock};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;
use weir_plugin::batch::{Headers, RecordBatch};

/// How long the reader waits for the next record before it looks at its deadline.
const SLICE: Duration = Duration::from_millis(100);
/// Without a record for so long, a topic can't be read.
const SILENCE: Duration = Duration::from_secs(60);

fn failed(topic: &str, what: &str, error: &KafkaError) -> ConnectorError {
    client::error(&format!("topic {topic}: {what}"), error)
}

fn admin(cluster: &KafkaCluster, topic: &str) -> Result<AdminClient<Quiet>, ConnectorError> {
    let config = client::config(cluster, "weir-drill", &[]);
    config.create_with_context(Quiet::default()).map_err(|error| failed(topic, "connecting", &error))
}

/// Waits for librdkafka's answer.
fn wait<T>(answer: impl Future<Output = T>) -> Result<T, ConnectorError> {
    blocking::wait(answer).map_err(|problem| ConnectorError::permanent(problem.to_string()))
}

/// Makes a topic with as many partitions as another one.
pub fn create_like(cluster: &KafkaCluster, like: &str, topic: &str) -> Result<(), ConnectorError> {
    let admin = admin(cluster, topic)?;
    let metadata = admin.inner().fetch_metadata(Some(like), ASK_TIMEOUT).map_err(|error| failed(like, "asking", &error))?;
    let partitions = metadata.topics().first().map_or(0, |found| found.partitions().len());
    if partitions == 0 {
        return Err(ConnectorError::permanent(format!("there is no topic {like}: create it first; weir creates none")));
    }
    // The brokers' own number of replicas.
    let new = NewTopic::new(topic, partitions as i32, TopicReplication::Fixed(-1));
    let options = AdminOptions::new().operation_timeout(Some(ASK_TIMEOUT)).request_timeout(Some(ASK_TIMEOUT));
    let answers = wait(admin.create_topics([&new], &options))?.map_err(|error| failed(topic, "creating it", &error))?;
    match answers.into_iter().find_map(Result::err) {
        Some((_, code)) => Err(failed(topic, "creating it", &KafkaError::AdminOp(code))),
        None => Ok(()),
    }
}

/// Deletes topics.
pub fn delete(cluster: &KafkaCluster, topics: &[String]) -> Result<(), ConnectorError> {
    let Some(first) = topics.first() else { return Ok(()) };
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let answers = wait(admin(cluster, first)?.delete_topics(&names, &AdminOptions::new().request_timeout(Some(ASK_TIMEOUT))))?;
    let answers = answers.map_err(|error| failed(first, "deleting it", &error))?;
    match answers.into_iter().find_map(Result::err) {
        Some((topic, code)) => Err(failed(&topic, "deleting it", &KafkaError::AdminOp(code))),
        None => Ok(()),
    }
}

/// Every record that a `read_committed` reader sees, as (key, value, headers); up to the first open transaction of each partition.
pub fn each_committed(
    cluster: &KafkaCluster,
    topic: &str,
    each: &mut dyn FnMut(Option<&[u8]>, Option<&[u8]>, Headers<'_>),
) -> Result<(), ConnectorError> {
    let mut config = client::config(cluster, "weir-drill", &[]);
    config.set("group.id", "weir-drill").set("isolation.level", "read_committed");
    config.set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    let consumer: BaseConsumer<Quiet> =
        config.create_with_context(Quiet::default()).map_err(|error| failed(topic, "connecting", &error))?;
    let metadata = consumer.fetch_metadata(Some(topic), ASK_TIMEOUT).map_err(|error| failed(topic, "asking", &error))?;
    let partitions: Vec<i32> =
        metadata.topics().first().map(|found| found.partitions().iter().map(|one| one.id()).collect()).unwrap_or_default();
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in &partitions {
        list.add_partition_offset(topic, *partition, Offset::Beginning).map_err(|error| failed(topic, "reading", &error))?;
    }
    consumer.assign(&list).map_err(|error| failed(topic, "reading", &error))?;
    let mut held = RecordBatch::new();
    let (mut left, mut heard) = (partitions.len(), clock::monotonic());
    while left > 0 {
        match consumer.poll(SLICE) {
            None if clock::monotonic() - heard > SILENCE => {
                return Err(ConnectorError::restart(format!("topic {topic}: nothing was read for a minute")));
            }
            None => continue,
            Some(Err(KafkaError::PartitionEOF(_))) => left -= 1,
            Some(Err(error)) => return Err(failed(topic, "reading", &error)),
            Some(Ok(record)) => {
                held.clear();
                held.push(&[], &[], 0);
                for header in record.headers().into_iter().flat_map(|all| all.iter()) {
                    held.push_header(header.key.as_bytes(), header.value);
                }
                each(record.key(), record.payload(), held.headers(0));
            }
        }
        heard = clock::monotonic();
    }
    Ok(())
}
