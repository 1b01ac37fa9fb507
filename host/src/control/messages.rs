//! Requests and replies.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::mpsc::Sender;

/// Another build of an operator's plugin is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwapWish {
    /// Name of the operator in the job file.
    pub operator: String,
    /// The component, by its absolute path.
    pub plugin: PathBuf,
    /// Checkpoints of its probation; 0: none.
    pub probation: u32,
    /// Take it although it has failed before.
    pub again: bool,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// A wish on its way to the run.
#[derive(Clone, Debug)]
pub struct SwapRequest {
    /// The wish.
    pub wish: SwapWish,
    /// Where the replies go. Dropping it ends the conversation.
    pub replies: Sender<SwapReply>,
}

impl SwapRequest {
    /// Sends a reply; who does not listen any more misses it.
    pub fn reply(&self, reply: SwapReply) {
        let _ = self.replies.send(reply);
    }
}

/// A build, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// sha256 of the component.
    pub sha256: String,
    /// The plugin's own name and version.
    pub version: String,
}

/// What a client hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum SwapReply {
    /// Nothing was changed, and nothing will be.
    Refused {
        /// Why.
        what: String,
        /// What to do.
        next: String,
    },
    /// The build fits, and an instance of it was opened for every subtask.
    Staged {
        /// What runs.
        old: BuildInfo,
        /// What will.
        new: BuildInfo,
        /// Number of instances.
        subtasks: u32,
        /// What both read and write, as `count (value, schema 1)`.
        state: String,
        /// What is to be known besides.
        notes: Vec<String>,
    },
    /// The new build runs: the checkpoint with it is complete.
    Exchanged {
        /// The checkpoint.
        checkpoint: String,
        /// From its trigger to its manifest, ms.
        checkpoint_ms: u64,
        /// The longest time that a subtask stood still for the exchange, beyond a plain checkpoint, µs.
        pause_us: u64,
        /// The same from the barrier on: with the snapshot, µs.
        barrier_us: u64,
        /// Checkpoints of the probation that begins.
        probation: u32,
    },
    /// The new build has passed its probation.
    Passed {
        /// The last checkpoint of it.
        checkpoint: String,
    },
    /// The old build goes on: the swap came to nothing.
    Undone {
        /// Why.
        why: String,
    },
    /// The old build runs again: the new one has failed.
    RolledBack {
        /// How.
        why: String,
        /// sha256 of what runs.
        old: String,
    },
    /// The job ended before it was clear what becomes of the swap; its next start says.
    Ended,
}

impl SwapReply {
    /// Whether it says what has become of the wish.
    pub fn is_last(&self, wish: &SwapWish) -> bool {
        match self {
            SwapReply::Staged { .. } => wish.dry_run,
            SwapReply::Exchanged { probation, .. } => *probation == 0,
            SwapReply::Refused { .. }
            | SwapReply::Passed { .. }
            | SwapReply::Undone { .. }
            | SwapReply::RolledBack { .. }
            | SwapReply::Ended => true,
        }
    }
}
