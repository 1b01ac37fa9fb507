//! Write Weir operators and sinks in Rust.
//!
//! A plugin is a crate of type `cdylib` that implements one of the traits here and exports it with a macro. It sees single
//! records; underneath, whole columnar batches cross the boundary, and no record is copied or allocated on the way.
//!
//! ```
//! use weir_sdk::prelude::*;
//!
//! #[derive(Default)]
//! struct Count;
//!
//! impl KeyedOperator for Count {
//!     const INFO: Info = weir_sdk::info!();
//!     type State = Value<u64>;
//!     const STATES: &'static [StateName] = &[StateName::new("count")];
//!     fn process(&mut self, record: Record<'_>, count: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
//!         *count.or_default() += 1;
//!         out.emit(record.key(), count.or_default().to_string(), record.time());
//!         Ok(())
//!     }
//! }
//!
//! weir_sdk::export_operator!(Count);
//! # fn main() {}
//! ```
//!
//! # State
//!
//! | kind | of | for |
//! |---|---|---|
//! | [`Value`] | a key | one value, there when the record comes |
//! | [`Reducing`] | a key | a sum, a maximum, anything that is merged |
//! | [`List`] | a key | elements that are appended, and read now and then |
//! | [`Map`] | a key | entries by a key of their own, in its order |
//! | [`Checkpointed`] | the operator | what belongs to no key: each instance has its own |
//!
//! All of it is in every checkpoint, and what a failed call has changed does not count.
#![deny(unsafe_code)]

mod batch;
#[doc(hidden)]
pub mod bindings;
mod checkpointed;
#[doc(hidden)]
pub mod driver;
mod encoding;
mod error;
#[doc(hidden)]
pub mod export;
mod files;
mod host;
mod http;
mod keyed_state;
mod list;
mod map;
mod map_key;
mod meta;
mod operator;
mod output;
mod reducing;
pub mod sink;
mod state;
mod store;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod timers;

pub use batch::{Batch, Record};
pub use checkpointed::{Checkpointed, Part, PartMode};
pub use encoding::StateValue;
pub use error::Error;
pub use files::Files;
pub use host::{Grants, Level, Task, log};
pub use http::{Origin, Request, Response};
pub use keyed_state::{Column, KeyedState};
pub use list::List;
pub use map::Map;
pub use map_key::{AsMapKey, MapKey};
pub use meta::{HeaderList, Headers, RecordParts};
pub use operator::{BadRecords, BatchOperator, EndOfInput, EndOfKeyedInput, Info, KeyedOperator, Operator, TimerOperator};
pub use output::{Bytes, CHUNK_BYTES, Output, Port};
pub use reducing::{Max, Min, Reducer, Reducing, Sum};
pub use sink::{AbortOutcome, Committable, Outcome, Prepared, SinkCommitter, SinkWriter};
pub use state::{StateItem, StateKind, StateName, StateSet, Value};
pub use timers::{Timer, TimerKind, Timers};

/// Everything that an operator's or sink's source needs.
pub mod prelude {
    pub use crate::{
        AbortOutcome, BadRecords, Batch, BatchOperator, Bytes, Checkpointed, Column, Committable, EndOfInput, EndOfKeyedInput,
        Error, Files, Grants, HeaderList, Headers, Info, KeyedOperator, KeyedState, Level, List, Map, MapKey, Max, Min, Operator,
        Outcome, Output, Part, PartMode, Port, Prepared, Record, RecordParts, Reducer, Reducing, SinkCommitter, SinkWriter,
        StateKind, StateName, StateValue, Sum, Task, Timer, TimerKind, TimerOperator, Timers, Value,
    };
    pub use std::fmt::Write as _;
}
