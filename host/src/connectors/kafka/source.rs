//! The source: its partitions, what came later, and readers of them.

use super::super::{ConnectorError, Outlook, Source, SourceConnector, SourceTask, SplitState};
use super::outlook;
use super::reader::Reader;
use super::splits::{Cluster, Partition, PartitionDetail, start_of};
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

    /// Settings that hold for the first start alone, and say something else by now.
    fn not_taken(&self, splits: &[SplitState]) -> Vec<String> {
        let place = &self.place;
        // One that can't be read is told of when it is opened.
        let kept = splits.iter().filter(|split| !split.ended).filter_map(|split| {
            Some((split.split.as_str(), serde_json::from_value::<PartitionDetail>(split.detail.clone()).ok()?))
        });
        let kept: Vec<(&str, PartitionDetail)> = kept.collect();
        let mut told = Vec::new();
        let began = |name: &str, detail: &PartitionDetail| {
            let now = start_of(&self.spec.start, name);
            let then = detail.start.clone().filter(|then| *then != now)?;
            Some((then, now))
        };
        if let Some((name, (then, now))) = kept.iter().find_map(|(name, detail)| Some((name, began(name, detail)?))) {
            told.push(format!(
                "{place}: 'start' is not taken, as it holds for the first start: {name} began by {then}, not {now}, and is read on \
                 from the checkpoint; a source of another name begins anew, or --fresh"
            ));
        }
        if let Some((name, detail)) = kept.iter().find(|(_, detail)| detail.end.is_some() != self.spec.until_end) {
            let then = detail.end.map_or("has no end".to_owned(), |end| format!("ends at offset {end}"));
            told.push(format!(
                "{place}: 'until' is not taken, as ends are fixed at the first start: {name} {then}; a source of another name \
                 begins anew, or --fresh"
            ));
        }
        told
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
        let mut told = self.not_taken(splits);
        let KafkaTopics::Names(names) = &self.spec.topics else { return Ok(told) };
        let mut topics: Vec<String> = splits.iter().filter_map(|split| Some(Partition::parse(&split.split)?.topic)).collect();
        topics.dedup();
        let left = topics.iter().filter(|topic| !names.contains(topic));
        told.extend(
            left.map(|topic| {
                format!("{}: topic {topic} is in its checkpoint and not in the job file: it is read on", self.place)
            }),
        );
        Ok(told)
    }

    fn outlook(&self) -> Outlook {
        outlook::of_source(self)
    }

    fn open(&self, source: u16, splits: Vec<(u32, SplitState)>, task: SourceTask) -> Result<Box<dyn Source>, ConnectorError> {
        Ok(Box::new(Reader::open(&self.place, Arc::clone(&self.spec), source, splits, task)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{SourceConnectorSpec, job_file};
    use std::path::Path;

    fn told(settings: &str, splits: &[SplitState]) -> Vec<String> {
        let text = format!(
            "[job]\nname = \"j\"\n[[source]]\nname = \"in\"\nconnector = \"kafka\"\nbrokers = \"a:1\"\ntopic = \"t\"\n{settings}\n\
             [[sink]]\nname = \"out\"\nconnector = \"discard\"\nfrom = \"in\"\n"
        );
        let graph = job_file::parse(&text, Path::new("job.toml"), Path::new("/jobs"), &|_| None).expect("a good job");
        let SourceConnectorSpec::Kafka(spec) = &graph.sources[0].connector else { panic!("it is kafka") };
        KafkaSourceConnector::new("in", spec).differs(splits).expect("it asks nobody")
    }

    #[test]
    fn settings_of_the_first_start_that_changed_are_told() {
        let split = |number: u32, end, start: Option<&str>, ended| {
            let detail = PartitionDetail { end, skipped: 0, start: start.map(str::to_owned) };
            let detail = serde_json::to_value(detail).expect("plain data");
            SplitState { split: format!("t/{number}"), position: 5, ended, detail }
        };
        let first = [split(0, None, Some("offset 3"), false), split(1, None, Some("earliest"), false)];
        let same = "start = { offsets = { \"t/0\" = 3 } }";
        assert!(told(same, &first).is_empty());
        let later = told("start = \"latest\"\nuntil = \"end\"", &first);
        assert!(
            later[0].starts_with("source in: 'start' is not taken") && later[0].contains("t/0 began by offset 3, not latest")
        );
        assert!(later[1].starts_with("source in: 'until' is not taken") && later[1].contains("t/0 has no end"));
        assert_eq!(later.len(), 2);
        let bounded = [split(0, Some(9), Some("earliest"), false)];
        assert!(told("", &bounded)[0].contains("t/0 ends at offset 9"));
        assert!(told("until = \"end\"", &bounded).is_empty());
        // What has ended is not read, and what an older version wrote says nothing.
        assert!(told("", &[split(0, Some(9), Some("latest"), true)]).is_empty());
        assert!(told("start = \"latest\"", &[split(0, None, None, false)]).is_empty());
    }
}
