//! A job as the user wrote it, checked once: every default filled in, every name resolved.

use super::document::Setting;
use super::execution::NodeRef;
use super::kafka_spec::{KafkaSinkSpec, KafkaSourceSpec, Secret};
use crate::connectors::Guarantee;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_protocol::watermark::WatermarkBound;

/// A job file, parsed, every default filled in, every name resolved.
#[derive(Clone, Debug)]
pub struct JobGraph {
    /// `[job].name`.
    pub name: String,
    /// The job file's path, for messages.
    pub file: PathBuf,
    /// Folder that relative paths start from.
    pub folder: PathBuf,
    /// `[job].dead_letter`: index into `sinks`.
    pub dead_letter: Option<usize>,
    /// `[checkpoint]`.
    pub checkpoint: CheckpointConfig,
    /// `[state]`.
    pub state: StateConfig,
    /// `[restart]`.
    pub restart: RestartConfig,
    /// `[[source]]` in order.
    pub sources: Vec<SourceSpec>,
    /// `[[operator]]` in order.
    pub operators: Vec<OperatorSpec>,
    /// `[[sink]]` in order.
    pub sinks: Vec<SinkSpec>,
    /// Every value, set or default, for `weir check`.
    pub settings: Vec<Setting>,
}

impl JobGraph {
    /// Name of a node.
    pub fn node_name(&self, node: NodeRef) -> &str {
        match node {
            NodeRef::Source(index) => &self.sources[index].name,
            NodeRef::Operator(index) => &self.operators[index].name,
            NodeRef::Sink(index) => &self.sinks[index].name,
        }
    }

    /// Subtasks of a node.
    pub fn parallelism_of(&self, node: NodeRef) -> u32 {
        match node {
            NodeRef::Source(index) => self.sources[index].parallelism,
            NodeRef::Operator(index) => self.operators[index].parallelism,
            NodeRef::Sink(index) => self.sinks[index].parallelism,
        }
    }

    /// What a node's `from` lists.
    pub fn inputs_of(&self, node: NodeRef) -> &[Input] {
        match node {
            NodeRef::Source(_) => &[],
            NodeRef::Operator(index) => &self.operators[index].inputs,
            NodeRef::Sink(index) => &self.sinks[index].inputs,
        }
    }

    /// An output as `from` names it.
    pub fn endpoint_name(&self, endpoint: &Endpoint) -> String {
        match endpoint {
            Endpoint::Source(index) => self.sources[*index].name.clone(),
            Endpoint::Operator(index) => self.operators[*index].name.clone(),
            Endpoint::Side { operator, output } => format!("{}.{output}", self.operators[*operator].name),
        }
    }

    /// The data folder if the user names none: `.weir/<job name>` beside the job file.
    pub fn default_data_folder(&self) -> PathBuf {
        self.folder.join(".weir").join(&self.name)
    }
}

/// `[checkpoint]`.
#[derive(Clone, Debug)]
pub struct CheckpointConfig {
    /// Time between triggers.
    pub interval: Duration,
    /// A checkpoint that takes longer is aborted.
    pub timeout: Duration,
    /// Time between the end of one and the trigger of the next.
    pub min_pause: Duration,
    /// Pending ones at most.
    pub max_concurrent: u32,
    /// Aborted ones in a row that the job bears.
    pub tolerable_failures: u32,
    /// Folder of the checkpoint storage, absolute or relative to the data folder; none: `checkpoints` below it. Use
    /// [`folder`](Self::folder).
    pub storage: Option<PathBuf>,
    /// Completed ones that are kept.
    pub retain: u32,
}

impl CheckpointConfig {
    /// Folder of the checkpoint storage of a job with this data folder.
    pub fn folder(&self, data: &Path) -> PathBuf {
        // Joining an absolute path replaces what it is joined to.
        data.join(self.storage.as_deref().unwrap_or(Path::new("checkpoints")))
    }
}

/// Which backend keeps keyed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// RocksDB below a write-back cache.
    RocksDb,
    /// Memory.
    Memory,
}

/// `[state]`.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// Backend.
    pub backend: BackendKind,
    /// Bytes of the write-back cache, for the whole job.
    pub cache_bytes: u64,
}

/// `[restart]`.
#[derive(Clone, Debug)]
pub struct RestartConfig {
    /// Strategy.
    pub strategy: RestartStrategy,
    /// First (or every) delay.
    pub delay: Duration,
    /// Longest delay.
    pub max_delay: Duration,
    /// Restarts in a row.
    pub attempts: u32,
    /// Time without a failure after which the count starts anew.
    pub reset_after: Duration,
}

/// How the delay between restarts grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartStrategy {
    /// Doubles each time.
    Exponential,
    /// Stays.
    Fixed,
    /// No restart.
    None,
}

/// `[[source]]`.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    /// Name.
    pub name: String,
    /// Readers.
    pub parallelism: u32,
    /// Records per second over all readers; none: as fast as it goes.
    pub rate: Option<u64>,
    /// How watermarks are made of its records' event times; none: it has no watermark.
    pub watermark: Option<WatermarkBound>,
    /// The connector's own settings.
    pub connector: SourceConnectorSpec,
}

/// A source connector's settings.
#[derive(Clone, Debug)]
pub enum SourceConnectorSpec {
    /// Topics of a Kafka cluster.
    Kafka(Box<KafkaSourceSpec>),
    /// Files.
    File {
        /// Absolute glob.
        path: String,
        /// How bytes become records.
        format: FileFormat,
        /// Whether the first line of every file is left out.
        skip_header: bool,
    },
    /// A generator: record i has a key drawn from `seed` and i.
    Sequence {
        /// Records in all.
        count: u64,
        /// Distinct keys.
        keys: u64,
        /// Length of each value.
        value_bytes: usize,
        /// Seed of the keys.
        seed: u64,
    },
}

/// How a file's bytes become records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// One record a line, without its end.
    Lines,
    /// One record a file.
    Raw,
}

/// `[[operator]]`.
#[derive(Clone, Debug)]
pub struct OperatorSpec {
    /// Name.
    pub name: String,
    /// Absolute path of the component.
    pub plugin: PathBuf,
    /// `sha256`, if pinned: lower-case hexadecimal.
    pub sha256: Option<String>,
    /// Instances.
    pub parallelism: u32,
    /// Inputs; the index is the port.
    pub inputs: Vec<Input>,
    /// `config` as one JSON document.
    pub config: ConfigText,
    /// Limits.
    pub limits: LimitsSpec,
    /// Grants.
    pub grants: GrantsSpec,
    /// What happens to a bad record.
    pub on_bad_record: BadRecordPolicy,
    /// How watermarks are made of the event times that it sets; none: it passes on its input's.
    pub watermark: Option<WatermarkBound>,
}

/// A plugin's `config` as one JSON document. Dereferences to the text with every `${NAME}` replaced, which is for the plugin
/// only; `Debug` and [`shown`](Self::shown) give the text as the user wrote it, without what came from the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigText {
    resolved: String,
    shown: serde_json::Value,
}

impl ConfigText {
    /// A document, and the same with `${NAME}` left as it stands.
    pub fn new(resolved: &serde_json::Value, shown: serde_json::Value) -> Self {
        ConfigText { resolved: resolved.to_string(), shown }
    }

    /// For output: `${NAME}` is left as it stands.
    pub fn shown(&self) -> &serde_json::Value {
        &self.shown
    }
}

impl Deref for ConfigText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.resolved
    }
}

impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shown)
    }
}

/// `limits = { … }`.
#[derive(Clone, Debug)]
pub struct LimitsSpec {
    /// Linear memory, bytes.
    pub memory_bytes: u64,
    /// Time of one call.
    pub call: Duration,
    /// Bytes that one call may emit.
    pub emit_bytes: u64,
    /// Calls to the host that one call may make.
    pub host_calls: u32,
}

/// `grants = { … }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantsSpec {
    /// Name → absolute folder.
    pub folders: BTreeMap<String, PathBuf>,
    /// Name → origin.
    pub http: BTreeMap<String, HttpGrantSpec>,
    /// Variables of the environment, with their values.
    pub env: BTreeMap<String, Secret>,
    /// The real time.
    pub clock: bool,
    /// Real random bytes.
    pub random: bool,
}

/// `grants.http.<name> = { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGrantSpec {
    /// As `https://api.example.com`.
    pub origin: String,
    /// What the host adds to each request.
    pub headers: Vec<(String, Secret)>,
    /// For a request and its answer.
    pub timeout: Duration,
}

/// `on_bad_record`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRecordPolicy {
    /// Stop the job, naming the record.
    Fail,
    /// Leave the record out, counted.
    Drop,
    /// Send it to the dead-letter sink.
    DeadLetter,
}

/// One input of an operator or sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What it reads.
    pub from: Endpoint,
    /// `partition`, if the user set it.
    pub partition: Option<Partition>,
}

/// An output that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Index of a source.
    Source(usize),
    /// Main output of an operator, by index.
    Operator(usize),
    /// Side output of an operator.
    Side {
        /// Index of the operator.
        operator: usize,
        /// Name of the side output.
        output: String,
    },
}

/// How records are spread over the subtasks of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// By key group.
    Key,
    /// Subtask i to subtask i.
    Forward,
    /// In turn.
    Rebalance,
    /// Each to all.
    Broadcast,
}

impl Partition {
    /// As the job file writes it.
    pub fn word(self) -> &'static str {
        match self {
            Partition::Key => "key",
            Partition::Forward => "forward",
            Partition::Rebalance => "rebalance",
            Partition::Broadcast => "broadcast",
        }
    }
}

/// `[[sink]]`.
#[derive(Clone, Debug)]
pub struct SinkSpec {
    /// Name.
    pub name: String,
    /// Writers.
    pub parallelism: u32,
    /// Inputs (several are merged). Empty only for the dead-letter sink.
    pub inputs: Vec<Input>,
    /// The connector's own settings.
    pub connector: SinkConnectorSpec,
    /// `guarantee`: what the user wants at least.
    pub guarantee: Guarantee,
    /// The section as the user wrote it, defaults filled in, paths resolved, `${NAME}` in `config` left as it stands.
    pub section: serde_json::Value,
}

impl SinkSpec {
    /// Every folder that it writes to: its own, or those that its plugin was granted.
    pub fn folders(&self) -> Vec<&Path> {
        match &self.connector {
            SinkConnectorSpec::File { path } => vec![path.as_path()],
            SinkConnectorSpec::Discard | SinkConnectorSpec::Kafka(_) => Vec::new(),
            SinkConnectorSpec::Plugin { grants, .. } => grants.folders.values().map(PathBuf::as_path).collect(),
        }
    }
}

/// A sink connector's settings.
#[derive(Clone, Debug)]
pub enum SinkConnectorSpec {
    /// A topic of a Kafka cluster.
    Kafka(Box<KafkaSinkSpec>),
    /// Files that appear whole at each checkpoint.
    File {
        /// Absolute folder.
        path: PathBuf,
    },
    /// Nowhere.
    Discard,
    /// A plugin of world `sink-plugin`.
    Plugin {
        /// Absolute path of the component.
        plugin: PathBuf,
        /// `sha256`, if pinned.
        sha256: Option<String>,
        /// `config` as one JSON document.
        config: ConfigText,
        /// Limits.
        limits: LimitsSpec,
        /// Grants.
        grants: GrantsSpec,
    },
}
