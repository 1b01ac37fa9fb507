//! Turns a core Wasm module that was built with a Weir SDK into a component, and says what a component imports and exports.
//!
//! A guest compiled for `wasm32-unknown-unknown` is a core module; the Rust SDK's bindings left the types of the plugin contract
//! in its custom sections. A module without them (of the C or Go SDK) gets those of the worlds that its exports are named after.
//! `wit_component` wraps the two into a component. Imports that the code does not use are left out. What a module imports of
//! WASI's preview 1 goes through an adapter that is put inside (`preview1.wat`).

mod contract;
mod sections;

use std::fmt;
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding};

/// The module that preview 1 is imported from, and what stands there instead.
const PREVIEW1: &str = "wasi_snapshot_preview1";
const PREVIEW1_ADAPTER: &[u8] = include_bytes!("preview1.wasm");

/// Why a file can't become a component. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not Wasm at all.
    NotWasm,
    /// It is a component already.
    AlreadyComponent,
    /// A core module without the types of a plugin.
    NotAPlugin,
    /// It is damaged, or does not match the types that it carries.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotWasm => f.write_str("this is not a Wasm file: it does not begin with \"\\0asm\""),
            Error::AlreadyComponent => f.write_str("this is a component already: use it as it is"),
            Error::NotAPlugin => f.write_str(
                "this core module exports nothing of the plugin contract: in Rust it must be a `cdylib` that calls export_operator! or \
                 export_sink!, in C it must be linked with weir.c, in Go it must import the SDK and be built with \
                 -buildmode=c-shared",
            ),
            Error::Invalid(why) => write!(f, "no valid component can be made of this module: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Makes a component of a core module, and validates it. The same bytes in give the same bytes out.
pub fn componentize(module: &[u8]) -> Result<Vec<u8>, Error> {
    match kind(module) {
        Kind::Module => {}
        Kind::Component => return Err(Error::AlreadyComponent),
        Kind::Other => return Err(Error::NotWasm),
    }
    let (without_types, _) = wit_component::metadata::decode(module).map_err(invalid)?;
    let mut with_types = module.to_vec();
    if without_types.is_none() {
        let exports = sections::exports(module).ok_or_else(|| Error::Invalid("its exports can't be read".to_owned()))?;
        let worlds = contract::worlds_of(&exports);
        if worlds.is_empty() {
            return Err(Error::NotAPlugin);
        }
        let (resolve, world) = contract::world(&worlds).map_err(invalid)?;
        wit_component::embed_component_metadata(&mut with_types, &resolve, world, StringEncoding::UTF8, false)
            .map_err(invalid)?;
    }
    let mut adapter = PREVIEW1_ADAPTER.to_vec();
    let (resolve, world) = contract::preview1().map_err(invalid)?;
    wit_component::embed_component_metadata(&mut adapter, &resolve, world, StringEncoding::UTF8, false).map_err(invalid)?;
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&with_types).map_err(invalid)?.adapter(PREVIEW1, &adapter).map_err(invalid)?;
    encoder.encode().map_err(invalid)
}

/// What a component imports and exports, by interface name, such as `weir:plugin/operator@1.0.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interfaces {
    /// In the component's order.
    pub imports: Vec<String>,
    /// In the component's order.
    pub exports: Vec<String>,
}

/// Reads what a component imports and exports.
pub fn interfaces(component: &[u8]) -> Result<Interfaces, Error> {
    match kind(component) {
        Kind::Component => {}
        Kind::Module => return Err(Error::Invalid("it is a core module, not a component".to_owned())),
        Kind::Other => return Err(Error::NotWasm),
    }
    let (resolve, world) = match wit_component::decode(component).map_err(invalid)? {
        DecodedWasm::Component(resolve, world) => (resolve, world),
        DecodedWasm::WitPackage(..) => return Err(Error::Invalid("it holds a WIT package, no code".to_owned())),
    };
    let world = &resolve.worlds[world];
    Ok(Interfaces {
        imports: world.imports.keys().map(|key| resolve.name_world_key(key)).collect(),
        exports: world.exports.keys().map(|key| resolve.name_world_key(key)).collect(),
    })
}

/// What the first eight bytes say.
enum Kind {
    Module,
    Component,
    Other,
}

fn kind(wasm: &[u8]) -> Kind {
    match wasm {
        [0, b'a', b's', b'm', _, _, 0, 0, ..] => Kind::Module,
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => Kind::Component,
        _ => Kind::Other,
    }
}

/// The whole chain of causes: the innermost names the function or section.
fn invalid(error: impl fmt::Debug + fmt::Display) -> Error {
    Error::Invalid(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest core module: a header and no section.
    const EMPTY_MODULE: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn what_is_no_module_is_told_apart() {
        assert_eq!(componentize(b""), Err(Error::NotWasm));
        assert_eq!(componentize(b"#!/bin/sh\n"), Err(Error::NotWasm));
        assert_eq!(componentize(b"\0asm\x0d\0\x01\0"), Err(Error::AlreadyComponent));
        assert_eq!(componentize(EMPTY_MODULE), Err(Error::NotAPlugin));
        assert!(matches!(interfaces(EMPTY_MODULE), Err(Error::Invalid(_))));
    }

    #[test]
    fn the_adapter_is_what_its_text_says() {
        let assembled = wat::parse_str(include_str!("preview1.wat")).expect("the text is a module");
        if std::env::var_os("WEIR_ASSEMBLE").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/preview1.wasm"), &assembled).expect("it is written");
        }
        assert!(assembled == PREVIEW1_ADAPTER, "run this test with WEIR_ASSEMBLE=1, then again");
    }

    /// A module of the C or Go SDK, which carries no types, and reads the clock while the host asks for memory.
    #[test]
    fn a_module_without_types_becomes_what_its_exports_say() {
        let module = wat::parse_str(
            r#"(module
                (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
                (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                  (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 8))) (i32.const 1024))
                (func (export "weir:plugin/operator@1.0.0#describe") (result i32)
                  (drop (call $random (i32.const 0) (i32.const 8))) (i32.const 64))
                (func (export "weir:plugin/operator@1.0.0#open") (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
                  (i32.const 64))
                (func (export "weir:plugin/operator@1.0.0#process")
                  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 64))
                (func (export "weir:plugin/operator@1.0.0#close")))"#,
        )
        .expect("the text is a module");
        let component = componentize(&module).expect("it is a plugin");
        let Interfaces { imports, exports } = interfaces(&component).expect("it is a component");
        assert_eq!(exports, ["weir:plugin/operator@1.0.0"]);
        let wasi: Vec<_> = imports.iter().filter(|name| name.starts_with("wasi:")).collect();
        assert_eq!(wasi, ["wasi:random/random@0.2.0"], "only what is used is imported, and the clock is inside");
        assert_eq!(componentize(&module), Ok(component), "the same bytes in give the same bytes out");
    }

    #[test]
    fn a_damaged_module_is_invalid() {
        // A custom section that claims more bytes than there are.
        let damaged = [EMPTY_MODULE, &[0, 0x7f, 1, b'x']].concat();
        assert!(matches!(componentize(&damaged), Err(Error::Invalid(_))), "{:?}", componentize(&damaged));
    }
}
