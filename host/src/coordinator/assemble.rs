//! Puts a manifest together from what the subtasks acknowledged.

use super::compat::backend_of;
use super::deploy::JobParts;
use super::upload::StoredSnapshot;
use crate::clock;
use crate::connectors::{Committable, SplitState};
use crate::store::manifest::{
    CommittableManifest, MANIFEST_FORMAT, Manifest, OperatorManifest, PartManifest, SinkManifest, SourceManifest,
    SourceWatermarks, SubtaskManifest, SwapManifest,
};
use base64::Engine as _;
use std::collections::{BTreeMap, BTreeSet};
use weir_plugin::state::{KEY_GROUPS, KEY_HASH};
use weir_protocol::swap::OperatorBuild;
use weir_protocol::{CheckpointId, Lineage, SubtaskIndex};

/// Everything acknowledged for one checkpoint, by subtask.
pub type Acknowledged = BTreeMap<SubtaskIndex, StoredSnapshot>;

/// What a manifest needs to know beyond the acknowledgements.
pub struct Frame<'a> {
    /// The job.
    pub parts: &'a JobParts,
    /// Splits of each source as the attempt began: those that no reader owns stay as they were.
    pub splits: &'a [Vec<SplitState>],
    /// The history.
    pub lineage: Lineage,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// True for the final checkpoint.
    pub last: bool,
    /// What runs once it is complete, by operator.
    pub builds: Vec<OperatorBuild>,
}

/// The committables of one sink in these acknowledgements, in prepare order for each writer.
pub fn committables_of(acknowledged: &Acknowledged, sink: usize) -> Vec<Committable> {
    acknowledged
        .values()
        .flat_map(|snapshot| &snapshot.sinks)
        .filter(|part| part.sink == sink)
        .flat_map(|part| part.committables.iter().cloned())
        .collect()
}

/// The manifest, not sealed yet.
pub fn assemble(frame: &Frame<'_>, acknowledged: &Acknowledged) -> Manifest {
    let graph = &frame.parts.graph;
    let sources = graph.sources.iter().enumerate().map(|(s, spec)| (spec.name.clone(), source(frame, acknowledged, s))).collect();
    let operators =
        graph.operators.iter().enumerate().map(|(o, spec)| (spec.name.clone(), operator(frame, acknowledged, o))).collect();
    let sinks = graph.sinks.iter().enumerate().map(|(s, spec)| (spec.name.clone(), sink(frame, acknowledged, s))).collect();
    Manifest {
        format: MANIFEST_FORMAT,
        job: graph.name.clone(),
        id: frame.checkpoint.to_string(),
        lineage: frame.lineage.to_string(),
        published_ms: clock::wall_ms(),
        key_groups: KEY_GROUPS,
        key_hash: KEY_HASH.to_owned(),
        last: frame.last,
        sources,
        operators,
        sinks,
        checksum: String::new(),
    }
}

fn source(frame: &Frame<'_>, acknowledged: &Acknowledged, source: usize) -> SourceManifest {
    let mut splits = frame.splits[source].clone();
    let mut ended = true;
    let mut watermarks = SourceWatermarks::default();
    let mut readers: Vec<_> =
        acknowledged.values().filter_map(|s| s.source.as_ref()).filter(|part| part.source == source).collect();
    readers.sort_by_key(|part| part.subtask);
    for part in readers {
        ended &= part.end_of_data;
        for (index, state) in &part.splits {
            splits[*index as usize] = state.clone();
        }
        let named = |(index, watermark): &(u32, i64)| (splits[*index as usize].split.clone(), *watermark);
        watermarks.splits.extend(part.split_watermarks.iter().map(named));
        watermarks.readers.push(part.watermark);
    }
    let has_any = !watermarks.splits.is_empty() || watermarks.readers.iter().any(Option::is_some);
    SourceManifest { splits, ended, watermarks: has_any.then_some(watermarks) }
}

fn operator(frame: &Frame<'_>, acknowledged: &Acknowledged, operator: usize) -> OperatorManifest {
    let graph = &frame.parts.graph;
    let spec = &graph.operators[operator];
    let mut parts: Vec<_> = acknowledged.values().flat_map(|s| &s.operators).filter(|o| o.operator == operator).collect();
    parts.sort_by_key(|part| part.subtask);
    let seen: BTreeSet<u32> = parts.iter().map(|part| part.subtask).collect();
    assert!(seen.len() == spec.parallelism as usize, "C2: checkpoint {} lacks a part of {}", frame.checkpoint, spec.name);
    OperatorManifest {
        parallelism: spec.parallelism,
        plugin: frame.builds[operator].runs.clone(),
        swap: SwapManifest::of(&frame.builds[operator]),
        backend: backend_of(graph.state.backend).name().to_owned(),
        states: frame.parts.states[operator].clone(),
        subtasks: parts
            .into_iter()
            .map(|part| SubtaskManifest {
                base: part.base.clone(),
                deltas: part.deltas.clone(),
                ended_inputs: part
                    .ended_ports
                    .iter()
                    .map(|port| graph.endpoint_name(&spec.inputs[*port as usize].from))
                    .collect(),
                end_of_data_sent: part.end_of_data_sent,
                watermark: part.watermark,
                output_watermark: part.output_watermark,
                parts: part.parts.as_ref().map(|parts| parts.iter().map(PartManifest::of).collect()),
            })
            .collect(),
    }
}

fn sink(frame: &Frame<'_>, acknowledged: &Acknowledged, sink: usize) -> SinkManifest {
    let graph = &frame.parts.graph;
    let committables = committables_of(acknowledged, sink)
        .into_iter()
        .map(|committable| CommittableManifest {
            id: committable.id.to_string(),
            checkpoint: committable.checkpoint.to_string(),
            version: committable.version,
            bytes: base64::engine::general_purpose::STANDARD.encode(&committable.bytes),
            plugin: committable.plugin.clone(),
            sources: committable
                .sources
                .iter()
                .map(|span| {
                    let split = &frame.splits[span.source as usize][span.split as usize].split;
                    (graph.sources[span.source as usize].name.clone(), split.clone(), span.first, span.last)
                })
                .collect(),
        })
        .collect();
    SinkManifest { section: graph.sinks[sink].section.clone(), committables }
}
