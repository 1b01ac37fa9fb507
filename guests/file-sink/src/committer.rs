//! The committing half: it looks at two names and renames one.

use crate::layout::{GRANT, PREPARED, STAGING, Staged, Target, VERSION, check_config, folder};
use weir_sdk::prelude::*;

/// Commits and aborts what any writer of this sink has staged, in whatever lineage.
#[derive(Default)]
pub struct Committer {
    out: Option<Files>,
    sink: String,
}

/// What lies there of a transaction.
enum Found {
    /// It can be committed.
    Prepared,
    /// It was never prepared, or its abort has begun.
    StagedAlone,
    /// It is committed.
    MarkerAlone,
    /// It is not there.
    Nothing,
}

impl SinkCommitter for Committer {
    fn open(&mut self, _: &str, sink: &str, config: &str, grants: &Grants) -> Result<(), Error> {
        check_config(config)?;
        self.out = Some(grants.folder(GRANT));
        self.sink = sink.to_owned();
        Ok(())
    }

    fn commit(&mut self, what: &Committable) -> Outcome {
        match names(what) {
            Ok((staged, target)) => self.try_commit(&staged, &target).unwrap_or_else(Outcome::Retry),
            Err(unreadable) => unreadable,
        }
    }

    fn status(&mut self, what: &Committable) -> Outcome {
        match names(what) {
            Ok((staged, target)) => self.judge(&staged, &target).unwrap_or_else(Outcome::Unknown),
            Err(unreadable) => unreadable,
        }
    }

    fn abort(&mut self, transaction: &str) -> AbortOutcome {
        let aborted = Staged::of(transaction).and_then(|staged| self.try_abort(&staged));
        aborted.unwrap_or_else(AbortOutcome::Retry)
    }

    fn list_dangling(&mut self) -> Result<Vec<String>, Error> {
        let out = self.out();
        let mut found = Vec::new();
        for lineage in out.list(STAGING).map_err(Error::retry)? {
            for name in out.list(&folder(&lineage, &self.sink)).map_err(Error::retry)? {
                found.push(name.strip_suffix(PREPARED).unwrap_or(&name).to_owned());
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn forget(&mut self, transaction: &str) -> Result<(), Error> {
        let staged = Staged::of(transaction).map_err(Error::fatal)?;
        match self.look(&staged).map_err(Error::retry)? {
            Found::Prepared | Found::StagedAlone => {
                Err(Error::fatal(format!("{} is to be forgotten, but it is not committed", staged.file)))
            }
            Found::MarkerAlone => {
                self.out().remove(&staged.marker).map_err(Error::retry)?;
                self.out().sync(&staged.folder).map_err(Error::retry)
            }
            Found::Nothing => Ok(()),
        }
    }
}

impl Committer {
    fn out(&self) -> &Files {
        self.out.as_ref().expect("opened first")
    }

    fn look(&self, staged: &Staged) -> Result<Found, String> {
        // The staged file first: a rename between the two looks must not seem like nothing at all.
        let file = self.out().exists(&staged.file)?;
        Ok(match (file, self.out().exists(&staged.marker)?) {
            (true, true) => Found::Prepared,
            (true, false) => Found::StagedAlone,
            (false, true) => Found::MarkerAlone,
            (false, false) => Found::Nothing,
        })
    }

    /// What would become of a commit; `Retry` if it can be made.
    fn judge(&self, staged: &Staged, target: &Target) -> Result<Outcome, String> {
        let file = &staged.file;
        Ok(match self.look(staged)? {
            Found::MarkerAlone => Outcome::AlreadyCommitted,
            Found::Nothing => Outcome::Lost(format!("neither {file} nor its marker is there: somebody removed them")),
            Found::StagedAlone => Outcome::Lost(format!(
                "{file} has no marker any more: its abort was begun, or somebody removed it. The file is left where it is"
            )),
            Found::Prepared if !self.has_size(file, target.bytes)? => Outcome::Lost(format!(
                "{file} has not the {} bytes that were prepared; it is left where it is",
                target.bytes
            )),
            Found::Prepared if self.out().exists(&target.name)? => taken(staged, target),
            Found::Prepared => Outcome::Retry("prepared, not committed yet".to_owned()),
        })
    }

    /// Whether a file's last byte is where it should be.
    fn has_size(&self, file: &str, bytes: u64) -> Result<bool, String> {
        Ok(self.out().read(file, bytes - 1, 2)?.len() == 1)
    }

    fn try_commit(&self, staged: &Staged, target: &Target) -> Result<Outcome, String> {
        match self.judge(staged, target)? {
            Outcome::Retry(_) => {
                Ok(if self.out().rename(&staged.file, &target.name)? { Outcome::Committed } else { taken(staged, target) })
            }
            Outcome::AlreadyCommitted => {
                // Who renamed it may have died before the folders were durable.
                self.out().sync("")?;
                self.out().sync(&staged.folder)?;
                Ok(Outcome::AlreadyCommitted)
            }
            refused @ (Outcome::Committed | Outcome::Unknown(_) | Outcome::Lost(_)) => Ok(refused),
        }
    }

    /// The marker goes first, and durably: alone it would say committed. Then the staged file, then the marker once more:
    /// a writer of an older generation may have made it meanwhile.
    fn try_abort(&self, staged: &Staged) -> Result<AbortOutcome, String> {
        match self.look(staged)? {
            Found::MarkerAlone => return Ok(AbortOutcome::Committed),
            Found::Nothing => return Ok(AbortOutcome::Aborted),
            Found::StagedAlone => {}
            Found::Prepared => {
                self.out().remove(&staged.marker)?;
                self.out().sync(&staged.folder)?;
            }
        }
        self.out().remove(&staged.file)?;
        self.out().remove(&staged.marker)?;
        self.out().sync(&staged.folder)?;
        Ok(AbortOutcome::Aborted)
    }
}

/// Where a committable is staged, and what it becomes; unknown if this build can't read it.
fn names(what: &Committable) -> Result<(Staged, Target), Outcome> {
    if what.version != VERSION {
        return Err(Outcome::Unknown(format!("{} has version {}, this build reads {VERSION}", what.id, what.version)));
    }
    let target =
        Target::decode(&what.bytes).ok_or_else(|| Outcome::Unknown(format!("{}: its bytes name no file", what.id)))?;
    Ok((Staged::of(&what.id).map_err(Outcome::Unknown)?, target))
}

fn taken(staged: &Staged, target: &Target) -> Outcome {
    let (name, file) = (&target.name, &staged.file);
    Outcome::Lost(format!("{name} is there already and is another file; this transaction's records are kept in {file}"))
}
