//! Connector `kafka`: topics as sources and sinks.
//!
//! The only folder that names `rdkafka`. Reading and writing records is librdkafka's; transactions are ended by `weir-kafka`
//! alone, live and in recovery.

mod client;
mod committable;
mod committer;
pub(crate) mod drill;
mod flushed;
mod native;
mod outlook;
mod partitioner;
mod producer;
pub(crate) mod reach;
mod reader;
mod routing;
mod sink;
mod slots;
mod source;
mod splits;
mod standby;
mod waiting;
mod writer;

pub(super) use sink::KafkaSinkConnector;
pub(super) use source::KafkaSourceConnector;
