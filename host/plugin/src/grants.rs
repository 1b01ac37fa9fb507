//! What a job grants a plugin.

use crate::error::CallErrorKind;
use crate::folder::Folder;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What one plugin may use beyond computing. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Folders by the name under which the plugin asks for them. They must exist when an instance is made.
    pub folders: BTreeMap<String, PathBuf>,
}

/// The granted folders of one instance, open.
#[derive(Debug, Default)]
pub(crate) struct Folders(BTreeMap<String, Folder>);

impl Folders {
    pub(crate) fn open(grants: &Grants) -> Result<Self, CallErrorKind> {
        let open = |(name, path): (&String, &PathBuf)| match Folder::open(path) {
            Ok(folder) => Ok((name.clone(), folder)),
            Err(source) => {
                let what = format!("the granted folder `{name}` ({}) can't be opened", path.display());
                Err(CallErrorKind::Environment { what, source })
            }
        };
        Ok(Folders(grants.folders.iter().map(open).collect::<Result<_, _>>()?))
    }

    pub(crate) fn get(&self, grant: &str) -> Result<&Folder, String> {
        self.0.get(grant).ok_or_else(|| format!("no folder `{grant}` is granted; `grants.folders` in the job file does"))
    }
}
