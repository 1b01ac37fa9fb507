//! Interface `keyed-state`: state on demand, staged until the call succeeds.

use super::trap;
use crate::batch::Column;
use crate::limits::LimitKind;
use crate::scope::{CallScope, Refusal};
use crate::store::{HostState, untimed};
use crate::times::timed;
use crate::wire::{CellsAnswer, ColumnLift};
use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

/// What staging one write costs beyond its value.
const WRITE_OVERHEAD: usize = 16;

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("get-many", timed(get_many))?;
    linker.func_wrap("put-many", timed(put_many))?;
    linker.func_wrap("delete-many", timed(delete_many))
}

fn get_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<(CellsAnswer,)> {
    let keys = keys.check()?;
    let budget = store.data().limits.transfer;
    let cells = with_scope(&mut store, |scope| scope.get_many(state, &keys, budget))?;
    Ok((cells.into(),))
}

fn put_many(
    mut store: StoreContextMut<'_, HostState>,
    (state, keys, values): (u32, ColumnLift, ColumnLift),
) -> wasmtime::Result<()> {
    let (keys, values) = (keys.check()?, values.check()?);
    stage(&mut store, &keys, values.data().len())?;
    with_scope(&mut store, |scope| scope.put_many(state, &keys, &values))
}

fn delete_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<()> {
    let keys = keys.check()?;
    stage(&mut store, &keys, 0)?;
    with_scope(&mut store, |scope| scope.delete_many(state, &keys))
}

fn stage(store: &mut StoreContextMut<'_, HostState>, keys: &Column, values: usize) -> wasmtime::Result<()> {
    Ok(store.data_mut().count_staged(values + keys.len() * WRITE_OVERHEAD)?)
}

/// Runs `call` on the running call's state.
fn with_scope<R>(
    store: &mut StoreContextMut<'_, HostState>,
    call: impl FnOnce(&mut CallScope<'_>) -> Result<R, Refusal>,
) -> wasmtime::Result<R> {
    store.data_mut().count_host_call()?;
    let function = store.data().running.function;
    let refusal = match untimed(store, |state| state.loan.scope().map(call)) {
        Some(Ok(value)) => return Ok(value),
        None => return Err(trap(format!("keyed-state in {}: there is no state here", function.name()))),
        Some(Err(refusal)) => refusal,
    };
    match refusal {
        Refusal::Guest(why) => Err(trap(format!("keyed-state: {why}"))),
        Refusal::TooLarge => Err(LimitKind::Transfer.breach(&store.data().limits).into()),
        Refusal::Backend(error) => {
            let text = error.to_string();
            store.data_mut().running.state_error = Some(error);
            Err(trap(text))
        }
    }
}
