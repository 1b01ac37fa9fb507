//! State files on their way into the storage and back.
//!
//! Within one file system a file is **linked**, not copied: a checkpoint of a terabyte costs no byte. The working copy and
//! the stored file are then one inode, which is safe only because nobody ever writes to it again: neither RocksDB to a finished
//! `.sst` file nor Weir to a `.rows` file, and only files so named are linked back into a working folder. Everything else
//! (`CURRENT`, `MANIFEST-…`, which an open database appends to) comes back as a copy. The link goes up only after the file's
//! bytes have been read, compared with their checksum, and synced.

use super::checksum::{ContentHasher, read_through};
use super::durable::{publish_link, through_temporary};
use super::error::StoreError;
use super::manifest::FileManifest;
use super::storage::{CheckpointStore, SHARED, blocking, expect, promised, shared};
use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{GetResultPayload, ObjectStoreExt, PutMode};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of one part of an upload that is streamed: object stores ask for 5 MiB at least.
const PART_BYTES: usize = 8 << 20;

/// Ends of the names of files that nobody writes to once they are finished.
const NEVER_CHANGED: [&str; 2] = [".sst", ".rows"];

/// How a file got where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Linked: no byte was written.
    Linked,
    /// Copied or streamed.
    Copied,
    /// It was there, whole.
    AlreadyThere,
}

impl CheckpointStore {
    /// Stores a local file under `file.name`, durable when this returns, checked against `file` on the way.
    /// A name that exists is an error unless it holds the same content (an upload that is repeated).
    pub async fn upload(&self, file: &FileManifest, local: &Path) -> Result<Transfer, StoreError> {
        let location = shared(&file.name)?;
        let (file, local) = (file.clone(), local.to_owned());
        match self.folder.clone() {
            Some(root) => match blocking(move || store_file(&root, &file, &local).map(|stored| (stored, file))).await? {
                (Some(transfer), _) => Ok(transfer),
                (None, file) => self.already_there(&file, &location).await,
            },
            None if self.exists(&location).await? => self.already_there(&file, &location).await,
            None => self.stream_up(&file, local, &location).await,
        }
    }

    /// Brings a stored file to `to`, which must not exist; checked against `file` on the way. Nothing is left at `to` if it
    /// is missing or damaged. Not synced: a working folder may be lost at any time.
    pub async fn fetch(&self, file: &FileManifest, to: &Path) -> Result<Transfer, StoreError> {
        let location = shared(&file.name)?;
        let (file, to) = (file.clone(), to.to_owned());
        match self.folder.clone() {
            Some(root) => blocking(move || fetch_file(&root, &file, &to)).await,
            None => self.stream_down(&file, &to, &location).await,
        }
    }

    async fn exists(&self, location: &ObjectPath) -> Result<bool, StoreError> {
        match self.objects.head(location).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(StoreError::object("look for", &self.shown(location), error)),
        }
    }

    /// The name is taken: by the same content, or by another.
    async fn already_there(&self, file: &FileManifest, location: &ObjectPath) -> Result<Transfer, StoreError> {
        self.settle(SHARED).await?;
        match self.content(location).await? {
            Some(found) if found == promised(file) => Ok(Transfer::AlreadyThere),
            Some(found) => Err(StoreError::NameTaken {
                file: file.name.clone(),
                expected: promised(file).to_string(),
                found: found.to_string(),
            }),
            None => Err(StoreError::Missing { file: file.name.clone() }),
        }
    }

    async fn stream_up(&self, file: &FileManifest, local: PathBuf, location: &ObjectPath) -> Result<Transfer, StoreError> {
        let failed = |error| StoreError::object("write", &self.shown(location), error);
        let mut source = FileParts::open(local).await?;
        let first = source.next().await?;
        if first.len() < PART_BYTES {
            source.expect(file)?;
            return match self.objects.put_opts(location, first.into(), PutMode::Create.into()).await {
                Ok(_) => Ok(Transfer::Copied),
                Err(object_store::Error::AlreadyExists { .. }) => self.already_there(file, location).await,
                Err(error) => Err(failed(error)),
            };
        }
        let mut upload = self.objects.put_multipart(location).await.map_err(failed)?;
        let sent = async {
            let mut part = first;
            while !part.is_empty() {
                upload.put_part(part.into()).await.map_err(failed)?;
                part = source.next().await?;
            }
            source.expect(file)?;
            upload.complete().await.map_err(failed)
        };
        match sent.await {
            Ok(_) => Ok(Transfer::Copied),
            Err(error) => {
                // The first error is the one to tell; what this one leaves behind is no object yet.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    async fn stream_down(&self, file: &FileManifest, to: &Path, location: &ObjectPath) -> Result<Transfer, StoreError> {
        let failed = |error| StoreError::object("read", &self.shown(location), error);
        let object = match self.objects.get(location).await {
            Ok(object) => object,
            Err(object_store::Error::NotFound { .. }) => return Err(StoreError::Missing { file: file.name.clone() }),
            Err(error) => return Err(failed(error)),
        };
        if let GetResultPayload::File(source, path) = object.payload {
            let (file, to) = (file.clone(), to.to_owned());
            return blocking(move || copy_out(&source, &path, &file, &to)).await;
        }
        let mut pieces = object.into_stream();
        let mut target = Target::create(to.to_owned())?;
        let mut hasher = ContentHasher::default();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(failed)?;
            hasher.update(&piece);
            target = blocking(move || target.write(&piece)).await?;
        }
        expect(&file.name, file, &hasher.finish())?;
        target.keep();
        Ok(Transfer::Copied)
    }
}

/// Links or copies into the storage; none if the name is taken.
fn store_file(root: &Path, file: &FileManifest, local: &Path) -> Result<Option<Transfer>, StoreError> {
    let to = root.join(SHARED).join(&file.name);
    let mut source = File::open(local).map_err(|error| StoreError::io("open", local, &error))?;
    let found = read_through(&mut source, |_| Ok(())).map_err(|error| StoreError::io("read", local, &error))?;
    expect(&local.display().to_string(), file, &found)?;
    source.sync_all().map_err(|error| StoreError::io("sync", local, &error))?;
    match publish_link(local, &to) {
        Ok(()) => Ok(Some(Transfer::Linked)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) if can_copy_instead(error.kind()) => copy_in(root, file, local, &to),
        Err(error) => Err(StoreError::io("write", &to, &error)),
    }
}

/// Another file system, one without links, too many links, or a kernel that lets only owners link.
fn can_copy_instead(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::CrossesDevices | ErrorKind::Unsupported | ErrorKind::TooManyLinks | ErrorKind::PermissionDenied)
}

pub(super) fn copy_in(root: &Path, file: &FileManifest, local: &Path, to: &Path) -> Result<Option<Transfer>, StoreError> {
    let source = File::open(local).map_err(|error| StoreError::io("open", local, &error))?;
    let copied = through_temporary(
        root,
        |target| read_through(&source, |piece| target.write_all(piece)),
        |temporary, found| match expect(&local.display().to_string(), file, &found) {
            Ok(()) => publish_link(temporary, to).map(Ok),
            Err(damage) => Ok(Err(damage)),
        },
    );
    match copied {
        Ok(done) => done.map(|()| Some(Transfer::Copied)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(StoreError::io("write", to, &error)),
    }
}

fn fetch_file(root: &Path, file: &FileManifest, to: &Path) -> Result<Transfer, StoreError> {
    let from = root.join(SHARED).join(&file.name);
    let mut source = File::open(&from).map_err(|error| match error.kind() {
        ErrorKind::NotFound => StoreError::Missing { file: file.name.clone() },
        _ => StoreError::io("open", &from, &error),
    })?;
    if !NEVER_CHANGED.iter().any(|end| file.name.ends_with(end)) {
        return copy_out(&source, &from, file, to);
    }
    let found = read_through(&mut source, |_| Ok(())).map_err(|error| StoreError::io("read", &from, &error))?;
    expect(&file.name, file, &found)?;
    match std::fs::hard_link(&from, to) {
        Ok(()) => Ok(Transfer::Linked),
        Err(error) if can_copy_instead(error.kind()) => {
            let source = File::open(&from).map_err(|error| StoreError::io("open", &from, &error))?;
            copy_out(&source, &from, file, to)
        }
        Err(error) => Err(StoreError::io("write", to, &error)),
    }
}

fn copy_out(source: &File, from: &Path, file: &FileManifest, to: &Path) -> Result<Transfer, StoreError> {
    let mut target = Target::create(to.to_owned())?;
    let mut refused = None;
    let found = read_through(source, |piece| {
        target.file.write_all(piece).map_err(|error| {
            let kind = error.kind();
            refused = Some(StoreError::io("write", to, &error));
            kind.into()
        })
    });
    let found = found.map_err(|error| refused.unwrap_or_else(|| StoreError::io("read", from, &error)))?;
    expect(&file.name, file, &found)?;
    target.keep();
    Ok(Transfer::Copied)
}

/// A new file in a working folder, removed again unless it is kept.
struct Target {
    file: File,
    path: Option<PathBuf>,
}

impl Target {
    fn create(path: PathBuf) -> Result<Self, StoreError> {
        let file = File::create_new(&path).map_err(|error| StoreError::io("create", &path, &error))?;
        Ok(Target { file, path: Some(path) })
    }

    fn write(mut self, piece: &[u8]) -> Result<Self, StoreError> {
        let path = self.path.as_deref().expect("a target that is written to is not kept yet");
        self.file.write_all(piece).map_err(|error| StoreError::io("write", path, &error))?;
        Ok(self)
    }

    fn keep(mut self) {
        self.path = None;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A leftover in a working folder does no harm: the folder is made anew at the next start.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A local file, read in parts off the async threads.
struct FileParts {
    source: Option<(File, ContentHasher)>,
    path: PathBuf,
}

impl FileParts {
    async fn open(path: PathBuf) -> Result<Self, StoreError> {
        let open = move || match File::open(&path) {
            Ok(file) => Ok(FileParts { source: Some((file, ContentHasher::default())), path }),
            Err(error) => Err(StoreError::io("open", &path, &error)),
        };
        blocking(open).await
    }

    /// The next part, full but for the last; empty at the end.
    async fn next(&mut self) -> Result<Bytes, StoreError> {
        let (mut file, mut hasher) = self.source.take().expect("put back after every part that could be read");
        let read = move || {
            let mut part = Vec::new();
            (&mut file).take(PART_BYTES as u64).read_to_end(&mut part)?;
            hasher.update(&part);
            Ok(((file, hasher), part))
        };
        let (source, part) = blocking(read).await.map_err(|error| StoreError::io("read", &self.path, &error))?;
        self.source = Some(source);
        Ok(part.into())
    }

    /// Whether what was read so far is what the manifest says.
    fn expect(&self, file: &FileManifest) -> Result<(), StoreError> {
        let (_, hasher) = self.source.as_ref().expect("put back after every part that could be read");
        expect(&self.path.display().to_string(), file, &hasher.finish())
    }
}
