//! Interface `map-state`: maps of the running call's keys, staged until the call succeeds.

use super::{stage, staging, with_scope};
use crate::describe::StateKind;
use crate::store::HostState;
use crate::times::timed;
use crate::wire::{CellsAnswer, ColumnLift, MapPageAnswer};
use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

/// Its name in traps.
const MAP_STATE: &str = "map-state";

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("get-many", timed(get_many))?;
    linker.func_wrap("put-many", timed(put_many))?;
    linker.func_wrap("remove-many", timed(remove_many))?;
    linker.func_wrap("scan", timed(scan))?;
    linker.func_wrap("is-empty-many", timed(is_empty_many))?;
    linker.func_wrap("clear-many", timed(clear_many))
}

fn get_many(
    mut store: StoreContextMut<'_, HostState>,
    (state, keys, map_keys): (u32, ColumnLift, ColumnLift),
) -> wasmtime::Result<(CellsAnswer,)> {
    let (keys, map_keys) = (keys.check()?, map_keys.check()?);
    let bytes = store.data().limits.transfer;
    let cells = with_scope(&mut store, MAP_STATE, |scope| scope.map_get_many(state, &keys, &map_keys, bytes))?;
    Ok((cells.into(),))
}

fn put_many(
    mut store: StoreContextMut<'_, HostState>,
    (state, keys, map_keys, values): (u32, ColumnLift, ColumnLift, ColumnLift),
) -> wasmtime::Result<()> {
    let (keys, map_keys, values) = (keys.check()?, map_keys.check()?, values.check()?);
    stage(&mut store, &keys, map_keys.data().len() + values.data().len())?;
    staging(&mut store, MAP_STATE, |scope, budget| scope.map_put_many(state, &keys, (&map_keys, &values), budget))
}

fn remove_many(
    mut store: StoreContextMut<'_, HostState>,
    (state, keys, map_keys): (u32, ColumnLift, ColumnLift),
) -> wasmtime::Result<()> {
    let (keys, map_keys) = (keys.check()?, map_keys.check()?);
    stage(&mut store, &keys, 0)?;
    staging(&mut store, MAP_STATE, |scope, budget| scope.map_remove_many(state, &keys, &map_keys, budget))
}

/// State, key, start, end, limit.
type Range = (u32, Vec<u8>, Vec<u8>, Vec<u8>, u32);

fn scan(mut store: StoreContextMut<'_, HostState>, (state, key, start, end, limit): Range) -> wasmtime::Result<(MapPageAnswer,)> {
    let page = with_scope(&mut store, MAP_STATE, |scope| scope.map_scan(state, &key, &start, &end, limit))?;
    Ok((MapPageAnswer { map_keys: page.map_keys.into(), values: page.values.into(), done: page.done },))
}

fn is_empty_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<(Vec<u8>,)> {
    let keys = keys.check()?;
    Ok((with_scope(&mut store, MAP_STATE, |scope| scope.map_is_empty_many(state, &keys))?,))
}

fn clear_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<()> {
    let keys = keys.check()?;
    stage(&mut store, &keys, 0)?;
    staging(&mut store, MAP_STATE, |scope, budget| scope.clear_many(StateKind::Map, state, &keys, budget))
}
