//! Keyed state as the author sees it: a value that is there when the record comes.
//!
//! The host hands the values of the batch's distinct keys over with the batch; they are decoded once for each key, changed in
//! place while the records pass, and those that changed go back with the result. No call to the host in between.

use crate::batch::{string_at, u32_of};
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

    /// Appends the values of all distinct keys. `states`: one for each state, already checked to be alike.
    #[doc(hidden)]
    fn load(states: &[types::Cells], names: &[StateName], sets: &mut Vec<Self>) -> Result<(), Error>;

    /// True if some value must go back.
    #[doc(hidden)]
    fn changed(&self) -> bool;

    /// What became of each value, one column for each state. `expected_bytes`: of the largest one.
    #[doc(hidden)]
    fn store(sets: &[Self], expected_bytes: usize) -> Vec<types::Cells>;
}

impl<T: StateValue> StateSet for Value<T> {
    const COUNT: usize = 1;

    #[inline]
    fn load(states: &[types::Cells], names: &[StateName], sets: &mut Vec<Self>) -> Result<(), Error> {
        let mut cells = CellReader::new(&states[0]);
        sets.extend((0..cells.len()).map(|_| cells.next_value()));
        if cells.failed { Err(undecodable::<T>(&names[0], &states[0])) } else { Ok(()) }
    }

    #[inline]
    fn changed(&self) -> bool {
        self.changed
    }

    #[inline]
    fn store(sets: &[Self], expected_bytes: usize) -> Vec<types::Cells> {
        vec![column(sets.iter(), expected_bytes)]
    }
}

macro_rules! sets {
    ($(($($name:ident $at:tt),+) $count:literal)*) => {$(
        impl<$($name: StateValue),+> StateSet for ($(Value<$name>,)+) {
            const COUNT: usize = $count;

            #[inline]
            fn load(states: &[types::Cells], names: &[StateName], sets: &mut Vec<Self>) -> Result<(), Error> {
                let mut cells = ($(CellReader::new(&states[$at]),)+);
                sets.extend((0..cells.0.len()).map(|_| ($(cells.$at.next_value::<$name>(),)+)));
                $(if cells.$at.failed {
                    return Err(undecodable::<$name>(&names[$at], &states[$at]));
                })+
                Ok(())
            }

            #[inline]
            fn changed(&self) -> bool {
                $(self.$at.changed)||+
            }

            #[inline]
            fn store(sets: &[Self], expected_bytes: usize) -> Vec<types::Cells> {
                vec![$(column(sets.iter().map(|set| &set.$at), expected_bytes)),+]
            }
        }
    )*};
}

sets!((A 0) 1 (A 0, B 1) 2 (A 0, B 1, C 2) 3 (A 0, B 1, C 2, D 3) 4);

/// Reads the cells of one state from the first to the last.
struct CellReader<'a> {
    ops: std::slice::Iter<'a, u8>,
    ends: std::slice::ChunksExact<'a, u8>,
    data: &'a [u8],
    /// Where the next value begins.
    start: usize,
    /// Some cell was no value of its type: what was read is of no use.
    failed: bool,
}

impl<'a> CellReader<'a> {
    #[inline]
    fn new(cells: &'a types::Cells) -> Self {
        let ends = cells.index.get(4..).unwrap_or_default().chunks_exact(4);
        CellReader { ops: cells.ops.iter(), ends, data: &cells.data, start: 0, failed: false }
    }

    fn len(&self) -> usize {
        self.ops.len()
    }

    /// Inlined, and without an error of its own: a result as large as one would go through memory for each key.
    #[inline(always)]
    fn next_value<T: StateValue>(&mut self) -> Value<T> {
        let now = match (self.ops.next(), self.ends.next()) {
            (Some(op), Some(end)) => {
                let end = u32_of(end);
                let bytes = self.data.get(self.start..end);
                self.start = end;
                if *op == ABSENT {
                    None
                } else {
                    let value = bytes.and_then(decode_all);
                    self.failed |= value.is_none();
                    value
                }
            }
            (None, _) | (_, None) => None,
        };
        Value { now, changed: false }
    }
}

/// What became of the values of one state.
#[inline]
fn column<'a, T: StateValue + 'a>(values: impl ExactSizeIterator<Item = &'a Value<T>>, expected_bytes: usize) -> types::Cells {
    let (mut ops, mut index) = (vec![KEEP; values.len()], vec![0; values.len() * 4 + 4]);
    let mut data = Vec::with_capacity(expected_bytes);
    for ((value, op), end) in values.zip(&mut ops).zip(index[4..].chunks_exact_mut(4)) {
        match (value.changed, &value.now) {
            (false, _) => {}
            (true, None) => *op = DELETE,
            (true, Some(value)) => {
                value.encode(&mut data);
                *op = PUT;
            }
        }
        end.copy_from_slice(&(data.len() as u32).to_le_bytes());
    }
    types::Cells { ops, data, index }
}

/// Operation bytes of `cells`: the first is for both ways, the others go to the host.
const ABSENT: u8 = 0;
const KEEP: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// The first cell that is no value of its type.
#[cold]
fn undecodable<T: StateValue>(name: &StateName, cells: &types::Cells) -> Error {
    let values = (0..cells.ops.len()).filter(|&i| cells.ops[i] != ABSENT).map(|i| string_at(&cells.data, &cells.index, i));
    let bytes = values.into_iter().find(|bytes| decode_all::<T>(bytes).is_none()).unwrap_or_default();
    Error::Fatal(format!(
        "state '{}' version {}: {} stored bytes are no {}; was its type changed without a new version?",
        name.name,
        name.version,
        bytes.len(),
        std::any::type_name::<T>()
    ))
}

/// Checks that a call's states are those that are declared, with as many cells each.
pub(crate) fn check_alike(states: &[types::Cells], declared: usize) -> Result<(), Error> {
    let n = states.first().map_or(0, |cells| cells.ops.len());
    let alike = |cells: &types::Cells| cells.ops.len() == n && cells.index.len() == (n + 1) * 4;
    if states.len() != declared || !states.iter().all(alike) {
        return Err(Error::Fatal(format!("the host gave {} states that don't match the {declared} declared ones", states.len())));
    }
    Ok(())
}

/// What became of the values of all distinct keys; empty if nothing changed.
pub(crate) fn updates<S: StateSet>(sets: &[S], expected_bytes: usize) -> Vec<types::Cells> {
    if !sets.iter().any(S::changed) {
        return Vec::new();
    }
    S::store(sets, expected_bytes)
}
