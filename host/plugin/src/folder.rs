//! A granted folder: file operations that can't leave it, with the durability that the contract promises.
//!
//! Invariants:
//! - *inside*: every path is walked one name at a time, each opened relative to the one before and never through a
//!   symbolic link; `..` and absolute paths are refused. So no name, and no race with another process, leads outside.
//! - *regular*: content is read from and appended to regular files only.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Names in a path, and bytes of it.
const MAX_DEPTH: usize = 64;
const MAX_PATH: usize = 4_096;

/// Names that one `list` gives: it crosses the boundary as one list of strings.
const MAX_LISTED: usize = 100_000;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Without `NONBLOCK` the open of a named pipe would wait for its other end.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    root: OwnedFd,
    path: PathBuf,
}

/// A path inside the folder: no absolute one, no `.`, no `..`, no empty name.
#[derive(Debug)]
struct Inside<'p>(Vec<&'p str>);

impl<'p> Inside<'p> {
    fn parse(path: &'p str) -> Result<Self, &'static str> {
        match path {
            "" | "." => Ok(Inside(Vec::new())),
            _ if path.len() > MAX_PATH => Err("the path is too long"),
            _ if path.starts_with('/') => Err("the path is absolute"),
            _ if path.contains('\0') => Err("the path holds a NUL"),
            _ => {
                let names: Vec<_> = path.split('/').collect();
                match names.iter().find(|name| matches!(**name, "" | "." | "..")) {
                    Some(&"..") => Err("the path holds `..`"),
                    Some(_) => Err("the path holds an empty name or `.`"),
                    None if names.len() > MAX_DEPTH => Err("the path is too deep"),
                    None => Ok(Inside(names)),
                }
            }
        }
    }

    /// The folders above, and the last name; none for the granted folder itself.
    fn split(&self) -> Option<(&[&'p str], &'p str)> {
        self.0.split_last().map(|(name, folders)| (folders, *name))
    }
}

impl Folder {
    /// Opens the folder to be granted. Symbolic links on the way to it are the user's choice.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder { root: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends to a file, which is made if it does not exist.
    pub(crate) fn append(&self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.append_io(path, bytes).map_err(|e| self.text("append", path, e))
    }

    /// [`Self::append`], with the cause as it is.
    pub(crate) fn append_io(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let inside = parse(path)?;
        let (folders, name) = inside.split().ok_or_else(is_folder)?;
        let flags = FILE | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let file = rustix::fs::openat(self.walk(folders)?, name, flags, Mode::from_raw_mode(0o644)).map_err(named)?;
        regular(&file)?;
        File::from(file).write_all(bytes)
    }

    /// Whether an append could be tried: the path is inside.
    pub(crate) fn check(&self, path: &str) -> Result<(), String> {
        let named = parse(path).and_then(|inside| inside.split().map(drop).ok_or_else(is_folder));
        named.map_err(|e| self.text("append", path, e))
    }

    /// At most `limit` bytes from `offset`.
    pub(crate) fn read(&self, path: &str, offset: u64, limit: usize) -> Result<Vec<u8>, String> {
        let read = || {
            let inside = parse(path)?;
            let (folders, name) = inside.split().ok_or_else(is_folder)?;
            let file = rustix::fs::openat(self.walk(folders)?, name, FILE | OFlags::RDONLY, Mode::empty()).map_err(named)?;
            let left = regular(&file)?.saturating_sub(offset);
            let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(limit)];
            let mut filled = 0;
            let file = File::from(file);
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            bytes.truncate(filled);
            Ok(bytes)
        };
        read().map_err(|e| self.text("read", path, e))
    }

    /// Makes a file's content, or a folder's entries, durable.
    pub(crate) fn sync(&self, path: &str) -> Result<(), String> {
        let sync = || {
            let inside = parse(path)?;
            let Some((folders, name)) = inside.split() else { return fsync(&self.root) };
            fsync(rustix::fs::openat(self.walk(folders)?, name, FILE | OFlags::RDONLY, Mode::empty()).map_err(named)?)
        };
        sync().map_err(|e| self.text("sync", path, e))
    }

    /// Makes a folder and its parents, durably. Parents that exist are synced too: who made them may have crashed before.
    pub(crate) fn mkdir(&self, path: &str) -> Result<(), String> {
        let mkdir = || {
            let mut at = self.walk(&[])?;
            for name in parse(path)?.0 {
                match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => fsync(&at)?,
                    Err(e) => return Err(e.into()),
                }
                at = rustix::fs::openat(&at, name, FOLDER, Mode::empty()).map_err(named)?;
            }
            Ok(())
        };
        mkdir().map_err(|e| self.text("mkdir", path, e))
    }

    /// Moves a file in one step that never replaces; false, and nothing done, if the target exists.
    ///
    /// 1. The rename decides. 2. Both folders are synced before true is returned; if that fails the error says that the
    ///    rename itself is done, and the caller's repeat finds source gone and target there.
    pub(crate) fn rename(&self, source: &str, target: &str) -> Result<bool, String> {
        let rename = || {
            let (from, to) = (parse(source)?, parse(target)?);
            let ((from, from_name), (to, to_name)) = (from.split().ok_or_else(is_folder)?, to.split().ok_or_else(is_folder)?);
            let (from_folder, to_folder) = (self.walk(from)?, self.walk(to)?);
            refuse_link(&from_folder, from_name)?;
            match rustix::fs::renameat_with(&from_folder, from_name, &to_folder, to_name, RenameFlags::NOREPLACE) {
                Ok(()) => {}
                Err(Errno::EXIST) => return Ok(false),
                Err(Errno::INVAL | Errno::NOSYS) => {
                    let text = "this file system has no rename that never replaces (renameat2); use another one";
                    return Err(io::Error::new(io::ErrorKind::Unsupported, text));
                }
                Err(e) => return Err(e.into()),
            }
            let synced = fsync(&to_folder).and_then(|()| if from == to { Ok(()) } else { fsync(&from_folder) });
            synced.map_err(|e| io::Error::new(e.kind(), format!("it is renamed, but maybe not durably: {e}")))?;
            Ok(true)
        };
        rename().map_err(|e| self.text("rename", &format!("{source} to {target}"), e))
    }

    /// Removes a file or an empty folder; false if there was none.
    pub(crate) fn remove(&self, path: &str) -> Result<bool, String> {
        let remove = || {
            let inside = parse(path)?;
            let (folders, name) = inside.split().ok_or_else(is_folder)?;
            let folder = self.walk(folders)?;
            let flags = match kind(&folder, name)? {
                FileType::Directory => AtFlags::REMOVEDIR,
                FileType::Symlink => return Err(is_link()),
                _ => AtFlags::empty(),
            };
            rustix::fs::unlinkat(&folder, name, flags)?;
            Ok(true)
        };
        absent(remove(), false).map_err(|e| self.text("remove", path, e))
    }

    /// Whether a file or folder is there.
    pub(crate) fn exists(&self, path: &str) -> Result<bool, String> {
        let exists = || {
            let inside = parse(path)?;
            let Some((folders, name)) = inside.split() else { return Ok(true) };
            match kind(&self.walk(folders)?, name)? {
                FileType::Symlink => Err(is_link()),
                _ => Ok(true),
            }
        };
        absent(exists(), false).map_err(|e| self.text("exists", path, e))
    }

    /// The names in a folder, sorted; empty if there is no such folder.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let list = || {
            let mut names = Vec::new();
            for entry in Dir::read_from(self.walk(&parse(path)?.0)?)? {
                let name = match entry?.file_name().to_str() {
                    Ok("." | "..") => continue,
                    Ok(name) => name.to_owned(),
                    Err(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds a name that is not UTF-8")),
                };
                names.push(name);
                if names.len() > MAX_LISTED {
                    return Err(io::Error::other(format!("it holds more than {MAX_LISTED} names")));
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        absent(list(), Vec::new()).map_err(|e| self.text("list", path, e))
    }

    /// Opens a folder below, name by name.
    fn walk(&self, folders: &[&str]) -> io::Result<OwnedFd> {
        let mut at = self.root.try_clone()?;
        for name in folders {
            at = rustix::fs::openat(&at, *name, FOLDER, Mode::empty()).map_err(named)?;
        }
        Ok(at)
    }

    /// An error for the guest and its log: what, where, why.
    fn text(&self, operation: &str, path: &str, error: io::Error) -> String {
        format!("{operation} {path} in {}: {error}", self.path.display())
    }
}

fn parse(path: &str) -> io::Result<Inside<'_>> {
    Inside::parse(path).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// The type of an entry, not following a link.
fn kind(folder: &OwnedFd, name: &str) -> io::Result<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn refuse_link(folder: &OwnedFd, name: &str) -> io::Result<()> {
    match kind(folder, name)? {
        FileType::Symlink => Err(is_link()),
        _ => Ok(()),
    }
}

/// The length of an open file, which must be a regular one.
fn regular(file: &OwnedFd) -> io::Result<u64> {
    let stat = rustix::fs::fstat(file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

fn fsync(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(file)?)
}

fn is_folder() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this names the granted folder itself")
}

fn is_link() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link")
}

/// What the kernel says of a link that it was told not to follow, in words.
fn named(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => is_link(),
        _ => error.into(),
    }
}

/// Nothing there, also because a folder above is missing, is an answer.
fn absent<R>(result: io::Result<R>, answer: R) -> io::Result<R> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(answer),
        other => other,
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
