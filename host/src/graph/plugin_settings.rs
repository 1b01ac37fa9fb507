//! What operators and plugin sinks have in common: the component, its config, limits and grants.

use super::document::{Document, Section};
use super::grants;
use super::job_graph::{ConfigText, GrantsSpec, LimitsSpec};
use super::paths;
use super::units;
use serde_json::{Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};

const MIB: u64 = 1 << 20;

/// A plugin's settings.
pub(super) struct PluginSettings {
    pub path: PathBuf,
    pub sha256: Option<String>,
    pub config: ConfigText,
    pub limits: LimitsSpec,
    pub grants: GrantsSpec,
}

/// Reads them from a section.
pub(super) fn read(section: &mut Section<'_, '_>, folder: &Path) -> PluginSettings {
    let path = section.required_text("plugin", "give the path of a component (.wasm), relative to the job file");
    if let Some(text) = path.as_ref().filter(|text| text.resolved.is_empty()) {
        section.problem(text.span.clone(), "'plugin' is empty", "give the path of a component (.wasm)");
    }
    PluginSettings {
        path: paths::absolute(folder, &path.map(|text| text.resolved).unwrap_or_default()),
        sha256: sha256(section),
        config: config(section),
        limits: limits(section),
        grants: grants::read(section, folder),
    }
}

fn sha256(section: &mut Section<'_, '_>) -> Option<String> {
    let Some(text) = section.text("sha256") else {
        if !section.has("sha256") {
            section.note("sha256", "", Some("not pinned: whatever the file holds; the checkpoint names what ran"));
        }
        return None;
    };
    let digest = text.resolved.to_ascii_lowercase();
    if digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some(digest);
    }
    section.problem(text.span, "'sha256' is not 64 hexadecimal digits", "print it with: sha256sum FILE.wasm");
    None
}

/// `config`: any table, as one JSON document.
fn config(section: &mut Section<'_, '_>) -> ConfigText {
    let empty = || ConfigText::new(&json!({}), json!({}));
    let Some(value) = section.get("config") else {
        section.note("config", "{}", Some("the plugin gets an empty JSON document"));
        return empty();
    };
    if !value.get_ref().is_table() {
        let what = format!("'config' is {}, not a table", super::document::kind(value));
        section.problem(value.span(), what, "write config = { key = value, … }");
        return empty();
    }
    section.note_value("config", value.get_ref());
    let resolved = json_of(value.get_ref(), value.span(), &mut |raw, span| {
        section.document.resolve(raw, span, &section.title).map(|text| text.resolved).unwrap_or_default()
    });
    check_numbers(section.document, &section.title, value.get_ref(), value.span());
    ConfigText::new(&resolved, shown_json(value.get_ref()))
}

fn limits(section: &mut Section<'_, '_>) -> LimitsSpec {
    let empty = DeTable::new();
    let mut limits = match section.table("limits") {
        Some(limits) => limits,
        None => return read_limits(&mut section.absent("limits", &empty)),
    };
    let spec = read_limits(&mut limits);
    limits.finish();
    spec
}

fn read_limits(limits: &mut Section<'_, '_>) -> LimitsSpec {
    let memory_bytes = limits.size("memory", 64 * MIB, "linear memory of one instance");
    // A component can't start below one page, and none can pass 4 GiB.
    if !(64 << 10..=4 << 30).contains(&memory_bytes) {
        limits.problem(
            limits.span_of("memory"),
            "'limits.memory' is outside 64KiB … 4GiB",
            "Wasm memory has 64 KiB pages and 32-bit addresses",
        );
    }
    let call = limits.duration("call", Duration::from_secs(1), "a call that takes longer is a trap");
    if call < Duration::from_millis(1) {
        limits.problem(limits.span_of("call"), "'limits.call' is zero", "give a call some milliseconds");
    }
    let emit_bytes = limits.size("emit", 64 * MIB, "output of one call; more is a trap");
    if emit_bytes == 0 {
        limits.problem(limits.span_of("emit"), "'limits.emit' is zero", "leave it out for the default");
    }
    let host_calls = limits.whole("host_calls", 1..=100_000_000, 10_000, "calls to the host in one call; more is a trap");
    // The range fits.
    let host_calls = u32::try_from(host_calls).unwrap_or(u32::MAX);
    LimitsSpec { memory_bytes, call, emit_bytes, host_calls }
}

/// The settings as a manifest keeps them.
pub(super) fn stored(
    plugin: &Path,
    sha256: Option<&str>,
    config: &ConfigText,
    limits: &LimitsSpec,
    grants: &GrantsSpec,
) -> Vec<(&'static str, Value)> {
    let mut out = vec![
        ("plugin", literal_path(plugin)),
        ("config", config.shown().clone()),
        (
            "limits",
            json!({
                "memory": units::show_size(limits.memory_bytes),
                "call": units::show_duration(limits.call),
                "emit": units::show_size(limits.emit_bytes),
                "host_calls": limits.host_calls,
            }),
        ),
        ("grants", grants::stored(grants)),
    ];
    if let Some(digest) = sha256 {
        out.push(("sha256", json!(digest)));
    }
    out
}

/// A resolved path as a string of a stored section, whose variables are replaced again when it is read: a `${` that was
/// in the path must stay one.
pub(super) fn literal_path(path: &Path) -> Value {
    literal(&path.to_string_lossy())
}

/// The same of any text.
pub(super) fn literal(text: &str) -> Value {
    json!(text.replace("${", "$${"))
}

/// A value as JSON with `${NAME}` as it stands: for output and manifests.
pub(super) fn shown_json(value: &DeValue<'_>) -> Value {
    json_of(value, 0..0, &mut |raw, _| raw.to_owned())
}

/// A value as JSON; strings go through `text`.
fn json_of(value: &DeValue<'_>, span: Range<usize>, text: &mut dyn FnMut(&str, Range<usize>) -> String) -> Value {
    match value {
        DeValue::String(raw) => Value::String(text(raw, span)),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => json!(number),
            Err(_) => Value::Null,
        },
        DeValue::Float(float) => {
            float.as_str().parse().ok().and_then(serde_json::Number::from_f64).map_or(Value::Null, Value::Number)
        }
        DeValue::Boolean(boolean) => json!(boolean),
        DeValue::Datetime(datetime) => json!(datetime.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| json_of(item.get_ref(), item.span(), text)).collect()),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json_of(value.get_ref(), value.span(), text))).collect(),
        ),
    }
}

/// JSON knows no infinity and no "not a number", and plugins read whole numbers as 64 bits.
fn check_numbers(document: &Document<'_>, title: &str, value: &DeValue<'_>, span: Range<usize>) {
    match value {
        DeValue::Integer(integer) if i64::from_str_radix(integer.as_str(), integer.radix()).is_err() => {
            document.problem(span, title, format!("{integer} does not fit 64 bits"), "write it as a string");
        }
        DeValue::Float(float) if !float.as_str().parse::<f64>().is_ok_and(f64::is_finite) => {
            document.problem(span, title, format!("{float} is no number that JSON can hold"), "write it as a string");
        }
        DeValue::Array(items) => items.iter().for_each(|item| check_numbers(document, title, item.get_ref(), item.span())),
        DeValue::Table(table) => {
            table.iter().for_each(|(_, value)| check_numbers(document, title, value.get_ref(), value.span()))
        }
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}
