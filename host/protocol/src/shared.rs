//! Which files the checkpoints refer to, and when one may be deleted.
//!
//! Invariants:
//! - S1: a file that a checkpoint under way or a retained one refers to is never deleted.
//! - S3: a name is never used for a second file.
//! - S4: when idle, the files known here are exactly those of the retained checkpoints.

/// A file of a snapshot, as a subtask names it in its acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileRef {
    /// Name below `shared/`; never used again for other content.
    pub name: String,
    /// Whether it was uploaded for this snapshot.
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
