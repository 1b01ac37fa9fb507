//! What a cluster has: topics, partitions, and the offsets to begin and to end at.

use super::super::{ConnectorError, SplitState};
use super::client::{self, ASK_TIMEOUT};
use crate::clock;
use crate::graph::{KafkaSourceSpec, KafkaStart, KafkaTopics};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the checkpoint keeps about a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartitionDetail {
    /// The offset to stop before, for a source that has an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<u64>,
    /// Records that were gone before they were read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) skipped: u64,
    /// What the job file's `start` said of it then, to tell of a change; none: the checkpoint is of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<String>,
}

/// What `start` says of a partition.
pub(super) fn start_of(start: &KafkaStart, partition: &str) -> String {
    match start {
        KafkaStart::Earliest => "earliest".to_owned(),
        KafkaStart::Latest => "latest".to_owned(),
        KafkaStart::Committed => "committed".to_owned(),
        KafkaStart::Timestamp(ms) => format!("timestamp_ms = {ms}"),
        KafkaStart::Offsets(offsets) => offsets.get(partition).map_or("earliest".to_owned(), |offset| format!("offset {offset}")),
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How long one question waits before what came beside is looked at.
const SLICE: Duration = Duration::from_secs(1);

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Partition {
    /// Topic.
    pub(super) topic: String,
    /// Number.
    pub(super) number: i32,
}

impl Partition {
    /// As a split's name: `orders/3`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.topic, self.number)
    }

    /// From a split's name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (topic, number) = name.rsplit_once('/')?;
        Some(Partition { topic: topic.to_owned(), number: number.parse().ok()? })
    }
}

/// Log lines go where ours go; other news is of no interest to who only asks.
#[derive(Default)]
pub(super) struct Quiet {
    /// What no waiting mends.
    refused: Mutex<Option<KafkaError>>,
}

impl ClientContext for Quiet {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", "{facility}: {line}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
        if client::is_permanent(&error) {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

impl ConsumerContext for Quiet {}

/// Asks a cluster.
pub(super) struct Cluster<'s> {
    spec: &'s KafkaSourceSpec,
    /// For messages: `source orders`.
    place: &'s str,
    consumer: BaseConsumer<Quiet>,
}

impl<'s> Cluster<'s> {
    /// A client that reads nothing.
    pub(super) fn new(place: &'s str, spec: &'s KafkaSourceSpec) -> Result<Self, ConnectorError> {
        let mut config = client::config(&spec.cluster, "weir", &[]);
        config.set("group.id", &spec.group).set("enable.auto.commit", "false");
        let consumer = config.create_with_context(Quiet::default()).map_err(|error| client::error(place, &error))?;
        Ok(Cluster { spec, place, consumer })
    }

    fn failed(&self, what: &str, error: &KafkaError) -> ConnectorError {
        client::error(&format!("{}: {what}", self.place), error)
    }

    /// All partitions of the source's topics, by topic and number.
    pub(super) fn partitions(&self) -> Result<Vec<Partition>, ConnectorError> {
        let mut found = match &self.spec.topics {
            KafkaTopics::Names(names) => {
                let mut found = Vec::new();
                for name in names {
                    found.extend(self.of_topic(name)?);
                }
                found
            }
            KafkaTopics::Pattern(pattern) => self.matching(pattern)?,
        };
        found.sort();
        Ok(found)
    }

    /// Asks in slices: librdkafka would wait its whole time for a broker that has refused the password at once.
    fn metadata(&self, topic: Option<&str>, what: &str) -> Result<Metadata, ConnectorError> {
        let deadline = clock::monotonic() + ASK_TIMEOUT;
        loop {
            let error = match self.consumer.fetch_metadata(topic, SLICE) {
                Ok(metadata) => return Ok(metadata),
                Err(error) => error,
            };
            // What went wrong beside comes when it is asked for.
            while let Some(event) = self.consumer.poll(Duration::ZERO) {
                if let Err(beside) = event
                    && client::is_permanent(&beside)
                {
                    return Err(self.failed(what, &beside));
                }
            }
            let beside = self.consumer.context().refused.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(beside) = beside {
                return Err(self.failed(what, &beside));
            }
            if client::is_permanent(&error) || clock::monotonic() >= deadline {
                return Err(self.failed(what, &error));
            }
        }
    }

    fn of_topic(&self, name: &str) -> Result<Vec<Partition>, ConnectorError> {
        let what = format!("asking for the partitions of topic {name}");
        let metadata = self.metadata(Some(name), &what)?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == name);
        if let Some(error) = topic.and_then(|topic| topic.error()) {
            let code = KafkaError::MetadataFetch(RDKafkaErrorCode::from(error));
            return Err(self.failed(&what, &code));
        }
        let numbers: Vec<i32> = topic.map(|topic| topic.partitions().iter().map(|one| one.id()).collect()).unwrap_or_default();
        if numbers.is_empty() {
            let code = KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition);
            return Err(self.failed(&what, &code));
        }
        Ok(numbers.into_iter().map(|number| Partition { topic: name.to_owned(), number }).collect())
    }

    fn matching(&self, pattern: &str) -> Result<Vec<Partition>, ConnectorError> {
        let whole = regex::Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
            ConnectorError::permanent(format!("{}: topic_pattern is no regular expression: {error}", self.place))
        })?;
        let what = "asking for the topics";
        let metadata = self.metadata(None, what)?;
        // Kafka's own topics are never meant.
        let topics = metadata.topics().iter().filter(|topic| !topic.name().starts_with("__") && whole.is_match(topic.name()));
        let found: Vec<Partition> = topics
            .flat_map(|topic| topic.partitions().iter().map(|one| Partition { topic: topic.name().to_owned(), number: one.id() }))
            .collect();
        if found.is_empty() {
            let message = format!("{}: no topic matches '{pattern}': create one first, or change topic_pattern", self.place);
            return Err(ConnectorError::permanent(message));
        }
        Ok(found)
    }

    /// Offsets of a partition's oldest record and of the next one to be written.
    pub(super) fn bounds(&self, partition: &Partition) -> Result<(u64, u64), ConnectorError> {
        let (low, high) = self
            .consumer
            .fetch_watermarks(&partition.topic, partition.number, ASK_TIMEOUT)
            .map_err(|error| self.failed(&format!("asking for the offsets of {}", partition.name()), &error))?;
        // Offsets are never negative; what is not known yet is.
        Ok((u64::try_from(low).unwrap_or(0), u64::try_from(high).unwrap_or(0)))
    }

    /// Where to begin at the first start, and where to end.
    pub(super) fn splits(&self) -> Result<Vec<SplitState>, ConnectorError> {
        let partitions = self.partitions()?;
        let asked = self.asked_starts(&partitions)?;
        let mut splits = Vec::with_capacity(partitions.len());
        for (partition, asked) in partitions.iter().zip(asked) {
            let (low, high) = self.bounds(partition)?;
            let position = match (&self.spec.start, asked) {
                (KafkaStart::Earliest, _) => low,
                (KafkaStart::Latest, _) => high,
                (KafkaStart::Committed | KafkaStart::Offsets(_), None) => low,
                // Nothing is that young yet.
                (KafkaStart::Timestamp(_), None) => high,
                (KafkaStart::Timestamp(_), Some(offset)) => offset,
                (KafkaStart::Committed | KafkaStart::Offsets(_), Some(offset)) => {
                    if !(low..=high).contains(&offset) {
                        return Err(ConnectorError::permanent(format!(
                            "{} was to begin at offset {offset}, but holds {low} to {high}: change 'start'",
                            partition.name()
                        )));
                    }
                    offset
                }
            };
            splits.push(self.split(partition, position, high));
        }
        Ok(splits)
    }

    /// A partition that came later: from its oldest record.
    pub(super) fn new_split(&self, partition: &Partition) -> Result<SplitState, ConnectorError> {
        let (low, high) = self.bounds(partition)?;
        Ok(self.split(partition, low, high))
    }

    fn split(&self, partition: &Partition, position: u64, high: u64) -> SplitState {
        let end = self.spec.until_end.then_some(high);
        let start = Some(start_of(&self.spec.start, &partition.name()));
        let detail = PartitionDetail { end, skipped: 0, start };
        SplitState {
            split: partition.name(),
            position,
            ended: end.is_some_and(|end| position >= end),
            detail: serde_json::to_value(detail).expect("numbers and text are always JSON"),
        }
    }

    /// What is wrong with a `start` that names a partition which is not there.
    pub(super) fn unknown_start(&self, partitions: &[Partition]) -> Option<String> {
        let KafkaStart::Offsets(offsets) = &self.spec.start else { return None };
        let unknown = offsets.keys().find(|name| partitions.iter().all(|partition| partition.name() != **name))?;
        Some(format!("start.offsets names {unknown}, which is no partition of its topics: change 'start'"))
    }

    /// The offsets that `start` names, where it names one.
    fn asked_starts(&self, partitions: &[Partition]) -> Result<Vec<Option<u64>>, ConnectorError> {
        match &self.spec.start {
            KafkaStart::Earliest | KafkaStart::Latest => Ok(vec![None; partitions.len()]),
            KafkaStart::Offsets(offsets) => {
                if let Some(why) = self.unknown_start(partitions) {
                    // Who asks for splits names the source.
                    return Err(ConnectorError::permanent(why));
                }
                let names: Vec<String> = partitions.iter().map(Partition::name).collect();
                Ok(names.iter().map(|name| offsets.get(name).and_then(|offset| u64::try_from(*offset).ok())).collect())
            }
            KafkaStart::Timestamp(time_ms) => {
                let list = list(partitions, Offset::Offset(*time_ms));
                let what = "asking for the offsets of a time";
                let answer = self.consumer.offsets_for_times(list, ASK_TIMEOUT).map_err(|error| self.failed(what, &error))?;
                self.answered(what, &answer, partitions)
            }
            KafkaStart::Committed => {
                let list = list(partitions, Offset::Invalid);
                let what = format!("asking for the offsets that group {} has committed", self.spec.group);
                let answer = self.consumer.committed_offsets(list, ASK_TIMEOUT).map_err(|error| self.failed(&what, &error))?;
                self.answered(&what, &answer, partitions)
            }
        }
    }

    fn answered(
        &self,
        what: &str,
        answer: &TopicPartitionList,
        partitions: &[Partition],
    ) -> Result<Vec<Option<u64>>, ConnectorError> {
        let mut offsets = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let Some(one) = answer.find_partition(&partition.topic, partition.number) else {
                offsets.push(None);
                continue;
            };
            one.error().map_err(|error| self.failed(what, &error))?;
            offsets.push(match one.offset() {
                Offset::Offset(offset) => u64::try_from(offset).ok(),
                _ => None,
            });
        }
        Ok(offsets)
    }
}

fn list(partitions: &[Partition], offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition_offset(&partition.topic, partition.number, offset).expect("an offset is within bounds");
    }
    list
}
