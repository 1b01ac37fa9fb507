//! A local folder as an object store whose answers are durable.
//!
//! - **D1** When `put` has answered, the file's content and every folder entry on its path are on the disk.
//! - **D2** A create never replaces: of any number of creators of one name exactly one wins, whole.
//! - **D3** No reader sees a part of a file: it is written under a name that no one else ever uses, synced, then linked.
//! - **D4** A deleted log entry is gone from the disk when the delete has answered: what it named may be deleted then, and a
//!   power cut can't bring it back. Other deletes need no sync: what comes back is garbage that the next collection finds.
//!
//! `object_store`'s own local store names its temporary file after the target (`<name>#1`). Whoever clears such a file away
//! as stale lets the next creator take the same name, and the first one, waking up, would then link the second one's bytes
//! as its own. Here each temporary name is drawn anew, in a folder of its own: clearing it away makes its owner fail.

use super::error::StoreError;
use super::storage::LOG;
use crate::disk::{create_folder, sync_parent};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Folder of the files that are not published yet.
pub(super) const TEMPORARIES: &str = "tmp";

/// Marks a put that passes a crash point when its temporary is written and not yet published.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrashPoint(pub &'static str);

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct DurableFolder {
    root: PathBuf,
    reader: LocalFileSystem,
}

impl DurableFolder {
    /// Opens a folder, creating it and `parts` below it.
    pub(super) fn create(root: &Path, parts: &[&str]) -> std::result::Result<Self, StoreError> {
        let root = std::path::absolute(root).map_err(|error| StoreError::io("create", root, &error))?;
        for folder in parts.iter().chain(&[TEMPORARIES]).map(|part| root.join(part)) {
            create_folder(&folder).map_err(|error| StoreError::io("create", &folder, &error))?;
        }
        Self::open(&root)
    }

    /// Opens an existing folder.
    pub(super) fn open(root: &Path) -> std::result::Result<Self, StoreError> {
        let root = root.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoStorage(root.display().to_string()),
            _ => StoreError::io("open", root, &error),
        })?;
        let reader = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| StoreError::object("open", &root.display().to_string(), error))?;
        Ok(DurableFolder { root, reader })
    }

    /// The folder, absolute.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, location: &ObjectPath) -> Result<PathBuf> {
        self.reader.path_to_filesystem(location)
    }
}

/// Links a synced file to `to`, which must not exist, and puts the entry onto the disk.
pub(super) fn publish_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    sync_parent(to)
}

/// Writes a temporary with `fill`, syncs it, and hands it to `publish`. The temporary is gone afterwards, whatever happens
/// (but for a crash: [`TEMPORARIES`] is cleared after the next claim).
pub(super) fn through_temporary<F, T>(
    root: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<F>,
    publish: impl FnOnce(&Path, F) -> io::Result<T>,
) -> io::Result<T> {
    let temporary = root.join(TEMPORARIES).join(uuid::Uuid::new_v4().simple().to_string());
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let done = fill(&mut file).and_then(|filled| {
        file.sync_all()?;
        publish(&temporary, filled)
    });
    // Already renamed, or cleared away as stale: both are as good as removed.
    let _ = fs::remove_file(&temporary);
    done
}

fn put(root: &Path, to: &Path, payload: &PutPayload, options: &PutOptions) -> io::Result<()> {
    through_temporary(
        root,
        |file| payload.iter().try_for_each(|piece| file.write_all(piece)),
        |temporary, ()| {
            if let Some(CrashPoint(point)) = options.extensions.get() {
                crate::crash::point(point);
            }
            match options.mode {
                PutMode::Overwrite => {
                    fs::rename(temporary, to)?;
                    sync_parent(to)
                }
                PutMode::Create => match publish_link(temporary, to) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        // "Exists" is an answer to act upon: it must not be undone by a power cut.
                        sync_parent(to)?;
                        Err(error)
                    }
                    done => done,
                },
                PutMode::Update(_) => Err(io::ErrorKind::Unsupported.into()),
            }
        },
    )
}

fn remove(path: &Path, durably: bool) -> io::Result<()> {
    fs::remove_file(path)?;
    if durably { sync_parent(path) } else { Ok(()) }
}

fn failed(path: &Path, source: io::Error) -> object_store::Error {
    let path = path.display().to_string();
    match source.kind() {
        io::ErrorKind::AlreadyExists => object_store::Error::AlreadyExists { path, source: source.into() },
        io::ErrorKind::NotFound => object_store::Error::NotFound { path, source: source.into() },
        _ => object_store::Error::Generic { store: "local folder", source: source.into() },
    }
}

fn not_offered(operation: &str) -> object_store::Error {
    object_store::Error::NotImplemented { operation: operation.to_owned(), implementer: "DurableFolder".to_owned() }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

impl std::fmt::Display for DurableFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.root.display())
    }
}

#[async_trait]
impl ObjectStore for DurableFolder {
    async fn put_opts(&self, location: &ObjectPath, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (root, to) = (self.root.clone(), self.path(location)?);
        blocking(move || put(&root, &to, &payload, &options).map_err(|error| failed(&to, error))).await?;
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    /// Not offered: files that are too large for one put are already files, and are linked or copied.
    async fn put_multipart_opts(&self, _: &ObjectPath, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(not_offered("put_multipart"))
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.reader.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<ObjectPath>>) -> BoxStream<'static, Result<ObjectPath>> {
        let this = self.clone();
        locations
            .then(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    let path = this.path(&location)?;
                    let durably = location.parts().next().is_some_and(|part| part.as_ref() == LOG);
                    blocking(move || remove(&path, durably).map_err(|error| failed(&path, error))).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.reader.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.reader.list_with_delimiter(prefix).await
    }

    /// Not offered: nothing stored is ever stored twice.
    async fn copy_opts(&self, _: &ObjectPath, _: &ObjectPath, _: CopyOptions) -> Result<()> {
        Err(not_offered("copy"))
    }
}
