//! The host's side of the contract's imports, one file for each interface.

mod files;
mod host;
mod http;
mod keyed_state;
mod timer_service;
mod wasi;

pub(crate) use host::tell_dropped;
pub(crate) use wasi::{link as link_wasi, tell_unended_lines};

use crate::contract::{FILES, HOST, HTTP, KEYED_STATE, TIMER_SERVICE};
use crate::store::HostState;
use wasmtime::Engine;
use wasmtime::component::Linker;

/// Everything that any plugin may import. What it may *do* is decided at each call, by its grants and the running function.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    host::link(&mut linker.instance(HOST)?)?;
    keyed_state::link(&mut linker.instance(KEYED_STATE)?)?;
    timer_service::link(&mut linker.instance(TIMER_SERVICE)?)?;
    files::link(&mut linker.instance(FILES)?)?;
    http::link(&mut linker.instance(HTTP)?)?;
    Ok(linker)
}

/// A trap for a guest that breaks a rule of the contract.
fn trap(why: impl Into<String>) -> wasmtime::Error {
    wasmtime::Error::msg(why.into())
}
