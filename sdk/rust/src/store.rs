//! State as the host keeps it: the imports of the contract, or a stand-in in memory where there is no host (native tests).

/// What state is read from and written to.
#[cfg(not(target_family = "wasm"))]
pub use crate::testing::MemoryState as Store;

/// What state is read from and written to.
#[cfg(target_family = "wasm")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Store;

#[cfg(target_family = "wasm")]
mod imports {
    use super::Store;
    use crate::bindings::list_state::{ListPage, Lists};
    use crate::bindings::map_state::MapPage;
    use crate::bindings::types::{Cells, Column};
    use crate::bindings::{keyed_state, list_state, map_state};

    /// One method for each function of the contract.
    impl Store {
        pub(crate) fn get_many(&self, state: u32, keys: &Column) -> Cells {
            keyed_state::get_many(state, keys)
        }
        pub(crate) fn put_many(&self, state: u32, keys: &Column, values: &Column) {
            keyed_state::put_many(state, keys, values);
        }
        pub(crate) fn delete_many(&self, state: u32, keys: &Column) {
            keyed_state::delete_many(state, keys);
        }
        pub(crate) fn list_append_many(&self, state: u32, keys: &Column, values: &Column) {
            list_state::append_many(state, keys, values);
        }
        pub(crate) fn list_get_many(&self, state: u32, keys: &Column) -> Lists {
            list_state::get_many(state, keys)
        }
        pub(crate) fn list_get_page(&self, state: u32, key: &[u8], start: u64, limit: u32) -> ListPage {
            list_state::get_page(state, key, start, limit)
        }
        pub(crate) fn list_len_many(&self, state: u32, keys: &Column) -> Vec<u8> {
            list_state::len_many(state, keys)
        }
        pub(crate) fn list_clear_many(&self, state: u32, keys: &Column) {
            list_state::clear_many(state, keys);
        }
        pub(crate) fn map_get_many(&self, state: u32, keys: &Column, map_keys: &Column) -> Cells {
            map_state::get_many(state, keys, map_keys)
        }
        pub(crate) fn map_put_many(&self, state: u32, keys: &Column, map_keys: &Column, values: &Column) {
            map_state::put_many(state, keys, map_keys, values);
        }
        pub(crate) fn map_remove_many(&self, state: u32, keys: &Column, map_keys: &Column) {
            map_state::remove_many(state, keys, map_keys);
        }
        pub(crate) fn map_scan(&self, state: u32, key: &[u8], start: &[u8], end: &[u8], limit: u32) -> MapPage {
            map_state::scan(state, key, start, end, limit)
        }
        pub(crate) fn map_is_empty_many(&self, state: u32, keys: &Column) -> Vec<u8> {
            map_state::is_empty_many(state, keys)
        }
        pub(crate) fn map_clear_many(&self, state: u32, keys: &Column) {
            map_state::clear_many(state, keys);
        }
    }
}
