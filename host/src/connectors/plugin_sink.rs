//! Connector `plugin`: a sink whose two halves are a component of world `sink-plugin`.
//!
//! A committable is committed, looked up and aborted by the build that made it, whatever the job file names by now: the
//! runtime keeps the builds and hands them out by digest ([`PluginSource`]).

use super::durable::create_folder;
use super::{
    AbortAnswer, CommitAnswer, Committable, Committer, CommitterContext, ConnectorError, DurableStep, Guarantee, Prepared,
    SinkConnector, SinkTask, SinkWriter,
};
use crate::graph::{GrantsSpec, HttpGrantSpec, LimitsSpec, Secret, SinkConnectorSpec, SinkSpec};
use std::path::PathBuf;
use std::sync::Arc;
use weir_plugin::batch::RecordBatch;
use weir_plugin::{
    AbortOutcome, BadRecordPolicy, CallError, CallErrorKind, CommitterInstance, CommitterSetup, Failure, Grants, Hidden,
    HttpGrant, Limits, Outcome, Plugin, Retries, SupervisedWriter, TaskInfo, TaskSetup,
};
use weir_protocol::{CheckpointId, Generation, Lineage, TransactionId};

/// Where builds of plugins come from.
pub trait PluginSource: Send + Sync {
    /// The build with this sha256, from wherever the runtime keeps those that checkpoints need; without a digest the one
    /// that the job file names.
    fn sink_plugin(&self, sink: &SinkSpec, sha256: Option<&str>) -> Result<Arc<Plugin>, ConnectorError>;
}

/// A configured plugin sink.
pub struct PluginSinkConnector {
    spec: SinkSpec,
    config: String,
    limits: Limits,
    grants: Grants,
    plugins: Arc<dyn PluginSource>,
    /// The job file's build.
    plugin: Arc<Plugin>,
}

impl PluginSinkConnector {
    /// Loads the job file's build of a sink.
    pub fn new(spec: &SinkSpec, plugins: Arc<dyn PluginSource>) -> Result<Self, ConnectorError> {
        let SinkConnectorSpec::Plugin { config, limits, grants, .. } = &spec.connector else {
            return Err(ConnectorError::permanent(format!("sink {}: its connector is not `plugin`", spec.name)));
        };
        let plugin = sink_plugin(spec, &*plugins, None)?;
        Ok(PluginSinkConnector {
            spec: spec.clone(),
            config: config.to_string(),
            limits: limits_of(limits),
            grants: grants_of(grants),
            plugins,
            plugin,
        })
    }
}

impl SinkConnector for PluginSinkConnector {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    /// The folder that it may use, if there is just one: where else it writes only the plugin knows.
    fn target(&self) -> Option<PathBuf> {
        let mut folders = self.grants.folders.values();
        folders.next().filter(|_| folders.next().is_none()).cloned()
    }

    /// Only the plugin could tell, and the contract has no such question.
    fn output(&self) -> Result<Option<Generation>, ConnectorError> {
        Ok(None)
    }

    fn prepare_target(&self) -> Result<(), ConnectorError> {
        self.grants.folders.values().try_for_each(|folder| create_folder(folder))
    }

    fn writer(&self, task: &SinkTask) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        let setup = TaskSetup {
            task: TaskInfo {
                job: task.job.clone(),
                operator: self.spec.name.clone(),
                subtask: task.subtask,
                parallelism: task.parallelism,
                attempt: task.generation.0,
            },
            config: self.config.clone(),
            limits: self.limits,
            grants: self.grants.clone(),
        };
        let writer = SupervisedWriter::new(&self.plugin, &setup, Retries::default()).map_err(failed)?;
        Ok(Box::new(PluginWriter { writer }))
    }

    fn committer(&self, context: &CommitterContext) -> Result<Option<Box<dyn Committer>>, ConnectorError> {
        let plugin = match context.plugin.as_deref() {
            Some(sha256) if sha256 != self.plugin.sha256() => sink_plugin(&self.spec, &*self.plugins, Some(sha256))?,
            Some(_) | None => Arc::clone(&self.plugin),
        };
        let setup = CommitterSetup {
            job: context.job.clone(),
            sink: self.spec.name.clone(),
            config: self.config.clone(),
            limits: self.limits,
            grants: self.grants.clone(),
        };
        let instance = CommitterInstance::new(&plugin, setup).map_err(failed)?;
        Ok(Some(Box::new(PluginCommitter {
            instance,
            sink: self.spec.name.clone(),
            lineages: context.lineages.clone(),
            generation: context.generation,
        })))
    }

    fn plugin_digest(&self) -> Option<&str> {
        Some(self.plugin.sha256())
    }
}

/// A build, if it is a sink and the one that was asked for.
fn sink_plugin(spec: &SinkSpec, plugins: &dyn PluginSource, sha256: Option<&str>) -> Result<Arc<Plugin>, ConnectorError> {
    let plugin = plugins.sink_plugin(spec, sha256)?;
    if plugin.sink().is_none() {
        return Err(ConnectorError::permanent(format!(
            "sink {}: {} {} is an operator, not a sink: it has no world `sink-plugin`",
            spec.name,
            plugin.describe().plugin_name(),
            plugin.describe().plugin_version()
        )));
    }
    if let Some(wanted) = sha256.filter(|&wanted| wanted != plugin.sha256()) {
        return Err(ConnectorError::permanent(format!(
            "sink {}: the build with sha256 {wanted} made transactions that only it can commit, but what is kept under this digest has {}",
            spec.name,
            plugin.sha256()
        )));
    }
    Ok(plugin)
}

/// Limits of the plugin host from those of the job file.
pub(crate) fn limits_of(spec: &LimitsSpec) -> Limits {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (memory, emit) = (bytes(spec.memory_bytes), bytes(spec.emit_bytes));
    Limits { memory, call: spec.call, emit, host_calls: spec.host_calls, ..Limits::default() }
}

/// Grants of the plugin host from those of the job file.
pub(crate) fn grants_of(spec: &GrantsSpec) -> Grants {
    let hidden = |secret: &Secret| Hidden::new(secret.expose());
    let http = spec.http.iter().map(|(name, HttpGrantSpec { origin, headers, timeout })| {
        let headers = headers.iter().map(|(name, value)| (name.clone(), hidden(value))).collect();
        (name.clone(), HttpGrant { origin: origin.clone(), headers, timeout: *timeout })
    });
    Grants {
        folders: spec.folders.clone(),
        http: http.collect(),
        env: spec.env.iter().map(|(name, value)| (name.clone(), hidden(value))).collect(),
        clock: spec.clock,
        random: spec.random,
    }
}

/// What a failed call means for the job. The text names plugin, sink and function.
fn failed(error: CallError) -> ConnectorError {
    let message = error.to_string();
    match error.kind {
        // The same record would come again, and an answer that breaks the contract would be given again.
        CallErrorKind::BadInput(_) | CallErrorKind::Malformed(_) => ConnectorError::permanent(message),
        CallErrorKind::Retry(_)
        | CallErrorKind::Fatal(_)
        | CallErrorKind::Trap { .. }
        | CallErrorKind::Limit(_)
        | CallErrorKind::State(_)
        | CallErrorKind::Environment { .. } => ConnectorError::restart(message),
    }
}

struct PluginWriter {
    writer: SupervisedWriter,
}

impl SinkWriter for PluginWriter {
    fn begin(&mut self, transaction: &TransactionId) -> Result<(), ConnectorError> {
        self.writer.begin(&transaction.to_string()).map_err(failed)
    }

    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        if records.is_empty() {
            return Ok(());
        }
        let skipped = self.writer.write(records, BadRecordPolicy::Fail).map_err(|failure| match failure {
            Failure::BadRecord { .. } => ConnectorError::permanent(failure.to_string()),
            Failure::Task(error) => failed(error),
            Failure::GaveUp { .. } => ConnectorError::restart(failure.to_string()),
        })?;
        assert!(skipped.is_empty(), "a sink that must write every record leaves none out");
        Ok(())
    }

    /// The plugin stages on the data path: it is one instance, and its next transaction begins right after.
    fn prepare(&mut self, checkpoint: CheckpointId, end_of_input: bool) -> Result<Option<DurableStep>, ConnectorError> {
        let prepared = self.writer.prepare(&checkpoint.to_string(), end_of_input).map_err(failed)?;
        Ok(prepared.map(|prepared| {
            let prepared = Prepared { version: prepared.version, bytes: prepared.bytes, valid_until: None };
            Box::new(move || Ok(Some(prepared))) as DurableStep
        }))
    }

    fn close(self: Box<Self>) -> Result<(), ConnectorError> {
        self.writer.close().map_err(failed)
    }
}

struct PluginCommitter {
    instance: CommitterInstance,
    sink: String,
    lineages: Vec<Lineage>,
    generation: Generation,
}

impl PluginCommitter {
    fn is_ours(&self, id: &TransactionId) -> bool {
        self.lineages.contains(&id.lineage) && id.sink == self.sink
    }

    /// Leaves nothing of this job outside but what is committed. A newer generation's is left alone.
    fn end_all(&mut self) -> Result<(), ConnectorError> {
        let mut left = self.list_dangling()?;
        left.retain(|id| id.generation <= self.generation);
        let answers = self.abort(&left);
        let committed: Vec<TransactionId> = left
            .into_iter()
            .zip(answers)
            .filter_map(|(id, answer)| match answer {
                AbortAnswer::Committed => Some(id),
                AbortAnswer::Aborted => None,
                AbortAnswer::Retryable(why) => {
                    tracing::warn!(%id, why, "what the finished job staged could not be given up");
                    None
                }
            })
            .collect();
        self.forget(&committed)
    }

    /// Why this build can't be asked about a committable.
    fn refusal(&self, what: &[Committable]) -> Option<String> {
        let plugin = self.instance.plugin();
        let versions = plugin.sink().map_or(&[][..], |sink| &sink.committable_versions);
        let strange = what.iter().find(|one| !versions.contains(&one.version))?;
        let (name, version) = (plugin.describe().plugin_name(), plugin.describe().plugin_version());
        Some(format!("{} has committable version {}, but {name} {version} knows {versions:?} only", strange.id, strange.version))
    }

    fn ask(
        &mut self,
        what: &[Committable],
        ask: fn(&mut CommitterInstance, &[weir_plugin::Committable]) -> Vec<Outcome>,
    ) -> Vec<CommitAnswer> {
        if what.is_empty() {
            return Vec::new();
        }
        if let Some(why) = self.refusal(what) {
            // Another build may have committed it: nobody here can say.
            return vec![CommitAnswer::Unknown(why); what.len()];
        }
        let foreign = |one: &Committable| weir_plugin::Committable {
            id: one.id.to_string(),
            checkpoint: one.checkpoint.to_string(),
            version: one.version,
            bytes: one.bytes.clone(),
        };
        let asked: Vec<_> = what.iter().map(foreign).collect();
        ask(&mut self.instance, &asked).into_iter().map(answer).collect()
    }
}

fn answer(outcome: Outcome) -> CommitAnswer {
    match outcome {
        Outcome::Committed => CommitAnswer::Committed,
        Outcome::AlreadyCommitted => CommitAnswer::AlreadyCommitted,
        Outcome::Retry(why) => CommitAnswer::Retryable(why),
        Outcome::Unknown(why) => CommitAnswer::Unknown(why),
        Outcome::Lost(why) => CommitAnswer::Lost(why),
    }
}

impl Committer for PluginCommitter {
    fn commit(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        self.ask(what, CommitterInstance::commit)
    }

    fn status(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        self.ask(what, CommitterInstance::status)
    }

    fn abort(&mut self, what: &[TransactionId]) -> Vec<AbortAnswer> {
        let ours: Vec<String> = what.iter().filter(|id| self.is_ours(id)).map(TransactionId::to_string).collect();
        let outcomes = if ours.is_empty() { Vec::new() } else { self.instance.abort(&ours) };
        let mut outcomes = outcomes.into_iter();
        let answer = |id: &TransactionId| {
            if !self.is_ours(id) {
                return AbortAnswer::Retryable(format!("{id} belongs to another job or sink, which alone may abort it"));
            }
            match outcomes.next().expect("the instance gives one outcome for each") {
                AbortOutcome::Aborted => AbortAnswer::Aborted,
                AbortOutcome::Committed => AbortAnswer::Committed,
                AbortOutcome::Retry(why) => AbortAnswer::Retryable(why),
            }
        };
        what.iter().map(answer).collect()
    }

    /// A plugin sees by name only, so it may list what another job with the same sink name has: that is left out here.
    fn list_dangling(&mut self) -> Result<Vec<TransactionId>, ConnectorError> {
        let mut found = Vec::new();
        for name in self.instance.list_dangling().map_err(failed)? {
            let id: TransactionId = name.parse().map_err(|error| {
                ConnectorError::permanent(format!("sink {}: its plugin lists '{name}' as dangling: {error}", self.sink))
            })?;
            if self.is_ours(&id) {
                found.push(id);
            }
        }
        Ok(found)
    }

    fn forget(&mut self, what: &[TransactionId]) -> Result<(), ConnectorError> {
        let ours: Vec<String> = what.iter().filter(|id| self.is_ours(id)).map(TransactionId::to_string).collect();
        if ours.is_empty() { Ok(()) } else { self.instance.forget(&ours).map_err(failed) }
    }

    /// A plugin's `close` is not told that the job has finished. So what it still keeps is ended here by the calls that it has:
    /// whatever is staged is in no checkpoint, and what is committed is asked for no more.
    fn close(mut self: Box<Self>, finished: bool) -> Result<(), ConnectorError> {
        let ended = if finished { self.end_all() } else { Ok(()) };
        // Closed in any case; the first error is told.
        let closed = self.instance.close().map_err(failed);
        ended.and(closed)
    }
}
