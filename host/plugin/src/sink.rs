//! One instance of a sink's writing half. A trap in it is a task failure: nobody replays a transaction in part.

use crate::batch::RecordBatch;
use crate::describe::SinkDescriptor;
use crate::error::{CallError, CallErrorKind, Function};
use crate::exports::{WriteFn, WriterFunctions};
use crate::load::Plugin;
use crate::setup::{self, TaskSetup};
use crate::store::Guest;
use crate::wire::{BatchRef, Prepared};
use std::sync::Arc;

/// An open instance of a sink writer.
pub struct SinkWriterInstance {
    plugin: Arc<Plugin>,
    guest: Guest,
    functions: WriterFunctions,
}

impl SinkWriterInstance {
    /// Instantiates and opens.
    ///
    /// # Panics
    /// If the plugin is an operator; its kind is known since it was loaded.
    pub fn new(plugin: &Arc<Plugin>, setup: &TaskSetup) -> Result<Self, CallError> {
        let exports = plugin.sink_exports().expect("a writer is made from a sink");
        let describe = |guest: &mut Guest| exports.describe(guest).map(|descriptor| SinkDescriptor::check(descriptor).ok());
        let mut guest = setup.instantiate(plugin, plugin.sink(), describe)?;
        let (store, instance) = guest.parts();
        let functions = exports.writer(store, instance).expect("types were checked at load");
        setup.open(&mut guest, functions.open)?;
        Ok(SinkWriterInstance { plugin: plugin.clone(), guest, functions })
    }

    /// Opens the transaction that the following writes belong to. `transaction`: its identity.
    pub fn begin(&mut self, transaction: &str) -> Result<(), CallError> {
        let begin = self.functions.begin;
        let begun = self.guest.call(Function::Begin, None, |store| begin.call(store, (transaction.to_owned(),)))?;
        begun.0.map_err(|error| self.guest.error(Function::Begin, error.check(0)))
    }

    /// Writes records into the open transaction. What the call appended to files is applied if, and only if, it returns
    /// without error; then an `Environment` error means that a part may be applied, and the attempt must end.
    pub fn write(&mut self, records: &RecordBatch) -> Result<(), CallError> {
        let write: WriteFn<'_> = self.functions.write;
        let aux = records.aux();
        let written = self.guest.call(Function::Write, None, |store| write.call(store, (BatchRef::new(records, &aux),)))?;
        written.0.map_err(|error| self.guest.error(Function::Write, error.check(records.len())))?;
        self.apply_appends().map_err(|kind| self.guest.error(Function::Write, kind))
    }

    /// A barrier: everything written so far becomes durable, and what to commit is handed over; none if nothing was written.
    pub fn prepare(&mut self, checkpoint: &str, end_of_input: bool) -> Result<Option<Prepared>, CallError> {
        let prepare = self.functions.prepare;
        let arguments = (checkpoint.to_owned(), end_of_input);
        let answer = self.guest.call(Function::Prepare, None, |store| prepare.call(store, arguments))?;
        let prepared = answer.0.map_err(|error| self.guest.error(Function::Prepare, error.check(0)))?;
        match prepared {
            Some(prepared) if !self.versions().contains(&prepared.version) => {
                let why = format!("prepared version {}, but committable-versions are {:?}", prepared.version, self.versions());
                Err(self.guest.error(Function::Prepare, CallErrorKind::Malformed(why)))
            }
            prepared => Ok(prepared),
        }
    }

    /// For tests of plugins: it dies at the host call that comes after so many from now on.
    pub fn crash_after(&mut self, host_calls: u32) {
        self.guest.state().crash_after = Some(host_calls);
    }

    /// A clean end. The instance is gone afterwards, whatever it answers.
    pub fn close(mut self) -> Result<(), CallError> {
        setup::close(&mut self.guest, self.functions.close)
    }

    /// Whether a call trapped: no further call succeeds.
    pub fn is_poisoned(&self) -> bool {
        self.guest.is_poisoned()
    }

    /// The plugin that it is an instance of.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Bytes of linear memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.guest.memory_bytes()
    }

    fn versions(&self) -> &[u32] {
        self.plugin.sink().map_or(&[], |sink| &sink.committable_versions)
    }

    /// What `write` staged reaches the files, in order.
    fn apply_appends(&mut self) -> Result<(), CallErrorKind> {
        let state = self.guest.state();
        for append in std::mem::take(&mut state.running.appends) {
            let folder = state.reach.folder(&append.grant).expect("the grant was found when it was staged");
            folder.append_io(&append.path, &append.bytes).map_err(|source| {
                let what = format!("appending {} bytes to {} in {}", append.bytes.len(), append.path, folder.path().display());
                CallErrorKind::Environment { what, source }
            })?;
        }
        Ok(())
    }
}
