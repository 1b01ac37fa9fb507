//! Connector `discard`: a sink that counts records and lets them go, for benches and trials.

use super::{
    CheckpointId, Committer, CommitterContext, ConnectorError, DurableStep, Guarantee, SinkConnector, SinkTask, SinkWriter,
};
use std::path::PathBuf;
use weir_plugin::batch::RecordBatch;
use weir_protocol::{Generation, TransactionId};

/// Nothing to configure.
pub(super) struct DiscardConnector;

impl SinkConnector for DiscardConnector {
    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn target(&self) -> Option<PathBuf> {
        None
    }

    fn output(&self) -> Result<Option<Generation>, ConnectorError> {
        Ok(None)
    }

    fn prepare_target(&self) -> Result<(), ConnectorError> {
        Ok(())
    }

    fn writer(&self, task: &SinkTask) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        Ok(Box::new(DiscardWriter { subtask: task.subtask, records: 0, bytes: 0 }))
    }

    fn committer(&self, _: &CommitterContext) -> Result<Option<Box<dyn Committer>>, ConnectorError> {
        Ok(None)
    }
}

struct DiscardWriter {
    subtask: u32,
    records: u64,
    bytes: u64,
}

impl SinkWriter for DiscardWriter {
    fn begin(&mut self, _: &TransactionId) -> Result<(), ConnectorError> {
        Ok(())
    }

    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        self.records += records.len() as u64;
        self.bytes += records.data().len() as u64;
        Ok(())
    }

    fn prepare(&mut self, _: CheckpointId, _: bool) -> Result<Option<DurableStep>, ConnectorError> {
        Ok(None)
    }

    fn close(self: Box<Self>) -> Result<(), ConnectorError> {
        tracing::info!(subtask = self.subtask, records = self.records, bytes = self.bytes, "discarded");
        Ok(())
    }
}
