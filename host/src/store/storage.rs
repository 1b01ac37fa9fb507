//! The checkpoint storage as a whole: state files, plugins, and the folder or bucket that they and the job's log lie in.
//!
//! ```text
//! log/<slot>.json        the job's log          (see `log`)
//! shared/<name>          immutable state files  (see `transfer`)
//! plugins/<sha256>.wasm  plugins, by content
//! tmp/…                  local folder only: not published yet
//! ```

use super::checksum::{Content, ContentHasher, read_through};
use super::durable::{DurableFolder, TEMPORARIES};
use super::error::StoreError;
use super::manifest::FileManifest;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as ObjectPath;
use object_store::{GetResultPayload, ObjectStore, ObjectStoreExt, PutMode};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folder of the state files.
pub(super) const SHARED: &str = "shared";
/// Folder of the job's log.
pub(super) const LOG: &str = "log";
/// Folder of the plugins.
const PLUGINS: &str = "plugins";
/// Longest name of a stored file: file systems take 255 bytes.
const NAME_BYTES_MAX: usize = 250;

/// Checkpoint storage. Clones share it.
#[derive(Clone, Debug)]
pub struct CheckpointStore {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The folder, absolute, if the storage is a local one: files are then linked instead of streamed.
    pub(super) folder: Option<PathBuf>,
    place: String,
}

/// A file that lies in the storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredFile {
    /// Its name, without the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

impl CheckpointStore {
    /// Opens a storage by path or URL, creating it if it is a local folder. Other kinds than a local folder are refused.
    pub fn create(location: &str) -> Result<Self, StoreError> {
        let folder = local_folder(location)?;
        Ok(Self::in_folder(DurableFolder::create(&folder, &[LOG, SHARED, PLUGINS])?))
    }

    /// Opens a storage that exists already; creates nothing.
    pub fn open(location: &str) -> Result<Self, StoreError> {
        Ok(Self::in_folder(DurableFolder::open(&local_folder(location)?)?))
    }

    /// A storage in an object store that is durable and creates atomically; `place` names it to the user.
    pub fn with_objects(objects: Arc<dyn ObjectStore>, place: String) -> Self {
        CheckpointStore { objects, folder: None, place }
    }

    fn in_folder(folder: DurableFolder) -> Self {
        let root = folder.root().to_owned();
        CheckpointStore { objects: Arc::new(folder), place: root.display().to_string(), folder: Some(root) }
    }

    /// Where it is, for the user.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Path of an object, for the user.
    pub(super) fn shown(&self, location: &ObjectPath) -> String {
        format!("{}/{location}", self.place)
    }

    /// Checks a state file against its manifest entry, reading all of it.
    pub async fn check(&self, file: &FileManifest) -> Result<(), StoreError> {
        let found = self.content(&shared(&file.name)?).await?;
        match found {
            None => Err(StoreError::Missing { file: file.name.clone() }),
            Some(found) => expect(&file.name, file, &found),
        }
    }

    /// Every state file.
    pub async fn list_shared(&self) -> Result<Vec<StoredFile>, StoreError> {
        self.list(SHARED).await
    }

    /// Removes a state file for good; fine if it is gone already.
    pub async fn delete_shared(&self, name: &str) -> Result<(), StoreError> {
        self.delete(&shared(name)?).await
    }

    /// Stores a plugin under its digest. What is there already is left alone if it is whole, and mended if it is not.
    ///
    /// # Panics
    /// If `sha256` is not the digest of `bytes`.
    pub async fn put_plugin(&self, sha256: &str, bytes: Bytes) -> Result<(), StoreError> {
        assert_eq!(sha256, sha256_hex(&bytes), "a plugin is stored under its own digest");
        let mode = match self.get_plugin(sha256).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Missing { .. }) => PutMode::Create,
            Err(StoreError::Corrupt { .. }) => PutMode::Overwrite,
            Err(error) => return Err(error),
        };
        let location = plugin(sha256);
        match self.objects.put_opts(&location, bytes.into(), mode.into()).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(StoreError::object("write", &self.shown(&location), error)),
        }
    }

    /// Reads a plugin, checked against its digest.
    pub async fn get_plugin(&self, sha256: &str) -> Result<Bytes, StoreError> {
        let location = plugin(sha256);
        let bytes = self.get(&location).await?.ok_or_else(|| StoreError::Missing { file: location.to_string() })?;
        let found = sha256_hex(&bytes);
        if found != sha256 {
            return Err(StoreError::Corrupt {
                file: location.to_string(),
                expected: format!("sha256 {sha256}"),
                found: format!("{} bytes with sha256 {found}", bytes.len()),
            });
        }
        Ok(bytes)
    }

    /// Digests of every plugin.
    pub async fn list_plugins(&self) -> Result<Vec<StoredFile>, StoreError> {
        let files = self.list(PLUGINS).await?;
        Ok(files
            .into_iter()
            .filter_map(|file| Some(StoredFile { name: file.name.strip_suffix(".wasm")?.to_owned(), bytes: file.bytes }))
            .collect())
    }

    /// Removes a plugin for good; fine if it is gone already.
    pub async fn delete_plugin(&self, sha256: &str) -> Result<(), StoreError> {
        self.delete(&plugin(sha256)).await
    }

    /// Files that were being written when their process ended. Others than the newest claimant's are of no use to anyone.
    pub async fn list_temporaries(&self) -> Result<Vec<StoredFile>, StoreError> {
        self.list(TEMPORARIES).await
    }

    /// Clears them away. An owner that still lives fails to publish its file, and may write it again.
    pub async fn clear_temporaries(&self) -> Result<usize, StoreError> {
        let stale = self.list_temporaries().await?;
        for file in &stale {
            self.delete(&ObjectPath::from_iter([TEMPORARIES, &file.name])).await?;
        }
        Ok(stale.len())
    }

    /// Puts onto the disk whatever is seen in a folder now, whoever wrote it: a decision may rest upon it.
    pub(super) async fn settle(&self, part: &'static str) -> Result<(), StoreError> {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(part)) else { return Ok(()) };
        blocking(move || crate::disk::sync_folder(&folder).map_err(|error| StoreError::io("sync", &folder, &error))).await
    }

    /// An object's bytes; none if it is not there.
    pub(super) async fn get(&self, location: &ObjectPath) -> Result<Option<Bytes>, StoreError> {
        let read = async { self.objects.get(location).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::object("read", &self.shown(location), error)),
        }
    }

    /// Length and checksum of an object; none if it is not there.
    pub(super) async fn content(&self, location: &ObjectPath) -> Result<Option<Content>, StoreError> {
        let shown = self.shown(location);
        match self.objects.get(location).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::object("read", &shown, error)),
            Ok(object) => match object.payload {
                GetResultPayload::File(file, path) => {
                    let read = move || read_through(file, |_| Ok(())).map_err(|e| StoreError::io("read", &path, &e));
                    blocking(read).await.map(Some)
                }
                GetResultPayload::Stream(mut pieces) => {
                    let mut hasher = ContentHasher::default();
                    while let Some(piece) = pieces.next().await {
                        hasher.update(&piece.map_err(|error| StoreError::object("read", &shown, error))?);
                    }
                    Ok(Some(hasher.finish()))
                }
            },
        }
    }

    /// Objects directly in a folder, by name.
    pub(super) async fn list(&self, part: &str) -> Result<Vec<StoredFile>, StoreError> {
        let prefix = ObjectPath::from(part);
        let listed: Vec<_> = self
            .objects
            .list(Some(&prefix))
            .try_collect()
            .await
            .map_err(|error| StoreError::object("list", &self.shown(&prefix), error))?;
        let mut files: Vec<StoredFile> = listed
            .into_iter()
            .filter(|object| object.location.parts_count() == prefix.parts_count() + 1)
            .filter_map(|object| Some(StoredFile { name: object.location.filename()?.to_owned(), bytes: object.size }))
            .collect();
        files.sort();
        Ok(files)
    }

    /// Removes an object; fine if it is gone already.
    pub(super) async fn delete(&self, location: &ObjectPath) -> Result<(), StoreError> {
        match self.objects.delete(location).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StoreError::object("delete", &self.shown(location), error)),
        }
    }
}

/// sha256, as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a content is what a manifest says; `shown` names it to the user.
pub(super) fn expect(shown: &str, file: &FileManifest, found: &Content) -> Result<(), StoreError> {
    let expected = promised(file);
    if *found == expected {
        return Ok(());
    }
    Err(StoreError::Corrupt { file: shown.to_owned(), expected: expected.to_string(), found: found.to_string() })
}

/// What a manifest says of a file.
pub(super) fn promised(file: &FileManifest) -> Content {
    Content { bytes: file.bytes, checksum: file.checksum.clone() }
}

/// Where a state file lies.
pub(super) fn shared(name: &str) -> Result<ObjectPath, StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(StoreError::BadName(name.to_owned()));
    }
    Ok(ObjectPath::from_iter([SHARED, name]))
}

fn plugin(sha256: &str) -> ObjectPath {
    ObjectPath::from_iter([PLUGINS.to_owned(), format!("{sha256}.wasm")])
}

fn local_folder(location: &str) -> Result<PathBuf, StoreError> {
    match location.split_once("://") {
        None => Ok(PathBuf::from(location)),
        Some(("file", path)) if Path::new(path).is_absolute() => Ok(PathBuf::from(path)),
        Some(_) => Err(StoreError::NotInThisVersion(location.to_owned())),
    }
}

/// Runs file-system work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // Nobody aborts it, so it has panicked: the panic goes on here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
