//! The sections `[[source]]`, `[[operator]]` and `[[sink]]`.

use super::document::{Document, Section, quote};
use super::edges;
use super::job_file::MAX_PARALLELISM;
use super::job_graph::*;
use super::kafka_settings;
use super::kafka_spec::TransactionNeeds;
use super::names::{Names, check_name};
use super::paths;
use super::plugin_settings;
use crate::connectors::Guarantee;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};
use weir_protocol::watermark::WatermarkBound;

/// What the nodes take from the rest of the job file.
pub(super) struct NodeDefaults<'n> {
    /// `[job].name`.
    pub job: &'n str,
    /// What the job asks of transactions that live outside.
    pub transactions: TransactionNeeds,
    /// `[job].parallelism`.
    pub parallelism: u32,
    /// Where relative paths start.
    pub folder: &'n Path,
    /// All names.
    pub names: &'n Names,
    /// The dead-letter sink.
    pub dead_letter: Option<usize>,
    /// Whether one is set, be it a right one or not.
    pub wants_dead_letter: bool,
}

const CONNECTOR_HINT: &str = "say where the records are: file, kafka or sequence";
const LATER_SOURCES: &[&str] = &["nexmark"];
const LATER_SINKS: &[&str] = &["postgres", "mysql", "mariadb", "doris", "starrocks"];

/// Which connector a source has.
#[derive(Clone, Copy)]
enum SourceKind {
    File,
    Kafka,
    Sequence,
}

/// Which connector a sink has.
#[derive(Clone, Copy)]
enum SinkKind {
    File,
    Kafka,
    Discard,
    Plugin,
}

/// Reads `[[source]]`.
pub(super) fn source(mut section: Section<'_, '_>, defaults: &NodeDefaults<'_>) -> SourceSpec {
    let name = name(&mut section);
    let kinds = [("file", SourceKind::File), ("kafka", SourceKind::Kafka), ("sequence", SourceKind::Sequence)];
    let kind = connector(&mut section, &kinds, LATER_SOURCES, CONNECTOR_HINT);
    let parallelism = parallelism(&mut section, defaults.parallelism);
    let rate = section.optional_whole("rate", 1..=u64::MAX);
    if !section.has("rate") {
        section.note("rate", "", Some("no limit: as fast as the job takes the records"));
    }
    let Some(kind) = kind else {
        // Without its connector nobody can say which other keys it has.
        return SourceSpec { name, parallelism, rate, watermark: None, connector: unknown_source() };
    };
    let watermark = source_watermark(&mut section, kind);
    let connector = match kind {
        SourceKind::File => file_source(&mut section, defaults.folder),
        SourceKind::Kafka => {
            let group = format!("weir-{}-{name}", defaults.job);
            SourceConnectorSpec::Kafka(Box::new(kafka_settings::source(&mut section, defaults.folder, &group)))
        }
        SourceKind::Sequence => sequence_source(&mut section),
    };
    section.finish();
    SourceSpec { name, parallelism, rate, watermark, connector }
}

/// `watermark` of a source, where its connector has event times by split.
fn source_watermark(section: &mut Section<'_, '_>, kind: SourceKind) -> Option<WatermarkBound> {
    let connector = match kind {
        SourceKind::Kafka => return watermark(section),
        SourceKind::File => "file",
        SourceKind::Sequence => "sequence",
    };
    if section.get("watermark").is_some() {
        let what = format!("a source with connector = \"{connector}\" can't have a watermark");
        section.problem(section.span_of("watermark"), what, "set 'watermark' on the operator that sets its records' times");
    }
    None
}

/// `watermark = { delay = "5s", idle = "30s" }`.
fn watermark(section: &mut Section<'_, '_>) -> Option<WatermarkBound> {
    if let Some(value) = section.get("watermark")
        && !value.get_ref().is_table()
    {
        let what = format!("'watermark' is {}, not a table", super::document::kind(value));
        section.problem(value.span(), what, "write watermark = { delay = \"5s\", idle = \"30s\" }");
        return None;
    }
    let mut table = section.table("watermark")?;
    let delay = table.optional_duration("delay");
    if !table.has("delay") {
        table.missing("delay", "say how much later than the newest record a record may come, as in delay = \"5s\"");
    }
    let idle = table.optional_duration("idle");
    if !table.has("idle") {
        table.note("idle", "", Some("never: event time waits for every input, also for one without records"));
    } else if idle.is_some_and(|idle| idle.is_zero()) {
        table.problem(table.span_of("idle"), "'watermark.idle' can't be 0s", "leave it out if inputs are never idle");
    }
    table.finish();
    let delay_ms = i64::try_from(delay.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(i64::MAX);
    Some(WatermarkBound { delay_ms, idle })
}

/// Stands in for a connector whose problem is on the list already.
fn unknown_source() -> SourceConnectorSpec {
    SourceConnectorSpec::Sequence { count: 0, keys: 1, value_bytes: 0, seed: 0 }
}

fn file_source(section: &mut Section<'_, '_>, folder: &Path) -> SourceConnectorSpec {
    let path = section.required_text("path", "give a file or a glob, relative to the job file, as in path = \"data/*.csv\"");
    if let Some(text) = &path {
        if text.resolved.is_empty() {
            section.problem(text.span.clone(), "'path' is empty", "give a file or a glob");
        } else if let Err(error) = glob::Pattern::new(&text.resolved) {
            let what = format!("'path' is no glob: {} at character {}", error.msg, error.pos + 1);
            section.problem(text.span.clone(), what, "use *, ?, [a-z] and **; [[] stands for a literal [");
        }
    }
    let formats = [("lines", FileFormat::Lines), ("raw", FileFormat::Raw)];
    let format = section.choice("format", &formats, &[], Some(("lines", "each line is a record, without its end")));
    let headers = [("skip", true), ("keep", false)];
    let skip_header =
        section.choice("header", &headers, &[], Some(("keep", "the first line is a record like any other"))).unwrap_or(false);
    if skip_header && format == Some(FileFormat::Raw) {
        section.problem(
            section.span_of("header"),
            "header = \"skip\" needs format = \"lines\"",
            "a raw file is one record: leave 'header' out",
        );
    }
    SourceConnectorSpec::File {
        path: paths::absolute_glob(folder, &path.map(|text| text.resolved).unwrap_or_default()),
        format: format.unwrap_or(FileFormat::Lines),
        skip_header,
    }
}

fn sequence_source(section: &mut Section<'_, '_>) -> SourceConnectorSpec {
    if !section.has("count") {
        section.missing("count", "say how many records it makes in all");
    }
    let count = section.optional_whole("count", 0..=u64::MAX).unwrap_or(0);
    let keys = section.whole("keys", 1..=u64::MAX, 1_000, "distinct keys, drawn alike");
    let value_bytes = section.whole("value_bytes", 0..=1 << 20, 100, "length of each value");
    let seed = section.whole("seed", 0..=u64::MAX, 0, "the same seed makes the same records");
    SourceConnectorSpec::Sequence { count, keys, value_bytes: value_bytes as usize, seed }
}

/// Reads `[[operator]]`.
pub(super) fn operator(mut section: Section<'_, '_>, defaults: &NodeDefaults<'_>) -> OperatorSpec {
    let name = name(&mut section);
    let plugin = plugin_settings::read(&mut section, defaults.folder);
    let parallelism = parallelism(&mut section, defaults.parallelism);
    let inputs = edges::inputs(&mut section, defaults.names, true);
    let policies =
        [("fail", BadRecordPolicy::Fail), ("drop", BadRecordPolicy::Drop), ("dead-letter", BadRecordPolicy::DeadLetter)];
    let why = "a bad record stops the job: nothing is left out unasked";
    let on_bad_record = section.choice("on_bad_record", &policies, &[], Some(("fail", why))).unwrap_or(BadRecordPolicy::Fail);
    if on_bad_record == BadRecordPolicy::DeadLetter && !defaults.wants_dead_letter {
        let next = "set [job].dead_letter to the name of a sink";
        section.problem(section.span_of("on_bad_record"), "on_bad_record = \"dead-letter\" has no sink to write to", next);
    }
    let watermark = watermark(&mut section);
    section.later("ttl");
    section.finish();
    OperatorSpec {
        name,
        plugin: plugin.path,
        sha256: plugin.sha256,
        parallelism,
        inputs,
        config: plugin.config,
        limits: plugin.limits,
        grants: plugin.grants,
        on_bad_record,
        watermark,
    }
}

/// Reads `[[sink]]`, the `index`-th one.
pub(super) fn sink(mut section: Section<'_, '_>, index: usize, defaults: &NodeDefaults<'_>) -> SinkSpec {
    // The dead-letter sink has the operators with that policy as its inputs; it may have others.
    let needs_input = defaults.dead_letter != Some(index);
    let parts = sink_parts(&mut section, (defaults.job, defaults.transactions), defaults.parallelism, defaults.folder);
    let inputs = edges::inputs(&mut section, defaults.names, needs_input);
    check_repeated_input(&section, &inputs);
    finish_sink(section, parts, inputs)
}

/// Reads a sink's section as a manifest keeps it: complete, its inputs of no interest.
pub(super) fn stored_sink(document: &Document<'_>, table: &DeTable<'_>) -> SinkSpec {
    let mut section = Section::new(document, "[[sink]]", 0..0, table);
    section.get("from");
    section.get("partition");
    let parts = sink_parts(&mut section, ("", TransactionNeeds::default()), 1, Path::new("/"));
    finish_sink(section, parts, Vec::new())
}

/// What a sink has beside its inputs; no connector if that is unknown.
struct SinkParts {
    name: String,
    parallelism: u32,
    guarantee: Guarantee,
    connector: Option<SinkConnectorSpec>,
}

fn sink_parts(
    section: &mut Section<'_, '_>,
    (job, transactions): (&str, TransactionNeeds),
    parallelism_default: u32,
    folder: &Path,
) -> SinkParts {
    let name = name(section);
    let kinds =
        [("file", SinkKind::File), ("kafka", SinkKind::Kafka), ("discard", SinkKind::Discard), ("plugin", SinkKind::Plugin)];
    let kind = connector(section, &kinds, LATER_SINKS, "say where the records go: file, kafka, discard or plugin");
    let parallelism = parallelism(section, parallelism_default);
    let guarantee = guarantee(section, kind);
    let connector = kind.map(|kind| match kind {
        SinkKind::File => SinkConnectorSpec::File { path: sink_path(section, folder) },
        SinkKind::Kafka => {
            let prefix = format!("weir-{job}-{name}");
            SinkConnectorSpec::Kafka(Box::new(kafka_settings::sink(section, folder, &prefix, transactions)))
        }
        SinkKind::Discard => SinkConnectorSpec::Discard,
        SinkKind::Plugin => {
            let plugin = plugin_settings::read(section, folder);
            SinkConnectorSpec::Plugin {
                plugin: plugin.path,
                sha256: plugin.sha256,
                config: plugin.config,
                limits: plugin.limits,
                grants: plugin.grants,
            }
        }
    });
    SinkParts { name, parallelism, guarantee, connector }
}

fn finish_sink(section: Section<'_, '_>, parts: SinkParts, inputs: Vec<Input>) -> SinkSpec {
    let SinkParts { name, parallelism, guarantee, connector } = parts;
    match connector {
        Some(connector) => {
            let from = section.shown_json("from");
            let partition = section.shown_json("partition");
            section.finish();
            let section = stored_section(&name, parallelism, guarantee, &connector, from, partition);
            SinkSpec { name, parallelism, inputs, connector, guarantee, section }
        }
        // Without its connector nobody can say which other keys it has.
        None => SinkSpec { name, parallelism, inputs, connector: SinkConnectorSpec::Discard, guarantee, section: json!({}) },
    }
}

fn sink_path(section: &mut Section<'_, '_>, folder: &Path) -> PathBuf {
    let path = section.required_text("path", "give the folder for the files, relative to the job file, as in path = \"out\"");
    if let Some(text) = path.as_ref().filter(|text| text.resolved.is_empty()) {
        section.problem(text.span.clone(), "'path' is empty", "give the folder for the files");
    }
    paths::absolute(folder, &path.map(|text| text.resolved).unwrap_or_default())
}

fn guarantee(section: &mut Section<'_, '_>, kind: Option<SinkKind>) -> Guarantee {
    let words = [("exactly-once", Guarantee::ExactlyOnce), ("at-least-once", Guarantee::AtLeastOnce)];
    match kind {
        Some(SinkKind::Discard) => {
            if section.get("guarantee").is_some() {
                let next = "leave 'guarantee' out: nothing leaves a discard sink";
                section.problem(section.span_of("guarantee"), "a discard sink has no guarantee", next);
            }
            Guarantee::None
        }
        Some(SinkKind::File | SinkKind::Kafka | SinkKind::Plugin) => {
            let why = "the strongest that this connector gives: it commits with the checkpoint";
            section.choice("guarantee", &words, &[], Some(("exactly-once", why))).unwrap_or(Guarantee::ExactlyOnce)
        }
        None => {
            section.get("guarantee");
            Guarantee::ExactlyOnce
        }
    }
}

/// The section as a manifest keeps it: what a committer needs when only the data folder is left.
fn stored_section(
    name: &str,
    parallelism: u32,
    guarantee: Guarantee,
    connector: &SinkConnectorSpec,
    from: Option<serde_json::Value>,
    partition: Option<serde_json::Value>,
) -> serde_json::Value {
    let mut section = json!({ "name": name, "parallelism": parallelism });
    let object = section.as_object_mut().expect("it was made as an object");
    let mut set = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
    for (key, value) in [("from", from), ("partition", partition)] {
        if let Some(value) = value {
            set(key, value);
        }
    }
    if guarantee != Guarantee::None {
        set("guarantee", json!(guarantee));
    }
    match connector {
        SinkConnectorSpec::File { path } => {
            set("connector", json!("file"));
            set("path", plugin_settings::literal_path(path));
        }
        SinkConnectorSpec::Kafka(kafka) => {
            set("connector", json!("kafka"));
            for (key, value) in kafka.stored() {
                set(key, value);
            }
        }
        SinkConnectorSpec::Discard => {
            set("connector", json!("discard"));
        }
        SinkConnectorSpec::Plugin { plugin, sha256, config, limits, grants } => {
            set("connector", json!("plugin"));
            for (key, value) in plugin_settings::stored(plugin, sha256.as_deref(), config, limits, grants) {
                set(key, value);
            }
        }
    }
    section
}

fn name(section: &mut Section<'_, '_>) -> String {
    let name = section.required_text("name", "give it a name: edges and stored state are found by it");
    if let Some(name) = &name {
        check_name(section, name);
    }
    name.map(|name| name.resolved).unwrap_or_default()
}

fn connector<T: Copy>(section: &mut Section<'_, '_>, kinds: &[(&str, T)], later: &[&str], hint: &str) -> Option<T> {
    if !section.has("connector") {
        section.missing("connector", hint);
    }
    section.choice("connector", kinds, later, None)
}

fn parallelism(section: &mut Section<'_, '_>, default: u32) -> u32 {
    section.whole("parallelism", 1..=u64::from(MAX_PARALLELISM), u64::from(default), "[job].parallelism") as u32
}

/// A sink merges its inputs: the same one twice would write each record twice.
fn check_repeated_input(section: &Section<'_, '_>, inputs: &[Input]) {
    for (at, input) in inputs.iter().enumerate() {
        if inputs[..at].iter().any(|before| before.from == input.from) {
            section.problem(
                section.span_of("from"),
                "'from' names one output twice: its records would be written twice",
                "name it once",
            );
            return;
        }
    }
}

impl<'d, 'a> Section<'d, 'a> {
    /// A value as JSON with `${NAME}` as it stands; none if it is left out.
    fn shown_json(&self, key: &str) -> Option<serde_json::Value> {
        self.entries().find(|(name, _, _)| *name == key).map(|(_, _, value)| plugin_settings::shown_json(value.get_ref()))
    }

    /// Remembers a value that is not a plain scalar for `weir check`.
    pub(super) fn note_value(&self, key: &str, value: &DeValue<'a>) {
        self.note(key, inline(&plugin_settings::shown_json(value)), None);
    }
}

/// JSON as TOML writes it in one line.
fn inline(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(object) => {
            let entries: Vec<String> =
                object.iter().map(|(key, value)| format!("{} = {}", bare_key(key), inline(value))).collect();
            if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
        }
        serde_json::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) | serde_json::Value::String(_) => {
            value.to_string()
        }
    }
}

fn bare_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { key.to_owned() } else { quote(key) }
}
