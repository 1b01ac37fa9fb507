//! State of keys in memory.

use crate::batch::string_at;
use crate::bindings::list_state::{ListPage, Lists};
use crate::bindings::map_state::MapPage;
use crate::bindings::types::{Cells, Column};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// (state, key).
type Place = (u32, Vec<u8>);
/// A map's entries.
type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// All that there is. What is empty is not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    values: BTreeMap<Place, Vec<u8>>,
    lists: BTreeMap<Place, Vec<Vec<u8>>>,
    maps: BTreeMap<Place, Entries>,
}

/// State of the keys of one operator, in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryState(Rc<RefCell<Contents>>);

impl MemoryState {
    /// The stored bytes of one value.
    pub fn get(&self, state: u32, key: &[u8]) -> Option<Vec<u8>> {
        self.0.borrow().values.get(&(state, key.to_vec())).cloned()
    }

    /// The stored bytes of one list's elements, in order.
    pub fn list(&self, state: u32, key: &[u8]) -> Vec<Vec<u8>> {
        self.0.borrow().lists.get(&(state, key.to_vec())).cloned().unwrap_or_default()
    }

    /// The stored bytes of one map's entries.
    pub fn map(&self, state: u32, key: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.0.borrow().maps.get(&(state, key.to_vec())).cloned().unwrap_or_default()
    }

    /// Every key that has something in some of these states, in order.
    pub fn keys(&self, states: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        let Contents { values, lists, maps } = &*self.0.borrow();
        let places = values.keys().chain(lists.keys()).chain(maps.keys());
        let mut keys: Vec<_> = places.filter(|(state, _)| states.contains(state)).map(|(_, key)| key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// A copy of its own, to go back to.
    pub(crate) fn snapshot(&self) -> Contents {
        self.0.borrow().clone()
    }

    /// Goes back to a copy.
    pub(crate) fn restore(&self, snapshot: Contents) {
        *self.0.borrow_mut() = snapshot;
    }

    /// Does what a call's updates say. `updates` is empty or has one entry for each of `states`.
    pub(crate) fn apply(&self, states: &[u32], keys: &[Vec<u8>], updates: &[Cells]) {
        assert!(updates.is_empty() || updates.len() == states.len(), "updates for each prefetched state, or none");
        for (&state, cells) in states.iter().zip(updates) {
            assert_eq!((cells.ops.len(), cells.index.len()), (keys.len(), (keys.len() + 1) * 4), "one cell for each key");
            for (i, key) in keys.iter().enumerate() {
                let place = (state, key.clone());
                let values = &mut self.0.borrow_mut().values;
                match cells.ops[i] {
                    0 => {}
                    1 => {
                        values.insert(place, string_at(&cells.data, &cells.index, i).to_vec());
                    }
                    2 => {
                        values.remove(&place);
                    }
                    op => panic!("operation {op} is none of keep, put, delete"),
                }
            }
        }
    }
}

/// What the host does for `keyed-state`.
impl MemoryState {
    pub(crate) fn get_many(&self, state: u32, keys: &Column) -> Cells {
        cells_of(strings(keys).map(|key| self.get(state, key)))
    }

    pub(crate) fn put_many(&self, state: u32, keys: &Column, values: &Column) {
        for (key, value) in strings(keys).zip(strings(values)) {
            self.0.borrow_mut().values.insert((state, key.to_vec()), value.to_vec());
        }
    }

    pub(crate) fn delete_many(&self, state: u32, keys: &Column) {
        for key in strings(keys) {
            self.0.borrow_mut().values.remove(&(state, key.to_vec()));
        }
    }
}

/// What the host does for `list-state`.
impl MemoryState {
    pub(crate) fn list_append_many(&self, state: u32, keys: &Column, values: &Column) {
        for (key, value) in strings(keys).zip(strings(values)) {
            self.0.borrow_mut().lists.entry((state, key.to_vec())).or_default().push(value.to_vec());
        }
    }

    pub(crate) fn list_get_many(&self, state: u32, keys: &Column) -> Lists {
        let lists: Vec<_> = strings(keys).map(|key| self.list(state, key)).collect();
        let counts = lists.iter().flat_map(|list| (list.len() as u32).to_le_bytes()).collect();
        Lists { counts, values: column_of(lists.iter().flatten()) }
    }

    /// Its pages are short, so that whoever reads only one is found out.
    pub(crate) fn list_get_page(&self, state: u32, key: &[u8], start: u64, limit: u32) -> ListPage {
        let list = self.list(state, key);
        let rest = &list[(start as usize).min(list.len())..];
        let page = &rest[..rest.len().min(limit.clamp(1, 3) as usize)];
        let next = if page.len() < rest.len() { start + page.len() as u64 } else { 0 };
        ListPage { values: column_of(page), next }
    }

    pub(crate) fn list_len_many(&self, state: u32, keys: &Column) -> Vec<u8> {
        strings(keys).flat_map(|key| (self.list(state, key).len() as u64).to_le_bytes()).collect()
    }

    pub(crate) fn list_clear_many(&self, state: u32, keys: &Column) {
        for key in strings(keys) {
            self.0.borrow_mut().lists.remove(&(state, key.to_vec()));
        }
    }
}

/// What the host does for `map-state`.
impl MemoryState {
    pub(crate) fn map_get_many(&self, state: u32, keys: &Column, map_keys: &Column) -> Cells {
        cells_of(strings(keys).zip(strings(map_keys)).map(|(key, map_key)| self.map(state, key).remove(map_key)))
    }

    pub(crate) fn map_put_many(&self, state: u32, keys: &Column, map_keys: &Column, values: &Column) {
        for ((key, map_key), value) in strings(keys).zip(strings(map_keys)).zip(strings(values)) {
            let maps = &mut self.0.borrow_mut().maps;
            maps.entry((state, key.to_vec())).or_default().insert(map_key.to_vec(), value.to_vec());
        }
    }

    pub(crate) fn map_remove_many(&self, state: u32, keys: &Column, map_keys: &Column) {
        for (key, map_key) in strings(keys).zip(strings(map_keys)) {
            let (maps, place) = (&mut self.0.borrow_mut().maps, (state, key.to_vec()));
            if let Some(map) = maps.get_mut(&place) {
                map.remove(map_key);
                if map.is_empty() {
                    maps.remove(&place);
                }
            }
        }
    }

    /// Its pages are short, so that whoever reads only one is found out.
    pub(crate) fn map_scan(&self, state: u32, key: &[u8], start: &[u8], end: &[u8], limit: u32) -> MapPage {
        let map = self.map(state, key);
        let from = (Bound::Included(start.to_vec()), Bound::Unbounded);
        let mut rest = map.range(from).take_while(|(map_key, _)| end.is_empty() || map_key.as_slice() < end);
        let page: Vec<_> = rest.by_ref().take(limit.clamp(1, 3) as usize).collect();
        let done = rest.next().is_none();
        MapPage {
            map_keys: column_of(page.iter().map(|entry| entry.0)),
            values: column_of(page.iter().map(|entry| entry.1)),
            done,
        }
    }

    pub(crate) fn map_is_empty_many(&self, state: u32, keys: &Column) -> Vec<u8> {
        strings(keys).map(|key| u8::from(self.map(state, key).is_empty())).collect()
    }

    pub(crate) fn map_clear_many(&self, state: u32, keys: &Column) {
        for key in strings(keys) {
            self.0.borrow_mut().maps.remove(&(state, key.to_vec()));
        }
    }
}

fn cells_of(values: impl Iterator<Item = Option<Vec<u8>>>) -> Cells {
    let mut cells = Cells { ops: Vec::new(), data: Vec::new(), index: vec![0; 4] };
    for value in values {
        cells.ops.push(u8::from(value.is_some()));
        cells.data.extend(value.unwrap_or_default());
        cells.index.extend_from_slice(&(cells.data.len() as u32).to_le_bytes());
    }
    cells
}

fn column_of<'a>(strings: impl IntoIterator<Item = &'a Vec<u8>>) -> Column {
    let mut column = Column { data: Vec::new(), index: vec![0; 4] };
    for string in strings {
        column.data.extend_from_slice(string);
        column.index.extend_from_slice(&(column.data.len() as u32).to_le_bytes());
    }
    column
}

/// The strings of a column.
pub(crate) fn strings(column: &Column) -> impl Iterator<Item = &[u8]> {
    (0..(column.index.len() / 4).saturating_sub(1)).map(|i| string_at(&column.data, &column.index, i))
}
