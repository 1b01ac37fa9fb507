//! Which files the checkpoints refer to, and when one may be deleted.
//!
//! Invariants:
//! - S1: a file that a checkpoint under way or a retained one refers to is never deleted.
//! - S3: a name is never used for a second file.
//! - S4: when idle, the files known here are exactly those of the retained checkpoints.
//!
//! "Already stored" is true only of a file that a completed and retained checkpoint holds at the moment of the
//! acknowledgement: what a subtask believes may be out of date, because the news of a completion and the next barrier reach
//! it on different ways.

use crate::ids::CheckpointId;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;

/// A file of a snapshot, as a subtask names it in its acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileRef {
    /// Name below `shared/`; never used again for other content.
    pub name: String,
    /// How it came to be stored.
    pub origin: FileOrigin,
}

/// How a file of a snapshot came to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileOrigin {
    /// Uploaded for this snapshot, under a new name.
    Uploaded,
    /// The subtask counts on a file that a completed manifest holds.
    Stored,
}

/// What the registry is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegistryEvent {
    /// A checkpoint stands in the log from an earlier attempt.
    Restored {
        /// Which.
        checkpoint: CheckpointId,
        /// Names of its files.
        files: BTreeSet<String>,
    },
    /// A snapshot of a checkpoint under way was acknowledged.
    Registered {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Every file of the snapshot.
        files: Vec<FileRef>,
    },
    /// A snapshot was acknowledged that counts for nothing (late, or of a forgotten checkpoint).
    Refused {
        /// Every file of the snapshot.
        files: Vec<FileRef>,
    },
    /// A checkpoint under way was aborted.
    Aborted {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// A checkpoint under way is complete.
    Completed {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// Give up completed checkpoints beyond the number to be kept.
    Retire {
        /// From this one on every completed checkpoint is kept: a snapshot under way may count on its files.
        needed: CheckpointId,
    },
}

/// What follows, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegistryEffect {
    /// A snapshot counted on files that no completed checkpoint holds: its checkpoint must be aborted.
    Gone {
        /// Their names.
        names: BTreeSet<String>,
    },
    /// This completed checkpoint is given up; its log entry goes before its files.
    Subsumed {
        /// Which.
        checkpoint: CheckpointId,
    },
    /// Nothing refers to these files any more: they may be deleted.
    Released {
        /// Their names; never empty.
        names: BTreeSet<String>,
    },
}

/// The registry of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedStateRegistry {
    retain: usize,
    /// Every known file, with the checkpoints that refer to it: at least one.
    files: BTreeMap<String, BTreeSet<CheckpointId>>,
    /// Completed checkpoints that are kept.
    completed: BTreeSet<CheckpointId>,
}

impl SharedStateRegistry {
    /// A registry that knows no file. `retain`: completed checkpoints to keep, at least 1.
    pub fn new(retain: usize) -> Self {
        assert!(retain > 0, "S1: the newest completed checkpoint is always kept");
        SharedStateRegistry { retain, files: BTreeMap::new(), completed: BTreeSet::new() }
    }

    /// Takes one event and appends what follows.
    pub fn handle(&mut self, event: RegistryEvent, effects: &mut Vec<RegistryEffect>) {
        match event {
            RegistryEvent::Restored { checkpoint, files } => {
                assert!(self.completed.insert(checkpoint), "C5: {checkpoint} is restored twice");
                for name in files {
                    self.files.entry(name).or_default().insert(checkpoint);
                }
            }
            RegistryEvent::Registered { checkpoint, files } => self.register(checkpoint, files, effects),
            RegistryEvent::Refused { files } => {
                let uploaded = files.into_iter().filter(|file| file.origin == FileOrigin::Uploaded).map(|file| file.name);
                released(uploaded.filter(|name| !self.files.contains_key(name)).collect(), effects);
            }
            RegistryEvent::Aborted { checkpoint } => {
                assert!(!self.completed.contains(&checkpoint), "C4: {checkpoint} is complete and cannot be aborted");
                self.let_go(checkpoint, effects);
            }
            RegistryEvent::Completed { checkpoint } => {
                assert!(self.completed.last() < Some(&checkpoint), "C1: {checkpoint} completes after a newer one");
                self.completed.insert(checkpoint);
            }
            RegistryEvent::Retire { needed } => self.retire(needed, effects),
        }
    }

    /// Every known file and the checkpoints that refer to it.
    pub fn files(&self) -> &BTreeMap<String, BTreeSet<CheckpointId>> {
        &self.files
    }

    /// The completed checkpoints that are kept.
    pub fn completed(&self) -> &BTreeSet<CheckpointId> {
        &self.completed
    }

    /// Whether a completed checkpoint that is kept holds this file: the only meaning of "already stored".
    pub fn is_stored(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(|holders| holders.iter().any(|holder| self.completed.contains(holder)))
    }

    fn register(&mut self, checkpoint: CheckpointId, files: Vec<FileRef>, effects: &mut Vec<RegistryEffect>) {
        assert!(!self.completed.contains(&checkpoint), "C2: {checkpoint} is complete and takes no more files");
        let mut gone = BTreeSet::new();
        for FileRef { name, origin } in files {
            match origin {
                FileOrigin::Uploaded => {
                    assert!(!self.files.contains_key(&name), "S3: {name} was uploaded a second time");
                }
                FileOrigin::Stored if !self.is_stored(&name) => {
                    gone.insert(name);
                    continue;
                }
                FileOrigin::Stored => {}
            }
            self.files.entry(name).or_default().insert(checkpoint);
        }
        if !gone.is_empty() {
            effects.push(RegistryEffect::Gone { names: gone });
        }
    }

    fn retire(&mut self, needed: CheckpointId, effects: &mut Vec<RegistryEffect>) {
        while self.completed.len() > self.retain {
            let oldest = *self.completed.first().expect("more than `retain` are complete");
            if oldest >= needed {
                return;
            }
            self.completed.remove(&oldest);
            effects.push(RegistryEffect::Subsumed { checkpoint: oldest });
            self.let_go(oldest, effects);
        }
    }

    /// Forgets what `checkpoint` refers to and releases what nothing else does (S1).
    fn let_go(&mut self, checkpoint: CheckpointId, effects: &mut Vec<RegistryEffect>) {
        let mut names = BTreeSet::new();
        self.files.retain(|name, holders| {
            if holders.remove(&checkpoint) && holders.is_empty() {
                names.insert(name.clone());
            }
            !holders.is_empty()
        });
        released(names, effects);
    }
}

fn released(names: BTreeSet<String>, effects: &mut Vec<RegistryEffect>) {
    if !names.is_empty() {
        effects.push(RegistryEffect::Released { names });
    }
}
