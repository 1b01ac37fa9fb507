//! Byte-bounded in-process channels of columnar batches.

pub mod element;

pub use element::{Batch, PositionStep, Provenance, SourceSpan, StreamElement};
