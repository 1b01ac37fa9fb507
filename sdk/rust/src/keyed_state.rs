//! Keyed state on demand, many keys a call.

use crate::bindings::types;
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;

/// Reads and writes state of keys of the running batch. Reads see the writes of the same call.
///
/// A key that is not in the batch may live in another subtask: asking for it traps.
#[derive(Debug, Default)]
pub struct KeyedState {
    #[cfg(not(target_family = "wasm"))]
    pub(crate) store: crate::testing::MemoryState,
}

impl KeyedState {
    /// The values of these keys, in their order. `state`: index into `STATES`.
    pub fn get_many<T: StateValue>(&self, state: u32, keys: &Column) -> Result<Vec<Option<T>>, Error> {
        #[cfg(target_family = "wasm")]
        let cells = crate::bindings::keyed_state::get_many(state, &keys.0);
        #[cfg(not(target_family = "wasm"))]
        let cells = self.store.get_many(state, &keys.0);
        (0..cells.ops.len()).map(|i| value_of(state, &cells, i)).collect()
    }

    /// Sets the values of these keys; the last one wins where a key stands twice.
    ///
    /// # Panics
    /// If there are not as many values as keys.
    pub fn put_many<T: StateValue>(&mut self, state: u32, keys: &Column, values: &[T]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        let mut column = Column::new();
        for value in values {
            value.encode(&mut column.0.data);
            column.end();
        }
        #[cfg(target_family = "wasm")]
        crate::bindings::keyed_state::put_many(state, &keys.0, &column.0);
        #[cfg(not(target_family = "wasm"))]
        self.store.put_many(state, &keys.0, &column.0);
    }

    /// Deletes the values of these keys; an absent one is no error.
    pub fn delete_many(&mut self, state: u32, keys: &Column) {
        #[cfg(target_family = "wasm")]
        crate::bindings::keyed_state::delete_many(state, &keys.0);
        #[cfg(not(target_family = "wasm"))]
        self.store.delete_many(state, &keys.0);
    }
}

/// The value of cell `i`, if it is present.
fn value_of<T: StateValue>(state: u32, cells: &types::Cells, i: usize) -> Result<Option<T>, Error> {
    if cells.ops[i] == 0 {
        return Ok(None);
    }
    let bytes = crate::batch::string_at(&cells.data, &cells.index, i);
    let undecodable =
        || Error::Fatal(format!("state {state}: {} stored bytes are no {}", bytes.len(), std::any::type_name::<T>()));
    decode_all(bytes).map(Some).ok_or_else(undecodable)
}

/// Byte strings, packed as the contract wants them.
#[derive(Clone, Debug)]
pub struct Column(pub(crate) types::Column);

impl Column {
    /// No string.
    pub fn new() -> Self {
        Column(types::Column { data: Vec::new(), index: vec![0; 4] })
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
    fn end(&mut self) {
        self.0.index.extend_from_slice(&(self.0.data.len() as u32).to_le_bytes());
    }
}

impl Default for Column {
    fn default() -> Self {
        Column::new()
    }
}
