//! Connector `file` as a sink: a folder where complete files appear, each checkpoint's whole or not at all.
//!
//! A record is its value and a newline; a value that holds a newline itself becomes several lines. Names and stages of the
//! files: `file_staging`. Writing: `file_writer`. Committing: `file_committer`.

use super::durable::{Renamed, create_folder, disk_error, remove, remove_if_empty, rename_new, same_file_system, sync_file};
use super::file_committer::FileCommitter;
use super::file_staging::{PART, PROBE, Staging, names};
use super::file_writer::FileWriter;
use super::{Committer, CommitterContext, ConnectorError, Guarantee, SinkConnector, SinkTask, SinkWriter};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use weir_protocol::{CheckpointId, Generation};

/// How often the staging folder is made when it goes away under us.
const STAGING_TRIES: u32 = 10;

/// A folder.
pub(super) struct FileSinkConnector {
    staging: Staging,
}

impl FileSinkConnector {
    /// The sink `name` with its files in `path`, which is absolute.
    pub(super) fn new(name: &str, path: &Path) -> Result<Self, ConnectorError> {
        if path.to_str().is_none() {
            return Err(ConnectorError::permanent(format!(
                "sink {name}: the path {} is not UTF-8, which a checkpoint can't hold: choose another folder",
                path.display()
            )));
        }
        Ok(FileSinkConnector { staging: Staging::new(path, name) })
    }

    fn refusal(&self, why: &str) -> ConnectorError {
        ConnectorError::permanent(format!("sink {}: {} {why}", self.staging.sink(), self.staging.target().display()))
    }

    /// Tries what a commit does, with empty files: a rename from the staging folder into the target that does not replace.
    fn probe(&self) -> Result<(), ConnectorError> {
        let nonce = uuid::Uuid::new_v4().simple();
        let root = self.staging.root();
        let (one, two) = (root.join(format!("{PROBE}{nonce}-1")), root.join(format!("{PROBE}{nonce}-2")));
        let name = self.staging.target().join(format!(".weir-{PROBE}{nonce}"));
        let tried = self.probe_with(&one, &two, &name);
        // Whatever came of it, nothing stays; a failure to remove is a failure to write.
        let removed = [&one, &two, &name].map(|path| remove(path).map(drop));
        tried.and(removed.into_iter().collect())
    }

    fn probe_with(&self, one: &Path, two: &Path, name: &Path) -> Result<(), ConnectorError> {
        for path in [one, two] {
            let file = File::create_new(path).map_err(|error| disk_error("create a file in", &self.staging.root(), &error))?;
            sync_file(&file, path)?;
        }
        match rename_new(one, name) {
            Renamed::Done => {}
            Renamed::Failed(error) => return Err(self.cannot_rename(&error)),
            Renamed::SourceGone | Renamed::Taken => {
                return Err(self.refusal("is changed by someone else at this moment: a file of a random name came or went. Leave it alone, and start again"));
            }
        }
        match rename_new(two, name) {
            Renamed::Taken => Ok(()),
            Renamed::Done => Err(self.refusal(
                "lies in a file system that replaces a file where it was told not to (renameat2, RENAME_NOREPLACE): use a local file system such as ext4, XFS or Btrfs",
            )),
            Renamed::Failed(error) => Err(self.cannot_rename(&error)),
            Renamed::SourceGone => Err(self.refusal("is cleaned up by someone at this moment. Leave it alone, and start again")),
        }
    }

    fn cannot_rename(&self, error: &io::Error) -> ConnectorError {
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::XDEV) => self.other_mount(),
            Some(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => self.refusal(
                "lies in a file system that can't rename without replacing (renameat2, RENAME_NOREPLACE): use a local file system such as ext4, XFS, Btrfs or tmpfs",
            ),
            _ => disk_error("rename a file into", self.staging.target(), error),
        }
    }

    /// Makes the staging folder and tries it out.
    fn probe_staging(&self, target: &Path, root: &Path) -> Result<(), ConnectorError> {
        create_folder(root)?;
        if !same_file_system(target, root)? {
            return Err(self.other_mount());
        }
        self.probe()
    }

    fn other_mount(&self) -> ConnectorError {
        self.refusal(&format!(
            "and its staging folder {} are different file systems (something is mounted there), so no file can move from one to the other in one step: unmount it",
            self.staging.root().display()
        ))
    }
}

impl SinkConnector for FileSinkConnector {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn target(&self) -> Option<PathBuf> {
        Some(self.staging.target().to_owned())
    }

    fn output(&self) -> Result<Option<Generation>, ConnectorError> {
        // part-<subtask>-<generation>-<sequence>
        let checkpoint = |rest: &str| rest.split_once('-')?.1.parse::<CheckpointId>().ok();
        let names = names(self.staging.target())?;
        let parts = names.iter().filter_map(|name| name.strip_prefix(PART));
        Ok(parts.map(|rest| checkpoint(rest).map(|id| id.generation()).unwrap_or_default()).max())
    }

    fn prepare_target(&self) -> Result<(), ConnectorError> {
        let (target, root) = (self.staging.target(), self.staging.root());
        if target.exists() && !target.is_dir() {
            return Err(self.refusal("is a file, but a folder is needed: choose another path"));
        }
        create_folder(target)?;
        // Another process that starts or ends at this moment may remove the staging folder while it is empty.
        let mut tries = STAGING_TRIES;
        loop {
            tries -= 1;
            let probed = self.probe_staging(target, &root);
            remove_if_empty(&root);
            match probed {
                Err(_) if tries > 0 && !root.exists() => {}
                done => return done,
            }
        }
    }

    fn writer(&self, task: &SinkTask) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        Ok(Box::new(FileWriter::new(self.staging.clone(), task.subtask)))
    }

    fn committer(&self, context: &CommitterContext) -> Result<Option<Box<dyn Committer>>, ConnectorError> {
        Ok(Some(Box::new(FileCommitter::new(self.staging.clone(), context))))
    }
}

#[cfg(test)]
#[path = "file_sink_tests.rs"]
mod tests;
