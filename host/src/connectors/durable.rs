//! File-system steps of the connectors that survive a crash, with errors of theirs.
//!
//! Invariants:
//! - A name is durable only after [`sync_folder`] of the folder that holds it; a content only after [`sync_file`].
//! - [`rename_new`] never replaces anything: the check and the rename are one call of the kernel.

use super::{ConnectorError, Remedy};
use crate::disk::{self, DiskTrouble};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What came of a rename that never replaces.
#[derive(Debug)]
pub(super) enum Renamed {
    /// The file has its new name.
    Done,
    /// There is no file of the old name.
    SourceGone,
    /// The new name is taken; nothing changed.
    Taken,
    /// The kernel or the file system can't do it; nothing changed.
    Failed(io::Error),
}

/// Turns a disk error into one for the user: what failed, where, and what to do next.
pub(super) fn disk_error(action: &str, path: &Path, error: &io::Error) -> ConnectorError {
    let trouble = DiskTrouble::of(error);
    let remedy = if trouble.is_permanent() { Remedy::Permanent } else { Remedy::Restart };
    ConnectorError { message: trouble.told(&format!("cannot {action} {}: {error}", path.display())), remedy }
}

/// Flushes a file's content and length to the disk.
///
/// After a failure the content is lost as far as anyone knows (the kernel may drop dirty pages and report it once): the
/// caller must give the file up, not try again.
pub(super) fn sync_file(file: &File, path: &Path) -> Result<(), ConnectorError> {
    file.sync_all().map_err(|error| disk_error("flush to disk", path, &error))
}

/// Makes the names in a folder durable: files created, renamed or removed before.
pub(super) fn sync_folder(folder: &Path) -> Result<(), ConnectorError> {
    disk::sync_folder(folder).map_err(|error| disk_error("flush to disk the folder", folder, &error))
}

/// Creates a folder and what is missing above it, and makes their names durable.
pub(super) fn create_folder(folder: &Path) -> Result<(), ConnectorError> {
    disk::create_folder(folder).map_err(|error| disk_error("create the folder", folder, &error))
}

/// Renames a file in one file system, never replacing one.
pub(super) fn rename_new(from: &Path, to: &Path) -> Renamed {
    loop {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Renamed::Done,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::EXIST) => return Renamed::Taken,
            // The kernel says the same when the folder of the new name is missing.
            Err(rustix::io::Errno::NOENT) if exists(from).is_ok_and(|there| !there) => return Renamed::SourceGone,
            Err(error) => return Renamed::Failed(error.into()),
        }
    }
}

/// Removes a file; `false` if there was none.
pub(super) fn remove(path: &Path) -> Result<bool, ConnectorError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(disk_error("remove", path, &error)),
    }
}

/// Removes a folder if it is empty. One that is in use, a mount point, or gone stays as it is.
pub(super) fn remove_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

/// Whether there is a file of this name (a link that leads nowhere is one).
pub(super) fn exists(path: &Path) -> Result<bool, ConnectorError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(disk_error("look at", path, &error)),
    }
}

/// Whether two names are one file (hard links).
pub(super) fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::symlink_metadata(one), fs::symlink_metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Whether two folders lie in one file system, so that a rename between them can work. Two mounts of one device (bind
/// mounts) pass here; only [`rename_new`] itself finds those.
pub(super) fn same_file_system(one: &Path, other: &Path) -> Result<bool, ConnectorError> {
    let device = |path: &Path| fs::metadata(path).map(|data| data.dev()).map_err(|error| disk_error("look at", path, &error));
    Ok(device(one)? == device(other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_never_replaces() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "1").expect("write");
        fs::write(&other, "2").expect("write");
        assert!(matches!(rename_new(&one, &other), Renamed::Taken));
        assert_eq!(fs::read(&other).expect("read"), b"2");
        fs::remove_file(&other).expect("remove");
        assert!(matches!(rename_new(&one, &other), Renamed::Done));
        assert!(matches!(rename_new(&one, &other), Renamed::SourceGone), "the old name is looked up before the new one");
        fs::remove_file(&other).expect("remove");
        assert!(matches!(rename_new(&one, &other), Renamed::SourceGone));
    }

    #[test]
    fn a_missing_target_folder_is_not_a_missing_source() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let one = folder.path().join("one");
        fs::write(&one, "1").expect("write");
        assert!(matches!(rename_new(&one, &folder.path().join("no/other")), Renamed::Failed(_)));
    }

    #[test]
    fn disk_errors_name_path_and_remedy() {
        let cases = [
            (rustix::io::Errno::NOSPC, Remedy::Restart, "free some space"),
            (rustix::io::Errno::DQUOT, Remedy::Restart, "quota"),
            (rustix::io::Errno::ACCESS, Remedy::Permanent, "permission"),
            (rustix::io::Errno::ROFS, Remedy::Permanent, "read-only"),
            (rustix::io::Errno::MFILE, Remedy::Restart, "ulimit -n"),
            (rustix::io::Errno::IO, Remedy::Restart, "dmesg"),
        ];
        for (errno, remedy, advice) in cases {
            let error = disk_error("write", Path::new("/data/out"), &errno.into());
            assert_eq!(error.remedy, remedy, "{error}");
            assert!(error.message.contains("/data/out") && error.message.contains(advice), "{error}");
        }
    }
}
