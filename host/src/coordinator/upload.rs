//! Brings the files of a subtask's snapshot into the checkpoint storage, off the data path.

use crate::connectors::Committable;
use crate::crash;
use crate::state::{LocalSnapshot, SnapshotFile};
use crate::store::manifest::FileManifest;
use crate::store::{CheckpointStore, StoreError, gc};
use crate::task::messages::{SinkSnapshot, SourceSnapshot, SubtaskSnapshot};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use weir_plugin::StatePart;
use weir_protocol::shared::{FileOrigin, FileRef};
use weir_protocol::{CheckpointId, SubtaskIndex};

/// A subtask's part of a checkpoint, all of its files stored: what an acknowledgement stands for.
#[derive(Clone, Debug)]
pub struct StoredSnapshot {
    /// Which subtask.
    pub subtask: SubtaskIndex,
    /// Of which checkpoint.
    pub checkpoint: CheckpointId,
    /// Positions, if the chain begins with a source.
    pub source: Option<SourceSnapshot>,
    /// State of its operators.
    pub operators: Vec<StoredOperator>,
    /// Committables of its sinks.
    pub sinks: Vec<SinkSnapshot>,
    /// Bytes that this snapshot added to the storage.
    pub uploaded_bytes: u64,
    /// Every file it names.
    pub files: Vec<FileRef>,
}

/// State of one operator in one subtask, as files of the storage.
#[derive(Clone, Debug)]
pub struct StoredOperator {
    /// Index of the operator in the job graph.
    pub operator: usize,
    /// Its subtask.
    pub subtask: u32,
    /// Files of the base.
    pub base: Vec<FileManifest>,
    /// Files to ingest after it, in order.
    pub deltas: Vec<FileManifest>,
    /// Ports whose end was processed.
    pub ended_ports: Vec<u32>,
    /// Whether EndOfData was sent on.
    pub end_of_data_sent: bool,
    /// Its watermark.
    pub watermark: Option<i64>,
    /// The one that it gave out, if it makes its own.
    pub output_watermark: Option<i64>,
    /// The operator's own state; none if it has none.
    pub parts: Option<Vec<StatePart>>,
}

/// Checkpoints that were aborted: what is still to be uploaded for them is left out. Shared with the uploads under way.
#[derive(Clone, Debug, Default)]
pub struct AbortedCheckpoints {
    aborted: Arc<Mutex<BTreeSet<CheckpointId>>>,
}

/// Aborted checkpoints to remember: uploads of older ones have ended long ago.
const REMEMBERED: usize = 64;

impl AbortedCheckpoints {
    /// Notes one.
    pub fn insert(&self, checkpoint: CheckpointId) {
        let mut aborted = self.aborted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        aborted.insert(checkpoint);
        if aborted.len() > REMEMBERED {
            aborted.pop_first();
        }
    }

    fn contains(&self, checkpoint: CheckpointId) -> bool {
        self.aborted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains(&checkpoint)
    }
}

/// Why a snapshot was not stored.
#[derive(Debug)]
pub enum UploadStop {
    /// Its checkpoint was aborted meanwhile.
    Aborted,
    /// The storage failed.
    Failed(StoreError),
}

/// Stores every file that no completed manifest holds.
pub async fn store_snapshot(
    store: &CheckpointStore,
    snapshot: SubtaskSnapshot,
    aborted: &AbortedCheckpoints,
) -> Result<StoredSnapshot, UploadStop> {
    let mut stored = StoredSnapshot::empty(&snapshot);
    match store_operators(store, snapshot, aborted, &mut stored).await {
        Ok(()) => Ok(stored),
        Err(stop) => {
            // Nobody will ever refer to what was stored so far: these names were made for this snapshot.
            let own = stored.files.into_iter().filter(|file| file.origin == FileOrigin::Uploaded).map(|file| file.name);
            gc::release(store, own).await;
            Err(stop)
        }
    }
}

async fn store_operators(
    store: &CheckpointStore,
    snapshot: SubtaskSnapshot,
    aborted: &AbortedCheckpoints,
    stored: &mut StoredSnapshot,
) -> Result<(), UploadStop> {
    for part in snapshot.operators {
        let LocalSnapshot { base, deltas, .. } =
            part.state.unwrap_or(LocalSnapshot { checkpoint: stored.checkpoint, base: Vec::new(), deltas: Vec::new() });
        let base = store_files(store, base, aborted, stored).await?;
        let deltas = store_files(store, deltas, aborted, stored).await?;
        stored.operators.push(StoredOperator {
            operator: part.operator,
            subtask: part.subtask,
            base,
            deltas,
            ended_ports: part.ended_ports,
            end_of_data_sent: part.end_of_data_sent,
            watermark: part.watermark,
            output_watermark: part.output_watermark,
            parts: part.parts,
        });
    }
    Ok(())
}

async fn store_files(
    store: &CheckpointStore,
    files: Vec<SnapshotFile>,
    aborted: &AbortedCheckpoints,
    stored: &mut StoredSnapshot,
) -> Result<Vec<FileManifest>, UploadStop> {
    let mut manifests = Vec::with_capacity(files.len());
    for file in files {
        let manifest = FileManifest { name: file.name, bytes: file.bytes, checksum: file.checksum };
        let origin = if file.stored {
            FileOrigin::Stored
        } else {
            if aborted.contains(stored.checkpoint) {
                return Err(UploadStop::Aborted);
            }
            if let Err(error) = store.upload(&manifest, &file.local).await {
                // A local file goes with its aborted checkpoint.
                return Err(if aborted.contains(stored.checkpoint) { UploadStop::Aborted } else { UploadStop::Failed(error) });
            }
            crash::point("upload-partial");
            stored.uploaded_bytes += manifest.bytes;
            FileOrigin::Uploaded
        };
        stored.files.push(FileRef { name: manifest.name.clone(), origin });
        manifests.push(manifest);
    }
    Ok(manifests)
}

impl StoredSnapshot {
    /// Of a snapshot whose operators are still to be stored.
    fn empty(snapshot: &SubtaskSnapshot) -> Self {
        StoredSnapshot {
            subtask: snapshot.subtask,
            checkpoint: snapshot.checkpoint,
            source: snapshot.source.clone(),
            operators: Vec::new(),
            sinks: snapshot.sinks.clone(),
            uploaded_bytes: 0,
            files: Vec::new(),
        }
    }

    /// Every committable of its sinks.
    pub fn committables(&self) -> impl Iterator<Item = &Committable> {
        self.sinks.iter().flat_map(|sink| &sink.committables)
    }

    /// Bytes of state that it refers to.
    pub fn state_bytes(&self) -> u64 {
        self.operators.iter().flat_map(|o| o.base.iter().chain(&o.deltas)).map(|file| file.bytes).sum()
    }
}
