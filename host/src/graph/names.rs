//! Names of a job's nodes: their form, their uniqueness, and what a `from` may mean by them.

use super::document::{Document, Section, Text, suggestion};
use super::execution::NodeRef;
use std::ops::Range;

/// Letters of a name at most: names stand in file names and transaction ids.
const MAX_NAME: usize = 64;

/// Whether a text is a name: `[a-z][a-z0-9-]*`, not too long.
pub fn is_name(text: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.len() <= MAX_NAME && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase) && text.bytes().all(rest)
}

/// Refuses what is not a name.
pub(super) fn check_name(section: &Section<'_, '_>, name: &Text) {
    if !is_name(&name.resolved) {
        let next = format!("use a-z, 0-9 and '-', begin with a letter, at most {MAX_NAME} characters");
        section.problem(name.span.clone(), format!("'{}' can't be a name", name.raw), next);
    }
}

struct Entry {
    name: String,
    node: NodeRef,
    span: Range<usize>,
}

/// All names of a job, in the order of the job graph.
pub(super) struct Names {
    entries: Vec<Entry>,
}

impl Names {
    /// Collects the names and refuses a second use of one.
    pub fn collect(
        document: &Document<'_>,
        sources: &[Section<'_, '_>],
        operators: &[Section<'_, '_>],
        sinks: &[Section<'_, '_>],
    ) -> Self {
        let mut names = Names { entries: Vec::new() };
        names.add(document, sources, NodeRef::Source);
        names.add(document, operators, NodeRef::Operator);
        names.add(document, sinks, NodeRef::Sink);
        names
    }

    fn add(&mut self, document: &Document<'_>, sections: &[Section<'_, '_>], node: fn(usize) -> NodeRef) {
        for (index, section) in sections.iter().enumerate() {
            let name = section.peek_text("name").unwrap_or_default();
            if let Some(first) = self.entries.iter().find(|entry| !name.is_empty() && entry.name == name) {
                let kind = kind(first.node);
                let next = "names are shared by sources, operators and sinks: choose another";
                document.problem(section.span_of("name"), &section.title, format!("the name is taken by {kind} before it"), next);
            }
            self.entries.push(Entry { name, node: node(index), span: section.span.clone() });
        }
    }

    /// The node of a name.
    pub fn find(&self, name: &str) -> Option<NodeRef> {
        self.entries.iter().find(|entry| !name.is_empty() && entry.name == name).map(|entry| entry.node)
    }

    /// The index of the sink of a name.
    pub fn sink(&self, name: &str) -> Option<usize> {
        match self.find(name) {
            Some(NodeRef::Sink(index)) => Some(index),
            Some(NodeRef::Source(_) | NodeRef::Operator(_)) | None => None,
        }
    }

    /// What to do about a `from` that names nothing.
    pub fn suggest_readable(&self, name: &str) -> String {
        self.suggest(name, |node| !matches!(node, NodeRef::Sink(_)))
    }

    /// What to do about a sink's name that names none.
    pub fn suggest_sink(&self, name: &str) -> String {
        self.suggest(name, |node| matches!(node, NodeRef::Sink(_)))
    }

    fn suggest(&self, name: &str, fits: fn(NodeRef) -> bool) -> String {
        // What is no name may hold anything that a variable held: it is never shown.
        let known: Vec<&str> = self
            .entries
            .iter()
            .filter(|entry| fits(entry.node) && is_name(&entry.name))
            .map(|entry| entry.name.as_str())
            .collect();
        suggestion(name, &known)
    }

    /// Where a source's section begins.
    pub fn source_span(&self, index: usize) -> Range<usize> {
        self.span(NodeRef::Source(index))
    }

    /// Where an operator's section begins.
    pub fn operator_span(&self, index: usize) -> Range<usize> {
        self.span(NodeRef::Operator(index))
    }

    /// Where a sink's section begins.
    pub fn sink_span(&self, index: usize) -> Range<usize> {
        self.span(NodeRef::Sink(index))
    }

    fn span(&self, node: NodeRef) -> Range<usize> {
        self.entries.iter().find(|entry| entry.node == node).map_or(0..0, |entry| entry.span.clone())
    }
}

fn kind(node: NodeRef) -> &'static str {
    match node {
        NodeRef::Source(_) => "a source",
        NodeRef::Operator(_) => "an operator",
        NodeRef::Sink(_) => "a sink",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_letters_digits_and_dashes() {
        for (text, want) in [
            ("a", true),
            ("flights-2013", true),
            ("a-", true),
            ("", false),
            ("1a", false),
            ("-a", false),
            ("A", false),
            ("a_b", false),
            ("a.b", false),
            ("ä", false),
        ] {
            assert_eq!(is_name(text), want, "{text}");
        }
        assert!(is_name(&"a".repeat(64)) && !is_name(&"a".repeat(65)));
    }
}
