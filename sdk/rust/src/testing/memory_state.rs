//! Keyed state in memory.

use crate::batch::string_at;
use crate::bindings::types::{Cells, Column};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// (state, key) → value.
type Map = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

/// Keyed state of one operator, in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryState(Rc<RefCell<Map>>);

impl MemoryState {
    /// The stored bytes of one value.
    pub fn get(&self, state: u32, key: &[u8]) -> Option<Vec<u8>> {
        self.0.borrow().get(&(state, key.to_vec())).cloned()
    }

    /// Every key that holds a value in some of these states, in order.
    pub fn keys(&self, states: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        let map = self.0.borrow();
        let mut keys: Vec<_> = map.keys().filter(|(state, _)| states.contains(state)).map(|(_, key)| key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// A copy of its own, to go back to.
    pub(crate) fn snapshot(&self) -> BTreeMap<(u32, Vec<u8>), Vec<u8>> {
        self.0.borrow().clone()
    }

    /// Goes back to a copy.
    pub(crate) fn restore(&self, snapshot: BTreeMap<(u32, Vec<u8>), Vec<u8>>) {
        *self.0.borrow_mut() = snapshot;
    }

    pub(crate) fn get_many(&self, state: u32, keys: &Column) -> Cells {
        let mut cells = Cells { ops: Vec::new(), data: Vec::new(), index: vec![0; 4] };
        for key in strings(keys) {
            if let Some(value) = self.get(state, key) {
                cells.ops.push(1);
                cells.data.extend_from_slice(&value);
            } else {
                cells.ops.push(0);
            }
            cells.index.extend_from_slice(&(cells.data.len() as u32).to_le_bytes());
        }
        cells
    }

    pub(crate) fn put_many(&self, state: u32, keys: &Column, values: &Column) {
        for (key, value) in strings(keys).zip(strings(values)) {
            self.0.borrow_mut().insert((state, key.to_vec()), value.to_vec());
        }
    }

    pub(crate) fn delete_many(&self, state: u32, keys: &Column) {
        for key in strings(keys) {
            self.0.borrow_mut().remove(&(state, key.to_vec()));
        }
    }

    /// Does what a call's updates say. `updates` is empty or has one entry for each state.
    pub(crate) fn apply(&self, keys: &[Vec<u8>], updates: &[Cells]) {
        for (state, cells) in updates.iter().enumerate() {
            assert_eq!((cells.ops.len(), cells.index.len()), (keys.len(), (keys.len() + 1) * 4), "one cell for each key");
            for (i, key) in keys.iter().enumerate() {
                let entry = (state as u32, key.clone());
                match cells.ops[i] {
                    0 => {}
                    1 => {
                        self.0.borrow_mut().insert(entry, string_at(&cells.data, &cells.index, i).to_vec());
                    }
                    2 => {
                        self.0.borrow_mut().remove(&entry);
                    }
                    op => panic!("operation {op} is none of keep, put, delete"),
                }
            }
        }
    }
}

/// The strings of a column.
pub(crate) fn strings(column: &Column) -> impl Iterator<Item = &[u8]> {
    (0..(column.index.len() / 4).saturating_sub(1)).map(|i| string_at(&column.data, &column.index, i))
}
