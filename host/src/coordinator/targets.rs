//! Where a recovery finds transactions: at every sink of the job file, and wherever a checkpoint that is kept says that a sink
//! stood.
//!
//! A transaction is committed where it was prepared. So its committer is opened with the section of the manifest, whatever the
//! job file says of a sink of that name by now; it may name another place, another connector, or no such sink at all.

use super::commits::Place;
use super::deploy::JobParts;
use super::losses::lost_transaction;
use super::outside::RecoveryError;
use crate::channel::SourceSpan;
use crate::connectors::{Committable, ConnectorError, SinkConnector, SplitState};
use crate::graph::job_file::sink_from_section;
use crate::graph::{SinkConnectorSpec, SinkSpec};
use crate::store::manifest::{CommittableManifest, Manifest, SinkManifest};
use base64::Engine as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_protocol::TransactionId;
use weir_protocol::commit::coordinator::LossReason;
use weir_protocol::recovery::RecoveryPlan;

/// A sink, at one of its places, whose transactions this job has to end.
pub struct Target {
    /// Where.
    pub place: Place,
    /// The sink's name.
    pub name: String,
    /// How it is reached.
    pub connector: Arc<dyn SinkConnector>,
    /// What the newest checkpoint contains of it.
    pub contained: Vec<Committable>,
}

/// What the targets are found from.
pub struct Finding<'a> {
    /// The job.
    pub parts: &'a JobParts,
    /// Splits for the names of lost ranges.
    pub splits: &'a [Vec<SplitState>],
    /// The newest completed checkpoint.
    pub newest: Option<&'a Manifest>,
    /// All that are kept and can be read, newest first.
    pub kept: &'a [Manifest],
    /// What has to be done.
    pub plan: &'a RecoveryPlan,
    /// Makes sinks as they stood.
    pub connector_of: &'a dyn Fn(&SinkSpec) -> Result<Arc<dyn SinkConnector>, ConnectorError>,
}

/// What of a sink's section says where its transactions lie and who can reach them. Limits, inputs and parallelism may change.
pub(super) fn standing(section: &Value) -> Vec<Value> {
    ["connector", "path", "config", "grants", "brokers", "transaction_prefix"]
        .map(|key| section.get(key).cloned().unwrap_or_default())
        .into()
}

impl Finding<'_> {
    /// Every target: first those of the job file, in its order, then the former ones, newest first.
    pub fn targets(&self) -> Result<Vec<Target>, RecoveryError> {
        let sinks = self.parts.graph.sinks.iter().zip(&self.parts.sinks).enumerate();
        let mut targets: Vec<Target> = sinks
            .filter(|(_, (_, connector))| connector.is_transactional())
            .map(|(index, (spec, connector))| Target {
                place: Place::JobFile(index),
                name: spec.name.clone(),
                connector: Arc::clone(connector),
                contained: Vec::new(),
            })
            .collect();
        let mut seen: BTreeSet<(&str, String)> = BTreeSet::new();
        for manifest in self.newest.into_iter().chain(self.kept) {
            for (name, stored) in &manifest.sinks {
                // The newest one comes first, and only what it contains is to be committed.
                if seen.insert((name, Value::from(standing(&stored.section)).to_string())) {
                    self.add(manifest, name, stored, &mut targets)?;
                }
            }
        }
        let contained = targets.iter().map(|target| target.contained.len()).sum::<usize>();
        assert_eq!(contained, self.plan.commit.len(), "T3: all that the newest checkpoint contains has a target");
        Ok(targets)
    }

    fn add(
        &self,
        manifest: &Manifest,
        name: &str,
        stored: &SinkManifest,
        targets: &mut Vec<Target>,
    ) -> Result<(), RecoveryError> {
        let contained = self.contained(manifest, stored)?;
        let spec = self.parts.graph.sinks.iter().find(|spec| spec.name == name);
        let current = targets.iter_mut().find(|target| target.name == name && matches!(target.place, Place::JobFile(_)));
        if let (Some(current), Some(spec)) = (current, spec) {
            let same_kind = spec.section.get("connector") == stored.section.get("connector");
            if standing(&spec.section) == standing(&stored.section) || same_kind && is_gone(&stored.section) {
                // A folder that is gone may have been moved with all that is staged in it: the connector sees.
                current.contained.extend(contained);
                return Ok(());
            }
        }
        let place = Place::Former { said_by: manifest.id.clone() };
        match self.open(stored, &contained) {
            Ok(connector) if connector.is_transactional() => {
                targets.push(Target { place, name: name.to_owned(), connector, contained });
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(why) if contained.is_empty() => {
                // Nothing of it was promised to anybody.
                tracing::warn!(sink = name, checkpoint = manifest.id, why, "a former place of a sink can't be tidied up");
                Ok(())
            }
            Err(why) => {
                let reason = LossReason::Exhausted(place.explain(why));
                let lost =
                    |one: Committable| lost_transaction(&self.parts.graph, self.splits, Some(&one), one.id.clone(), &reason);
                Err(RecoveryError::Lost(contained.into_iter().map(lost).collect()))
            }
        }
    }

    /// What is to be committed.
    fn contained(&self, manifest: &Manifest, stored: &SinkManifest) -> Result<Vec<Committable>, RecoveryError> {
        if self.newest.is_none_or(|newest| newest.id != manifest.id) {
            return Ok(Vec::new());
        }
        let mut contained = committables_of(self.parts, manifest, stored)
            .map_err(|why| RecoveryError::Failed(format!("checkpoint {}: {why}", manifest.id)))?;
        // After `finished` all of it is known committed, and its markers are forgotten: no call.
        contained.retain(|committable| self.plan.commit.contains(&committable.id));
        Ok(contained)
    }

    fn open(&self, stored: &SinkManifest, contained: &[Committable]) -> Result<Arc<dyn SinkConnector>, String> {
        let mut spec = sink_from_section(&stored.section, &|variable| std::env::var(variable).ok())
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        if let SinkConnectorSpec::Plugin { sha256, .. } = &mut spec.connector {
            // The build that made them is at hand, wherever its file is by now.
            *sha256 = contained.first().and_then(|one| one.plugin.clone()).or(sha256.take());
        }
        (self.connector_of)(&spec).map_err(|error| error.message)
    }
}

/// Whether a file sink's folder is not there any more.
fn is_gone(section: &Value) -> bool {
    let connector = section.get("connector").and_then(Value::as_str);
    let path = section.get("path").and_then(Value::as_str);
    connector == Some("file") && path.is_some_and(|path| !std::path::Path::new(path).exists())
}

/// Committables of a sink as a manifest holds them. Source ranges refer to the job as it is now; one that has left it is
/// dropped from the ranges.
fn committables_of(parts: &JobParts, manifest: &Manifest, sink: &SinkManifest) -> Result<Vec<Committable>, String> {
    let split_of = |source: &str, split: &str| -> Option<(u16, u32)> {
        let index = parts.graph.sources.iter().position(|spec| spec.name == source)?;
        let at = manifest.sources.get(source)?.splits.iter().position(|own| own.split == split)?;
        Some((index as u16, at as u32))
    };
    sink.committables
        .iter()
        .map(|stored| {
            let ranges = stored.sources.iter().filter_map(|(source, split, first, last)| {
                let (source, split) = split_of(source, split)?;
                Some(SourceSpan { source, split, first: *first, last: *last })
            });
            committable_of(stored, ranges.collect())
        })
        .collect()
}

/// A committable as a manifest holds it, with its source ranges in the terms of the job as it is now.
pub(super) fn committable_of(stored: &CommittableManifest, sources: Vec<SourceSpan>) -> Result<Committable, String> {
    Ok(Committable {
        id: stored.id.parse::<TransactionId>().map_err(|error| error.to_string())?,
        checkpoint: stored.checkpoint.parse().map_err(|error: weir_protocol::ParseIdError| error.to_string())?,
        version: stored.version,
        bytes: base64::engine::general_purpose::STANDARD.decode(&stored.bytes).map_err(|error| error.to_string())?,
        plugin: stored.plugin.clone(),
        sources,
        valid_until: None,
    })
}
