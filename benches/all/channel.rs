//! What it costs to leave the thread: one channel between two threads, and an exchange by key.

use crate::group;
use criterion::Criterion;
use std::time::Duration;
use weir_benches::Cost;
use weir_benches::table::{Table, WEIR};
use weir_host::channel::{
    Batch, Cancelled, ChannelWriter, InputGate, OutputGate, Provenance, Received, StreamElement, input_gate,
};
use weir_host::graph::Partition;
use weir_plugin::batch::RecordBatch;

const RECORDS: usize = 1024;
/// Batches under way between the two threads.
const UNDER_WAY: usize = 4;
const LONG: Duration = Duration::from_secs(60);

fn batch() -> Batch {
    let mut records = RecordBatch::new();
    for i in 0..RECORDS as u64 {
        records.push(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(), &[b'v'; 100], i as i64);
    }
    Batch { records, provenance: Provenance::default() }
}

fn idle() -> Result<bool, Cancelled> {
    Ok(false)
}

fn receive(gate: &InputGate<()>) -> Option<StreamElement> {
    match gate.receive(LONG) {
        Ok(Received::Element { element, .. }) => Some(element),
        Ok(Received::Control(())) | Ok(Received::Timeout) => panic!("a batch is under way"),
        Err(Cancelled) => None,
    }
}

/// Batches go round between two threads, so that none is made or dropped: what is measured is two channels.
pub fn channel(criterion: &mut Criterion, table: &mut Table) {
    let name = "channel, batches of 1024";
    let mut group = group(criterion, name, 2 * RECORDS, 2);
    let mut costs = Cost::default();
    group.bench_function(WEIR, |bencher| {
        let (there, there_writer, there_control) = input_gate::<()>(1);
        let (back, back_writer, _back_control) = input_gate::<()>(1);
        let echo = std::thread::spawn(move || {
            while let Some(element) = receive(&there) {
                back_writer[0].send(element, idle).expect("the other side still reads");
            }
        });
        let send = |writers: &[ChannelWriter<()>], element| {
            writers[0].send(element, idle).expect("the other side still reads");
        };
        (0..UNDER_WAY).for_each(|_| send(&there_writer, StreamElement::Batch(batch())));
        bencher.iter_custom(|rounds| {
            let cost = Cost::of(rounds * 2 * RECORDS as u64, || {
                for _ in 0..rounds {
                    let element = receive(&back).expect("nothing is cancelled here");
                    send(&there_writer, element);
                }
            });
            costs += cost;
            cost.wall
        });
        // All are back before the thread ends, which must not meet a closed channel with one in its hands.
        (0..UNDER_WAY).for_each(|_| drop(receive(&back)));
        there_control.cancel();
        echo.join().expect("the other thread ends");
    });
    group.finish();
    table.push_run(name, WEIR, costs);
}

/// Batches are spread over the subtasks of a reader by key; all in one thread.
pub fn exchange(criterion: &mut Criterion, table: &mut Table) {
    for readers in [2, 4, 8] {
        let name = format!("exchange by key, {readers} readers");
        let mut group = group(criterion, &name, RECORDS, 1);
        let mut costs = Cost::default();
        group.bench_function(WEIR, |bencher| {
            let (gates, writers): (Vec<_>, Vec<_>) = (0..readers)
                .map(|_| {
                    let (gate, mut writers, _control) = input_gate::<()>(1);
                    (gate, writers.remove(0))
                })
                .unzip();
            let (mut output, batch) = (OutputGate::new(writers, Partition::Key, 0), batch());
            bencher.iter_custom(|batches| {
                let before = costs;
                for _ in 0..batches {
                    // Sending takes it: the copy is none of the exchange's work.
                    let batch = batch.clone();
                    costs += Cost::of(RECORDS as u64, || {
                        output.send_batch(batch, idle).expect("nothing is cancelled here");
                        let parts = gates.iter().map(|gate| gate.receive(Duration::ZERO).expect("nothing is cancelled here"));
                        let got = parts.map(|part| match part {
                            Received::Element { element: StreamElement::Batch(batch), .. } => batch.records.len(),
                            _ => 0,
                        });
                        assert_eq!(got.sum::<usize>(), RECORDS);
                    });
                }
                costs.wall - before.wall
            });
        });
        group.finish();
        table.push_run(&name, WEIR, costs);
    }
}
