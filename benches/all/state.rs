//! Keyed state alone: a batch's look-ups and writes, by backend and number of keys.

use crate::{quick, wanted};
use criterion::{Criterion, SamplingMode, Throughput};
use std::time::{Duration, Instant};
use weir_benches::Cost;
use weir_benches::keyed::{BATCH, Store};
use weir_benches::table::{Table, WEIR};
use weir_host::connectors::sequence::key_number;
use weir_host::state::BackendKind;

const BACKENDS: [(&str, BackendKind); 2] = [("rocksdb", BackendKind::Rocks), ("memory", BackendKind::Memory)];

/// New keys, then hits; and for RocksDB each key for the first time after a restore, and more keys than the cache holds.
pub fn state(criterion: &mut Criterion, table: &mut Table) {
    for (backend, kind) in BACKENDS {
        for (label, keys) in [("100", 100), ("2 M", 2_000_000)] {
            let mut store = Store::open(kind, None);
            let new = format!("state, {backend}, {label} keys, new");
            // There is just one first time.
            let cost = store.fill(keys);
            if keys > 100 && wanted(&new) {
                table.push(&new, WEIR, Ok(cost));
            }
            uniform(criterion, table, &format!("state, {backend}, {label} keys, hit"), &mut store, keys);
        }
    }
    let keys = 2_000_000;
    let miss = "state, rocksdb, 2 M keys, just restored";
    if wanted(miss) {
        let mut store = Store::open(BackendKind::Rocks, None);
        store.fill(keys);
        let snapshot = store.snapshot();
        let mut restored = Store::open(BackendKind::Rocks, Some(&snapshot));
        table.push(miss, WEIR, Ok(restored.fill(keys)));
    }
    let large = "state, rocksdb, 20 M keys, cache 256 MiB";
    if !quick() && wanted(large) {
        let mut store = Store::open(BackendKind::Rocks, None);
        store.fill(20_000_000);
        // Until compaction has caught up with the filling.
        steady(&mut store, 20_000_000, Duration::from_secs(20));
        table.push(large, WEIR, Ok(steady(&mut store, 20_000_000, Duration::from_secs(30))));
    }
}

/// Uniform keys for so long, with all that goes on in the background meanwhile.
fn steady(store: &mut Store, keys: u64, length: Duration) -> Cost {
    let (begun, mut drawn) = (Instant::now(), 0);
    let mut work = || {
        while begun.elapsed() < length {
            let _ = store.count((drawn..drawn + BATCH as u64).map(|i| key_number(7, keys, i)));
            drawn += BATCH as u64;
        }
    };
    let cost = Cost::of(0, &mut work);
    Cost { records: drawn, ..cost }
}

fn uniform(criterion: &mut Criterion, table: &mut Table, name: &str, store: &mut Store, keys: u64) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(BATCH as u64)).sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let (mut costs, mut drawn) = (Cost::default(), 0);
    group.bench_function(WEIR, |bencher| {
        bencher.iter_custom(|batches| {
            let before = costs;
            for _ in 0..batches {
                costs += store.count((drawn..drawn + BATCH as u64).map(|i| key_number(7, keys, i)));
                drawn += BATCH as u64;
            }
            costs.wall - before.wall
        });
    });
    group.finish();
    if costs.records > 0 {
        table.push(name, WEIR, Ok(costs));
    }
}
