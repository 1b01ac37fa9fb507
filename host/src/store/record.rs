//! Records of the job's log: their JSON form, and the summaries that the protocol's machines see.
//!
//! Format 1. Each record is one sealed document (see `checksum`) that names its job; unknown fields, another format and a
//! wrong checksum are refused. Field tables: `docs/formats.md`.

use super::checksum::seal;
use super::manifest::{MANIFEST_FORMAT, Manifest, ManifestError, check_document};
use serde::{Deserialize, Serialize};
use weir_protocol::log::{Claim, ClaimFacts, LogEntry, Slot, Start};
use weir_protocol::{CheckpointId, Generation, ParseIdError};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// A generation begins.
    Claim(Claim),
    /// A checkpoint is complete.
    Checkpoint(Box<Manifest>),
    /// A checkpoint is aborted for certain.
    Tombstone {
        /// Which.
        id: CheckpointId,
    },
    /// All that the final checkpoint holds is committed.
    Finished {
        /// The generation that saw it committed.
        generation: Generation,
        /// The final checkpoint.
        id: CheckpointId,
    },
}

/// Why a record can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// It belongs to another job.
    Foreign {
        /// That job's name.
        job: String,
    },
    /// It is damaged, or of another version.
    Unreadable(ManifestError),
}

impl From<ManifestError> for RecordError {
    fn from(error: ManifestError) -> Self {
        RecordError::Unreadable(error)
    }
}

impl From<ParseIdError> for RecordError {
    fn from(error: ParseIdError) -> Self {
        RecordError::Unreadable(error.into())
    }
}

impl LogRecord {
    /// Its document, for the log of `job`.
    ///
    /// # Panics
    /// If it is a manifest that is not sealed, or another job's.
    pub fn to_bytes(&self, job: &str) -> Vec<u8> {
        if let LogRecord::Checkpoint(manifest) = self {
            assert!(manifest.is_sealed(), "manifest {} was changed after it was sealed", manifest.id);
            assert_eq!(manifest.job, job, "a manifest goes into the log of its own job");
        }
        let document = serde_json::to_vec(&self.document(job));
        seal(document.expect("maps with text keys and finite numbers always have a JSON form"))
    }

    /// Reads a document from the log of `job`.
    pub fn parse(bytes: &[u8], job: &str) -> Result<Self, RecordError> {
        check_document(bytes)?;
        let document: Document = serde_json::from_slice(bytes).map_err(|error| ManifestError::Invalid(error.to_string()))?;
        if document.job() != job {
            return Err(RecordError::Foreign { job: document.job().to_owned() });
        }
        document.into_record()
    }

    /// What the machines see of it.
    ///
    /// # Panics
    /// If it is a manifest with bad ids: both ways to a record check them.
    pub fn entry(&self) -> LogEntry {
        match self {
            LogRecord::Claim(claim) => LogEntry::Claim(claim.clone()),
            LogRecord::Checkpoint(manifest) => LogEntry::Checkpoint(manifest.entry().expect("checked when it became a record")),
            LogRecord::Tombstone { id } => LogEntry::Tombstone { id: *id },
            LogRecord::Finished { generation, id } => LogEntry::Finished { generation: *generation, id: *id },
        }
    }

    fn document(&self, job: &str) -> Document {
        let (format, job, checksum) = (MANIFEST_FORMAT, job.to_owned(), String::new());
        match self {
            LogRecord::Claim(claim) => Document::Claim {
                format,
                job,
                generation: claim.generation.0,
                nonce: format!("{:032x}", claim.nonce),
                lineage: claim.lineage.to_string(),
                start: start_text(claim.start),
                allow_duplicates: claim.allow_duplicates,
                lineages: claim.facts.lineages.iter().map(ToString::to_string).collect(),
                prefixes: claim.facts.prefixes.iter().cloned().collect(),
                paths: claim.facts.sink_paths.iter().cloned().collect(),
                max_parallelism: claim.facts.parallelism,
                claims: claim.facts.claims.iter().map(|(slot, generation)| (slot.0, generation.0)).collect(),
                checksum,
            },
            LogRecord::Checkpoint(manifest) => {
                let generation = manifest.entry().expect("sealed manifests have valid ids").id.generation().0;
                Document::Checkpoint { format, job, generation, manifest: manifest.clone(), checksum }
            }
            LogRecord::Tombstone { id } => {
                Document::Tombstone { format, job, generation: id.generation().0, id: id.to_string(), checksum }
            }
            LogRecord::Finished { generation, id } => {
                Document::Finished { format, job, generation: generation.0, id: id.to_string(), checksum }
            }
        }
    }
}

/// The JSON form. `checksum` comes last (see `checksum`).
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Document {
    Claim {
        format: u32,
        job: String,
        generation: u32,
        nonce: String,
        lineage: String,
        start: Option<String>,
        allow_duplicates: bool,
        lineages: Vec<String>,
        prefixes: Vec<String>,
        paths: Vec<String>,
        max_parallelism: u32,
        claims: Vec<(u64, u32)>,
        checksum: String,
    },
    Checkpoint {
        format: u32,
        job: String,
        generation: u32,
        manifest: Box<Manifest>,
        checksum: String,
    },
    Tombstone {
        format: u32,
        job: String,
        generation: u32,
        id: String,
        checksum: String,
    },
    Finished {
        format: u32,
        job: String,
        generation: u32,
        id: String,
        checksum: String,
    },
}

impl Document {
    fn job(&self) -> &str {
        match self {
            Document::Claim { job, .. }
            | Document::Checkpoint { job, .. }
            | Document::Tombstone { job, .. }
            | Document::Finished { job, .. } => job,
        }
    }

    fn into_record(self) -> Result<LogRecord, RecordError> {
        match self {
            Document::Claim {
                generation,
                nonce,
                lineage,
                start,
                allow_duplicates,
                lineages,
                prefixes,
                paths,
                max_parallelism,
                claims,
                ..
            } => Ok(LogRecord::Claim(Claim {
                generation: Generation(generation),
                nonce: u128::from_str_radix(&nonce, 16).map_err(|_| invalid(format!("its nonce is '{nonce}'")))?,
                lineage: lineage.parse()?,
                start: parse_start(start.as_deref())?,
                allow_duplicates,
                facts: ClaimFacts {
                    lineages: lineages.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
                    prefixes: prefixes.into_iter().collect(),
                    sink_paths: paths.into_iter().collect(),
                    parallelism: max_parallelism,
                    claims: claims.into_iter().map(|(slot, generation)| (Slot(slot), Generation(generation))).collect(),
                },
            })),
            Document::Checkpoint { job, generation, manifest, .. } => {
                let entry = manifest.entry()?;
                if manifest.job != job || entry.id.generation() != Generation(generation) {
                    return Err(invalid(format!("its manifest is of {} {}", manifest.job, manifest.id)));
                }
                if manifest.format != MANIFEST_FORMAT {
                    return Err(ManifestError::Format { found: manifest.format }.into());
                }
                Ok(LogRecord::Checkpoint(manifest))
            }
            Document::Tombstone { generation, id, .. } => {
                let id: CheckpointId = id.parse()?;
                if id.generation() != Generation(generation) {
                    return Err(invalid(format!("generation {generation} does not abort {id}")));
                }
                Ok(LogRecord::Tombstone { id })
            }
            Document::Finished { generation, id, .. } => {
                Ok(LogRecord::Finished { generation: Generation(generation), id: id.parse()? })
            }
        }
    }
}

fn invalid(why: String) -> RecordError {
    ManifestError::Invalid(why).into()
}

/// `null`: the newest; `"none"`: the beginning; `"3-17"`: that checkpoint.
fn start_text(start: Start) -> Option<String> {
    match start {
        Start::Newest => None,
        Start::Scratch => Some("none".to_owned()),
        Start::From(id) => Some(id.to_string()),
    }
}

fn parse_start(text: Option<&str>) -> Result<Start, ParseIdError> {
    match text {
        None => Ok(Start::Newest),
        Some("none") => Ok(Start::Scratch),
        Some(id) => id.parse().map(Start::From),
    }
}
