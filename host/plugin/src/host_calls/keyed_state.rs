//! Interface `keyed-state`: state on demand, staged until the call succeeds.

use super::{stage, with_scope};
use crate::store::HostState;
use crate::times::timed;
use crate::wire::{CellsAnswer, ColumnLift};
use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

/// Its name in traps.
const KEYED_STATE: &str = "keyed-state";

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("get-many", timed(get_many))?;
    linker.func_wrap("put-many", timed(put_many))?;
    linker.func_wrap("delete-many", timed(delete_many))
}

fn get_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<(CellsAnswer,)> {
    let keys = keys.check()?;
    let budget = store.data().limits.transfer;
    let cells = with_scope(&mut store, KEYED_STATE, |scope| scope.get_many(state, &keys, budget))?;
    Ok((cells.into(),))
}

fn put_many(
    mut store: StoreContextMut<'_, HostState>,
    (state, keys, values): (u32, ColumnLift, ColumnLift),
) -> wasmtime::Result<()> {
    let (keys, values) = (keys.check()?, values.check()?);
    stage(&mut store, &keys, values.data().len())?;
    with_scope(&mut store, KEYED_STATE, |scope| scope.put_many(state, &keys, &values))
}

fn delete_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<()> {
    let keys = keys.check()?;
    stage(&mut store, &keys, 0)?;
    with_scope(&mut store, KEYED_STATE, |scope| scope.delete_many(state, &keys))
}
