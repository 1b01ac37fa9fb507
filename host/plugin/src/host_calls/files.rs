//! Interface `files`: granted folders.

use super::trap;
use crate::error::Function;
use crate::folder::Folder;
use crate::store::{HostState, StagedAppend, untimed};
use crate::times::timed;
use wasmtime::StoreContextMut;
use wasmtime::component::LinkerInstance;

/// What staging one append costs beyond its bytes.
const APPEND_OVERHEAD: usize = 128;

/// An answer for the guest: a text instead of a trap where its request could not be done.
type Answer<R> = (Result<R, String>,);

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("append", timed(append))?;
    linker.func_wrap("read", timed(read))?;
    linker.func_wrap("rename", timed(rename))?;
    linker.func_wrap("sync", on_path("sync", Folder::sync))?;
    linker.func_wrap("mkdir", on_path("mkdir", Folder::mkdir))?;
    linker.func_wrap("remove", on_path("remove", Folder::remove))?;
    linker.func_wrap("exists", on_path("exists", Folder::exists))?;
    linker.func_wrap("list", on_path("list", Folder::list))
}

/// A function of one path that acts at once.
fn on_path<R: 'static>(
    name: &'static str,
    act: impl Fn(&Folder, &str) -> Result<R, String> + Send + Sync + 'static,
) -> impl Fn(StoreContextMut<'_, HostState>, (String, String)) -> wasmtime::Result<Answer<R>> + Send + Sync + 'static {
    timed(move |store: StoreContextMut<'_, HostState>, (grant, path): (String, String)| {
        outside_write(store, name, &grant, |folder| act(folder, &path))
    })
}

fn rename(
    store: StoreContextMut<'_, HostState>,
    (grant, source, target): (String, String, String),
) -> wasmtime::Result<Answer<bool>> {
    outside_write(store, "rename", &grant, |folder| folder.rename(&source, &target))
}

/// In a sink's `write` only staged: a grant or path that can't be right is still told now.
fn append(
    mut store: StoreContextMut<'_, HostState>,
    (grant, path, bytes): (String, String, Vec<u8>),
) -> wasmtime::Result<Answer<()>> {
    let state = store.data_mut();
    state.count_host_call()?;
    if state.running.function != Function::Write {
        return Ok((untimed(&mut store, |state| state.reach.folder(&grant)?.append(&path, &bytes)),));
    }
    if let Err(why) = state.reach.folder(&grant).and_then(|folder| folder.check(&path)) {
        return Ok((Err(why),));
    }
    state.count_staged(bytes.len() + APPEND_OVERHEAD)?;
    stage(&mut state.running.appends, grant, path, bytes);
    Ok((Ok(()),))
}

/// Appends to the same file in a row become one.
fn stage(appends: &mut Vec<StagedAppend>, grant: String, path: String, bytes: Vec<u8>) {
    match appends.last_mut() {
        Some(last) if last.grant == grant && last.path == path => last.bytes.extend_from_slice(&bytes),
        _ => appends.push(StagedAppend { grant, path, bytes }),
    }
}

fn read(
    mut store: StoreContextMut<'_, HostState>,
    (grant, path, offset, limit): (String, String, u64, u32),
) -> wasmtime::Result<Answer<Vec<u8>>> {
    store.data_mut().count_host_call()?;
    let limit = (limit as usize).min(store.data().limits.transfer);
    Ok((untimed(&mut store, |state| state.reach.folder(&grant)?.read(&path, offset, limit)),))
}

/// An operation that acts at once, and therefore traps in a sink's `write`.
fn outside_write<R>(
    mut store: StoreContextMut<'_, HostState>,
    operation: &str,
    grant: &str,
    act: impl FnOnce(&Folder) -> Result<R, String>,
) -> wasmtime::Result<Answer<R>> {
    let state = store.data_mut();
    state.count_host_call()?;
    if state.running.function == Function::Write {
        return Err(trap(format!("files.{operation} in write: only append and read may be called there")));
    }
    Ok((untimed(&mut store, |state| state.reach.folder(grant).and_then(act)),))
}
