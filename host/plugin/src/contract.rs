//! Names and versions of the contract, and the check of a component's imports and exports against them.

use crate::wasi::gives;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// Major version of the contract that this host speaks.
const MAJOR: u64 = 1;

const PACKAGE: &str = "weir:plugin";
pub(crate) const HOST: &str = "weir:plugin/host@1.0.0";
pub(crate) const KEYED_STATE: &str = "weir:plugin/keyed-state@1.0.0";
pub(crate) const LIST_STATE: &str = "weir:plugin/list-state@1.0.0";
pub(crate) const MAP_STATE: &str = "weir:plugin/map-state@1.0.0";
pub(crate) const FILES: &str = "weir:plugin/files@1.0.0";
pub(crate) const HTTP: &str = "weir:plugin/http@1.0.0";
pub(crate) const OPERATOR: &str = "weir:plugin/operator@1.0.0";
pub(crate) const END_OF_INPUT: &str = "weir:plugin/end-of-input@1.0.0";
pub(crate) const TIMERS: &str = "weir:plugin/timers@1.0.0";
pub(crate) const CHECKPOINTED: &str = "weir:plugin/checkpointed@1.0.0";
pub(crate) const TIMER_SERVICE: &str = "weir:plugin/timer-service@1.0.0";
pub(crate) const SINK_WRITER: &str = "weir:plugin/sink-writer@1.0.0";
pub(crate) const SINK_COMMITTER: &str = "weir:plugin/sink-committer@1.0.0";

/// What a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginKind {
    /// Exports `operator`.
    Operator {
        /// Also exports `end-of-input`.
        end_of_input: bool,
        /// Also exports `timers`.
        timers: bool,
    },
    /// Exports `sink-writer` and `sink-committer`.
    Sink,
}

/// What a component says that it is and needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) kind: PluginKind,
    /// Imports `files` or `http`.
    pub(crate) acts_outside: bool,
    /// Interfaces of WASI, and what each gives.
    pub(crate) wasi: Vec<(String, &'static str)>,
}

/// Checks a component against the contract; the error says what is missing or too much.
pub(crate) fn check(component: &Component) -> Result<World, String> {
    let ty = component.component_type();
    let engine = component.engine();
    let exports: Vec<&str> = ty.exports(engine).map(|(name, _)| name).collect();
    let kind = kind_of(&exports)?;
    let (mut acts_outside, mut wasi) = (false, Vec::new());
    for (name, import) in ty.imports(engine) {
        // Types alone ask nothing of the host.
        let asks = match &import.ty {
            ComponentItem::ComponentInstance(instance) => {
                instance.exports(engine).any(|(_, item)| !matches!(item.ty, ComponentItem::Type(_)))
            }
            _ => true,
        };
        if let Some(gives) = gives(name) {
            wasi.push((name.to_owned(), gives));
            continue;
        }
        acts_outside |= matches!(check_import(name, kind, asks)?, Some("files" | "http"));
    }
    Ok(World { kind, acts_outside, wasi })
}

/// An interface name, `package/interface@major.minor.patch`.
struct InterfaceName<'n> {
    package: &'n str,
    interface: &'n str,
    version: &'n str,
}

fn split(name: &str) -> Option<InterfaceName<'_>> {
    let (package, rest) = name.split_once('/')?;
    let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
    Some(InterfaceName { package, interface, version })
}

fn major(version: &str) -> Option<u64> {
    version.split('.').next()?.parse().ok()
}

/// The interface of ours that `name` is; none if it is of another package. Another major version is refused.
fn ours(name: &str) -> Result<Option<&str>, String> {
    match split(name) {
        Some(InterfaceName { package: PACKAGE, interface, version }) => match major(version) {
            Some(MAJOR) => Ok(Some(interface)),
            _ => Err(format!(
                "it was built for version {version} of {PACKAGE} (`{name}`), this host speaks version {MAJOR}: \
                 build it with an SDK for version {MAJOR}"
            )),
        },
        _ => Ok(None),
    }
}

fn kind_of(exports: &[&str]) -> Result<PluginKind, String> {
    let (mut operator, mut writer, mut committer) = (false, false, false);
    let (mut end, mut timers, mut checkpointed) = (false, false, false);
    for name in exports {
        match ours(name)? {
            Some("operator") => operator = true,
            Some("end-of-input") => end = true,
            Some("timers") => timers = true,
            Some("checkpointed") => checkpointed = true,
            Some("sink-writer") => writer = true,
            Some("sink-committer") => committer = true,
            Some("types" | "sink-types") | None => {}
            Some(other) => return Err(format!("it exports `{other}` of {PACKAGE}, which is not in this version")),
        }
    }
    match (operator, writer, committer) {
        (true, false, false) => Ok(PluginKind::Operator { end_of_input: end, timers }),
        (false, true, true) if end => Err(format!("it exports {END_OF_INPUT}, which belongs to operators, and a sink")),
        (false, true, true) if timers => Err(format!("it exports {TIMERS}, which belongs to operators, and a sink")),
        (false, true, true) if checkpointed => Err(format!("it exports {CHECKPOINTED}, which belongs to operators, and a sink")),
        (false, true, true) => Ok(PluginKind::Sink),
        (false, true, false) => Err(format!("a sink needs both halves: it exports {SINK_WRITER} but not {SINK_COMMITTER}")),
        (false, false, true) => Err(format!("a sink needs both halves: it exports {SINK_COMMITTER} but not {SINK_WRITER}")),
        (true, _, _) => Err("it exports an operator and a sink: make two plugins of it".into()),
        (false, false, false) => {
            let found = if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") };
            Err(format!("it is no plugin: it exports neither {OPERATOR} nor {SINK_WRITER} and {SINK_COMMITTER}, but {found}"))
        }
    }
}

/// Checks one import; gives the interface if it asks something of the host.
fn check_import(name: &str, kind: PluginKind, asks: bool) -> Result<Option<&str>, String> {
    match (ours(name)?, kind) {
        (Some("types" | "sink-types"), _) if !asks => Ok(None),
        (Some(interface @ ("host" | "files" | "http")), _) => Ok(asks.then_some(interface)),
        (Some(interface @ ("keyed-state" | "list-state" | "map-state")), PluginKind::Operator { .. }) => {
            Ok(asks.then_some(interface))
        }
        (Some(interface @ "timer-service"), PluginKind::Operator { timers: true, .. }) => Ok(asks.then_some(interface)),
        (Some("timer-service"), _) => {
            Err(format!("it imports {TIMER_SERVICE}, but does not export {TIMERS}: nobody would hear of its timers"))
        }
        (Some(interface @ ("keyed-state" | "list-state" | "map-state")), PluginKind::Sink) => {
            Err(format!("it imports {interface}, but a sink has no keyed state"))
        }
        (Some(other), _) => Err(format!("it imports `{other}` of {PACKAGE}, which is not in this version")),
        (None, _) if name.starts_with("wasi:") => Err(format!(
            "it imports `{name}`: of WASI a plugin gets what the runtime of a language needs, in version 0.2; build it without this one"
        )),
        (None, _) => Err(format!("it imports `{name}`, which this version neither knows nor grants")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_decide_the_kind() {
        let operator = PluginKind::Operator { end_of_input: false, timers: false };
        let cases: &[(&[&str], Result<PluginKind, &str>)] = &[
            (&[OPERATOR], Ok(operator)),
            (&["weir:plugin/operator@1.3.0"], Ok(operator)),
            (&[OPERATOR, END_OF_INPUT], Ok(PluginKind::Operator { end_of_input: true, timers: false })),
            (&[OPERATOR, TIMERS], Ok(PluginKind::Operator { end_of_input: false, timers: true })),
            (&[OPERATOR, CHECKPOINTED], Ok(operator)),
            (&[SINK_WRITER, SINK_COMMITTER, TIMERS], Err("belongs to operators, and a sink")),
            (&[SINK_WRITER, SINK_COMMITTER, CHECKPOINTED], Err("checkpointed@1.0.0, which belongs to operators, and a sink")),
            (&[SINK_WRITER, SINK_COMMITTER], Ok(PluginKind::Sink)),
            (&[SINK_WRITER], Err("but not weir:plugin/sink-committer")),
            (&[SINK_COMMITTER], Err("but not weir:plugin/sink-writer")),
            (&[OPERATOR, SINK_WRITER, SINK_COMMITTER], Err("make two plugins")),
            (
                &["weir:plugin/operator@2.0.0"],
                Err("version 2.0.0 of weir:plugin (`weir:plugin/operator@2.0.0`), this host speaks version 1"),
            ),
            (&["weir:plugin/windows@1.1.0"], Err("`windows` of weir:plugin, which is not in this version")),
            (&["wasi:cli/run@0.2.0"], Err("but wasi:cli/run@0.2.0")),
            (&[], Err("but nothing")),
        ];
        for (exports, expected) in cases {
            match (kind_of(exports), expected) {
                (Ok(kind), Ok(wanted)) => assert_eq!(kind, *wanted),
                (Err(e), Err(wanted)) => assert!(e.contains(wanted), "{e}"),
                (got, wanted) => panic!("{exports:?}: {got:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn imports_beyond_the_contract_are_named() {
        let operator = PluginKind::Operator { end_of_input: false, timers: false };
        let timers = PluginKind::Operator { end_of_input: false, timers: true };
        for (name, kind, refusal) in [
            (HOST, operator, ""),
            (FILES, PluginKind::Sink, ""),
            (KEYED_STATE, operator, ""),
            (KEYED_STATE, PluginKind::Sink, "a sink has no keyed state"),
            (LIST_STATE, operator, ""),
            (MAP_STATE, operator, ""),
            (MAP_STATE, PluginKind::Sink, "imports map-state, but a sink has no keyed state"),
            (TIMER_SERVICE, timers, ""),
            (TIMER_SERVICE, operator, "nobody would hear of its timers"),
            (TIMER_SERVICE, PluginKind::Sink, "nobody would hear of its timers"),
            (HTTP, operator, ""),
            ("weir:plugin/http@1.2.0", PluginKind::Sink, ""),
            ("weir:plugin/queue@1.2.0", operator, "`queue` of weir:plugin, which is not in this version"),
            ("weir:plugin/host@2.0.0", operator, "built for version 2.0.0"),
            ("wasi:http/outgoing-handler@0.2.0", operator, "`wasi:http/outgoing-handler@0.2.0`: of WASI a plugin gets"),
            ("env", operator, "`env`, which this version neither knows nor grants"),
        ] {
            match check_import(name, kind, true) {
                Ok(_) => assert!(refusal.is_empty(), "{name} should be refused"),
                Err(e) => assert!(!refusal.is_empty() && e.contains(refusal), "{name}: {e}"),
            }
        }
    }
}
