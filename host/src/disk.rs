//! The local disk: what to do when it refuses, and steps with folders that survive a crash.
//!
//! State, storage and connectors meet the same troubles: each says where in its own words, and what next in these.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// What a disk has against an operation, as far as the user's next step differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTrouble {
    /// No space is left.
    Full,
    /// The user's quota is used up.
    Quota,
    /// The file is larger than allowed.
    TooLarge,
    /// The user lacks the permission.
    Permission,
    /// The file system is mounted read-only.
    ReadOnly,
    /// A part of the path is a file.
    NotAFolder,
    /// The file system does not allow the name.
    BadName,
    /// The process has too many files open.
    TooManyOpen,
    /// The device itself reports an error.
    Device,
    /// Anything else: the system's own words have to do.
    Other,
}

/// How the system says it: libraries hand this text on, without the error number.
const IN_WORDS: [(&str, DiskTrouble); 6] = [
    ("No space left on device", DiskTrouble::Full),
    ("Disk quota exceeded", DiskTrouble::Quota),
    ("Permission denied", DiskTrouble::Permission),
    ("Read-only file system", DiskTrouble::ReadOnly),
    ("Too many open files", DiskTrouble::TooManyOpen),
    ("Input/output error", DiskTrouble::Device),
];

impl DiskTrouble {
    /// Of an error of the operating system.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull => DiskTrouble::Full,
            ErrorKind::QuotaExceeded => DiskTrouble::Quota,
            ErrorKind::FileTooLarge => DiskTrouble::TooLarge,
            ErrorKind::PermissionDenied => DiskTrouble::Permission,
            ErrorKind::ReadOnlyFilesystem => DiskTrouble::ReadOnly,
            ErrorKind::NotADirectory => DiskTrouble::NotAFolder,
            ErrorKind::InvalidFilename => DiskTrouble::BadName,
            // The standard library has no kind for these.
            _ => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => DiskTrouble::TooManyOpen,
                Some(rustix::io::Errno::IO) => DiskTrouble::Device,
                Some(_) | None => DiskTrouble::Other,
            },
        }
    }

    /// Of a library's text (RocksDB gives no error number).
    pub fn in_text(text: &str) -> Self {
        IN_WORDS.into_iter().find(|(words, _)| text.contains(words)).map_or(DiskTrouble::Other, |(_, trouble)| trouble)
    }

    /// What to do about it, to be put after "; ". Empty if the system's words have to do.
    pub fn advice(self) -> &'static str {
        match self {
            DiskTrouble::Full => "the disk is full: free some space on it",
            DiskTrouble::Quota => "the disk quota of this user is used up: raise it, or free some space",
            DiskTrouble::TooLarge => {
                "the file is larger than the file system or `ulimit -f` allows: a shorter checkpoint interval makes smaller files"
            }
            DiskTrouble::Permission => "this user lacks the permission: change the owner or the mode",
            DiskTrouble::ReadOnly => "the file system is mounted read-only: mount it writable, or name a folder on another one",
            DiskTrouble::NotAFolder => "a part of this path is a file, not a folder: move it away",
            DiskTrouble::BadName => "the file system does not allow such a name",
            DiskTrouble::TooManyOpen => "too many files are open: raise `ulimit -n`",
            DiskTrouble::Device => "the device reports an error: the kernel's log (dmesg) says more",
            DiskTrouble::Other => "",
        }
    }

    /// Whether it stays until somebody changes the set-up: a restart alone can't help.
    pub fn is_permanent(self) -> bool {
        match self {
            DiskTrouble::TooLarge
            | DiskTrouble::Permission
            | DiskTrouble::ReadOnly
            | DiskTrouble::NotAFolder
            | DiskTrouble::BadName => true,
            DiskTrouble::Full | DiskTrouble::Quota | DiskTrouble::TooManyOpen | DiskTrouble::Device | DiskTrouble::Other => false,
        }
    }

    /// An error's text with the advice behind it. What it holds already (an error inside another one) is not told twice.
    pub fn told(self, error: &str) -> String {
        let advice = self.advice();
        if advice.is_empty() || error.contains(advice) { error.to_owned() } else { format!("{error}; {advice}") }
    }
}

/// Puts a folder's entries onto the disk: files created, renamed or removed in it before.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Puts the entry of a file or folder in the folder above it onto the disk.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_folder)
}

/// Creates a folder and those above it, and puts their entries onto the disk, whoever made them.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for folder in std::path::absolute(folder)?.ancestors() {
        match sync_folder(folder) {
            // A folder that this user may only pass through was not made by this user.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            done => done?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// A library's text and the error number behind it come to the same advice.
    #[test]
    fn a_text_says_what_its_error_number_says() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::ACCESS, Errno::ROFS, Errno::MFILE, Errno::IO] {
            let error = io::Error::from(errno);
            let trouble = DiskTrouble::of(&error);
            assert_ne!(trouble, DiskTrouble::Other, "{error}");
            assert_eq!(DiskTrouble::in_text(&format!("IO error: {error}: While appending to 9.sst")), trouble, "{error}");
        }
        assert_eq!(DiskTrouble::in_text("Corruption: bad block"), DiskTrouble::Other);
    }

    #[test]
    fn advice_is_given_once() {
        let once = DiskTrouble::Full.told("writing a: No space left on device");
        assert_eq!(once, "writing a: No space left on device; the disk is full: free some space on it");
        assert_eq!(DiskTrouble::in_text(&once).told(&format!("sealing b: {once}")), format!("sealing b: {once}"));
        assert_eq!(DiskTrouble::Other.told("odd"), "odd");
    }

    #[test]
    fn folders_are_created_with_all_above() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let deep = folder.path().join("a/b/c");
        create_folder(&deep).expect("created");
        create_folder(&deep).expect("there already");
        assert!(deep.is_dir());
        fs::write(folder.path().join("file"), "").expect("write");
        assert!(create_folder(&folder.path().join("file/x")).is_err());
    }
}
