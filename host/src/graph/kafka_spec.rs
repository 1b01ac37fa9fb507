//! What a job file says of Kafka: the cluster, the topics of a source, the topic of a sink.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How to reach a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaCluster {
    /// `host:port`, several with commas.
    pub brokers: String,
    /// TLS, if it is spoken.
    pub tls: Option<KafkaTls>,
    /// Who we are, if the brokers ask.
    pub sasl: Option<KafkaSasl>,
    /// Settings of librdkafka, by its names; none of those that Weir sets itself.
    pub options: BTreeMap<String, String>,
}

/// `tls = { … }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaTls {
    /// Certificates (PEM) that sign the brokers'; none: the machine's.
    pub ca: Option<PathBuf>,
    /// Our own certificate (PEM), for brokers that ask for one.
    pub certificate: Option<PathBuf>,
    /// Its key (PEM).
    pub key: Option<PathBuf>,
    /// What the key is encrypted with.
    pub key_password: Option<Secret>,
}

/// `sasl = { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSasl {
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub mechanism: String,
    /// Who.
    pub username: String,
    /// Its password.
    pub password: Secret,
}

/// A value that came from the environment and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: String,
    /// As the job file has it: `${NAME}`.
    shown: String,
}

impl Secret {
    /// A value, and the reference that stands for it.
    pub fn new(value: String, shown: String) -> Self {
        Secret { value, shown }
    }

    /// What stands for it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The value: for the client alone.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Which topics a source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaTopics {
    /// These.
    Names(Vec<String>),
    /// All whose whole name matches this regular expression.
    Pattern(String),
}

/// Where a source begins at the first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaStart {
    /// At the oldest record.
    Earliest,
    /// After the newest one.
    Latest,
    /// Where the consumer group has committed; a partition without that at its oldest record.
    Committed,
    /// At the first record of this time or later, ms since the Unix epoch.
    Timestamp(i64),
    /// At these offsets by `topic/partition`; the others at their oldest record.
    Offsets(BTreeMap<String, i64>),
}

/// What to do when records are gone before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostOffsets {
    /// Stop the job.
    Fail,
    /// Go on at the oldest record there is, counted.
    Skip,
}

/// `[[source]]` with connector `kafka`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSourceSpec {
    /// Where.
    pub cluster: KafkaCluster,
    /// What.
    pub topics: KafkaTopics,
    /// From where.
    pub start: KafkaStart,
    /// True: up to the end offsets of the first start.
    pub until_end: bool,
    /// Whether records of open and aborted transactions are read, too.
    pub read_uncommitted: bool,
    /// Time between looks for new partitions; none: never.
    pub discovery: Option<Duration>,
    /// See there.
    pub on_lost_offsets: LostOffsets,
    /// Name for the brokers; nobody joins it.
    pub group: String,
    /// Whether positions are written to the group for lag tools, after each completed checkpoint.
    pub commit_offsets: bool,
}

/// `[[sink]]` with connector `kafka`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSinkSpec {
    /// Where.
    pub cluster: KafkaCluster,
    /// What; none: `topic_header` names a topic for each record.
    pub topic: Option<String>,
    /// The header that names a record's topic; a record without it goes to `topic`.
    pub topic_header: Option<String>,
    /// How the names of its transactions begin.
    pub prefix: String,
    /// How long a transaction may be open; none: derived from the job and the brokers.
    pub transaction_timeout: Option<Duration>,
    /// True: a record's timestamp is its event time; false: when it is written.
    pub keep_time: bool,
    /// What the rest of the job asks of its transactions.
    pub needs: TransactionNeeds,
}

/// What a job asks of a transaction that lives outside from its first record to its commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionNeeds {
    /// `[checkpoint].interval` and `min_pause`.
    pub interval: Duration,
    /// `[checkpoint].timeout`.
    pub checkpoint_timeout: Duration,
    /// `[restart].max_delay`, or `delay` if that never grows.
    pub restart_delay: Duration,
}

impl TransactionNeeds {
    /// What clocks and requests may take beside what is reckoned with.
    pub const MARGIN: Duration = Duration::from_secs(30);

    /// From a failure to the commit of what was prepared: detection, delay, restore; at least five minutes.
    pub fn restart(&self) -> Duration {
        (self.restart_delay + Duration::from_secs(60)).max(Duration::from_secs(300))
    }

    /// How long a transaction must be able to live: it begins one interval before its checkpoint, which may take its whole
    /// timeout, and its commit may have to wait for a restart.
    pub fn lifetime(&self) -> Duration {
        self.interval + self.checkpoint_timeout + self.restart() + Self::MARGIN
    }
}

impl KafkaTls {
    fn stored(&self) -> Value {
        let mut tls = serde_json::Map::new();
        for (key, path) in [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)] {
            if let Some(path) = path {
                tls.insert(key.to_owned(), super::plugin_settings::literal_path(path));
            }
        }
        if let Some(password) = &self.key_password {
            tls.insert("key_password".to_owned(), json!(password.shown));
        }
        Value::Object(tls)
    }
}

/// A value as a string of a stored section, whose variables are replaced again when it is read.
fn literal(text: &str) -> Value {
    json!(text.replace("${", "$${"))
}

impl KafkaTopics {
    /// Whether a topic is one of them.
    pub(super) fn has(&self, topic: &str) -> bool {
        match self {
            KafkaTopics::Names(names) => names.iter().any(|name| name == topic),
            KafkaTopics::Pattern(pattern) => {
                regex::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|whole| whole.is_match(topic))
            }
        }
    }
}

impl KafkaCluster {
    /// Whether both name a broker in common: then they are one cluster.
    pub(super) fn shares_brokers(&self, other: &KafkaCluster) -> bool {
        let of = |cluster: &KafkaCluster, broker: &str| cluster.brokers.split(',').any(|one| one.trim() == broker);
        self.brokers.split(',').any(|broker| of(other, broker.trim()))
    }

    /// The settings as a manifest keeps them: secrets as `${NAME}`.
    fn stored(&self) -> Vec<(&'static str, Value)> {
        let mut out = vec![("brokers", literal(&self.brokers))];
        if let Some(tls) = &self.tls {
            out.push(("tls", tls.stored()));
        }
        if let Some(KafkaSasl { mechanism, username, password }) = &self.sasl {
            let username = literal(username);
            out.push(("sasl", json!({ "mechanism": mechanism, "username": username, "password": password.shown })));
        }
        if !self.options.is_empty() {
            let options: serde_json::Map<String, Value> =
                self.options.iter().map(|(key, value)| (key.clone(), literal(value))).collect();
            out.push(("options", Value::Object(options)));
        }
        out
    }
}

impl KafkaSinkSpec {
    /// The settings as a manifest keeps them.
    pub(super) fn stored(&self) -> Vec<(&'static str, Value)> {
        let mut out = self.cluster.stored();
        out.extend(self.topic.as_deref().map(|topic| ("topic", literal(topic))));
        out.extend(self.topic_header.as_deref().map(|header| ("topic_header", literal(header))));
        out.push(("transaction_prefix", literal(&self.prefix)));
        if let Some(timeout) = self.transaction_timeout {
            out.push(("transaction_timeout", json!(super::units::show_duration(timeout))));
        }
        out.push(("time", json!(if self.keep_time { "record" } else { "now" })));
        out
    }
}
