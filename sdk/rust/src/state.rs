//! Keyed state as the author sees it: a value that is there when the record comes.
//!
//! The host hands the values of the batch's distinct keys over with the batch; they are decoded once for each key, changed in
//! place while the records pass, and those that changed go back with the result. No call to the host in between.

use crate::batch::string_at;
use crate::bindings::types;
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;

/// A declared state: what a checkpoint finds it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateName {
    /// Unique in the operator, `[a-z][a-z0-9-]*`. Renaming it is a migration.
    pub name: &'static str,
    /// Version of the value's encoding: raise it when the type changes.
    pub version: u32,
}

impl StateName {
    /// A state in the first version of its encoding.
    pub const fn new(name: &'static str) -> Self {
        StateName { name, version: 1 }
    }

    /// The same state in another version of its encoding.
    pub const fn version(self, version: u32) -> Self {
        StateName { version, ..self }
    }
}

/// The value of one state for the current key. Absent until it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<T> {
    now: Option<T>,
    changed: bool,
}

impl<T> Value<T> {
    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.now.as_ref()
    }

    /// The value to be changed in place; it is made from the default if there is none.
    #[inline]
    pub fn or_default(&mut self) -> &mut T
    where
        T: Default,
    {
        self.changed = true;
        self.now.get_or_insert_default()
    }

    /// Sets the value.
    #[inline]
    pub fn set(&mut self, value: T) {
        self.changed = true;
        self.now = Some(value);
    }

    /// Deletes the value and gives what it was.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.changed |= self.now.is_some();
        self.now.take()
    }
}

/// What `KeyedOperator::State` may be: one [`Value`], or a tuple of up to four.
pub trait StateSet: Sized {
    /// Number of states.
    const COUNT: usize;

    /// The values of distinct key `i`. `states`: one for each state, already checked to be alike.
    #[doc(hidden)]
    fn load(states: &[types::Cells], names: &[StateName], i: usize) -> Result<Self, Error>;

    /// True if some value must go back.
    #[doc(hidden)]
    fn changed(&self) -> bool;

    /// Appends what became of each value. `updates`: one for each state.
    #[doc(hidden)]
    fn store(&self, updates: &mut [types::Cells]);
}

impl<T: StateValue> StateSet for Value<T> {
    const COUNT: usize = 1;

    #[inline]
    fn load(states: &[types::Cells], names: &[StateName], i: usize) -> Result<Self, Error> {
        let (cells, name) = (&states[0], &names[0]);
        if cells.ops[i] == ABSENT {
            return Ok(Value { now: None, changed: false });
        }
        let bytes = string_at(&cells.data, &cells.index, i);
        match decode_all(bytes) {
            Some(value) => Ok(Value { now: Some(value), changed: false }),
            None => Err(undecodable::<T>(name, bytes)),
        }
    }

    #[inline]
    fn changed(&self) -> bool {
        self.changed
    }

    #[inline]
    fn store(&self, updates: &mut [types::Cells]) {
        let cells = &mut updates[0];
        cells.ops.push(match (self.changed, &self.now) {
            (false, _) => KEEP,
            (true, None) => DELETE,
            (true, Some(value)) => {
                value.encode(&mut cells.data);
                PUT
            }
        });
        cells.index.extend_from_slice(&(cells.data.len() as u32).to_le_bytes());
    }
}

macro_rules! sets {
    ($(($($name:ident $at:tt),+) $count:literal)*) => {$(
        impl<$($name: StateValue),+> StateSet for ($(Value<$name>,)+) {
            const COUNT: usize = $count;

            #[inline]
            fn load(states: &[types::Cells], names: &[StateName], i: usize) -> Result<Self, Error> {
                Ok(($(Value::<$name>::load(&states[$at..], &names[$at..], i)?,)+))
            }

            #[inline]
            fn changed(&self) -> bool {
                $(self.$at.changed)||+
            }

            #[inline]
            fn store(&self, updates: &mut [types::Cells]) {
                $(self.$at.store(&mut updates[$at..]);)+
            }
        }
    )*};
}

sets!((A 0) 1 (A 0, B 1) 2 (A 0, B 1, C 2) 3 (A 0, B 1, C 2, D 3) 4);

/// Operation bytes of `cells`: the first is for both ways, the others go to the host.
const ABSENT: u8 = 0;
const KEEP: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;

#[cold]
fn undecodable<T>(name: &StateName, bytes: &[u8]) -> Error {
    Error::Fatal(format!(
        "state '{}' version {}: {} stored bytes are no {}; was its type changed without a new version?",
        name.name,
        name.version,
        bytes.len(),
        std::any::type_name::<T>()
    ))
}

/// Number of distinct keys in a call's states, after checking that they fit together.
pub(crate) fn distinct_keys(states: &[types::Cells], declared: usize) -> Result<usize, Error> {
    let n = states.first().map_or(0, |cells| cells.ops.len());
    let alike = |cells: &types::Cells| cells.ops.len() == n && cells.index.len() == (n + 1) * 4;
    if states.len() != declared || !states.iter().all(alike) {
        return Err(Error::Fatal(format!(
            "the host gave {} states that don't match the {declared} declared ones",
            states.len()
        )));
    }
    Ok(n)
}

/// What became of the values of all distinct keys; empty if nothing changed.
pub(crate) fn updates<S: StateSet>(sets: &[S], expected_bytes: usize) -> Vec<types::Cells> {
    if !sets.iter().any(S::changed) {
        return Vec::new();
    }
    let empty = || {
        let mut index = Vec::with_capacity(sets.len() * 4 + 4);
        index.extend_from_slice(&[0; 4]);
        types::Cells { ops: Vec::with_capacity(sets.len()), data: Vec::with_capacity(expected_bytes), index }
    };
    let mut updates: Vec<types::Cells> = (0..S::COUNT).map(|_| empty()).collect();
    for set in sets {
        set.store(&mut updates);
    }
    updates
}
