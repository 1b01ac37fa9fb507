//! From a claim to a running attempt: what the newest checkpoint contains is committed, the rest is aborted, then the state
//! is restored and the subtasks start.

use super::attempt::Event;
use super::commits::{SinkCommits, SinkNews};
use super::compat;
use super::deploy::{JobParts, Restored, RestoredOperator};
use super::ended_inputs;
use super::losses::lost_transaction;
use crate::connectors::{Committable, CommitterContext, ConnectorError, SinkConnector, SplitState};
use crate::crash;
use crate::graph::job_file::sink_from_section;
use crate::job::{LostTransaction, StopSignal};
use crate::state::{RestoredState, SnapshotFile};
use crate::store::manifest::{FileManifest, Manifest, OperatorManifest, SinkManifest};
use crate::store::{CheckpointStore, StoreError};
use base64::Engine as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use weir_protocol::TransactionId;
use weir_protocol::recovery::RecoveryPlan;

/// Committables of a sink as a manifest holds them. Source ranges refer to the job as it is now; one that has left it is
/// dropped from the ranges.
pub fn committables_of(parts: &JobParts, manifest: &Manifest, sink: &SinkManifest) -> Result<Vec<Committable>, String> {
    let split_of = |source: &str, split: &str| -> Option<(u16, u32)> {
        let index = parts.graph.sources.iter().position(|spec| spec.name == source)?;
        let at = manifest.sources.get(source)?.splits.iter().position(|own| own.split == split)?;
        Some((index as u16, at as u32))
    };
    sink.committables
        .iter()
        .map(|stored| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(&stored.bytes).map_err(|error| error.to_string())?;
            let ranges = stored.sources.iter().filter_map(|(source, split, first, last)| {
                let (source, split) = split_of(source, split)?;
                Some(crate::channel::SourceSpan { source, split, first: *first, last: *last })
            });
            Ok(Committable {
                id: stored.id.parse::<TransactionId>().map_err(|error| error.to_string())?,
                checkpoint: stored.checkpoint.parse().map_err(|error: weir_protocol::ParseIdError| error.to_string())?,
                version: stored.version,
                bytes,
                plugin: stored.plugin.clone(),
                sources: ranges.collect(),
            })
        })
        .collect()
}

/// A sink whose transactions this job has to end: one of the job file, or one that has left it.
struct Recovering {
    /// Index in the job graph; none if it has left the job file.
    sink: Option<usize>,
    name: String,
    connector: Arc<dyn SinkConnector>,
    contained: Vec<Committable>,
}

/// Why recovery of the outside did not succeed.
#[derive(Debug)]
pub enum RecoveryError {
    /// Exit 3.
    Lost(Vec<LostTransaction>),
    /// The attempt fails; a restart may help.
    Failed(String),
    /// The user wants to stop. What is not ended yet is ended by the next start.
    Stopped,
}

/// Commits and aborts of a recovery.
pub struct OutsideRecovery<'a> {
    /// The job.
    pub parts: &'a JobParts,
    /// Splits for the names of lost ranges.
    pub splits: &'a [Vec<SplitState>],
    /// The newest completed checkpoint.
    pub newest: Option<&'a Manifest>,
    /// What has to be done.
    pub plan: &'a RecoveryPlan,
    /// Origin of the monotonic times that the machines see.
    pub origin: Instant,
    /// Makes sinks that have left the job file.
    pub connector_of: &'a dyn Fn(&crate::graph::SinkSpec) -> Result<Arc<dyn SinkConnector>, ConnectorError>,
}

impl OutsideRecovery<'_> {
    /// Ends every transaction of this job: commits what the newest checkpoint contains, aborts the rest, before any new input
    /// is read (T3). Gives the commits of the job file's sinks, ready for permits, and what the user should hear.
    pub async fn run(
        self,
        events: &UnboundedSender<Event>,
        inbox: &mut UnboundedReceiver<Event>,
        stop: &mut StopSignal,
    ) -> Result<(Vec<SinkCommits>, Vec<String>), RecoveryError> {
        let mut commits = Vec::new();
        for (index, recovering) in self.sinks()?.into_iter().enumerate() {
            let answers = events.clone();
            let context = CommitterContext {
                job: self.parts.graph.name.clone(),
                lineages: self.plan.lineages.iter().copied().collect(),
                generation: self.plan.up_to,
                plugin: recovering.connector.plugin_digest().map(str::to_owned),
            };
            let mut sink = SinkCommits::start(
                index,
                recovering.sink,
                &recovering.name,
                self.plan.up_to,
                recovering.connector,
                context,
                Arc::new(move |index, answer| {
                    // Nobody listens once the attempt has ended.
                    let _ = answers.send(Event::Sink(index, answer));
                }),
            );
            sink.recover(recovering.contained, self.plan);
            commits.push(sink);
        }
        let notices = self.drive(&mut commits, inbox, stop).await?;
        crash::point("recover-aborted");
        commits.retain(|commit| commit.sink().is_some());
        Ok((commits, notices))
    }

    async fn drive(
        &self,
        commits: &mut [SinkCommits],
        inbox: &mut UnboundedReceiver<Event>,
        stop: &mut StopSignal,
    ) -> Result<Vec<String>, RecoveryError> {
        let (mut owed, mut notices, mut lost) = (commits.len(), Vec::new(), Vec::new());
        while owed > 0 {
            let wake = commits.iter().filter_map(SinkCommits::wake_at).min();
            let wait = wake.map_or(self.origin + std::time::Duration::from_secs(3600), |at| self.origin + at);
            let news: Vec<SinkNews> = tokio::select! {
                event = inbox.recv() => match event {
                    Some(Event::Sink(sink, answer)) => commits[sink].answered(self.origin.elapsed(), answer),
                    // Nothing else runs yet.
                    Some(Event::Task(_) | Event::Uploaded(..) | Event::Log(_)) | None => Vec::new(),
                },
                _ = stop.changed() => return Err(RecoveryError::Stopped),
                () = tokio::time::sleep_until(wait.into()) => {
                    let now = self.origin.elapsed();
                    commits.iter_mut().flat_map(|commit| commit.tick(now)).collect()
                }
            };
            for item in news {
                match item {
                    SinkNews::RecoveryAborted => owed -= 1,
                    SinkNews::RecoveryCommitted | SinkNews::Committed(_) | SinkNews::PermitDone(_) => {}
                    SinkNews::Notice(text) => notices.push(text),
                    SinkNews::RecoveryFailed(message) => return Err(RecoveryError::Failed(message)),
                    SinkNews::Lost { committable, id, reason } => {
                        lost.push(lost_transaction(&self.parts.graph, self.splits, committable.as_deref(), id, &reason));
                    }
                }
            }
            // All that one answer named is reported together.
            if !lost.is_empty() {
                return Err(RecoveryError::Lost(lost));
            }
        }
        Ok(notices)
    }

    fn sinks(&self) -> Result<Vec<Recovering>, RecoveryError> {
        let contained = |name: &str| -> Result<Vec<Committable>, RecoveryError> {
            let Some(manifest) = self.newest else { return Ok(Vec::new()) };
            let Some(stored) = manifest.sinks.get(name) else { return Ok(Vec::new()) };
            let mut contained = committables_of(self.parts, manifest, stored)
                .map_err(|why| RecoveryError::Failed(format!("checkpoint {}, sink {name}: {why}", manifest.id)))?;
            // After `finished` all of it is known committed, and its markers are forgotten: no call.
            contained.retain(|committable| self.plan.commit.contains(&committable.id));
            Ok(contained)
        };
        let mut sinks = Vec::new();
        for (index, spec) in self.parts.graph.sinks.iter().enumerate() {
            let connector = Arc::clone(&self.parts.sinks[index]);
            if connector.is_transactional() {
                sinks.push(Recovering {
                    sink: Some(index),
                    name: spec.name.clone(),
                    connector,
                    contained: contained(&spec.name)?,
                });
            }
        }
        let stored = self.newest.into_iter().flat_map(|manifest| &manifest.sinks);
        for (name, sink) in stored.filter(|(name, _)| self.parts.graph.sinks.iter().all(|spec| spec.name != **name)) {
            let failed = |why: String| RecoveryError::Failed(format!("sink {name}, which has left the job file: {why}"));
            let spec = sink_from_section(&sink.section, &|variable| std::env::var(variable).ok())
                .map_err(|problems| failed(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
            let connector = (self.connector_of)(&spec).map_err(|error| failed(error.message))?;
            if connector.is_transactional() {
                sinks.push(Recovering { sink: None, name: name.clone(), connector, contained: contained(name)? });
            }
        }
        Ok(sinks)
    }
}

/// Splits of each source as the attempt begins: the checkpoint's, or a fresh enumeration. An error comes with its place.
pub fn splits_of(parts: &JobParts, manifest: Option<&Manifest>) -> Result<Vec<Vec<SplitState>>, (String, ConnectorError)> {
    let stored = |name: &str| manifest.and_then(|manifest| manifest.sources.get(name));
    parts
        .graph
        .sources
        .iter()
        .zip(&parts.sources)
        .map(|(spec, connector)| match stored(&spec.name) {
            Some(source) => Ok(source.splits.clone()),
            None => connector.enumerate().map_err(|error| (format!("source {}", spec.name), error)),
        })
        .collect()
}

/// Fetches the state of every operator into `folder`, checking each file.
pub async fn fetch_state(
    store: &CheckpointStore,
    parts: &JobParts,
    manifest: &Manifest,
    folder: &Path,
    restored: &mut Restored,
) -> Result<(), StoreError> {
    crash::point("restore-begun");
    for (o, spec) in parts.graph.operators.iter().enumerate() {
        let Some(stored) = manifest.operators.get(&spec.name) else { continue };
        for subtask in 0..spec.parallelism {
            let ended = ended_inputs::restored(&parts.graph, manifest, o, subtask);
            let state = match parts.states[o].is_empty() {
                true => None,
                false => Some(fetch_subtask(store, stored, subtask, &folder.join(format!("{}-{subtask}", spec.name))).await?),
            };
            restored.operators.insert((o, subtask), RestoredOperator { state, ended });
        }
    }
    Ok(())
}

async fn fetch_subtask(
    store: &CheckpointStore,
    stored: &OperatorManifest,
    subtask: u32,
    folder: &Path,
) -> Result<RestoredState, StoreError> {
    let own = &stored.subtasks[subtask as usize];
    std::fs::create_dir_all(folder).map_err(|error| StoreError::Io {
        doing: "create",
        path: folder.display().to_string(),
        kind: error.kind(),
        why: error.to_string(),
    })?;
    let base = fetch_files(store, &own.base, folder).await?;
    let deltas = fetch_files(store, &own.deltas, folder).await?;
    Ok(RestoredState { base, deltas })
}

async fn fetch_files(store: &CheckpointStore, files: &[FileManifest], folder: &Path) -> Result<Vec<SnapshotFile>, StoreError> {
    let mut fetched = Vec::with_capacity(files.len());
    for file in files {
        let local = folder.join(&file.name);
        store.fetch(file, &local).await?;
        fetched.push(SnapshotFile {
            name: file.name.clone(),
            local,
            bytes: file.bytes,
            checksum: file.checksum.clone(),
            stored: true,
        });
    }
    Ok(fetched)
}

/// The newest checkpoint before `than` that can be restored: its manifest fits the job and all its files are whole.
pub async fn restorable_before(store: &CheckpointStore, parts: &JobParts, older: Vec<Manifest>) -> Option<String> {
    for manifest in older.into_iter().rev() {
        if compat::check(parts, &manifest).is_err() {
            continue;
        }
        let mut whole = true;
        for file in manifest.files() {
            whole &= store.check(file).await.is_ok();
        }
        if whole {
            return Some(manifest.id);
        }
    }
    None
}
