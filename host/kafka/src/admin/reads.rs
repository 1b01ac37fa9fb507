//! What a check of a job wants to know of a cluster: brokers, their settings, topics.

use super::TransactionAdmin;
use crate::attempts::Attempts;
use crate::code;
use crate::error::KafkaError;
use crate::settings::Address;
use crate::wire::Ask;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{DescribeConfigsRequest, MetadataRequest};
use kafka_protocol::protocol::StrBytes;
use std::time::Instant;

/// Kinds of a resource in DescribeConfigs.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// A broker of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broker {
    pub id: i32,
    pub address: Address,
}

/// One answer to Metadata.
pub(super) struct View {
    /// Who answered.
    pub broker: Address,
    /// In the order of their ids.
    pub brokers: Vec<Broker>,
    pub topics: Vec<MetadataResponseTopic>,
}

/// A setting of one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSetting {
    /// The broker's node id.
    pub broker: i32,
    /// Its value; none if the broker has no setting of that name, or hides it.
    pub value: Option<String>,
}

/// What a topic is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: usize,
    /// Replicas of the partition that has the fewest.
    pub replication_factor: usize,
    /// `min.insync.replicas` as it holds for this topic.
    pub min_insync_replicas: Option<u32>,
    /// What this user may do with it; none if the broker is too old to say.
    pub rights: Option<TopicRights>,
}

/// What a user may do with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRights {
    /// Read its records.
    pub read: bool,
    /// Write records.
    pub write: bool,
}

impl TopicRights {
    /// From the bits of Metadata's `topicAuthorizedOperations`: one for each `AclOperation`; the lowest number means none.
    fn from_bits(bits: i32) -> Option<Self> {
        const READ: i32 = 1 << 3;
        const WRITE: i32 = 1 << 4;
        (bits != i32::MIN).then_some(TopicRights { read: bits & READ != 0, write: bits & WRITE != 0 })
    }
}

impl TransactionAdmin {
    /// A setting of every broker, as `transaction.max.timeout.ms`. Needs DESCRIBE_CONFIGS on the Cluster.
    ///
    /// # Errors
    /// If one broker can't be asked before the deadline, with the last reason.
    pub fn describe_broker_config(&mut self, name: &str, deadline: Instant) -> Result<Vec<BrokerSetting>, KafkaError> {
        let mut attempts = Attempts::until(deadline);
        loop {
            let error = match self.broker_config_once(name, deadline) {
                Ok(settings) => return Ok(settings),
                Err(error) => error,
            };
            attempts.after(|| format!("reading {name} of every broker"), error)?;
        }
    }

    /// Facts of topics, in the order of `names`; none for one that does not exist. Creates none. Needs DESCRIBE and
    /// DESCRIBE_CONFIGS on the Topics.
    ///
    /// # Errors
    /// If they can't be had before the deadline, with the last reason.
    pub fn topics(&mut self, names: &[&str], deadline: Instant) -> Result<Vec<Option<TopicFacts>>, KafkaError> {
        let mut attempts = Attempts::until(deadline);
        loop {
            let error = match self.topics_once(names, deadline) {
                Ok(facts) => return Ok(facts),
                Err(error) => error,
            };
            attempts.after(|| format!("reading about the topics {}", names.join(", ")), error)?;
        }
    }

    fn broker_config_once(&mut self, name: &str, deadline: Instant) -> Result<Vec<BrokerSetting>, KafkaError> {
        let mut settings = Vec::new();
        for broker in self.look(&[], deadline)?.brokers {
            // A broker knows only its own.
            let value = self.config(&broker.address, BROKER, &broker.id.to_string(), name, deadline)?;
            settings.push(BrokerSetting { broker: broker.id, value });
        }
        Ok(settings)
    }

    fn topics_once(&mut self, names: &[&str], deadline: Instant) -> Result<Vec<Option<TopicFacts>>, KafkaError> {
        let view = self.look(names, deadline)?;
        let mut facts = Vec::with_capacity(names.len());
        for name in names {
            let found = view.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|found| found.as_str() == *name));
            let Some(topic) = found else {
                let why = format!("it was asked for the topic {name}, and answered without");
                return Err(KafkaError::Garbled { broker: view.broker.to_string(), why });
            };
            facts.push(match topic.error_code {
                code::NONE => Some(self.facts(&view.broker, name, topic, deadline)?),
                code::UNKNOWN_TOPIC_OR_PARTITION => None,
                error => return Err(KafkaError::answered(&view.broker, MetadataRequest::NAME, *name, error)),
            });
        }
        Ok(facts)
    }

    fn facts(
        &mut self,
        broker: &Address,
        name: &str,
        topic: &MetadataResponseTopic,
        deadline: Instant,
    ) -> Result<TopicFacts, KafkaError> {
        let min_insync = self.config(broker, TOPIC, name, "min.insync.replicas", deadline)?;
        Ok(TopicFacts {
            name: name.to_owned(),
            partitions: topic.partitions.len(),
            replication_factor: topic.partitions.iter().map(|one| one.replica_nodes.len()).min().unwrap_or(0),
            min_insync_replicas: min_insync.and_then(|value| value.parse().ok()),
            rights: TopicRights::from_bits(topic.topic_authorized_operations),
        })
    }

    /// One setting of one resource, asked from this broker.
    fn config(
        &mut self,
        address: &Address,
        kind: i8,
        resource: &str,
        name: &str,
        deadline: Instant,
    ) -> Result<Option<String>, KafkaError> {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let wanted = DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(resource))
            .with_configuration_keys(Some(vec![text(name)]));
        let answer = self.cluster.call(address, deadline, |_| DescribeConfigsRequest::default().with_resources(vec![wanted]))?;
        let Some(result) = answer.results.into_iter().find(|result| result.resource_name.as_str() == resource) else {
            let why = format!("it was asked for {name} of {resource}, and answered without");
            return Err(KafkaError::Garbled { broker: address.to_string(), why });
        };
        if result.error_code != code::NONE {
            return Err(KafkaError::answered(address, DescribeConfigsRequest::NAME, resource, result.error_code));
        }
        let found = result.configs.into_iter().find(|config| config.name.as_str() == name);
        Ok(found.and_then(|config| config.value).map(|value| value.to_string()))
    }

    /// Asks any broker for all brokers and for some topics.
    pub(super) fn look(&mut self, topics: &[&str], deadline: Instant) -> Result<View, KafkaError> {
        let broker = self.cluster.any(deadline)?;
        let topics = topics
            .iter()
            .map(|name| MetadataRequestTopic::default().with_name(Some(StrBytes::from_string((*name).to_owned()).into())))
            .collect();
        let request = MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(false);
        // From 8 on.
        let answer = self.cluster.call(&broker, deadline, |version| {
            if version < 8 { request } else { request.with_include_topic_authorized_operations(true) }
        })?;
        let mut brokers = Vec::with_capacity(answer.brokers.len());
        for one in &answer.brokers {
            let address = self.cluster.address_of(&broker, &one.host, one.port)?;
            brokers.push(Broker { id: one.node_id.0, address });
        }
        if brokers.is_empty() {
            // A broker that has just started doesn't know its cluster yet.
            let why = "it knows no broker of its cluster yet".to_owned();
            return Err(KafkaError::Unreachable { broker: broker.to_string(), why });
        }
        brokers.sort_by_key(|one| one.id);
        Ok(View { broker, brokers, topics: answer.topics })
    }
}
