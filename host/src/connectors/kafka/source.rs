//! The source: its partitions, what came later, and readers of them.

use super::super::{ConnectorError, Outlook, Source, SourceConnector, SourceTask, SplitState};
use super::outlook;
use super::reader::Reader;
use super::splits::{Cluster, Partition};
use crate::graph::{KafkaSourceSpec, KafkaTopics};
use std::sync::Arc;
use std::time::Duration;

/// A configured source.
pub(in super::super) struct KafkaSourceConnector {
    place: String,
    spec: Arc<KafkaSourceSpec>,
}

impl KafkaSourceConnector {
    /// `name`: of the source in the job file.
    pub(in super::super) fn new(name: &str, spec: &KafkaSourceSpec) -> Self {
        KafkaSourceConnector { place: format!("source {name}"), spec: Arc::new(spec.clone()) }
    }

    /// For messages.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Its settings.
    pub(super) fn spec(&self) -> &KafkaSourceSpec {
        &self.spec
    }

    /// A client that asks.
    pub(super) fn cluster(&self) -> Result<Cluster<'_>, ConnectorError> {
        Cluster::new(&self.place, &self.spec)
    }
}

impl SourceConnector for KafkaSourceConnector {
    fn enumerate(&self) -> Result<Vec<SplitState>, ConnectorError> {
        self.cluster()?.splits()
    }

    fn added(&self, splits: &[SplitState]) -> Result<Vec<SplitState>, ConnectorError> {
        // The end was fixed at the first start, and with it what there is to read.
        if self.discovery().is_none() {
            return Ok(Vec::new());
        }
        let cluster = self.cluster()?;
        let found = cluster.partitions()?;
        let is_new = |partition: &&Partition| splits.iter().all(|split| split.split != partition.name());
        found.iter().filter(is_new).map(|partition| cluster.new_split(partition)).collect()
    }

    fn discovery(&self) -> Option<Duration> {
        self.spec.discovery.filter(|_| !self.spec.until_end)
    }

    fn differs(&self, splits: &[SplitState]) -> Result<Vec<String>, ConnectorError> {
        let KafkaTopics::Names(names) = &self.spec.topics else { return Ok(Vec::new()) };
        let mut topics: Vec<String> = splits.iter().filter_map(|split| Some(Partition::parse(&split.split)?.topic)).collect();
        topics.dedup();
        let left = topics.iter().filter(|topic| !names.contains(topic));
        Ok(left
            .map(|topic| format!("{}: topic {topic} is in its checkpoint and not in the job file: it is read on", self.place))
            .collect())
    }

    fn outlook(&self) -> Outlook {
        outlook::of_source(self)
    }

    fn open(&self, source: u16, splits: Vec<(u32, SplitState)>, task: SourceTask) -> Result<Box<dyn Source>, ConnectorError> {
        Ok(Box::new(Reader::open(&self.place, Arc::clone(&self.spec), source, splits, task)?))
    }
}
