//! The host's side of the contract's imports, one file for each interface.

mod files;
mod host;
mod http;
mod keyed_state;
mod list_state;
mod map_state;
mod timer_service;
mod wasi;

pub(crate) use host::tell_dropped;
pub(crate) use wasi::{link as link_wasi, tell_unended_lines};

use crate::batch::Column;
use crate::contract::{FILES, HOST, HTTP, KEYED_STATE, LIST_STATE, MAP_STATE, TIMER_SERVICE};
use crate::limits::LimitKind;
use crate::scope::{CallScope, Refusal};
use crate::store::{HostState, untimed};
use wasmtime::component::Linker;
use wasmtime::{Engine, StoreContextMut};

/// What staging one write costs beyond its bytes.
const WRITE_OVERHEAD: usize = 16;

/// Everything that any plugin may import. What it may *do* is decided at each call, by its grants and the running function.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    host::link(&mut linker.instance(HOST)?)?;
    keyed_state::link(&mut linker.instance(KEYED_STATE)?)?;
    list_state::link(&mut linker.instance(LIST_STATE)?)?;
    map_state::link(&mut linker.instance(MAP_STATE)?)?;
    timer_service::link(&mut linker.instance(TIMER_SERVICE)?)?;
    files::link(&mut linker.instance(FILES)?)?;
    http::link(&mut linker.instance(HTTP)?)?;
    Ok(linker)
}

/// A trap for a guest that breaks a rule of the contract.
fn trap(why: impl Into<String>) -> wasmtime::Error {
    wasmtime::Error::msg(why.into())
}

/// Counts what writes to `keys` want staged, `bytes` of it beside the keys themselves.
fn stage(store: &mut StoreContextMut<'_, HostState>, keys: &Column, bytes: usize) -> wasmtime::Result<()> {
    Ok(store.data_mut().count_staged(bytes + keys.len() * WRITE_OVERHEAD)?)
}

/// Runs `call` on the running call's state. `interface`: which one the guest has called, for traps.
fn with_scope<R>(
    store: &mut StoreContextMut<'_, HostState>,
    interface: &'static str,
    call: impl FnOnce(&mut CallScope<'_>) -> Result<R, Refusal>,
) -> wasmtime::Result<R> {
    store.data_mut().count_host_call()?;
    let function = store.data().running.function;
    let refusal = match untimed(store, |state| state.loan.scope().map(call)) {
        Some(Ok(value)) => return Ok(value),
        None => return Err(trap(format!("{interface} in {}: there is no state here", function.name()))),
        Some(Err(refusal)) => refusal,
    };
    match refusal {
        Refusal::Guest(why) => Err(trap(format!("{interface}: {why}"))),
        Refusal::TooLarge => Err(LimitKind::Transfer.breach(&store.data().limits).into()),
        Refusal::TooMuch => Err(LimitKind::Emit.breach(&store.data().limits).into()),
        Refusal::Backend(error) => {
            let text = error.to_string();
            store.data_mut().running.state_error = Some(error);
            Err(trap(text))
        }
    }
}

/// The same for a call that stages cells: it takes what they weigh from the budget that it is given.
fn staging(
    store: &mut StoreContextMut<'_, HostState>,
    interface: &'static str,
    call: impl FnOnce(&mut CallScope<'_>, &mut usize) -> Result<(), Refusal>,
) -> wasmtime::Result<()> {
    let before = store.data().stageable();
    let mut left = before;
    with_scope(store, interface, |scope| call(scope, &mut left))?;
    Ok(store.data_mut().count_staged(before - left)?)
}
