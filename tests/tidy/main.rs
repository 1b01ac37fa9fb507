//! The house rules that a machine can check: who may name what, and how files look.

use std::path::{Path, PathBuf};
use weir_tests::repository;

struct SourceFile {
    /// Relative to the repository, with `/`.
    path: String,
    text: String,
}

/// Rust files of the repository that are ours; build output left out.
fn rust_files() -> Vec<SourceFile> {
    let root = repository();
    let mut files = Vec::new();
    for top in ["host", "sdk", "guests", "tests", "benches"] {
        collect(&root, &root.join(top), &mut files);
    }
    assert!(files.len() > 50, "only {} files were found: the walk is broken", files.len());
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder of the repository can be read")
        .map(|entry| entry.expect("readable").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "out" && !name.starts_with('.') {
                collect(root, &path, files);
            }
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).expect("a source file is UTF-8");
            let path = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            files.push(SourceFile { path, text });
        }
    }
}

/// Lines of code without comments, with their numbers.
fn code(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    file.text.lines().enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Asserts that a word stands in the code only where `allowed` says.
fn only_in(word: &str, allowed: impl Fn(&str) -> bool, why: &str) {
    let mut faults = Vec::new();
    for file in rust_files() {
        if file.path == "tests/tidy/main.rs" || allowed(&file.path) {
            continue;
        }
        faults.extend(code(&file).filter(|(_, line)| line.contains(word)).map(|(n, _)| format!("{}:{n}", file.path)));
    }
    assert!(faults.is_empty(), "'{word}' {why}, but stands in {}", faults.join(", "));
}

/// Tests, benches and examples may use what the product's files may not.
fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.starts_with("benches/")
        || path.contains("/tests")
        || path.ends_with("_tests.rs")
        || path.contains("/examples/")
}

#[test]
fn wasmtime_is_named_only_in_the_plugin_host() {
    only_in("wasmtime::", |path| path.starts_with("host/plugin/"), "belongs to host/plugin");
}

#[test]
fn rocksdb_is_named_in_one_file_only() {
    let files: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| file.path != "tests/tidy/main.rs" && code(file).any(|(_, line)| line.contains("rocksdb::")))
        .map(|file| file.path)
        .collect();
    assert_eq!(files.len(), 1, "rocksdb is named in {files:?}");
    assert!(files[0].starts_with("host/src/state/"), "{}", files[0]);
}

#[test]
fn librdkafka_is_named_in_its_connector_only() {
    only_in("rdkafka::", |path| path.starts_with("host/src/connectors/kafka/") || is_test(path), "belongs to connectors/kafka");
}

#[test]
fn kafkas_messages_and_tls_are_named_only_in_their_crate() {
    for word in ["kafka_protocol::", "openssl::"] {
        only_in(word, |path| path.starts_with("host/kafka/"), "belongs to host/kafka");
    }
}

#[test]
fn clocks_are_read_in_one_file_only() {
    // One for each crate that has a use for one.
    let clocks = ["host/src/clock.rs", "host/plugin/src/clock.rs", "host/kafka/src/clock.rs"];
    let allowed = |path: &str| clocks.contains(&path) || is_test(path) || path.starts_with("guests/");
    only_in("Instant::now", allowed, "is read in host/src/clock.rs");
    only_in("SystemTime::now", allowed, "is read in host/src/clock.rs");
}

#[test]
fn only_the_command_line_prints_and_exits() {
    let allowed = |path: &str| {
        path.starts_with("host/src/cli/") || path == "host/src/main.rs" || path == "sdk/componentize/src/main.rs" || is_test(path)
    };
    for word in ["println!(", "eprintln!(", "print!(", "eprint!(", "process::exit", "dbg!("] {
        only_in(word, allowed, "belongs to host/src/cli");
    }
}

#[test]
fn the_protocol_is_pure() {
    let pure = |path: &str| !path.starts_with("host/protocol/");
    for word in [
        "std::fs",
        "std::net",
        "std::thread",
        "std::time::Instant",
        "SystemTime",
        "std::env",
        "std::process",
        "std::io",
        "tokio",
        "HashMap",
        "RefCell",
        "Mutex",
        "Atomic",
    ] {
        only_in(word, pure, "has no place in a pure machine");
    }
    let manifest = std::fs::read_to_string(repository().join("host/protocol/Cargo.toml")).expect("readable");
    let dependencies = manifest.split("[dependencies]").nth(1).expect("the section stands there");
    let section = dependencies.split("\n[").next().expect("there is a first part");
    let names: Vec<&str> = section.lines().filter(|line| line.contains('=') && !line.starts_with('#')).collect();
    assert!(names.is_empty(), "the protocol depends on nothing, but names {names:?}");
}

#[test]
fn folders_import_only_what_the_house_allows() {
    // (folder, what it must not name)
    let rules: &[(&str, &[&str])] = &[
        ("host/src/graph/", &["crate::task", "crate::coordinator", "crate::cli", "crate::state", "crate::channel"]),
        ("host/src/channel/", &["crate::task", "crate::coordinator", "crate::cli", "crate::state", "crate::store"]),
        (
            "host/src/state/",
            &["crate::task", "crate::coordinator", "crate::cli", "crate::channel", "crate::store", "crate::connectors"],
        ),
        ("host/src/store/", &["crate::task", "crate::coordinator", "crate::cli", "crate::state", "crate::channel"]),
        ("host/src/task/", &["crate::coordinator", "crate::cli", "crate::store"]),
        ("host/src/coordinator/", &["RecordBatch", "crate::cli"]),
        ("host/src/connectors/", &["crate::task", "crate::coordinator", "crate::cli", "crate::state"]),
        ("host/plugin/", &["weir_protocol", "weir_host"]),
        ("host/kafka/", &["weir_protocol", "weir_host", "weir_plugin", "rdkafka::"]),
        ("sdk/", &["weir_host", "weir_protocol", "weir_plugin"]),
        ("guests/", &["weir_host", "weir_protocol", "weir_plugin"]),
        ("host/", &["weir_tests", "weir_benches"]),
    ];
    let mut faults = Vec::new();
    for file in rust_files() {
        for (folder, forbidden) in rules.iter().filter(|(folder, _)| file.path.starts_with(folder)) {
            for word in *forbidden {
                let hits = code(&file).filter(|(_, line)| line.contains(word));
                faults.extend(hits.map(|(n, _)| format!("{}:{n} names {word} ({folder})", file.path)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_says_its_purpose_first_and_stays_readable() {
    let mut faults = Vec::new();
    for file in rust_files() {
        if !file.text.starts_with("//!") {
            faults.push(format!("{}: the first line does not say its purpose", file.path));
        }
        let lines = file.text.lines().count();
        if lines > 800 {
            faults.push(format!("{}: {lines} lines", file.path));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_unfinished_is_left() {
    for word in ["todo!(", "unimplemented!(", "#[ignore", "TODO", "FIXME", "XXX", "allow(dead_code)", "allow(unused"] {
        only_in(word, |_| false, "marks something unfinished");
    }
    // The ticker, the pause before a plugin's retry; and a bench looks at spans of time.
    let pauses = ["host/plugin/src/engine.rs", "host/plugin/src/supervise.rs"];
    only_in(
        "thread::sleep",
        |path| pauses.contains(&path) || path.starts_with("benches/"),
        "makes a test wait instead of watching",
    );
}

#[test]
fn every_guest_has_a_test() {
    let root = repository().join("guests");
    let mut without = Vec::new();
    for entry in std::fs::read_dir(&root).expect("guests/ can be read") {
        let path = entry.expect("readable").path();
        if path.join("Cargo.toml").exists() && path.join("src").exists() {
            let mut files = Vec::new();
            collect(&root, &path, &mut files);
            if !files.iter().any(|file| file.text.contains("#[test]")) {
                without.push(path.file_name().expect("named").to_string_lossy().into_owned());
            }
        }
    }
    assert!(without.is_empty(), "guests without a test: {without:?}");
}

#[test]
fn wit_items_are_documented() {
    let mut faults = Vec::new();
    for name in ["types", "state", "operator", "sink", "http"] {
        let path = repository().join("wit").join(format!("{name}.wit"));
        let text = std::fs::read_to_string(&path).expect("the contract lies in wit/");
        let mut before = "";
        for (n, line) in text.lines().enumerate() {
            let item = line.trim_start();
            let is_item = ["interface ", "record ", "variant ", "world ", "type "].iter().any(|word| item.starts_with(word))
                || item.contains(": func(");
            if is_item && !before.trim_start().starts_with("///") {
                faults.push(format!("wit/{name}.wit:{}", n + 1));
            }
            before = line;
        }
    }
    assert!(faults.is_empty(), "undocumented: {}", faults.join(", "));
}

#[test]
fn the_page_of_faults_names_tests_that_there_are() {
    let page = std::fs::read_to_string(repository().join("docs/faults.md")).expect("the page is there");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let files = rust_files();
    let is_test = |name: &str| {
        let head = format!("fn {name}()");
        files.iter().any(|file| file.text.split_once(&head).is_some_and(|(before, _)| before.trim_end().ends_with("#[test]")))
    };
    for row in &rows {
        let names: Vec<&str> = row.rsplit(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test in '{row}'");
        names.iter().for_each(|name| assert!(is_test(name), "'{name}' is no test"));
    }
    assert!(rows.len() > 10, "only {} rows were found", rows.len());
}
