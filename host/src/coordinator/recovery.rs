//! What a checkpoint gives a new attempt: splits, ended inputs, state files; and which checkpoint can.

use super::compat;
use super::deploy::{JobParts, Restored, RestoredOperator};
use super::ended_inputs;
use crate::connectors::{ConnectorError, SplitState};
use crate::crash;
use crate::state::{RestoredState, SnapshotFile};
use crate::store::manifest::{FileManifest, Manifest, OperatorManifest, PartManifest, SourceWatermarks};
use crate::store::{CheckpointStore, StoreError};
use std::path::Path;
use weir_plugin::{PartMode, StatePart};
use weir_protocol::parts::parts_of;

/// Splits of each source as the attempt begins: the checkpoint's, or a fresh enumeration. An error comes with its place.
pub fn splits_of(parts: &JobParts, manifest: Option<&Manifest>) -> Result<Vec<Vec<SplitState>>, (String, ConnectorError)> {
    let stored = |name: &str| manifest.and_then(|manifest| manifest.sources.get(name));
    parts
        .graph
        .sources
        .iter()
        .zip(&parts.sources)
        .map(|(spec, connector)| match stored(&spec.name) {
            Some(source) => {
                let mut splits = source.splits.clone();
                // Once every reader has ended there is nothing to come.
                if !source.ended {
                    let added = connector.added(&splits).map_err(|error| (format!("source {}", spec.name), error))?;
                    splits.extend(added);
                }
                Ok(splits)
            }
            None => connector.enumerate().map_err(|error| (format!("source {}", spec.name), error)),
        })
        .collect()
}

/// What the user should hear of sources whose settings name other splits than the checkpoint that they resume from.
pub fn differing_splits(parts: &JobParts, manifest: &Manifest) -> Vec<String> {
    let mut told = Vec::new();
    for (spec, connector) in parts.graph.sources.iter().zip(&parts.sources) {
        let Some(stored) = manifest.sources.get(&spec.name) else { continue };
        match connector.differs(&stored.splits) {
            Ok(differs) => told.extend(differs),
            // What is read is fixed; whether it can be read is found when it is opened.
            Err(error) => tracing::debug!(source = spec.name, %error, "it can't be said whether there is more to read"),
        }
    }
    told
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
            let watermarks = stored.subtasks.iter().map(|own| own.watermark);
            // What makes its own from now on has passed on its input's until then.
            let outputs = stored.subtasks.iter().map(|own| own.output_watermark.or(own.watermark));
            let watermark = restored_watermark(watermarks, spec.parallelism, subtask);
            let output = restored_watermark(outputs, spec.parallelism, subtask);
            let own_state = parts.checkpointed[o].then(|| restored_parts(stored, spec.parallelism, subtask)).flatten();
            let operator = RestoredOperator { state, ended, watermark, output_watermark: output, parts: own_state };
            restored.operators.insert((o, subtask), operator);
        }
    }
    Ok(())
}

/// What a subtask starts with of the operator's own state; none: the checkpoint has no such state.
fn restored_parts(stored: &OperatorManifest, parallelism: u32, subtask: u32) -> Option<Vec<StatePart>> {
    let part = |part: &PartManifest| part.part().expect("checked when the manifest was read");
    let given: Option<Vec<Vec<StatePart>>> =
        stored.subtasks.iter().map(|own| own.parts.as_ref().map(|parts| parts.iter().map(part).collect())).collect();
    let given = given?;
    let own = parts_of(&given, |part| part.mode == PartMode::Split, parallelism, subtask);
    Some(own.into_iter().cloned().collect())
}

/// What a subtask starts with of what each one had given out, in order; the least of all if they are other ones by now.
pub fn restored_watermark(mut stored: impl ExactSizeIterator<Item = Option<i64>>, parallelism: u32, subtask: u32) -> Option<i64> {
    match stored.len() == parallelism as usize {
        true => stored.nth(subtask as usize).flatten(),
        // `None` is less than any: who had none yet holds all back.
        false => stored.min().flatten(),
    }
}

/// What the readers of each source start with.
pub fn source_watermarks(parts: &JobParts, manifest: Option<&Manifest>) -> Vec<SourceWatermarks> {
    let stored = |name: &str| manifest.and_then(|manifest| manifest.sources.get(name)?.watermarks.clone());
    parts.graph.sources.iter().map(|spec| stored(&spec.name).unwrap_or_default()).collect()
}

async fn fetch_subtask(
    store: &CheckpointStore,
    stored: &OperatorManifest,
    subtask: u32,
    folder: &Path,
) -> Result<RestoredState, StoreError> {
    let own = &stored.subtasks[subtask as usize];
    std::fs::create_dir_all(folder).map_err(|error| StoreError::io("create", folder, &error))?;
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

/// The first of these checkpoints that can be restored: its manifest fits the job and all its files are whole.
pub async fn first_restorable(store: &CheckpointStore, parts: &JobParts, manifests: Vec<Manifest>) -> Option<String> {
    for manifest in manifests {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_another_parallelism_the_least_watermark_of_all_holds() {
        let restored =
            |stored: &[Option<i64>], parallelism, subtask| restored_watermark(stored.iter().copied(), parallelism, subtask);
        let two = [Some(7), Some(-3)];
        assert_eq!((restored(&two, 2, 0), restored(&two, 2, 1)), (Some(7), Some(-3)));
        assert_eq!((restored(&two, 1, 0), restored(&two, 3, 2)), (Some(-3), Some(-3)));
        // One that had none yet may still get any record.
        let one_without = [Some(7), None];
        assert_eq!((restored(&one_without, 2, 0), restored(&one_without, 3, 0)), (Some(7), None));
    }
}
