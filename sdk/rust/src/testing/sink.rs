//! Runs the two halves of a sink on folders in memory.

use super::folders::MemoryFolders;
use super::harness::{batch, batch_of_parts, task};
use crate::batch::Batch;
use crate::bindings::types;
use crate::error::Error;
use crate::meta::RecordParts;
use crate::sink::{AbortOutcome, Committable, Outcome, SinkCommitter, SinkWriter, commit_all};
use std::marker::PhantomData;

/// A sink in a test: one open writer, and a fresh committer for every call, as after a restart.
#[derive(Debug)]
pub struct SinkHarness<W, C> {
    writer: W,
    folders: MemoryFolders,
    sink: String,
    config: String,
    open: Option<String>,
    committer: PhantomData<C>,
}

impl<W: SinkWriter, C: SinkCommitter> SinkHarness<W, C> {
    /// Opens the writer of sink `sink`. `config`: a JSON document.
    pub fn open(folders: &MemoryFolders, sink: &str, config: &str) -> Result<Self, Error> {
        let mut writer = W::default();
        writer.open(&task(folders.grants()), config)?;
        let (sink, config) = (sink.to_owned(), config.to_owned());
        Ok(SinkHarness { writer, folders: folders.clone(), sink, config, open: None, committer: PhantomData })
    }

    /// Opens a transaction.
    pub fn begin(&mut self, transaction: &str) -> Result<(), Error> {
        self.open = Some(transaction.to_owned());
        self.writer.begin(transaction)
    }

    /// Writes one batch of (key, value, event time in ms).
    pub fn write<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, records: &[(K, V, i64)]) -> Result<(), Error> {
        self.write_batch(&batch(records).0)
    }

    /// Writes one batch of records with all that they can have.
    pub fn write_parts(&mut self, records: &[RecordParts<'_>]) -> Result<(), Error> {
        self.write_batch(&batch_of_parts(records.iter().copied()).0)
    }

    fn write_batch(&mut self, input: &types::Batch) -> Result<(), Error> {
        self.folders.set_writing(true);
        let answer = Batch::new(input, 0).and_then(|batch| self.writer.write(batch));
        self.folders.set_writing(false);
        answer
    }

    /// Prepares the open transaction.
    ///
    /// # Panics
    /// If none is open, or if the writer gives a version that it does not declare.
    pub fn prepare(&mut self, checkpoint: &str, end_of_input: bool) -> Result<Option<Committable>, Error> {
        let id = self.open.take().expect("a transaction is open");
        let prepared = self.writer.prepare(checkpoint, end_of_input)?;
        Ok(prepared.map(|prepared| {
            assert!(W::COMMITTABLE_VERSIONS.contains(&prepared.version), "version {} is not declared", prepared.version);
            Committable { id, checkpoint: checkpoint.to_owned(), version: prepared.version, bytes: prepared.bytes }
        }))
    }

    /// Commits in order, as the exports do.
    pub fn commit(&self, what: &[Committable]) -> Result<Vec<Outcome>, Error> {
        Ok(commit_all(&mut self.committer()?, what))
    }

    /// Asks what became of one.
    pub fn status(&self, what: &Committable) -> Result<Outcome, Error> {
        Ok(self.committer()?.status(what))
    }

    /// Aborts one.
    pub fn abort(&self, transaction: &str) -> Result<AbortOutcome, Error> {
        Ok(self.committer()?.abort(transaction))
    }

    /// Lists what exists outside.
    pub fn list_dangling(&self) -> Result<Vec<String>, Error> {
        self.committer()?.list_dangling()
    }

    /// Forgets one.
    pub fn forget(&self, transaction: &str) -> Result<(), Error> {
        self.committer()?.forget(transaction)
    }

    fn committer(&self) -> Result<C, Error> {
        let mut committer = C::default();
        committer.open("test", &self.sink, &self.config, &self.folders.grants())?;
        Ok(committer)
    }
}
