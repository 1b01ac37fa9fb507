//! What `weir checkpoint list` and `show` tell, as data.

use super::contents::LogContents;
use super::log::{LogError, LogStore};
use super::manifest::{
    CommittableManifest, FileManifest, Manifest, OperatorManifest, SinkManifest, SourceManifest, SourceWatermarks, StateManifest,
    SwapManifest,
};
use crate::connectors::SplitState;
use serde::Serialize;
use std::collections::BTreeSet;
use weir_protocol::CheckpointId;
use weir_protocol::log::Slot;

/// The answer of `weir checkpoint list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointList {
    /// The job.
    pub job: String,
    /// Where its storage is.
    pub place: String,
    /// Completed checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointRow>,
    /// The newest claim; none if the job was never started.
    pub claim: Option<ClaimRow>,
    /// The final checkpoint, if the job has finished.
    pub finished: Option<String>,
    /// Log entries that exist and can't be read.
    pub unreadable: Vec<UnreadableEntry>,
}

/// One completed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointRow {
    /// As `3-17`.
    pub id: String,
    /// Its slot in the log.
    pub slot: u64,
    /// What it is to a resume.
    pub state: CheckpointState,
    /// Wall clock at publication, ms since the Unix epoch.
    pub published_ms: u64,
    /// Age, ms.
    pub age_ms: u64,
    /// Distinct state files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of those that the checkpoint before in this list does not have.
    pub new_bytes: u64,
    /// Transactions that it contains.
    pub committables: usize,
    /// True for a final checkpoint.
    pub last: bool,
}

/// What a checkpoint is to a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointState {
    /// A resume starts here.
    Newest,
    /// Kept: `--from` may start here.
    Retained,
}

/// The newest claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimRow {
    /// Its slot in the log.
    pub slot: u64,
    /// The generation.
    pub generation: u32,
    /// The lineage that it writes.
    pub lineage: String,
}

/// A log entry that exists and can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableEntry {
    /// Its slot.
    pub slot: u64,
    /// Path and reason.
    pub why: String,
}

/// The answer of `weir checkpoint show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointDetail {
    /// As in the list.
    pub row: CheckpointRow,
    /// The history that it belongs to.
    pub lineage: String,
    /// Key groups.
    pub key_groups: u32,
    /// Hash of keys.
    pub key_hash: String,
    /// Sources, by name.
    pub sources: Vec<SourceDetail>,
    /// Operators, by name.
    pub operators: Vec<OperatorDetail>,
    /// Sinks, by name.
    pub sinks: Vec<SinkDetail>,
}

/// A source in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceDetail {
    /// Name.
    pub name: String,
    /// Whether all of it was read.
    pub ended: bool,
    /// Where each split stands.
    pub splits: Vec<SplitState>,
    /// Its watermarks, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermarks: Option<SourceWatermarks>,
}

/// An operator in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorDetail {
    /// Name.
    pub name: String,
    /// Subtasks.
    pub parallelism: u32,
    /// sha256 of the plugin.
    pub plugin: String,
    /// What is known of other builds, if it was ever swapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapManifest>,
    /// Backend.
    pub backend: String,
    /// Declared states.
    pub states: Vec<StateManifest>,
    /// Distinct state files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Of each subtask.
    pub subtasks: Vec<SubtaskDetail>,
}

/// A subtask in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubtaskDetail {
    /// Files of the base.
    pub base_files: usize,
    /// Files to ingest after it.
    pub delta_files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Whether it had sent EndOfData.
    pub end_of_data_sent: bool,
    /// Its watermark, ms since the Unix epoch.
    pub watermark: Option<i64>,
    /// The one that it had given out, if it makes its own.
    pub output_watermark: Option<i64>,
}

/// A sink in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SinkDetail {
    /// Name.
    pub name: String,
    /// Its connector.
    pub connector: String,
    /// Transactions that were prepared and not known committed.
    pub committables: Vec<CommittableDetail>,
}

/// A transaction in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommittableDetail {
    /// Its identity.
    pub id: String,
    /// Where it was prepared.
    pub checkpoint: String,
    /// sha256 of the plugin that made it.
    pub plugin: Option<String>,
    /// Source ranges of its records: (source, split, first, last).
    pub sources: Vec<(String, String, u64, u64)>,
}

/// What is in a job's log. `now_ms`: wall clock.
pub async fn list_checkpoints(log: &LogStore, now_ms: u64) -> Result<CheckpointList, LogError> {
    let contents = LogContents::read(log).await?;
    Ok(CheckpointList {
        job: log.job().to_owned(),
        place: log.storage().place().to_owned(),
        checkpoints: rows(&contents, now_ms),
        claim: contents.view().newest_claim().map(|(slot, claim)| ClaimRow {
            slot: slot.0,
            generation: claim.generation.0,
            lineage: claim.lineage.to_string(),
        }),
        finished: contents.view().finished().map(|id| id.to_string()),
        unreadable: unreadable(&contents),
    })
}

/// What is in one checkpoint; none: the newest. `now_ms`: wall clock.
pub async fn show_checkpoint(log: &LogStore, id: Option<CheckpointId>, now_ms: u64) -> Result<CheckpointDetail, LogError> {
    let contents = LogContents::read(log).await?;
    let (slot, manifest) = match id {
        Some(id) => contents.find(id)?,
        None => contents.counting().next_back().ok_or(LogError::NoCheckpoint { job: log.job().to_owned() })?,
    };
    let row = rows(&contents, now_ms).into_iter().find(|row| row.slot == slot.0);
    Ok(CheckpointDetail {
        row: row.expect("there is a row for each checkpoint that counts"),
        lineage: manifest.lineage.clone(),
        key_groups: manifest.key_groups,
        key_hash: manifest.key_hash.clone(),
        sources: manifest.sources.iter().map(|(name, source)| source_detail(name, source)).collect(),
        operators: manifest.operators.iter().map(|(name, operator)| operator_detail(name, operator)).collect(),
        sinks: manifest.sinks.iter().map(|(name, sink)| sink_detail(name, sink)).collect(),
    })
}

pub(super) fn unreadable(contents: &LogContents) -> Vec<UnreadableEntry> {
    contents.unreadable().map(|(slot, why)| UnreadableEntry { slot: slot.0, why: why.to_owned() }).collect()
}

fn rows(contents: &LogContents, now_ms: u64) -> Vec<CheckpointRow> {
    let mut before = BTreeSet::new();
    let mut rows = Vec::new();
    for (slot, manifest) in contents.counting() {
        let files: BTreeSet<&FileManifest> = manifest.files().collect();
        rows.push(row(slot, manifest, &files, &before, now_ms));
        before = files;
    }
    if let Some(newest) = rows.last_mut() {
        newest.state = CheckpointState::Newest;
    }
    rows
}

fn row(
    slot: Slot,
    manifest: &Manifest,
    files: &BTreeSet<&FileManifest>,
    before: &BTreeSet<&FileManifest>,
    now_ms: u64,
) -> CheckpointRow {
    CheckpointRow {
        id: manifest.id.clone(),
        slot: slot.0,
        state: CheckpointState::Retained,
        published_ms: manifest.published_ms,
        age_ms: now_ms.saturating_sub(manifest.published_ms),
        files: files.len(),
        bytes: bytes(files.iter().copied()),
        new_bytes: bytes(files.difference(before).copied()),
        committables: manifest.sinks.values().map(|sink| sink.committables.len()).sum(),
        last: manifest.last,
    }
}

fn bytes<'a>(files: impl Iterator<Item = &'a FileManifest>) -> u64 {
    files.map(|file| file.bytes).sum()
}

fn source_detail(name: &str, source: &SourceManifest) -> SourceDetail {
    SourceDetail {
        name: name.to_owned(),
        ended: source.ended,
        splits: source.splits.clone(),
        watermarks: source.watermarks.clone(),
    }
}

fn operator_detail(name: &str, operator: &OperatorManifest) -> OperatorDetail {
    let files: BTreeSet<&FileManifest> = operator.subtasks.iter().flat_map(|subtask| subtask.files()).collect();
    let subtasks = operator.subtasks.iter().map(|subtask| SubtaskDetail {
        base_files: subtask.base.len(),
        delta_files: subtask.deltas.len(),
        bytes: bytes(subtask.files()),
        end_of_data_sent: subtask.end_of_data_sent,
        watermark: subtask.watermark,
        output_watermark: subtask.output_watermark,
    });
    OperatorDetail {
        name: name.to_owned(),
        parallelism: operator.parallelism,
        plugin: operator.plugin.clone(),
        swap: operator.swap.clone(),
        backend: operator.backend.clone(),
        states: operator.states.clone(),
        files: files.len(),
        bytes: bytes(files.into_iter()),
        subtasks: subtasks.collect(),
    }
}

fn sink_detail(name: &str, sink: &SinkManifest) -> SinkDetail {
    let committable = |one: &CommittableManifest| CommittableDetail {
        id: one.id.clone(),
        checkpoint: one.checkpoint.clone(),
        plugin: one.plugin.clone(),
        sources: one.sources.clone(),
    };
    SinkDetail {
        name: name.to_owned(),
        connector: sink.section.get("connector").and_then(|text| text.as_str()).unwrap_or("unknown").to_owned(),
        committables: sink.committables.iter().map(committable).collect(),
    }
}
