//! What can go wrong with a file of the checkpoint storage: what, where, whose fault, what next.

use crate::disk::DiskTrouble;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

/// An operation on the checkpoint storage failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A file that a manifest names is not there.
    #[error(
        "{file} is missing from the checkpoint storage: somebody or something outside Weir removed it; \
         put it back from a backup, or start from a checkpoint that does not need it (`weir checkpoint fsck`)"
    )]
    Missing {
        /// The file.
        file: String,
    },
    /// A file does not hold what was written.
    #[error(
        "{file} is damaged: expected {expected}, found {found}; check the disk, and start from a checkpoint that does not \
         need it (`weir checkpoint fsck` lists them)"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// What its manifest says.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A name was used twice for different contents.
    #[error("{file} exists already with another content: {found}, not {expected}; it was not replaced (S3)")]
    NameTaken {
        /// The file.
        file: String,
        /// What should have been written.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A name can't be stored.
    #[error("'{0}' can't be the name of a stored file: letters, digits, '.', '_' and '-' only, not beginning with '.'")]
    BadName(String),
    /// The folder of the storage is not there.
    #[error("there is no checkpoint storage at {0}: nothing was stored there yet, or it was moved away")]
    NoStorage(String),
    /// A kind of storage that a later version will have.
    #[error("checkpoint storage '{0}': not in this version, which stores checkpoints in a local folder (a path or file://)")]
    NotInThisVersion(String),
    /// The operating system or the object store refused.
    #[error("can't {doing} {path}: {why}; {next}")]
    Io {
        /// What was tried, as an infinitive.
        doing: &'static str,
        /// On what.
        path: String,
        /// What kind of refusal.
        kind: ErrorKind,
        /// In the system's words.
        why: String,
        /// What to do about it.
        next: &'static str,
    },
}

impl StoreError {
    /// A refusal by the operating system.
    pub(crate) fn io(doing: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::system(doing, path.display().to_string(), error, error.to_string())
    }

    fn system(doing: &'static str, path: String, error: &io::Error, why: String) -> Self {
        StoreError::Io { doing, path, kind: error.kind(), why, next: next_step(error) }
    }

    /// A refusal by the object store. The first error of the operating system in its chain says more than the chain.
    pub(super) fn object(doing: &'static str, path: &str, error: object_store::Error) -> Self {
        let kind = match &error {
            object_store::Error::NotFound { .. } => ErrorKind::NotFound,
            object_store::Error::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            object_store::Error::PermissionDenied { .. } => ErrorKind::PermissionDenied,
            _ => ErrorKind::Other,
        };
        match system_error(&error) {
            Some(system) => Self::system(doing, path.to_owned(), system, system.to_string()),
            None => Self::system(doing, path.to_owned(), &io::Error::from(kind), error.to_string()),
        }
    }

    /// Whether what was stored is missing or damaged: another checkpoint may still be whole.
    pub fn is_damage(&self) -> bool {
        match self {
            StoreError::Missing { .. } | StoreError::Corrupt { .. } => true,
            StoreError::NameTaken { .. }
            | StoreError::BadName(_)
            | StoreError::NoStorage(_)
            | StoreError::NotInThisVersion(_)
            | StoreError::Io { .. } => false,
        }
    }
}

fn system_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(system) = error.downcast_ref() {
            return Some(system);
        }
        next = error.source();
    }
    None
}

/// What the user should do about a refusal: what holds for a storage first, then what holds for any disk.
fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "it was moved or deleted by something outside Weir",
        ErrorKind::AlreadyExists => "something outside Weir wrote it; move it away",
        ErrorKind::NotADirectory | ErrorKind::IsADirectory => "something else stands in its place; move it away",
        ErrorKind::Unsupported | ErrorKind::CrossesDevices => {
            "that file system lacks hard links or folder syncs; point [checkpoint].storage to one that has them"
        }
        _ => match DiskTrouble::of(error) {
            DiskTrouble::Other => "look at the disk and its file system (dmesg, df)",
            trouble => trouble.advice(),
        },
    }
}
