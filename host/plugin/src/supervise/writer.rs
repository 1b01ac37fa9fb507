//! A sink writer whose bad records are left out. Its traps are task failures.

use super::rest::Rest;
use super::{BadRecord, BadRecordPolicy, Failure, Retries, Verdict, has_outgrown};
use crate::batch::RecordBatch;
use crate::error::CallError;
use crate::load::Plugin;
use crate::setup::TaskSetup;
use crate::sink::SinkWriterInstance;
use crate::wire::Prepared;
use std::sync::Arc;

/// A sink writer of one subtask.
pub struct SupervisedWriter {
    instance: SinkWriterInstance,
    /// Bytes of memory that the instance had when it was opened.
    opened_bytes: usize,
    setup: TaskSetup,
    retries: Retries,
}

impl SupervisedWriter {
    /// Makes and opens the instance.
    ///
    /// # Panics
    /// If the plugin is an operator.
    pub fn new(plugin: &Arc<Plugin>, setup: &TaskSetup, retries: Retries) -> Result<Self, CallError> {
        let instance = SinkWriterInstance::new(plugin, setup)?;
        Ok(SupervisedWriter { opened_bytes: instance.memory_bytes(), instance, setup: setup.clone(), retries })
    }

    /// Opens the transaction that the following writes belong to. No other one is open, so an instance that has grown may be
    /// replaced first.
    pub fn begin(&mut self, transaction: &str) -> Result<(), CallError> {
        if has_outgrown(self.opened_bytes, self.instance.memory_bytes(), self.setup.limits.memory) {
            let fresh = SinkWriterInstance::new(self.instance.plugin(), &self.setup)?;
            self.opened_bytes = fresh.memory_bytes();
            if let Err(error) = std::mem::replace(&mut self.instance, fresh).close() {
                tracing::warn!("{error}\nIt was replaced, since it had grown; a fresh instance goes on.");
            }
        }
        let instance = &mut self.instance;
        self.retries.run(|| instance.begin(transaction))
    }

    /// Writes all records but those that the sink refuses, which are given back (never any with
    /// [`BadRecordPolicy::Fail`]). Ends: each round takes at least one record out.
    pub fn write(&mut self, records: &RecordBatch, policy: BadRecordPolicy) -> Result<Vec<BadRecord>, Failure> {
        let mut rest = Rest::all(records);
        let mut skipped = Vec::new();
        while !rest.batch().is_empty() {
            let instance = &mut self.instance;
            let error = match self.retries.run(|| instance.write(rest.batch())) {
                Ok(()) => break,
                Err(error) => error,
            };
            match Verdict::of(&error.kind) {
                Verdict::Bad(bad) if policy == BadRecordPolicy::Fail => return Err(rest.failure(bad, error)),
                Verdict::Bad(bad) => rest.remove(bad, &mut skipped),
                Verdict::Suspect | Verdict::Task => return Err(Failure::Task(error)),
            }
        }
        skipped.sort_by_key(|bad| bad.index);
        Ok(skipped)
    }

    /// A barrier.
    pub fn prepare(&mut self, checkpoint: &str, end_of_input: bool) -> Result<Option<Prepared>, CallError> {
        let instance = &mut self.instance;
        self.retries.run(|| instance.prepare(checkpoint, end_of_input))
    }

    /// A clean end.
    pub fn close(self) -> Result<(), CallError> {
        self.instance.close()
    }

    /// The instance.
    pub fn instance(&self) -> &SinkWriterInstance {
        &self.instance
    }
}
