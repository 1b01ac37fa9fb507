//! Batches and columns: foreign bytes are checked, records are what was pushed.

use super::*;
use crate::state::{key_group, key_hash, subtask_of_group};

/// A small generator (xorshift64*).
pub(super) fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
}

fn offsets(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What `check_index` must accept, said in another way.
fn is_index(values: &[u32], length: usize) -> bool {
    !values.is_empty()
        && values[0] == 0
        && values.windows(2).all(|pair| pair[0] <= pair[1])
        && values[values.len() - 1] as usize == length
}

#[test]
fn an_index_is_accepted_if_and_only_if_it_ascends_from_zero_to_the_end() {
    let mut seed = 7;
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut values: Vec<u32> = (0..random(&mut seed) % 12).map(|_| random(&mut seed) as u32 % 5).collect();
        // Most are sorted, or nothing would pass.
        if round % 4 != 0 {
            values.sort_unstable();
            values.first_mut().into_iter().for_each(|first| *first = 0);
        }
        let length = values.last().map_or(0, |last| *last as usize) + usize::from(round % 7 == 0);
        let checked = check_index("test", &offsets(&values), values.len(), length);
        assert_eq!(checked.is_ok(), is_index(&values, length), "{values:?} {length}: {checked:?}");
        accepted += usize::from(checked.is_ok());
    }
    assert!(accepted > 5_000, "{accepted} of 20,000 were accepted");
}

#[test]
fn an_index_fault_says_where() {
    for (values, entries, length, words) in [
        (&[0, 2][..], 3, 2, "the index has 8 bytes, 12 were expected"),
        (&[1, 2, 2], 3, 2, "the first offset is 1, not 0"),
        (&[0, 3, 2], 3, 2, "offset 2 is 2, below the one before it, 3"),
        (&[0, 1, 2], 3, 5, "the last offset is 2, but there are 5 bytes of data"),
        (&[0, u32::MAX, 2], 3, 2, "offset 2 is 2, below"),
    ] {
        let fault = check_index("x", &offsets(values), entries, length).expect_err("it is wrong").to_string();
        assert!(fault.starts_with("x: ") && fault.contains(words), "{fault}");
    }
}

#[test]
fn foreign_batches_keep_the_invariants_or_are_refused() {
    let index = offsets(&[0, 1, 3]);
    let ok = |count, data: &[u8], index: &[u8], times: usize, aux: &[u8]| {
        RecordBatch::from_parts(count, data.to_vec(), index.to_vec(), vec![0; times], aux.to_vec()).is_ok()
    };
    assert!(ok(1, b"abc", &index, 8, &[]));
    assert!(ok(0, b"", &[], 0, &[]), "an empty batch may leave its index out");
    assert!(ok(0, b"", &offsets(&[0]), 0, &[]));
    assert!(!ok(0, b"x", &[], 0, &[]));
    assert!(!ok(1, b"abc", &index, 7, &[]));
    assert!(!ok(2, b"abc", &index, 16, &[]));
    assert!(!ok(u32::MAX, b"abc", &index, 8, &[]));
    assert!(ok(1, b"abc", &index, 8, &[9, 0, 2, 0, 0, 0, 1, 2]), "one block");
    assert!(ok(1, b"abc", &index, 8, &[9, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0]), "two empty blocks");
    assert!(!ok(1, b"abc", &index, 8, &[9, 0, 3, 0, 0, 0, 1, 2]), "a block longer than what is left");
    assert!(!ok(1, b"abc", &index, 8, &[9, 0, 3]), "a head cut off");
    assert!(!ok(1, b"abc", &index, 8, &[9, 0, 255, 255, 255, 255]), "a length past everything");
}

#[test]
fn cells_that_take_no_value_have_none() {
    let cells = |ops: &[u8], ends: &[u32], data: &[u8]| {
        let index = [&[0], ends].concat();
        Cells::from_parts(ops.to_vec(), data.to_vec(), offsets(&index))
    };
    assert!(cells(&[0, 1, 2, 1], &[0, 2, 2, 2], b"ab").is_ok());
    for (ops, ends, words) in [
        (&[0][..], &[1][..], "cell 0 has operation 0, which takes no value"),
        (&[1, 2], &[0, 1], "cell 1 has operation 2"),
        (&[3], &[1], "operation 3 is none of 0, 1, 2"),
        (&[1, 1], &[1], "2 operations for 1 values"),
    ] {
        let fault = cells(ops, ends, b"a").expect_err("it is wrong").to_string();
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn cutting_and_joining_give_the_batch_back() {
    let mut seed = 3;
    for _ in 0..200 {
        let mut batch = RecordBatch::new();
        for i in 0..random(&mut seed) % 20 {
            let key = vec![b'k'; random(&mut seed) as usize % 4];
            let value = vec![i as u8; random(&mut seed) as usize % 4];
            batch.push(&key, &value, random(&mut seed) as i64);
        }
        let at = random(&mut seed) as usize % (batch.len() + 1);
        let mut joined = batch.slice(0, at);
        joined.append(&batch.slice(at, batch.len() - at));
        assert_eq!(joined, batch);
        let (even, odd) = (batch.filter(|i| i % 2 == 0), batch.filter(|i| i % 2 == 1));
        assert_eq!(even.len() + odd.len(), batch.len());
        let (data, index, times, aux) = (batch.data(), batch.index(), batch.times(), batch.aux());
        let parts = RecordBatch::from_parts(batch.len() as u32, data.into(), index.into(), times.into(), aux.into());
        assert_eq!(parts, Ok(batch));
    }
}

#[test]
fn a_split_gives_each_subtask_its_records_in_order_with_the_hashes_of_their_keys() {
    let mut seed = 5;
    for round in 0..200 {
        let mut batch = RecordBatch::new();
        for i in 0..random(&mut seed) % 300 {
            let key = (random(&mut seed) % 40).to_string();
            batch.push(key.as_bytes(), &vec![i as u8; random(&mut seed) as usize % 200], random(&mut seed) as i64);
        }
        let parallelism = 1 + round % 9;
        let owner = |i| subtask_of_group(key_group(key_hash(batch.key(i))), parallelism);
        let parts = batch.split_by_key(parallelism);
        assert_eq!(parts.len(), parallelism as usize);
        for (subtask, part) in (0..).zip(&parts) {
            assert_eq!(*part, batch.filter(|i| owner(i) == subtask), "subtask {subtask} of {parallelism}");
            let hashes: Vec<u64> = (0..part.len()).map(|i| key_hash(part.key(i))).collect();
            assert_eq!(part.key_hashes(), Some(&hashes[..]));
        }
    }
}

#[test]
fn hashes_are_never_those_of_other_keys() {
    let mut batch = RecordBatch::new();
    batch.push(b"a", b"1", 0);
    assert_eq!(batch.key_hashes(), None, "nobody has computed them");
    let mut part = batch.split_by_key(1).remove(0);
    assert_eq!(part.key_hashes(), Some(&[key_hash(b"a")][..]));
    for derived in [part.filter(|_| true), part.slice(0, 1)] {
        assert!(derived.key_hashes().is_none_or(|hashes| *hashes == [key_hash(b"a")]));
    }
    let mut joined = part.clone();
    joined.append(&batch);
    assert_eq!(joined.key_hashes(), None, "a record came without one");
    part.push(b"b", b"2", 0);
    assert_eq!(part.key_hashes(), None, "a record came without one");
    part.clear();
    part.push(b"b", b"2", 0);
    assert_eq!(part.key_hashes(), None, "the records are others");
}
