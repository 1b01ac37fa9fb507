//! Whether a checkpoint can be restored into the job as it is now, and what of it goes where.
//!
//! Rules (until rescale and migration exist): an operator with state of keys keeps its parallelism, state names, kinds and schema versions;
//! its backend may change, since all of them read the same files; a rebuilt plugin with the same states is taken; an added
//! operator starts empty; a stateful operator may not be removed; one whose end calls are made gets no input that it has not
//! seen the end of. Sources and sinks may change their parallelism.

use super::deploy::JobParts;
use super::ended_inputs;
use crate::graph::BackendKind;
use crate::store::manifest::{Manifest, OperatorManifest, StateManifest};
use weir_plugin::state::{KEY_GROUPS, KEY_HASH};

/// What the user should hear although the checkpoint can be restored.
pub type Notices = Vec<String>;

/// The backend that the job file asks for; its name stands in manifests.
pub fn backend_of(kind: BackendKind) -> crate::state::BackendKind {
    match kind {
        BackendKind::RocksDb => crate::state::BackendKind::Rocks,
        BackendKind::Memory => crate::state::BackendKind::Memory,
    }
}

/// Checks a checkpoint against the job.
///
/// # Errors
/// Every reason why it can't be restored, in one text.
pub fn check(parts: &JobParts, manifest: &Manifest) -> Result<Notices, String> {
    let (mut notices, mut faults) = (Notices::new(), Vec::new());
    if manifest.key_groups != KEY_GROUPS || manifest.key_hash != KEY_HASH {
        faults.push(format!(
            "its keys are spread over {} groups by {}, this build uses {KEY_GROUPS} and {KEY_HASH}: run the build of weir that wrote it",
            manifest.key_groups, manifest.key_hash
        ));
    }
    for (o, spec) in parts.graph.operators.iter().enumerate() {
        match manifest.operators.get(&spec.name) {
            None => notices.push(format!("operator {} is new since checkpoint {}: it starts empty", spec.name, manifest.id)),
            Some(stored) => {
                check_operator(parts, o, stored, &mut notices, &mut faults);
                faults.extend(ended_inputs::fault(&parts.graph, manifest, o));
            }
        }
    }
    for (name, stored) in &manifest.operators {
        if parts.graph.operators.iter().any(|spec| spec.name == *name) {
            continue;
        }
        if stored.states.is_empty() && stored.parts().next().is_none() {
            notices.push(format!("operator {name} has left the job; it had no state"));
        } else if stored.states.is_empty() {
            faults.push(format!(
                "operator {name} has state of its own in it but has left the job file: put it back, or start over with --fresh"
            ));
        } else {
            faults.push(format!(
                "operator {name} has state in it ({}) but has left the job file: put it back, or start over with --fresh",
                state_names(&stored.states)
            ));
        }
    }
    for name in manifest.sources.keys().filter(|name| parts.graph.sources.iter().all(|spec| spec.name != **name)) {
        notices.push(format!("source {name} has left the job: its positions are given up"));
    }
    for spec in parts.graph.sources.iter().filter(|spec| !manifest.sources.contains_key(&spec.name)) {
        notices.push(match manifest.last {
            false => format!("source {} is new since checkpoint {}: it is read from its beginning", spec.name, manifest.id),
            true => format!(
                "source {} is new, but all input of the job had ended at checkpoint {}: it is not read (--fresh starts over)",
                spec.name, manifest.id
            ),
        });
    }
    if faults.is_empty() { Ok(notices) } else { Err(faults.join("; ")) }
}

fn state_names(states: &[StateManifest]) -> String {
    states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(super) fn described(states: &[StateManifest]) -> String {
    if states.is_empty() {
        return "no state".into();
    }
    let one = |state: &StateManifest| format!("{} ({}, schema {})", state.name, state.kind, state.schema_version);
    states.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn check_operator(parts: &JobParts, operator: usize, stored: &OperatorManifest, notices: &mut Notices, faults: &mut Vec<String>) {
    let spec = &parts.graph.operators[operator];
    let (name, states) = (&spec.name, &parts.states[operator]);
    if stored.states != *states {
        faults.push(format!(
            "operator {name} had {} and its plugin now declares {}: run the plugin that wrote it (sha256 {}), or start over with --fresh",
            described(&stored.states),
            described(states),
            stored.plugin
        ));
        return;
    }
    let own_parts = stored.parts().count();
    if own_parts > 0 && !parts.checkpointed[operator] {
        faults.push(format!(
            "operator {name} had state of its own ({own_parts} parts), and its plugin now gives no snapshots: run the plugin that wrote \
             it (sha256 {}), or start over with --fresh",
            stored.plugin
        ));
        return;
    }
    // A build that it was swapped to goes on: whoever takes it up says so.
    let was_swapped = stored.swap.as_ref().is_some_and(|swap| swap.file == parts.plugins[operator]);
    if stored.plugin != parts.plugins[operator] && !was_swapped {
        notices.push(format!(
            "operator {name} runs a rebuilt plugin ({} instead of {})",
            short(&parts.plugins[operator]),
            short(&stored.plugin)
        ));
    }
    if states.is_empty() {
        return;
    }
    if stored.parallelism != spec.parallelism {
        faults.push(format!(
            "operator {name} has state and ran with parallelism {}, the job file now says {}: set it back to {}, or start over with --fresh",
            stored.parallelism, spec.parallelism, stored.parallelism
        ));
    }
    let backend = backend_of(parts.graph.state.backend).name();
    if stored.backend != backend {
        notices.push(format!("operator {name} kept its state in backend {}: {backend} takes it over", stored.backend));
    }
}

pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
