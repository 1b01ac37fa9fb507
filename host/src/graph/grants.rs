//! `grants = { … }`: what a plugin reaches outside.

use super::document::{Section, kind, quote};
use super::job_graph::{GrantsSpec, HttpGrantSpec};
use super::kafka_spec::Secret;
use super::names::is_name;
use super::paths;
use super::plugin_settings::{literal, literal_path};
use super::units;
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// Time for a request and its answer, if the job does not say.
const HTTP_TIMEOUT: Duration = Duration::from_secs(30);

/// Parts of the names of headers whose values are secrets.
const SECRET_WORDS: [&str; 6] = ["auth", "cookie", "credential", "key", "secret", "token"];

const ORIGIN_HINT: &str = "give scheme, host and port alone: \"https://api.example.com\", \"http://127.0.0.1:8080\"";

/// Reads `grants` of a plugin's section. `folder`: what relative paths are relative to.
pub(super) fn read(section: &mut Section<'_, '_>, folder: &Path) -> GrantsSpec {
    let mut spec = GrantsSpec::default();
    let Some(mut grants) = section.table("grants") else {
        if !section.has("grants") {
            section.note("grants", "{}", Some("a plugin reaches nothing outside unless the job says so"));
        }
        return spec;
    };
    spec.clock = grants.boolean("clock").unwrap_or(false);
    spec.random = grants.boolean("random").unwrap_or(false);
    read_env(&mut grants, &mut spec);
    read_http(&mut grants, &mut spec);
    if let Some(folders) = grants.table("folders") {
        for (name, span, value) in folders.entries() {
            read_folder(&folders, folder, (name, span), value.get_ref(), value.span(), &mut spec);
        }
    }
    grants.finish();
    spec
}

/// `env`: names of variables. Their values are the environment's, and are not shown.
fn read_env(grants: &mut Section<'_, '_>, spec: &mut GrantsSpec) {
    let Some(value) = grants.get("env") else { return };
    let DeValue::Array(names) = value.get_ref() else {
        let what = format!("'grants.env' is {}, not a list", kind(value));
        return grants.problem(value.span(), what, "list names of variables: [\"TZ\"]");
    };
    grants.note_value("env", value.get_ref());
    for name in names.iter() {
        let Some(raw) = name.get_ref().as_str() else {
            grants.problem(name.span(), format!("'grants.env' holds {}, not a string", kind(name)), "list names of variables");
            continue;
        };
        // As a variable of a string: what is not set is told in the same words.
        let reference = format!("${{{raw}}}");
        if let Some(text) = grants.document.resolve(&reference, name.span(), &grants.title) {
            spec.env.insert(raw.to_owned(), Secret::new(text.resolved, reference));
        }
    }
}

/// `http`: origins by name, or a list of origins that are their own names.
fn read_http(grants: &mut Section<'_, '_>, spec: &mut GrantsSpec) {
    let Some(value) = grants.get("http") else { return };
    match value.get_ref() {
        DeValue::Array(origins) => {
            grants.note_value("http", value.get_ref());
            for item in origins.iter() {
                let Some(origin) = origin_of(grants, item) else { continue };
                spec.http.insert(origin.clone(), HttpGrantSpec { origin, headers: Vec::new(), timeout: HTTP_TIMEOUT });
            }
        }
        DeValue::Table(_) => {
            let Some(origins) = grants.table("http") else { return };
            for (name, span, item) in origins.entries() {
                if !is_name(name) {
                    let what = format!("'{name}' can't be the name of a granted origin");
                    origins.problem(span, what, "use a-z, 0-9 and '-', begin with a letter");
                    continue;
                }
                if let Some(grant) = http_grant(&origins, name, item) {
                    spec.http.insert(name.to_owned(), grant);
                }
            }
        }
        _ => {
            let what = format!("'grants.http' is {}, neither a table nor a list", kind(value));
            grants.problem(value.span(), what, "write http = { api = \"https://api.example.com\" }");
        }
    }
}

fn http_grant(origins: &Section<'_, '_>, name: &str, item: &Spanned<DeValue<'_>>) -> Option<HttpGrantSpec> {
    let DeValue::Table(_) = item.get_ref() else {
        let origin = origin_of(origins, item)?;
        origins.note(name, quote(&origin), None);
        return Some(HttpGrantSpec { origin, headers: Vec::new(), timeout: HTTP_TIMEOUT });
    };
    let mut table = origins.entry_table(name)?;
    let timeout = table.duration("timeout", HTTP_TIMEOUT, "for a request and its answer");
    let origin = match table.get("origin") {
        Some(origin) => {
            let origin = origin_of(&table, origin);
            origin.iter().for_each(|origin| table.note("origin", quote(origin), None));
            origin
        }
        None => {
            table.missing("origin", ORIGIN_HINT);
            None
        }
    };
    let mut headers = Vec::new();
    if let Some(given) = table.table("headers") {
        for (name, span, value) in given.entries() {
            headers.extend(header(&given, name, span, value));
        }
    }
    table.finish();
    Some(HttpGrantSpec { origin: origin?, headers, timeout })
}

/// A header that the host adds. Its value may be a secret, which only the environment may hold.
fn header(headers: &Section<'_, '_>, name: &str, span: Range<usize>, value: &Spanned<DeValue<'_>>) -> Option<(String, Secret)> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        headers.problem(span, format!("'{name}' is no name of a header"), "as: Authorization");
        return None;
    }
    let Some(raw) = value.get_ref().as_str() else {
        headers.problem(value.span(), format!("'{name}' is {}, not a string", kind(value)), "give its value as a string");
        return None;
    };
    let lower = name.to_ascii_lowercase();
    if SECRET_WORDS.iter().any(|word| lower.contains(word)) && !raw.contains("${") {
        let next = format!("give it by the environment: {name} = \"Bearer ${{API_TOKEN}}\"");
        headers.problem(value.span(), format!("'{name}' stands in the job file"), next);
        return None;
    }
    headers.note(name, quote(raw), None);
    let text = headers.document.resolve(raw, value.span(), &headers.title)?;
    if text.resolved.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        headers.problem(text.span, format!("'{name}' has a control character"), "a header's value is one line");
        return None;
    }
    Some((name.to_owned(), Secret::new(text.resolved, raw.to_owned())))
}

/// Scheme, host and port, in lower case, without a `/` at the end.
fn origin_of(section: &Section<'_, '_>, value: &Spanned<DeValue<'_>>) -> Option<String> {
    let Some(raw) = value.get_ref().as_str() else {
        section.problem(value.span(), format!("an origin is {}, not a string", kind(value)), ORIGIN_HINT);
        return None;
    };
    let text = section.document.resolve(raw, value.span(), &section.title)?;
    let origin = text.resolved.trim_end_matches('/').to_ascii_lowercase();
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let is_authority = |host: &str| !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    if host.is_some_and(is_authority) {
        return Some(origin);
    }
    section.problem(text.span, format!("{} is no origin", quote(raw)), ORIGIN_HINT);
    None
}

fn read_folder(
    folders: &Section<'_, '_>,
    base: &Path,
    (name, name_span): (&str, Range<usize>),
    value: &DeValue<'_>,
    span: Range<usize>,
    spec: &mut GrantsSpec,
) {
    if !is_name(name) {
        folders.problem(
            name_span,
            format!("'{name}' can't be the name of a granted folder"),
            "use a-z, 0-9 and '-', begin with a letter",
        );
        return;
    }
    let DeValue::String(raw) = value else {
        folders.problem(span, format!("'grants.folders.{name}' is not a string"), "give the path of a folder");
        return;
    };
    folders.note(name, quote(raw), None);
    let Some(text) = folders.document.resolve(raw, span, &folders.title) else { return };
    if text.resolved.is_empty() {
        folders.problem(text.span, format!("'grants.folders.{name}' is empty"), "give the path of a folder");
        return;
    }
    spec.folders.insert(name.to_owned(), paths::absolute(base, &text.resolved));
}

/// The grants as a manifest keeps them, to be read again.
pub(super) fn stored(grants: &GrantsSpec) -> Value {
    let folders: Map<String, Value> = grants.folders.iter().map(|(name, path)| (name.clone(), literal_path(path))).collect();
    let mut stored = json!({ "folders": folders });
    if !grants.env.is_empty() {
        stored["env"] = grants.env.keys().cloned().collect();
    }
    for (key, granted) in [("clock", grants.clock), ("random", grants.random)] {
        if granted {
            stored[key] = json!(true);
        }
    }
    if !grants.http.is_empty() {
        // A list of origins comes back as a table, whose names must be such.
        let own_name = |(name, grant): (&String, &HttpGrantSpec)| *name == grant.origin;
        stored["http"] = match grants.http.iter().all(own_name) {
            true => grants.http.keys().map(|origin| literal(origin)).collect(),
            false => grants.http.iter().map(|(name, grant)| (name.clone(), stored_origin(grant))).collect::<Map<_, _>>().into(),
        };
    }
    stored
}

fn stored_origin(grant: &HttpGrantSpec) -> Value {
    let headers: Map<String, Value> = grant.headers.iter().map(|(name, value)| (name.clone(), json!(value.shown()))).collect();
    json!({ "origin": literal(&grant.origin), "headers": headers, "timeout": units::show_duration(grant.timeout) })
}
