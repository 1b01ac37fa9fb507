//! Channels: order, bounds, blocking, cancellation, and where records go.

use super::*;
use crate::graph::Partition;
use std::time::Duration;
use weir_plugin::batch::RecordBatch;
use weir_plugin::state::{key_group, key_hash, subtask_of_group};
use weir_protocol::{CheckpointId, Generation};

const LONG: Duration = Duration::from_secs(20);

fn batch(keys: &[&str]) -> Batch {
    let mut records = RecordBatch::new();
    for (i, key) in keys.iter().enumerate() {
        records.push(key.as_bytes(), b"value", i as i64);
    }
    Batch { records, provenance: Provenance::default() }
}

fn idle() -> Result<bool, Cancelled> {
    Ok(false)
}

fn keys_in(gate: &InputGate<()>) -> Vec<String> {
    let mut keys = Vec::new();
    while let Received::Element { element: StreamElement::Batch(batch), .. } = gate.receive(Duration::ZERO).unwrap() {
        keys.extend((0..batch.records.len()).map(|i| String::from_utf8(batch.records.key(i).to_vec()).unwrap()));
    }
    keys
}

#[test]
fn a_channel_keeps_the_order() {
    let (gate, writers, _control) = input_gate::<()>(1);
    for key in ["a", "b", "c"] {
        writers[0].send(StreamElement::Batch(batch(&[key])), idle).unwrap();
    }
    assert_eq!(keys_in(&gate), ["a", "b", "c"]);
}

#[test]
fn a_blocked_channel_gives_nothing_and_the_others_go_on() {
    let (gate, writers, _control) = input_gate::<()>(2);
    writers[0].send(StreamElement::Batch(batch(&["a"])), idle).unwrap();
    writers[1].send(StreamElement::Batch(batch(&["b"])), idle).unwrap();
    gate.block(0);
    assert_eq!(keys_in(&gate), ["b"]);
    gate.unblock_all();
    assert_eq!(keys_in(&gate), ["a"]);
}

#[test]
fn a_full_channel_makes_its_writer_wait_and_sweep() {
    let (gate, mut writers, _control) = input_gate::<()>(1);
    let writer = writers.remove(0);
    let mut big = RecordBatch::new();
    big.push(b"k", &vec![0; CHANNEL_BYTES_MAX], 0);
    let element = || StreamElement::Batch(Batch { records: big.clone(), provenance: Provenance::default() });
    assert!(!writer.send(element(), idle).unwrap(), "the first one finds room");
    let mut sweeps = 0;
    let waited = writer.send(element(), || {
        sweeps += 1;
        // Room appears while the writer is blocked.
        if sweeps == 3 {
            gate.receive(Duration::ZERO)?;
        }
        Ok::<bool, Cancelled>(sweeps < 3)
    });
    assert_eq!((waited, sweeps), (Ok(true), 3));
}

#[test]
fn a_cancel_ends_both_sides() {
    let (gate, mut writers, control) = input_gate::<()>(1);
    let writer = writers.remove(0);
    let reader = std::thread::spawn(move || gate.receive(LONG).err());
    control.cancel();
    assert_eq!(reader.join().unwrap(), Some(Cancelled));
    assert_eq!(writer.send(StreamElement::EndOfData, idle), Err(Cancelled));
}

#[test]
fn control_overtakes_elements() {
    let (gate, writers, control) = input_gate::<u8>(1);
    writers[0].send(StreamElement::EndOfData, idle).unwrap();
    control.send(7);
    assert!(matches!(gate.receive(LONG), Ok(Received::Control(7))));
    assert!(matches!(gate.receive(LONG), Ok(Received::Element { channel: 0, element: StreamElement::EndOfData })));
    assert!(matches!(gate.receive(Duration::ZERO), Ok(Received::Timeout)));
}

#[test]
fn a_reader_that_waits_gets_what_comes_at_any_moment() {
    let (gate, writers, control) = input_gate::<u8>(1);
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        loop {
            match gate.receive(LONG) {
                Ok(Received::Element { element: StreamElement::Batch(batch), .. }) => got.push(batch.records.time(0)),
                Ok(Received::Element { element: StreamElement::EndOfInput, .. }) => return got,
                other => panic!("{other:?}"),
            }
        }
    });
    let begun = std::time::Instant::now();
    for i in 0..50 {
        let mut records = RecordBatch::new();
        records.push(b"k", b"v", i);
        writers[0].send(StreamElement::Batch(Batch { records, provenance: Provenance::default() }), idle).unwrap();
        // At its first moment of waiting, later in it, and after it.
        std::thread::park_timeout(Duration::from_micros(40 * i as u64));
    }
    writers[0].send(StreamElement::EndOfInput, idle).unwrap();
    assert_eq!(reader.join().unwrap(), (0..50).collect::<Vec<_>>());
    assert!(begun.elapsed() < LONG, "nothing waited for the end of the reader's patience");
    control.cancel();
}

#[test]
fn a_reader_without_input_gives_up_in_time() {
    let (gate, _writers, _control) = input_gate::<()>(1);
    for wait in [Duration::from_micros(50), Duration::from_millis(20)] {
        let begun = std::time::Instant::now();
        assert!(matches!(gate.receive(wait), Ok(Received::Timeout)));
        assert!(begun.elapsed() >= wait);
    }
}

/// Sends one batch of keys through an output gate with `readers` readers and returns what each got.
fn spread(partition: Partition, readers: usize, batches: &[&[&str]]) -> Vec<Vec<String>> {
    let gates: Vec<_> = (0..readers).map(|_| input_gate::<()>(1)).collect();
    let (mut inputs, mut writers) = (Vec::new(), Vec::new());
    for (gate, mut own, _) in gates {
        inputs.push(gate);
        writers.append(&mut own);
    }
    let mut output = OutputGate::new(writers, partition, 0);
    for keys in batches {
        output.send_batch(batch(keys), idle).unwrap();
    }
    inputs.iter().map(keys_in).collect()
}

#[test]
fn rebalance_takes_turns() {
    assert_eq!(spread(Partition::Rebalance, 2, &[&["a"], &["b"], &["c"]]), [vec!["a", "c"], vec!["b"]]);
}

#[test]
fn broadcast_reaches_all() {
    assert_eq!(spread(Partition::Broadcast, 2, &[&["a", "b"]]), [["a", "b"], ["a", "b"]]);
}

#[test]
fn a_key_goes_to_the_owner_of_its_group() {
    let names: Vec<String> = (0..100).map(|i| format!("key-{i}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    for (reader, got) in spread(Partition::Key, 3, &[&keys]).into_iter().enumerate() {
        let owned: Vec<&str> = keys
            .iter()
            .copied()
            .filter(|key| subtask_of_group(key_group(key_hash(key.as_bytes())), 3) == reader as u32)
            .collect();
        assert_eq!(got, owned, "reader {reader}, in order");
    }
}

#[test]
fn barriers_reach_every_reader() {
    let (gate, writers, _control) = input_gate::<()>(2);
    let output = OutputGate::new(writers, Partition::Key, 0);
    let id = CheckpointId::new(Generation(1), 1);
    output.send_to_all(StreamElement::Barrier(id), idle).unwrap();
    for _ in 0..2 {
        assert!(matches!(gate.receive(LONG), Ok(Received::Element { element: StreamElement::Barrier(got), .. }) if got == id));
    }
}

#[test]
fn provenance_of_lines_is_exact() {
    let mut records = RecordBatch::new();
    for line in ["one", "", "three"] {
        records.push(b"", line.as_bytes(), 0);
    }
    let span = SourceSpan { source: 0, split: 2, first: 100, last: 105 };
    let exact = Provenance::of_source(span, PositionStep::Bytes { separator: 1 });
    let at = |p: &Provenance, i| p.of_record(&records, i).iter().map(|s| (s.first, s.last)).collect::<Vec<_>>();
    assert_eq!([at(&exact, 0), at(&exact, 1), at(&exact, 2)], [[(100, 100)], [(104, 104)], [(105, 105)]]);
    assert_eq!(at(&exact.derived(), 1), [(100, 105)], "after an operator only the range is known");
}

#[test]
fn provenance_merges_to_the_smallest_range_of_each_split() {
    let of = |split, first, last| Provenance::of_source(SourceSpan { source: 0, split, first, last }, PositionStep::One);
    let mut all = of(1, 5, 9);
    all.merge(&of(0, 1, 1));
    all.merge(&of(1, 2, 3));
    let got: Vec<_> = all.spans.iter().map(|s| (s.split, s.first, s.last)).collect();
    assert_eq!((got, all.step), (vec![(0, 1, 1), (1, 2, 9)], PositionStep::Unknown));
}
