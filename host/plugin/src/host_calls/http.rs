//! Interface `http`: requests to granted origins.

use super::trap;
use crate::error::Function;
use crate::http::{Answer, Ask};
use crate::store::{HostState, untimed};
use crate::times::timed;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower};

#[derive(ComponentType, Lift)]
#[component(record)]
struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

pub(super) fn link(linker: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    linker.func_wrap("send", timed(send))
}

fn send(
    mut store: StoreContextMut<'_, HostState>,
    (grant, request): (String, Request),
) -> wasmtime::Result<(Result<Response, String>,)> {
    let state = store.data_mut();
    state.count_host_call()?;
    if state.running.function == Function::Write {
        return Err(trap("http.send in write: what a sink sends leaves in prepare, or in its committer"));
    }
    let limit = state.limits.transfer;
    let Request { method, path, headers, body } = request;
    let ask = Ask { method, path, headers, body };
    let answer = untimed(&mut store, |state| state.reach.origins.send(&grant, ask, limit));
    Ok((answer.map(|Answer { status, headers, body }| Response { status, headers, body }),))
}
