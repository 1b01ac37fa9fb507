//! Connector `sequence`: a generator of records that depend on nothing but their number.
//!
//! Record i has the 8-byte little-endian key [`key_number`], a printable value ([`write_value`]) and the event time i ms.
//! The numbers are cut into a fixed count of ranges, one split each, so that any parallelism can own them.

use super::{Budget, ConnectorError, Source, SourceConnector, SourcePoll, SourceTask, SplitState};
use crate::channel::{PositionStep, Provenance, SourceSpan};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use weir_plugin::batch::RecordBatch;

/// Splits, if there are as many records.
const SPLITS: u64 = 64;
/// Bytes of a key.
const KEY_BYTES: usize = 8;
/// Digits of the record number at the front of a value.
const DIGITS: usize = 20;
/// Letters of one draw.
const LETTERS: usize = 16;
/// One above what the lower eight digits can say.
const LOWER: u64 = 100_000_000;
/// Length of a value at most.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014); the finalizer of SplitMix64.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The pseudo-random number of record `i`: output i of SplitMix64 seeded with `seed`.
#[inline]
fn draw(seed: u64, i: u64) -> u64 {
    mix(seed.wrapping_add((i.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The key of record `i`, as a number below `keys`: the high half of the 128-bit product of `draw` and `keys`.
#[inline]
pub fn key_number(seed: u64, keys: u64, i: u64) -> u64 {
    ((u128::from(draw(seed, i)) * u128::from(keys)) >> 64) as u64
}

/// The last eight decimal digits of a number below 10⁸, most significant first. All halves of a step are computed in one word,
/// with multiplications for divisions: D. Lemire, "Converting integers to fix-digit representations quickly" (2021).
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    // Two numbers of four digits, then four of two, then eight of one, each in a part of its own.
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let high_twos = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = high_twos | (fours - 100 * high_twos) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - 10 * tens) << 8;
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Writes the value of record `i`, as long as `out`: i in decimal, padded with zeros on the left to 20 digits (the last ones,
/// if `out` is shorter), then letters `a` to `p` from the numbers [`draw`]n with seed i, sixteen of each: the lower halves of its
/// bytes, then the upper ones.
pub fn write_value(out: &mut [u8], i: u64) {
    let digits = twenty_digits(i);
    // Copies of known length are single moves; of unknown length they are calls.
    let Some((number, letters)) = out.split_first_chunk_mut::<DIGITS>() else {
        let skipped = DIGITS - out.len();
        return out.copy_from_slice(&digits[skipped..]);
    };
    *number = digits;
    let (whole, rest) = letters.as_chunks_mut();
    for (at, sixteen) in (0..).zip(whole.iter_mut()) {
        *sixteen = letters_of(i, at);
    }
    rest.copy_from_slice(&letters_of(i, whole.len() as u64)[..rest.len()]);
}

/// A number in decimal, padded with zeros on the left.
#[inline]
fn twenty_digits(number: u64) -> [u8; DIGITS] {
    let (low, rest) = (number % LOWER, number / LOWER);
    let mut digits = [0; DIGITS];
    digits[12..].copy_from_slice(&eight_digits(low as u32));
    digits[4..12].copy_from_slice(&eight_digits((rest % LOWER) as u32));
    digits[..4].copy_from_slice(&eight_digits((rest / LOWER) as u32)[4..]);
    digits
}

/// Letters of draw `at` of record `i`. Eight half bytes become eight letters in one step.
#[inline(always)]
fn letters_of(i: u64, at: u64) -> [u8; LETTERS] {
    let halves = draw(i, at);
    let lower = (halves & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161;
    let upper = (halves >> 4 & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161;
    (u128::from(upper) << 64 | u128::from(lower)).to_le_bytes()
}

/// A configured generator.
#[derive(Clone, Debug)]
pub(super) struct SequenceConnector {
    name: String,
    count: u64,
    shape: Shape,
}

impl SequenceConnector {
    /// Checks the settings.
    pub(super) fn new(name: &str, count: u64, keys: u64, value_bytes: usize, seed: u64) -> Result<Self, ConnectorError> {
        if keys == 0 {
            return Err(ConnectorError::permanent(format!("source {name}: keys = 0, but every record needs one: set 1 or more")));
        }
        if value_bytes > VALUE_BYTES_MAX {
            return Err(ConnectorError::permanent(format!(
                "source {name}: value_bytes = {value_bytes} is above {VALUE_BYTES_MAX}, the most that it makes"
            )));
        }
        if i64::try_from(count).is_err() {
            return Err(ConnectorError::permanent(format!("source {name}: count = {count} does not fit into event times")));
        }
        Ok(SequenceConnector { name: name.to_owned(), count, shape: Shape { seed, keys, value_bytes } })
    }
}

/// What the checkpoint keeps about a range of numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeDetail {
    /// One after the last number of the range.
    end: u64,
    /// `count` at the first start.
    count: u64,
}

impl SourceConnector for SequenceConnector {
    fn enumerate(&self) -> Result<Vec<SplitState>, ConnectorError> {
        let splits = self.count.min(SPLITS);
        // In 128 bits: count × 64 may pass 2⁶⁴.
        let bound = |split: u64| (u128::from(self.count) * u128::from(split) / u128::from(splits)) as u64;
        let state = |split: u64| {
            let (first, end) = (bound(split), bound(split + 1));
            let detail = serde_json::to_value(RangeDetail { end, count: self.count }).expect("numbers are always JSON");
            SplitState { split: format!("{first}..{end}"), position: first, ended: false, detail }
        };
        Ok((0..splits).map(state).collect())
    }

    fn open(&self, source: u16, splits: Vec<(u32, SplitState)>, _: SourceTask) -> Result<Box<dyn Source>, ConnectorError> {
        let mut ranges = Vec::with_capacity(splits.len());
        for (index, state) in splits {
            let detail: RangeDetail = serde_json::from_value(state.detail.clone()).map_err(|error| {
                ConnectorError::permanent(format!(
                    "source {}: the checkpoint's range {} can't be read: {error}",
                    self.name, state.split
                ))
            })?;
            if detail.count != self.count {
                return Err(ConnectorError::permanent(format!(
                    "source {}: count = {} in the job file, but {} at the first start, when the ranges were fixed: set it back, or start over with --fresh",
                    self.name, self.count, detail.count
                )));
            }
            ranges.push(Numbers { index, state, end: detail.end });
        }
        Ok(Box::new(Generator { source, shape: self.shape, ranges, next: 0 }))
    }
}

struct Numbers {
    index: u32,
    state: SplitState,
    end: u64,
}

struct Generator {
    source: u16,
    shape: Shape,
    ranges: Vec<Numbers>,
    /// The range that is given now; those before it have ended.
    next: usize,
}

/// What all records of a generator have in common.
#[derive(Clone, Copy, Debug)]
struct Shape {
    seed: u64,
    keys: u64,
    value_bytes: usize,
}

impl Shape {
    fn record_bytes(self) -> usize {
        KEY_BYTES + self.value_bytes
    }

    /// The records of these numbers. All are of one size, so the columns are written in place.
    fn batch(self, numbers: Range<u64>) -> RecordBatch {
        let (count, record_bytes) = ((numbers.end - numbers.start) as usize, self.record_bytes());
        let mut index = vec![0; count * 8 + 4];
        let (ends, last) = index.as_chunks_mut::<8>();
        for (at, pair) in ends.iter_mut().enumerate() {
            let start = (at * record_bytes) as u64;
            *pair = (start | (start + KEY_BYTES as u64) << 32).to_le_bytes();
        }
        last.copy_from_slice(&((count * record_bytes) as u32).to_le_bytes());
        let times = numbers.clone().flat_map(|i| (i as i64).to_le_bytes()).collect();
        let data = self.data(numbers);
        RecordBatch::from_parts(count as u32, data, index, times, Vec::new()).expect("the columns fit each other")
    }

    /// Keys and values.
    fn data(self, numbers: Range<u64>) -> Vec<u8> {
        #[cfg(target_arch = "x86_64")]
        {
            /// Four draws at a time.
            #[target_feature(enable = "avx2,bmi2")]
            fn with_avx2(shape: Shape, numbers: Range<u64>) -> Vec<u8> {
                shape.data_inline(numbers)
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
                // SAFETY: the processor has what the function needs.
                return unsafe { with_avx2(self, numbers) };
            }
        }
        self.data_inline(numbers)
    }

    #[inline(always)]
    fn data_inline(self, numbers: Range<u64>) -> Vec<u8> {
        let (count, record_bytes) = ((numbers.end - numbers.start) as usize, self.record_bytes());
        let Some(letters) = self.value_bytes.checked_sub(DIGITS) else {
            let mut data = vec![0; count * record_bytes];
            for (record, i) in data.chunks_exact_mut(record_bytes).zip(numbers) {
                let (key, value) = record.split_at_mut(KEY_BYTES);
                key.copy_from_slice(&key_number(self.seed, self.keys, i).to_le_bytes());
                write_value(value, i);
            }
            return data;
        };
        // Letters are written by sixteen; what is beyond a value's end is written over by the next record, or cut off.
        let room = KEY_BYTES + DIGITS + letters.next_multiple_of(LETTERS);
        let bytes = count * record_bytes;
        let mut data = Vec::with_capacity(bytes + LETTERS);
        let spare = data.spare_capacity_mut();
        // The upper twelve digits change with every hundred millionth record.
        let (mut upper, mut digits) = (numbers.start / LOWER, twenty_digits(numbers.start));
        for (at, i) in numbers.enumerate() {
            let (key, value) = spare[at * record_bytes..][..room].split_at_mut(KEY_BYTES);
            key.write_copy_of_slice(&key_number(self.seed, self.keys, i).to_le_bytes());
            if i / LOWER != upper {
                (upper, digits) = (i / LOWER, twenty_digits(i));
            }
            digits[12..].copy_from_slice(&eight_digits((i - upper * LOWER) as u32));
            let (number, letters) = value.split_at_mut(DIGITS);
            number.write_copy_of_slice(&digits);
            for (at, sixteen) in (0..).zip(letters.as_chunks_mut::<LETTERS>().0) {
                sixteen.write_copy_of_slice(&letters_of(i, at));
            }
        }
        // SAFETY: each record's turn has written all of its bytes, and there were `count` of them.
        unsafe { data.set_len(bytes) };
        data
    }
}

impl Source for Generator {
    fn poll(&mut self, budget: Budget) -> Result<SourcePoll, ConnectorError> {
        while self.ranges.get(self.next).is_some_and(|range| range.state.ended) {
            self.next += 1;
        }
        let Some(range) = self.ranges.get_mut(self.next) else { return Ok(SourcePoll::End) };
        let first = range.state.position;
        let most = (budget.bytes / self.shape.record_bytes()).clamp(1, budget.records) as u64;
        let end = range.end.min(first + most);
        let records = self.shape.batch(first..end);
        range.state.position = end;
        range.state.ended = end == range.end;
        let span = SourceSpan { source: self.source, split: range.index, first, last: end - 1 };
        Ok(SourcePoll::Batch { records, provenance: Provenance::of_source(span, PositionStep::One) })
    }

    fn positions(&self) -> Vec<(u32, SplitState)> {
        self.ranges.iter().map(|range| (range.index, range.state.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: SourceTask = SourceTask { subtask: 0, parallelism: 1 };

    fn connector(count: u64) -> SequenceConnector {
        SequenceConnector::new("numbers", count, 7, 24, 3).expect("valid settings")
    }

    fn read(source: &mut dyn Source, records: usize) -> Vec<(u64, i64, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            match source.poll(Budget { records, bytes: 1 << 18 }).expect("never fails") {
                SourcePoll::Batch { records, provenance } => {
                    for i in 0..records.len() {
                        let at = provenance.of_record(&records, i);
                        assert_eq!(at[0].first as i64, records.time(i), "position and time are the number");
                        let key = u64::from_le_bytes(records.key(i).try_into().expect("eight bytes"));
                        all.push((key, records.time(i), records.value(i).to_vec()));
                    }
                }
                SourcePoll::End => return all,
                SourcePoll::Pending(_) => panic!("a generator never waits"),
            }
        }
    }

    fn all_of(count: u64) -> Vec<(u32, SplitState)> {
        (0..).zip(connector(count).enumerate().expect("enumerated")).collect()
    }

    #[test]
    fn every_number_comes_once_whatever_the_count() {
        for count in [0, 1, 63, 64, 65, 1000] {
            let splits = all_of(count);
            let got = read(&mut *connector(count).open(0, splits, TASK).expect("opened"), 10);
            let times: Vec<i64> = got.iter().map(|record| record.1).collect();
            assert_eq!(times, (0..count as i64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn any_spread_of_splits_resumes_exactly() {
        let whole = read(&mut *connector(500).open(0, all_of(500), TASK).expect("opened"), 1000);
        for cut in [0, 1, 7, 8, 100, 499] {
            let mut source = connector(500).open(0, all_of(500), TASK).expect("opened");
            let mut got = Vec::new();
            while got.len() < cut {
                let SourcePoll::Batch { records, .. } = source.poll(Budget { records: 1, bytes: 1 }).expect("never fails") else {
                    panic!("there is more")
                };
                got.push(records.time(0));
            }
            let (odd, even): (Vec<_>, Vec<_>) = source.positions().into_iter().partition(|(index, _)| index % 2 == 1);
            for half in [odd, even] {
                got.extend(read(&mut *connector(500).open(0, half, TASK).expect("opened"), 3).iter().map(|record| record.1));
            }
            got.sort_unstable();
            assert_eq!(got, whole.iter().map(|record| record.1).collect::<Vec<_>>(), "cut at {cut}");
        }
    }

    #[test]
    fn a_batch_has_the_records_of_its_numbers_on_every_processor() {
        for value_bytes in [0, 1, 19, 20, 21, 35, 36, 37, 100] {
            let shape = Shape { seed: 3, keys: 7, value_bytes };
            for numbers in [0..5, 7..7, LOWER - 2..LOWER + 2, 123 * LOWER - 1..123 * LOWER + 1] {
                let mut expected = Vec::new();
                for i in numbers.clone() {
                    expected.extend(key_number(3, 7, i).to_le_bytes());
                    let mut value = vec![0; value_bytes];
                    write_value(&mut value, i);
                    expected.extend(value);
                }
                assert_eq!(shape.batch(numbers.clone()).data(), expected, "{value_bytes} bytes, {numbers:?}");
                assert_eq!(shape.data_inline(numbers), expected, "{value_bytes} bytes, without the processor's extras");
            }
        }
    }

    #[test]
    fn values_and_keys_are_what_the_docs_say() {
        let mut value = [0; 36];
        write_value(&mut value, 42);
        assert_eq!(&value[..20], b"00000000000000000042");
        let halves: Vec<u8> =
            [0, 4].iter().flat_map(|half| (0..8).map(move |at| (draw(42, 0) >> (8 * at + half) & 15) as u8)).collect();
        let letters: Vec<u8> = halves.iter().map(|half| b'a' + half).collect();
        assert_eq!(value[20..], letters);
        for i in [u64::MAX, 0, 9, 10, 99_999_999, 100_000_000, 12_345_678_901_234_567_890] {
            write_value(&mut value, i);
            assert_eq!(value[..20], *format!("{i:020}").as_bytes());
        }
        let mut short = [0; 3];
        write_value(&mut short, 12345);
        assert_eq!(&short, b"345");
        // The first outputs of SplitMix64 with seed 1234567, as its authors' reference code prints them.
        assert_eq!([draw(1234567, 0), draw(1234567, 1)], [6457827717110365317, 3203168211198807973]);
        let keys: std::collections::BTreeSet<u64> = (0..1000).map(|i| key_number(3, 7, i)).collect();
        assert_eq!(keys, (0..7).collect());
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(SequenceConnector::new("n", 1, 0, 8, 0).is_err());
        assert!(SequenceConnector::new("n", u64::MAX, 1, 8, 0).is_err());
        assert!(SequenceConnector::new("n", 1, 1, VALUE_BYTES_MAX + 1, 0).is_err());
        let Err(error) = connector(501).open(0, all_of(500), TASK) else { panic!("another count must be refused") };
        assert!(error.message.contains("501") && error.message.contains("500"), "{error}");
    }
}
