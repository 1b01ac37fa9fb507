//! Whole jobs, Wasm beside native in one run: source → map → discard, and the keyed count on both backends.
//!
//! Criterion reports the wall clock; the table at the end gives CPU seconds per million records, which hold on a noisy machine.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_benches::{Flavor, Workload, run};

/// Records of one job: enough for the start-up to weigh little.
const RECORDS: u64 = 4_000_000;

const WORKLOADS: &[(&str, Workload)] = &[
    ("map", Workload::Map),
    ("keyed count, 2 M keys, rocksdb", Workload::KeyedCount { backend: "rocksdb", keys: 2_000_000 }),
    ("keyed count, 2 M keys, memory", Workload::KeyedCount { backend: "memory", keys: 2_000_000 }),
];

/// Runs, wall and CPU seconds of each bench.
type Costs = BTreeMap<(usize, &'static str), (u32, f64, f64)>;

fn pipeline(criterion: &mut Criterion) {
    let costs: RefCell<Costs> = RefCell::default();
    for (w, (name, workload)) in WORKLOADS.iter().enumerate() {
        let mut group = criterion.benchmark_group(*name);
        group.throughput(Throughput::Elements(RECORDS)).sample_size(10).warm_up_time(Duration::from_millis(1));
        for (label, flavor) in [("wasm", Flavor::Wasm), ("native", Flavor::Native)] {
            group.bench_function(label, |bencher| {
                bencher.iter_custom(|runs| {
                    let mut wall = Duration::ZERO;
                    for _ in 0..runs {
                        let cost = run(*workload, flavor, RECORDS);
                        wall += cost.wall;
                        let mut costs = costs.borrow_mut();
                        let sum = costs.entry((w, label)).or_default();
                        *sum = (sum.0 + 1, sum.1 + cost.wall.as_secs_f64(), sum.2 + cost.cpu.as_secs_f64());
                    }
                    wall
                });
            });
        }
        group.finish();
    }
    let millions = RECORDS as f64 / 1e6;
    println!("\n{:<34} {:<7} {:>14} {:>22}", "workload", "by", "M records/s", "CPU s per M records");
    for (w, (name, _)) in WORKLOADS.iter().enumerate() {
        let of = |label| costs.borrow().get(&(w, label)).copied();
        for label in ["wasm", "native"] {
            let Some((runs, wall, cpu)) = of(label) else { continue };
            let runs = f64::from(runs);
            println!("{name:<34} {label:<7} {:>14.2} {:>22.3}", millions * runs / wall, cpu / runs / millions);
        }
        if let (Some(wasm), Some(native)) = (of("wasm"), of("native")) {
            let ratio = (native.2 / f64::from(native.0)) / (wasm.2 / f64::from(wasm.0));
            println!("{name:<34} CPU of native / CPU of wasm: {ratio:.2}");
        }
    }
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
