//! The folder of working state, `<data>/state`: it is emptied at every start, so it must be Weir's own.
//!
//! Invariant **W1**: nothing is removed from a folder without the marker that Weir puts there, and the marker is only put into a
//! folder that is empty or new; it is the last that goes, so that a removal that a crash has interrupted can be ended.

use crate::graph::Problem;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use weir_protocol::Generation;

/// Name of the folder in the data folder.
pub const FOLDER: &str = "state";
/// Says that Weir made the folder.
const MARKER: &str = ".weir";

/// See the module.
pub struct WorkingState {
    folder: PathBuf,
}

impl WorkingState {
    /// Of a data folder.
    pub fn of(data: &Path) -> Self {
        WorkingState { folder: data.join(FOLDER) }
    }

    /// Refuses a folder that holds what Weir did not put there.
    pub fn check(&self) -> Result<(), Problem> {
        match self.is_foreign() {
            Ok(false) => Ok(()),
            Ok(true) => Err(Problem::new(
                self.folder.display().to_string(),
                "this is where working state goes, which is removed at every start, but it holds files that Weir did not make",
                "move them away, or choose another folder with --data",
            )),
            Err(error) => {
                Err(Problem::new(self.folder.display().to_string(), error.to_string(), "choose another folder with --data"))
            }
        }
    }

    fn is_foreign(&self) -> io::Result<bool> {
        match fs::read_dir(&self.folder) {
            Ok(mut entries) => Ok(entries.next().transpose()?.is_some() && !self.folder.join(MARKER).exists()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Folder of a generation's working state.
    pub fn of_generation(&self, generation: Generation) -> PathBuf {
        self.folder.join(generation.to_string())
    }

    /// Empties the folder, and makes it Weir's.
    pub fn renew(&self) -> io::Result<()> {
        self.try_remove()?;
        fs::create_dir_all(&self.folder)?;
        fs::write(self.folder.join(MARKER), "Working state of Weir: may be deleted while no job runs.\n")
    }

    /// Removes the folder. Working state is only of use to the process that made it.
    pub fn remove(&self) {
        if let Err(error) = self.try_remove() {
            let folder = self.folder.display();
            tracing::warn!(%folder, %error, "working state could not be removed; it may be deleted by hand");
        }
    }

    fn try_remove(&self) -> io::Result<()> {
        if self.is_foreign()? {
            return Err(io::Error::other("it holds files that Weir did not make"));
        }
        for path in in_order_of_removal(&self.folder)? {
            let removed = if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone(removed)?;
        }
        gone(fs::remove_dir(&self.folder))
    }
}

/// What lies in a folder, the marker last (W1).
fn in_order_of_removal(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort_by_key(|path| path.ends_with(MARKER));
    Ok(paths)
}

/// What is gone already need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_weir_did_not_make_stays() {
        let data = tempfile::tempdir().expect("temporary folder");
        let working = WorkingState::of(data.path());
        let mine = data.path().join("state/mine.txt");
        fs::create_dir_all(mine.parent().expect("a folder")).expect("made");
        fs::write(&mine, "input").expect("written");
        let problem = working.check().expect_err("it is not Weir's");
        assert!(problem.to_string().contains("did not make"), "{problem}");
        working.remove();
        assert!(working.renew().is_err());
        assert_eq!(fs::read_to_string(&mine).expect("it is still there"), "input");
    }

    #[test]
    fn a_removal_that_was_interrupted_is_ended_by_the_next_one() {
        let data = tempfile::tempdir().expect("temporary folder");
        let working = WorkingState::of(data.path());
        working.renew().expect("renewed");
        for name in ["-before", "a", "z"] {
            fs::create_dir(data.path().join(FOLDER).join(name)).expect("made");
        }
        let order = in_order_of_removal(&data.path().join(FOLDER)).expect("listed");
        assert_eq!(order.len(), 4);
        for path in &order[..3] {
            fs::remove_dir(path).expect("no marker comes before them");
            working.check().expect("it is still Weir's");
        }
        working.renew().expect("renewed");
    }

    #[test]
    fn what_weir_made_goes_each_time() {
        let data = tempfile::tempdir().expect("temporary folder");
        let working = WorkingState::of(data.path());
        for _ in 0..2 {
            working.check().expect("its own");
            working.renew().expect("renewed");
            let folder = working.of_generation(Generation(3));
            assert!(!folder.exists(), "what an earlier process left is gone");
            fs::create_dir_all(folder.join("stats-0")).expect("made");
        }
        working.remove();
        assert!(!data.path().join("state").exists());
    }
}
