//! What is said of a transaction whose commit is lost or unknown: its identity, why, and the source ranges of its records.

use crate::channel::SourceSpan;
use crate::connectors::{Committable, SplitState};
use crate::graph::JobGraph;
use crate::job::{LostRange, LostTransaction};
use weir_protocol::commit::coordinator::LossReason;
use weir_protocol::{CheckpointId, TransactionId};

/// `splits`: those of each source as the attempt began. `committable`: none if its body is not known.
pub fn lost_transaction(
    graph: &JobGraph,
    splits: &[Vec<SplitState>],
    committable: Option<&Committable>,
    id: TransactionId,
    reason: &LossReason,
) -> LostTransaction {
    let (certain, why) = match reason {
        LossReason::Lost(why) => (true, why.clone()),
        LossReason::Exhausted(why) => (false, why.clone()),
    };
    let spans = committable.map_or(&[][..], |committable| &committable.sources);
    let sources = spans.iter().map(|span| range_of(graph, splits, span)).collect();
    let checkpoint = committable.map_or(CheckpointId::new(id.generation, 0), |committable| committable.checkpoint);
    LostTransaction { id, checkpoint, certain, why, sources }
}

fn range_of(graph: &JobGraph, splits: &[Vec<SplitState>], span: &SourceSpan) -> LostRange {
    // A source that left the job file since is named by its index.
    let source = graph.sources.get(span.source as usize).map_or(format!("#{}", span.source), |source| source.name.clone());
    let split = splits.get(span.source as usize).and_then(|own| own.get(span.split as usize));
    let split = split.map_or(format!("#{}", span.split), |split| split.split.clone());
    LostRange { source, split, first: span.first, last: span.last }
}
