//! The manifest: the durable record that makes a checkpoint complete.
//!
//! Format 1, JSON. `checksum` is the XXH3-128 of the document with an empty `checksum`, written compactly. Readers refuse
//! another format, a wrong checksum, and unknown fields.

use super::checksum::{is_checksum, of_unsealed, verify};
use crate::connectors::SplitState;
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weir_plugin::{PartMode, StatePart};
use weir_protocol::log::CheckpointEntry;
use weir_protocol::swap::{OperatorBuild, Probation};
use weir_protocol::{CheckpointId, Lineage, ParseIdError, TransactionId};

/// Version of the format that this build writes.
pub const MANIFEST_FORMAT: u32 = 1;

/// A manifest can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Written by another version of Weir.
    #[error("it has format {found}, and this version of weir reads format {MANIFEST_FORMAT} only: use the version that wrote it")]
    Format {
        /// Its format.
        found: u32,
    },
    /// Its bytes are not those that were written.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// Its bytes are what was written, but that is no manifest.
    #[error("it is no valid manifest: {0}")]
    Invalid(String),
}

impl From<ParseIdError> for ManifestError {
    fn from(error: ParseIdError) -> Self {
        ManifestError::Invalid(error.to_string())
    }
}

impl Manifest {
    /// Puts the checksum in, which makes it publishable. A manifest that is changed afterwards must be sealed again.
    pub fn seal(mut self) -> Self {
        self.checksum = self.own_checksum();
        self
    }

    /// The document, compact.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("maps with text keys and finite numbers always have a JSON form")
    }

    /// Reads a document and checks it: version, checksum, fields, ids.
    pub fn parse_and_verify(bytes: &[u8]) -> Result<Self, ManifestError> {
        check_document(bytes)?;
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(|error| ManifestError::Invalid(error.to_string()))?;
        manifest.entry()?;
        Ok(manifest)
    }

    /// Its id.
    pub fn checkpoint_id(&self) -> Result<CheckpointId, ParseIdError> {
        self.id.parse()
    }

    /// The history that it belongs to.
    pub fn lineage_id(&self) -> Result<Lineage, ParseIdError> {
        self.lineage.parse()
    }

    /// What the job's log needs to know of it. Checks every id and digest on the way.
    pub fn entry(&self) -> Result<CheckpointEntry, ManifestError> {
        self.lineage_id()?;
        let digest = u128::from_str_radix(&self.checksum, 16)
            .ok()
            .filter(|_| is_checksum(&self.checksum))
            .ok_or_else(|| ManifestError::Invalid(format!("its checksum '{}' is not 32 hexadecimal digits", self.checksum)))?;
        if let Some(file) = self.files().find(|file| !is_checksum(&file.checksum)) {
            let message = format!("the checksum '{}' of {} is not 32 hexadecimal digits", file.checksum, file.name);
            return Err(ManifestError::Invalid(message));
        }
        for part in self.operators.values().flat_map(OperatorManifest::parts) {
            part.part()?;
        }
        let committables = || self.sinks.values().flat_map(|sink| &sink.committables);
        for committable in committables() {
            committable.checkpoint.parse::<CheckpointId>()?;
        }
        Ok(CheckpointEntry {
            id: self.checkpoint_id()?,
            digest,
            contains: committables().map(|one| one.id.parse()).collect::<Result<Vec<TransactionId>, _>>()?,
            last: self.last,
        })
    }

    /// Every state file that it refers to; one that several subtasks share comes several times.
    pub fn files(&self) -> impl Iterator<Item = &FileManifest> {
        self.operators.values().flat_map(|operator| &operator.subtasks).flat_map(SubtaskManifest::files)
    }

    /// Digests of the plugins that it needs: to run, to take a build back, and to commit what it contains.
    pub fn plugins(&self) -> BTreeSet<&str> {
        let committing = self.sinks.values().flat_map(|sink| &sink.committables).filter_map(|one| one.plugin.as_deref());
        self.operators.values().flat_map(OperatorManifest::plugins).chain(committing).collect()
    }

    /// Whether `checksum` is that of the present content.
    pub(super) fn is_sealed(&self) -> bool {
        self.checksum == self.own_checksum()
    }

    fn own_checksum(&self) -> String {
        of_unsealed(&Manifest { checksum: String::new(), ..self.clone() }.to_bytes())
    }
}

/// Checks version and checksum of a document.
pub(super) fn check_document(bytes: &[u8]) -> Result<(), ManifestError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let sealed = verify(bytes);
    match (serde_json::from_slice::<Versioned>(bytes), sealed) {
        (Ok(Versioned { format: MANIFEST_FORMAT }), Ok(())) => Ok(()),
        (Ok(Versioned { format }), Ok(())) => Err(ManifestError::Format { found: format }),
        (Ok(Versioned { format: MANIFEST_FORMAT }), Err(error)) => Err(ManifestError::Damaged(error.to_string())),
        // Another version may have another seal.
        (Ok(Versioned { format }), Err(error)) => {
            Err(ManifestError::Damaged(format!("{error}; or it is of another version of weir, format {format}")))
        }
        (Err(error), _) => Err(ManifestError::Damaged(error.to_string())),
    }
}

impl OperatorManifest {
    /// Digests of the builds that it needs.
    fn plugins(&self) -> impl Iterator<Item = &str> {
        let swap = self.swap.iter();
        let others = swap.flat_map(|swap| [Some(&swap.file), swap.probation.as_ref().map(|probation| &probation.old)]);
        others.flatten().map(String::as_str).chain([self.plugin.as_str()])
    }

    /// Every part of its own state.
    pub fn parts(&self) -> impl Iterator<Item = &PartManifest> {
        self.subtasks.iter().flat_map(|subtask| &subtask.parts).flatten()
    }

    /// Which build runs, and what is remembered of others.
    pub fn build(&self) -> OperatorBuild {
        let build = OperatorBuild::of_file(&self.plugin);
        let Some(swap) = self.swap.clone() else { return build };
        let probation = swap.probation.map(|probation| Probation { old: probation.old, left: probation.left });
        OperatorBuild { file: swap.file, probation, refused: swap.refused, ..build }
    }
}

impl SwapManifest {
    /// What is to be said of a build; none if there is nothing.
    pub fn of(build: &OperatorBuild) -> Option<Self> {
        let OperatorBuild { file, runs, probation, refused } = build;
        let probation = probation.as_ref().map(|own| ProbationManifest { old: own.old.clone(), left: own.left });
        let is_plain = file == runs && probation.is_none() && refused.is_empty();
        (!is_plain).then(|| SwapManifest { file: file.clone(), probation, refused: refused.clone() })
    }
}

impl SubtaskManifest {
    /// Its state files: the base, then the deltas in order.
    pub fn files(&self) -> impl Iterator<Item = &FileManifest> {
        self.base.iter().chain(&self.deltas)
    }
}

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
    /// Its watermarks, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermarks: Option<SourceWatermarks>,
}

/// Watermarks of a source, ms since the Unix epoch; never the final one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceWatermarks {
    /// Of each split that has one, by name.
    pub splits: BTreeMap<String, i64>,
    /// What each reader had given out, in order. One may be ahead of a split that was idle.
    pub readers: Vec<Option<i64>>,
}

/// An operator's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorManifest {
    /// Number of subtasks.
    pub parallelism: u32,
    /// sha256 of the plugin that runs behind its barrier.
    pub plugin: String,
    /// What is to be known of other builds, if the operator was ever swapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapManifest>,
    /// Backend of the state files: `rocksdb` or `memory`.
    pub backend: String,
    /// Declared states, by index.
    pub states: Vec<StateManifest>,
    /// One for each subtask, in order.
    pub subtasks: Vec<SubtaskManifest>,
}

/// Other builds of an operator than the one that runs, by the sha256 of their components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwapManifest {
    /// The one that the job file named. While it does, `plugin` goes on; if it names another one by now, that one is taken.
    pub file: String,
    /// Whether `plugin` is on probation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probation: Option<ProbationManifest>,
    /// Those that have failed on probation.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused: BTreeSet<String>,
}

/// A build that has yet to prove itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbationManifest {
    /// The build before it, which runs again if it fails.
    pub old: String,
    /// Checkpoints that it has yet to live through.
    pub left: u32,
}

/// One declared state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateManifest {
    /// Its name.
    pub name: String,
    /// `value`, `list`, `map`; of the host's own, `timers`.
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
    /// Inputs whose end was processed (`on-end` was called): it is not called again. By what they read, as the job file's
    /// `from` names it (`"flights"`, `"parse.rejected"`): a port may read something else at the next start.
    pub ended_inputs: Vec<String>,
    /// True if EndOfData was sent on (`on-end-keys` is done): neither happens again.
    pub end_of_data_sent: bool,
    /// Its watermark, ms since the Unix epoch, if it has one; never the final one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<i64>,
    /// The one that it had given out, if it makes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_watermark: Option<i64>,
    /// The operator's own state, of no key; none if its plugin has no such state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<PartManifest>>,
}

/// A part of an operator's own state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartManifest {
    /// `split` or `broadcast`.
    pub mode: String,
    /// Version of the bytes' encoding.
    pub schema_version: u32,
    /// base64.
    pub bytes: String,
}

impl PartManifest {
    /// What stands for a part.
    pub fn of(part: &StatePart) -> Self {
        PartManifest {
            mode: part.mode.name().to_owned(),
            schema_version: part.schema_version,
            bytes: base64::engine::general_purpose::STANDARD.encode(&part.bytes),
        }
    }

    /// The part.
    pub fn part(&self) -> Result<StatePart, ManifestError> {
        let invalid = |what: &str| ManifestError::Invalid(format!("{what} of a part of operator state: {self:?}"));
        Ok(StatePart {
            mode: PartMode::from_name(&self.mode).ok_or_else(|| invalid("unknown mode"))?,
            schema_version: self.schema_version,
            bytes: base64::engine::general_purpose::STANDARD
                .decode(&self.bytes)
                .map_err(|_| invalid("no base64 in the bytes"))?,
        })
    }
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
