//! Byte-bounded in-process channels of columnar batches.

pub mod element;
pub mod exchange;
pub mod gate;
#[cfg(test)]
mod tests;

pub use element::{Batch, PositionStep, Provenance, SourceSpan, StreamElement};
pub use exchange::OutputGate;
pub use gate::{CHANNEL_BYTES_MAX, Cancelled, ChannelWriter, GateControl, InputGate, Received, input_gate};
