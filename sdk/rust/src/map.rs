//! Map state as the author sees it.

use crate::batch::string_at;
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;
use crate::keyed_state::Column;
use crate::map_key::{AsMapKey, MapKey};
use crate::state::Place;
use crate::store::Store;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Entries of one page of a scan.
const PAGE: u32 = 4096;

/// The map of the current key: entries by map key, in the order of the map keys.
///
/// Changes go to the host when the call ends, all keys together. What is read is asked for one by one, and once in a call:
/// mind `limits.host_calls` (10,000 a call) if records look at many entries each.
///
/// ```
/// use weir_sdk::prelude::*;
///
/// /// The last reading of each sensor of a house (the record's key), and all of them at "show".
/// #[derive(Default)]
/// struct Readings;
///
/// impl KeyedOperator for Readings {
///     const INFO: Info = weir_sdk::info!();
///     type State = Map<String, i64>;
///     const STATES: &'static [StateName] = &[StateName::new("readings")];
///     fn process(&mut self, record: Record<'_>, readings: &mut Map<String, i64>, out: &mut Output) -> Result<(), Error> {
///         match record.text()?.split_once('=') {
///             Some((sensor, value)) => {
///                 let value = value.parse().map_err(|_| Error::bad_record("no number"))?;
///                 readings.put(sensor, &value);
///             }
///             None => readings.scan(.., |sensor, value| {
///                 out.emit(record.key(), format!("{sensor}: {value}"), record.time());
///                 Ok(true)
///             })?,
///         }
///         Ok(())
///     }
/// }
/// # use weir_sdk::testing::Harness;
/// # let mut harness = Harness::open(Readings, "{}").unwrap();
/// # harness.send(0, &[("home", "b=2", 1), ("home", "a=1", 1), ("home", "b=3", 1), ("home", "show", 1)]).unwrap();
/// # let shown: Vec<_> = harness.take_main().iter().map(|r| r.text().to_owned()).collect();
/// # assert_eq!(shown, ["a: 1", "b: 3"]);
/// ```
#[derive(Debug)]
pub struct Map<K, V> {
    place: Place,
    /// What the host keeps is to be cleared, before what is changed.
    cleared: bool,
    /// What the call knows of entries, by the bytes of their map keys.
    entries: BTreeMap<Vec<u8>, Known>,
    types: PhantomData<fn() -> (K, V)>,
}

/// What a call knows of an entry.
#[derive(Debug)]
struct Known {
    /// Its value's bytes; none: it is absent.
    value: Option<Vec<u8>>,
    /// The host does not know it yet.
    changed: bool,
}

impl<K: MapKey, V: StateValue> Map<K, V> {
    pub(crate) fn new(place: Place) -> Self {
        Map { place, cleared: false, entries: BTreeMap::new(), types: PhantomData }
    }

    /// The value of an entry, if there is one. Fails for stored bytes that are no `V`.
    pub fn get<Q: AsMapKey<K> + ?Sized>(&mut self, key: &Q) -> Result<Option<V>, Error> {
        let key = bytes_of::<K, _>(key);
        if let Some(known) = self.entries.get(&key) {
            return known.value.as_deref().map(|bytes| self.decode(bytes)).transpose();
        }
        let value = self.stored(&key);
        let found = value.as_deref().map(|bytes| self.decode(bytes)).transpose()?;
        self.entries.insert(key, Known { value, changed: false });
        Ok(found)
    }

    /// Whether there is an entry.
    pub fn contains<Q: AsMapKey<K> + ?Sized>(&mut self, key: &Q) -> bool {
        let key = bytes_of::<K, _>(key);
        if let Some(known) = self.entries.get(&key) {
            return known.value.is_some();
        }
        let value = self.stored(&key);
        let found = value.is_some();
        self.entries.insert(key, Known { value, changed: false });
        found
    }

    /// Sets the value of an entry.
    pub fn put<Q: AsMapKey<K> + ?Sized>(&mut self, key: &Q, value: &V) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        self.entries.insert(bytes_of::<K, _>(key), Known { value: Some(bytes), changed: true });
    }

    /// Removes an entry; an absent one is no error.
    pub fn remove<Q: AsMapKey<K> + ?Sized>(&mut self, key: &Q) {
        self.entries.insert(bytes_of::<K, _>(key), Known { value: None, changed: true });
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.entries.clear();
    }

    /// True if there is no entry.
    pub fn is_empty(&mut self) -> bool {
        flush(std::iter::once(&mut *self));
        self.place.store.map_is_empty_many(self.place.state, &self.place.keys().0).first() == Some(&1)
    }

    /// The first entry of a range, if there is one.
    pub fn first(&mut self, range: impl RangeBounds<K>) -> Result<Option<(K, V)>, Error> {
        let mut first = None;
        self.scan_by(range, 1, |key, value| {
            first = Some((key, value));
            Ok(false)
        })?;
        Ok(first)
    }

    /// Looks at the entries of a range in the order of their keys, some of them in memory at a time, until `look` says false.
    /// Fails for stored bytes that are no `K` or `V`, and as `look` does.
    pub fn scan(&mut self, range: impl RangeBounds<K>, look: impl FnMut(K, V) -> Result<bool, Error>) -> Result<(), Error> {
        self.scan_by(range, PAGE, look)
    }

    /// All entries of a range.
    pub fn to_vec(&mut self, range: impl RangeBounds<K>) -> Result<Vec<(K, V)>, Error> {
        let mut all = Vec::new();
        self.scan(range, |key, value| {
            all.push((key, value));
            Ok(true)
        })?;
        Ok(all)
    }

    /// Removes the entries of a range.
    pub fn remove_range(&mut self, range: impl RangeBounds<K>) -> Result<(), Error> {
        for (key, _) in self.to_vec(range)? {
            self.remove(&key);
        }
        Ok(())
    }

    fn scan_by(
        &mut self,
        range: impl RangeBounds<K>,
        limit: u32,
        mut look: impl FnMut(K, V) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        flush(std::iter::once(&mut *self));
        let mut start = match range.start_bound() {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => bytes_of::<K, _>(key),
            Bound::Excluded(key) => after(&bytes_of::<K, _>(key)),
        };
        let end = match range.end_bound() {
            Bound::Unbounded => Vec::new(),
            Bound::Excluded(key) => match bytes_of::<K, _>(key) {
                // Nothing is below the empty map key.
                none if none.is_empty() => return Ok(()),
                key => key,
            },
            Bound::Included(key) => after(&bytes_of::<K, _>(key)),
        };
        let Place { store, state, key } = &self.place;
        loop {
            let page = store.map_scan(*state, key, &start, &end, limit);
            let count = (page.map_keys.index.len() / 4).saturating_sub(1);
            for i in 0..count {
                let bytes = string_at(&page.map_keys.data, &page.map_keys.index, i);
                let map_key = K::decode(bytes).ok_or_else(|| self.place.undecodable::<K>("a map key", bytes.len()))?;
                let value = self.decode(string_at(&page.values.data, &page.values.index, i))?;
                if !look(map_key, value)? {
                    return Ok(());
                }
            }
            if page.done || count == 0 {
                return Ok(());
            }
            start = after(string_at(&page.map_keys.data, &page.map_keys.index, count - 1));
        }
    }

    /// The value that the host keeps, unless it is cleared.
    fn stored(&self, key: &[u8]) -> Option<Vec<u8>> {
        if self.cleared {
            return None;
        }
        let mut map_keys = Column::new();
        map_keys.push(key);
        let cells = self.place.store.map_get_many(self.place.state, &self.place.keys().0, &map_keys.0);
        (cells.ops.first() == Some(&1)).then(|| string_at(&cells.data, &cells.index, 0).to_vec())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, Error> {
        decode_all(bytes).ok_or_else(|| self.place.undecodable::<V>("a map's value", bytes.len()))
    }
}

fn bytes_of<K, Q: AsMapKey<K> + ?Sized>(key: &Q) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_key(&mut bytes);
    bytes
}

/// The first map key after this one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Hands what changed to the host, all keys together.
pub(crate) fn flush<'a, K: 'a, V: 'a>(maps: impl Iterator<Item = &'a mut Map<K, V>>) {
    let (mut cleared, mut removed, mut put) = (Column::new(), [Column::new(), Column::new()], [(); 3].map(|()| Column::new()));
    let mut at: Option<(Store, u32)> = None;
    for map in maps {
        let is_cleared = std::mem::take(&mut map.cleared);
        let mut has_changed = is_cleared;
        if is_cleared {
            cleared.push(&map.place.key);
        }
        for (key, known) in map.entries.iter_mut().filter(|(_, known)| known.changed) {
            (has_changed, known.changed) = (true, false);
            match &known.value {
                Some(value) => {
                    put.iter_mut().zip([&map.place.key[..], key, value]).for_each(|(column, bytes)| column.push(bytes))
                }
                None => removed.iter_mut().zip([&map.place.key[..], key]).for_each(|(column, bytes)| column.push(bytes)),
            }
        }
        if has_changed {
            at = Some(map.place.host());
        }
    }
    let Some((store, state)) = at else { return };
    if !cleared.is_empty() {
        store.map_clear_many(state, &cleared.0);
    }
    if !removed[0].is_empty() {
        store.map_remove_many(state, &removed[0].0, &removed[1].0);
    }
    if !put[0].is_empty() {
        store.map_put_many(state, &put[0].0, &put[1].0, &put[2].0);
    }
}
