//! A manifest's ended inputs against job files that have changed since.

use super::*;
use crate::graph::job_file;
use crate::store::manifest::{MANIFEST_FORMAT, SourceManifest, SubtaskManifest};
use std::path::Path;

/// A job of the sources a, b and c, where `split` reads a, and `join` of two subtasks reads what is given.
fn graph(from: &str) -> JobGraph {
    let source = |name: &str| format!("[[source]]\nname = \"{name}\"\nconnector = \"sequence\"\ncount = 1\n");
    let text = format!(
        "[job]\nname = \"j\"\n{}{}{}
         [[operator]]\nname = \"split\"\nplugin = \"s.wasm\"\nfrom = \"a\"\n
         [[operator]]\nname = \"join\"\nplugin = \"j.wasm\"\nparallelism = 2\nfrom = {from}\n
         [[sink]]\nname = \"out\"\nconnector = \"discard\"\nfrom = [\"join\", \"a\", \"b\", \"c\"]\n",
        source("a"),
        source("b"),
        source("c")
    );
    job_file::parse(&text, Path::new("job.toml"), Path::new("/"), &|_| None).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// What `join`'s two subtasks had seen the end of; `all`: they had sent EndOfData on. Source c was not in the job.
fn manifest(ended: [&[&str]; 2], all: bool) -> Manifest {
    let source = |name: &str| (name.to_owned(), SourceManifest { splits: Vec::new(), ended: false, watermarks: None });
    let operator = |subtasks: Vec<SubtaskManifest>| OperatorManifest {
        parallelism: u32::try_from(subtasks.len()).expect("few"),
        plugin: String::new(),
        swap: None,
        backend: "memory".to_owned(),
        states: Vec::new(),
        subtasks,
    };
    let subtask = |ended: &[&str]| SubtaskManifest {
        ended_inputs: ended.iter().map(|&name| name.to_owned()).collect(),
        end_of_data_sent: all,
        ..SubtaskManifest::default()
    };
    Manifest {
        format: MANIFEST_FORMAT,
        job: "j".to_owned(),
        id: "1-1".to_owned(),
        lineage: String::new(),
        published_ms: 0,
        key_groups: 0,
        key_hash: String::new(),
        last: false,
        sources: [source("a"), source("b")].into(),
        operators: [
            ("split".to_owned(), operator(vec![SubtaskManifest::default()])),
            ("join".to_owned(), operator(ended.map(subtask).into())),
        ]
        .into(),
        sinks: [].into(),
        checksum: String::new(),
    }
}

const JOIN: usize = 1;

#[track_caller]
fn check(from: &str, ended: [&[&str]; 2], ports: [&[u32]; 2]) {
    let (graph, manifest) = (graph(from), manifest(ended, false));
    for (subtask, ports) in (0..).zip(ports) {
        let want = Ended { ports: ports.iter().copied().collect(), all: false };
        assert_eq!(restored(&graph, &manifest, JOIN, subtask), want, "subtask {subtask} of {from}");
    }
    assert_eq!(fault(&graph, &manifest, JOIN), None, "{from}");
}

#[test]
fn the_same_inputs_have_ended_as_before() {
    check(r#"["a", "b"]"#, [&["a"], &["a", "b"]], [&[0], &[0, 1]]);
    check(r#"["split.late", "b"]"#, [&["split.late"], &[]], [&[0], &[]]);
}

#[test]
fn an_input_that_has_ended_is_known_at_another_port() {
    check(r#"["b", "a"]"#, [&["a"], &["a"]], [&[1], &[1]]);
    check(r#"["c", "b", "a"]"#, [&["a"], &["a"]], [&[2], &[2]]);
}

#[test]
fn a_new_input_at_the_port_of_one_that_has_ended_has_not() {
    check(r#"["b", "split"]"#, [&["a"], &["a"]], [&[], &[]]);
    check(r#"["split.late", "b"]"#, [&["split"], &["split"]], [&[], &[]]);
}

#[test]
fn a_name_that_passed_from_an_operator_to_a_source_is_a_new_input() {
    check(r#"["c", "b"]"#, [&["c"], &["c"]], [&[], &[]]);
}

#[test]
fn both_ports_of_one_input_end_together() {
    check(r#"["a", "a"]"#, [&["a", "a"], &[]], [&[0, 1], &[]]);
}

#[test]
fn with_another_parallelism_an_end_counts_that_all_have_seen() {
    let manifest = Manifest { operators: manifest([&["a"], &["a", "b"]], false).operators, ..manifest([&[], &[]], false) };
    let mut graph = graph(r#"["a", "b"]"#);
    graph.operators[JOIN].parallelism = 3;
    for subtask in 0..3 {
        assert_eq!(restored(&graph, &manifest, JOIN, subtask), Ended { ports: [0].into(), all: false });
    }
}

#[test]
fn an_operator_whose_last_results_are_out_gets_no_new_input() {
    let manifest = manifest([&["a", "b"], &["a", "b"]], true);
    for fits in [r#"["a", "b"]"#, r#"["b", "a"]"#, r#""a""#] {
        assert_eq!(fault(&graph(fits), &manifest, JOIN), None, "{fits}");
        assert!(restored(&graph(fits), &manifest, JOIN, 1).all, "{fits}");
    }
    for (from, new) in
        [(r#"["a", "c"]"#, "gives it c:"), (r#"["a", "b", "split.late"]"#, "split.late"), (r#"["c", "split"]"#, "c and split")]
    {
        let fault = fault(&graph(from), &manifest, JOIN).unwrap_or_else(|| panic!("{from} is not refused"));
        assert!(fault.contains("operator join") && fault.contains(new), "{fault}");
    }
}
