//! Where the file sink keeps what is not committed, and what the names there mean.
//!
//! ```text
//! <path>/part-<subtask>-<checkpoint id>                          committed, whole, never changed
//! <path>/.weir-staging/<lineage>/<sink>/<identity>               open, or prepared if the marker is there
//! <path>/.weir-staging/<lineage>/<sink>/<identity>.prepared      its marker, empty
//! ```
//!
//! | staged file | marker | the transaction is |
//! |---|---|---|
//! | there | gone | open, or half aborted: never committed |
//! | there | there | prepared |
//! | gone | there | committed, by the rename of the staged file |
//! | gone | gone | unknown here: never begun, aborted, or committed and forgotten |
//!
//! The lineage in the path tells jobs apart: it is drawn at random by one job and never used by another.

use super::ConnectorError;
use super::durable::{disk_error, exists, remove_if_empty, sync_folder};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weir_protocol::{Lineage, TransactionId};

/// Name of the folder of all that is not committed; readers leave dot names alone.
const STAGING: &str = ".weir-staging";
/// What a marker's name has more than its staged file's.
const MARKER: &str = ".prepared";
/// How the name of a file begins that only tries the file system out.
pub(super) const PROBE: &str = "probe-";
/// How every final file's name begins.
pub(super) const PART: &str = "part-";

/// The staging area of one sink.
#[derive(Clone, Debug)]
pub(super) struct Staging {
    target: PathBuf,
    sink: String,
}

/// What the two names of a transaction say; the table of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Open or half aborted.
    Open,
    /// Prepared.
    Prepared,
    /// Committed, not forgotten.
    Committed,
    /// Neither name is there.
    Absent,
}

impl Staging {
    /// Of the sink named `sink` with final files in `target`.
    pub(super) fn new(target: &Path, sink: &str) -> Self {
        Staging { target: target.to_owned(), sink: sink.to_owned() }
    }

    /// Folder of the final files.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Name of the sink.
    pub(super) fn sink(&self) -> &str {
        &self.sink
    }

    /// Folder of every job's staged files below this target.
    pub(super) fn root(&self) -> PathBuf {
        self.target.join(STAGING)
    }

    /// Folder of this sink's staged files of one lineage.
    pub(super) fn folder(&self, lineage: Lineage) -> PathBuf {
        self.root().join(lineage.to_string()).join(&self.sink)
    }

    /// The staged file of a transaction.
    pub(super) fn staged(&self, id: &TransactionId) -> PathBuf {
        self.folder(id.lineage).join(id.to_string())
    }

    /// The marker of a transaction.
    pub(super) fn marker(&self, id: &TransactionId) -> PathBuf {
        self.folder(id.lineage).join(format!("{id}{MARKER}"))
    }

    /// Looks at a transaction's two names.
    pub(super) fn stage(&self, id: &TransactionId) -> Result<Stage, ConnectorError> {
        let (staged, marker) = (self.staged(id), self.marker(id));
        Ok(match (exists(&staged)?, exists(&marker)?) {
            (true, false) => Stage::Open,
            (true, true) => Stage::Prepared,
            // A writer of an older generation that still runs may have created both names between the two looks.
            (false, true) if exists(&staged)? => Stage::Prepared,
            (false, true) => Stage::Committed,
            (false, false) => Stage::Absent,
        })
    }

    /// Every transaction of one lineage that has a name here. Names that are no transaction of this sink are left alone.
    pub(super) fn list(&self, lineage: Lineage) -> Result<BTreeSet<TransactionId>, ConnectorError> {
        let mut found = BTreeSet::new();
        for name in names(&self.folder(lineage))? {
            let Ok(id) = name.strip_suffix(MARKER).unwrap_or(&name).parse::<TransactionId>() else { continue };
            if id.lineage == lineage && id.sink == self.sink {
                found.insert(id);
            }
        }
        Ok(found)
    }

    /// Makes the names of a lineage's folder and of all above it durable, up to the target's own.
    pub(super) fn sync_path(&self, lineage: Lineage) -> Result<(), ConnectorError> {
        let folder = self.folder(lineage);
        let stop = self.target.parent();
        for above in folder.ancestors().skip(1).take_while(|above| Some(*above) != stop) {
            sync_folder(above)?;
        }
        stop.map_or(Ok(()), sync_folder)
    }

    /// Removes a lineage's folders, and the root, as far as they are empty.
    pub(super) fn remove_empty_folders(&self, lineage: Lineage) {
        let folder = self.folder(lineage);
        folder.ancestors().take_while(|above| *above != self.target).for_each(remove_if_empty);
    }
}

/// The names in a folder, in order; none if there is no such folder. A name that is not UTF-8 is none of ours.
pub(super) fn names(folder: &Path) -> Result<BTreeSet<String>, ConnectorError> {
    let failed = |error| disk_error("list", folder, &error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
            names.insert(name);
        }
    }
    Ok(names)
}
