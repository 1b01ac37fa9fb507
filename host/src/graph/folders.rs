//! Folders of a job that must not lie in each other: what Weir empties or collects, and what it is to keep.

use super::{JobGraph, Problem};
use std::path::{Path, PathBuf};

/// Every folder of the job that lies where Weir removes files, given the data folder. `working`: the name of the folder of working
/// state in it.
pub fn conflicts(graph: &JobGraph, data: &Path, working: &str) -> Vec<Problem> {
    let working = real(&data.join(working));
    let storage = real(&graph.checkpoint.folder(data));
    let mut problems = Vec::new();
    if storage.starts_with(&working) {
        problems.push(Problem::new(
            "[checkpoint].storage",
            format!(
                "{} lies in {}, the folder of working state, which is removed at every start",
                storage.display(),
                working.display()
            ),
            "choose another folder",
        ));
    }
    let sinks = graph.sinks.iter().flat_map(|sink| sink.folders().into_iter().map(move |folder| ("sink", &sink.name, folder)));
    let operators = graph.operators.iter();
    let grants = operators
        .flat_map(|operator| operator.grants.folders.values().map(move |folder| ("operator", &operator.name, &**folder)));
    for (kind, name, folder) in sinks.chain(grants) {
        let own = real(folder);
        let what = if own.starts_with(&working) {
            format!(
                "{} lies in {}, the folder of working state, which is removed at every start",
                folder.display(),
                working.display()
            )
        } else if own.starts_with(&storage) {
            format!(
                "{} lies in {}, the checkpoint storage, where files that no checkpoint refers to are removed",
                folder.display(),
                storage.display()
            )
        } else {
            continue;
        };
        problems.push(Problem::new(format!("{kind} {name}"), what, "choose another folder, or another --data"));
    }
    problems
}

/// The path without links and dots, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for existing in absolute.ancestors() {
        if let Ok(real) = existing.canonicalize() {
            let rest = absolute.strip_prefix(existing).expect("an ancestor is a prefix");
            return lexical(&real.join(rest));
        }
    }
    lexical(&absolute)
}

/// Takes `.` and `..` out of a path of which the part with them does not exist.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            std::path::Component::Prefix(_) | std::path::Component::RootDir | std::path::Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::job_file;

    fn problems(storage: &str, out: &str) -> Vec<String> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let text = format!(
            "[job]\nname = \"j\"\n[checkpoint]\nstorage = \"{storage}\"\n[[source]]\nname = \"s\"\nconnector = \"sequence\"\ncount = 1\n\
             [[sink]]\nname = \"out\"\nconnector = \"file\"\nfrom = \"s\"\npath = \"{out}\"\n"
        );
        let graph = job_file::parse(&text, &folder.path().join("job.toml"), folder.path(), &|_| None).expect("a valid job file");
        let found = conflicts(&graph, &folder.path().join("data"), "state");
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sink_below_what_weir_removes_is_refused() {
        for (out, said) in [
            ("data/state", "working state"),
            ("data/state/out", "working state"),
            ("data/x/../state/out", "working state"),
            ("data/checkpoints/out", "checkpoint storage"),
        ] {
            let found = problems("checkpoints", out);
            assert!(matches!(&found[..], [one] if one.contains("sink out") && one.contains(said)), "{out}: {found:?}");
        }
        assert_eq!(problems("checkpoints", "data/out"), Vec::<String>::new());
        assert_eq!(problems("checkpoints", "data/states/out"), Vec::<String>::new());
    }

    #[test]
    fn a_storage_in_the_working_state_is_refused() {
        for storage in ["state", "state/checkpoints", "./state"] {
            let found = problems(storage, "out");
            assert!(matches!(&found[..], [one] if one.contains("[checkpoint].storage")), "{storage}: {found:?}");
        }
    }
}
