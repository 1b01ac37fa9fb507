//! What is no longer needed goes: entries by retention, files by reachability.
//!
//! - **S1** A file that a checkpoint under way or a retained one refers to is never deleted.
//! - **S4** When idle, the store holds exactly the reachable files.
//! - Log entries go first, oldest first, and only below the oldest retained checkpoint; then what only they referred to. A
//!   crash anywhere leaves garbage, never a manifest whose files are gone.
//! - While an entry of the log can't be read nothing is collected: it may be a manifest, and its files may be asked for.

use super::contents::{Leftover, LogContents, References, generation_of};
use super::error::StoreError;
use super::log::{LogError, LogStore};
use super::storage::CheckpointStore;
use weir_protocol::Generation;
use weir_protocol::log::{LogView, Slot, retention};

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Log entries.
    pub entries: Vec<Slot>,
    /// State files.
    pub files: Vec<String>,
    /// Plugins.
    pub plugins: Vec<String>,
    /// Unpublished temporary files.
    pub temporaries: usize,
    /// What could not be removed: the job goes on, the next collection tries again.
    pub leftovers: Vec<Leftover>,
    /// Why nothing was collected at all, if so.
    pub held_back: Option<String>,
}

/// Drops all but the newest `retain` checkpoints from the log, then deletes what only they referred to. `in_use`: what
/// checkpoints under way refer to, and the plugins that run. To be called by the owner of the newest claim, off the
/// checkpoint path; a failure to delete is reported in the answer.
pub async fn retain(log: &LogStore, retain: usize, in_use: &References) -> Result<Removed, LogError> {
    let contents = LogContents::read(log).await?;
    let entries: Vec<_> = contents.view().entries().iter().map(|(slot, entry)| (*slot, entry.clone())).collect();
    let dropped = retention(&entries, retain);
    let kept = References::of(contents.counting().filter(|(slot, _)| !dropped.contains(slot)).map(|(_, manifest)| manifest));
    let released = References::of(dropped.iter().filter_map(|slot| contents.manifest_in(*slot)));

    let mut removed = Removed::default();
    for slot in dropped {
        // Files of an entry that stays must stay too, so the first failure ends it.
        if let Err(error) = log.delete(slot).await {
            removed.leftovers.push(Leftover { name: format!("log entry {slot}"), error });
            return Ok(removed);
        }
        removed.entries.push(slot);
        crate::crash::point("retention");
    }
    removed.take(log.storage(), released.without(&kept).without(in_use)).await;
    Ok(removed)
}

/// Deletes state files that no checkpoint refers to any more (those of an aborted one, say).
pub async fn release(store: &CheckpointStore, files: impl IntoIterator<Item = String>) -> Removed {
    let mut removed = Removed::default();
    removed.take(store, References { files: files.into_iter().collect(), ..References::default() }).await;
    removed
}

/// Collects what claimed-over generations left: state files of generations **below** `own` that no checkpoint in the log
/// refers to, plugins that none needs and that are not in `in_use`, and temporaries. To be called after the claim of `own`,
/// which stands in `claim`.
pub async fn collect_garbage(log: &LogStore, own: Generation, claim: Slot, in_use: &References) -> Result<Removed, LogError> {
    let contents = LogContents::read(log).await?;
    let mut removed = Removed::default();
    if let Some((_, reason)) = contents.unreadable().next() {
        removed.held_back = Some(reason.to_owned());
        return Ok(removed);
    }
    let needed = References::of(contents.counting().map(|(_, manifest)| manifest));
    let store = log.storage();
    let claimed_over = |name: &String| generation_of(name).is_some_and(|generation| generation < own);
    let files = store.list_shared().await?.into_iter().map(|file| file.name).filter(claimed_over).collect();
    let stored = References { files, plugins: Default::default() };
    removed.take(store, stored.without(&needed).without(in_use)).await;

    // Plugins and temporaries carry no generation: only the newest claimant may touch them.
    if newest_is(log, claim).await? {
        let plugins = store.list_plugins().await?.into_iter().map(|plugin| plugin.name).collect();
        let stored = References { files: Default::default(), plugins };
        removed.take(store, stored.without(&needed).without(in_use)).await;
        removed.temporaries = store.clear_temporaries().await?;
    }
    Ok(removed)
}

impl Removed {
    /// Removes all of these.
    async fn take(&mut self, store: &CheckpointStore, garbage: References) {
        for name in garbage.files {
            match store.delete_shared(&name).await {
                Ok(()) => self.files.push(name),
                Err(error) => self.leftovers.push(Leftover { name, error }),
            }
            crate::crash::point("retention");
        }
        for name in garbage.plugins {
            match store.delete_plugin(&name).await {
                Ok(()) => self.plugins.push(name),
                Err(error) => self.leftovers.push(Leftover { name: format!("plugin {name}"), error }),
            }
        }
    }
}

/// Whether no other process has claimed since `claim`.
async fn newest_is(log: &LogStore, claim: Slot) -> Result<bool, StoreError> {
    let view = LogView::new(log.read_entries().await?);
    Ok(view.newest_claim().is_some_and(|(slot, _)| slot == claim))
}
