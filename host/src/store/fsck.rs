//! `weir checkpoint fsck`: is what is stored what is referred to? Reads only; repairs nothing.
//!
//! Meant for a job that is stopped: files of a checkpoint under way are orphans until its manifest stands.

use super::contents::{LogContents, References, generation_of};
use super::error::StoreError;
use super::inspect::{UnreadableEntry, unreadable};
use super::log::{LogError, LogStore};
use super::manifest::FileManifest;
use super::storage::StoredFile;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FsckReport {
    /// True if contents were read and their checksums compared, not only lengths.
    pub deep: bool,
    /// Checkpoints that were checked.
    pub checkpoints: Vec<String>,
    /// State files that are stored.
    pub stored_files: usize,
    /// Their bytes.
    pub stored_bytes: u64,
    /// State files that some checkpoint refers to.
    pub referenced_files: usize,
    /// Stored, ours, and no checkpoint refers to it: garbage, which the next collection removes.
    pub orphans: Vec<String>,
    /// Stored and not named as we name files: never touched.
    pub foreign: Vec<String>,
    /// Referred to and not there, or not as it was written.
    pub damaged: Vec<Damage>,
    /// Log entries that exist and can't be read.
    pub unreadable: Vec<UnreadableEntry>,
    /// Files that were never published.
    pub temporaries: usize,
}

/// A file that a checkpoint refers to and that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub why: String,
    /// Checkpoints that need it.
    pub checkpoints: Vec<String>,
}

impl FsckReport {
    /// Whether every checkpoint can be restored.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.unreadable.is_empty()
    }

    /// Whether, moreover, nothing is stored that is not referred to (S4).
    pub fn is_exact(&self) -> bool {
        self.is_whole() && self.orphans.is_empty() && self.temporaries == 0
    }
}

/// Compares what is stored with what the log's checkpoints refer to. `deep`: reads every byte.
pub async fn fsck(log: &LogStore, deep: bool) -> Result<FsckReport, LogError> {
    let contents = LogContents::read(log).await?;
    let store = log.storage();
    let stored: BTreeMap<String, u64> =
        store.list_shared().await?.into_iter().map(|StoredFile { name, bytes }| (name, bytes)).collect();
    let needed = References::of(contents.counting().map(|(_, manifest)| manifest));
    let mut report = FsckReport {
        deep,
        checkpoints: contents.counting().map(|(_, manifest)| manifest.id.clone()).collect(),
        stored_files: stored.len(),
        stored_bytes: stored.values().sum(),
        referenced_files: needed.files.len(),
        unreadable: unreadable(&contents),
        temporaries: store.list_temporaries().await?.len(),
        ..FsckReport::default()
    };
    for name in stored.keys().filter(|name| !needed.files.contains(*name)) {
        let list = if generation_of(name).is_some() { &mut report.orphans } else { &mut report.foreign };
        list.push(name.clone());
    }
    for (file, checkpoints) in contents.referenced() {
        if let Err(error) = check(log, file, stored.get(&file.name).copied(), deep).await {
            report.damaged.push(damage(&file.name, error, checkpoints)?);
        }
    }
    check_plugins(log, &contents, &mut report).await?;
    Ok(report)
}

async fn check(log: &LogStore, file: &FileManifest, stored: Option<u64>, deep: bool) -> Result<(), StoreError> {
    match stored {
        None => Err(StoreError::Missing { file: file.name.clone() }),
        Some(bytes) if bytes != file.bytes => Err(StoreError::Corrupt {
            file: file.name.clone(),
            expected: format!("{} bytes", file.bytes),
            found: format!("{bytes} bytes"),
        }),
        Some(_) if deep => log.storage().check(file).await,
        Some(_) => Ok(()),
    }
}

/// Plugins are few and small: always read.
async fn check_plugins(log: &LogStore, contents: &LogContents, report: &mut FsckReport) -> Result<(), LogError> {
    let mut needed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, manifest) in contents.counting() {
        for plugin in manifest.plugins() {
            needed.entry(plugin).or_default().push(&manifest.id);
        }
    }
    for plugin in log.storage().list_plugins().await? {
        if !needed.contains_key(plugin.name.as_str()) {
            report.orphans.push(format!("plugins/{}.wasm", plugin.name));
        }
    }
    for (plugin, checkpoints) in needed {
        if let Err(error) = log.storage().get_plugin(plugin).await {
            report.damaged.push(damage(&format!("plugins/{plugin}.wasm"), error, checkpoints)?);
        }
    }
    Ok(())
}

/// Damage is a finding; a storage that refuses to answer is an error.
fn damage(file: &str, error: StoreError, checkpoints: Vec<&str>) -> Result<Damage, StoreError> {
    if !error.is_damage() {
        return Err(error);
    }
    let checkpoints = checkpoints.into_iter().map(str::to_owned).collect();
    Ok(Damage { file: file.to_owned(), why: error.to_string(), checkpoints })
}
