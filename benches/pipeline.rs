//! Whole jobs, Wasm beside native in one run: source → map → discard, and the keyed count on both backends.
//!
//! A job runs without end; criterion's samples are stretches of it, so that start-up and new keys do not count. Criterion
//! reports the wall clock; the table at the end gives CPU seconds per million records, which hold on a noisy machine.

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_benches::{Cost, Flavor, LiveJob, Workload};

/// Records of one iteration.
const STRETCH: u64 = 1_000_000;

const fn keyed(backend: &'static str) -> Workload {
    Workload::KeyedCount { backend, keys: 2_000_000, interval_s: 10 }
}

/// Name, work, and the records after which it is in its steady state.
const WORKLOADS: &[(&str, Workload, u64)] = &[
    ("map + filter", Workload::MapFilter, 1_000_000),
    ("map, every byte", Workload::Map, 1_000_000),
    ("map, parse 3 fields, rewrite 1", Workload::RewriteField, 1_000_000),
    ("keyed count, 2 M keys, rocksdb", keyed("rocksdb"), 20_000_000),
    ("keyed count, 2 M keys, memory", keyed("memory"), 20_000_000),
];

/// What each bench has cost in all its stretches.
type Costs = BTreeMap<(usize, &'static str), Cost>;

fn pipeline(criterion: &mut Criterion) {
    let costs: RefCell<Costs> = RefCell::default();
    for (w, (name, workload, warm_up)) in WORKLOADS.iter().enumerate() {
        let mut group = criterion.benchmark_group(*name);
        group.throughput(Throughput::Elements(STRETCH)).sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(25));
        for (label, flavor) in [("wasm", Flavor::Wasm), ("native", Flavor::Native)] {
            let mut job: Option<LiveJob> = None;
            group.bench_function(label, |bencher| {
                bencher.iter_custom(|stretches| {
                    let job = job.get_or_insert_with(|| {
                        let mut job = LiveJob::start(*workload, flavor);
                        job.advance(*warm_up);
                        job
                    });
                    let cost = job.advance(stretches * STRETCH);
                    *costs.borrow_mut().entry((w, label)).or_default() += cost;
                    cost.wall.mul_f64((stretches * STRETCH) as f64 / cost.records as f64)
                });
            });
        }
        group.finish();
    }
    println!("\n{:<34} {:<7} {:>14} {:>22}", "workload", "by", "M records/s", "CPU s per M records");
    for (w, (name, ..)) in WORKLOADS.iter().enumerate() {
        let of = |label| costs.borrow().get(&(w, label)).copied();
        for label in ["wasm", "native"] {
            if let Some(cost) = of(label) {
                println!("{name:<34} {label:<7} {:>14.2} {:>22.3}", cost.rate(), cost.cpu_per_million());
            }
        }
        if let (Some(wasm), Some(native)) = (of("wasm"), of("native")) {
            println!("{name:<34} CPU of native / CPU of wasm: {:.2}", native.cpu_per_million() / wasm.cpu_per_million());
        }
    }
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
