//! From the text of a job file to a [`JobGraph`]: everything is checked here once, and all problems are listed together.

use super::cycles;
use super::document::{Document, Section, Text, kind};
use super::environment::Lookup;
use super::job_graph::*;
use super::kafka_spec::TransactionNeeds;
use super::names::{Names, check_name};
use super::nodes::{self, NodeDefaults};
use super::paths;
use super::problem::Problem;
use crate::memory;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Subtasks of one stage at most: each is a thread.
pub const MAX_PARALLELISM: u32 = 1_024;

/// Nodes of each kind at most.
const MAX_NODES: usize = 1_000;

/// Reads and checks a job file. `lookup`: gives the environment's variables.
pub fn load(file: &Path, lookup: Lookup<'_>) -> Result<JobGraph, Vec<Problem>> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        vec![Problem::new(
            &shown,
            format!("the job file can't be read: {error}"),
            "give the path of a TOML file, as in: weir run job.toml",
        )]
    })?;
    let folder = folder_of(file).map_err(|error| {
        vec![Problem::new(&shown, format!("the job file's folder can't be resolved: {error}"), "check that you may enter it")]
    })?;
    parse(&text, file, &folder, lookup)
}

/// Checks the text of a job file. `folder`: where relative paths start, canonical.
pub fn parse(text: &str, file: &Path, folder: &Path, lookup: Lookup<'_>) -> Result<JobGraph, Vec<Problem>> {
    let document = Document::new(file.display().to_string(), text, lookup);
    let root = document.parse();
    // Of a file with syntax errors only a part was read: what is missing there is no news.
    if document.has_problems() {
        return Err(document.finish().expect_err("there are problems"));
    }
    let graph = read(&document, root.get_ref(), file, folder);
    let settings = document.finish()?;
    Ok(JobGraph { settings, ..graph })
}

/// A sink as a manifest keeps it ([`SinkSpec::section`]): to commit and abort what it prepared when it no longer stands in
/// the job file. Its inputs are empty.
pub fn sink_from_section(section: &serde_json::Value, lookup: Lookup<'_>) -> Result<SinkSpec, Vec<Problem>> {
    let place = "sink section of a checkpoint's manifest";
    let text = toml::to_string(section).map_err(|error| {
        vec![Problem::new(
            place,
            format!("it is no job file section: {error}"),
            "the manifest was made by another version of weir",
        )]
    })?;
    let document = Document::new(place.to_owned(), &text, lookup);
    let root = document.parse();
    let sink = nodes::stored_sink(&document, root.get_ref());
    document.finish()?;
    Ok(sink)
}

fn folder_of(file: &Path) -> std::io::Result<PathBuf> {
    // The folder, not the file, is canonical: a linked job file reads the data beside the link.
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.canonicalize(),
        _ => Path::new(".").canonicalize(),
    }
}

/// What `[job]` says.
struct Head {
    name: String,
    parallelism: u32,
    dead_letter: Option<Text>,
}

fn read(document: &Document<'_>, root: &DeTable<'_>, file: &Path, folder: &Path) -> JobGraph {
    let empty = DeTable::new();
    let mut top = Section::new(document, "", 0..0, root);
    let head = read_job(section(&mut top, "job", "[job]", &empty), root.contains_key("job"));
    let checkpoint = read_checkpoint(section(&mut top, "checkpoint", "[checkpoint]", &empty));
    let state = read_state(section(&mut top, "state", "[state]", &empty));
    let restart = read_restart(section(&mut top, "restart", "[restart]", &empty));

    let sources = list(&mut top, "source");
    let operators = list(&mut top, "operator");
    let sinks = list(&mut top, "sink");
    for (nodes, key) in [(&sources, "source"), (&sinks, "sink")] {
        if nodes.is_empty() && !root.contains_key(key) {
            top.problem(0..0, format!("the job has no {key}"), format!("add a section [[{key}]]"));
        }
    }
    let names = Names::collect(document, &sources, &operators, &sinks);
    let dead_letter = head.dead_letter.as_ref().and_then(|text| dead_letter_sink(document, &names, text));
    let defaults = NodeDefaults {
        job: &head.name,
        transactions: TransactionNeeds {
            interval: checkpoint.interval + checkpoint.min_pause,
            checkpoint_timeout: checkpoint.timeout,
            restart_delay: match restart.strategy {
                RestartStrategy::Exponential => restart.max_delay,
                RestartStrategy::Fixed | RestartStrategy::None => restart.delay,
            },
        },
        parallelism: head.parallelism,
        folder,
        names: &names,
        dead_letter,
        wants_dead_letter: head.dead_letter.is_some(),
    };
    let graph = JobGraph {
        name: head.name.clone(),
        file: file.to_path_buf(),
        folder: folder.to_path_buf(),
        dead_letter,
        checkpoint,
        state,
        restart,
        sources: sources.into_iter().map(|section| nodes::source(section, &defaults)).collect(),
        operators: operators.into_iter().map(|section| nodes::operator(section, &defaults)).collect(),
        sinks: sinks.into_iter().enumerate().map(|(index, section)| nodes::sink(section, index, &defaults)).collect(),
        settings: Vec::new(),
    };
    top.finish();
    // These look at the whole; with a wrong part they would only repeat what is said already.
    if !document.has_problems() {
        check_sink_paths(document, &graph, &names);
        check_prefixes(document, &graph, &names);
        check_reached(document, &graph, &names);
        check_cycle(document, &graph, &names);
    }
    graph
}

/// A table `[key]`, or an empty one in its place.
fn section<'d, 'a>(top: &mut Section<'d, 'a>, key: &'static str, title: &str, empty: &'d DeTable<'a>) -> Section<'d, 'a> {
    let document = top.document;
    match top.get(key) {
        None => Section::new(document, title, 0..0, empty),
        Some(value) => match value.get_ref() {
            DeValue::Table(table) => Section::new(document, title, value.span(), table),
            _ => {
                top.problem(value.span(), format!("'{key}' is {}, not a table", kind(value)), format!("write a section {title}"));
                Section::new(document, title, value.span(), empty)
            }
        },
    }
}

/// The tables of `[[key]]`, each titled with its name.
fn list<'d, 'a>(top: &mut Section<'d, 'a>, key: &'static str) -> Vec<Section<'d, 'a>> {
    let document = top.document;
    let Some(value) = top.get(key) else { return Vec::new() };
    let DeValue::Array(array) = value.get_ref() else {
        top.problem(
            value.span(),
            format!("'{key}' is {}, not a list of sections", kind(value)),
            format!("write [[{key}]], with two brackets"),
        );
        return Vec::new();
    };
    if array.len() > MAX_NODES {
        top.problem(value.span(), format!("{} sections [[{key}]], more than {MAX_NODES}", array.len()), "split the job");
        return Vec::new();
    }
    let mut sections = Vec::with_capacity(array.len());
    for item in array.iter() {
        match item.get_ref() {
            DeValue::Table(table) => sections.push(Section::new(document, node_title(key, table), item.span(), table)),
            _ => top.problem(
                item.span(),
                format!("an entry of '{key}' is {}, not a table", kind(item)),
                format!("write [[{key}]]"),
            ),
        }
    }
    sections
}

fn node_title(key: &str, table: &DeTable<'_>) -> String {
    match table.get("name").map(Spanned::get_ref) {
        Some(DeValue::String(name)) => format!("[[{key}]] {name}"),
        _ => format!("[[{key}]]"),
    }
}

fn read_job(mut section: Section<'_, '_>, present: bool) -> Head {
    let name = if present {
        section.required_text("name", "give the job a name: it names state, transactions and the data folder")
    } else {
        section.missing("name", "begin the file with [job] and name = \"…\"");
        section.get("name");
        None
    };
    if let Some(name) = &name {
        check_name(&section, name);
    }
    let parallelism =
        section.whole("parallelism", 1..=u64::from(MAX_PARALLELISM), 1, "one subtask a stage, unless a stage sets its own");
    let dead_letter = section.text("dead_letter");
    section.finish();
    Head { name: name.map(|name| name.resolved).unwrap_or_default(), parallelism: parallelism as u32, dead_letter }
}

fn read_checkpoint(mut section: Section<'_, '_>) -> CheckpointConfig {
    const SECOND: Duration = Duration::from_secs(1);
    let interval = section.duration("interval", SECOND, "committed output is at most about this old");
    if interval < Duration::from_millis(10) {
        section.problem(section.span_of("interval"), "'interval' is below 10ms", "a checkpoint needs a few milliseconds itself");
    }
    let timeout = section.duration("timeout", 120 * SECOND, "a checkpoint that takes longer is aborted and tried again");
    if timeout.is_zero() {
        section.problem(section.span_of("timeout"), "'timeout' is zero", "give a checkpoint time to complete");
    }
    let min_pause = section.duration("min_pause", Duration::ZERO, "the next one may follow at once");
    let max_concurrent = section.whole("max_concurrent", 1..=16, 1, "one at a time puts the least load on the job");
    let tolerable_failures = section.whole("tolerable_failures", 0..=1_000_000, 3, "more aborted in a row restart the job");
    let modes = [("aligned", ())];
    section.choice("mode", &modes, &["unaligned"], Some(("aligned", "records in flight stay out of the snapshot")));
    let storage = read_storage(&mut section);
    let retain = section.whole("retain", 1..=10_000, 3, "older completed ones are deleted");
    section.finish();
    CheckpointConfig {
        interval,
        timeout,
        min_pause,
        max_concurrent: max_concurrent as u32,
        tolerable_failures: tolerable_failures as u32,
        storage,
        retain: retain as u32,
    }
}

fn read_storage(section: &mut Section<'_, '_>) -> Option<PathBuf> {
    let Some(text) = section.text("storage") else {
        // A wrong value has had its problem already.
        if !section.has("storage") {
            section.note("storage", "\"checkpoints\"", Some("a folder in the data folder"));
        }
        return None;
    };
    const HINT: &str = "give a folder, relative to the data folder or as file:///…";
    if text.resolved.is_empty() {
        section.problem(text.span, "'storage' is empty", HINT);
        return None;
    }
    let Some((scheme, rest)) = text.resolved.split_once("://") else { return Some(PathBuf::from(&text.resolved)) };
    match scheme {
        "file" if rest.starts_with('/') => Some(PathBuf::from(rest)),
        "file" => {
            section.problem(text.span, "'storage' must have three slashes after file:", HINT);
            None
        }
        "s3" | "gs" | "az" => {
            section.problem(text.span, format!("storage at {scheme}:// is not in this version"), HINT);
            None
        }
        _ => {
            section.problem(text.span, format!("storage at '{}' is not known", text.raw), HINT);
            None
        }
    }
}

/// `cache` of a job that does not say: what holds 20 million small keys, but never most of the memory. Only what state there is
/// takes it.
pub(super) fn cache_within(usable_bytes: Option<u64>) -> u64 {
    let whole_mib = |bytes: u64| bytes >> 20 << 20;
    usable_bytes.map_or(256 << 20, |usable| whole_mib(usable / 4).clamp(16 << 20, 1 << 30))
}

fn read_state(mut section: Section<'_, '_>) -> StateConfig {
    let backends = [("rocksdb", BackendKind::RocksDb), ("memory", BackendKind::Memory)];
    let why = "state may outgrow memory; hot keys stay in the cache";
    let backend = section.choice("backend", &backends, &[], Some(("rocksdb", why))).unwrap_or(BackendKind::RocksDb);
    let cache = cache_within(memory::usable_bytes());
    let cache_bytes =
        section.size("cache", cache, "state in memory, for the whole job: 1GiB, or a quarter of the memory there is");
    if cache_bytes < 1 << 20 {
        section.problem(section.span_of("cache"), "'cache' is below 1MiB", "give the hot keys some room");
    }
    section.later("ttl");
    section.finish();
    StateConfig { backend, cache_bytes }
}

fn read_restart(mut section: Section<'_, '_>) -> RestartConfig {
    let strategies =
        [("exponential", RestartStrategy::Exponential), ("fixed", RestartStrategy::Fixed), ("none", RestartStrategy::None)];
    let why = "the delay doubles, so that a passing fault is over soon and a lasting one costs little";
    let strategy =
        section.choice("strategy", &strategies, &[], Some(("exponential", why))).unwrap_or(RestartStrategy::Exponential);
    let delay = section.duration("delay", Duration::from_secs(1), "before the first restart");
    let max_delay = section.duration("max_delay", Duration::from_secs(60), "the delay grows no further");
    if delay > max_delay && strategy == RestartStrategy::Exponential {
        section.problem(section.span_of("delay"), "'delay' is above 'max_delay'", "raise max_delay or lower delay");
    }
    let attempts = section.whole("attempts", 0..=u64::from(u32::MAX), 10, "restarts in a row before the job fails for good");
    let reset_after =
        section.duration("reset_after", Duration::from_secs(600), "so long without a failure starts the count anew");
    section.finish();
    RestartConfig { strategy, delay, max_delay, attempts: attempts as u32, reset_after }
}

fn dead_letter_sink(document: &Document<'_>, names: &Names, text: &Text) -> Option<usize> {
    match names.sink(&text.resolved) {
        Some(index) => Some(index),
        None => {
            let what = format!("'dead_letter' names no sink: {}", text.raw);
            document.problem(text.span.clone(), "[job]", what, names.suggest_sink(&text.resolved));
            None
        }
    }
}

/// Two sinks with one path would take each other's files for their own.
fn check_sink_paths(document: &Document<'_>, graph: &JobGraph, names: &Names) {
    let mut seen: Vec<(PathBuf, usize)> = Vec::new();
    for (index, sink) in graph.sinks.iter().enumerate() {
        for path in sink.folders() {
            let path = paths::canonical(path);
            if let Some((_, other)) = seen.iter().find(|(known, other)| *known == path && *other != index) {
                let what = format!("writes to the same folder as the sink '{}'", graph.sinks[*other].name);
                document.problem(
                    names.sink_span(index),
                    &format!("[[sink]] {}", sink.name),
                    what,
                    "give each sink a path of its own",
                );
            }
            seen.push((path, index));
        }
    }
}

/// Two sinks with one prefix would end each other's transactions.
fn check_prefixes(document: &Document<'_>, graph: &JobGraph, names: &Names) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, sink) in graph.sinks.iter().enumerate() {
        let SinkConnectorSpec::Kafka(kafka) = &sink.connector else { continue };
        // One cluster may be reached by several addresses: they are not compared.
        if let Some((_, other)) = seen.iter().find(|(prefix, _)| *prefix == kafka.prefix) {
            document.problem(
                names.sink_span(index),
                &format!("[[sink]] {}", sink.name),
                format!("has the transaction_prefix '{}' of the sink '{other}'", kafka.prefix),
                "give each sink a prefix of its own, or leave it out: it is then made of the job's name and the sink's",
            );
        }
        seen.push((&kafka.prefix, &sink.name));
    }
}

/// A source that nobody reads, and a dead-letter sink that nothing reaches, are mistakes.
fn check_reached(document: &Document<'_>, graph: &JobGraph, names: &Names) {
    let inputs =
        || graph.operators.iter().flat_map(|operator| &operator.inputs).chain(graph.sinks.iter().flat_map(|sink| &sink.inputs));
    for (index, source) in graph.sources.iter().enumerate() {
        if !inputs().any(|input| input.from == Endpoint::Source(index)) {
            let next = format!("add from = \"{}\" to an operator or a sink", source.name);
            document.problem(names.source_span(index), &format!("[[source]] {}", source.name), "nothing reads it", next);
        }
    }
    if let Some(index) = graph.dead_letter
        && graph.sinks[index].inputs.is_empty()
        && !graph.operators.iter().any(|operator| operator.on_bad_record == BadRecordPolicy::DeadLetter)
    {
        let next =
            "set on_bad_record = \"dead-letter\" at an operator, or take the sink out of [job].dead_letter and give it a 'from'";
        let title = format!("[[sink]] {}", graph.sinks[index].name);
        document.problem(names.sink_span(index), &title, "no operator sends bad records to this dead-letter sink", next);
    }
}

fn check_cycle(document: &Document<'_>, graph: &JobGraph, names: &Names) {
    if let Err(cycle) = cycles::operators_in_order(graph) {
        let shown: Vec<&str> = cycle.iter().map(|&index| graph.operators[index].name.as_str()).collect();
        let span: Range<usize> = names.operator_span(cycle[0]);
        let what = format!("the operators form a cycle: {}", shown.join(" → "));
        document.problem(
            span,
            &format!("[[operator]] {}", shown[0]),
            what,
            "cut one of these edges: records must flow from sources to sinks",
        );
    }
}
