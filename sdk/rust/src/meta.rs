//! What a record has beside key, value and event time: headers, a null value, a key of no bytes. See `types.batch.aux` in the contract.

use crate::batch::u32_of;

/// Tag of the block with one byte of marks for each record.
const MARKS: u16 = 1;
/// Tag of the block with the headers of each record.
const HEADERS: u16 = 2;

/// Mark: the key is there and has no bytes. Without it an empty key is no key.
pub(crate) const EMPTY_KEY: u8 = 1;
/// Mark: the value is null.
pub(crate) const NULL_VALUE: u8 = 2;

/// The length that says null.
const NULL: u32 = u32::MAX;

/// A record to be emitted, with all that it can have. `record.parts()` gives those of a record, so that only what is new must be
/// said: `out.emit_parts(RecordParts { value: Some(b"new"), ..record.parts() })`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordParts<'a> {
    /// The key; none: null.
    pub key: Option<&'a [u8]>,
    /// The value; none: null, which in a compacted Kafka topic deletes the key.
    pub value: Option<&'a [u8]>,
    /// Event time in milliseconds since the Unix epoch.
    pub time: i64,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// The headers of a record, in order. Names may repeat, and are text by custom; a value may be null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// True if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the last header of this name; none if there is no such header, or its value is null.
    pub fn get(self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        self.filter(|(own, _)| *own == name.as_ref()).last().and_then(|(_, value)| value)
    }

    /// Those of record `record` in a batch's extension blocks, which the host has checked.
    #[inline]
    pub(crate) fn of(aux: &'a [u8], record: usize, records: usize) -> Self {
        let Some((index, headers)) = block(aux, HEADERS).and_then(|block| block.split_at_checked((records + 1) * 4)) else {
            return Headers::default();
        };
        let offset = |at: usize| index.get(at * 4..at * 4 + 4).map_or(0, u32_of);
        Headers(headers.get(offset(record)..offset(record + 1)).unwrap_or_default())
    }

    /// Takes a length and so many bytes; null: none.
    fn part(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>().unwrap_or((&[0xff; 4], &[]));
        let length = u32::from_le_bytes(*length);
        let (bytes, rest) = if length == NULL { (None, rest) } else { split(rest, length as usize) };
        self.0 = rest;
        bytes
    }
}

fn split(bytes: &[u8], at: usize) -> (Option<&[u8]>, &[u8]) {
    bytes.split_at_checked(at).map_or((None, &[]), |(first, rest)| (Some(first), rest))
}

impl<'a> Iterator for Headers<'a> {
    /// Name and value.
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let name = self.part()?;
        Some((name, self.part()))
    }
}

/// Headers that are put together: new ones, or those of a record with changes.
///
/// ```
/// use weir_sdk::HeaderList;
/// let mut headers = HeaderList::new();
/// headers.add("source", Some("orders"));
/// headers.set("topic", Some("bookings"));
/// headers.set("topic", Some("refused"));
/// assert_eq!(headers.headers().get("topic"), Some(&b"refused"[..]));
/// assert_eq!(headers.headers().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderList(Vec<u8>);

impl HeaderList {
    /// None yet.
    pub fn new() -> Self {
        HeaderList::default()
    }

    /// Appends a header; there may be others of its name. `value`: none is null.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: Option<impl AsRef<[u8]>>) {
        put(Some(name.as_ref()), &mut self.0);
        put(value.as_ref().map(AsRef::as_ref), &mut self.0);
    }

    /// Removes every header of this name.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        let before = std::mem::take(&mut self.0);
        for (own, value) in Headers(&before).filter(|(own, _)| *own != name.as_ref()) {
            self.add(own, value);
        }
    }

    /// Makes this the one header of its name.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: Option<impl AsRef<[u8]>>) {
        self.remove(&name);
        self.add(name, value);
    }

    /// To look at, and for [`RecordParts`].
    pub fn headers(&self) -> Headers<'_> {
        Headers(&self.0)
    }
}

impl From<Headers<'_>> for HeaderList {
    fn from(headers: Headers<'_>) -> Self {
        HeaderList(headers.0.to_vec())
    }
}

fn put(bytes: Option<&[u8]>, into: &mut Vec<u8>) {
    let length = bytes.map_or(NULL, |bytes| bytes.len() as u32);
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(bytes.unwrap_or_default());
}

/// The block of a tag.
#[inline]
fn block(aux: &[u8], tag: u16) -> Option<&[u8]> {
    let mut rest = aux;
    loop {
        let (head, body) = rest.split_at_checked(6)?;
        let (block, next) = body.split_at_checked(u32_of(&head[2..]))?;
        if head[..2] == tag.to_le_bytes() {
            return Some(block);
        }
        rest = next;
    }
}

/// The marks of record `record` in a batch's extension blocks.
#[inline]
pub(crate) fn marks(aux: &[u8], record: usize) -> u8 {
    block(aux, MARKS).and_then(|marks| marks.get(record).copied()).unwrap_or(0)
}

/// Blocks under construction. Columns may be shorter than the batch: what they do not reach has nothing.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    marks: Vec<u8>,
    /// Where each record's headers end.
    ends: Vec<u32>,
    headers: Vec<u8>,
}

impl Blocks {
    /// Notes what record `record` has; none behind it has anything yet.
    pub(crate) fn note(&mut self, record: usize, marks: u8, headers: Headers<'_>) {
        if marks != 0 {
            self.marks.resize(record, 0);
            self.marks.push(marks);
        }
        if !headers.is_empty() {
            self.ends.resize(record, self.headers.len() as u32);
            self.headers.extend_from_slice(headers.0);
            self.ends.push(self.headers.len() as u32);
        }
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.marks.len() + self.ends.len() * 4 + self.headers.len()
    }

    /// As the contract has them, for a batch of so many records.
    pub(crate) fn encode(mut self, records: usize) -> Vec<u8> {
        let mut aux = Vec::with_capacity(self.bytes() + 16);
        let head = |tag: u16, length: usize, aux: &mut Vec<u8>| {
            aux.extend_from_slice(&tag.to_le_bytes());
            aux.extend_from_slice(&(length as u32).to_le_bytes());
        };
        if !self.marks.is_empty() {
            self.marks.resize(records, 0);
            head(MARKS, records, &mut aux);
            aux.extend_from_slice(&self.marks);
        }
        if !self.headers.is_empty() {
            self.ends.resize(records, self.headers.len() as u32);
            head(HEADERS, (records + 1) * 4 + self.headers.len(), &mut aux);
            aux.extend_from_slice(&[0; 4]);
            self.ends.iter().for_each(|end| aux.extend_from_slice(&end.to_le_bytes()));
            aux.extend_from_slice(&self.headers);
        }
        aux
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_put_together() {
        let mut list = HeaderList::new();
        list.add("a", Some("1"));
        list.add("b", None::<&str>);
        list.add("a", Some("2"));
        list.add("", Some(""));
        let all: Vec<_> = list.headers().collect();
        let wanted: [(&[u8], Option<&[u8]>); 4] = [(b"a", Some(b"1")), (b"b", None), (b"a", Some(b"2")), (b"", Some(b""))];
        assert_eq!(all, wanted);
        assert_eq!([list.headers().get("a"), list.headers().get("b"), list.headers().get("c")], [Some(&b"2"[..]), None, None]);
        let mut changed = HeaderList::from(list.headers());
        assert_eq!(changed, list);
        changed.set("a", Some("3"));
        changed.remove("");
        assert_eq!(changed.headers().collect::<Vec<_>>(), [(&b"b"[..], None), (b"a", Some(&b"3"[..]))]);
    }

    #[test]
    fn blocks_are_those_of_the_contract() {
        let mut headers = HeaderList::new();
        headers.add("to", Some("x"));
        headers.add("n", None::<&str>);
        let mut blocks = Blocks::default();
        blocks.note(0, EMPTY_KEY | NULL_VALUE, Headers::default());
        blocks.note(1, 0, headers.headers());
        #[rustfmt::skip]
        let wanted = [
            1, 0, 2, 0, 0, 0, /* record 0 */ 3, /* record 1 */ 0,
            2, 0, 32, 0, 0, 0, /* offsets */ 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
            2, 0, 0, 0, b't', b'o', 1, 0, 0, 0, b'x', 1, 0, 0, 0, b'n', 0xff, 0xff, 0xff, 0xff,
        ];
        assert_eq!(blocks.encode(2), wanted);
        assert_eq!([marks(&wanted, 0), marks(&wanted, 1)], [3, 0]);
        assert_eq!([Headers::of(&wanted, 0, 2), Headers::of(&wanted, 1, 2)], [Headers::default(), headers.headers()]);
        assert_eq!((marks(&[], 0), Headers::of(&[], 0, 1)), (0, Headers::default()));
        assert_eq!(Blocks::default().encode(5), [], "nothing costs nothing");
    }
}
