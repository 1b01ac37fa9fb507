//! What plugins find of WASI.

use crate::guest::{ECHO, Guest, wit_folder};
use crate::{ENGINE, batch, setup};
use std::fs;
use std::sync::Arc;
use weir_plugin::*;

/// As much of WASI as these guests ask for, and the import of each.
const INTERFACES: [(&str, &str); 6] = [
    ("clocks/wall-clock", "record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime;"),
    ("random/random", "get-random-u64: func() -> u64;"),
    ("cli/exit", "exit: func(status: result);"),
    ("cli/stderr", "use wasi:io/streams@0.2.3.{output-stream}; get-stderr: func() -> output-stream;"),
    (
        "io/streams",
        "resource error; variant stream-error { last-operation-failed(error), closed }
         resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }",
    ),
    ("sockets/network", "poke: func();"),
];

const IMPORTS: &str = r#"
    (import "wasi:clocks/wall-clock@0.2.3" "now" (func $now (param i32)))
    (import "wasi:random/random@0.2.3" "get-random-u64" (func $random (result i64)))
    (import "wasi:cli/exit@0.2.3" "exit" (func $exit (param i32)))
    (import "wasi:cli/stderr@0.2.3" "get-stderr" (func $stderr (result i32)))
    (import "wasi:io/streams@0.2.3" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
    (import "wasi:sockets/network@0.2.3" "poke" (func $poke))
"#;

/// A plugin that imports all of it.
fn plugin(guest: Guest) -> Arc<Plugin> {
    let folder = tempfile::tempdir().expect("a folder");
    let imports: String = INTERFACES.iter().map(|(name, _)| format!("import wasi:{name}@0.2.3;\n")).collect();
    for entry in fs::read_dir(wit_folder()).expect("the contract") {
        let entry = entry.expect("the contract");
        let text = fs::read_to_string(entry.path()).expect("the contract");
        let world = "world operator-plugin {";
        fs::write(folder.path().join(entry.file_name()), text.replace(world, &format!("{world}\n{imports}"))).expect("a copy");
    }
    for package in ["clocks", "random", "cli", "io", "sockets"] {
        let interfaces: String = INTERFACES
            .iter()
            .filter_map(|(name, body)| {
                name.strip_prefix(package)?.strip_prefix('/').map(|name| format!("interface {name} {{ {body} }}\n"))
            })
            .collect();
        let path = folder.path().join("deps").join(package);
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("a.wit"), format!("package wasi:{package}@0.2.3;\n{interfaces}")).expect("a file");
    }
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(folder.path()).expect("it parses");
    let wasm = guest.raw_import(IMPORTS).build_in(&resolve, package);
    ENGINE.load_bytes("wasi.wasm", &wasm, &LoadOptions::default()).expect("it loads")
}

/// The first record's event time becomes the clock's seconds, its key and value become random bytes.
#[test]
fn clock_and_random_bytes_are_the_same_in_every_instance() {
    let look = "(call $now (i32.const 200)) (i64.store (local.get $times) (i64.load (i32.const 200)))
                (i64.store (local.get $data) (call $random))";
    let plugin = plugin(Guest::operator(&[], &[]).process(format!("{look} {ECHO}")));
    let run = || {
        let mut operator = OperatorInstance::new(&plugin, &setup()).expect("it opens");
        let input = batch(&[("key", "value")]);
        [(); 2].map(|()| operator.process(0, &input, None).expect("it runs").main)
    };
    let first = run();
    assert_eq!(first, run());
    assert_eq!(first[0][0].times(), 1i64.to_le_bytes());
    assert_ne!(first[0][0].data(), first[1][0].data(), "the sequence goes on");
    let gives =
        |name: &str| plugin.wasi(&Grants::default()).iter().find(|(import, _)| import.contains(name)).map(|&(_, gives)| gives);
    assert!(
        gives("clocks/wall-clock@0.2.3").is_some_and(|gives| gives.contains("1970")),
        "{:?}",
        plugin.wasi(&Grants::default())
    );
    assert_eq!((plugin.wasi(&Grants::default()).len(), gives("sockets/network")), (6, Some("a trap when it is called")));
}

fn failure(body: &str) -> String {
    let plugin = plugin(Guest::operator(&[], &[]).process(format!("{body} {ECHO}")));
    let mut operator = OperatorInstance::new(&plugin, &setup()).expect("it opens");
    let error = operator.process(0, &batch(&[("key", "value")]), None).expect_err("it fails");
    assert!(operator.is_poisoned());
    error.to_string()
}

#[test]
fn an_exit_tells_what_was_written_to_standard_error() {
    // "key" and "value" are the batch's first bytes.
    let text = failure("(call $write (call $stderr) (local.get $data) (i32.const 8) (i32.const 200)) (call $exit (i32.const 1))");
    assert!(text.contains("it ended itself with a failure") && text.contains("standard error: keyvalue"), "{text}");
}

#[test]
fn what_is_not_served_traps_by_name() {
    let text = failure("(call $poke)");
    assert!(text.contains("poke of wasi:sockets/network@0.2.3 was called: that is not granted"), "{text}");
}
