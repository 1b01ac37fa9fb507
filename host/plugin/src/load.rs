//! From a `.wasm` file to a plugin that can be instantiated: all that can be refused is refused here, by name.

use crate::contract::{self, PluginKind, World};
use crate::describe::{Descriptor, OperatorDescriptor, SinkDescriptor};
use crate::engine::PluginEngine;
use crate::error::{CallError, LoadError};
use crate::exports::{Exports, OperatorExports, SinkExports};
use crate::grants::{Grants, Reach};
use crate::limits::Limits;
use crate::store::{Guest, HostState, Who};
use crate::wasi::granted;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use wasmtime::component::InstancePre;

/// What a load allows and expects.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Bytes that a plugin's file may have.
    pub max_bytes: u64,
    /// The pinned digest, 64 hexadecimal digits; any other build is refused.
    pub sha256: Option<String>,
    /// Limits of the instance that is asked to describe itself.
    pub limits: Limits,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { max_bytes: 64 << 20, sha256: None, limits: Limits::default() }
    }
}

/// A loaded plugin: compiled, linked, checked and described. Instances are made from it at little cost.
pub struct Plugin {
    engine: Arc<PluginEngine>,
    pre: InstancePre<HostState>,
    exports: Exports,
    world: World,
    descriptor: Descriptor,
    sha256: String,
    bytes: u64,
}

impl PluginEngine {
    /// Loads a plugin from a file.
    pub fn load_file(self: &Arc<Self>, path: &Path, options: &LoadOptions) -> Result<Arc<Plugin>, LoadError> {
        let name = path.display().to_string();
        let wasm = read_bounded(path, options.max_bytes).map_err(|source| LoadError::Read { name: name.clone(), source })?;
        self.load_bytes(&name, &wasm, options)
    }

    /// Loads a plugin from its bytes. `name` stands for it in errors until it says its own.
    ///
    /// 1. Size and pinned digest, before anything looks at the bytes. 2. It must be a component. 3. It compiles, or comes from
    ///    the cache. 4. Its world is ours. 5. It links and has the right signatures. 6. It describes itself, in an instance
    ///    without grants.
    pub fn load_bytes(self: &Arc<Self>, name: &str, wasm: &[u8], options: &LoadOptions) -> Result<Arc<Plugin>, LoadError> {
        let bytes = wasm.len() as u64;
        if bytes > options.max_bytes {
            return Err(LoadError::TooLarge { name: name.into(), bytes, limit: options.max_bytes });
        }
        let sha256 = sha256_hex(wasm);
        check_pin(name, &sha256, options.sha256.as_deref())?;
        check_component(wasm).map_err(|reason| LoadError::NotAComponent { name: name.into(), reason })?;
        let invalid = |e: wasmtime::Error| LoadError::Invalid { name: name.into(), reason: format!("{e:#}") };
        let component = self.compile(name, wasm, &sha256).map_err(invalid)?;
        let refuse = |reason| LoadError::World { name: name.into(), reason };
        let world = contract::check(&component).map_err(refuse)?;
        let exports = Exports::find(&component, world.kind).map_err(refuse)?;
        let pre = self
            .linker_of(&component, &world)
            .and_then(|linker| linker.instantiate_pre(&component))
            .map_err(|e| refuse(format!("it uses the contract's imports differently than this version: {e:#}")))?;
        let descriptor = describe(name, &pre, &exports, self, options.limits)?;
        let has_timers = matches!(world.kind, PluginKind::Operator { timers: true, .. });
        if has_timers && matches!(&descriptor, Descriptor::Operator(operator) if !operator.is_keyed()) {
            let reason = "it has timers, which belong to keys, but declares no state".into();
            return Err(LoadError::Descriptor { name: name.into(), reason });
        }
        Ok(Arc::new(Plugin { engine: self.clone(), pre, exports, world, descriptor, sha256, bytes }))
    }
}

impl Plugin {
    /// What it is.
    pub fn kind(&self) -> PluginKind {
        self.world.kind
    }

    /// What it says of itself; checked at load.
    pub fn describe(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Its descriptor as an operator; none for a sink.
    pub fn operator(&self) -> Option<&OperatorDescriptor> {
        match &self.descriptor {
            Descriptor::Operator(operator) => Some(operator),
            Descriptor::Sink(_) => None,
        }
    }

    /// Its descriptor as a sink; none for an operator.
    pub fn sink(&self) -> Option<&SinkDescriptor> {
        match &self.descriptor {
            Descriptor::Operator(_) => None,
            Descriptor::Sink(sink) => Some(sink),
        }
    }

    /// sha256 of the file, 64 hexadecimal digits: pins it in the manifest.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Size of the file.
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is an operator with state of its own, of which it gives snapshots.
    pub fn is_checkpointed(&self) -> bool {
        self.operator_exports().is_some_and(OperatorExports::is_checkpointed)
    }

    /// Whether it asks for granted folders or origins.
    pub fn acts_outside(&self) -> bool {
        self.world.acts_outside
    }

    /// What it imports of WASI: the interface, and what that gives with these grants.
    pub fn wasi(&self, grants: &Grants) -> Vec<(&str, &'static str)> {
        self.world.wasi.iter().map(|(name, gives)| (name.as_str(), granted(name, grants).unwrap_or(gives))).collect()
    }

    pub(crate) fn operator_exports(&self) -> Option<&OperatorExports> {
        match &self.exports {
            Exports::Operator(exports) => Some(exports),
            Exports::Sink(_) => None,
        }
    }

    pub(crate) fn sink_exports(&self) -> Option<&SinkExports> {
        match &self.exports {
            Exports::Operator(_) => None,
            Exports::Sink(exports) => Some(exports),
        }
    }

    /// A fresh instance; nothing but its start code has run.
    pub(crate) fn instantiate(&self, who: Who, limits: Limits, reach: Reach) -> Result<Guest, CallError> {
        let side_outputs = self.operator().map_or(0, |operator| operator.side_outputs.len());
        let (ticks, surroundings) = (self.engine.ticks().clone(), self.engine.surroundings());
        let state = HostState::new(who, limits, reach, side_outputs, ticks, surroundings);
        Guest::instantiate(&self.pre, state)
    }

    /// Ticks of its engine.
    pub(crate) fn now(&self) -> u64 {
        self.engine.ticks().now()
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("descriptor", &self.descriptor).field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

/// sha256 of a plugin's bytes, as manifests name it.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks a fresh instance without grants what it is.
fn describe(
    name: &str,
    pre: &InstancePre<HostState>,
    exports: &Exports,
    engine: &PluginEngine,
    limits: Limits,
) -> Result<Descriptor, LoadError> {
    let who = Who { plugin: name.into(), ..Who::default() };
    let state = HostState::new(who, limits, Reach::default(), 0, engine.ticks().clone(), engine.surroundings());
    let mut guest = Guest::instantiate(pre, state)?;
    exports.check_types(&mut guest).map_err(|reason| LoadError::World { name: name.into(), reason })?;
    let refuse = |reason| LoadError::Descriptor { name: name.into(), reason };
    match exports {
        Exports::Operator(exports) => {
            OperatorDescriptor::check(exports.describe(&mut guest)?).map(Descriptor::Operator).map_err(refuse)
        }
        Exports::Sink(exports) => SinkDescriptor::check(exports.describe(&mut guest)?).map(Descriptor::Sink).map_err(refuse),
    }
}

/// Reads a file, but not (much) more than `limit` bytes of it, however it grows.
fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_pin(name: &str, actual: &str, pinned: Option<&str>) -> Result<(), LoadError> {
    match pinned {
        Some(expected) if !expected.eq_ignore_ascii_case(actual) => {
            Err(LoadError::Digest { name: name.into(), expected: expected.into(), actual: actual.into() })
        }
        _ => Ok(()),
    }
}

/// Tells a component from what people hand over by mistake.
fn check_component(wasm: &[u8]) -> Result<(), String> {
    match wasm {
        [b'\0', b'a', b's', b'm', 0x0d, 0x00, 0x01, 0x00, ..] => Ok(()),
        [b'\0', b'a', b's', b'm', 0x01, 0x00, 0x00, 0x00, ..] => {
            Err("this is a core module, not a component: run it through `weir-componentize`".into())
        }
        [b'\0', b'a', b's', b'm', version @ ..] => {
            let version: Vec<_> = version.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            Err(format!("this is Wasm of a version that this host does not know ({})", version.join(" ")))
        }
        [0x7f, b'E', b'L', b'F', ..] => {
            Err("this is machine code (compiled Wasm?), which is never taken: hand over the `.wasm` component".into())
        }
        [] => Err("the file is empty".into()),
        [b'(', ..] | [b';', ..] => Err("this is Wasm text: assemble it to a binary component first".into()),
        _ => Err("this is not Wasm: the file does not begin with `\\0asm`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_is_named() {
        let cases: &[(&[u8], &str)] = &[
            (b"\0asm\x0d\0\x01\0rest", ""),
            (b"\0asm\x01\0\0\0", "weir-componentize"),
            (b"\0asm\x0c\0\x01\0", "0c 00 01 00"),
            (b"\0asm", "version"),
            (b"\x7fELF\x02", "machine code"),
            (b"(component)", "Wasm text"),
            (b"#!/bin/sh", "not Wasm"),
            (b"", "empty"),
        ];
        for (bytes, refusal) in cases {
            match check_component(bytes) {
                Ok(()) => assert!(refusal.is_empty()),
                Err(e) => assert!(!refusal.is_empty() && e.contains(refusal), "{e}"),
            }
        }
    }

    #[test]
    fn the_digest_is_sha256_and_pins_in_either_case() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_hex(b""), empty);
        assert!(check_pin("p", empty, Some(&empty.to_uppercase())).is_ok());
        assert!(check_pin("p", empty, None).is_ok());
        assert!(matches!(check_pin("p", empty, Some("e3")), Err(LoadError::Digest { .. })));
    }
}
