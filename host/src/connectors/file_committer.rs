//! The committing half of the file sink: one rename that never replaces, and its answers.
//!
//! Invariants:
//! - An answer "committed" is given only when the rename is durable: both folders are flushed first, also for one that was
//!   committed before (the process that renamed it may have died before it flushed).
//! - Nothing is replaced, and no final file is ever written or removed.
//! - Names of other jobs (lineages that the context does not name) are never touched.

use super::durable::{Renamed, disk_error, exists, remove, rename_new, same_file, sync_folder};
use super::file_staging::{PART, PROBE, Stage, Staging, names};
use super::file_writer::{COMMITTABLE_VERSION, StagedFile};
use super::{AbortAnswer, CommitAnswer, Committable, Committer, CommitterContext, ConnectorError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use weir_protocol::{Generation, Lineage, TransactionId};
use xxhash_rust::xxh3::Xxh3;

/// The committer of one file sink.
pub(super) struct FileCommitter {
    staging: Staging,
    lineages: Vec<Lineage>,
    generation: Generation,
}

/// What can be done with a committable.
enum Verdict {
    /// It is prepared, whole, and its name is free.
    Ready { staged: PathBuf, part: PathBuf },
    /// The staged file and the final one are two names of one file: committed, by a file system that was stopped half-way.
    Doubled { staged: PathBuf },
    /// Nothing can be done, or nothing needs to be.
    Answer(CommitAnswer),
}

impl FileCommitter {
    /// For the lineages of one job.
    pub(super) fn new(staging: Staging, context: &CommitterContext) -> Self {
        FileCommitter { staging, lineages: context.lineages.clone(), generation: context.generation }
    }

    /// Looks at a committable; changes nothing.
    fn judge(&self, what: &Committable) -> Result<Verdict, ConnectorError> {
        let file = match decode(what) {
            Ok(file) => file,
            Err(why) => return Ok(Verdict::Answer(CommitAnswer::Lost(why))),
        };
        let staged = self.staging.staged(&what.id);
        let part = self.staging.target().join(&file.part);
        let lost = |why: String| Ok(Verdict::Answer(CommitAnswer::Lost(why)));
        match self.staging.stage(&what.id)? {
            Stage::Committed => Ok(Verdict::Answer(CommitAnswer::AlreadyCommitted)),
            // Its names may be forgotten or cleaned up. A final name is used once, so the same content is the same file.
            Stage::Absent if same_content(&part, &file)? => Ok(Verdict::Answer(CommitAnswer::AlreadyCommitted)),
            Stage::Absent => lost(self.absent(&file, &staged)),
            Stage::Open => lost(format!(
                "{} has no marker any more: its abort was begun, or someone removed the marker. The file is left where it is: finish its abort, or create the empty file <name>.prepared beside it to have it committed",
                staged.display()
            )),
            Stage::Prepared if same_file(&staged, &part) => Ok(Verdict::Doubled { staged }),
            Stage::Prepared => match self.damage(what, &staged, &file)? {
                Some(damage) => lost(damage),
                None if exists(&part)? => lost(taken(&part, &staged)),
                None => Ok(Verdict::Ready { staged, part }),
            },
        }
    }

    fn absent(&self, file: &StagedFile, staged: &Path) -> String {
        let moved = if file.folder == self.staging.target() {
            String::new()
        } else {
            format!(" When it was prepared, the sink's path was {}: set it back to commit it there.", file.folder.display())
        };
        format!(
            "neither the staged file {} nor its marker is there, nor {}: someone removed them.{moved}",
            staged.display(),
            file.part
        )
    }

    /// What is wrong with a staged file. After a failover its content is checked too: the machine may have crashed.
    fn damage(&self, what: &Committable, staged: &Path, file: &StagedFile) -> Result<Option<String>, ConnectorError> {
        let bytes = fs::symlink_metadata(staged).map_err(|error| disk_error("look at", staged, &error))?.len();
        if bytes != file.bytes {
            return Ok(Some(format!(
                "{} has {bytes} bytes, but {} were prepared: it is damaged, and left where it is",
                staged.display(),
                file.bytes
            )));
        }
        if what.id.generation != self.generation && !same_content(staged, file)? {
            return Ok(Some(format!(
                "{} has not the content that was prepared: it is damaged, and left where it is",
                staged.display()
            )));
        }
        Ok(None)
    }

    /// Commits one, but for the flush of the folders.
    fn commit_one(&self, what: &Committable) -> CommitAnswer {
        match self.judge(what) {
            Err(error) => CommitAnswer::Unknown(error.message),
            Ok(Verdict::Answer(answer)) => answer,
            Ok(Verdict::Doubled { staged }) => match remove(&staged) {
                Ok(_) => CommitAnswer::Committed,
                Err(error) => CommitAnswer::Retryable(error.message),
            },
            Ok(Verdict::Ready { staged, part }) => match rename_new(&staged, &part) {
                Renamed::Done => CommitAnswer::Committed,
                Renamed::Taken => CommitAnswer::Lost(taken(&part, &staged)),
                Renamed::SourceGone => CommitAnswer::Unknown(format!("{} went away in this moment", staged.display())),
                Renamed::Failed(error) => {
                    let why = disk_error(&format!("rename {} to", staged.display()), &part, &error).message;
                    match self.staging.stage(&what.id) {
                        Ok(Stage::Prepared) => CommitAnswer::Retryable(why),
                        Ok(Stage::Open | Stage::Committed | Stage::Absent) | Err(_) => CommitAnswer::Unknown(why),
                    }
                }
            },
        }
    }

    /// Flushes the folders that a commit or an abort of transactions of these lineages changed, the final files' first: after
    /// a crash between the two a file rather has both names than none.
    fn sync(&self, lineages: impl Iterator<Item = Lineage>) -> Result<(), ConnectorError> {
        let lineages: BTreeSet<Lineage> = lineages.collect();
        if lineages.is_empty() {
            return Ok(());
        }
        for folder in
            std::iter::once(self.staging.target().to_owned()).chain(lineages.iter().map(|&one| self.staging.folder(one)))
        {
            // Cleaned up: then there is nothing to flush in it.
            if folder.is_dir() {
                sync_folder(&folder)?;
            }
        }
        Ok(())
    }

    fn is_ours(&self, id: &TransactionId) -> bool {
        self.lineages.contains(&id.lineage) && id.sink == self.staging.sink()
    }

    /// The answer for one that needs no removal, or none.
    fn settled(&self, id: &TransactionId) -> Option<AbortAnswer> {
        if !self.is_ours(id) {
            return Some(AbortAnswer::Retryable(format!("{id} belongs to another job or sink, which alone may abort it")));
        }
        match self.staging.stage(id) {
            Err(error) => Some(AbortAnswer::Retryable(error.message)),
            Ok(Stage::Committed) => Some(AbortAnswer::Committed),
            Ok(Stage::Absent) => Some(AbortAnswer::Aborted),
            Ok(Stage::Open | Stage::Prepared) => None,
        }
    }

    /// Removes what transactions staged.
    ///
    /// The marker goes first, for good, and then the staged file. The other way round a crash in between would leave a marker
    /// alone, and so say "committed" of what was aborted; this way it leaves a transaction that looks open, which the next
    /// recovery aborts. At last the marker once more: a writer of an older generation that still runs may have prepared
    /// meanwhile (it looks for its staged file after it has made the marker, so one of the two sees the other).
    fn remove(&self, what: &[&TransactionId]) -> Result<(), ConnectorError> {
        let lineages = || what.iter().map(|id| id.lineage);
        for id in what {
            remove(&self.staging.marker(id))?;
        }
        self.sync(lineages())?;
        for id in what {
            remove(&self.staging.staged(id))?;
            remove(&self.staging.marker(id))?;
        }
        self.sync(lineages())
    }

    /// Removes the markers of all that is committed, and what probes left behind.
    fn remove_memory(&self) -> Result<(), ConnectorError> {
        for id in self.list_dangling_now()? {
            if self.staging.stage(&id)? == Stage::Committed {
                remove(&self.staging.marker(&id))?;
            }
        }
        for name in names(&self.staging.root())?.iter().filter(|name| name.starts_with(PROBE)) {
            remove(&self.staging.root().join(name))?;
        }
        Ok(())
    }

    fn list_dangling_now(&self) -> Result<Vec<TransactionId>, ConnectorError> {
        let mut found = Vec::new();
        for &lineage in &self.lineages {
            found.extend(self.staging.list(lineage)?);
        }
        Ok(found)
    }
}

impl Committer for FileCommitter {
    fn commit(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        let mut answers = Vec::with_capacity(what.len());
        for one in what {
            answers.push(self.commit_one(one));
            if !answers.last().is_some_and(is_done) {
                break;
            }
        }
        let done = answers.iter().take_while(|answer| is_done(answer)).count();
        if let Err(error) = self.sync(what[..done].iter().map(|one| one.id.lineage)) {
            answers.truncate(done);
            answers.fill(CommitAnswer::Unknown(error.message));
        }
        answers.resize(what.len(), CommitAnswer::Retryable("not tried: one before it is not committed".to_owned()));
        answers
    }

    fn status(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        let answer = |one| match self.judge(one) {
            Err(error) => CommitAnswer::Unknown(error.message),
            Ok(Verdict::Answer(answer)) => answer,
            Ok(Verdict::Doubled { staged } | Verdict::Ready { staged, .. }) => {
                CommitAnswer::Retryable(format!("prepared, not committed: {}", staged.display()))
            }
        };
        what.iter().map(answer).collect()
    }

    fn abort(&mut self, what: &[TransactionId]) -> Vec<AbortAnswer> {
        let settled: Vec<Option<AbortAnswer>> = what.iter().map(|id| self.settled(id)).collect();
        let there: Vec<&TransactionId> =
            what.iter().zip(&settled).filter(|(_, settled)| settled.is_none()).map(|(id, _)| id).collect();
        let removed = match self.remove(&there) {
            Ok(()) => AbortAnswer::Aborted,
            Err(error) => AbortAnswer::Retryable(error.message),
        };
        settled.into_iter().map(|settled| settled.unwrap_or_else(|| removed.clone())).collect()
    }

    fn list_dangling(&mut self) -> Result<Vec<TransactionId>, ConnectorError> {
        self.list_dangling_now()
    }

    fn forget(&mut self, what: &[TransactionId]) -> Result<(), ConnectorError> {
        for id in what.iter().filter(|id| self.is_ours(id)) {
            match self.staging.stage(id)? {
                Stage::Committed => {
                    remove(&self.staging.marker(id))?;
                }
                Stage::Absent => {}
                // Without its marker it would be lost.
                Stage::Open | Stage::Prepared => {
                    return Err(ConnectorError::permanent(format!("{id} is not committed, so it can't be forgotten")));
                }
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>, finished: bool) -> Result<(), ConnectorError> {
        if finished {
            self.remove_memory()?;
        }
        for &lineage in &self.lineages {
            self.staging.remove_empty_folders(lineage);
        }
        Ok(())
    }
}

fn is_done(answer: &CommitAnswer) -> bool {
    match answer {
        CommitAnswer::Committed | CommitAnswer::AlreadyCommitted => true,
        CommitAnswer::Retryable(_) | CommitAnswer::Unknown(_) | CommitAnswer::Lost(_) => false,
    }
}

fn decode(what: &Committable) -> Result<StagedFile, String> {
    if what.version != COMMITTABLE_VERSION {
        return Err(format!(
            "{} has version {} of the file sink's committables, this build knows {COMMITTABLE_VERSION}: commit it with the build that made it",
            what.id, what.version
        ));
    }
    let file: StagedFile =
        serde_json::from_slice(&what.bytes).map_err(|error| format!("the committable {} can't be read: {error}", what.id))?;
    if !file.part.starts_with(PART) || file.part.contains('/') {
        return Err(format!("the committable {} names '{}', which is no final file of this sink", what.id, file.part));
    }
    Ok(file)
}

fn taken(part: &Path, staged: &Path) -> String {
    format!(
        "{} is there already and is another file; nothing was replaced. Move it away and start again: {} waits to be committed",
        part.display(),
        staged.display()
    )
}

/// Whether a file is there with the content of a committable.
fn same_content(path: &Path, file: &StagedFile) -> Result<bool, ConnectorError> {
    let failed = |error| disk_error("read", path, &error);
    let mut content = match File::open(path) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    if content.metadata().map_err(failed)?.len() != file.bytes {
        return Ok(false);
    }
    let mut checksum = Xxh3::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(format!("{:032x}", checksum.digest128()) == file.checksum),
            Ok(n) => checksum.update(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
