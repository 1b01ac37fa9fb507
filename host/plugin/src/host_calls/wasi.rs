//! WASI 0.2, as much as the runtime of a language needs: see [`crate::wasi`].

use super::host::write_log;
use super::trap;
use crate::limits::LimitKind;
use crate::store::HostState;
use crate::times::timed;
use crate::wasi::{Wasi, gives};
use tracing::Level;
use wasmtime::StoreContextMut;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType};

/// Kinds of handles. A stream's number says which it is, a pollable's is its place in [`Wasi`].
enum InputStream {}
enum OutputStream {}
enum Pollable {}
enum IoError {}
/// Of every other kind there is none.
enum Absent {}

const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// Bytes of standard error that the text of a trap may quote.
const MAX_QUOTE: usize = 1 << 10;

/// Bytes that a stream takes at once.
const WRITE_AT_ONCE: u64 = 64 << 10;

type Store<'s> = StoreContextMut<'s, HostState>;

#[derive(ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[allow(dead_code, reason = "part of the type; no operation on a stream of ours fails")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

impl Datetime {
    fn new(ns: u64) -> Self {
        Datetime { seconds: ns / 1_000_000_000, nanoseconds: (ns % 1_000_000_000) as u32 }
    }
}

/// Links what a component imports of WASI. What is not served traps with its name when it is called.
pub(crate) fn link(linker: &mut Linker<HostState>, component: &Component) -> wasmtime::Result<()> {
    let engine = component.engine();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = &import.ty else { continue };
        if gives(name).is_none() {
            continue;
        }
        let interface = name.trim_start_matches("wasi:").split('@').next().unwrap_or(name);
        let mut target = linker.instance(name)?;
        for (item, extern_item) in instance.exports(engine) {
            match extern_item.ty {
                ComponentItem::Resource(_) => link_resource(&mut target, item)?,
                ComponentItem::ComponentFunc(_) if !link_served(&mut target, interface, item)? => {
                    let why = format!("{item} of {name} was called: that is not granted");
                    target.func_new(item, move |_, _, _, _| Err(trap(why.clone())))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn link_resource(linker: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<()> {
    let nothing = |_: Store<'_>, _| Ok(());
    match name {
        "input-stream" => linker.resource(name, ResourceType::host::<InputStream>(), nothing),
        "output-stream" => linker.resource(name, ResourceType::host::<OutputStream>(), nothing),
        "error" => linker.resource(name, ResourceType::host::<IoError>(), nothing),
        "pollable" => linker.resource(name, ResourceType::host::<Pollable>(), |mut store, pollable| {
            store.data_mut().wasi.unsubscribe(pollable);
            Ok(())
        }),
        _ => linker.resource(name, ResourceType::host::<Absent>(), nothing),
    }
}

/// Links a function that is served; false if it is none.
fn link_served(linker: &mut LinkerInstance<'_, HostState>, interface: &str, name: &str) -> wasmtime::Result<bool> {
    match (interface, name) {
        ("cli/environment", "get-environment") => answer(linker, name, |wasi, ()| Ok(wasi.environment())),
        ("cli/environment", "get-arguments") => answer(linker, name, |_, ()| Ok(Vec::<String>::new())),
        ("cli/environment", "initial-cwd") => answer(linker, name, |_, ()| Ok(None::<String>)),
        ("cli/exit", "exit") => linker.func_wrap(name, |_: Store<'_>, (status,): (Result<(), ()>,)| -> wasmtime::Result<()> {
            Err(trap(format!("it ended itself with {}", if status.is_ok() { "success" } else { "a failure" })))
        }),
        ("cli/exit", "exit-with-code") => linker.func_wrap(name, |_: Store<'_>, (code,): (u8,)| -> wasmtime::Result<()> {
            Err(trap(format!("it ended itself with exit code {code}")))
        }),
        ("cli/stdin", "get-stdin") => answer(linker, name, |_, ()| Ok(Resource::<InputStream>::new_own(0))),
        ("cli/stdout", "get-stdout") => answer(linker, name, |_, ()| Ok(Resource::<OutputStream>::new_own(STDOUT))),
        ("cli/stderr", "get-stderr") => answer(linker, name, |_, ()| Ok(Resource::<OutputStream>::new_own(STDERR))),
        ("cli/terminal-stdin", "get-terminal-stdin")
        | ("cli/terminal-stdout", "get-terminal-stdout")
        | ("cli/terminal-stderr", "get-terminal-stderr") => answer(linker, name, |_, ()| Ok(None::<Resource<Absent>>)),
        ("filesystem/preopens", "get-directories") => answer(linker, name, |_, ()| Ok(Vec::<(Resource<Absent>, String)>::new())),
        ("clocks/monotonic-clock", "now") => answer(linker, name, |wasi, ()| Ok(wasi.now_ns())),
        ("clocks/monotonic-clock", "resolution") => answer(linker, name, |_, ()| Ok(1u64)),
        ("clocks/monotonic-clock", "subscribe-instant") => answer(linker, name, |wasi, (when,): (u64,)| subscribe(wasi, when)),
        ("clocks/monotonic-clock", "subscribe-duration") => {
            answer(linker, name, |wasi, (span,): (u64,)| subscribe(wasi, wasi.now_ns().saturating_add(span)))
        }
        ("clocks/wall-clock", "now") => answer(linker, name, |wasi, ()| Ok(Datetime::new(wasi.wall_ns()))),
        ("clocks/wall-clock", "resolution") => answer(linker, name, |_, ()| Ok(Datetime::new(1))),
        ("random/random", "get-random-u64") | ("random/insecure", "get-insecure-random-u64") => {
            answer(linker, name, |wasi, ()| Ok(wasi.random()))
        }
        ("random/random", "get-random-bytes") | ("random/insecure", "get-insecure-random-bytes") => {
            linker.func_wrap(name, timed(random_bytes))
        }
        ("random/insecure-seed", "insecure-seed") => answer(linker, name, |wasi, ()| Ok((wasi.random(), wasi.random()))),
        ("io/poll", _) => return link_poll(linker, name),
        ("io/streams", _) => return link_streams(linker, name),
        _ => return Ok(false),
    }?;
    Ok(true)
}

fn link_poll(linker: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "[method]pollable.ready" => {
            answer(linker, name, |wasi, (one,): (Resource<Pollable>,)| Ok(wasi.deadline(one.rep()) <= wasi.now_ns()))
        }
        "[method]pollable.block" => linker.func_wrap(
            name,
            timed(|mut store: Store<'_>, (one,): (Resource<Pollable>,)| {
                store.data_mut().count_host_call()?;
                store.data_mut().wasi.poll(&[one.rep()]);
                Ok(())
            }),
        ),
        "poll" => answer(linker, name, |wasi, (all,): (Vec<Resource<Pollable>>,)| {
            if all.is_empty() {
                return Err(trap("poll of wasi:io: it waits for nothing"));
            }
            let handles: Vec<u32> = all.iter().map(Resource::rep).collect();
            Ok(wasi.poll(&handles))
        }),
        _ => return Ok(false),
    }?;
    Ok(true)
}

fn link_streams(linker: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    type Input = (Resource<InputStream>,);
    type Output = (Resource<OutputStream>,);
    match name {
        "[method]input-stream.read" | "[method]input-stream.blocking-read" => {
            answer(linker, name, |_, _: (Resource<InputStream>, u64)| Ok(Err::<Vec<u8>, _>(StreamError::Closed)))
        }
        "[method]input-stream.skip" | "[method]input-stream.blocking-skip" => {
            answer(linker, name, |_, _: (Resource<InputStream>, u64)| Ok(Err::<u64, _>(StreamError::Closed)))
        }
        "[method]input-stream.subscribe" => answer(linker, name, |wasi, _: Input| subscribe(wasi, 0)),
        "[method]output-stream.subscribe" => answer(linker, name, |wasi, _: Output| subscribe(wasi, 0)),
        "[method]output-stream.check-write" => answer(linker, name, |_, _: Output| Ok(Ok::<u64, StreamError>(WRITE_AT_ONCE))),
        "[method]output-stream.flush" | "[method]output-stream.blocking-flush" => {
            answer(linker, name, |_, _: Output| Ok(Ok::<(), StreamError>(())))
        }
        "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush" => linker.func_wrap(name, timed(write)),
        _ => return Ok(false),
    }?;
    Ok(true)
}

/// Links a function that needs nothing but [`Wasi`].
fn answer<P, R>(
    linker: &mut LinkerInstance<'_, HostState>,
    name: &str,
    function: impl Fn(&mut Wasi, P) -> wasmtime::Result<R> + Send + Sync + 'static,
) -> wasmtime::Result<()>
where
    P: wasmtime::component::ComponentNamedList + Lift + 'static,
    R: ComponentType + Lower + 'static,
    (R,): wasmtime::component::ComponentNamedList + Lower,
{
    linker.func_wrap(
        name,
        timed(move |mut store: Store<'_>, parameters: P| {
            store.data_mut().count_host_call()?;
            Ok((function(&mut store.data_mut().wasi, parameters)?,))
        }),
    )
}

fn subscribe(wasi: &mut Wasi, deadline: u64) -> wasmtime::Result<Resource<Pollable>> {
    Ok(Resource::new_own(wasi.subscribe(deadline)))
}

fn random_bytes(mut store: Store<'_>, (count,): (u64,)) -> wasmtime::Result<(Vec<u8>,)> {
    let state = store.data_mut();
    state.count_host_call()?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > state.limits.transfer {
        return Err(LimitKind::Transfer.breach(&state.limits).into());
    }
    let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| state.wasi.random().to_le_bytes()).collect();
    bytes.truncate(count);
    Ok((bytes,))
}

/// Standard output is told as information, standard error as a warning: runtimes write their last words there.
fn write(
    mut store: Store<'_>,
    (stream, bytes): (Resource<OutputStream>, Vec<u8>),
) -> wasmtime::Result<(Result<(), StreamError>,)> {
    let state = store.data_mut();
    state.count_host_call()?;
    let (level, lines) = match stream.rep() {
        STDERR => {
            let quote = &mut state.running.stderr;
            let room = MAX_QUOTE.saturating_sub(quote.len()).min(bytes.len());
            quote.extend_from_slice(&bytes[..room]);
            (Level::WARN, state.wasi.error.write(&bytes))
        }
        _ => (Level::INFO, state.wasi.output.write(&bytes)),
    };
    for line in lines {
        write_log(state, level, &line);
    }
    Ok((Ok(()),))
}

/// Tells of lines that have not ended; after the last call.
pub(crate) fn tell_unended_lines(state: &mut HostState) {
    for (level, line) in [(Level::INFO, state.wasi.output.take()), (Level::WARN, state.wasi.error.take())] {
        if let Some(line) = line {
            write_log(state, level, &line);
        }
    }
}
