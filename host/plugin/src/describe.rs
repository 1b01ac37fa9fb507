//! What a plugin says of itself, checked.

use crate::state::StateId;
use crate::wire::{OperatorDescriptorLift, SinkDescriptorLift};
use std::collections::BTreeSet;

/// States and side outputs that one operator may declare.
const MAX_DECLARED: usize = 256;

/// Length of a plugin's name and version, and of every declared name.
const MAX_NAME: usize = 100;

/// What a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// An operator.
    Operator(OperatorDescriptor),
    /// A sink.
    Sink(SinkDescriptor),
}

/// What an operator is and needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorDescriptor {
    /// The plugin's own name.
    pub plugin_name: String,
    /// The plugin's own version.
    pub plugin_version: String,
    /// States by index ([`StateId`]). An operator with states is keyed.
    pub states: Vec<StateDescriptor>,
    /// Names of the side outputs, by index.
    pub side_outputs: Vec<String>,
    /// Number of inputs that it understands; none means any.
    pub inputs: Option<u32>,
}

/// One declared state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDescriptor {
    /// Unique in its operator; state is found again by it.
    pub name: String,
    /// What it holds.
    pub kind: StateKind,
    /// Version of the value's encoding, chosen by the author.
    pub schema_version: u32,
    /// Whether the host reads it before `process`.
    pub prefetch: bool,
}

/// Kinds of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// One byte string a key.
    Value,
    /// Elements, one after the other.
    List,
    /// Entries by map key, in order.
    Map,
}

impl StateKind {
    /// Its name in the contract and in manifests.
    pub fn name(self) -> &'static str {
        match self {
            StateKind::Value => "value",
            StateKind::List => "list",
            StateKind::Map => "map",
        }
    }

    /// The interface through which a call reaches it.
    pub(crate) fn interface(self) -> &'static str {
        match self {
            StateKind::Value => "keyed-state",
            StateKind::List => "list-state",
            StateKind::Map => "map-state",
        }
    }
}

/// What a sink is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkDescriptor {
    /// The plugin's own name.
    pub plugin_name: String,
    /// The plugin's own version.
    pub plugin_version: String,
    /// Versions of committables that this build can commit and abort; never empty.
    pub committable_versions: Vec<u32>,
}

impl Descriptor {
    /// The plugin's own name.
    pub fn plugin_name(&self) -> &str {
        match self {
            Descriptor::Operator(operator) => &operator.plugin_name,
            Descriptor::Sink(sink) => &sink.plugin_name,
        }
    }

    /// The plugin's own version.
    pub fn plugin_version(&self) -> &str {
        match self {
            Descriptor::Operator(operator) => &operator.plugin_version,
            Descriptor::Sink(sink) => &sink.plugin_version,
        }
    }
}

impl OperatorDescriptor {
    /// Whether its input must be partitioned by key.
    pub fn is_keyed(&self) -> bool {
        !self.states.is_empty()
    }

    /// Indices of the prefetched states, in order.
    pub fn prefetched(&self) -> Vec<StateId> {
        (0..).zip(&self.states).filter(|(_, state)| state.prefetch).map(|(id, _)| id).collect()
    }

    /// Indices of the states whose keys `on-end-keys` wants, in order: those that are prefetched, lists and maps.
    pub fn end_key_states(&self) -> Vec<StateId> {
        let is_wanted = |state: &StateDescriptor| state.prefetch || state.kind != StateKind::Value;
        (0..).zip(&self.states).filter(|(_, state)| is_wanted(state)).map(|(id, _)| id).collect()
    }

    pub(crate) fn check(lift: OperatorDescriptorLift) -> Result<Self, String> {
        check_identity(&lift.plugin_name, &lift.plugin_version)?;
        check_names("state", lift.states.iter().map(|state| &state.name))?;
        check_names("side output", lift.side_outputs.iter())?;
        let states = lift.states.into_iter().map(|state| {
            let kind = state_kind(&state.name, &state.kind)?;
            if state.prefetch && kind != StateKind::Value {
                return Err(format!("state `{}`: only a \"value\" can be prefetched, not a \"{}\"", state.name, kind.name()));
            }
            Ok(StateDescriptor { name: state.name, kind, schema_version: state.schema_version, prefetch: state.prefetch })
        });
        Ok(OperatorDescriptor {
            plugin_name: lift.plugin_name,
            plugin_version: lift.plugin_version,
            states: states.collect::<Result<_, String>>()?,
            side_outputs: lift.side_outputs,
            inputs: (lift.inputs > 0).then_some(lift.inputs),
        })
    }
}

impl SinkDescriptor {
    pub(crate) fn check(lift: SinkDescriptorLift) -> Result<Self, String> {
        check_identity(&lift.plugin_name, &lift.plugin_version)?;
        if lift.committable_versions.is_empty() {
            return Err("committable-versions is empty, so nothing that it prepares could be committed".into());
        }
        Ok(SinkDescriptor {
            plugin_name: lift.plugin_name,
            plugin_version: lift.plugin_version,
            committable_versions: lift.committable_versions,
        })
    }
}

fn state_kind(state: &str, kind: &str) -> Result<StateKind, String> {
    match kind {
        "value" => Ok(StateKind::Value),
        "list" => Ok(StateKind::List),
        "map" => Ok(StateKind::Map),
        "reducing" => Err(format!("state `{state}`: a reducing state is of kind \"value\": the plugin merges it by itself")),
        _ => Err(format!("state `{state}`: there is no kind {kind:?}; this version knows \"value\", \"list\" and \"map\"")),
    }
}

/// The plugin's name and version are shown to people and stored: short, one line, not empty.
fn check_identity(name: &str, version: &str) -> Result<(), String> {
    for (what, text) in [("plugin-name", name), ("plugin-version", version)] {
        if text.is_empty() || text.len() > MAX_NAME || text.chars().any(char::is_control) {
            return Err(format!("{what} is {text:?}: it must be 1 to {MAX_NAME} bytes on one line"));
        }
    }
    Ok(())
}

fn check_names<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !is_name(name) {
            return Err(format!("{what} {name:?}: a name is [a-z][a-z0-9-]*, at most {MAX_NAME} bytes"));
        }
        if !seen.insert(name) {
            return Err(format!("{what} `{name}` is declared twice"));
        }
        if seen.len() > MAX_DECLARED {
            return Err(format!("more than {MAX_DECLARED} declarations of a {what}"));
        }
    }
    Ok(())
}

/// `[a-z][a-z0-9-]*`, short enough for file names and labels.
fn is_name(name: &str) -> bool {
    let tail = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= MAX_NAME && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase) && name.bytes().all(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::StateDescLift;

    /// States (name, kind), side outputs, and what the refusal says (empty: none).
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

    fn operator(states: &[(&str, &str)], sides: &[&str]) -> Result<OperatorDescriptor, String> {
        OperatorDescriptor::check(OperatorDescriptorLift {
            plugin_name: "p".into(),
            plugin_version: "1".into(),
            states: states
                .iter()
                .map(|(name, kind)| StateDescLift {
                    name: (*name).into(),
                    kind: (*kind).into(),
                    schema_version: 1,
                    // A name ends in it to tell.
                    prefetch: name.ends_with("-prefetched"),
                })
                .collect(),
            side_outputs: sides.iter().map(|s| (*s).into()).collect(),
            inputs: 0,
        })
    }

    #[test]
    fn names_kinds_and_duplicates_are_refused_by_name() {
        let long = "a".repeat(MAX_NAME + 1);
        let cases: &[Case<'_>] = &[
            (&[("count", "value")], &["late", "bad-lines"], ""),
            (&[("Count", "value")], &[], "state \"Count\": a name is"),
            (&[("", "value")], &[], "state \"\": a name is"),
            (&[("1st", "value")], &[], "a name is"),
            (&[(&long, "value")], &[], "a name is"),
            (&[("a", "value"), ("a", "value")], &[], "state `a` is declared twice"),
            (&[("a", "list"), ("b", "map"), ("c-prefetched", "value")], &[], ""),
            (&[("a-prefetched", "list")], &[], "state `a-prefetched`: only a \"value\" can be prefetched, not a \"list\""),
            (&[("a-prefetched", "map")], &[], "not a \"map\""),
            (&[("a", "reducing")], &[], "a reducing state is of kind \"value\""),
            (&[("a", "tree")], &[], "there is no kind \"tree\""),
            (&[], &["late", "late"], "side output `late` is declared twice"),
            (&[], &["é"], "side output \"é\": a name is"),
        ];
        for (states, sides, refusal) in cases {
            match operator(states, sides) {
                Ok(_) => assert!(refusal.is_empty(), "{states:?} {sides:?} should be refused: {refusal}"),
                Err(e) => assert!(!refusal.is_empty() && e.contains(refusal), "{e}"),
            }
        }
    }

    #[test]
    fn a_sink_that_can_commit_nothing_is_refused() {
        let lift = SinkDescriptorLift { plugin_name: "s".into(), plugin_version: "1".into(), committable_versions: vec![] };
        assert!(SinkDescriptor::check(lift).is_err());
    }
}
