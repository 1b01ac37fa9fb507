//! Keyed state as the plugin host sees it: a trait that its user implements.
//!
//! Keys of a call are handed over as *distinct keys*: hashed once, and never copied out of the batch.

use crate::batch::{Cells, RecordBatch};

/// Number of key groups of every job: fixed, so that any parallelism can restore any checkpoint.
pub const KEY_GROUPS: u32 = 32_768;

/// Name of the key hash in manifests; another one is refused.
pub const KEY_HASH: &str = "xxh3-64/0";

/// Hash of a key: XXH3-64 with seed 0. The same value picks key group, exchange channel and cache slot.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// Key group of a key's hash: its top 15 bits, so that the low bits stay independent for hash tables.
#[inline]
pub fn key_group(hash: u64) -> u16 {
    (hash >> 49) as u16
}

/// Subtask that owns a key group at this parallelism. Ranges are contiguous and differ by at most one group in size.
#[inline]
pub fn subtask_of_group(group: u16, parallelism: u32) -> u32 {
    (u64::from(group) * u64::from(parallelism) / u64::from(KEY_GROUPS)) as u32
}

/// Index of a state in the operator's descriptor. Those from [`PAGES`] on are of the host.
pub type StateId = u16;

/// States from here on, as many as a plugin can declare, hold pages of lists and maps.
pub const PAGES: StateId = 0x4000;

/// Bytes of a page's key after the key that it belongs to: its number, big-endian.
const PAGE_NUMBER: usize = size_of::<u64>();

/// The state of the pages of a declared state's lists or maps.
#[inline]
pub fn pages_of(state: StateId) -> StateId {
    debug_assert!(state < PAGES, "only what a plugin declares has pages");
    PAGES | state
}

/// Hash of a page's key, from that of the key that it belongs to: of the same key group.
#[inline]
pub fn page_hash(hash: u64, page: u64) -> u64 {
    hash ^ (page.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 15)
}

/// Hash of a cell's key. It differs from [`key_hash`] for pages, which are of the key group of the key that they belong to.
#[inline]
pub fn cell_hash(state: StateId, key: &[u8]) -> u64 {
    match key.split_last_chunk::<PAGE_NUMBER>() {
        Some((key, page)) if (PAGES..2 * PAGES).contains(&state) => page_hash(key_hash(key), u64::from_be_bytes(*page)),
        Some(_) | None => key_hash(key),
    }
}

/// The distinct keys of one call, in order of first sight. Spans point into `data` (a batch's data column).
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Bytes that the spans point into.
    pub data: &'a [u8],
    /// (start, end) of each distinct key.
    pub spans: &'a [(u32, u32)],
    /// [`key_hash`] of each distinct key.
    pub hashes: &'a [u64],
}

impl<'a> Keys<'a> {
    /// Number of distinct keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there is no key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Distinct key `i`.
    #[inline]
    pub fn key(&self, i: usize) -> &'a [u8] {
        let (start, end) = self.spans[i];
        &self.data[start as usize..end as usize]
    }
}

/// Why state could not be read or written: the environment's fault (disk, memory), never the plugin's.
/// The backend is unusable afterwards; the attempt of the job ends.
#[derive(Debug)]
pub struct StateError {
    /// What was done to which file or folder.
    pub what: String,
    /// The cause.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for StateError {}

/// Keyed state of one stateful operator and subtask.
///
/// The pair `prefetch` and `apply` is the hot path: one call each per batch. Between the two, a backend may keep where the
/// cells lie; any other mutating call in between is the caller's bug. `get_many` changes nothing and may come in between;
/// `apply` need not come at all (the call failed, or changed nothing).
pub trait KeyedStateBackend: Send {
    /// Reads the values of `states` for `keys`; `out` gets one [`Cells`] for each state, one cell for each key, in order. What it
    /// held is forgotten, its memory is used again.
    fn prefetch(&mut self, keys: Keys<'_>, states: &[StateId], out: &mut Vec<Cells>) -> Result<(), StateError>;

    /// Applies updates (`Put`, `Delete`, `None` keeps) to the same keys and states.
    /// An empty `updates` changes nothing.
    fn apply(&mut self, keys: Keys<'_>, states: &[StateId], updates: &[Cells]) -> Result<(), StateError>;

    /// Reads one state of any keys (data-dependent access).
    fn get_many(&mut self, state: StateId, keys: Keys<'_>, out: &mut Cells) -> Result<(), StateError>;

    /// Writes one state of any keys.
    fn put_many(&mut self, state: StateId, keys: Keys<'_>, cells: &Cells) -> Result<(), StateError>;

    /// The next at most `limit` keys, in an order of the backend's own that stays the same while nothing is written except
    /// to keys already returned, that hold a value in at least one of `states`; `after` is the last key of the page before.
    /// Fewer than `limit` means the end.
    fn scan_keys(&mut self, states: &[StateId], after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, StateError>;
}

/// Groups a batch by key: distinct keys in order of first sight, and each record's index among them.
/// Reused from batch to batch, so that the hot path allocates nothing.
#[derive(Debug, Default)]
pub struct KeyGrouping {
    /// (start, end) of each distinct key in the batch's data.
    pub spans: Vec<(u32, u32)>,
    /// Hash of each distinct key.
    pub hashes: Vec<u64>,
    /// u32 little-endian × count: index of each record's key among the distinct keys.
    pub key_of: Vec<u8>,
    /// Open addressing: `first` plus the index of a distinct key. What is below `first` is of an earlier batch, and empty now.
    slots: Vec<u32>,
    first: u32,
    /// `first` of the next batch: above all that is in the slots.
    next_first: u32,
}

impl KeyGrouping {
    /// An empty grouping.
    pub fn new() -> Self {
        KeyGrouping::default()
    }

    /// Groups `batch`, forgetting what was grouped before.
    pub fn group(&mut self, batch: &RecordBatch) {
        match batch.key_hashes() {
            Some(hashes) => self.group_by(batch, |i, _| hashes[i]),
            None => self.group_by(batch, |_, key| key_hash(key)),
        }
    }

    /// `hash`: [`key_hash`] of record `i`, whose key is given with it.
    #[inline(always)]
    fn group_by(&mut self, batch: &RecordBatch, hash: impl Fn(usize, &[u8]) -> u64) {
        let n = batch.len();
        self.spans.clear();
        self.hashes.clear();
        self.key_of.clear();
        self.key_of.reserve(n * 4);
        self.spans.reserve(n);
        self.hashes.reserve(n);
        let wanted = (n * 2).next_power_of_two().max(64);
        self.first = self.next_first;
        if self.slots.len() < wanted || u32::MAX - self.first <= n as u32 {
            self.slots = vec![0; wanted.max(self.slots.len())];
            self.first = 1;
        }
        let mask = self.slots.len() - 1;
        for i in 0..n {
            let span = batch.key_span(i);
            let key = &batch.data()[span.0 as usize..span.1 as usize];
            let hash = hash(i, key);
            let mut at = hash as usize & mask;
            let distinct = loop {
                let Some(distinct) = self.slots[at].checked_sub(self.first) else {
                    let distinct = self.spans.len() as u32;
                    self.slots[at] = self.first + distinct;
                    self.spans.push(span);
                    self.hashes.push(hash);
                    break distinct;
                };
                if self.is(distinct, hash, batch, key) {
                    break distinct;
                }
                at = (at + 1) & mask;
            };
            self.key_of.extend_from_slice(&distinct.to_le_bytes());
        }
        self.next_first = self.first + self.spans.len() as u32;
    }

    #[inline]
    fn is(&self, distinct: u32, hash: u64, batch: &RecordBatch, key: &[u8]) -> bool {
        let (start, end) = self.spans[distinct as usize];
        self.hashes[distinct as usize] == hash && &batch.data()[start as usize..end as usize] == key
    }

    /// Index of `key` among the distinct keys of `batch`, which must be the one that was grouped last.
    pub fn find(&self, batch: &RecordBatch, key: &[u8]) -> Option<u32> {
        if self.spans.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let hash = key_hash(key);
        let mut at = hash as usize & mask;
        // Ends: at most half of the slots are of this batch.
        while let Some(distinct) = self.slots[at].checked_sub(self.first) {
            if self.is(distinct, hash, batch, key) {
                return Some(distinct);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The distinct keys of `batch`, which must be the one that was grouped last.
    pub fn keys<'a>(&'a self, batch: &'a RecordBatch) -> Keys<'a> {
        Keys { data: batch.data(), spans: &self.spans, hashes: &self.hashes }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
