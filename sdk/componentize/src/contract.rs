//! The plugin contract, for modules that do not carry its types.

use wit_parser::{Resolve, SourceMap, WorldId};

/// The files of `wit/`.
const SOURCES: [(&str, &str); 5] = [
    ("http.wit", include_str!("../../../wit/http.wit")),
    ("operator.wit", include_str!("../../../wit/operator.wit")),
    ("sink.wit", include_str!("../../../wit/sink.wit")),
    ("state.wit", include_str!("../../../wit/state.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
];

/// The world of a plugin that exports these functions; none if it is no plugin.
pub(crate) fn world_of(exports: &[&str]) -> Option<&'static str> {
    let has = |interface: &str| exports.iter().any(|name| name.strip_prefix(interface).is_some_and(|rest| rest.starts_with('#')));
    let (operator, end) = (has("weir:plugin/operator@1.0.0"), has("weir:plugin/end-of-input@1.0.0"));
    match (operator, end, has("weir:plugin/sink-writer@1.0.0")) {
        (true, false, _) => Some("operator-plugin"),
        (true, true, _) => Some("bounded-operator-plugin"),
        (false, _, true) => Some("sink-plugin"),
        (false, _, false) => None,
    }
}

/// A world of the contract by its name.
pub(crate) fn world(name: &str) -> Result<(Resolve, WorldId), String> {
    parse(&SOURCES, name)
}

/// What `preview1.wat` imports.
pub(crate) fn preview1() -> Result<(Resolve, WorldId), String> {
    parse(&[("preview1.wit", include_str!("preview1.wit"))], "adapter")
}

fn parse(files: &[(&str, &str)], name: &str) -> Result<(Resolve, WorldId), String> {
    let mut sources = SourceMap::default();
    for (file, text) in files {
        sources.push_str(file, *text);
    }
    let group = sources.parse().map_err(|(_, error)| format!("{error:?}"))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], Some(name)).map_err(|error| format!("{error:#}"))?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_name_a_world_that_the_contract_has() {
        let (operator, end) = ("weir:plugin/operator@1.0.0#process", "weir:plugin/end-of-input@1.0.0#on-end");
        for (exports, expected) in [
            (vec!["memory", operator], Some("operator-plugin")),
            (vec![end, operator], Some("bounded-operator-plugin")),
            (vec!["weir:plugin/sink-writer@1.0.0#write"], Some("sink-plugin")),
            (vec![end], None),
            (vec!["weir:plugin/operator@2.0.0#process", "memory"], None),
            (vec![], None),
        ] {
            assert_eq!(world_of(&exports), expected, "{exports:?}");
            if let Some(name) = expected {
                world(name).expect("the contract has it");
            }
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
