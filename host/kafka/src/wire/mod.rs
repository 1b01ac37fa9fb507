//! Requests and answers as bytes; no I/O.

pub(crate) mod ask;
pub(crate) mod frame;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

pub(crate) use ask::Ask;
