//! The macros that make a crate a plugin, and the one instance that a component holds.

use crate::bindings::{Descriptor, types};
pub use crate::checkpointed::wire::WirePart;
use crate::checkpointed::{Checkpointed, wire};
use crate::driver::{self, BoundedPlugin, Instance, Plugin};
use crate::host::{Grants, Host, Level, Task};
use std::cell::RefCell;

/// Makes a type the operator that this crate exports. It must implement just one of [`Operator`](crate::Operator),
/// [`KeyedOperator`](crate::KeyedOperator), [`BatchOperator`](crate::BatchOperator), and, with `timers`,
/// [`TimerOperator`](crate::TimerOperator).
///
/// With `checkpointed` at the end also [`Checkpointed`](crate::Checkpointed).
///
/// With `end_of_input` also [`EndOfInput`](crate::EndOfInput) or [`EndOfKeyedInput`](crate::EndOfKeyedInput): the host then
/// reads through all keys when the input ends. Implementing one of them and not saying so does not compile:
///
/// ```compile_fail
/// use weir_sdk::prelude::*;
/// #[derive(Default)]
/// struct Last;
/// impl Operator for Last {
///     const INFO: Info = weir_sdk::info!();
///     fn process(&mut self, _: Record<'_>, _: &mut Output) -> Result<(), Error> { Ok(()) }
/// }
/// impl EndOfInput for Last {
///     fn on_end(&mut self, _: u32, _: &mut Output) -> Result<(), Error> { Ok(()) }
/// }
/// weir_sdk::export_operator!(Last); // must be: export_operator!(Last, end_of_input)
/// # fn main() {}
/// ```
///
/// Outside of Wasm nothing is exported, so that the crate's tests run natively.
#[macro_export]
macro_rules! export_operator {
    ($operator:ty) => {
        $crate::__refuse_forgotten_end!($operator);
        $crate::__export_operator!($operator, start);
    };
    ($operator:ty, checkpointed) => {
        $crate::__refuse_forgotten_end!($operator);
        $crate::__export_operator!($operator, start_checkpointed);
        $crate::__export_checkpointed!();
    };
    ($operator:ty, timers) => {
        $crate::__export_operator!($operator, start);
        $crate::__export_timers!();
    };
    ($operator:ty, timers, checkpointed) => {
        $crate::__export_operator!($operator, start_checkpointed);
        $crate::__export_timers!();
        $crate::__export_checkpointed!();
    };
    ($operator:ty, end_of_input) => {
        $crate::__export_operator!($operator, start_bounded);
        $crate::__export_end_of_input!();
    };
    ($operator:ty, end_of_input, checkpointed) => {
        $crate::__export_operator!($operator, start_bounded_checkpointed);
        $crate::__export_end_of_input!();
        $crate::__export_checkpointed!();
    };
}

/// The exports of an operator with timers.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_timers {
    () => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;
    $crate::bindings::timers::export!(Exported with_types_in $crate::bindings::timers);
            impl $crate::bindings::timers::exports::weir::plugin::timers::Guest for Exported {
                fn on_timers(
                    kind: String,
                    due: $crate::bindings::types::Batch,
                    key_of: Vec<u8>,
                    states: Vec<$crate::bindings::types::Cells>,
                ) -> $crate::export::Answer {
                    let call = $crate::driver::Call { port: 0, input: &due, key_of: &key_of, states: &states };
                    $crate::export::with_operator(|instance| instance.on_timers(&kind, call))
                }
            }
        };
    };
}

/// The exports of an operator with calls at the end of its input.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_end_of_input {
    () => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;
    $crate::bindings::end_of_input::export!(Exported with_types_in $crate::bindings::end_of_input);
            impl $crate::bindings::end_of_input::exports::weir::plugin::end_of_input::Guest for Exported {
                fn on_end(port: u32) -> $crate::export::Answer {
                    $crate::export::with_operator(|instance| instance.on_end(port))
                }
                fn on_end_keys(
                    keys: $crate::bindings::types::Column,
                    states: Vec<$crate::bindings::types::Cells>,
                ) -> $crate::export::Answer {
                    $crate::export::with_operator(|instance| instance.on_end_keys(&keys, &states))
                }
            }
        };
    };
}

/// The exports of an operator with state of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_checkpointed {
    () => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;
    $crate::bindings::checkpointed::export!(Exported with_types_in $crate::bindings::checkpointed);
            impl $crate::bindings::checkpointed::exports::weir::plugin::checkpointed::Guest for Exported {
                fn snapshot() -> Result<Vec<$crate::export::WirePart>, $crate::bindings::types::Error> {
                    $crate::export::snapshot()
                }
                fn restore(parts: Vec<$crate::export::WirePart>) -> Result<(), $crate::bindings::types::Error> {
                    $crate::export::restore(parts)
                }
            }
        };
    };
}

/// The exports that every operator has. `$start`: the function of [`export`](crate::export) that opens it.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_operator {
    ($operator:ty, $start:ident) => {
        // Checks the type natively as well, and counts as its use.
        #[cfg(not(target_family = "wasm"))]
        const _: fn($crate::bindings::types::TaskInfo, &str) -> Result<(), $crate::bindings::types::Error> =
            $crate::export::$start::<$operator, _>;
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;
    $crate::bindings::operator::export!(Exported with_types_in $crate::bindings::operator);
            impl $crate::bindings::operator::exports::weir::plugin::operator::Guest for Exported {
                fn describe() -> $crate::bindings::Descriptor {
                    $crate::export::describe::<$operator, _>()
                }
                fn open(task: $crate::bindings::types::TaskInfo, config: String) -> Result<(), $crate::bindings::types::Error> {
                    $crate::export::$start::<$operator, _>(task, &config)
                }
                fn process(
                    port: u32,
                    input: $crate::bindings::types::Batch,
                    key_of: Vec<u8>,
                    states: Vec<$crate::bindings::types::Cells>,
                ) -> $crate::export::Answer {
                    let call = $crate::driver::Call { port, input: &input, key_of: &key_of, states: &states };
                    $crate::export::with_operator(|instance| instance.process(call))
                }
                fn close() {
                    $crate::export::close_operator();
                }
            }
        };
    };
}

/// Fails to compile if the type implements a trait for the end of input: it would silently never be called.
///
/// An inherent constant wins over a trait's, and exists only for types that satisfy its bounds.
#[doc(hidden)]
#[macro_export]
macro_rules! __refuse_forgotten_end {
    ($operator:ty) => {
        const _: () = {
            trait Absent {
                const IMPLEMENTED: bool = false;
            }
            impl<T: ?Sized> Absent for T {}
            struct Stateless<T: ?Sized>(core::marker::PhantomData<T>);
            struct Keyed<T: ?Sized>(core::marker::PhantomData<T>);
            impl<T: ?Sized + $crate::EndOfInput> Stateless<T> {
                const IMPLEMENTED: bool = true;
            }
            impl<T: ?Sized + $crate::EndOfKeyedInput> Keyed<T> {
                const IMPLEMENTED: bool = true;
            }
            struct Timed<T: ?Sized>(core::marker::PhantomData<T>);
            impl<T: ?Sized + $crate::TimerOperator> Timed<T> {
                const IMPLEMENTED: bool = true;
            }
            assert!(!<Timed<$operator>>::IMPLEMENTED, "this operator has timers: say export_operator!(Type, timers)");
            assert!(
                !<Stateless<$operator>>::IMPLEMENTED && !<Keyed<$operator>>::IMPLEMENTED,
                "this operator has calls for the end of its input: say export_operator!(Type, end_of_input)"
            );
        };
    };
}

/// What a processing call answers.
pub type Answer = Result<types::Output, types::Error>;

thread_local! {
    /// The one operator of this component, from `open` to `close`.
    static OPERATOR: RefCell<Option<Box<dyn Instance>>> = const { RefCell::new(None) };
}

/// See `operator.describe`.
pub fn describe<T: Plugin<K>, K>() -> Descriptor {
    T::describe()
}

/// Sends the message of a panic to the host's log before the trap that it becomes: a trap itself says only where.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| crate::log(Level::Error, &panic.to_string())));
}

/// See `operator.open`.
pub fn start<T: Plugin<K>, K>(info: types::TaskInfo, config: &str) -> Result<(), types::Error> {
    log_panics();
    let task = Task::new(info, Grants::default());
    keep(T::default().start(&task, config, Host::default()).map_err(crate::Error::into_wire)?);
    Ok(())
}

/// See `operator.open`; for an operator with calls at the end of its input.
pub fn start_bounded<T: BoundedPlugin<K>, K>(info: types::TaskInfo, config: &str) -> Result<(), types::Error> {
    log_panics();
    let task = Task::new(info, Grants::default());
    keep(T::default().start_bounded(&task, config, Host::default()).map_err(crate::Error::into_wire)?);
    Ok(())
}

/// See `operator.open`; for an operator with state of its own.
pub fn start_checkpointed<T: Plugin<K> + Checkpointed + 'static, K>(
    info: types::TaskInfo,
    config: &str,
) -> Result<(), types::Error> {
    log_panics();
    let task = Task::new(info, Grants::default());
    keep(driver::start_checkpointed(T::default(), &task, config, Host::default()).map_err(crate::Error::into_wire)?);
    Ok(())
}

/// See `operator.open`; for one that has calls at the end of its input, too.
pub fn start_bounded_checkpointed<T: BoundedPlugin<K> + Checkpointed + 'static, K>(
    info: types::TaskInfo,
    config: &str,
) -> Result<(), types::Error> {
    log_panics();
    let task = Task::new(info, Grants::default());
    keep(driver::start_bounded_checkpointed(T::default(), &task, config, Host::default()).map_err(crate::Error::into_wire)?);
    Ok(())
}

/// See `checkpointed.snapshot`.
pub fn snapshot() -> Result<Vec<WirePart>, types::Error> {
    with_operator(|instance| instance.snapshot()).map(wire::given).map_err(crate::Error::into_wire)
}

/// See `checkpointed.restore`.
pub fn restore(parts: Vec<WirePart>) -> Result<(), types::Error> {
    let parts = wire::taken(parts).map_err(crate::Error::into_wire)?;
    with_operator(|instance| instance.restore(&parts)).map_err(crate::Error::into_wire)
}

fn keep(instance: Box<dyn Instance>) {
    OPERATOR.with_borrow_mut(|slot| *slot = Some(instance));
}

/// Runs a call on the open operator.
///
/// # Panics
/// If the host did not call `open` before: a break of the contract, which traps.
pub fn with_operator<R>(call: impl FnOnce(&mut dyn Instance) -> R) -> R {
    OPERATOR.with_borrow_mut(|slot| call(slot.as_deref_mut().expect("the host calls open first")))
}

/// See `operator.close`.
pub fn close_operator() {
    if let Some(mut instance) = OPERATOR.take() {
        instance.close();
    }
}
