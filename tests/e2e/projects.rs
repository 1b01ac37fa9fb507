//! `weir new`, `weir build`, the project's own tests, `weir test`: in every language whose tools are here, for every kind that it has.

use std::path::{Path, PathBuf};
use std::process::Command;
use weir_tests::process::{Ended, Running};
use weir_tests::repository;
use weir_tests::scratch::Scratch;

fn weir(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut running = Running::start(folder, arguments, variables);
    // A first build compiles dependencies, on machines that do other things as well.
    running.allow(std::time::Duration::from_secs(900));
    running.finish()
}

/// Where cargo puts what it makes of projects: kept, so that the next one need not compile dependencies again.
fn target() -> String {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache/weir");
    let cache = std::env::var_os("WEIR_CACHE").map_or_else(home, PathBuf::from);
    cache.join("guests-target/projects").display().to_string()
}

/// Kinds of a language; none if its SDK has no templates.
fn kinds(language: &str) -> Vec<String> {
    let templates = repository().join("sdk").join(language).join("templates");
    let Ok(entries) = std::fs::read_dir(templates) else { return Vec::new() };
    let mut kinds: Vec<String> = entries.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
    kinds.sort();
    kinds
}

fn is_here(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Every kind of project of a language, from nothing to a tested component. `own_tests`: the command that runs them.
fn build_and_test(language: &str, own_tests: &[&str]) {
    let scratch = Scratch::new();
    let target = target();
    let variables = [("CARGO_TARGET_DIR", target.as_str())];
    for kind in kinds(language) {
        let (name, snake) = (format!("my-{language}-{kind}"), format!("my_{language}_{kind}"));
        let run = |arguments: &[&str]| weir(scratch.folder(), arguments, &variables);
        run(&["new", &name, "--lang", language, "--kind", &kind]).expect_code(0).expect_text(&["README.md", "weir-sdk/"]);
        let built = run(&["build", &name, "--release"]).expect_code(0);
        let component = format!("{name}/build/{snake}.wasm");
        let built = built.expect_text(&[&component, &format!("{name} 0.1.0"), "sha256"]);
        assert!(built.stdout.contains(if kind == "sink" { "a transactional sink" } else { "an operator" }), "{built:?}");
        let folder = scratch.path(&name);
        let own = Command::new(own_tests[0]).args(&own_tests[1..]).current_dir(&folder).envs(variables).output();
        let own = own.unwrap_or_else(|error| panic!("{own_tests:?}: {error}"));
        assert!(own.status.success(), "{language} {kind}: {own:?}");
        run(&["test", &component]).expect_code(0).expect_text(&["passed"]);
        if ["js", "python"].contains(&language) {
            continue;
        }
        // As it stands it can be built again, and the bytes are the same.
        let before = std::fs::read(scratch.path(&component)).expect("a component");
        run(&["build", &name, "--release"]).expect_code(0);
        assert!(std::fs::read(scratch.path(&component)).expect("a component") == before, "{language} {kind}: another build");
    }
}

#[test]
fn projects_in_rust() {
    assert_eq!(kinds("rust"), ["keyed", "operator", "sink"]);
    build_and_test("rust", &["cargo", "test"]);
}

#[test]
fn projects_in_go() {
    if is_here("go") {
        build_and_test("go", &["go", "test", "./..."]);
    }
}

#[test]
fn projects_in_c() {
    if is_here("clang") || is_here("clang-22") || is_here("zig") {
        build_and_test("c", &["make", "test"]);
    }
}

#[test]
fn projects_in_js() {
    if is_here("npm") {
        build_and_test("js", &["npm", "test"]);
    }
}

#[test]
fn projects_in_python() {
    if is_here("python3") {
        build_and_test("python", &["make", "test"]);
    }
}

#[test]
fn what_is_wrong_with_a_project_is_told() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str], variables: &[(&str, &str)]| weir(scratch.folder(), arguments, variables);
    scratch.write("full/file", "x");
    run(&["new", "full", "--lang", "rust"], &[]).expect_code(2).expect_text(&["not empty"]);
    run(&["new", "Not_A_Name", "--lang", "rust"], &[]).expect_code(2).expect_text(&["no name for a plugin", "lower-case words"]);
    let none = run(&["new", "x", "--lang", "rust", "--kind", "window"], &[]).expect_code(2);
    none.expect_text(&["no template for a plugin of kind window in rust", "rust (keyed, operator, sink)"]);
    run(&["build", "full"], &[]).expect_code(2).expect_text(&["it is no project", "weir new makes one"]);
    for (file, content, words) in [
        ("go.mod", "module weir-plugin", "install Go 1.24"),
        ("Makefile", "include weir-sdk/weir.mk", "apt-get install make"),
        ("package.json", "{\"dependencies\": {\"weir-sdk\": \"\"}}", "install Node.js"),
    ] {
        let project = scratch.write(&format!("of-{file}/{file}"), content);
        let folder = project.parent().expect("a folder").display().to_string();
        run(&["build", &folder], &[("PATH", "/no/such/folder")]).expect_code(2).expect_text(&["it is not on PATH", words]);
    }
}

#[test]
fn a_project_that_exports_no_plugin_is_told_what_is_missing() {
    let scratch = Scratch::new();
    let target = target();
    let run = |arguments: &[&str]| weir(scratch.folder(), arguments, &[("CARGO_TARGET_DIR", &target)]);
    run(&["new", "no-export", "--lang", "rust"]).expect_code(0);
    let source = std::fs::read_to_string(scratch.path("no-export/src/lib.rs")).expect("the template");
    scratch.write("no-export/src/lib.rs", source.replace("weir_sdk::export_operator!(NoExport);", ""));
    run(&["build", "no-export"]).expect_code(2).expect_text(&["exports nothing of the plugin contract", "export_operator!"]);
}
