//! A sink node: the writer on the data path, and beside it the thread that makes prepared transactions durable, in order.

use super::messages::SinkSnapshot;
use super::snapshot::SnapshotParts;
use crate::channel::{Batch, Provenance};
use crate::connectors::{Committable, ConnectorError, DurableStep, Prepared, SinkTask, SinkWriter};
use crate::crash;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use weir_protocol::commit::WriterLedger;
use weir_protocol::{CheckpointId, TransactionId};

/// One sink in one subtask.
pub struct SinkNode {
    name: String,
    task: SinkTask,
    /// sha256 of the plugin, for plugin sinks.
    plugin: Option<String>,
    /// None after `close`.
    writer: Option<Box<dyn SinkWriter>>,
    /// The transaction that writes go to; opened by the first record.
    open: Option<OpenTransaction>,
    /// Number of the next transaction.
    next: u64,
    preparer: Preparer,
}

struct OpenTransaction {
    id: TransactionId,
    sources: Provenance,
}

impl SinkNode {
    /// Starts the sink's preparing thread. `name`: the sink's name in the job file.
    pub fn new(sink: usize, name: String, task: SinkTask, plugin: Option<String>, writer: Box<dyn SinkWriter>) -> Self {
        let preparer = Preparer::start(sink, &format!("{name}-{}", task.subtask));
        SinkNode { name, task, plugin, writer: Some(writer), open: None, next: 1, preparer }
    }

    /// Writes a batch into the open transaction, which it opens if need be.
    pub fn write(&mut self, batch: &Batch) -> Result<(), ConnectorError> {
        if batch.records.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            let id = TransactionId {
                lineage: self.task.lineage,
                generation: self.task.generation,
                sink: self.name.clone(),
                writer: self.task.subtask,
                number: self.next,
            };
            self.next += 1;
            writer(&mut self.writer).begin(&id)?;
            self.open = Some(OpenTransaction { id, sources: Provenance::default() });
        }
        let open = self.open.as_mut().expect("opened above");
        open.sources.merge(&batch.provenance);
        writer(&mut self.writer).write(&batch.records)
    }

    /// The barrier: prepares what is open. Its durable part runs beside the data path; the snapshot waits for it.
    pub fn prepare(&mut self, checkpoint: CheckpointId, end_of_input: bool, parts: &SnapshotParts) -> Result<(), ConnectorError> {
        let prepared = match self.open.take() {
            None => None,
            Some(open) => writer(&mut self.writer).prepare(checkpoint, end_of_input)?.map(|step| PreparedStep {
                id: open.id,
                sources: open.sources,
                plugin: self.plugin.clone(),
                step,
            }),
        };
        parts.owe_sink();
        self.preparer.send(PreparerJob::Prepare { checkpoint, prepared, parts: parts.clone() });
        Ok(())
    }

    /// A clean end, after the last prepared transaction.
    pub fn close(&mut self) -> Result<(), ConnectorError> {
        self.writer.take().map_or(Ok(()), SinkWriter::close)
    }

    /// These transactions are committed: later snapshots need not carry them.
    pub fn known_committed(&self, transactions: Vec<TransactionId>) {
        self.preparer.send(PreparerJob::KnownCommitted(transactions));
    }
}

fn writer(writer: &mut Option<Box<dyn SinkWriter>>) -> &mut dyn SinkWriter {
    writer.as_deref_mut().expect("nothing is written after the end")
}

struct PreparedStep {
    id: TransactionId,
    sources: Provenance,
    plugin: Option<String>,
    step: DurableStep,
}

enum PreparerJob {
    Prepare { checkpoint: CheckpointId, prepared: Option<PreparedStep>, parts: SnapshotParts },
    KnownCommitted(Vec<TransactionId>),
}

/// The thread that makes transactions durable, and its queue (bounded by the pending checkpoints).
struct Preparer {
    jobs: Option<Sender<PreparerJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Preparer {
    fn start(sink: usize, name: &str) -> Self {
        let (jobs, queue) = channel();
        let thread = std::thread::Builder::new().name(format!("prepare-{name}")).spawn(move || prepare_loop(sink, &queue));
        Preparer { jobs: Some(jobs), thread: Some(thread.expect("a thread can be started")) }
    }

    fn send(&self, job: PreparerJob) {
        // The thread only ends when this sender is dropped.
        let _ = self.jobs.as_ref().expect("present until drop").send(job);
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn prepare_loop(sink: usize, queue: &Receiver<PreparerJob>) {
    let mut ledger = WriterLedger::new();
    let mut bodies: BTreeMap<TransactionId, Committable> = BTreeMap::new();
    while let Ok(job) = queue.recv() {
        match job {
            PreparerJob::KnownCommitted(transactions) => {
                ledger.known_committed(&transactions);
                bodies.retain(|id, _| !transactions.contains(id));
            }
            PreparerJob::Prepare { checkpoint, prepared, parts } => {
                if let Some(PreparedStep { id, sources, plugin, step }) = prepared {
                    match step() {
                        Err(error) => {
                            parts.fail(error.message);
                            continue;
                        }
                        // The connector found that nothing was written.
                        Ok(None) => {}
                        Ok(Some(made)) => {
                            if ledger.prepared(checkpoint, id.clone()).is_err() {
                                parts.fail(format!(
                                    "{} prepared transactions wait for their commit: no more can be kept",
                                    bodies.len()
                                ));
                                continue;
                            }
                            let sources = sources.spans;
                            let Prepared { version, bytes, valid_until } = made;
                            let body = Committable { id: id.clone(), checkpoint, version, bytes, plugin, sources, valid_until };
                            bodies.insert(id, body);
                        }
                    }
                    crash::point("sink-prepared");
                }
                let committables = ledger.contents_at_barrier().iter().map(|id| bodies[id].clone()).collect();
                parts.sink(SinkSnapshot { sink, committables });
            }
        }
    }
}
