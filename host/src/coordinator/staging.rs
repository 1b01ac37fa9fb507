//! Whether another build of an operator's plugin can take the place of the one that runs, found out while that one goes on
//! undisturbed: loaded and compiled, asked what it is without any grants, compared, and opened once for every subtask.

use super::compat::described;
use super::deploy::JobParts;
use super::provider::InstanceTask;
use crate::control::{BuildInfo, SwapReply};
use crate::graph::execution::NodeRef;
use crate::graph::{ExecutionGraph, PluginFacts, Problem};
use crate::task::operator::StreamOperator;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use weir_plugin::sha256_hex;
use weir_protocol::{Generation, SubtaskIndex};

/// A component, read.
pub struct Component {
    /// Where it was read, for messages.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
    /// Their sha256.
    pub digest: String,
}

impl Component {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let bytes = super::plugins::read_plugin(path)
            .map_err(|error| Problem::new(&name, format!("the plugin can't be read: {error}"), "name a component"))?;
        Ok(Component { name, digest: sha256_hex(&bytes), bytes: bytes.into() })
    }
}

/// A build that fits, with an open instance for every subtask of its operator.
pub struct Staged {
    /// What it says of itself.
    pub facts: PluginFacts,
    /// The instances, in order of the subtasks.
    pub instances: Vec<Box<dyn StreamOperator>>,
    /// What a client is to be told.
    pub told: SwapReply,
}

/// Subtasks in which an operator runs.
pub fn subtasks_of(execution: &ExecutionGraph, operator: usize) -> Vec<SubtaskIndex> {
    let here = |task: &&crate::graph::execution::TaskSpec| task.nodes.iter().any(|node| node.node == NodeRef::Operator(operator));
    let task = execution.tasks.iter().find(here).expect("every operator has a task");
    (0..task.parallelism).map(|subtask| task.subtask(subtask)).collect()
}

/// Looks at a component that is to take the place of `old`, and leaves it taken in.
pub fn stage(
    parts: &Arc<JobParts>,
    operator: usize,
    component: &Component,
    old: &PluginFacts,
    generation: Generation,
    on_probation: bool,
) -> Result<Staged, Problem> {
    let spec = &parts.graph.operators[operator];
    let facts = parts.provider.take_in(spec, &component.name, component.bytes.clone())?;
    let notes = check(parts, operator, old, &facts)?;
    let subtasks = subtasks_of(&parts.execution, operator).len() as u32;
    let open = |subtask: u32| {
        let task =
            InstanceTask { job: parts.graph.name.clone(), subtask, parallelism: subtasks, attempt: generation.0, on_probation };
        let opened = parts.provider.instantiate(spec, &facts.digest, task);
        let place = || format!("operator {}", spec.name);
        opened.map_err(|failure| Problem::new(place(), failure.message, "mend the plugin, or its config in the job file"))
    };
    let instances = (0..subtasks).map(open).collect::<Result<Vec<_>, _>>()?;
    let info = |facts: &PluginFacts| BuildInfo { sha256: facts.digest.clone(), version: facts.version.clone() };
    let told = SwapReply::Staged { old: info(old), new: info(&facts), subtasks, state: described(&facts.states), notes };
    Ok(Staged { facts, instances, told })
}

/// Whether `new` can go on where `old` stops; what is to be known besides.
fn check(parts: &JobParts, operator: usize, old: &PluginFacts, new: &PluginFacts) -> Result<Vec<String>, Problem> {
    let spec = &parts.graph.operators[operator];
    let place = || format!("operator {}", spec.name);
    if old.timers && !new.timers {
        let what = "the plugin that runs has timers, and this one does not export `timers`: those that are set would never fire";
        return Err(Problem::new(place(), what, "export `timers`, or change the plugin with --fresh"));
    }
    if old.states != new.states {
        let what = format!(
            "the state does not fit: the plugin that runs has {}, this one declares {}, and state is not migrated in this version",
            described(&old.states),
            described(&new.states)
        );
        return Err(Problem::new(place(), what, "keep names, order, kinds and schema versions of the states"));
    }
    if old.checkpointed || new.checkpointed {
        let whose = if old.checkpointed { "the plugin that runs" } else { "this one" };
        let what = format!("{whose} has state of its own, of no key, which is not handed over under way in this version");
        return Err(Problem::new(place(), what, "stop the job, and start it with the new component in the job file"));
    }
    // The graph that the job would have with it tells what else does not fit: inputs, side outputs that are read.
    let mut facts = parts.facts.clone();
    facts.insert(spec.name.clone(), new.clone());
    if let Err(problems) = ExecutionGraph::derive(&parts.graph, &facts) {
        let what = problems.iter().map(|problem| problem.what.as_str()).collect::<Vec<_>>().join("; ");
        return Err(Problem::new(place(), what, "keep inputs and side outputs of the plugin that runs"));
    }
    let mut notes = Vec::new();
    let unread = new.side_outputs.iter().filter(|side| !old.side_outputs.contains(side));
    notes.extend(unread.map(|side| format!("side output {side} is new: nothing reads it before a restart")));
    let asks = new.wasi.iter().filter(|interface| !old.wasi.contains(interface));
    notes.extend(asks.map(|interface| format!("it also imports {interface}")));
    if old.ends != new.ends {
        let word = if new.ends { "wants" } else { "no longer wants" };
        notes.push(format!("it {word} the calls at the end of the input"));
    }
    if spec.sha256.is_some() {
        notes.push("the job file pins another component: a restart goes on with this one all the same".to_owned());
    }
    Ok(notes)
}
