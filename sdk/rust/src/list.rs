//! List state as the author sees it.

use crate::batch::string_at;
use crate::encoding::{StateValue, decode_all};
use crate::error::Error;
use crate::keyed_state::Column;
use crate::state::Place;
use crate::store::Store;
use std::marker::PhantomData;

/// Elements of one page that is read.
const PAGE: u32 = 4096;

/// The list of the current key, in the order in which its elements were appended.
///
/// An append costs no call to the host by itself and reads nothing: what was appended goes to the host when the call ends, all
/// keys together. Reading asks the host, key by key.
///
/// ```
/// use weir_sdk::prelude::*;
///
/// #[derive(Default)]
/// struct Recent;
///
/// impl KeyedOperator for Recent {
///     const INFO: Info = weir_sdk::info!();
///     type State = List<String>;
///     const STATES: &'static [StateName] = &[StateName::new("recent")];
///     fn process(&mut self, record: Record<'_>, recent: &mut List<String>, out: &mut Output) -> Result<(), Error> {
///         recent.push(&record.text()?.to_owned());
///         if recent.len() == 3 {
///             out.emit(record.key(), recent.to_vec()?.join(" "), record.time());
///             recent.clear();
///         }
///         Ok(())
///     }
/// }
/// # use weir_sdk::testing::Harness;
/// # let mut harness = Harness::open(Recent, "{}").unwrap();
/// # harness.send(0, &[("k", "a", 1), ("k", "b", 1), ("k", "c", 1), ("k", "d", 1)]).unwrap();
/// # assert_eq!(harness.take_main()[0].text(), "a b c");
/// # assert_eq!(harness.state().list(0, b"k").len(), 1);
/// ```
#[derive(Debug)]
pub struct List<T> {
    place: Place,
    /// What the host keeps is to be cleared, before what is appended.
    cleared: bool,
    appended: Column,
    elements: PhantomData<fn() -> T>,
}

impl<T: StateValue> List<T> {
    pub(crate) fn new(place: Place) -> Self {
        List { place, cleared: false, appended: Column::new(), elements: PhantomData }
    }

    /// Appends an element.
    pub fn push(&mut self, element: &T) {
        element.encode(&mut self.appended.0.data);
        self.appended.end();
    }

    /// Appends elements.
    pub fn extend<'a>(&mut self, elements: impl IntoIterator<Item = &'a T>)
    where
        T: 'a,
    {
        elements.into_iter().for_each(|element| self.push(element));
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.cleared = true;
        self.appended = Column::new();
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.stored() + self.appended.len() as u64
    }

    /// True if there is no element.
    pub fn is_empty(&self) -> bool {
        self.appended.is_empty() && self.stored() == 0
    }

    /// All elements. Fails for stored bytes that are no `T`.
    pub fn to_vec(&mut self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        self.for_each(|element| {
            all.push(element);
            Ok(())
        })?;
        Ok(all)
    }

    /// Looks at all elements in order, some of them in memory at a time. Fails for stored bytes that are no `T`, and as `look`
    /// does.
    pub fn for_each(&mut self, mut look: impl FnMut(T) -> Result<(), Error>) -> Result<(), Error> {
        flush(std::iter::once(&mut *self));
        let Place { store, state, key } = &self.place;
        let mut start = 0;
        loop {
            let page = store.list_get_page(*state, key, start, PAGE);
            for i in 0..(page.values.index.len() / 4).saturating_sub(1) {
                let bytes = string_at(&page.values.data, &page.values.index, i);
                look(decode_all(bytes).ok_or_else(|| self.place.undecodable::<T>("an element", bytes.len()))?)?;
            }
            start = page.next;
            if start == 0 {
                return Ok(());
            }
        }
    }

    /// Number of elements that the host keeps, and that are not cleared.
    fn stored(&self) -> u64 {
        if self.cleared {
            return 0;
        }
        let lengths = self.place.store.list_len_many(self.place.state, &self.place.keys().0);
        lengths.try_into().map_or(0, u64::from_le_bytes)
    }
}

/// Hands what changed to the host, all keys together.
pub(crate) fn flush<'a, T: 'a>(lists: impl Iterator<Item = &'a mut List<T>>) {
    let (mut cleared, mut keys, mut values) = (Column::new(), Column::new(), Column::new());
    let mut at: Option<(Store, u32)> = None;
    for list in lists {
        if std::mem::take(&mut list.cleared) {
            cleared.push(&list.place.key);
            at = Some(list.place.host());
        }
        if !list.appended.is_empty() {
            let appended = std::mem::take(&mut list.appended);
            for i in 0..appended.len() {
                keys.push(&list.place.key);
                values.push(appended.get(i));
            }
            at = Some(list.place.host());
        }
    }
    let Some((store, state)) = at else { return };
    if !cleared.is_empty() {
        store.list_clear_many(state, &cleared.0);
    }
    if !keys.is_empty() {
        store.list_append_many(state, &keys.0, &values.0);
    }
}
