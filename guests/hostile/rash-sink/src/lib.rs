//! A sink that breaks two-phase commit, with the grant `out`. Config: `{"do": …}`:
//! - `commit-again`: a commit appends what was staged to the file `all`, as often as it is called;
//! - `show-early`: what is written goes straight to a file that readers see.

use serde::Deserialize;
use weir_sdk::prelude::*;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    CommitAgain,
    ShowEarly,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    r#do: Action,
}

/// What both halves have once they are open.
struct Setup {
    out: Files,
    action: Action,
}

impl Setup {
    fn new(grants: &Grants, config: &str) -> Result<Self, Error> {
        let config: Config = serde_json::from_str(config).map_err(|why| Error::fatal(format!("config: {why}")))?;
        Ok(Setup { out: grants.folder("out"), action: config.r#do })
    }

    /// Where a transaction's records are written to.
    fn path(&self, transaction: &str) -> String {
        match self.action {
            Action::CommitAgain => format!(".staged/{transaction}"),
            Action::ShowEarly => format!("part-{transaction}"),
        }
    }
}

#[derive(Default)]
struct Writer {
    setup: Option<Setup>,
    transaction: String,
    bytes: usize,
}

#[derive(Default)]
struct Committer {
    setup: Option<Setup>,
}

impl Writer {
    fn setup(&self) -> &Setup {
        self.setup.as_ref().expect("opened first")
    }
}

impl Committer {
    fn setup(&self) -> &Setup {
        self.setup.as_ref().expect("opened first")
    }
}

impl SinkWriter for Writer {
    const INFO: Info = weir_sdk::info!();
    const COMMITTABLE_VERSIONS: &'static [u32] = &[1];

    fn open(&mut self, task: &Task, config: &str) -> Result<(), Error> {
        self.setup = Some(Setup::new(&task.grants, config)?);
        Ok(())
    }

    fn begin(&mut self, transaction: &str) -> Result<(), Error> {
        (self.transaction, self.bytes) = (transaction.to_owned(), 0);
        self.setup().out.mkdir(".staged").map_err(Error::fatal)
    }

    fn write(&mut self, batch: Batch<'_>) -> Result<(), Error> {
        let mut lines = Vec::new();
        for record in batch.records() {
            lines.extend_from_slice(record.value());
            lines.push(b'\n');
        }
        self.bytes += lines.len();
        self.setup().out.append(&self.setup().path(&self.transaction), &lines).map_err(Error::fatal)
    }

    fn prepare(&mut self, _: &str, _: bool) -> Result<Option<Prepared>, Error> {
        Ok((self.bytes > 0).then(|| Prepared { version: 1, bytes: Vec::new() }))
    }
}

impl SinkCommitter for Committer {
    fn open(&mut self, _: &str, _: &str, config: &str, grants: &Grants) -> Result<(), Error> {
        self.setup = Some(Setup::new(grants, config)?);
        Ok(())
    }

    fn commit(&mut self, what: &Committable) -> Outcome {
        let Setup { out, action } = self.setup();
        match action {
            Action::ShowEarly => Outcome::Committed,
            Action::CommitAgain => {
                match out.read(&self.setup().path(&what.id), 0, 1 << 20).and_then(|all| out.append("all", &all)) {
                    Ok(()) => Outcome::Committed,
                    Err(why) => Outcome::Lost(why),
                }
            }
        }
    }

    fn status(&mut self, what: &Committable) -> Outcome {
        match self.setup().out.exists(&self.setup().path(&what.id)) {
            Ok(true) => Outcome::Retry("it is there".to_owned()),
            Ok(false) => Outcome::Lost("it is gone".to_owned()),
            Err(why) => Outcome::Unknown(why),
        }
    }

    fn abort(&mut self, transaction: &str) -> AbortOutcome {
        match self.setup().out.remove(&self.setup().path(transaction)) {
            Ok(_) => AbortOutcome::Aborted,
            Err(why) => AbortOutcome::Retry(why),
        }
    }

    fn list_dangling(&mut self) -> Result<Vec<String>, Error> {
        self.setup().out.list(".staged").map_err(Error::retry)
    }

    fn forget(&mut self, transaction: &str) -> Result<(), Error> {
        self.setup().out.remove(&self.setup().path(transaction)).map_err(Error::retry).map(drop)
    }
}

weir_sdk::export_sink!(Writer, Committer);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{MemoryFolders, SinkHarness};

    fn prepared(folders: &MemoryFolders, config: &str) -> (SinkHarness<Writer, Committer>, Committable) {
        let mut sink = SinkHarness::open(folders, "out", config).unwrap();
        sink.begin("a.1.out.0.1").unwrap();
        sink.write(&[("k", "one", 1)]).unwrap();
        let what = sink.prepare("1-1", false).unwrap().expect("something was written");
        (sink, what)
    }

    #[test]
    fn a_second_commit_writes_a_second_time() {
        let folders = MemoryFolders::new(&["out"]);
        let (sink, what) = prepared(&folders, r#"{"do":"commit-again"}"#);
        for expected in ["one\n", "one\none\n"] {
            assert_eq!(sink.commit(std::slice::from_ref(&what)).unwrap(), [Outcome::Committed]);
            assert_eq!(folders.files("out")["all"], expected.as_bytes());
        }
    }

    #[test]
    fn readers_see_what_is_not_committed() {
        let folders = MemoryFolders::new(&["out"]);
        prepared(&folders, r#"{"do":"show-early"}"#);
        assert!(folders.files("out").contains_key("part-a.1.out.0.1"));
    }
}
