//! `from` and `partition`: what a node reads, and how the records are spread.

use super::document::{Section, kind, quote, suggestion};
use super::execution::NodeRef;
use super::job_graph::{Endpoint, Input, Partition};
use super::names::Names;
use std::ops::Range;
use toml::de::DeValue;

/// Inputs of one node at most.
const MAX_INPUTS: usize = 256;

/// The values of `partition`.
pub(super) const PARTITIONS: [(&str, Partition); 4] = [
    ("key", Partition::Key),
    ("forward", Partition::Forward),
    ("rebalance", Partition::Rebalance),
    ("broadcast", Partition::Broadcast),
];

const HINT: &str =
    "from = \"a\", from = \"a.side-output\", from = [\"a\", \"b\"] or from = { name = \"a\", partition = \"broadcast\" }";

/// Reads the inputs of a node. `required`: whether it must have one.
pub(super) fn inputs(section: &mut Section<'_, '_>, names: &Names, required: bool) -> Vec<Input> {
    let default = section.choice("partition", &PARTITIONS, &[], None);
    let Some(value) = section.get("from") else {
        if required {
            section.missing("from", HINT);
        } else {
            section.note("from", "", Some("the operators whose bad records go here"));
        }
        return Vec::new();
    };
    section.note_value("from", value.get_ref());
    let mut inputs = Vec::new();
    match value.get_ref() {
        DeValue::Array(items) => {
            if items.is_empty() && required || items.len() > MAX_INPUTS {
                section.problem(
                    value.span(),
                    format!("'from' lists {} inputs", items.len()),
                    format!("give from 1 to {MAX_INPUTS}"),
                );
                return inputs;
            }
            for item in items.iter() {
                inputs.extend(input(section, names, default, item.get_ref(), item.span()));
            }
        }
        single => inputs.extend(input(section, names, default, single, value.span())),
    }
    inputs
}

fn input(
    section: &Section<'_, '_>,
    names: &Names,
    default: Option<Partition>,
    value: &DeValue<'_>,
    span: Range<usize>,
) -> Option<Input> {
    match value {
        DeValue::String(raw) => Some(Input { from: endpoint(section, names, raw, span)?, partition: default }),
        DeValue::Table(table) => {
            let mut entry = Section::new(section.document, section.title.clone(), span, table);
            // Said as a whole by `inputs`; a wrong word is a problem here.
            let name = entry.get("name");
            let partition = quiet_choice(&mut entry);
            let from = match name.map(|name| (name.get_ref(), name.span())) {
                Some((DeValue::String(raw), span)) => endpoint(section, names, raw, span),
                Some((_, span)) => {
                    section.problem(span, "'name' in 'from' is not a string", HINT);
                    None
                }
                None => {
                    entry.missing("name", HINT);
                    None
                }
            };
            entry.finish();
            Some(Input { from: from?, partition: partition.or(default) })
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) => {
            let what = format!("an input in 'from' is {}, not a name", kind(&toml::Spanned::new(span.clone(), value.clone())));
            section.problem(span, what, HINT);
            None
        }
    }
}

fn quiet_choice(entry: &mut Section<'_, '_>) -> Option<Partition> {
    let value = entry.get("partition")?;
    let words: Vec<&str> = PARTITIONS.iter().map(|(word, _)| *word).collect();
    let DeValue::String(raw) = value.get_ref() else {
        entry.problem(value.span(), format!("'partition' is {}, not a string", kind(value)), HINT);
        return None;
    };
    let text = entry.document.resolve(raw, value.span(), &entry.title)?;
    let found = PARTITIONS.iter().find(|(word, _)| *word == text.resolved).map(|(_, partition)| *partition);
    if found.is_none() {
        entry.problem(text.span, format!("'partition' can't be {}", quote(&text.raw)), suggestion(&text.resolved, &words));
    }
    found
}

fn endpoint(section: &Section<'_, '_>, names: &Names, raw: &str, span: Range<usize>) -> Option<Endpoint> {
    let text = section.document.resolve(raw, span.clone(), &section.title)?;
    let (name, output) = match text.resolved.split_once('.') {
        Some((name, output)) => (name, Some(output)),
        None => (text.resolved.as_str(), None),
    };
    match (names.find(name), output) {
        (Some(NodeRef::Source(source)), None) => Some(Endpoint::Source(source)),
        (Some(NodeRef::Operator(operator)), None) => Some(Endpoint::Operator(operator)),
        (Some(NodeRef::Operator(operator)), Some(output)) if !output.is_empty() => {
            Some(Endpoint::Side { operator, output: output.to_owned() })
        }
        (Some(NodeRef::Operator(_)), Some(_)) => {
            section.problem(
                span,
                format!("{} names no side output", quote(raw)),
                "write operator.side-output, or the operator alone for its main output",
            );
            None
        }
        (Some(NodeRef::Source(_)), Some(_)) => {
            section.problem(
                span,
                format!("{} names a side output of a source, which has none", quote(raw)),
                format!("did you mean '{name}'?"),
            );
            None
        }
        (Some(NodeRef::Sink(_)), _) => {
            section.problem(span, format!("{} is a sink: nothing can be read from it", quote(raw)), "read what the sink reads");
            None
        }
        (None, _) => {
            section.problem(span, format!("{} names no source and no operator", quote(raw)), names.suggest_readable(name));
            None
        }
    }
}
