//! Interface `host`: log and emit.

use super::trap;
use crate::batch::{Malformed, RecordBatch};
use crate::log_budget::Admission;
use crate::store::{HostState, Who};
use crate::times::timed;
use crate::wire::WasmBatch;
use std::borrow::Cow;
use tracing::Level;
use wasmtime::StoreContextMut;
use wasmtime::component::{LinkerInstance, WasmList, WasmStr};

/// Bytes of a message that the log keeps.
const MAX_MESSAGE: usize = 8 << 10;

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("log", timed(log))?;
    linker.func_wrap("emit", timed(emit))
}

fn log(mut store: StoreContextMut<'_, HostState>, (level, message): (WasmStr, WasmStr)) -> wasmtime::Result<()> {
    let level = parse_level(&text(&level, &store, "level")?)?;
    let message = shorten(text(&message, &store, "message")?);
    let state = store.data_mut();
    if level == Level::ERROR {
        state.running.last_error = Some(message.clone());
    }
    write_log(state, level, &message);
    Ok(())
}

/// Writes a line of the plugin's, if it may still write one.
pub(super) fn write_log(state: &mut HostState, level: Level, message: &str) {
    let now = state.now();
    match state.log.admit(now, state.limits.log_lines) {
        Admission::Drop => {}
        Admission::Write { dropped_before } => {
            tell_dropped(&state.who, dropped_before);
            write_line(&state.who, level, message);
        }
    }
}

/// A string of the guest's, which may not be one.
fn text<'s>(string: &WasmStr, store: &'s StoreContextMut<'_, HostState>, what: &str) -> wasmtime::Result<Cow<'s, str>> {
    string.to_str(store).map_err(|e| trap(format!("log: the {what} is not UTF-8: {e}")))
}

/// Says how many lines were dropped, if any.
pub(crate) fn tell_dropped(who: &Who, lines: u64) {
    if lines > 0 {
        write_line(who, Level::WARN, &format!("{lines} log lines of this plugin were dropped: over `limits.log_lines`"));
    }
}

fn parse_level(level: &str) -> wasmtime::Result<Level> {
    match level {
        "trace" => Ok(Level::TRACE),
        "debug" => Ok(Level::DEBUG),
        "info" => Ok(Level::INFO),
        "warn" => Ok(Level::WARN),
        "error" => Ok(Level::ERROR),
        _ => Err(trap(format!("log: there is no level {:?}", shorten(Cow::Borrowed(level))))),
    }
}

/// Cuts at a character's border.
fn shorten(message: Cow<'_, str>) -> String {
    match message.len() <= MAX_MESSAGE {
        true => message.into_owned(),
        false => format!("{}…", &message[..message.floor_char_boundary(MAX_MESSAGE)]),
    }
}

fn write_line(who: &Who, level: Level, message: &str) {
    /// The level of an event is part of its static description.
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(target: "plugin", $level, plugin = who.plugin, operator = who.operator, subtask = who.subtask, "{message}")
        };
    }
    match level {
        Level::TRACE => line!(Level::TRACE),
        Level::DEBUG => line!(Level::DEBUG),
        Level::INFO => line!(Level::INFO),
        Level::WARN => line!(Level::WARN),
        Level::ERROR => line!(Level::ERROR),
    }
}

/// Copies a chunk straight out of the guest's memory: one copy a column.
fn emit(mut store: StoreContextMut<'_, HostState>, (port, batch): (u32, WasmBatch)) -> wasmtime::Result<()> {
    let state = store.data_mut();
    state.count_host_call()?;
    let function = state.running.function;
    if !function.processes() {
        return Err(trap(format!("emit in {}: only an operator that processes may emit", function.name())));
    }
    check_port(port, state.side_outputs)?;
    state.count_staged(batch.bytes())?;
    let copy = |list: &WasmList<u8>| list.as_le_slice(&store).to_vec();
    let (data, index, times, aux) = (copy(&batch.data), copy(&batch.index), copy(&batch.times), copy(&batch.aux));
    let chunk = RecordBatch::from_parts(batch.count, data, index, times, aux)
        .map_err(|Malformed(why)| Malformed(format!("emit: {why}")))?;
    if !chunk.is_empty() {
        store.data_mut().running.emitted.push((port, chunk));
    }
    Ok(())
}

fn check_port(port: u32, side_outputs: usize) -> Result<(), Malformed> {
    match port as usize <= side_outputs {
        true => Ok(()),
        false => Err(Malformed(format!("emit: port {port}, but the plugin declares {side_outputs} side outputs"))),
    }
}
