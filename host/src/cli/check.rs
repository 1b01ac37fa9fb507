//! `weir check`: tells everything that can be known of a job before it runs. The output is a job file again.

use super::args::{CheckArgs, Common};
use super::exit::Exit;
use super::main::{load, refuse, usable_data_folder};
use super::output::Output;
use crate::connectors::{Guarantee, kafka_reach};
use crate::graph::describe::Description;
use crate::graph::{ExecutionGraph, JobGraph, Problem, Setting};
use crate::job::{NodeOutside, Outside, Runtime};
use serde::Serialize;
use std::path::Path;

/// Columns before a comment.
const COMMENT_COLUMN: usize = 44;

/// Runs the command.
pub(super) fn check(args: &CheckArgs, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Exit {
    let checked = match describe(args, runtime) {
        Ok(checked) => checked,
        Err(problems) => return refuse(&problems, common, output),
    };
    if common.json {
        output.json(&serde_json::to_value(&checked).expect("a description is plain data with text keys"));
    } else {
        for line in render(&checked, &args.job.job.display().to_string()) {
            output.result(line);
        }
    }
    Exit::Success
}

fn describe(args: &CheckArgs, runtime: &dyn Runtime) -> Result<Checked, Vec<Problem>> {
    let graph = load(&args.job)?;
    let data = usable_data_folder(&args.job, &graph)?;
    let facts = runtime.plugin_facts(&graph)?;
    let execution = ExecutionGraph::derive(&graph, &facts)?;
    let outside = if args.offline { Outside::default() } else { look_outside(&graph, &data, runtime) };
    if !outside.problems.is_empty() {
        return Err(outside.problems);
    }
    Ok(Checked { description: Description::of(&graph, &facts, &execution), outside: outside.nodes })
}

/// Whether each cluster answers is asked first, once: nodes of one that does not would wait for it one after the other.
fn look_outside(graph: &JobGraph, data: &Path, runtime: &dyn Runtime) -> Outside {
    let unreached = kafka_reach::unreached(graph);
    if unreached.is_empty() {
        return runtime.look_outside(graph, data);
    }
    let is_reached = |name: &String| !unreached.iter().any(|one| one.nodes.contains(name));
    let mut rest = graph.clone();
    rest.sources.retain(|source| is_reached(&source.name));
    rest.sinks.retain(|sink| is_reached(&sink.name));
    let mut outside = runtime.look_outside(&rest, data);
    outside.problems.extend(unreached.into_iter().map(|one| one.problem));
    outside
}

/// What is told.
#[derive(Serialize)]
struct Checked {
    #[serde(flatten)]
    description: Description,
    outside: Vec<NodeOutside>,
}

fn render(checked: &Checked, file: &str) -> Vec<String> {
    let Checked { description, outside } = checked;
    let mut lines = vec![format!("# {file}, with every default filled in: no problem was found.")];
    settings(&description.settings, &mut lines);
    let mut part = |title: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            lines.extend([String::new(), format!("# {title}")]);
            lines.extend(entries.into_iter().map(|entry| format!("#   {entry}")));
        }
    };
    part("Plugins", plugins(description));
    part("Permissions: what each plugin may reach outside", permissions(description));
    part("Threads: chains of nodes, times their parallelism", stages(description));
    part("Edges: how records are spread", edges(description));
    part("Guarantees: what each path from a source to a sink gives", paths(description));
    part("Outside", outside.iter().flat_map(of_node).collect());
    part("Note", description.notes.clone());
    lines
}

/// The settings as TOML, each section once; what has no value as a comment.
fn settings(settings: &[Setting], lines: &mut Vec<String>) {
    let mut section = "";
    for setting in settings {
        if setting.section != section {
            section = &setting.section;
            lines.extend([String::new(), header(section).to_owned()]);
        }
        lines.push(setting_line(setting));
    }
}

/// `[[operator]]` of `[[operator]] parse`: the name follows as a key.
fn header(section: &str) -> &str {
    section.split(' ').next().unwrap_or(section)
}

fn setting_line(setting: &Setting) -> String {
    let Setting { key, value, default, .. } = setting;
    match default {
        None => format!("{key} = {value}"),
        Some(why) if value.is_empty() => format!("# {key}: {why}"),
        Some(why) => {
            let assignment = format!("{key} = {value}");
            format!("{assignment:COMMENT_COLUMN$}# default: {why}")
        }
    }
}

fn plugins(description: &Description) -> Vec<String> {
    let mut lines = Vec::new();
    for plugin in &description.plugins {
        lines.push(format!("{}: sha256 {}", plugin.operator, plugin.sha256));
        let mut facts = Vec::new();
        if !plugin.states.is_empty() {
            facts.push(format!("keyed state: {}", plugin.states.join(", ")));
        }
        if plugin.operator_state {
            facts.push("has state of its own, of no key".to_owned());
        }
        if !plugin.side_outputs.is_empty() {
            facts.push(format!("side outputs: {}", plugin.side_outputs.join(", ")));
        }
        if plugin.end_of_input {
            facts.push("is told of the end of its input".to_owned());
        }
        if plugin.timers {
            facts.push("has timers".to_owned());
        }
        if !plugin.wasi.is_empty() {
            facts.push("of WASI it gets no more than this:".to_owned());
            facts.extend(plugin.wasi.iter().map(|import| format!("  {import}")));
        }
        lines.extend(facts.into_iter().map(|fact| format!("  {fact}")));
    }
    lines
}

fn permissions(description: &Description) -> Vec<String> {
    let mut lines = Vec::new();
    for permission in &description.permissions {
        lines.push(permission.place.clone());
        lines.extend(permission.may.iter().map(|may| format!("  may      {may}")));
        lines.push(format!("  may not  {}", permission.may_not.join(", ")));
    }
    lines
}

fn stages(description: &Description) -> Vec<String> {
    let width = description.stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or(0);
    description.stages.iter().map(|stage| format!("{:width$}  ×{}", stage.name, stage.parallelism)).collect()
}

fn edges(description: &Description) -> Vec<String> {
    let ends: Vec<String> = description.edges.iter().map(|edge| format!("{} → {}", edge.from, edge.to)).collect();
    let width = ends.iter().map(|end| end.chars().count()).max().unwrap_or(0);
    ends.iter().zip(&description.edges).map(|(end, edge)| format!("{end:width$}  {:9}  {}", edge.partition, edge.why)).collect()
}

fn paths(description: &Description) -> Vec<String> {
    let mut lines = Vec::new();
    for path in &description.paths {
        let mut nodes = vec![path.source.as_str()];
        nodes.extend(path.operators.iter().map(String::as_str));
        nodes.push(&path.sink);
        lines.push(format!("{}: {}", nodes.join(" → "), word(path.guarantee)));
        lines.extend(path.why.iter().map(|why| format!("  {why}")));
    }
    lines
}

fn of_node(node: &NodeOutside) -> Vec<String> {
    let facts = node.facts.iter().map(|fact| format!("  {fact}"));
    let warnings = node.warnings.iter().map(|warning| format!("  WARNING: {warning}"));
    [node.place.clone()].into_iter().chain(facts).chain(warnings).collect()
}

fn word(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::None => "none",
        Guarantee::AtLeastOnce => "at-least-once",
        Guarantee::ExactlyOnce => "exactly-once",
    }
}
