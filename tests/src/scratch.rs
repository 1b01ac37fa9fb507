//! A folder of a test's own, removed at its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A scratch folder.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// A new, empty one. Below `WEIR_TEST_FOLDER` if that is set, else below the system's.
    pub fn new() -> Self {
        let folder = match std::env::var_os("WEIR_TEST_FOLDER") {
            Some(below) => tempfile::tempdir_in(below),
            None => tempfile::tempdir(),
        };
        Scratch { folder: folder.expect("a scratch folder can be made") }
    }

    /// Its path.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in it.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// Writes a file in it, making its folder.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().expect("below the scratch folder")).expect("a folder can be made");
        std::fs::write(&path, content).expect("a scratch file can be written");
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

/// Every file below a folder, as paths relative to it, sorted. Empty if there is no such folder.
pub fn files_below(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, files: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.expect("a folder can be listed").path();
            if path.is_dir() {
                walk(root, &path, files);
            } else {
                files.push(path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned());
            }
        }
    }
    let mut files = Vec::new();
    walk(folder, folder, &mut files);
    files.sort();
    files
}

/// Every file below a folder with its content: to see whether anything has changed.
pub fn picture(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let content = std::fs::read(folder.join(&name)).expect("a scratch file can be read");
        (name, content)
    };
    files_below(folder).into_iter().map(read).collect()
}
