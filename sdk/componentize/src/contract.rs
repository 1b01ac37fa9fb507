//! The plugin contract, for modules that do not carry its types.

use wit_parser::{PackageId, Resolve, SourceMap, WorldId};

/// The files of `wit/`.
const SOURCES: [(&str, &str); 5] = [
    ("http.wit", include_str!("../../../wit/http.wit")),
    ("operator.wit", include_str!("../../../wit/operator.wit")),
    ("sink.wit", include_str!("../../../wit/sink.wit")),
    ("state.wit", include_str!("../../../wit/state.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
];

/// Interfaces that say what a plugin is, and the world that each belongs to.
const WORLDS: [(&str, &str); 4] = [
    ("operator", "operator-plugin"),
    ("end-of-input", "bounded-operator-plugin"),
    ("timers", "timer-operator-plugin"),
    ("sink-writer", "sink-plugin"),
];

/// The worlds that a plugin with these exported functions takes together; none if it is no plugin.
///
/// A sink is nothing else, whatever its module exports: that of the Go SDK has an operator's functions in any case.
pub(crate) fn worlds_of(exports: &[&str]) -> Vec<&'static str> {
    let has = |interface: &str| {
        let prefix = format!("weir:plugin/{interface}@1.0.0#");
        exports.iter().any(|name| name.starts_with(&prefix))
    };
    match (has("operator"), has("sink-writer")) {
        (_, true) => vec!["sink-plugin"],
        (true, false) => WORLDS.iter().filter(|(interface, _)| has(interface)).map(|(_, world)| *world).collect(),
        (false, false) => Vec::new(),
    }
}

/// A world that is several of the contract's taken together.
pub(crate) fn world(names: &[&str]) -> Result<(Resolve, WorldId), String> {
    let includes: String = names.iter().map(|name| format!(" include weir:plugin/{name}@1.0.0;")).collect();
    let own = format!("package weir:componentize; world plugin {{{includes} }}");
    let mut resolve = Resolve::default();
    push(&mut resolve, &SOURCES)?;
    let package = push(&mut resolve, &[("plugin.wit", &own)])?;
    let world = resolve.select_world(&[package], Some("plugin")).map_err(|error| format!("{error:#}"))?;
    Ok((resolve, world))
}

/// What `preview1.wat` imports.
pub(crate) fn preview1() -> Result<(Resolve, WorldId), String> {
    let mut resolve = Resolve::default();
    let package = push(&mut resolve, &[("preview1.wit", include_str!("preview1.wit"))])?;
    let world = resolve.select_world(&[package], Some("adapter")).map_err(|error| format!("{error:#}"))?;
    Ok((resolve, world))
}

fn push(resolve: &mut Resolve, files: &[(&str, &str)]) -> Result<PackageId, String> {
    let mut sources = SourceMap::default();
    for (file, text) in files {
        sources.push_str(file, *text);
    }
    let group = sources.parse().map_err(|(_, error)| format!("{error:?}"))?;
    resolve.push_group(group).map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_name_worlds_that_the_contract_has() {
        let (operator, end) = ("weir:plugin/operator@1.0.0#process", "weir:plugin/end-of-input@1.0.0#on-end");
        let (timers, sink) = ("weir:plugin/timers@1.0.0#on-timers", "weir:plugin/sink-writer@1.0.0#write");
        let cases: [(&[&str], &[&str]); 8] = [
            (&["memory", operator], &["operator-plugin"]),
            (&[end, operator], &["operator-plugin", "bounded-operator-plugin"]),
            (&[operator, timers], &["operator-plugin", "timer-operator-plugin"]),
            (&[timers, operator, end], &["operator-plugin", "bounded-operator-plugin", "timer-operator-plugin"]),
            (&[operator, sink], &["sink-plugin"]),
            (&[end, timers], &[]),
            (&["weir:plugin/operator@2.0.0#process", "memory"], &[]),
            (&[], &[]),
        ];
        for (exports, expected) in cases {
            assert_eq!(worlds_of(exports), expected, "{exports:?}");
            let (resolve, world) = world(expected).expect("the contract has them");
            let interfaces = resolve.worlds[world].exports.len();
            let sink = expected == ["sink-plugin"];
            assert_eq!(interfaces, if sink { 2 } else { expected.len() }, "{exports:?}");
        }
    }

    #[test]
    fn every_file_of_the_contract_is_known() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .expect("the contract")
            .map(|entry| entry.expect("the contract").file_name().into_string().expect("a name"))
            .collect();
        files.sort();
        assert_eq!(files, SOURCES.map(|(file, _)| file));
    }
}
