//! Timely dataflow as a peer: the records of Weir's `sequence` source on one worker in this thread, without checkpoints.
//!
//! It is the speed limit of a native dataflow: operators are calls of one binary, state is a hash map, nothing is made durable, and
//! on one worker an exchange passes its batches on.

use crate::{Cost, Window};
use foldhash::fast::FixedState;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::{Operator, source};
use timely::dataflow::operators::vec::{Filter, Map};
use timely::dataflow::{Scope, StreamVec};
use timely::worker::Worker;
use weir_bench_work::{mixed, passes};
use weir_host::connectors::sequence::{key_number, write_value};

/// 100 bytes. Timely asks serde of whatever may be exchanged, also where it never leaves the thread, and serde ends at 32 bytes.
type Value = [[u8; 25]; 4];
type Record = (u64, Value);
type Time = u64;

/// Records that the source gives at a time: few enough to stay in the second-level cache on their way through the operators.
const BATCH: u64 = 512;
const SEED: u64 = 7;

/// generate → map → filter → discard: the work of `guests/bench/map-filter`.
pub fn map_filter(window: Window) -> Cost {
    measure(window, |scope, progress| {
        generate(scope, 1_000_000, progress)
            .map_in_place(|(_, value)| {
                let value = value.as_flattened_mut();
                let mixed = mixed(value).expect("a value has 100 bytes");
                value[..8].copy_from_slice(&mixed);
            })
            .filter(|(_, value)| {
                let value = value.as_flattened();
                passes(*value.first_chunk().expect("a value has 100 bytes"), value)
            })
            .sink(Pipeline, "discard", |(input, _)| input.for_each_stamp(|_, batches| batches.for_each(Vec::clear)));
    })
}

/// generate → exchange by key → count in a hash map → discard.
pub fn keyed_count(keys: u64, window: Window) -> Cost {
    measure(window, move |scope, progress| {
        generate(scope, keys, progress)
            .unary(Exchange::new(|record: &Record| record.0), "count", |_, _| {
                let mut counts: HashMap<u64, u64, FixedState> = HashMap::default();
                move |input, output| {
                    input.for_each_stamp(|time, batches| {
                        let mut session = output.session(&time);
                        for (key, _) in batches.flat_map(|batch| batch.drain(..)) {
                            let count = counts.entry(key).or_default();
                            *count += 1;
                            session.give((key, *count));
                        }
                    });
                }
            })
            .container::<Vec<(u64, u64)>>()
            .sink(Pipeline, "discard", |(input, _)| input.for_each_stamp(|_, batches| batches.for_each(Vec::clear)));
    })
}

/// What the source and the measuring loop tell each other; both are on one thread.
#[derive(Default)]
struct Progress {
    /// Records given so far.
    given: Cell<u64>,
    /// Set at the end: the source then gives up its capability, and the dataflow completes.
    stop: Cell<bool>,
}

/// One batch and one step of time at each activation.
fn generate<'scope>(scope: Scope<'scope, Time>, keys: u64, progress: Rc<Progress>) -> StreamVec<'scope, Time, Record> {
    source(scope, "sequence", |capability, info| {
        let activator = scope.activator_for(info.address);
        let mut capability = Some(capability);
        let mut batch: Vec<Record> = Vec::new();
        move |output| {
            if progress.stop.get() {
                capability = None;
            }
            let Some(now) = capability.as_mut() else { return };
            let first = progress.given.get();
            // What was sent is replaced by whatever the receiver has left: nothing, or an empty batch to be used again.
            batch.clear();
            batch.reserve(BATCH as usize);
            for i in first..first + BATCH {
                let mut value = Value::default();
                write_value(value.as_flattened_mut(), i);
                batch.push((key_number(SEED, keys, i), value));
            }
            output.session(&*now).give_container(&mut batch);
            progress.given.set(first + BATCH);
            now.downgrade(&(first + BATCH));
            activator.activate();
        }
    })
}

/// Builds the dataflow, runs it through the window, and ends it.
fn measure(window: Window, build: impl FnOnce(Scope<'_, Time>, Rc<Progress>) + Send + Sync + 'static) -> Cost {
    timely::execute_directly(move |worker| {
        let progress = Rc::new(Progress::default());
        worker.dataflow::<Time, _, _>(|scope| build(scope, Rc::clone(&progress)));
        step_for(worker, window.warm);
        let (given, wall, cpu) = (progress.given.get(), Instant::now(), crate::cpu_now());
        step_for(worker, window.length);
        let cost = Cost { records: progress.given.get() - given, wall: wall.elapsed(), cpu: crate::cpu_now() - cpu };
        progress.stop.set(true);
        cost
    })
}

fn step_for(worker: &mut Worker, time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        worker.step();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_run_through_their_window_and_end() {
        let window = Window { warm: Duration::ZERO, length: Duration::from_millis(20) };
        for cost in [map_filter(window), keyed_count(100, window)] {
            assert!(cost.records >= BATCH && cost.wall >= window.length, "{cost:?}");
        }
    }
}
