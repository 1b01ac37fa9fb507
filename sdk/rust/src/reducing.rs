//! Reducing state: a value, and how another one is merged into it.

use crate::encoding::StateValue;
use crate::state::Value;
use std::fmt;
use std::marker::PhantomData;
use std::ops::AddAssign;

/// How values are merged. It must be associative: then the result does not depend on how the input was cut into batches.
pub trait Reducer: 'static {
    /// What is merged.
    type Value: StateValue;
    /// Merges `value`, which came later, into `into`.
    fn merge(into: &mut Self::Value, value: Self::Value);
}

/// The merged value of the current key; absent until something is added. To the host it is a value like any other, so it is there
/// when the record comes, and a [`Value`] of the same type may take its place.
///
/// ```
/// use weir_sdk::prelude::*;
///
/// #[derive(Default)]
/// struct Totals;
///
/// impl KeyedOperator for Totals {
///     const INFO: Info = weir_sdk::info!();
///     type State = (Reducing<Sum<u64>>, Reducing<Max<i64>>);
///     const STATES: &'static [StateName] = &[StateName::new("count"), StateName::new("latest")];
///     fn process(&mut self, record: Record<'_>, state: &mut Self::State, out: &mut Output) -> Result<(), Error> {
///         let (count, latest) = state;
///         out.emit(record.key(), format!("{} {}", count.add(1), latest.add(record.time())), record.time());
///         Ok(())
///     }
/// }
/// # use weir_sdk::testing::Harness;
/// # let mut harness = Harness::open(Totals, "{}").unwrap();
/// # harness.send(0, &[("k", "", 7), ("k", "", 3)]).unwrap();
/// # assert_eq!(harness.take_main()[1].text(), "2 7");
/// ```
pub struct Reducing<R: Reducer>(pub(crate) Value<R::Value>);

impl<R: Reducer> fmt::Debug for Reducing<R>
where
    R::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reducing").field(&self.0).finish()
    }
}

impl<R: Reducer> Reducing<R> {
    /// Merges a value; gives the result.
    #[inline]
    pub fn add(&mut self, value: R::Value) -> &R::Value {
        self.0.merge(value, R::merge)
    }

    /// The merged value, if anything was added.
    #[inline]
    pub fn get(&self) -> Option<&R::Value> {
        self.0.get()
    }

    /// Forgets what was added and gives it.
    #[inline]
    pub fn take(&mut self) -> Option<R::Value> {
        self.0.take()
    }
}

/// Adds.
#[derive(Debug)]
pub struct Sum<T>(PhantomData<T>);
/// Keeps the greatest.
#[derive(Debug)]
pub struct Max<T>(PhantomData<T>);
/// Keeps the least.
#[derive(Debug)]
pub struct Min<T>(PhantomData<T>);

impl<T: StateValue + AddAssign + 'static> Reducer for Sum<T> {
    type Value = T;
    #[inline]
    fn merge(into: &mut T, value: T) {
        *into += value;
    }
}

impl<T: StateValue + PartialOrd + 'static> Reducer for Max<T> {
    type Value = T;
    #[inline]
    fn merge(into: &mut T, value: T) {
        if value > *into {
            *into = value;
        }
    }
}

impl<T: StateValue + PartialOrd + 'static> Reducer for Min<T> {
    type Value = T;
    #[inline]
    fn merge(into: &mut T, value: T) {
        if value < *into {
            *into = value;
        }
    }
}
