//! {{name}}: writes each value and a newline to files that appear whole, in the granted folder `out`.
//!
//! `.staging/<transaction>` is what was written; beside it `<transaction>.prepared`, once all of it is durable. A commit is one
//! rename to `part-<subtask>-<checkpoint>`. Hence: both there = prepared; the marker alone = committed, even when a reader has
//! taken the file away; no marker = never prepared, or aborted.

use weir_sdk::prelude::*;

const STAGING: &str = ".staging";

fn staged(transaction: &str) -> String {
    format!("{STAGING}/{transaction}")
}

fn marker(transaction: &str) -> String {
    format!("{STAGING}/{transaction}.prepared")
}

/// The writing half: one for each subtask.
#[derive(Default)]
struct Writer {
    out: Option<Files>,
    subtask: u32,
    transaction: String,
    bytes: usize,
}

impl Writer {
    fn out(&self) -> &Files {
        self.out.as_ref().expect("the host opens first")
    }

    /// Content first, then the marker that vouches for it, then the names of both.
    fn make_durable(&self) -> Result<(), String> {
        let (out, marker) = (self.out(), marker(&self.transaction));
        out.sync(&staged(&self.transaction))?;
        out.append(&marker, b"")?;
        out.sync(&marker)?;
        out.sync(STAGING)
    }
}

impl SinkWriter for Writer {
    const INFO: Info = weir_sdk::info!();
    const COMMITTABLE_VERSIONS: &'static [u32] = &[1];

    fn open(&mut self, task: &Task, _config: &str) -> Result<(), Error> {
        self.out = Some(task.grants.folder("out"));
        self.subtask = task.subtask;
        Ok(())
    }

    fn begin(&mut self, transaction: &str) -> Result<(), Error> {
        (self.transaction, self.bytes) = (transaction.to_owned(), 0);
        self.out().mkdir(STAGING).map_err(Error::fatal)
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<(), Error> {
        let mut lines = Vec::new();
        for record in batch.records() {
            lines.extend_from_slice(record.value());
            lines.push(b'\n');
        }
        self.bytes += lines.len();
        if lines.is_empty() {
            return Ok(());
        }
        self.out().append(&staged(&self.transaction), &lines).map_err(Error::fatal)
    }

    fn prepare(&mut self, checkpoint: &str, _end_of_input: bool) -> Result<Option<Prepared>, Error> {
        if self.bytes == 0 {
            return Ok(None);
        }
        self.make_durable().map_err(Error::fatal)?;
        // What the committer needs: it runs in another instance, maybe in another process years later.
        Ok(Some(Prepared { version: 1, bytes: format!("part-{}-{checkpoint}", self.subtask).into_bytes() }))
    }
}

/// The committing half: one for the job.
#[derive(Default)]
struct Committer {
    out: Option<Files>,
}

impl Committer {
    fn out(&self) -> &Files {
        self.out.as_ref().expect("the host opens first")
    }

    /// Whether the staged file is there, and whether its marker is.
    fn look(&self, transaction: &str) -> Result<(bool, bool), String> {
        Ok((self.out().exists(&staged(transaction))?, self.out().exists(&marker(transaction))?))
    }

    fn try_commit(&self, what: &Committable) -> Result<Outcome, String> {
        let target = String::from_utf8_lossy(&what.bytes);
        match self.look(&what.id)? {
            (true, true) if self.out().rename(&staged(&what.id), &target)? => Ok(Outcome::Committed),
            (true, true) => Ok(Outcome::Lost(format!("{target} is there already, and is another file"))),
            (false, true) => {
                // Who renamed it may have died before the names were durable.
                self.out().sync("")?;
                self.out().sync(STAGING)?;
                Ok(Outcome::AlreadyCommitted)
            }
            (_, false) => Ok(Outcome::Lost("it is not prepared any more".to_owned())),
        }
    }

    /// The marker goes first, and durably: alone it would say committed.
    fn try_abort(&self, transaction: &str) -> Result<AbortOutcome, String> {
        if self.look(transaction)? == (false, true) {
            return Ok(AbortOutcome::Committed);
        }
        for path in [marker(transaction), staged(transaction)] {
            if self.out().remove(&path)? {
                self.out().sync(STAGING)?;
            }
        }
        Ok(AbortOutcome::Aborted)
    }
}

impl SinkCommitter for Committer {
    fn open(&mut self, _job: &str, _sink: &str, _config: &str, grants: &Grants) -> Result<(), Error> {
        self.out = Some(grants.folder("out"));
        Ok(())
    }

    fn commit(&mut self, what: &Committable) -> Outcome {
        self.try_commit(what).unwrap_or_else(Outcome::Retry)
    }

    fn status(&mut self, what: &Committable) -> Outcome {
        match self.look(&what.id) {
            Ok((true, true)) => Outcome::Retry("prepared, not committed yet".to_owned()),
            Ok((false, true)) => Outcome::AlreadyCommitted,
            Ok((_, false)) => Outcome::Lost("it is not prepared any more".to_owned()),
            Err(why) => Outcome::Unknown(why),
        }
    }

    fn abort(&mut self, transaction: &str) -> AbortOutcome {
        self.try_abort(transaction).unwrap_or_else(AbortOutcome::Retry)
    }

    fn list_dangling(&mut self) -> Result<Vec<String>, Error> {
        let names = self.out().list(STAGING).map_err(Error::retry)?;
        let mut found: Vec<String> = names.iter().map(|name| name.trim_end_matches(".prepared").to_owned()).collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn forget(&mut self, transaction: &str) -> Result<(), Error> {
        match self.look(transaction).map_err(Error::retry)? {
            (false, false) => Ok(()),
            (false, true) => {
                self.out().remove(&marker(transaction)).map_err(Error::retry)?;
                self.out().sync(STAGING).map_err(Error::retry)
            }
            (true, _) => Err(Error::fatal(format!("{transaction} is to be forgotten, but it is not committed"))),
        }
    }
}

weir_sdk::export_sink!(Writer, Committer);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{MemoryFolders, SinkHarness};

    #[test]
    fn records_appear_with_the_commit_and_once() {
        let folders = MemoryFolders::new(&["out"]);
        let mut sink = SinkHarness::<Writer, Committer>::open(&folders, "out", "{}").unwrap();
        sink.begin("a.1.out.0.1").unwrap();
        sink.write(&[("k", "one", 1), ("k", "two", 2)]).unwrap();
        let what = [sink.prepare("1-7", false).unwrap().expect("something was written")];
        assert!(!folders.files("out").contains_key("part-0-1-7"));
        // What is prepared survives a loss of power.
        folders.crash();
        assert_eq!(sink.commit(&what).unwrap(), [Outcome::Committed]);
        assert_eq!(sink.commit(&what).unwrap(), [Outcome::AlreadyCommitted]);
        assert_eq!(folders.files("out")["part-0-1-7"], b"one\ntwo\n");
    }

    #[test]
    fn what_is_aborted_is_gone() {
        let folders = MemoryFolders::new(&["out"]);
        let mut sink = SinkHarness::<Writer, Committer>::open(&folders, "out", "{}").unwrap();
        sink.begin("a.1.out.0.1").unwrap();
        sink.write(&[("k", "one", 1)]).unwrap();
        let what = sink.prepare("1-7", false).unwrap().expect("something was written");
        assert_eq!(sink.abort(&what.id).unwrap(), AbortOutcome::Aborted);
        assert_eq!(sink.list_dangling().unwrap(), Vec::<String>::new());
        assert!(matches!(sink.status(&what).unwrap(), Outcome::Lost(_)));
    }
}
