//! What a test of a plugin has found: one line a check.

use serde::Serialize;
use weir_plugin::{Descriptor, Grants, Plugin, PluginKind};

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "detail")]
pub enum Verdict {
    /// It holds: what was done.
    Holds(String),
    /// It does not: what was seen.
    Fails(String),
    /// It was not tried: why.
    LeftOut(String),
}

/// One promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which part of the contract.
    pub group: &'static str,
    /// What is promised.
    pub name: String,
    /// How it ended.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// All checks of one plugin.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The plugin's own name and version.
    pub plugin: String,
    /// Digest of its file.
    pub sha256: String,
    /// Size of its file.
    pub bytes: u64,
    /// What it is: its kind, states, outputs.
    pub facts: Vec<String>,
    /// What it imports beside the contract, and what that gives.
    pub imports: Vec<String>,
    /// What generated records were drawn with.
    pub seed: u64,
    /// In the order in which they were made.
    pub checks: Vec<Check>,
}

impl Report {
    pub(super) fn of(plugin: &Plugin, seed: u64) -> Self {
        let descriptor = plugin.describe();
        let mut imports: Vec<String> =
            plugin.wasi(&Grants::default()).iter().map(|(name, gives)| format!("{name}: {gives}")).collect();
        if plugin.acts_outside() {
            imports.insert(0, "files: the folders that a job grants".to_owned());
        }
        Report {
            plugin: format!("{} {}", descriptor.plugin_name(), descriptor.plugin_version()),
            sha256: plugin.sha256().to_owned(),
            bytes: plugin.size_bytes(),
            facts: facts(plugin),
            imports,
            seed,
            checks: Vec::new(),
        }
    }

    /// Whether no check failed.
    pub fn is_passed(&self) -> bool {
        self.failed() == 0
    }

    /// How many checks failed.
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.verdict, Verdict::Fails(_))).count()
    }

    pub(super) fn add(&mut self, group: &'static str, name: impl Into<String>, verdict: Verdict) {
        self.checks.push(Check { group, name: name.into(), verdict });
    }

    /// `outcome`: what was done, or what was seen.
    pub(super) fn tell(&mut self, group: &'static str, name: impl Into<String>, outcome: Result<String, String>) {
        self.add(group, name, outcome.map_or_else(Verdict::Fails, Verdict::Holds));
    }
}

fn facts(plugin: &Plugin) -> Vec<String> {
    let mut facts = Vec::new();
    match plugin.describe() {
        Descriptor::Operator(operator) => {
            facts.push(if operator.is_keyed() { "an operator, keyed" } else { "an operator without state" }.to_owned());
            for state in &operator.states {
                let access = if state.prefetch { "" } else { ", read on demand" };
                facts.push(format!("state {}: {}, version {}{access}", state.name, state.kind.name(), state.schema_version));
            }
            facts.extend(operator.side_outputs.iter().map(|name| format!("side output {name}")));
            match operator.inputs {
                Some(1) => {}
                Some(inputs) => facts.push(format!("{inputs} inputs")),
                None => facts.push("any number of inputs".to_owned()),
            }
        }
        Descriptor::Sink(sink) => {
            facts.push(format!("a transactional sink, committable versions {:?}", sink.committable_versions));
        }
    }
    if let PluginKind::Operator { end_of_input, timers } = plugin.kind() {
        facts.extend(timers.then(|| "has timers".to_owned()));
        facts.extend(end_of_input.then(|| "is told of the end of its input".to_owned()));
    }
    facts
}
