//! Files of a folder that the job granted.

use std::fmt;
use std::rc::Rc;

/// A granted folder. Paths are relative, with `/`; the empty path is the folder itself. The text of an error says what
/// failed and why.
///
/// In `SinkWriter::write` only [`append`](Self::append) and [`read`](Self::read) may be called.
#[derive(Clone)]
pub struct Files {
    grant: String,
    folders: Rc<dyn Folders>,
}

/// The contract's `files` interface, or what stands in for it.
pub(crate) trait Folders {
    fn append(&self, grant: &str, path: &str, bytes: &[u8]) -> Result<(), String>;
    fn read(&self, grant: &str, path: &str, offset: u64, limit: u32) -> Result<Vec<u8>, String>;
    fn sync(&self, grant: &str, path: &str) -> Result<(), String>;
    fn mkdir(&self, grant: &str, path: &str) -> Result<(), String>;
    fn rename(&self, grant: &str, source: &str, target: &str) -> Result<bool, String>;
    fn remove(&self, grant: &str, path: &str) -> Result<bool, String>;
    fn exists(&self, grant: &str, path: &str) -> Result<bool, String>;
    fn list(&self, grant: &str, path: &str) -> Result<Vec<String>, String>;
}

impl Files {
    pub(crate) fn new(grant: &str, folders: Rc<dyn Folders>) -> Self {
        Files { grant: grant.to_owned(), folders }
    }

    /// Appends to a file, which is made if it does not exist (its folder must).
    pub fn append(&self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.folders.append(&self.grant, path, bytes)
    }

    /// At most `limit` bytes from `offset`; fewer at the end of the file.
    pub fn read(&self, path: &str, offset: u64, limit: u32) -> Result<Vec<u8>, String> {
        self.folders.read(&self.grant, path, offset, limit)
    }

    /// Makes a file's content, or a folder's entries, durable. Returns when it is.
    pub fn sync(&self, path: &str) -> Result<(), String> {
        self.folders.sync(&self.grant, path)
    }

    /// Makes a folder and its parents, durably. An existing one is no error.
    pub fn mkdir(&self, path: &str) -> Result<(), String> {
        self.folders.mkdir(&self.grant, path)
    }

    /// Moves a file in one atomic step that never replaces: false, and nothing done, if the target exists. Both folders are
    /// durable when it returns true.
    pub fn rename(&self, source: &str, target: &str) -> Result<bool, String> {
        self.folders.rename(&self.grant, source, target)
    }

    /// Removes a file or an empty folder; false if there was none.
    pub fn remove(&self, path: &str) -> Result<bool, String> {
        self.folders.remove(&self.grant, path)
    }

    /// Whether a file or folder is there.
    pub fn exists(&self, path: &str) -> Result<bool, String> {
        self.folders.exists(&self.grant, path)
    }

    /// The names in a folder, sorted; empty if there is no such folder.
    pub fn list(&self, path: &str) -> Result<Vec<String>, String> {
        self.folders.list(&self.grant, path)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("grant", &self.grant).finish_non_exhaustive()
    }
}

/// The host's own.
#[cfg(target_family = "wasm")]
pub(crate) struct HostFolders;

#[cfg(target_family = "wasm")]
impl Folders for HostFolders {
    fn append(&self, grant: &str, path: &str, bytes: &[u8]) -> Result<(), String> {
        crate::bindings::files::append(grant, path, bytes)
    }
    fn read(&self, grant: &str, path: &str, offset: u64, limit: u32) -> Result<Vec<u8>, String> {
        crate::bindings::files::read(grant, path, offset, limit)
    }
    fn sync(&self, grant: &str, path: &str) -> Result<(), String> {
        crate::bindings::files::sync(grant, path)
    }
    fn mkdir(&self, grant: &str, path: &str) -> Result<(), String> {
        crate::bindings::files::mkdir(grant, path)
    }
    fn rename(&self, grant: &str, source: &str, target: &str) -> Result<bool, String> {
        crate::bindings::files::rename(grant, source, target)
    }
    fn remove(&self, grant: &str, path: &str) -> Result<bool, String> {
        crate::bindings::files::remove(grant, path)
    }
    fn exists(&self, grant: &str, path: &str) -> Result<bool, String> {
        crate::bindings::files::exists(grant, path)
    }
    fn list(&self, grant: &str, path: &str) -> Result<Vec<String>, String> {
        crate::bindings::files::list(grant, path)
    }
}
