//! The control socket of a running job: what `weir swap` asks, and what it hears.
//!
//! A Unix socket in the data folder, which only its owner may use. A client sends one request as a line of JSON and hears replies,
//! a line each, until the socket is closed.

mod client;
mod messages;
mod place;
mod server;

pub use client::{AskError, ask};
pub use messages::{BuildInfo, SwapReply, SwapRequest, SwapWish};
pub use server::ControlSocket;
