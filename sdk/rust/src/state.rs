//! Keyed state as the author sees it: a value that is there when the record comes.
//!
//! The host hands the values of the batch's distinct keys over with the batch; they are decoded once for each key, changed in
//! place while the records pass, and those that changed go back with the result. No call to the host in between.

use crate::batch::{string_at, u32_of};
use crate::bindings::types;
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;
use crate::keyed_state::Column;
use crate::list::List;
use crate::map::Map;
use crate::map_key::MapKey;
use crate::reducing::{Reducer, Reducing};
use crate::store::Store;
use std::rc::Rc;

/// A declared state: what a checkpoint finds it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateName {
    /// Unique in the operator, `[a-z][a-z0-9-]*`. Renaming it is a migration.
    pub name: &'static str,
    /// Version of the value's encoding: raise it when the type changes.
    pub version: u32,
    /// For a [`BatchOperator`](crate::BatchOperator): what it holds. Others take it from the types of `State`.
    pub kind: StateKind,
}

impl StateName {
    /// A state in the first version of its encoding.
    pub const fn new(name: &'static str) -> Self {
        StateName { name, version: 1, kind: StateKind::Value }
    }

    /// The same state in another version of its encoding.
    pub const fn version(self, version: u32) -> Self {
        StateName { version, ..self }
    }

    /// The same state of another kind, for a [`BatchOperator`](crate::BatchOperator).
    pub const fn kind(self, kind: StateKind) -> Self {
        StateName { kind, ..self }
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

    /// Merges a value into the one that there is, or takes its place.
    #[inline]
    pub(crate) fn merge(&mut self, value: T, merge: impl FnOnce(&mut T, T)) -> &T {
        self.changed = true;
        match &mut self.now {
            Some(now) => {
                merge(now, value);
                now
            }
            none => none.insert(value),
        }
    }

    /// Deletes the value and gives what it was.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.changed |= self.now.is_some();
        self.now.take()
    }
}

/// Kinds of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// A [`Value`] or a [`Reducing`].
    Value,
    /// A [`List`].
    List,
    /// A [`Map`].
    Map,
}

impl StateKind {
    /// As the contract names it.
    pub const fn name(self) -> &'static str {
        match self {
            StateKind::Value => "value",
            StateKind::List => "list",
            StateKind::Map => "map",
        }
    }
}

/// Where the list or map of one key is.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) store: Store,
    pub(crate) state: u32,
    pub(crate) key: Rc<[u8]>,
}

impl Place {
    /// The key alone, as a column.
    pub(crate) fn keys(&self) -> Column {
        let mut keys = Column::new();
        keys.push(&self.key);
        keys
    }

    pub(crate) fn host(&self) -> (Store, u32) {
        #[cfg_attr(target_family = "wasm", allow(clippy::clone_on_copy, reason = "the native one is no copy"))]
        (self.store.clone(), self.state)
    }

    /// Stored bytes are no `T`.
    #[cold]
    pub(crate) fn undecodable<T>(&self, what: &str, bytes: usize) -> Error {
        let (state, name) = (self.state, std::any::type_name::<T>());
        Error::Fatal(format!(
            "state {state}: {what} of {bytes} stored bytes is no {name}; was its type changed without a new version?"
        ))
    }
}

/// The keys of a call, for states that are not handed over with it.
#[doc(hidden)]
#[derive(Debug)]
pub struct CallKeys<'a> {
    /// Where they are.
    pub store: &'a Store,
    /// Number of distinct keys.
    pub count: usize,
    /// The distinct keys; empty if no state asks for them.
    pub keys: Vec<Rc<[u8]>>,
}

impl CallKeys<'_> {
    fn place(&self, state: usize, key: usize) -> Place {
        #[cfg_attr(target_family = "wasm", allow(clippy::clone_on_copy, reason = "the native one is no copy"))]
        Place { store: self.store.clone(), state: state as u32, key: Rc::clone(&self.keys[key]) }
    }
}

/// One state of an operator: a [`Value`], [`Reducing`], [`List`] or [`Map`].
pub trait StateItem: Sized {
    /// What the host keeps.
    const KIND: StateKind;

    /// That of key `key` of a call, as state `state` of the operator. `cells`: for values, those from this key on.
    #[doc(hidden)]
    fn load(cells: &mut CellReader<'_>, keys: &CallKeys<'_>, state: usize, key: usize) -> Self;

    /// Why some cell of a value is none.
    #[doc(hidden)]
    fn undecodable(_name: &StateName, _cells: &types::Cells) -> Error {
        unreachable!("lists and maps are not handed over as cells")
    }

    /// True if a value must go back.
    #[doc(hidden)]
    fn changed(&self) -> bool {
        false
    }

    /// What became of values; none for lists and maps.
    #[doc(hidden)]
    fn column<'a>(_items: impl ExactSizeIterator<Item = &'a Self>, _expected_bytes: usize) -> Option<types::Cells>
    where
        Self: 'a,
    {
        None
    }

    /// Hands what changed in lists or maps to the host.
    #[doc(hidden)]
    fn flush<'a>(_items: impl Iterator<Item = &'a mut Self>)
    where
        Self: 'a,
    {
    }
}

impl<T: StateValue> StateItem for Value<T> {
    const KIND: StateKind = StateKind::Value;

    #[inline(always)]
    fn load(cells: &mut CellReader<'_>, _: &CallKeys<'_>, _: usize, _: usize) -> Self {
        cells.next_value()
    }

    fn undecodable(name: &StateName, cells: &types::Cells) -> Error {
        undecodable::<T>(name, cells)
    }

    #[inline(always)]
    fn changed(&self) -> bool {
        self.changed
    }

    #[inline]
    fn column<'a>(items: impl ExactSizeIterator<Item = &'a Self>, expected_bytes: usize) -> Option<types::Cells>
    where
        Self: 'a,
    {
        Some(column(items, expected_bytes))
    }
}

impl<R: Reducer> StateItem for Reducing<R> {
    const KIND: StateKind = StateKind::Value;

    #[inline(always)]
    fn load(cells: &mut CellReader<'_>, _: &CallKeys<'_>, _: usize, _: usize) -> Self {
        Reducing(cells.next_value())
    }

    fn undecodable(name: &StateName, cells: &types::Cells) -> Error {
        undecodable::<R::Value>(name, cells)
    }

    #[inline(always)]
    fn changed(&self) -> bool {
        self.0.changed
    }

    #[inline]
    fn column<'a>(items: impl ExactSizeIterator<Item = &'a Self>, expected_bytes: usize) -> Option<types::Cells>
    where
        Self: 'a,
    {
        Some(column(items.map(|item| &item.0), expected_bytes))
    }
}

impl<T: StateValue> StateItem for List<T> {
    const KIND: StateKind = StateKind::List;

    fn load(_: &mut CellReader<'_>, keys: &CallKeys<'_>, state: usize, key: usize) -> Self {
        List::new(keys.place(state, key))
    }

    fn flush<'a>(items: impl Iterator<Item = &'a mut Self>)
    where
        Self: 'a,
    {
        crate::list::flush(items);
    }
}

impl<K: MapKey, V: StateValue> StateItem for Map<K, V> {
    const KIND: StateKind = StateKind::Map;

    fn load(_: &mut CellReader<'_>, keys: &CallKeys<'_>, state: usize, key: usize) -> Self {
        Map::new(keys.place(state, key))
    }

    fn flush<'a>(items: impl Iterator<Item = &'a mut Self>)
    where
        Self: 'a,
    {
        crate::map::flush(items);
    }
}

/// What `KeyedOperator::State` may be: one [`StateItem`], or a tuple of up to four.
pub trait StateSet: Sized {
    /// Their kinds.
    const KINDS: &'static [StateKind];

    /// Appends the states of all distinct keys. `cells`: one for each value, already checked to be alike.
    #[doc(hidden)]
    fn load(cells: &[types::Cells], names: &[StateName], keys: &CallKeys<'_>, sets: &mut Vec<Self>) -> Result<(), Error>;

    /// True if some value must go back.
    #[doc(hidden)]
    fn changed(&self) -> bool;

    /// What became of each value, one column for each of them. `expected_bytes`: of the largest one.
    #[doc(hidden)]
    fn store(sets: &[Self], expected_bytes: usize) -> Vec<types::Cells>;

    /// Hands what changed in lists and maps to the host.
    #[doc(hidden)]
    fn flush(sets: &mut [Self]);
}

/// How many of the first `before` kinds are values: where the next one's cells are.
pub(crate) const fn values(kinds: &[StateKind], before: usize) -> usize {
    let (mut at, mut values) = (0, 0);
    while at < before {
        if matches!(kinds[at], StateKind::Value) {
            values += 1;
        }
        at += 1;
    }
    values
}

impl<T: StateItem> StateSet for T {
    const KINDS: &'static [StateKind] = &[T::KIND];

    #[inline]
    fn load(cells: &[types::Cells], names: &[StateName], keys: &CallKeys<'_>, sets: &mut Vec<Self>) -> Result<(), Error> {
        let mut reader = CellReader::of::<T>(cells, 0);
        sets.extend((0..keys.count).map(|key| <T as StateItem>::load(&mut reader, keys, 0, key)));
        if reader.failed { Err(T::undecodable(&names[0], &cells[0])) } else { Ok(()) }
    }

    #[inline]
    fn changed(&self) -> bool {
        StateItem::changed(self)
    }

    #[inline]
    fn store(sets: &[Self], expected_bytes: usize) -> Vec<types::Cells> {
        T::column(sets.iter(), expected_bytes).into_iter().collect()
    }

    #[inline]
    fn flush(sets: &mut [Self]) {
        <T as StateItem>::flush(sets.iter_mut());
    }
}

macro_rules! sets {
    ($(($($name:ident $at:tt),+))*) => {$(
        impl<$($name: StateItem),+> StateSet for ($($name,)+) {
            const KINDS: &'static [StateKind] = &[$($name::KIND),+];

            #[inline]
            fn load(
                cells: &[types::Cells],
                names: &[StateName],
                keys: &CallKeys<'_>,
                sets: &mut Vec<Self>,
            ) -> Result<(), Error> {
                let mut readers = ($(CellReader::of::<$name>(cells, values(Self::KINDS, $at)),)+);
                sets.extend((0..keys.count).map(|key| ($(<$name as StateItem>::load(&mut readers.$at, keys, $at, key),)+)));
                $(if readers.$at.failed {
                    return Err($name::undecodable(&names[$at], &cells[values(Self::KINDS, $at)]));
                })+
                Ok(())
            }

            #[inline]
            fn changed(&self) -> bool {
                $(StateItem::changed(&self.$at))||+
            }

            #[inline]
            fn store(sets: &[Self], expected_bytes: usize) -> Vec<types::Cells> {
                [$($name::column(sets.iter().map(|set| &set.$at), expected_bytes)),+].into_iter().flatten().collect()
            }

            #[inline]
            fn flush(sets: &mut [Self]) {
                $(<$name as StateItem>::flush(sets.iter_mut().map(|set| &mut set.$at));)+
            }
        }
    )*};
}

sets!((A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3));

/// Reads the cells of one state from the first to the last.
#[doc(hidden)]
#[derive(Debug)]
pub struct CellReader<'a> {
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

    /// Of the values of a state; no cell for those of another kind.
    #[inline]
    fn of<T: StateItem>(cells: &'a [types::Cells], at: usize) -> Self {
        match T::KIND {
            StateKind::Value => CellReader::new(&cells[at]),
            StateKind::List | StateKind::Map => {
                CellReader { ops: [].iter(), ends: [].chunks_exact(4), data: &[], start: 0, failed: false }
            }
        }
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

/// Checks that a call's states are the declared values, with as many cells each.
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
