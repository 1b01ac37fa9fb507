//! Interface `list-state`: lists of the running call's keys, staged until the call succeeds.

use super::{stage, staging, with_scope};
use crate::describe::StateKind;
use crate::store::HostState;
use crate::times::timed;
use crate::wire::{ColumnLift, ListPageAnswer, ListsAnswer};
use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

/// Its name in traps.
const LIST_STATE: &str = "list-state";

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("append-many", timed(append_many))?;
    linker.func_wrap("get-many", timed(get_many))?;
    linker.func_wrap("get-page", timed(get_page))?;
    linker.func_wrap("len-many", timed(len_many))?;
    linker.func_wrap("clear-many", timed(clear_many))
}

fn append_many(
    mut store: StoreContextMut<'_, HostState>,
    (state, keys, values): (u32, ColumnLift, ColumnLift),
) -> wasmtime::Result<()> {
    let (keys, values) = (keys.check()?, values.check()?);
    stage(&mut store, &keys, values.data().len())?;
    staging(&mut store, LIST_STATE, |scope, budget| scope.list_append_many(state, &keys, &values, budget))
}

fn get_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<(ListsAnswer,)> {
    let keys = keys.check()?;
    let bytes = store.data().limits.transfer;
    let lists = with_scope(&mut store, LIST_STATE, |scope| scope.list_get_many(state, &keys, bytes))?;
    Ok((ListsAnswer { counts: lists.counts, values: lists.values.into() },))
}

fn get_page(
    mut store: StoreContextMut<'_, HostState>,
    (state, key, start, limit): (u32, Vec<u8>, u64, u32),
) -> wasmtime::Result<(ListPageAnswer,)> {
    let page = with_scope(&mut store, LIST_STATE, |scope| scope.list_page(state, &key, start, limit))?;
    Ok((ListPageAnswer { values: page.values.into(), next: page.next },))
}

fn len_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<(Vec<u8>,)> {
    let keys = keys.check()?;
    Ok((with_scope(&mut store, LIST_STATE, |scope| scope.list_len_many(state, &keys))?,))
}

fn clear_many(mut store: StoreContextMut<'_, HostState>, (state, keys): (u32, ColumnLift)) -> wasmtime::Result<()> {
    let keys = keys.check()?;
    stage(&mut store, &keys, 0)?;
    staging(&mut store, LIST_STATE, |scope, budget| scope.clear_many(StateKind::List, state, &keys, budget))
}
