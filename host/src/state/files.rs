//! Local files of snapshots: names, checksums, links.
//!
//! A name is `<prefix>.<checkpoint>.<number>.<what>`: prefix `<generation>-<operator>-<subtask>`, the checkpoint that uploads it,
//! a number that the backend draws once, and `delta.sst`, `state.mem`, or the name that RocksDB knows the file by.

use super::{SnapshotFile, state_error};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;
use weir_plugin::state::StateError;
use weir_protocol::CheckpointId;
use xxhash_rust::xxh3::Xxh3;

/// Name of a file as checkpoint `by` uploads it (S3).
pub(super) fn stored_name(prefix: &str, by: CheckpointId, number: u64, what: &str) -> String {
    format!("{prefix}.{by}.{number}.{what}")
}

/// The last part of a name, if it has the form of one.
pub(super) fn what_of(name: &str) -> Option<&str> {
    name.splitn(4, '.').nth(3)
}

/// XXH3-128 as it stands in manifests.
pub(super) fn checksum_text(hash: &Xxh3) -> String {
    format!("{:032x}", hash.digest128())
}

/// Length and checksum of a file's content.
pub(super) fn measure(path: &Path) -> Result<(u64, String), StateError> {
    let fail = |e: std::io::Error| state_error(format!("reading state file {}", path.display()), e);
    let mut file = fs::File::open(path).map_err(fail)?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0u8; 256 << 10];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((bytes, checksum_text(&hash))),
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(fail(e)),
        }
    }
}

/// Checks that a file to restore is there, and whole. Its content was checked when it was fetched: to read a large state once
/// more would make a restore take twice as long.
pub(super) fn look_at(file: &SnapshotFile) -> Result<(), StateError> {
    let what = || format!("restoring state file {} from {}", file.name, file.local.display());
    let bytes = fs::metadata(&file.local).map_err(|e| state_error(what(), e))?.len();
    if bytes != file.bytes {
        return Err(state_error(what(), format!("it has {bytes} bytes, its manifest says {}", file.bytes)));
    }
    Ok(())
}

/// A second name for an immutable file; a copy where the file system has no hard links or `from` lies on another one.
/// `to` must not exist.
pub(super) fn link_or_copy(from: &Path, to: &Path) -> Result<(), StateError> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(_) => copy(from, to),
    }
}

/// Copies a file. `to` must not exist: it might be a link to something that another file shares.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), StateError> {
    let copy = || {
        let mut source = fs::File::open(from)?;
        let mut target = fs::File::create_new(to)?;
        std::io::copy(&mut source, &mut target)
    };
    copy().map(drop).map_err(|e| state_error(format!("copying state file {} to {}", from.display(), to.display()), e))
}

/// Inode of a file: equal for all its hard links.
pub(super) fn inode(path: &Path) -> Result<u64, StateError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).map_err(|e| state_error(format!("looking at {}", path.display()), e))?;
    Ok(metadata.ino())
}

/// Makes a working folder, empty. What lies there belongs to no checkpoint.
pub(super) fn fresh_folder(folder: &Path) -> Result<(), StateError> {
    match fs::remove_dir_all(folder) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(state_error(format!("emptying working folder {}", folder.display()), e)),
    }
    make_folder(folder)
}

/// Makes a folder and its parents.
pub(super) fn make_folder(folder: &Path) -> Result<(), StateError> {
    fs::create_dir_all(folder).map_err(|e| state_error(format!("making folder {}", folder.display()), e))
}

/// Removes a local file that nobody needs. A failure only wastes space.
pub(super) fn remove_unneeded(path: &Path) {
    if let Err(e) = fs::remove_file(path) {
        tracing::warn!("state file {} is not needed any more, but could not be removed: {e}", path.display());
    }
}
