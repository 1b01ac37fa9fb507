//! What records have beside their columns stays theirs, whatever is done to a batch; foreign blocks are checked.

use super::super::tests::random;
use super::*;
use crate::state::{key_group, key_hash, subtask_of_group};

/// A header: name and value.
type Header = (Vec<u8>, Option<Vec<u8>>);

/// A record, said plainly.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    time: i64,
    headers: Vec<Header>,
}

/// Random records. `rare`: of how many records one has something; 0: none has.
fn records(seed: &mut u64, rare: u64) -> Vec<Plain> {
    let count = random(seed) % 40;
    let bytes = |seed: &mut u64| vec![b'a' + (random(seed) % 20) as u8; (random(seed) % 6) as usize];
    let mut some = |_| {
        let has = |seed: &mut u64| rare > 0 && random(seed).is_multiple_of(rare);
        let (key, value) = (bytes(seed), bytes(seed));
        // Without marks an empty key is none.
        let key = if key.is_empty() && !has(seed) { None } else { Some(key) };
        let value = if has(seed) { None } else { Some(value) };
        let headers = if has(seed) { random(seed) % 4 } else { 0 };
        let value_of = |seed: &mut u64| (!random(seed).is_multiple_of(4)).then(|| bytes(seed));
        let headers = (0..headers).map(|_| (bytes(seed), value_of(seed))).collect();
        Plain { key, value, time: random(seed) as i64, headers }
    };
    (0..count).map(&mut some).collect()
}

fn pushed(records: &[Plain]) -> RecordBatch {
    let mut batch = RecordBatch::new();
    for Plain { key, value, time, headers } in records {
        batch.push_nullable(key.as_deref(), value.as_deref(), *time);
        headers.iter().for_each(|(name, value)| batch.push_header(name, value.as_deref()));
    }
    batch
}

fn plain(batch: &RecordBatch) -> Vec<Plain> {
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let headers = |i| batch.headers(i).map(|(name, value)| (name.to_vec(), owned(value))).collect();
    let one = |i| Plain {
        key: owned(batch.key_or_null(i)),
        value: owned(batch.value_or_null(i)),
        time: batch.time(i),
        headers: headers(i),
    };
    (0..batch.len()).map(one).collect()
}

fn again(batch: &RecordBatch, aux: Vec<u8>) -> Result<RecordBatch, Malformed> {
    let (data, index, times) = (batch.data().to_vec(), batch.index().to_vec(), batch.times().to_vec());
    RecordBatch::from_parts(batch.len() as u32, data, index, times, aux)
}

#[test]
fn what_records_have_stays_theirs() {
    let mut seed = 11;
    let mut with = 0;
    for round in 0..2_000 {
        let all = records(&mut seed, round % 5);
        let batch = pushed(&all);
        assert_eq!(plain(&batch), all);
        with += usize::from(!batch.aux().is_empty());
        if round % 5 == 0 {
            assert!(batch.meta.is_none() && batch.aux().is_empty(), "plain records have nothing beside");
        }
        assert_eq!(again(&batch, batch.aux().into_owned()).as_ref(), Ok(&batch), "across the boundary");

        let keep: Vec<bool> = all.iter().map(|_| random(&mut seed).is_multiple_of(2)).collect();
        let kept: Vec<Plain> = all.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(record, _)| record.clone()).collect();
        assert_eq!(plain(&batch.filter(|i| keep[i])), kept);

        let at = random(&mut seed) as usize % (all.len() + 1);
        let (mut front, back) = (batch.slice(0, at), batch.slice(at, all.len() - at));
        assert_eq!([plain(&front), plain(&back)], [all[..at].to_vec(), all[at..].to_vec()]);
        front.append(&back);
        assert_eq!(front, batch);
        let others = records(&mut seed, round % 3);
        front.append(&pushed(&others));
        assert_eq!(plain(&front), [&all[..], &others].concat());

        let parallelism = 1 + round as u32 % 5;
        let owner = |record: &&Plain| subtask_of_group(key_group(key_hash(record.key.as_deref().unwrap_or(b""))), parallelism);
        for (subtask, part) in (0..).zip(batch.split_by_key(parallelism)) {
            let own: Vec<Plain> = all.iter().filter(|record| owner(record) == subtask).cloned().collect();
            assert_eq!(plain(&part), own, "subtask {subtask} of {parallelism}");
            assert_eq!(again(&part, part.aux().into_owned()), Ok(part));
        }
    }
    assert!(with > 1_000, "{with} of 2,000 batches had something");
}

#[test]
fn batches_that_differ_in_it_alone_are_not_equal() {
    let mut batch = RecordBatch::new();
    batch.push_nullable(Some(b"k"), Some(b""), 1);
    let mut null = RecordBatch::new();
    null.push_nullable(Some(b"k"), None, 1);
    let mut header = batch.clone();
    header.push_header(b"a", None);
    assert_ne!(batch, null);
    assert_ne!(batch, header);
    assert_eq!(batch, again(&batch, vec![1, 0, 1, 0, 0, 0, 0]).expect("no mark"), "a block that says nothing is none");
    header.clear();
    header.push_nullable(Some(b"k"), Some(b""), 1);
    assert_eq!(batch, header);
}

#[test]
fn the_last_header_of_a_name_counts() {
    let mut batch = RecordBatch::new();
    batch.push(b"", b"", 0);
    for (name, value) in [("to", Some("a")), ("other", Some("x")), ("to", Some("b")), ("gone", None)] {
        batch.push_header(name.as_bytes(), value.map(str::as_bytes));
    }
    let headers = batch.headers(0);
    assert_eq!(headers.last_of(b"to"), Some(Some(&b"b"[..])));
    assert_eq!((headers.last_of(b"gone"), headers.last_of(b"t")), (Some(None), None));
}

/// The bytes that the contract's table shows.
#[test]
fn the_byte_form_is_that_of_the_contract() {
    let mut batch = RecordBatch::new();
    batch.push_nullable(Some(b""), None, 7);
    batch.push(b"k", b"v", 8);
    batch.push_header(b"to", Some(b"x"));
    batch.push_header(b"n", None);
    #[rustfmt::skip]
    let wanted = [
        1, 0, 2, 0, 0, 0, /* record 0 */ 3, /* record 1 */ 0,
        2, 0, 32, 0, 0, 0, /* offsets */ 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
        2, 0, 0, 0, b't', b'o', 1, 0, 0, 0, b'x', 1, 0, 0, 0, b'n', 0xff, 0xff, 0xff, 0xff,
    ];
    assert_eq!(batch.aux()[..], wanted);
}

#[test]
fn a_fault_of_foreign_blocks_is_told() {
    let mut batch = RecordBatch::new();
    batch.push(b"k", b"v", 0);
    batch.push(b"", b"", 0);
    let block = |tag: u8, body: &[u8]| [&[tag, 0][..], &(body.len() as u32).to_le_bytes(), body].concat();
    let headers = |ends: [u32; 3], body: &[u8]| {
        let index: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        block(2, &[&index, body].concat())
    };
    let name = |length: u32| [&length.to_le_bytes()[..], b"ab"].concat();
    for (aux, words) in [
        (block(1, &[0]), "marks (tag 1) has 1 bytes for 2 records"),
        (block(1, &[0, 4]), "marks record 1 with 0x04"),
        (block(1, &[1, 0]), "says that the key of record 0 has no bytes; it has 1"),
        (block(1, &[2, 0]), "says that the value of record 0 is null; it has 1 bytes"),
        ([block(1, &[0, 1]), block(1, &[0, 1])].concat(), "a second block of tag 1 at 8"),
        (block(2, &[0; 8]), "headers (tag 2) has 8 bytes, too few for the offsets of 2 records"),
        (headers([0, 1, 0], b""), "headers (tag 2): offset 2 is 0, below the one before it, 1"),
        (headers([0, 0, 3], &[0; 4]), "the last offset is 3, but there are 4 bytes"),
        (headers([0, 0, 6], &name(3)), "a header of record 1 ends inside its name"),
        (headers([0, 6, 6], &name(2)), "a header of record 0 ends inside its value"),
        (headers([0, 6, 6], &name(u32::MAX)), "a header of record 0 has a null name"),
        (vec![1, 0, 9], "aux ends inside the head of the block at 0"),
    ] {
        let fault = again(&batch, aux).expect_err(words).to_string();
        assert!(fault.contains(words), "{words}: {fault}");
    }
}

#[test]
fn damaged_blocks_are_refused_or_can_be_read() {
    let mut seed = 5;
    let (mut refused, mut read) = (0, 0);
    for _ in 0..20_000 {
        let batch = pushed(&records(&mut seed, 2));
        let mut aux = batch.aux().into_owned();
        if aux.is_empty() {
            continue;
        }
        let at = random(&mut seed) as usize % aux.len();
        aux[at] = random(&mut seed) as u8;
        match again(&batch, aux) {
            Ok(batch) => {
                plain(&batch);
                assert_eq!(again(&batch, batch.aux().into_owned()), Ok(batch));
                read += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000 && read > 1_000, "{refused} were refused, {read} were read");
}

#[test]
fn unknown_blocks_stay_with_their_batch() {
    let mut batch = RecordBatch::new();
    batch.push(b"k", b"v", 0);
    batch.push_header(b"a", Some(b"b"));
    let unknown = [9, 0, 2, 0, 0, 0, 1, 2];
    let with = again(&batch, [&unknown[..], &batch.aux()].concat()).expect("it is whole");
    assert!(with.has_foreign_aux() && with != batch);
    for derived in [with.filter(|_| true), with.slice(0, 1)] {
        assert_eq!(derived, with);
        assert!(derived.aux().ends_with(&unknown));
    }
    let mut joined = RecordBatch::new();
    joined.append(&with);
    assert_eq!([&joined, &with.split_by_key(1)[0]], [&batch; 2], "its records go on without them");
}
