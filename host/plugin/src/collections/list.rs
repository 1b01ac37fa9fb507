//! Lists: the root holds the end of the list, full chunks before it are pages, which never change again.
//!
//! Root: number of chunks · number of elements · the elements after the chunks. Chunk `i` is page `i`: elements.

use super::page::{put_bytes, put_number, take_bytes, take_number};
use super::{CollectionError, PAGE_BYTES, StagedCells, View, damaged};
use crate::batch::Column;

/// Bytes of elements in the root that make a chunk. An append rewrites the root, so it is small; a chunk is a cell of its own.
const CHUNK: usize = 1 << 10;
/// Bits of a position for the element in its chunk: it has no more than one for each byte.
const INDEX_BITS: u32 = 16;
/// Chunks that are read together.
const TOGETHER: u64 = 64;

/// A part of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The elements.
    pub values: Column,
    /// Where the next page begins; 0: nowhere.
    pub next: u64,
}

/// A root, taken apart.
#[derive(Clone, Copy)]
struct Root<'a> {
    chunks: u64,
    elements: u64,
    tail: &'a [u8],
}

impl<'a> Root<'a> {
    fn of(mut bytes: &'a [u8]) -> Option<Self> {
        Some(Root { chunks: take_number(&mut bytes)?, elements: take_number(&mut bytes)?, tail: bytes })
    }

    fn header(self) -> Vec<u8> {
        let mut header = Vec::new();
        put_number(&mut header, self.chunks);
        put_number(&mut header, self.elements);
        header
    }
}

fn parse(bytes: &[u8]) -> Result<Root<'_>, CollectionError> {
    Root::of(bytes).ok_or_else(|| damaged("the end of a list"))
}

/// Lists.
impl StagedCells {
    /// Appends to the lists of keys, one value for each; a key may stand many times.
    pub fn append_many<'v>(
        &mut self,
        view: &mut View<'_>,
        keys: &[u32],
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Result<(), CollectionError> {
        self.trim();
        self.load(view, keys.iter().map(|&key| (key, None)))?;
        keys.iter().zip(values).try_for_each(|(&key, value)| self.append(view, key, value))
    }

    fn append(&mut self, view: &mut View<'_>, key: u32, value: &[u8]) -> Result<(), CollectionError> {
        let root = self.change(view, (key, None))?.get_or_insert_with(|| vec![0, 0]);
        put_bytes(root, value);
        let parsed = parse(root)?;
        let (chunks, elements) = (parsed.chunks, parsed.elements + 1);
        let header = root.len() - parsed.tail.len();
        let is_full = parsed.tail.len() >= CHUNK;
        let new = Root { chunks: chunks + u64::from(is_full), elements, tail: &[] }.header();
        if is_full {
            let chunk = root.split_off(header);
            *root = new;
            self.set((key, Some(chunks)), Some(chunk));
        } else if new.len() == header {
            root[..header].copy_from_slice(&new);
        } else {
            root.splice(..header, new);
        }
        Ok(())
    }

    /// Number of elements of a list.
    pub fn list_len(&mut self, view: &mut View<'_>, key: u32) -> Result<u64, CollectionError> {
        match self.get(view, (key, None))? {
            Some(root) => Ok(parse(root)?.elements),
            None => Ok(0),
        }
    }

    /// Reads the roots of lists or maps that are asked for next, in one batch.
    pub fn load_roots(&mut self, view: &mut View<'_>, keys: &[u32]) -> Result<(), CollectionError> {
        self.trim();
        self.load(view, keys.iter().map(|&key| (key, None)))
    }

    /// At most `limit` elements of a list, and not many more bytes than `bytes`. `start`: 0, or [`ListPage::next`].
    pub fn list_page(
        &mut self,
        view: &mut View<'_>,
        key: u32,
        start: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<ListPage, CollectionError> {
        let (mut page, limit) = (ListPage::default(), limit.max(1));
        self.trim();
        let Some(root) = self.get(view, (key, None))? else { return Ok(page) };
        let Root { chunks, .. } = parse(root)?;
        let (mut chunk, mut skip) = (start >> INDEX_BITS, (start & ((1 << INDEX_BITS) - 1)) as usize);
        while chunk <= chunks {
            if chunk < chunks {
                let together = (bytes.saturating_sub(page.values.data().len()) / CHUNK) as u64;
                let ahead = chunk..chunks.min(chunk + together.clamp(1, TOGETHER));
                self.load(view, ahead.map(|chunk| (key, Some(chunk))))?;
            }
            let mut elements = match self.get(view, (key, (chunk < chunks).then_some(chunk)))? {
                Some(root) if chunk == chunks => parse(root)?.tail,
                Some(chunk) => chunk,
                None => return Err(damaged("a chunk of a list, which is missing")),
            };
            let mut index = 0;
            while !elements.is_empty() {
                let element = take_bytes(&mut elements).ok_or_else(|| damaged("a chunk of a list"))?;
                if index >= skip {
                    let is_full = page.values.len() >= limit || page.values.data().len().max(page.values.len() * 4) >= bytes;
                    if is_full {
                        page.next = chunk << INDEX_BITS | index as u64;
                        return Ok(page);
                    }
                    page.values.push(element);
                }
                index += 1;
            }
            (chunk, skip) = (chunk + 1, 0);
        }
        Ok(page)
    }

    /// Appends all elements of a list to `values`. How many there are. At most `bytes` of them.
    pub fn whole_list(
        &mut self,
        view: &mut View<'_>,
        key: u32,
        values: &mut Column,
        bytes: usize,
    ) -> Result<u32, CollectionError> {
        let (mut start, mut count) = (0, 0);
        loop {
            let page = self.list_page(view, key, start, usize::MAX, PAGE_BYTES)?;
            for i in 0..page.values.len() {
                values.push(page.values.get(i));
            }
            if values.data().len() > bytes || values.index().len() > bytes.max(4) {
                return Err(CollectionError::TooLarge);
            }
            count += page.values.len() as u32;
            start = page.next;
            if start == 0 {
                return Ok(count);
            }
        }
    }

    /// Removes all elements of a list.
    pub fn clear_list(&mut self, view: &mut View<'_>, key: u32) -> Result<(), CollectionError> {
        let Some(root) = self.get(view, (key, None))? else { return Ok(()) };
        let Root { chunks, .. } = parse(root)?;
        for chunk in 0..chunks {
            let cost = super::CLEAR_COST;
            view.budget = view.budget.checked_sub(cost).ok_or(CollectionError::TooMuch)?;
            self.set((key, Some(chunk)), None);
        }
        self.set((key, None), None);
        Ok(())
    }
}
