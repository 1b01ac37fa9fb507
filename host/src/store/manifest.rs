//! The manifest: the durable record that makes a checkpoint complete.
//!
//! Format 1, JSON. `checksum` is the XXH3-128 of the document with an empty `checksum`, written compactly. Readers refuse
//! another format, a wrong checksum, and unknown fields.

use crate::connectors::SplitState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format that this build writes.
pub const MANIFEST_FORMAT: u32 = 1;

/// A completed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`MANIFEST_FORMAT`].
    pub format: u32,
    /// The job's name.
    pub job: String,
    /// Id, as `3-17`.
    pub id: String,
    /// Lineage, 32 hexadecimal digits.
    pub lineage: String,
    /// Wall clock at publication, ms since the Unix epoch: for people only.
    pub published_ms: u64,
    /// Key groups of the job.
    pub key_groups: u32,
    /// Hash that maps keys to groups.
    pub key_hash: String,
    /// True for the final checkpoint: all sources had sent EndOfData before its barrier.
    pub last: bool,
    /// Sources by name.
    pub sources: BTreeMap<String, SourceManifest>,
    /// Operators by name.
    pub operators: BTreeMap<String, OperatorManifest>,
    /// Sinks by name.
    pub sinks: BTreeMap<String, SinkManifest>,
    /// See the module.
    pub checksum: String,
}

/// A source's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceManifest {
    /// Splits in the order of the enumeration, which never changes in a lineage.
    pub splits: Vec<SplitState>,
    /// True if every reader had sent EndOfData.
    pub ended: bool,
}

/// An operator's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorManifest {
    /// Number of subtasks.
    pub parallelism: u32,
    /// sha256 of the plugin that ran.
    pub plugin: String,
    /// Backend of the state files: `rocksdb` or `memory`.
    pub backend: String,
    /// Declared states, by index.
    pub states: Vec<StateManifest>,
    /// One for each subtask, in order.
    pub subtasks: Vec<SubtaskManifest>,
}

/// One declared state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateManifest {
    /// Its name.
    pub name: String,
    /// `value`.
    pub kind: String,
    /// Version of the encoding.
    pub schema_version: u32,
}

/// One subtask of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubtaskManifest {
    /// Files of the base, to be linked into an empty folder.
    pub base: Vec<FileManifest>,
    /// Files to ingest after it, in this order.
    pub deltas: Vec<FileManifest>,
    /// Input ports whose end was processed (`on-end` was called): it is not called again.
    pub ended_ports: Vec<u32>,
    /// True if EndOfData was sent on (`on-end-keys` is done): neither happens again.
    pub end_of_data_sent: bool,
}

/// One immutable file below `shared/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileManifest {
    /// Name below `shared/`.
    pub name: String,
    /// Length.
    pub bytes: u64,
    /// XXH3-128 of the content, 32 hexadecimal digits.
    pub checksum: String,
}

/// A sink's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkManifest {
    /// The sink's section of the job file as it ran, every default filled in, secrets as `${NAME}`: enough to commit when
    /// only the data folder is left.
    pub section: serde_json::Value,
    /// Committables of every writer that were not known committed at the barrier, in prepare order for each writer.
    pub committables: Vec<CommittableManifest>,
}

/// A prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommittableManifest {
    /// `<lineage>.<generation>.<sink>.<writer>.<number>`.
    pub id: String,
    /// Checkpoint at which it was prepared.
    pub checkpoint: String,
    /// Version of `bytes`.
    pub version: u32,
    /// base64.
    pub bytes: String,
    /// sha256 of the plugin that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Source ranges of its records: (source, split, first, last).
    pub sources: Vec<(String, String, u64, u64)>,
}
