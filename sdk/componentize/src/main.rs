//! Turns a core Wasm module into a component.

fn main() {}
