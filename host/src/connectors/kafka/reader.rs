//! The reader of one subtask: assigned partitions, from the checkpoint's offsets on.
//!
//! Records come in runs of one partition; each run is a batch, so that the positions of its records can be told.

use super::super::{Budget, ConnectorError, Source, SourcePoll, SourceTask, SplitState};
use super::client::{self, ASK_TIMEOUT};
use super::native::{Consumer, Fetched, Message, Position};
use super::splits::{Cluster, Partition, PartitionDetail};
use crate::channel::{PositionStep, Provenance, SourceSpan};
use crate::graph::{KafkaSourceSpec, LostOffsets};
use rdkafka::types::RDKafkaErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weir_plugin::batch::RecordBatch;

/// How long to be away when nothing is there.
const PAUSE: Duration = Duration::from_millis(2);
/// The same after a while without records.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// See the module.
pub(super) struct Reader {
    place: String,
    spec: Arc<KafkaSourceSpec>,
    source: u16,
    splits: Vec<Split>,
    by_partition: BTreeMap<Partition, usize>,
    /// The split that messages of (topic's handle, partition) belong to: found without comparing names.
    by_handle: Vec<((usize, i32), usize)>,
    // Before the consumer whose buffers it holds.
    fetched: Fetched,
    /// Next of the fetched ones.
    next: usize,
    consumer: Option<Consumer>,
    pause: Duration,
}

/// A partition that is read.
struct Split {
    index: u32,
    partition: Partition,
    position: u64,
    ended: bool,
    /// It was ended, and is not fetched any more.
    is_released: bool,
    detail: PartitionDetail,
}

impl Reader {
    pub(super) fn open(
        place: &str,
        spec: Arc<KafkaSourceSpec>,
        source: u16,
        splits: Vec<(u32, SplitState)>,
        task: SourceTask,
    ) -> Result<Self, ConnectorError> {
        let splits = splits.into_iter().map(|(index, state)| Split::restored(place, index, &state));
        let splits: Vec<Split> = splits.collect::<Result<_, _>>()?;
        let by_partition = splits.iter().enumerate().map(|(at, split)| (split.partition.clone(), at)).collect();
        let mut reader = Reader {
            place: place.to_owned(),
            spec,
            source,
            splits,
            by_partition,
            by_handle: Vec::new(),
            fetched: Fetched::default(),
            next: 0,
            consumer: None,
            pause: PAUSE,
        };
        if reader.splits.iter().any(|split| !split.ended) {
            reader.consumer = Some(reader.connect(task.subtask)?);
        }
        Ok(reader)
    }

    fn connect(&self, subtask: u32) -> Result<Consumer, ConnectorError> {
        let defaults = [
            // Much is fetched ahead, within a bound of memory for each reader.
            ("queued.min.messages", "100000"),
            ("queued.max.messages.kbytes", "16384"),
            ("fetch.queue.backoff.ms", "5"),
            ("fetch.wait.max.ms", "100"),
        ];
        let mut config = client::config(&self.spec.cluster, &format!("weir-{}-{subtask}", self.spec.group), &defaults);
        config
            .set("group.id", &self.spec.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", if self.spec.until_end { "true" } else { "false" })
            .set("isolation.level", if self.spec.read_uncommitted { "read_uncommitted" } else { "read_committed" });
        let failed = |error| client::error(&self.place, &error);
        let consumer = Consumer::new(&config).map_err(failed)?;
        let positions: Vec<Position> = self.splits.iter().filter(|split| !split.ended).map(Split::next).collect();
        consumer.assign(&positions).map_err(failed)?;
        Ok(consumer)
    }

    /// The split of a message's topic and partition; none if it is not read.
    fn split_of(&mut self, at: usize) -> Option<usize> {
        let message = self.fetched.get(at);
        let handle = handle_of(&message);
        if let Some((_, split)) = self.by_handle.iter().find(|(known, _)| *known == handle) {
            return Some(*split);
        }
        let split = *self.by_partition.get(&partition_of(&message))?;
        self.by_handle.push((handle, split));
        Some(split)
    }

    /// The next run of records of one partition; none: all that was fetched is used up.
    fn next_run(&mut self, budget: Budget) -> Result<Option<SourcePoll>, ConnectorError> {
        while self.next < self.fetched.len() {
            let message = self.fetched.get(self.next);
            if let Some(code) = message.error() {
                let trouble = Trouble { code, why: message.why(), partition: partition_of(&message), offset: message.offset() };
                self.next += 1;
                self.on_trouble(trouble)?;
                continue;
            }
            let Some(split) = self.split_of(self.next) else {
                self.next += 1;
                continue;
            };
            let run = self.take_run(split, budget)?;
            if self.splits[split].ended {
                self.release(split)?;
            }
            if run.is_some() {
                return Ok(run);
            }
        }
        Ok(None)
    }

    fn take_run(&mut self, at: usize, budget: Budget) -> Result<Option<SourcePoll>, ConnectorError> {
        let Reader { fetched, next, splits, source, place, .. } = self;
        let split = &mut splits[at];
        let end = split.detail.end.unwrap_or(u64::MAX);
        let handle = handle_of(&fetched.get(*next));
        let (mut records, mut bytes) = (RecordBatch::new(), 0);
        let (mut first, mut has_gaps) = (0, false);
        while *next < fetched.len() && records.len() < budget.records {
            let message = fetched.get(*next);
            if message.error().is_some() || handle_of(&message) != handle {
                break;
            }
            let offset = message.offset() as u64;
            // What was fetched before a seek may come still.
            if offset < split.position {
                *next += 1;
                continue;
            }
            if offset >= end {
                split.ended = true;
            }
            if split.ended {
                *next += 1;
                continue;
            }
            let (key, value) = (message.key(), message.value());
            let length = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
            bytes += length;
            if records.is_empty() {
                let ahead = (fetched.len() - *next).min(budget.records);
                records = RecordBatch::with_capacity(ahead, (ahead * length).min(budget.bytes));
                first = offset;
            } else if bytes > budget.bytes {
                break;
            } else {
                has_gaps |= offset != split.position;
            }
            records.push_nullable(key, value, message.timestamp_ms());
            let read = message.each_header(|name, value| {
                bytes += name.len() + value.map_or(0, <[u8]>::len);
                records.push_header(name, value);
            });
            read.map_err(|code| {
                let partition = split.partition.name();
                ConnectorError::permanent(format!("{place}: {partition}: the headers of offset {offset} can't be read: {code}"))
            })?;
            split.position = offset + 1;
            split.ended = split.position >= end;
            *next += 1;
        }
        if records.is_empty() {
            return Ok(None);
        }
        let span = SourceSpan { source: *source, split: split.index, first, last: split.position - 1 };
        let step = if has_gaps { PositionStep::Unknown } else { PositionStep::One };
        Ok(Some(SourcePoll::Batch { records, provenance: Provenance::of_source(span, step) }))
    }

    /// A partition was read to its end.
    fn release(&mut self, at: usize) -> Result<(), ConnectorError> {
        let split = &mut self.splits[at];
        if std::mem::replace(&mut split.is_released, true) {
            return Ok(());
        }
        let consumer = self.consumer.as_ref().expect("what is read has a consumer");
        consumer.unassign(&[split.next()]).map_err(|error| client::error(&self.place, &error))
    }

    fn on_trouble(&mut self, trouble: Trouble) -> Result<(), ConnectorError> {
        let split = self.by_partition.get(&trouble.partition).copied();
        let named = match split {
            Some(split) => format!("{}: {}", self.place, self.splits[split].partition.name()),
            None => self.place.clone(),
        };
        match (trouble.code, split) {
            (RDKafkaErrorCode::PartitionEOF, Some(split)) => {
                let own = &mut self.splits[split];
                // The last offsets may be marks of transactions, which are no records.
                if own.detail.end.is_some_and(|end| trouble.offset >= 0 && trouble.offset as u64 >= end) {
                    own.ended = true;
                    return self.release(split);
                }
                Ok(())
            }
            (RDKafkaErrorCode::PartitionEOF, None) => Ok(()),
            (RDKafkaErrorCode::AutoOffsetReset, Some(split)) => self.offsets_lost(split),
            (
                RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::SaslAuthenticationFailed
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::Fatal,
                _,
            ) => {
                let error = client::error(&named, &rdkafka::error::KafkaError::MessageConsumption(trouble.code));
                // A topic that was there may come back: a restart looks again.
                Err(ConnectorError { message: format!("{} ({})", error.message, trouble.why), ..error })
            }
            // A broker is away, slow or busy: librdkafka tries again.
            (code, _) => {
                tracing::info!("{named}: {code}: {}", trouble.why);
                Ok(())
            }
        }
    }

    /// The offset that is to be read next is not there.
    fn offsets_lost(&mut self, at: usize) -> Result<(), ConnectorError> {
        let split = &self.splits[at];
        let (low, high) = Cluster::new(&self.place, &self.spec)?.bounds(&split.partition)?;
        let (name, wanted) = (split.partition.name(), split.position);
        if wanted > high {
            return Err(ConnectorError::permanent(format!(
                "{}: {name} ends at offset {high}, but was read up to {wanted}: the topic was made anew or cut; start over with \
                 --fresh, or bring back what it held",
                self.place
            )));
        }
        if wanted >= low {
            // It was there when asked again.
            return self.seek(at);
        }
        let lost = format!("offsets {wanted} to {} of {name} were deleted before they were read", low - 1);
        match self.spec.on_lost_offsets {
            LostOffsets::Fail => Err(ConnectorError::permanent(format!(
                "{}: {lost} (retention); set on_lost_offsets = \"skip\" to go on without them, and a longer retention",
                self.place
            ))),
            LostOffsets::Skip => {
                tracing::warn!("{}: {lost}: skipped", self.place);
                let split = &mut self.splits[at];
                split.detail.skipped += low - wanted;
                split.position = low;
                self.seek(at)
            }
        }
    }

    fn seek(&mut self, at: usize) -> Result<(), ConnectorError> {
        let consumer = self.consumer.as_ref().expect("what is read has a consumer");
        consumer.seek(&self.splits[at].next(), ASK_TIMEOUT).map_err(|error| client::error(&self.place, &error))
    }
}

impl Source for Reader {
    fn poll(&mut self, budget: Budget) -> Result<SourcePoll, ConnectorError> {
        loop {
            if let Some(run) = self.next_run(budget)? {
                self.pause = PAUSE;
                return Ok(run);
            }
            if self.spec.until_end && self.splits.iter().all(|split| split.ended) {
                return Ok(SourcePoll::End);
            }
            // A reader without partitions waits for new ones, which come with a restart.
            let Some(consumer) = &self.consumer else { return Ok(SourcePoll::Pending(PAUSE_MAX)) };
            consumer.take(&mut self.fetched, Duration::ZERO);
            self.next = 0;
            if self.fetched.len() == 0 {
                if let Some(fatal) = consumer.events().heard().fatal {
                    return Err(ConnectorError::restart(format!("{}: {fatal}", self.place)));
                }
                let pause = self.pause;
                self.pause = PAUSE_MAX.min(pause * 2);
                return Ok(SourcePoll::Pending(pause));
            }
        }
    }

    fn positions(&self) -> Vec<(u32, SplitState)> {
        self.splits.iter().map(|split| (split.index, split.state())).collect()
    }

    fn has_ended(&self, split: u32) -> bool {
        self.splits.iter().any(|own| own.index == split && own.ended)
    }

    fn completed(&mut self, positions: &[(u32, u64)]) {
        let Some(consumer) = &self.consumer else { return };
        let own = positions.iter().filter_map(|(index, position)| {
            let split = self.splits.iter().find(|split| split.index == *index)?;
            Some(Position { offset: *position as i64, ..split.next() })
        });
        // For lag tools only: nothing is read from it again.
        if let Err(error) = consumer.commit(&own.collect::<Vec<_>>()) {
            tracing::info!("{}: its positions could not be written to group {}: {error}", self.place, self.spec.group);
        }
    }

    fn tells_positions(&self) -> bool {
        self.spec.commit_offsets
    }
}

/// What came instead of a record.
struct Trouble {
    code: RDKafkaErrorCode,
    why: String,
    partition: Partition,
    offset: i64,
}

#[inline]
fn handle_of(message: &Message<'_>) -> (usize, i32) {
    (message.topic_handle(), message.partition())
}

fn partition_of(message: &Message<'_>) -> Partition {
    Partition { topic: message.topic(), number: message.partition() }
}

impl Split {
    fn restored(place: &str, index: u32, state: &SplitState) -> Result<Self, ConnectorError> {
        let unreadable = |why: String| {
            ConnectorError::permanent(format!("{place}: the checkpoint's partition {} can't be read: {why}", state.split))
        };
        let partition = Partition::parse(&state.split).ok_or_else(|| unreadable("it is no topic/partition".to_owned()))?;
        let detail = match state.detail.is_null() {
            true => PartitionDetail::default(),
            false => serde_json::from_value(state.detail.clone()).map_err(|error| unreadable(error.to_string()))?,
        };
        Ok(Split { index, partition, position: state.position, ended: state.ended, is_released: state.ended, detail })
    }

    /// Where it is read on.
    fn next(&self) -> Position {
        Position { topic: self.partition.topic.clone(), partition: self.partition.number, offset: self.position as i64 }
    }

    fn state(&self) -> SplitState {
        SplitState {
            split: self.partition.name(),
            position: self.position,
            ended: self.ended,
            detail: serde_json::to_value(&self.detail).expect("numbers are always JSON"),
        }
    }
}
