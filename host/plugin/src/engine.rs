//! The Wasm engine with the settings that every plugin runs under, and the clock of the call limit.

use crate::cache::CompileCache;
use crate::contract::World;
use crate::error::EngineError;
use crate::host_calls;
use crate::store::HostState;
use crate::wasi::Surroundings;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, WasmFeatures};

/// How finely call limits are kept, and the unit of [`Ticks`].
pub const TICK: Duration = Duration::from_millis(10);

/// Stack of guest code on the calling thread, which needs some 256 KiB more of its own.
const WASM_STACK: usize = 512 << 10;

/// Bytes of a component that takes long enough to compile that people wonder.
const LARGE: usize = 8 << 20;

/// How to set an engine up.
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    /// Folder for compiled code, private to this user; it is made if missing and may be deleted at any time. None: every
    /// load compiles.
    pub cache: Option<PathBuf>,
    /// Compiles guests without the checks that keep [`Limits::call`](crate::Limits::call): one that loops never returns. To
    /// measure what the limit costs, or for guests that the host would trust with its own thread.
    pub no_call_limit: bool,
    /// What guests find of clocks and random bytes.
    pub surroundings: Surroundings,
}

/// Ticks since the engine was made: a clock good enough for limits and rates, that costs one load to read.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Ticks {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ticks after which a call of this length is over. One more than fit, since the first one is already running.
pub(crate) fn ticks_in(duration: Duration) -> u64 {
    let ticks = duration.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).min(u64::MAX / 2) + 1
}

/// The engine: compiles plugins and runs their instances. One a process is enough.
pub struct PluginEngine {
    engine: Engine,
    linker: Linker<HostState>,
    ticks: Arc<Ticks>,
    cache: Option<CompileCache>,
    surroundings: Surroundings,
}

impl PluginEngine {
    /// Sets an engine up and starts its clock.
    pub fn new(config: &EngineConfig) -> Result<Arc<Self>, EngineError> {
        let engine = Engine::new(&engine_config(config)).map_err(|e| EngineError::Engine(format!("{e:#}")))?;
        let linker = host_calls::linker(&engine).map_err(|e| EngineError::Engine(format!("{e:#}")))?;
        let cache = config.cache.as_deref().map(|folder| CompileCache::open(folder, &engine)).transpose()?;
        let ticks = Arc::new(Ticks::default());
        start_ticker(&engine, &ticks)?;
        Ok(Arc::new(PluginEngine { engine, linker, ticks, cache, surroundings: config.surroundings }))
    }

    /// The imports that a component may have, with what it asks of WASI.
    pub(crate) fn linker_of(&self, component: &Component, world: &World) -> wasmtime::Result<Cow<'_, Linker<HostState>>> {
        if world.wasi.is_empty() {
            return Ok(Cow::Borrowed(&self.linker));
        }
        let mut linker = self.linker.clone();
        host_calls::link_wasi(&mut linker, component)?;
        Ok(Cow::Owned(linker))
    }

    /// What a fresh instance finds of WASI.
    pub(crate) fn surroundings(&self) -> Surroundings {
        self.surroundings
    }

    pub(crate) fn ticks(&self) -> &Arc<Ticks> {
        &self.ticks
    }

    /// The compiled component: from the cache if it has it, else compiled now and put there. `name`: for the log.
    pub(crate) fn compile(&self, name: &str, wasm: &[u8], sha256: &str) -> wasmtime::Result<Component> {
        if let Some(component) = self.cache.as_ref().and_then(|cache| cache.get(&self.engine, sha256)) {
            return Ok(component);
        }
        if wasm.len() >= LARGE {
            let megabytes = wasm.len() / 1_000_000;
            let once = if self.cache.is_some() { ", once" } else { "" };
            tracing::info!(plugin = name, "compiling {megabytes} MB for this machine{once}; this may take half a minute");
        }
        let component = Component::from_binary(&self.engine, wasm)?;
        if let Some(cache) = &self.cache {
            cache.put(&component, sha256);
        }
        Ok(component)
    }
}

impl std::fmt::Debug for PluginEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginEngine").field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// Settings that change the compiled code are part of the cache's key by themselves.
fn engine_config(wanted: &EngineConfig) -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    // No guest here waits for anything, and with it a call costs 600 ns instead of 170.
    config.concurrency_support(false);
    config.epoch_interruption(!wanted.no_call_limit);
    config.max_wasm_stack(WASM_STACK);
    // A replayed record must give the same bytes on any machine: without these two, NaN payloads and relaxed SIMD depend
    // on the CPU. The price falls on floating-point code only.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    // Instances start from a copy-on-write image: a fresh one after a trap costs microseconds.
    config.memory_init_cow(true);
    // The canonical ABI works on 32-bit memories; plugins have no use for 64-bit ones, and bounds checks in them cost.
    config.wasm_features(WasmFeatures::MEMORY64, false);
    config.generate_address_map(true);
    config
}

/// Raises the engine's epoch every tick, as long as the engine (or a plugin or instance of it) lives.
fn start_ticker(engine: &Engine, ticks: &Arc<Ticks>) -> Result<(), EngineError> {
    let (engine, ticks) = (engine.weak(), ticks.clone());
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            ticks.0.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new().name("plugin-ticker".into()).spawn(tick).map_err(EngineError::Ticker)?;
    Ok(())
}
