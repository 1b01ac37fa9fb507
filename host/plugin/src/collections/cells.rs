//! Cells of one list or map state that the running call has looked at or changed.

use super::{CollectionError, View};
use crate::batch::Cells;
use crate::state::{KeyedStateBackend, Keys, StateError, StateId, page_hash, pages_of};
use std::collections::BTreeMap;

/// Bytes of unchanged cells that are kept for the next look.
const KEPT_BYTES: usize = 16 << 20;

/// A cell of a list or map: that of a key (by its index), and which of its pages; none: the root.
pub(super) type Place = (u32, Option<u64>);

/// See the module.
#[derive(Debug)]
pub struct StagedCells {
    state: StateId,
    cells: BTreeMap<Place, Slot>,
    /// Bytes of those that are unchanged.
    unchanged_bytes: usize,
}

#[derive(Debug)]
struct Slot {
    /// None: there is none.
    bytes: Option<Vec<u8>>,
    changed: bool,
}

impl StagedCells {
    /// Of a state; nothing is known of it yet.
    pub fn new(state: StateId) -> Self {
        StagedCells { state, cells: BTreeMap::new(), unchanged_bytes: 0 }
    }

    /// Lets go of unchanged cells if there are many.
    pub(super) fn trim(&mut self) {
        if self.unchanged_bytes > KEPT_BYTES {
            self.cells.retain(|_, slot| slot.changed);
            self.unchanged_bytes = 0;
        }
    }

    /// Reads those of these cells that are not known, roots and pages in one batch each.
    pub(super) fn load(&mut self, view: &mut View<'_>, places: impl Iterator<Item = Place>) -> Result<(), CollectionError> {
        let mut wanted: Vec<Place> = places.filter(|place| !self.cells.contains_key(place)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        // Roots come first, since none is less than any page.
        wanted.sort_unstable_by_key(|&(key, page)| (page.is_some(), key, page));
        wanted.dedup();
        let (roots, pages) = wanted.split_at(wanted.partition_point(|(_, page)| page.is_none()));
        for places in [roots, pages] {
            if !places.is_empty() {
                let mut packed = Packed::default();
                places.iter().for_each(|&place| packed.push(view.keys, place));
                let mut cells = Cells::new();
                view.backend.get_many(self.state_of(places[0]), packed.keys(), &mut cells)?;
                assert_eq!(cells.len(), places.len(), "a backend answers one cell for each key");
                for (i, &place) in places.iter().enumerate() {
                    let bytes = cells.get(i).map(<[u8]>::to_vec);
                    self.unchanged_bytes += bytes.as_ref().map_or(0, Vec::len);
                    self.cells.insert(place, Slot { bytes, changed: false });
                }
            }
        }
        Ok(())
    }

    /// A cell, read if it is not known.
    pub(super) fn get(&mut self, view: &mut View<'_>, place: Place) -> Result<Option<&[u8]>, CollectionError> {
        self.load(view, std::iter::once(place))?;
        Ok(self.cells[&place].bytes.as_deref())
    }

    /// A cell to be changed; none if there is none.
    pub(super) fn change(&mut self, view: &mut View<'_>, place: Place) -> Result<&mut Option<Vec<u8>>, CollectionError> {
        self.load(view, std::iter::once(place))?;
        let slot = self.cells.get_mut(&place).expect("it was just loaded");
        if !slot.changed {
            let bytes = slot.bytes.as_ref().map_or(0, Vec::len);
            view.budget = view.budget.checked_sub(bytes).ok_or(CollectionError::TooMuch)?;
            self.unchanged_bytes -= bytes;
            slot.changed = true;
        }
        Ok(&mut slot.bytes)
    }

    /// Sets or removes a cell, whatever it holds.
    pub(super) fn set(&mut self, place: Place, bytes: Option<Vec<u8>>) {
        if let Some(before) = self.cells.insert(place, Slot { bytes, changed: true })
            && !before.changed
        {
            self.unchanged_bytes -= before.bytes.map_or(0, |bytes| bytes.len());
        }
    }

    /// Hands what changed to the backend. `keys`: those of the call.
    pub fn flush(&self, backend: &mut dyn KeyedStateBackend, keys: Keys<'_>) -> Result<(), StateError> {
        for is_page in [false, true] {
            let changed = self.cells.iter().filter(|((_, page), slot)| page.is_some() == is_page && slot.changed);
            let (mut packed, mut cells, mut state) = (Packed::default(), Cells::new(), self.state);
            for (&place, slot) in changed {
                state = self.state_of(place);
                packed.push(keys, place);
                match &slot.bytes {
                    Some(bytes) => cells.push_put(bytes),
                    None => cells.push_delete(),
                }
            }
            if !cells.is_empty() {
                backend.put_many(state, packed.keys(), &cells)?;
            }
        }
        Ok(())
    }

    fn state_of(&self, (_, page): Place) -> StateId {
        if page.is_some() { pages_of(self.state) } else { self.state }
    }
}

/// Keys of cells.
#[derive(Default)]
struct Packed {
    data: Vec<u8>,
    spans: Vec<(u32, u32)>,
    hashes: Vec<u64>,
}

impl Packed {
    fn push(&mut self, keys: Keys<'_>, (key, page): Place) {
        let start = self.data.len() as u32;
        let hash = keys.hashes[key as usize];
        self.data.extend_from_slice(keys.key(key as usize));
        self.hashes.push(page.map_or(hash, |page| page_hash(hash, page)));
        self.data.extend(page.map(u64::to_be_bytes).into_iter().flatten());
        self.spans.push((start, self.data.len() as u32));
    }

    fn keys(&self) -> Keys<'_> {
        Keys { data: &self.data, spans: &self.spans, hashes: &self.hashes }
    }
}
