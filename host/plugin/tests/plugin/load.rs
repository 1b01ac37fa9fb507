//! What is refused before it runs, and by which words.

use crate::guest::{ECHO, Guest, wit_folder};
use crate::{ENGINE, load};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use weir_plugin::*;
use wit_parser::Resolve;

fn refusal(wasm: &[u8]) -> String {
    match ENGINE.load_bytes("bad.wasm", wasm, &LoadOptions::default()) {
        Ok(_) => panic!("it should be refused"),
        Err(e) => e.to_string(),
    }
}

#[track_caller]
fn refused(wasm: &[u8], words: &[&str]) {
    let text = refusal(wasm);
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

fn component(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).expect("the text is a component")
}

/// The contract with some of its text replaced, as another version of it would be.
fn changed_contract(from: &str, to: &str) -> (Resolve, wit_parser::PackageId) {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(wit_folder()).expect("the contract") {
        let entry = entry.expect("the contract");
        let text = fs::read_to_string(entry.path()).expect("the contract");
        fs::write(folder.path().join(entry.file_name()), text.replace(from, to)).expect("a copy");
    }
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder.path()).expect("it parses");
    (resolve, package)
}

#[test]
fn what_is_no_component_is_refused() {
    refused(&Guest::operator(&[], &[]).module(), &["bad.wasm", "core module", "weir-componentize"]);
    refused(b"#!/bin/sh", &["not Wasm"]);
    refused(&component("(component)"), &["it is no plugin", "weir:plugin/operator@1.0.0", "but nothing"]);
}

#[test]
fn a_damaged_component_is_refused() {
    let mut wasm = Guest::operator(&[], &[]).build();
    let middle = wasm.len() / 2;
    wasm.truncate(middle);
    refused(&wasm, &["does not compile"]);
}

#[test]
fn a_component_of_another_world_is_refused_by_what_it_exports() {
    let world = component(
        r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) (instance $e (export "f" (func $f))) (export "acme:app/run@0.1.0" (instance $e)))"#,
    );
    refused(&world, &["it is no plugin", "acme:app/run@0.1.0"]);
}

#[test]
fn half_a_sink_is_refused() {
    let mut resolve = Resolve::default();
    resolve.push_dir(wit_folder()).expect("the contract");
    let half = "package test:half; world half { export weir:plugin/sink-writer@1.0.0; }";
    let package = resolve.push_str("half.wit", half).expect("it parses");
    let wasm = Guest::sink().without("sink-committer").world("half").build_in(&resolve, package);
    refused(&wasm, &["a sink needs both halves", "not weir:plugin/sink-committer@1.0.0"]);
}

#[test]
fn an_import_that_nobody_grants_is_named() {
    let mut resolve = Resolve::default();
    resolve.push_dir(wit_folder()).expect("the contract");
    resolve
        .push_str("wasi.wit", "package wasi:http@0.2.6; interface outgoing-handler { initial: func() -> u32; }")
        .expect("it parses");
    let world = "package test:w; world w { include weir:plugin/operator-plugin@1.0.0; import wasi:http/outgoing-handler@0.2.6; }";
    let package = resolve.push_str("w.wit", world).expect("it parses");
    // Only what a module uses is imported.
    let mut guest = Guest::operator(&[], &[]).world("w");
    guest = guest.raw_import("(import \"wasi:http/outgoing-handler@0.2.6\" \"initial\" (func $initial (result i32)))");
    refused(&guest.build_in(&resolve, package), &["wasi:http/outgoing-handler@0.2.6", "of WASI a plugin gets"]);
}

#[test]
fn another_major_version_is_refused_with_both_numbers() {
    let (resolve, package) = changed_contract("weir:plugin@1.0.0", "weir:plugin@2.0.0");
    let wasm = Guest::operator(&[], &[]).version("2.0.0").build_in(&resolve, package);
    refused(&wasm, &["built for version 2.0.0 of weir:plugin", "speaks version 1"]);
}

#[test]
fn a_newer_minor_version_that_uses_nothing_new_runs() {
    let (resolve, package) = changed_contract("weir:plugin@1.0.0", "weir:plugin@1.4.0");
    let mut guest = Guest::operator(&[], &[]).version("1.4.0").import("$log");
    let text = guest.text(b"hello");
    let level = guest.text(b"info");
    let wasm = guest.process(format!("(call $log {level} {text}) {ECHO}")).build_in(&resolve, package);
    let plugin = ENGINE.load_bytes("new.wasm", &wasm, &LoadOptions::default()).expect("it is compatible");
    let mut operator = OperatorInstance::new(&plugin, &crate::setup()).expect("it opens");
    let input = crate::batch(&[("k", "v")]);
    assert_eq!(operator.process(0, &input, None).expect("it runs").main, [input]);
}

#[test]
fn another_signature_is_refused_by_function() {
    let (resolve, package) = changed_contract("close: func();", "close: func(why: u32);");
    let guest = Guest::operator(&[], &[]).signature("operator#close", "(param i32)");
    refused(&guest.build_in(&resolve, package), &["operator.close has another signature"]);
}

#[test]
fn another_use_of_an_import_is_refused() {
    let (resolve, package) =
        changed_contract("log: func(level: string, message: string);", "log: func(level: u32, message: string);");
    let guest =
        Guest::operator(&[], &[]).raw_import("(import \"weir:plugin/host@1.0.0\" \"log\" (func $log (param i32 i32 i32)))");
    refused(&guest.build_in(&resolve, package), &["contract's imports differently", "log"]);
}

#[test]
fn a_trap_at_start_is_refused_before_anything_else_runs() {
    let guest = Guest::operator(&[], &[]).extra("(func $boom unreachable) (start $boom)");
    refused(&guest.build(), &["bad.wasm", "start", "unreachable", "boom"]);
}

#[test]
fn a_trap_in_describe_is_refused() {
    refused(&Guest::operator(&[], &[]).body("operator#describe", "unreachable").build(), &["describe", "trapped"]);
}

#[test]
fn a_descriptor_is_checked() {
    let cases: &[(&[crate::guest::State], &[&str], &str)] = &[
        (&[("Bad", "value", true)], &[], "state \"Bad\""),
        (&[("s", "map", true)], &[], "only a \"value\" can be prefetched, not a \"map\""),
        (&[("s", "value", true), ("s", "value", false)], &[], "declared twice"),
        (&[], &["late", "late"], "side output `late` is declared twice"),
    ];
    for (states, sides, words) in cases {
        refused(&Guest::operator(states, sides).build(), &["describe", words]);
    }
}

#[test]
fn the_descriptor_digest_and_kind_are_told() {
    let guest = Guest::operator(&[("count", "value", true), ("seen", "value", false)], &["late"]);
    let plugin = load(&guest).expect("it loads");
    assert_eq!(plugin.sha256(), sha256_hex(&guest.build()));
    assert_eq!(plugin.kind(), PluginKind::Operator { end_of_input: false, timers: false });
    let operator = plugin.operator().expect("an operator");
    assert_eq!((operator.plugin_name.as_str(), operator.plugin_version.as_str()), ("test-plugin", "1.0.0"));
    assert_eq!(operator.prefetched(), [0]);
    assert_eq!(operator.side_outputs, ["late"]);
    assert!(operator.is_keyed() && operator.inputs.is_none());
    assert!(!plugin.acts_outside());
    assert_eq!(load(&Guest::bounded(&[])).expect("it loads").kind(), PluginKind::Operator { end_of_input: true, timers: false });
    let sink = load(&Guest::sink()).expect("it loads");
    assert_eq!((sink.kind(), sink.sink().map(|s| s.committable_versions.clone())), (PluginKind::Sink, Some(vec![1])));
}

#[test]
fn size_and_pin_come_first() {
    let wasm = Guest::operator(&[], &[]).build();
    let small = LoadOptions { max_bytes: 100, ..LoadOptions::default() };
    assert!(matches!(ENGINE.load_bytes("p", &wasm, &small), Err(LoadError::TooLarge { limit: 100, .. })));
    let pinned = LoadOptions { sha256: Some("00".repeat(32)), ..LoadOptions::default() };
    assert!(matches!(ENGINE.load_bytes("p", &wasm, &pinned), Err(LoadError::Digest { .. })));
    let pinned = LoadOptions { sha256: Some(sha256_hex(&wasm)), ..LoadOptions::default() };
    assert!(ENGINE.load_bytes("p", &wasm, &pinned).is_ok());
}

#[test]
fn a_file_is_loaded_by_path_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("op.wasm");
    let missing = ENGINE.load_file(&path, &LoadOptions::default()).expect_err("it is missing").to_string();
    assert!(missing.contains("op.wasm") && missing.contains("can't be read"), "{missing}");
    fs::write(&path, Guest::operator(&[], &[]).build()).expect("it is written");
    assert!(ENGINE.load_file(&path, &LoadOptions::default()).is_ok());
    let small = LoadOptions { max_bytes: 100, ..LoadOptions::default() };
    assert!(matches!(ENGINE.load_file(&path, &small), Err(LoadError::TooLarge { .. })));
}

/// The compile cache: a second engine takes what the first compiled, and only if it is whole and private.
#[test]
fn compiled_code_is_cached_and_a_damaged_file_is_compiled_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("compiled");
    let config = EngineConfig { cache: Some(cache.clone()), ..EngineConfig::default() };
    let wasm = Guest::operator(&[], &[]).build();
    let load = || {
        let engine = PluginEngine::new(&config).expect("an engine");
        engine.load_bytes("p", &wasm, &LoadOptions::default()).expect("it loads");
    };
    let file = || {
        let files: Vec<_> = fs::read_dir(&cache).expect("the cache").map(|e| e.expect("an entry").path()).collect();
        assert_eq!(files.len(), 1, "one compiled plugin, nothing temporary: {files:?}");
        files.into_iter().next().expect("just counted")
    };
    load();
    assert_eq!(fs::metadata(&cache).expect("the cache").permissions().mode() & 0o777, 0o700);
    let whole = fs::read(file()).expect("the compiled plugin");
    // Read-only: a second engine that compiled again would have to replace the file.
    let inode = |path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("the file"));
    let first = inode(file());
    load();
    assert_eq!(inode(file()), first, "the second engine took it");
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(file(), &damaged).expect("it is damaged");
        load();
        assert_eq!(fs::read(file()).expect("the compiled plugin").len(), whole.len());
        assert_ne!(fs::read(file()).expect("the compiled plugin"), damaged, "it was compiled again");
    }
    fs::write(file(), &whole[..whole.len() / 3]).expect("it is torn");
    load();
    assert_eq!(fs::read(file()).expect("the compiled plugin").len(), whole.len());
}

#[test]
fn a_cache_that_others_may_write_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("open");
    fs::create_dir(&cache).expect("a folder");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).expect("it is opened");
    let refused = PluginEngine::new(&EngineConfig { cache: Some(cache), ..EngineConfig::default() })
        .expect_err("it is refused")
        .to_string();
    assert!(refused.contains("others may write it"), "{refused}");
}
