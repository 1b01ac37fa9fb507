//! Interface `timer-service`: timers of the running call's keys, staged until the call succeeds.

use super::trap;
use crate::store::{HostState, untimed};
use crate::timers::{TimerChange, TimerKind, TimerOp};
use crate::times::timed;
use crate::wire::BatchLift;
use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

/// Bytes of a timer's payload.
const MAX_PAYLOAD: usize = 64 << 10;

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("register-many", timed(register_many))?;
    linker.func_wrap("delete-many", timed(delete_many))?;
    linker.func_wrap("current", timed(current))
}

fn register_many(store: StoreContextMut<'_, HostState>, (kind, timers): (String, BatchLift)) -> wasmtime::Result<()> {
    change(store, TimerOp::Register, &kind, timers)
}

fn delete_many(store: StoreContextMut<'_, HostState>, (kind, timers): (String, BatchLift)) -> wasmtime::Result<()> {
    change(store, TimerOp::Delete, &kind, timers)
}

fn change(mut store: StoreContextMut<'_, HostState>, op: TimerOp, kind: &str, timers: BatchLift) -> wasmtime::Result<()> {
    let kind = parse(kind)?;
    let state = store.data_mut();
    state.count_host_call()?;
    state.count_staged(timers.bytes())?;
    let function = state.running.function;
    let timers = timers.check()?;
    if let Some(large) = (0..timers.len()).find(|&i| timers.value(i).len() > MAX_PAYLOAD) {
        let bytes = timers.value(large).len();
        return Err(trap(format!("timer-service: the payload of timer {large} has {bytes} bytes, more than {MAX_PAYLOAD}")));
    }
    match untimed(&mut store, |state| state.loan.scope().map(|scope| scope.check_keys(&timers))) {
        None => return Err(trap(format!("timer-service in {}: the call has no keys", function.name()))),
        Some(Err(why)) => return Err(trap(format!("timer-service: {why}"))),
        Some(Ok(())) => {}
    }
    if !timers.is_empty() {
        store.data_mut().running.timers.push(TimerChange { op, kind, timers });
    }
    Ok(())
}

fn current(mut store: StoreContextMut<'_, HostState>, (kind,): (String,)) -> wasmtime::Result<(i64,)> {
    let state = store.data_mut();
    state.count_host_call()?;
    Ok((state.clocks.of(parse(&kind)?),))
}

fn parse(kind: &str) -> wasmtime::Result<TimerKind> {
    TimerKind::from_name(kind).ok_or_else(|| {
        let shown: String = kind.chars().take(40).collect();
        trap(format!("timer-service: there is no kind {shown:?}; this version knows \"event-time\" and \"processing-time\""))
    })
}
