//! Timers over a real backend: what fires, in which order, and what a restore finds.

use super::*;
use crate::state::{BackendKind, CheckpointedBackend, LocalSnapshot, RestoredState, open_backend};
use std::path::Path;
use std::sync::mpsc::channel;
use weir_protocol::{CheckpointId, Generation};

fn open(kind: BackendKind, folder: &Path, name: &str, restored: Option<RestoredState>) -> Box<dyn CheckpointedBackend> {
    open_backend(kind, folder.join(name), format!("{name}-op-0"), 8 << 20, restored).expect("a backend opens")
}

fn change(op: TimerOp, kind: TimerKind, timers: &[(&str, i64, &str)]) -> TimerChange {
    let mut batch = RecordBatch::new();
    timers.iter().for_each(|(key, time, payload)| batch.push(key.as_bytes(), payload.as_bytes(), *time));
    TimerChange { op, kind, timers: batch }
}

fn clocks(watermark: i64, processing: i64) -> TimerClocks {
    TimerClocks { watermark, processing }
}

/// Fires all that is due, as `key time payload`; `more`: what each call sets.
fn fire(timers: &mut Timers, backend: &mut dyn KeyedStateBackend, clocks: TimerClocks, more: &[TimerChange]) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(fired) = timers.take_due(clocks).expect("they end") {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let due = &fired.due;
        told.extend((0..due.len()).map(|i| format!("{} {} {}", text(due.key(i)), due.time(i), text(due.value(i)))));
        timers.apply(Some(&fired), if told.len() == due.len() { more } else { &[] }, backend).expect("they are kept");
    }
    told
}

fn frozen(backend: &mut dyn CheckpointedBackend) -> RestoredState {
    let (sender, receiver) = channel();
    let done = Box::new(move |result: Result<LocalSnapshot, StateError>| sender.send(result).expect("somebody waits"));
    backend.freeze(CheckpointId::new(Generation(1), 1), done).expect("it freezes");
    while backend.sweep().expect("it sweeps") {}
    let snapshot = receiver.recv().expect("it answers").expect("it is linked");
    RestoredState { base: snapshot.base, deltas: snapshot.deltas }
}

const BOTH: [BackendKind; 2] = [BackendKind::Memory, BackendKind::Rocks];

#[test]
fn they_fire_in_order_once_for_each_registration_and_survive_a_restore() {
    for kind in BOTH {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut backend = open(kind, folder.path(), "1", None);
        let mut timers = Timers::default();
        let event = |op, all: &[_]| change(op, TimerKind::EventTime, all);
        let set = [
            event(TimerOp::Register, &[("b", 10, ""), ("a", 10, "x"), ("a", 10, ""), ("a", 30, ""), ("b", 10, "")]),
            event(TimerOp::Register, &[("c", 20, ""), ("d", i64::MIN, ""), ("d", i64::MAX, "")]),
            event(TimerOp::Delete, &[("c", 20, ""), ("c", 99, "")]),
            change(TimerOp::Register, TimerKind::ProcessingTime, &[("a", 10, "wall")]),
        ];
        timers.apply(None, &set, &mut *backend).expect("they are kept");
        assert_eq!(fire(&mut timers, &mut *backend, clocks(5, 0), &[]), ["d -9223372036854775808 "]);
        // One that is set again by what it fires fires again.
        let again = [event(TimerOp::Register, &[("b", 10, "")])];
        assert_eq!(fire(&mut timers, &mut *backend, clocks(10, 0), &again), ["a 10 ", "a 10 x", "b 10 ", "b 10 "]);
        assert_eq!(fire(&mut timers, &mut *backend, clocks(10, 0), &[]), [""; 0]);

        let restored = frozen(&mut *backend);
        let mut backend = open(kind, folder.path(), "2", Some(restored));
        let mut timers = Timers::restored(&mut *backend).expect("they are read");
        assert_eq!(fire(&mut timers, &mut *backend, clocks(29, 10), &[]), ["a 10 wall"]);
        assert_eq!(fire(&mut timers, &mut *backend, clocks(i64::MAX - 1, 10), &[]), ["a 30 "]);
        assert_eq!(fire(&mut timers, &mut *backend, clocks(i64::MAX, 10), &[]), ["d 9223372036854775807 "]);
        assert_eq!(
            backend.scan_keys(&[TIMERS_STATE], None, 10).expect("it scans"),
            Vec::<Vec<u8>>::new(),
            "nothing is left behind"
        );
    }
}

#[test]
fn thousands_of_timers_are_restored_in_pages_and_fired_in_batches() {
    for kind in BOTH {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut backend = open(kind, folder.path(), "1", None);
        let mut timers = Timers::default();
        for part in 0..10 {
            let mut batch = RecordBatch::new();
            (0..1_000).for_each(|i| {
                batch.push(format!("k{}", i * 7 % 2_500).as_bytes(), b"", i64::from((part * 1_000 + i) * 7919 % 10_007))
            });
            let set = TimerChange { op: TimerOp::Register, kind: TimerKind::EventTime, timers: batch };
            timers.apply(None, &[set], &mut *backend).expect("they are kept");
        }
        let restored = frozen(&mut *backend);
        let mut backend = open(kind, folder.path(), "2", Some(restored));
        let mut timers = Timers::restored(&mut *backend).expect("they are read");
        let mut last = i64::MIN;
        let mut count = 0;
        while let Some(fired) = timers.take_due(clocks(i64::MAX, 0)).expect("they end") {
            for i in 0..fired.due.len() {
                assert!(fired.due.time(i) >= last);
                last = fired.due.time(i);
            }
            count += fired.due.len();
            timers.apply(Some(&fired), &[], &mut *backend).expect("they are kept");
        }
        assert_eq!(count, 10_000);
    }
}

#[test]
fn what_has_no_end_or_no_bound_is_the_plugins_fault() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut backend = open(BackendKind::Memory, folder.path(), "1", None);
    let mut timers = Timers::default();
    let mut batch = RecordBatch::new();
    (0..=PER_KEY_MAX).for_each(|i| batch.push(b"k", b"", i as i64));
    let many = TimerChange { op: TimerOp::Register, kind: TimerKind::EventTime, timers: batch };
    let refused = timers.apply(None, &[many], &mut *backend);
    assert!(matches!(refused, Err(TimerFault::Plugin(why)) if why.contains("\"k\" has more than 10000 timers")));

    let mut timers = Timers::default();
    timers.apply(None, &[change(TimerOp::Register, TimerKind::EventTime, &[("e", 0, "")])], &mut *backend).expect("it is kept");
    let mut next = 0;
    let fault = loop {
        match timers.take_due(clocks(i64::MAX, 0)) {
            Ok(Some(fired)) => {
                // A thousand more with each call, so that the test ends soon.
                let mut batch = RecordBatch::new();
                (0..1_000).for_each(|i| batch.push(format!("e{i}").as_bytes(), b"", next));
                next += 1;
                let set = TimerChange { op: TimerOp::Register, kind: TimerKind::EventTime, timers: batch };
                timers.apply(Some(&fired), &[set], &mut *backend).expect("they are kept");
            }
            Ok(None) => panic!("they go on for ever"),
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, TimerFault::Plugin(why) if why.contains("must have an end")));
}

#[test]
fn noise_in_a_cell_is_no_timer() {
    assert_eq!(decode(&[]), Some(vec![]));
    for noise in [&[7][..], &[0, 1, 2], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1]] {
        assert_eq!(decode(noise), None, "{noise:?}");
    }
}
