//! The committers of one sink: a committable is committed by the build that made it (T6).

use crate::connectors::{CommitAnswer, Committable, Committer, CommitterContext, ConnectorError, SinkConnector};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opened when they are first needed.
pub(super) struct Committers {
    connector: Arc<dyn SinkConnector>,
    context: CommitterContext,
    /// By the digest of the plugin that must commit; none: built in.
    open: BTreeMap<Option<String>, Box<dyn Committer>>,
}

impl Committers {
    /// `context`: that of the build that runs now.
    pub(super) fn new(connector: Arc<dyn SinkConnector>, context: CommitterContext) -> Self {
        Committers { connector, context, open: BTreeMap::new() }
    }

    /// The committer of the build that runs now.
    pub(super) fn current(&mut self) -> Result<&mut Box<dyn Committer>, ConnectorError> {
        let digest = self.context.plugin.clone();
        self.of(&digest)
    }

    /// The committer of one build.
    pub(super) fn of(&mut self, plugin: &Option<String>) -> Result<&mut Box<dyn Committer>, ConnectorError> {
        if !self.open.contains_key(plugin) {
            let context = CommitterContext { plugin: plugin.clone(), ..self.context.clone() };
            let committer = self.connector.committer(&context)?;
            let committer = committer.ok_or_else(|| ConnectorError::permanent("the sink has no committer any more"))?;
            self.open.insert(plugin.clone(), committer);
        }
        Ok(self.open.get_mut(plugin).expect("inserted above"))
    }

    /// Commits a writer's transactions in order.
    pub(super) fn commit(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        self.each_build(what, false)
    }

    /// Asks what became of them.
    pub(super) fn status(&mut self, what: &[Committable]) -> Vec<CommitAnswer> {
        self.each_build(what, true)
    }

    fn each_build(&mut self, what: &[Committable], ask: bool) -> Vec<CommitAnswer> {
        let mut all = Vec::with_capacity(what.len());
        for run in what.chunk_by(|a, b| a.plugin == b.plugin) {
            let answers = match self.of(&run[0].plugin) {
                Err(error) => vec![CommitAnswer::Unknown(error.message); run.len()],
                Ok(committer) if ask => committer.status(run),
                Ok(committer) => committer.commit(run),
            };
            let done = answers.iter().all(|a| matches!(a, CommitAnswer::Committed | CommitAnswer::AlreadyCommitted));
            all.extend(answers);
            if !done && !ask {
                all.resize(what.len(), CommitAnswer::Retryable("an earlier one is not committed yet".into()));
                break;
            }
        }
        all
    }

    /// A clean end.
    pub(super) fn close(&mut self, finished: bool) {
        for (_, committer) in std::mem::take(&mut self.open) {
            if let Err(error) = committer.close(finished) {
                tracing::warn!(%error, "the sink's committer did not end cleanly");
            }
        }
    }
}
