//! State of the operator itself, which belongs to no key: in the checkpoint as parts.

use crate::bindings::types;
use crate::driver::{Call, Instance};
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;
use std::fmt;
use std::marker::PhantomData;

/// Who gets a part at a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartMode {
    /// One of the instances: the one that gave it or, at another parallelism, any.
    Split,
    /// Every instance.
    Broadcast,
}

impl PartMode {
    /// As the contract names it.
    pub const fn name(self) -> &'static str {
        match self {
            PartMode::Split => "split",
            PartMode::Broadcast => "broadcast",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [PartMode::Split, PartMode::Broadcast].into_iter().find(|mode| mode.name() == name)
    }
}

/// A part of an operator's own state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who gets it.
    pub mode: PartMode,
    /// Version of the bytes' encoding, chosen by the author.
    pub version: u32,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Part {
    /// A part that one of the instances gets.
    pub fn split<T: StateValue>(version: u32, value: &T) -> Self {
        Part::new(PartMode::Split, version, value)
    }

    /// A part that every instance gets.
    pub fn broadcast<T: StateValue>(version: u32, value: &T) -> Self {
        Part::new(PartMode::Broadcast, version, value)
    }

    fn new<T: StateValue>(mode: PartMode, version: u32, value: &T) -> Self {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        Part { mode, version, bytes }
    }

    /// The value that it was made of. Fails if it is no `T` of this version.
    pub fn value<T: StateValue>(&self, version: u32) -> Result<T, Error> {
        let value = if self.version == version { decode_all(&self.bytes) } else { None };
        value.ok_or_else(|| {
            let (own, bytes, name) = (self.version, self.bytes.len(), std::any::type_name::<T>());
            Error::Fatal(format!("operator state: a part of version {own} with {bytes} bytes is no {name} of version {version}"))
        })
    }
}

/// For an operator of any kind: what it keeps in its own fields is in every checkpoint. Export it with
/// `export_operator!(Type, checkpointed)`; `timers` or `end_of_input` stand before that.
///
/// The state belongs to no key: each instance has its own. Mind that
/// - it is small: every checkpoint has all of it, 1 MiB for an instance at most;
/// - the operator is cloned before each call, and put back if the call fails: what is made again counts once;
/// - after a trap the job goes back to its last checkpoint, since this state can't be had otherwise: no single record is blamed.
///
/// ```
/// use weir_sdk::prelude::*;
///
/// /// Numbers its records. Every instance has numbers of its own: with another parallelism, too.
/// #[derive(Clone, Default)]
/// struct Numbered {
///     instance: u32,
///     counters: Vec<u64>,
/// }
///
/// impl Operator for Numbered {
///     const INFO: Info = weir_sdk::info!();
///     fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
///         if self.counters.is_empty() {
///             self.counters.push(0);
///         }
///         self.counters[0] += 1;
///         out.emit(record.key(), self.counters[0].to_string(), record.time());
///         Ok(())
///     }
/// }
///
/// impl Checkpointed for Numbered {
///     fn snapshot(&self) -> Result<Vec<Part>, Error> {
///         Ok(self.counters.iter().map(|counter| Part::split(1, counter)).collect())
///     }
///     fn restore(&mut self, parts: &[Part]) -> Result<(), Error> {
///         self.counters = parts.iter().map(|part| part.value(1)).collect::<Result<_, _>>()?;
///         Ok(())
///     }
/// }
///
/// weir_sdk::export_operator!(Numbered, checkpointed);
/// # fn main() {
/// # use weir_sdk::testing::Harness;
/// # let mut harness = Harness::open_checkpointed(Numbered::default(), "{}").unwrap();
/// # harness.send(0, &[("k", "", 1), ("k", "", 2)]).unwrap();
/// # let parts = harness.snapshot().unwrap();
/// # let mut harness = Harness::open_checkpointed(Numbered::default(), "{}").unwrap();
/// # harness.restore(&parts).unwrap();
/// # harness.send(0, &[("k", "", 3)]).unwrap();
/// # assert_eq!(harness.take_main()[0].text(), "3");
/// # }
/// ```
pub trait Checkpointed: Clone {
    /// The state, as parts. Called at each checkpoint, between two calls; it must change nothing.
    fn snapshot(&self) -> Result<Vec<Part>, Error>;

    /// Takes the state up again: called once, after `open`, when the job resumes from a checkpoint. `parts`: the split ones that
    /// fell to this instance, maybe none, and the broadcast ones of all instances.
    fn restore(&mut self, parts: &[Part]) -> Result<(), Error>;
}

/// An operator that is checkpointed, as an instance.
pub(crate) struct CheckpointedInstance<T> {
    inner: Box<dyn Instance>,
    operator: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for CheckpointedInstance<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointedInstance").finish_non_exhaustive()
    }
}

impl<T: Checkpointed + 'static> CheckpointedInstance<T> {
    /// `inner`: an instance of `T`.
    pub(crate) fn new(inner: Box<dyn Instance>) -> Self {
        CheckpointedInstance { inner, operator: PhantomData }
    }

    fn own(&mut self) -> &mut T {
        self.inner.operator().downcast_mut().expect("it is an instance of this operator")
    }

    /// A call that changes the operator only if it succeeds.
    fn call<R>(&mut self, call: impl FnOnce(&mut dyn Instance) -> Result<R, types::Error>) -> Result<R, types::Error> {
        let before = self.own().clone();
        let answer = call(&mut *self.inner);
        if answer.is_err() {
            *self.own() = before;
        }
        answer
    }
}

impl<T: Checkpointed + 'static> Instance for CheckpointedInstance<T> {
    fn process(&mut self, call: Call<'_>) -> Result<types::Output, types::Error> {
        self.call(|inner| inner.process(call))
    }

    fn on_end(&mut self, port: u32) -> Result<types::Output, types::Error> {
        self.call(|inner| inner.on_end(port))
    }

    fn on_end_keys(&mut self, keys: &types::Column, states: &[types::Cells]) -> Result<types::Output, types::Error> {
        self.call(|inner| inner.on_end_keys(keys, states))
    }

    fn on_timers(&mut self, kind: &str, call: Call<'_>) -> Result<types::Output, types::Error> {
        self.call(|inner| inner.on_timers(kind, call))
    }

    fn close(&mut self) {
        self.inner.close();
    }

    fn operator(&mut self) -> &mut dyn std::any::Any {
        self.inner.operator()
    }

    fn snapshot(&mut self) -> Result<Vec<Part>, Error> {
        Checkpointed::snapshot(self.own())
    }

    fn restore(&mut self, parts: &[Part]) -> Result<(), Error> {
        Checkpointed::restore(self.own(), parts)
    }

    #[cfg(not(target_family = "wasm"))]
    fn timers(&mut self) -> Option<&mut crate::timers::TimerHost> {
        self.inner.timers()
    }

    #[cfg(not(target_family = "wasm"))]
    fn store(&mut self) -> Option<&mut crate::store::Store> {
        self.inner.store()
    }
}

/// The contract's form, for the exports.
pub mod wire {
    use super::{Error, Part, PartMode};
    pub use crate::bindings::checkpointed::exports::weir::plugin::checkpointed::Part as WirePart;

    /// To the host.
    pub fn given(parts: Vec<Part>) -> Vec<WirePart> {
        let one = |part: Part| WirePart { mode: part.mode.name().to_owned(), schema_version: part.version, bytes: part.bytes };
        parts.into_iter().map(one).collect()
    }

    /// From the host.
    pub fn taken(parts: Vec<WirePart>) -> Result<Vec<Part>, Error> {
        let one = |part: WirePart| {
            let unknown = || Error::Fatal(format!("the host gave a part of mode {:?}, which this SDK does not know", part.mode));
            let mode = PartMode::from_name(&part.mode).ok_or_else(unknown)?;
            Ok(Part { mode, version: part.schema_version, bytes: part.bytes })
        };
        parts.into_iter().map(one).collect()
    }
}
