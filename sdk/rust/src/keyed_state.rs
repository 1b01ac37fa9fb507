//! Keyed state on demand, many keys a call.

use crate::batch::string_at;
use crate::bindings::types;
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;
use crate::store::Store;

/// Reads and writes state of keys of the running batch. Reads see the writes of the same call.
///
/// A key that is not in the batch may live in another subtask: asking for it traps.
#[derive(Debug, Default)]
pub struct KeyedState {
    pub(crate) store: Store,
}

impl KeyedState {
    /// The values of these keys, in their order. `state`: index into `STATES`.
    pub fn get_many<T: StateValue>(&self, state: u32, keys: &Column) -> Result<Vec<Option<T>>, Error> {
        let cells = self.store.get_many(state, &keys.0);
        (0..cells.ops.len()).map(|i| value_of(state, &cells, i)).collect()
    }

    /// Sets the values of these keys; the last one wins where a key stands twice.
    ///
    /// # Panics
    /// If there are not as many values as keys.
    pub fn put_many<T: StateValue>(&mut self, state: u32, keys: &Column, values: &[T]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        let column = Column::of(values);
        self.store.put_many(state, &keys.0, &column.0);
    }

    /// Deletes the values of these keys; an absent one is no error.
    pub fn delete_many(&mut self, state: u32, keys: &Column) {
        self.store.delete_many(state, &keys.0);
    }
}

/// States of other kinds, told so with [`StateName::kind`](crate::StateName::kind). Map keys are bytes here; [`MapKey`](crate::MapKey)
/// makes them.
impl KeyedState {
    /// Appends an element to each of these keys' lists; a key may stand many times.
    ///
    /// # Panics
    /// If there are not as many elements as keys.
    pub fn list_append_many<T: StateValue>(&mut self, state: u32, keys: &Column, elements: &[T]) {
        assert_eq!(keys.len(), elements.len(), "as many elements as keys");
        self.store.list_append_many(state, &keys.0, &Column::of(elements).0);
    }

    /// The whole lists of these keys, in their order: for lists that are known to be short.
    pub fn list_get_many<T: StateValue>(&self, state: u32, keys: &Column) -> Result<Vec<Vec<T>>, Error> {
        let lists = self.store.list_get_many(state, &keys.0);
        let mut at = 0;
        let mut list = |count: &[u8]| {
            let from = at;
            at += crate::batch::u32_of(count);
            (from..at).map(|i| decoded(state, string_at(&lists.values.data, &lists.values.index, i))).collect()
        };
        lists.counts.chunks_exact(4).map(&mut list).collect()
    }

    /// Removes all elements of these keys' lists.
    pub fn list_clear_many(&mut self, state: u32, keys: &Column) {
        self.store.list_clear_many(state, &keys.0);
    }

    /// The values at `map_keys[i]` in the map of `keys[i]`, in this order.
    pub fn map_get_many<T: StateValue>(&self, state: u32, keys: &Column, map_keys: &Column) -> Result<Vec<Option<T>>, Error> {
        let cells = self.store.map_get_many(state, &keys.0, &map_keys.0);
        (0..cells.ops.len()).map(|i| value_of(state, &cells, i)).collect()
    }

    /// Sets the value at `map_keys[i]` in the map of `keys[i]`.
    ///
    /// # Panics
    /// If there are not as many map keys and values as keys.
    pub fn map_put_many<T: StateValue>(&mut self, state: u32, keys: &Column, map_keys: &Column, values: &[T]) {
        assert_eq!((keys.len(), keys.len()), (map_keys.len(), values.len()), "as many map keys and values as keys");
        self.store.map_put_many(state, &keys.0, &map_keys.0, &Column::of(values).0);
    }

    /// Removes the entry at `map_keys[i]` from the map of `keys[i]`; an absent one is no error.
    pub fn map_remove_many(&mut self, state: u32, keys: &Column, map_keys: &Column) {
        self.store.map_remove_many(state, &keys.0, &map_keys.0);
    }

    /// Removes all entries of these keys' maps.
    pub fn map_clear_many(&mut self, state: u32, keys: &Column) {
        self.store.map_clear_many(state, &keys.0);
    }
}

/// The value of cell `i`, if it is present.
fn value_of<T: StateValue>(state: u32, cells: &types::Cells, i: usize) -> Result<Option<T>, Error> {
    if cells.ops[i] == 0 {
        return Ok(None);
    }
    decoded(state, string_at(&cells.data, &cells.index, i)).map(Some)
}

fn decoded<T: StateValue>(state: u32, bytes: &[u8]) -> Result<T, Error> {
    let undecodable =
        || Error::Fatal(format!("state {state}: {} stored bytes are no {}", bytes.len(), std::any::type_name::<T>()));
    decode_all(bytes).ok_or_else(undecodable)
}

/// Byte strings, packed as the contract wants them.
#[derive(Clone, Debug)]
pub struct Column(pub(crate) types::Column);

impl Column {
    /// No string.
    pub fn new() -> Self {
        Column(types::Column { data: Vec::new(), index: vec![0; 4] })
    }

    /// The encodings of values.
    fn of<T: StateValue>(values: &[T]) -> Self {
        let mut column = Column::new();
        for value in values {
            value.encode(&mut column.0.data);
            column.end();
        }
        column
    }

    /// String `i`.
    pub(crate) fn get(&self, i: usize) -> &[u8] {
        string_at(&self.0.data, &self.0.index, i)
    }

    /// Appends a string.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.data.extend_from_slice(bytes);
        self.end();
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.0.index.len() / 4 - 1
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the string whose bytes were just written.
    pub(crate) fn end(&mut self) {
        self.0.index.extend_from_slice(&(self.0.data.len() as u32).to_le_bytes());
    }
}

impl Default for Column {
    fn default() -> Self {
        Column::new()
    }
}
