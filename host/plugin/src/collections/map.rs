//! Maps: a B+ tree over map keys. Its root lies in the root cell, all other nodes are pages.
//!
//! Root: level (0: it is a leaf) · for higher levels the next free page, u64 · entries. Page: entries. Entries are in the order of
//! their map keys: in a leaf map key · value, above it the least map key of a child · the child's page. What is less than the first
//! child's least map key is the first child's, too.
//!
//! A node over [`NODE`] bytes is split if it has more than one entry; at its end if that is where it grew, so that ascending map
//! keys fill their pages. A leaf that has become small is joined with a neighbour. A root with a single child takes its content.

use super::cells::Place;
use super::page::{put_bytes, put_number, take_bytes, take_number};
use super::{CollectionError, StagedCells, View, damaged};
use crate::batch::{Cells, Column};
use std::ops::Range;

/// Bytes of a node's entries.
const NODE: usize = 2 << 10;
/// A leaf below this is joined with a neighbour, if both together stay below [`JOINED`].
const SMALL: usize = NODE / 4;
const JOINED: usize = NODE / 4 * 3;
/// Bytes of a map key.
pub const MAX_MAP_KEY: usize = 64 << 10;
/// Entries of one call that are looked for together.
const TOGETHER: usize = 256;
/// Leaves that a scan reads together.
const AHEAD: usize = 32;
/// Bytes of a root before its entries, above the lowest level.
const INNER_HEADER: usize = 9;

/// A part of a map.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MapPage {
    /// Map keys, ascending.
    pub map_keys: Column,
    /// Their values.
    pub values: Column,
    /// True if it has reached the end of the range.
    pub done: bool,
}

/// An entry of a node: where it is, and what it says.
struct Entry<'a> {
    at: Range<usize>,
    map_key: &'a [u8],
    says: Says<'a>,
}

enum Says<'a> {
    Value(&'a [u8]),
    Child(u64),
}

/// Entries of a node, from `at` on.
struct Entries<'a> {
    node: &'a [u8],
    at: usize,
    level: u8,
}

impl<'a> Entries<'a> {
    fn next(&mut self) -> Result<Option<Entry<'a>>, CollectionError> {
        let mut rest = &self.node[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        let mut take = || {
            let map_key = take_bytes(&mut rest)?;
            let says = if self.level == 0 { Says::Value(take_bytes(&mut rest)?) } else { Says::Child(take_number(&mut rest)?) };
            Some((map_key, says))
        };
        let (map_key, says) = take().ok_or_else(|| damaged("a node of a map"))?;
        self.at = self.node.len() - rest.len();
        Ok(Some(Entry { at: start..self.at, map_key, says }))
    }
}

/// The way from the root to a leaf: each node above it, its level, and where the entry of the child lies.
type Path = Vec<(Place, u8, Range<usize>)>;

/// Where the entries of a root begin, and its level.
fn root_of(root: &[u8]) -> Result<(usize, u8), CollectionError> {
    match root.first() {
        Some(0) => Ok((1, 0)),
        Some(&level) if root.len() >= INNER_HEADER => Ok((INNER_HEADER, level)),
        Some(_) | None => Err(damaged("the root of a map")),
    }
}

fn entries(place: Place, node: &[u8], level: u8) -> Entries<'_> {
    let at = match (place.1, level) {
        (Some(_), _) => 0,
        (None, 0) => 1,
        (None, _) => INNER_HEADER,
    };
    Entries { node, at, level }
}

/// The child that a map key belongs to: the last one whose least is not greater, or the first.
fn child_of(place: Place, node: &[u8], level: u8, map_key: &[u8]) -> Result<(Range<usize>, u64), CollectionError> {
    let (mut entries, mut found) = (entries(place, node, level), None);
    while let Some(Entry { at, map_key: least, says: Says::Child(page) }) = entries.next()? {
        if found.is_some() && least > map_key {
            break;
        }
        found = Some((at, page));
    }
    found.ok_or_else(|| damaged("a node of a map, which has no child"))
}

/// Where a map key's entry lies in a leaf, with its value; or where it would.
fn find(place: Place, leaf: &[u8], map_key: &[u8]) -> Result<(Range<usize>, Option<Range<usize>>), CollectionError> {
    let mut entries = entries(place, leaf, 0);
    while let Some(Entry { at, map_key: own, says: Says::Value(value) }) = entries.next()? {
        match own.cmp(map_key) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok((at.clone(), Some(at.end - value.len()..at.end))),
            std::cmp::Ordering::Greater => return Ok((at.start..at.start, None)),
        }
    }
    Ok((leaf.len()..leaf.len(), None))
}

fn leaf_entry(map_key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(map_key.len() + value.len() + 8);
    put_bytes(&mut entry, map_key);
    put_bytes(&mut entry, value);
    entry
}

fn child_entry(least: &[u8], page: u64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(least.len() + 8);
    put_bytes(&mut entry, least);
    put_number(&mut entry, page);
    entry
}

/// The shortest byte string above `below` that is not above `above`.
fn between<'a>(below: &[u8], above: &'a [u8]) -> &'a [u8] {
    let common = below.iter().zip(above).take_while(|(a, b)| a == b).count();
    &above[..above.len().min(common + 1)]
}

/// Maps.
impl StagedCells {
    /// Values at map keys in the maps of keys, one for each pair. At most `bytes` of them.
    pub fn map_get_many(
        &mut self,
        view: &mut View<'_>,
        keys: &[u32],
        map_keys: &Column,
        bytes: usize,
    ) -> Result<Cells, CollectionError> {
        let mut cells = Cells::new();
        for (i, &key) in keys.iter().enumerate() {
            self.prepare(view, keys, map_keys, i)?;
            let found = match self.leaf(view, key, map_keys.get(i), None)? {
                None => None,
                Some(place) => {
                    let leaf = self.get(view, place)?.ok_or_else(|| damaged("a leaf of a map, which is missing"))?;
                    find(place, leaf, map_keys.get(i))?.1.map(|value| &leaf[value])
                }
            };
            match found {
                Some(value) => cells.push_put(value),
                None => cells.push_none(),
            }
            if cells.column().data().len() > bytes {
                return Err(CollectionError::TooLarge);
            }
        }
        Ok(cells)
    }

    /// Sets the values at map keys in the maps of keys, one for each pair.
    pub fn map_put_many(
        &mut self,
        view: &mut View<'_>,
        keys: &[u32],
        map_keys: &Column,
        values: &Column,
    ) -> Result<(), CollectionError> {
        for (i, &key) in keys.iter().enumerate() {
            self.prepare(view, keys, map_keys, i)?;
            self.put(view, key, map_keys.get(i), values.get(i))?;
        }
        Ok(())
    }

    /// Removes entries from the maps of keys, one for each pair; an absent one stays absent.
    pub fn map_remove_many(&mut self, view: &mut View<'_>, keys: &[u32], map_keys: &Column) -> Result<(), CollectionError> {
        for (i, &key) in keys.iter().enumerate() {
            self.prepare(view, keys, map_keys, i)?;
            self.remove(view, key, map_keys.get(i))?;
        }
        Ok(())
    }

    /// Whether a map has no entry.
    pub fn map_is_empty(&mut self, view: &mut View<'_>, key: u32) -> Result<bool, CollectionError> {
        Ok(self.get(view, (key, None))?.is_none())
    }

    /// At most `limit` entries from `start` on, before `end` (none: to the last one), and not many more bytes than `bytes`; at
    /// least one if there is one.
    pub fn map_scan(
        &mut self,
        view: &mut View<'_>,
        key: u32,
        (start, end): (&[u8], Option<&[u8]>),
        limit: usize,
        bytes: usize,
    ) -> Result<MapPage, CollectionError> {
        self.trim();
        let mut scan = Scan { start, end, limit: limit.max(1), bytes, page: MapPage::default() };
        if let Some(root) = self.get(view, (key, None))? {
            let (_, level) = root_of(root)?;
            scan.page.done = self.scan_node(view, (key, None), level, &mut scan)?;
        } else {
            scan.page.done = true;
        }
        Ok(scan.page)
    }

    /// Removes all entries of a map.
    pub fn clear_map(&mut self, view: &mut View<'_>, key: u32) -> Result<(), CollectionError> {
        self.trim();
        if let Some(root) = self.get(view, (key, None))? {
            let (_, level) = root_of(root)?;
            self.clear_below(view, (key, None), level)?;
            self.set((key, None), None);
        }
        Ok(())
    }

    /// At the first of some pairs: reads the nodes on their ways, those of one level in one batch.
    fn prepare(&mut self, view: &mut View<'_>, keys: &[u32], map_keys: &Column, i: usize) -> Result<(), CollectionError> {
        if !i.is_multiple_of(TOGETHER) {
            return Ok(());
        }
        self.trim();
        let mut ways: Vec<(usize, Place, Option<u8>)> =
            (i..keys.len().min(i + TOGETHER)).map(|i| (i, (keys[i], None), None)).collect();
        while !ways.is_empty() {
            self.load(view, ways.iter().map(|(_, place, _)| *place))?;
            let mut next = Vec::new();
            for (i, place, level) in ways {
                let Some(node) = self.get(view, place)? else { continue };
                let level = level.map_or_else(|| root_of(node).map(|(_, level)| level), Ok)?;
                if level > 0 {
                    let (_, page) = child_of(place, node, level, map_keys.get(i))?;
                    next.push((i, (place.0, Some(page)), Some(level - 1)));
                }
            }
            ways = next;
        }
        Ok(())
    }

    /// The leaf that a map key belongs to; none: the map is empty.
    fn leaf(
        &mut self,
        view: &mut View<'_>,
        key: u32,
        map_key: &[u8],
        mut path: Option<&mut Path>,
    ) -> Result<Option<Place>, CollectionError> {
        let mut place = (key, None);
        let Some(root) = self.get(view, place)? else { return Ok(None) };
        let (_, mut level) = root_of(root)?;
        while level > 0 {
            let (at, page) = child_of(place, self.node(view, place)?, level, map_key)?;
            if let Some(path) = &mut path {
                path.push((place, level, at));
            }
            (place, level) = ((key, Some(page)), level - 1);
        }
        Ok(Some(place))
    }

    /// A node that must be there.
    fn node(&mut self, view: &mut View<'_>, place: Place) -> Result<&[u8], CollectionError> {
        self.get(view, place)?.ok_or_else(|| damaged("a node of a map, which is missing"))
    }

    /// The same, to be changed.
    fn node_mut(&mut self, view: &mut View<'_>, place: Place) -> Result<&mut Vec<u8>, CollectionError> {
        self.change(view, place)?.as_mut().ok_or_else(|| damaged("a node of a map, which is missing"))
    }

    fn put(&mut self, view: &mut View<'_>, key: u32, map_key: &[u8], value: &[u8]) -> Result<(), CollectionError> {
        let mut path = Path::new();
        let entry = leaf_entry(map_key, value);
        let Some(place) = self.leaf(view, key, map_key, Some(&mut path))? else {
            self.set((key, None), Some([&[0], &entry[..]].concat()));
            return Ok(());
        };
        let leaf = self.node(view, place)?;
        let (at, found) = find(place, leaf, map_key)?;
        if found.is_some_and(|found| &leaf[found] == value) {
            return Ok(());
        }
        let is_last = at.end == leaf.len();
        self.node_mut(view, place)?.splice(at, entry);
        self.split(view, place, 0, path, is_last)
    }

    /// Splits a node that has become too large, and then those above it.
    fn split(
        &mut self,
        view: &mut View<'_>,
        mut place: Place,
        mut level: u8,
        mut path: Path,
        mut at_end: bool,
    ) -> Result<(), CollectionError> {
        loop {
            let node = self.node(view, place)?;
            let Some((cut, least)) = cut_of(place, node, level, at_end)? else { return Ok(()) };
            let key = place.0;
            let next = self.take_page(view, key, level, place.1.is_none())?;
            let right = self.node_mut(view, place)?.split_off(cut);
            self.set((key, Some(next)), Some(right));
            let Some((parent, above, at)) = path.pop() else {
                // The root goes into a page of its own, below a new one.
                let root = self.node(view, place)?;
                let (begin, _) = root_of(root)?;
                let (left, last) = (root[begin..].to_vec(), next + 1);
                let mut root = vec![level + 1];
                root.extend_from_slice(&(last + 1).to_le_bytes());
                root.extend(child_entry(&[], last));
                root.extend(child_entry(&least, next));
                self.set((key, Some(last)), Some(left));
                *self.node_mut(view, place)? = root;
                return Ok(());
            };
            let node = self.node_mut(view, parent)?;
            at_end = at.end == node.len();
            node.splice(at.end..at.end, child_entry(&least, next));
            (place, level) = (parent, above);
        }
    }

    /// A page that no node is in. `is_root`: the root itself, of this level, is to be split.
    fn take_page(&mut self, view: &mut View<'_>, key: u32, level: u8, is_root: bool) -> Result<u64, CollectionError> {
        if is_root && level == 0 {
            return Ok(0);
        }
        let root = self.node_mut(view, (key, None))?;
        let next = root.get_mut(1..INNER_HEADER).ok_or_else(|| damaged("the root of a map"))?;
        let page = u64::from_le_bytes(next.try_into().expect("eight bytes"));
        next.copy_from_slice(&(page + 1).to_le_bytes());
        Ok(page)
    }

    fn remove(&mut self, view: &mut View<'_>, key: u32, map_key: &[u8]) -> Result<(), CollectionError> {
        let mut path = Path::new();
        let Some(place) = self.leaf(view, key, map_key, Some(&mut path))? else { return Ok(()) };
        let (at, found) = find(place, self.node(view, place)?, map_key)?;
        if found.is_none() {
            return Ok(());
        }
        let leaf = self.node_mut(view, place)?;
        leaf.drain(at);
        let left = leaf.len() - entries(place, leaf, 0).at;
        if left == 0 {
            self.remove_node(view, place, path)
        } else if left < SMALL && place.1.is_some() {
            self.join(view, place, path)
        } else {
            Ok(())
        }
    }

    /// Removes a node without entries, and then those above it that have no other child.
    fn remove_node(&mut self, view: &mut View<'_>, mut place: Place, mut path: Path) -> Result<(), CollectionError> {
        loop {
            self.set(place, None);
            let Some((parent, level, at)) = path.pop() else { return Ok(()) };
            let node = self.node_mut(view, parent)?;
            node.drain(at);
            if node.len() > entries(parent, node, level).at {
                return self.lower(view, place.0);
            }
            place = parent;
        }
    }

    /// Joins a small leaf with the one after it, or before it, if both are one leaf's worth.
    fn join(&mut self, view: &mut View<'_>, place: Place, mut path: Path) -> Result<(), CollectionError> {
        let key = place.0;
        let (parent, level, at) = path.pop().expect("a leaf in a page has a node above it");
        let node = self.node(view, parent)?;
        let (mut entries, mut before, mut after) = (entries(parent, node, level), None, None);
        while let Some(Entry { at: own, says: Says::Child(page), .. }) = entries.next()? {
            if own.end == at.start {
                before = Some(page);
            } else if own.start == at.end {
                after = Some((page, own));
            }
        }
        let (left, right, at) = match (after, before) {
            (Some((page, own)), _) => (place, (key, Some(page)), own),
            (None, Some(page)) => ((key, Some(page)), place, at),
            (None, None) => return Ok(()),
        };
        self.load(view, [left, right].into_iter())?;
        if self.node(view, left)?.len() + self.node(view, right)?.len() > JOINED {
            return Ok(());
        }
        let entries = self.node(view, right)?.to_vec();
        self.node_mut(view, left)?.extend(entries);
        self.set(right, None);
        self.node_mut(view, parent)?.drain(at);
        self.lower(view, key)
    }

    /// A root with a single child takes its content, as long as there is one.
    fn lower(&mut self, view: &mut View<'_>, key: u32) -> Result<(), CollectionError> {
        loop {
            let root = self.node(view, (key, None))?;
            let (begin, level) = root_of(root)?;
            let mut children = Entries { node: root, at: begin, level };
            let (first, second) = (children.next()?, children.next()?);
            let (Some(Entry { says: Says::Child(page), .. }), None) = (first, second) else { return Ok(()) };
            let mut lower = root[..begin].to_vec();
            lower[0] = level - 1;
            if level == 1 {
                lower.truncate(1);
            }
            lower.extend_from_slice(self.node(view, (key, Some(page)))?);
            self.set((key, Some(page)), None);
            *self.node_mut(view, (key, None))? = lower;
        }
    }

    /// Adds what a scan wants of a node and those below it. True: there is no more in its range.
    fn scan_node(&mut self, view: &mut View<'_>, place: Place, level: u8, scan: &mut Scan<'_>) -> Result<bool, CollectionError> {
        if level == 0 {
            return scan.leaf(place, self.node(view, place)?);
        }
        let node = self.node(view, place)?;
        let (from, _) = child_of(place, node, level, scan.start)?;
        let mut entries = Entries { node, at: from.start, level };
        let mut children = Vec::new();
        while let Some(Entry { map_key: least, says: Says::Child(page), .. }) = entries.next()? {
            if !children.is_empty() && scan.end.is_some_and(|end| least >= end) {
                break;
            }
            children.push((place.0, Some(page)));
        }
        let ahead = (scan.bytes / NODE).clamp(1, AHEAD);
        for (i, &child) in children.iter().enumerate() {
            if level == 1 && i % ahead == 0 {
                self.load(view, children[i..children.len().min(i + ahead)].iter().copied())?;
            }
            let done = self.scan_node(view, child, level - 1, scan)?;
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn clear_below(&mut self, view: &mut View<'_>, place: Place, level: u8) -> Result<(), CollectionError> {
        if level == 0 {
            return Ok(());
        }
        let mut children = Vec::new();
        let mut entries = entries(place, self.node(view, place)?, level);
        while let Some(Entry { says: Says::Child(page), .. }) = entries.next()? {
            children.push((place.0, Some(page)));
        }
        for child in children {
            self.clear_below(view, child, level - 1)?;
            view.budget = view.budget.checked_sub(super::CLEAR_COST).ok_or(CollectionError::TooMuch)?;
            self.set(child, None);
        }
        Ok(())
    }
}

/// Where to cut a node in two, and the least map key of the second part. None: it stays whole.
fn cut_of(place: Place, node: &[u8], level: u8, at_end: bool) -> Result<Option<(usize, Vec<u8>)>, CollectionError> {
    let mut entries = entries(place, node, level);
    let begin = entries.at;
    if node.len() - begin <= NODE {
        return Ok(None);
    }
    let middle = begin + (node.len() - begin) / 2;
    let (mut before, mut cut): (Option<&[u8]>, _) = (None, None);
    while let Some(Entry { at, map_key, .. }) = entries.next()? {
        if let Some(before) = before {
            // Children keep their least map keys; between leaves the shortest one that parts them will do.
            let least = if level == 0 { between(before, map_key) } else { map_key };
            cut = Some((at.start, least.to_vec()));
            if at.end >= middle && !at_end {
                break;
            }
        }
        before = Some(map_key);
    }
    Ok(cut)
}

/// A scan under way.
struct Scan<'a> {
    start: &'a [u8],
    end: Option<&'a [u8]>,
    limit: usize,
    bytes: usize,
    page: MapPage,
}

impl Scan<'_> {
    /// Adds what it wants of a leaf. False: there is more, but the page is full; or the range has ended, which ends it all the same.
    fn leaf(&mut self, place: Place, leaf: &[u8]) -> Result<bool, CollectionError> {
        let mut entries = entries(place, leaf, 0);
        while let Some(Entry { map_key, says: Says::Value(value), .. }) = entries.next()? {
            if map_key < self.start {
                continue;
            }
            if self.end.is_some_and(|end| map_key >= end) {
                return Ok(true);
            }
            let page = &mut self.page;
            let bytes = page.map_keys.data().len() + page.values.data().len() + page.values.len() * 8;
            if page.values.len() >= self.limit || bytes >= self.bytes {
                return Ok(false);
            }
            page.map_keys.push(map_key);
            page.values.push(value);
        }
        Ok(true)
    }
}
