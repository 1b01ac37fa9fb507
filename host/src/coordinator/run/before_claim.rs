//! What a start looks at before it claims the job.

use super::{Early, JobRun, refused};
use crate::connectors::ConnectorError;
use crate::coordinator::targets::standing;
use crate::graph::SinkSpec;
use crate::job::{JobEvent, JobOutcome, StartMode};
use weir_protocol::Generation;
use weir_protocol::log::LogView;

impl JobRun {
    /// What can be refused without a trace: sources without input, sink targets that can't be used, output that would be
    /// written again, a checkpoint that does not fit or is not whole.
    pub(super) async fn check_before_claim(&mut self) -> Result<(), Early> {
        let entries =
            self.log.read_entries().await.map_err(|error| Box::new(refused("checkpoint storage", error.to_string(), "")))?;
        let view = LogView::new(entries);
        let (first_start, next_generation) = (view.entries().is_empty(), view.next_generation());
        if first_start || self.mode == StartMode::Fresh {
            self.splits(None).map_err(|failure| Box::new(refused(&failure.place, failure.message, "")))?;
        }
        for (sink, spec) in self.parts.sinks.iter().zip(&self.parts.graph.sinks) {
            let place = format!("sink {}", spec.name);
            let refusal = |error: ConnectorError| Box::new(JobOutcome::Refused { problems: vec![error.at(&place)] });
            sink.prepare_target().map_err(refusal)?;
            let Some(newest) = sink.output().map_err(refusal)? else { continue };
            let target = sink.target().map_or(String::new(), |target| target.display().to_string());
            if first_start && sink.is_shared() && !self.options.take_over {
                return Err(Box::new(refused(
                    &place,
                    format!(
                        "this job has never run with this data folder, but the brokers know transactions of {target}: another \
                         checkout of this job has used them, or its data folder is gone"
                    ),
                    "give this sink a transaction_prefix of its own; or say --take-over: what is open under those names is aborted",
                )));
            }
            if first_start && !sink.is_shared() && !self.options.allow_duplicates {
                return Err(Box::new(refused(
                    &place,
                    format!(
                        "this job has never run with this data folder, but {target} holds committed output of an earlier run"
                    ),
                    "move that output away, or say --allow-duplicates to write beside it",
                )));
            }
            if newest < next_generation {
                continue;
            }
            self.above = self.above.max(newest);
            if !self.options.allow_duplicates && self.wrote_there(&view, spec).await {
                return Err(Box::new(refused(
                    &place,
                    format!(
                        "{target} holds output of generation {newest}, which this job's log does not know: the data folder is an older \
                         copy, or another job writes there, too. Going on from the log would write again what is there"
                    ),
                    "bring back the newest data folder, or move that output away, or say --allow-duplicates",
                )));
            }
            if !first_start {
                (self.listener)(JobEvent::Notice(format!(
                    "sink {}: {target} holds output that this job has not written; its own files begin with generation {} there",
                    spec.name,
                    u64::from(newest.0) + 1
                )));
            }
            if newest == Generation(u32::MAX) {
                let what =
                    format!("{target} holds output of generation {newest}, the highest there is: no name is left beside it");
                return Err(Box::new(refused(&place, what, "move that output away")));
            }
        }
        if let StartMode::From(id) = self.mode
            && view.find(id).is_some()
        {
            let manifest = self.manifest(id).await?;
            self.check_fit(&manifest).await?;
            for file in manifest.files() {
                if let Err(error) = self.store.check(file).await {
                    return Err(Box::new(self.cannot_restore(Some(id), error.to_string()).await));
                }
            }
        }
        Ok(())
    }

    /// Whether the newest checkpoint has this sink at the place where the job file has it.
    async fn wrote_there(&self, view: &LogView, spec: &SinkSpec) -> bool {
        let Some((_, newest)) = view.newest() else { return false };
        let manifest = self.log.manifest(newest.id).await;
        // One that can't be read is told of by what reads it next.
        let stored = manifest.ok().and_then(|manifest| manifest.sinks.get(&spec.name).cloned());
        stored.is_some_and(|stored| standing(&stored.section) == standing(&spec.section))
    }
}
