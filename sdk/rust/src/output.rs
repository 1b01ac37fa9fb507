//! Building output straight into columns.
//!
//! An output keeps no record of its own: what the author writes lands in the batch that crosses the boundary. Once a
//! batch has [`CHUNK_BYTES`] it is handed to the host, so that a call may give any amount without holding it.

use crate::batch::Record;
use crate::bindings::types;
use crate::host::Host;
use crate::meta::{self, Blocks, Headers, RecordParts};
use std::fmt;
use std::io;

/// Bytes of keys and values at which a batch is handed over in the middle of a call.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Where an operator's records go: the main output, and side outputs by index.
#[derive(Debug)]
pub struct Output {
    main: Port,
    sides: Vec<Port>,
}

/// One output of an operator: a batch under construction.
#[derive(Debug)]
pub struct Port {
    /// As `host.emit` counts: 0 is the main output, k is side output k - 1.
    number: u32,
    data: Vec<u8>,
    index: Vec<u8>,
    times: Vec<u8>,
    /// What records have beside these; none: nothing.
    meta: Option<Box<Blocks>>,
    /// Records that `index` and `times` have room for. It is 0 while nothing was begun, and once nothing is taken any more.
    room: usize,
    /// Room to make at the first record, so that an output that stays empty costs nothing.
    expected_records: usize,
    expected_bytes: usize,
    /// Set once the call is known to fail: what it gives would be thrown away.
    discard: bool,
    host: Host,
}

impl Output {
    /// An output with as many sides as declared; the main one expects about as much as came in.
    pub(crate) fn new(sides: usize, expected_records: usize, expected_bytes: usize, host: &Host) -> Self {
        let port = |number, expected_records, expected_bytes| Port {
            number,
            data: Vec::new(),
            index: Vec::new(),
            times: Vec::new(),
            meta: None,
            room: 0,
            expected_records,
            expected_bytes,
            discard: false,
            host: host.clone(),
        };
        Output {
            main: port(0, expected_records, expected_bytes),
            sides: (1..=sides as u32).map(|number| port(number, 0, 0)).collect(),
        }
    }

    /// Emits a record to the main output. `time`: event time in milliseconds since the Unix epoch.
    #[inline]
    pub fn emit(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, time: i64) {
        self.main.emit(key, value, time);
    }

    /// Passes a record on to the main output as it is, headers and all.
    #[inline]
    pub fn forward(&mut self, record: Record<'_>) {
        self.main.forward(record);
    }

    /// Passes a record on to the main output with another value; see [`Port::forward_with`].
    #[inline]
    pub fn forward_with(&mut self, record: Record<'_>, write: impl FnOnce(&mut Bytes<'_>)) {
        self.main.forward_with(record, write);
    }

    /// Emits a record with a null value to the main output: in a compacted Kafka topic, the deletion of its key.
    #[inline]
    pub fn emit_null(&mut self, key: impl AsRef<[u8]>, time: i64) {
        self.main.emit_null(key, time);
    }

    /// Emits a record with null key, null value or headers to the main output; see [`Port::emit_parts`].
    #[inline]
    pub fn emit_parts(&mut self, parts: RecordParts<'_>) {
        self.main.emit_parts(parts);
    }

    /// Emits a record whose value `write` puts into the batch, without a copy in between; see [`Port::emit_with`].
    #[inline]
    pub fn emit_with(&mut self, key: impl AsRef<[u8]>, time: i64, write: impl FnOnce(&mut Bytes<'_>)) {
        self.main.emit_with(key, time, write);
    }

    /// The main output.
    #[inline]
    pub fn main(&mut self) -> &mut Port {
        &mut self.main
    }

    /// Side output `index`, as counted in `SIDE_OUTPUTS`.
    ///
    /// # Panics
    /// If no such side output is declared: a mistake in the operator.
    #[inline]
    pub fn side(&mut self, index: usize) -> &mut Port {
        let declared = self.sides.len();
        self.sides.get_mut(index).unwrap_or_else(|| panic!("side output {index} of {declared} in SIDE_OUTPUTS"))
    }

    /// Forgets what there is and takes nothing more: the call fails.
    pub(crate) fn discard(&mut self) {
        for port in std::iter::once(&mut self.main).chain(&mut self.sides) {
            port.discard = true;
            port.clear();
            port.room = 0;
        }
    }

    /// The rest that was not handed over yet, as the call's result.
    pub(crate) fn finish(self, updates: Vec<types::Cells>) -> types::Output {
        let sides = self.sides.into_iter().filter(|port| port.count() > 0);
        types::Output {
            main: self.main.into_batch(),
            sides: sides.map(|port| types::SideOutput { port: port.number - 1, records: port.into_batch() }).collect(),
            updates,
        }
    }
}

/// What a call without anything to say gives.
pub(crate) fn nothing() -> types::Output {
    let main = types::Batch { count: 0, data: Vec::new(), index: Vec::new(), times: Vec::new(), aux: Vec::new() };
    types::Output { main, sides: Vec::new(), updates: Vec::new() }
}

impl Port {
    /// Emits a record. `time`: event time in milliseconds since the Unix epoch.
    #[inline]
    pub fn emit(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, time: i64) {
        self.emit_built(time, |bytes| bytes.push(key.as_ref()), |bytes| bytes.push(value.as_ref()));
    }

    /// Passes a record on as it is, headers and all: one copy for key and value.
    #[inline]
    pub fn forward(&mut self, record: Record<'_>) {
        if !self.ready() {
            return;
        }
        let start = self.data.len() + record.key().len();
        append(&mut self.data, record.bytes());
        if record.has_meta() {
            self.note(record.marks(), record.headers());
            return self.finish_noted(start, record.time());
        }
        self.finish_record(start, record.time());
    }

    /// Passes a record on with another value, which `write` puts into the batch: key, event time and headers stay.
    /// `out.forward_with(record, |value| value.push(b"new"))`.
    #[inline]
    pub fn forward_with(&mut self, record: Record<'_>, write: impl FnOnce(&mut Bytes<'_>)) {
        if !self.ready() {
            return;
        }
        append(&mut self.data, record.key());
        let key_end = self.data.len();
        write(&mut Bytes(&mut self.data));
        if record.has_meta() {
            self.note(record.marks() & meta::EMPTY_KEY, record.headers());
            return self.finish_noted(key_end, record.time());
        }
        self.finish_record(key_end, record.time());
    }

    /// Emits a record with a null value: in a compacted Kafka topic, the deletion of its key. An empty key is null.
    pub fn emit_null(&mut self, key: impl AsRef<[u8]>, time: i64) {
        let key = Some(key.as_ref()).filter(|key| !key.is_empty());
        self.emit_parts(RecordParts { key, value: None, time, headers: Headers::default() });
    }

    /// Emits a record with all that one can have: null key, null value, headers.
    ///
    /// ```
    /// # use weir_sdk::prelude::*;
    /// # fn f(record: Record<'_>, out: &mut Output) {
    /// // The same record without a value: in a compacted Kafka topic, a deletion of its key.
    /// out.emit_parts(RecordParts { value: None, ..record.parts() });
    /// // With one more header.
    /// let mut headers = HeaderList::from(record.headers());
    /// headers.add("seen-by", Some("weir"));
    /// out.emit_parts(RecordParts { headers: headers.headers(), ..record.parts() });
    /// # }
    /// ```
    pub fn emit_parts(&mut self, parts: RecordParts<'_>) {
        if !self.ready() {
            return;
        }
        let RecordParts { key, value, time, headers } = parts;
        append(&mut self.data, key.unwrap_or_default());
        let key_end = self.data.len();
        append(&mut self.data, value.unwrap_or_default());
        let empty_key = if key.is_some_and(<[u8]>::is_empty) { meta::EMPTY_KEY } else { 0 };
        let null_value = if value.is_none() { meta::NULL_VALUE } else { 0 };
        self.note(empty_key | null_value, headers);
        self.finish_noted(key_end, time);
    }

    /// Notes what the record that is finished next has beside key, value and time.
    fn note(&mut self, marks: u8, headers: Headers<'_>) {
        if marks != 0 || !headers.is_empty() {
            let record = self.count();
            self.meta.get_or_insert_default().note(record, marks, headers);
        }
    }

    /// Emits a record whose value `write` puts into the batch, without a copy in between:
    /// `out.emit_with(key, time, |value| write!(value, "{a},{b}").expect("never fails"))`.
    #[inline]
    pub fn emit_with(&mut self, key: impl AsRef<[u8]>, time: i64, write: impl FnOnce(&mut Bytes<'_>)) {
        self.emit_built(time, |bytes| bytes.push(key.as_ref()), write);
    }

    /// Emits a record whose key and value are both written into the batch.
    #[inline]
    pub fn emit_built(&mut self, time: i64, key: impl FnOnce(&mut Bytes<'_>), value: impl FnOnce(&mut Bytes<'_>)) {
        if !self.ready() {
            return;
        }
        key(&mut Bytes(&mut self.data));
        let key_end = self.data.len();
        value(&mut Bytes(&mut self.data));
        self.finish_record(key_end, time);
    }

    /// Whether a record is wanted; there is room for it then.
    #[inline]
    fn ready(&mut self) -> bool {
        self.room > 0 || self.make_room()
    }

    /// Closes the record whose bytes are the last ones; [`Self::ready`] was asked before.
    #[inline]
    #[allow(unsafe_code, reason = "one check for both columns of a record, not one for each")]
    fn finish_record(&mut self, key_end: usize, time: i64) {
        let ends = (key_end as u64) | ((self.data.len() as u64) << 32);
        // SAFETY: `room` counts the records for which both columns have capacity: it is set where that was reserved, or from the
        // capacities. `ready` has found it above 0, and what was written since is in `data`.
        unsafe {
            append_in_room(&mut self.index, ends.to_le_bytes());
            append_in_room(&mut self.times, time.to_le_bytes());
        }
        self.room -= 1;
        if self.data.len() >= CHUNK_BYTES {
            self.hand_over();
        }
    }

    /// Closes a record that was noted: headers count as bytes, too.
    fn finish_noted(&mut self, key_end: usize, time: i64) {
        self.finish_record(key_end, time);
        if self.meta.as_ref().is_some_and(|meta| meta.bytes() >= CHUNK_BYTES) {
            self.hand_over();
        }
    }

    /// Records of the batch.
    fn count(&self) -> usize {
        self.times.len() / 8
    }

    /// Starts a batch, or makes it larger. False: nothing is taken any more.
    #[cold]
    fn make_room(&mut self) -> bool {
        if self.discard {
            return false;
        }
        let more = match self.index.is_empty() {
            true => {
                self.data.reserve(self.expected_bytes.min(CHUNK_BYTES));
                self.expected_records.max(4)
            }
            false => self.count().max(4),
        };
        self.index.reserve(4 + more * 8);
        self.times.reserve(more * 8);
        if self.index.is_empty() {
            self.index.extend_from_slice(&[0; 4]);
        }
        self.room = more;
        true
    }

    /// Gives the batch to the host and goes on with an empty one in the same memory.
    #[cold]
    fn hand_over(&mut self) {
        let batch = std::mem::replace(self, self.empty()).into_batch();
        self.host.emit(self.number, &batch);
        (self.data, self.index, self.times) = (batch.data, batch.index, batch.times);
        self.clear();
    }

    /// The same port without a batch.
    fn empty(&self) -> Port {
        Port { data: Vec::new(), index: Vec::new(), times: Vec::new(), meta: None, room: 0, host: self.host.clone(), ..*self }
    }

    /// Forgets the batch and keeps its memory.
    fn clear(&mut self) {
        self.data.clear();
        self.index.truncate(4);
        self.times.clear();
        self.meta = None;
        self.room = (self.index.capacity().saturating_sub(4) / 8).min(self.times.capacity() / 8);
    }

    /// The batch. An empty one needs no offset.
    fn into_batch(self) -> types::Batch {
        let count = self.count();
        let aux = self.meta.map_or(Vec::new(), |meta| meta.encode(count));
        types::Batch { count: count as u32, data: self.data, index: self.index, times: self.times, aux }
    }
}

/// Appends a word.
///
/// # Safety
/// There must be capacity for it.
#[inline]
#[allow(unsafe_code, reason = "see its caller")]
unsafe fn append_in_room(to: &mut Vec<u8>, word: [u8; 8]) {
    debug_assert!(to.capacity() - to.len() >= 8, "a port that has room has it in both columns");
    // SAFETY: the caller's promise is that these eight bytes lie in the vector's own memory; they are written before they count.
    unsafe {
        to.as_mut_ptr().add(to.len()).cast::<[u8; 8]>().write_unaligned(word);
        to.set_len(to.len() + 8);
    }
}

/// The place in a batch where a key or value is being written. Writing never fails.
#[derive(Debug)]
pub struct Bytes<'a>(&'a mut Vec<u8>);

impl Bytes<'_> {
    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        append(self.0, bytes);
    }

    /// Appends one byte.
    #[inline]
    pub fn push_byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Appends an integer in decimal digits; faster than `write!`.
    #[inline]
    pub fn push_int(&mut self, number: i64) {
        // The magnitude of i64::MIN has 19 digits.
        let (mut digits, mut at, mut rest) = ([0u8; 20], 20, number.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        self.push(&digits[at..]);
    }

    /// Appends bytes, each changed by `change`: for transforms that keep the length. `change` may be asked of a byte twice.
    #[inline]
    pub fn push_mapped(&mut self, bytes: &[u8], change: impl Fn(u8) -> u8) {
        let mut room = Room::of(self.0, bytes.len());
        let (blocks, rest) = bytes.as_chunks::<64>();
        for block in blocks {
            let block = changed(block, &change);
            room.write_ends(block.len(), &block, &block);
        }
        match rest.len() {
            32.. => room.append_changed::<32>(rest, &change),
            16..32 => room.append_changed::<16>(rest, &change),
            8..16 => room.append_changed::<8>(rest, &change),
            _ => rest.iter().for_each(|&byte| room.append_ends::<1>(&[change(byte)])),
        }
    }
}

/// Appends bytes. A copy of unknown length is a call out of Wasm, which costs more than a short copy itself; and each turn of a
/// loop pays for a check of the call limit. So short ones are two copies of known length, that overlap.
#[inline]
fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() > 256 {
        return to.extend_from_slice(bytes);
    }
    let mut room = Room::of(to, bytes.len());
    match bytes.len() {
        0 => {}
        1..2 => room.append_ends::<1>(bytes),
        2..4 => room.append_ends::<2>(bytes),
        4..8 => room.append_ends::<4>(bytes),
        8..16 => room.append_ends::<8>(bytes),
        16..32 => room.append_ends::<16>(bytes),
        32..64 => room.append_ends::<32>(bytes),
        64..=128 => room.append_ends::<64>(bytes),
        _ => room.append_ends::<128>(bytes),
    }
}

/// A vector with room for what is appended: it is made once, and never where values would have to wait in memory for it.
struct Room<'a> {
    to: &'a mut Vec<u8>,
    /// Bytes that may still be appended.
    left: usize,
}

impl<'a> Room<'a> {
    #[inline(always)]
    fn of(to: &'a mut Vec<u8>, bytes: usize) -> Self {
        to.reserve(bytes);
        Room { to, left: bytes }
    }

    /// Appends `N` to `2 * N` bytes.
    #[inline(always)]
    fn append_ends<const N: usize>(&mut self, bytes: &[u8]) {
        let (first, last) = ends::<N>(bytes);
        self.write_ends(bytes.len(), first, last);
    }

    /// The same, each byte changed.
    #[inline(always)]
    fn append_changed<const N: usize>(&mut self, bytes: &[u8], change: &impl Fn(u8) -> u8) {
        let (first, last) = ends::<N>(bytes);
        self.write_ends(bytes.len(), &changed(first, change), &changed(last, change));
    }

    /// Appends `length` bytes, of which these are the first `N` and the last `N`; they overlap, or meet.
    #[inline(always)]
    #[allow(unsafe_code, reason = "a checked append of each block costs as much as the copy")]
    fn write_ends<const N: usize>(&mut self, length: usize, first: &[u8; N], last: &[u8; N]) {
        // They cost nothing where the compiler knows the length, and say no numbers, which would have to lie in memory for it.
        assert!((N..=2 * N).contains(&length), "two ends are all of the bytes");
        assert!(length <= self.left, "there is room for the bytes");
        self.left -= length;
        // SAFETY: `Room::of` has reserved what is left, and more than that is refused above, so that `length` bytes behind the ones
        // that are there are the vector's own. Of these, the blocks are the first `N` and the last `N`, which are all of them, as
        // `length` is `2 * N` at most. What is read is not in `to`, which is borrowed mutably.
        unsafe {
            let room = self.to.as_mut_ptr().add(self.to.len());
            room.cast::<[u8; N]>().write_unaligned(*first);
            room.add(length - N).cast::<[u8; N]>().write_unaligned(*last);
            self.to.set_len(self.to.len() + length);
        }
    }
}

/// The first `N` and the last `N` bytes of some that are `N` to `2 * N` of them.
#[inline(always)]
fn ends<const N: usize>(bytes: &[u8]) -> (&[u8; N], &[u8; N]) {
    match (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        (Some(first), Some(last)) => (first, last),
        _ => unreachable!("the bytes are fewer than a block"),
    }
}

/// Each byte of a block changed. Always in line: as a call, the block would go through memory.
#[inline(always)]
fn changed<const N: usize>(block: &[u8; N], change: &impl Fn(u8) -> u8) -> [u8; N] {
    let mut changed = *block;
    for byte in &mut changed {
        *byte = change(*byte);
    }
    changed
}

impl fmt::Write for Bytes<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl io::Write for Bytes<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::meta::HeaderList;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for number in [0, 7, -7, 10, 1234567890, i64::MAX, i64::MIN] {
            let mut text = Vec::new();
            Bytes(&mut text).push_int(number);
            assert_eq!(text, number.to_string().as_bytes());
        }
    }

    #[test]
    fn copies_of_every_length_are_right() {
        let bytes: Vec<u8> = (0..600u32).map(|i| i as u8).collect();
        for length in 0..=bytes.len() {
            let mut to = b"before".to_vec();
            append(&mut to, &bytes[..length]);
            assert_eq!(to, [b"before", &bytes[..length]].concat());
            Bytes(&mut to).push_mapped(&bytes[..length], |byte| !byte);
            let mapped: Vec<u8> = bytes[..length].iter().map(|byte| !byte).collect();
            assert_eq!(to, [b"before", &bytes[..length], &mapped].concat());
        }
    }

    #[test]
    fn a_large_output_is_handed_over_in_chunks_and_nothing_is_lost() {
        let host = Host::recording();
        let mut out = Output::new(1, 10, 100, &host);
        let value = vec![b'x'; 1000];
        for i in 0..1000i64 {
            out.emit_with(i.to_string(), i, |bytes| bytes.push(&value));
            out.side(0).emit("", i.to_string(), i);
        }
        let rest = out.finish(Vec::new());
        let chunks = host.take_emitted();
        assert!(chunks.iter().all(|(port, chunk)| *port == 0 && chunk.data.len() < CHUNK_BYTES + 2000));
        let mut times = Vec::new();
        for chunk in chunks.iter().map(|(_, chunk)| chunk).chain([&rest.main]) {
            let batch = Batch::new(chunk, 0).expect("well formed");
            for record in batch.records() {
                assert_eq!((record.key(), record.value()), (record.time().to_string().as_bytes(), &value[..]));
                times.push(record.time());
            }
        }
        assert_eq!(times, (0..1000).collect::<Vec<i64>>());
        assert_eq!(rest.sides.len(), 1);
        assert_eq!((rest.sides[0].port, rest.sides[0].records.count), (0, 1000));
    }

    #[test]
    fn headers_alone_fill_a_chunk_and_stay_with_their_records() {
        let host = Host::recording();
        let mut out = Output::new(0, 10, 100, &host);
        let mut headers = HeaderList::new();
        headers.add("much", Some(vec![b'x'; 1000]));
        for i in 0..1000i64 {
            let headers = if i % 2 == 0 { headers.headers() } else { Headers::default() };
            let value = (i % 3 > 0).then_some(&b"v"[..]);
            out.emit_parts(RecordParts { key: None, value, time: i, headers });
        }
        let rest = out.finish(Vec::new());
        let chunks = host.take_emitted();
        assert!(chunks.len() == 1 && chunks[0].1.aux.len() < CHUNK_BYTES + 10_000, "{} chunks", chunks.len());
        let chunks: Vec<&types::Batch> = chunks.iter().map(|(_, chunk)| chunk).chain([&rest.main]).collect();
        let records = chunks.iter().flat_map(|chunk| Batch::new(chunk, 0).expect("well formed").records());
        let mut count = 0;
        for (i, record) in (0..).zip(records) {
            assert_eq!((record.time(), record.headers().count()), (i, usize::from(i % 2 == 0)));
            assert_eq!((record.key_or_null(), record.value_or_null().is_some()), (None, i % 3 > 0));
            count += 1;
        }
        assert_eq!(count, 1000);
    }

    #[test]
    fn what_is_passed_on_keeps_its_headers_and_nulls() {
        let host = Host::recording();
        let mut headers = HeaderList::new();
        headers.add("a", Some("1"));
        headers.add("b", None::<&str>);
        let mut first = Output::new(0, 1, 1, &host);
        first.emit("plain", "v", 0);
        first.emit_parts(RecordParts { key: Some(b""), value: None, time: 1, headers: headers.headers() });
        first.emit("plain", "w", 2);
        let input = first.finish(Vec::new()).main;
        let mut second = Output::new(0, 1, 1, &host);
        for record in Batch::new(&input, 0).expect("well formed").records() {
            second.forward(record);
            second.forward_with(record, |value| value.push(b"new"));
            second.emit_parts(RecordParts { headers: Headers::default(), ..record.parts() });
        }
        second.emit_null("gone", 9);
        second.emit_null("", 9);
        let output = second.finish(Vec::new()).main;
        let all: Vec<_> = Batch::new(&output, 0).expect("well formed").records().collect();
        let parts: Vec<_> = all.iter().map(Record::parts).collect();
        let given = RecordParts { key: Some(b""), value: None, time: 1, headers: headers.headers() };
        assert_eq!(parts[3], given);
        assert_eq!(parts[4], RecordParts { value: Some(b"new"), ..given });
        assert_eq!(parts[5], RecordParts { headers: Headers::default(), ..given });
        let deletion = RecordParts { key: Some(&b"gone"[..]), value: None, time: 9, headers: Headers::default() };
        assert_eq!(parts[9..], [deletion, RecordParts { key: None, ..deletion }]);
        let plain = RecordParts { key: Some(&b"plain"[..]), value: Some(b"v"), time: 0, headers: Headers::default() };
        assert_eq!(parts[..3], [plain, RecordParts { value: Some(b"new"), ..plain }, plain]);
        let mut plain = Output::new(0, 1, 1, &host);
        plain.forward(all[0]);
        assert_eq!(plain.finish(Vec::new()).main.aux, [], "of a batch with headers, a record without");
    }

    #[test]
    fn a_discarded_output_stays_empty() {
        let host = Host::recording();
        let mut out = Output::new(1, 10, 100, &host);
        out.emit("k", "v", 1);
        out.discard();
        out.emit("k", vec![0; CHUNK_BYTES], 2);
        out.side(0).emit("k", "v", 3);
        let rest = out.finish(Vec::new());
        assert_eq!((rest.main.count, rest.sides.len(), host.take_emitted().len()), (0, 0, 0));
    }
}
