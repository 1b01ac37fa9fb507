//! Weir's plugin host as a library: loads, limits and drives Wasm components.
//!
//! It knows no runtime, no checkpoint protocol and no connector: a host of another kind can embed it.

pub mod batch;
pub mod state;
