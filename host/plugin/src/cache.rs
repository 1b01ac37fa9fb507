//! Compiled plugins on disk, so that a start does not compile them again.
//!
//! The files hold machine code that runs with the host's rights. Hence the invariants:
//! - *private*: the folder belongs to this user and nobody else may write it, or it is refused;
//! - *ours*: only what this code compiled goes in; foreign compiled files are never taken;
//! - *whole*: a file ends in a checksum over all before it; a torn or damaged one is compiled again, never run;
//! - *fitting*: the key names the wasm's sha256 and everything that the engine says compatibility depends on.

use crate::error::EngineError;
use std::fs;
use std::hash::Hash;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::Engine;
use wasmtime::component::Component;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of the checksum at the end of a file.
const CHECKSUM_BYTES: usize = 16;

/// Plugins that are kept; beyond it the ones written longest ago go.
const MAX_FILES: usize = 64;

/// A folder of compiled plugins.
#[derive(Debug)]
pub(crate) struct CompileCache {
    folder: PathBuf,
    /// Names all that compiled code depends on, but for the wasm.
    compatibility: String,
    temporary: AtomicU64,
}

impl CompileCache {
    /// Opens or makes the folder. An existing one is made private if only this user could write it so far.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Self, EngineError> {
        let refuse = |reason: String| EngineError::Cache { path: folder.display().to_string(), reason };
        make_private(folder).map_err(|e| refuse(e.to_string()))?;
        let mut hasher = Xxh3::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let compatibility = format!("{:032x}", hasher.digest128());
        let cache = CompileCache { folder: folder.to_owned(), compatibility, temporary: AtomicU64::new(0) };
        if let Err(e) = cache.tidy() {
            tracing::warn!(folder = %folder.display(), "the compile cache can't be tidied: {e}");
        }
        Ok(cache)
    }

    /// The compiled component, if a whole and fitting one is there.
    pub(crate) fn get(&self, engine: &Engine, sha256: &str) -> Option<Component> {
        let path = self.path(sha256);
        let bytes = read_private(&path).inspect_err(|e| self.complain(&path, e)).ok()??;
        let Some(code) = checked(&bytes) else {
            tracing::warn!(path = %path.display(), "this compiled plugin is damaged; it is compiled again");
            return None;
        };
        // SAFETY: `deserialize` needs bytes that this very engine version's serializer made. They come from a file that only
        // this user can have written, at a name that only `put` uses, and are exactly what `put` wrote: the checksum holds.
        // They are a private copy, so that nobody can change them between the check and their use.
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => Some(component),
            Err(e) => {
                tracing::warn!(path = %path.display(), "this compiled plugin does not fit; it is compiled again: {e:#}");
                None
            }
        }
    }

    /// Keeps a compiled component. Only costs time if it fails, hence the warning.
    pub(crate) fn put(&self, component: &Component, sha256: &str) {
        let path = self.path(sha256);
        let write = || {
            let code = component.serialize().map_err(|e| io::Error::other(format!("{e:#}")))?;
            self.write(&path, &code)
        };
        if let Err(e) = write() {
            self.complain(&path, &e);
        }
    }

    /// A temporary file, renamed when it is whole: readers see all or nothing. After a power cut it may hold anything, which
    /// the checksum finds: no fsync.
    fn write(&self, path: &Path, code: &[u8]) -> io::Result<()> {
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{}-{number}.tmp", std::process::id()));
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(code)?;
            file.write_all(&xxh3_128(code).to_le_bytes())?;
            fs::rename(&temporary, path)
        };
        write().inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    /// Removes what a crash left behind, and the oldest files beyond the bound. A temporary file of another living process
    /// may go too: that process only loses its cache entry.
    fn tidy(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match path.extension().and_then(|e| e.to_str()) {
                Some("tmp") => drop(fs::remove_file(&path)),
                Some("cwasm") => kept.push((fs::symlink_metadata(&path)?.modified()?, path)),
                _ => {}
            }
        }
        kept.sort();
        for (_, path) in kept.iter().take(kept.len().saturating_sub(MAX_FILES)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(format!("{sha256}-{}.cwasm", self.compatibility))
    }

    fn complain(&self, path: &Path, error: &io::Error) {
        tracing::warn!(path = %path.display(), "the compile cache is not used: {error}");
    }
}

/// Makes the folder, or takes an existing one that nobody else can have written into.
fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    let metadata = fs::symlink_metadata(folder)?;
    let refuse = |why: &str| {
        let text = format!("{why}: compiled code from there would run with this user's rights. Remove it or name another folder");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    };
    if !metadata.is_dir() {
        return refuse("it is not a folder of its own");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse("others may write it");
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// The content of a file that nobody else can have written; none if there is no such file.
fn read_private(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut file = match fs::OpenOptions::new().read(true).custom_flags(no_follow).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can have written it"));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(Some(bytes))
}

/// The code before the checksum, if it holds.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (code, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    (xxh3_128(code).to_le_bytes() == checksum).then_some(code)
}
