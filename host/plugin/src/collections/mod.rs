//! Lists and maps of keys, made of ordinary cells, so that a backend needs to know neither.
//!
//! A list or a map is a *root*, the cell of its key in the declared state, and *pages*, cells of a state of their own
//! ([`crate::state::pages_of`]) in the key group of the same key. What is small lies in the root alone. `docs/state.md` has the
//! format.
//!
//! Invariants:
//! - *root*: a key has a root if, and only if, its list or map is not empty;
//! - *reachable*: every page is one that its root leads to;
//! - *staged*: cells are changed in [`StagedCells`], and reach the backend only through [`StagedCells::flush`].

mod cells;
mod list;
mod map;
mod page;

pub use cells::StagedCells;
pub use list::ListPage;
pub use map::{MAX_MAP_KEY, MapPage};

use crate::state::{KeyedStateBackend, Keys, StateError};

/// Bytes after which a page of an answer ends.
pub const PAGE_BYTES: usize = 256 << 10;

/// What removing a page costs of a budget: its key and its place.
const CLEAR_COST: usize = 64;

/// What a call on a list or a map works with.
pub struct View<'a> {
    /// Where the cells are.
    pub backend: &'a mut dyn KeyedStateBackend,
    /// The keys of the running call; lists and maps are named by the index of theirs.
    pub keys: Keys<'a>,
    /// Bytes of cells that may still be staged.
    pub budget: usize,
}

/// Why a call on a list or a map failed.
#[derive(Debug)]
pub enum CollectionError {
    /// The backend failed, or a cell is damaged.
    State(StateError),
    /// The answer has more bytes than the caller takes.
    TooLarge,
    /// More cells would change than [`View::budget`] allows.
    TooMuch,
}

impl From<StateError> for CollectionError {
    fn from(error: StateError) -> Self {
        CollectionError::State(error)
    }
}

/// A cell that can't be read: it was checked on its way from a disk, so that whoever wrote it is to blame.
fn damaged(what: &str) -> CollectionError {
    CollectionError::State(StateError { what: format!("reading {what}"), source: "its stored form is damaged".into() })
}
