//! Keyed state alone: a batch's look-ups and writes, by backend and number of keys.

use crate::{group, quick, wanted};
use criterion::Criterion;
use std::time::{Duration, Instant};
use weir_benches::Cost;
use weir_benches::keyed::{BATCH, CACHE, Store};
use weir_benches::table::{Table, WEIR};
use weir_host::state::BackendKind;

const BACKENDS: [(&str, BackendKind); 2] = [("rocksdb", BackendKind::Rocks), ("memory", BackendKind::Memory)];

/// New keys, then hits; and for RocksDB each key for the first time after a restore, and more keys than the cache holds.
pub fn state(criterion: &mut Criterion, table: &mut Table) {
    for (backend, kind) in BACKENDS {
        for (label, keys) in [("100", 100), ("2 M", 2_000_000)] {
            let (new, hit) = (format!("state, {backend}, {label} keys, new"), format!("state, {backend}, {label} keys, hit"));
            if !wanted(&new) && !wanted(&hit) {
                continue;
            }
            let mut store = Store::open(kind, None);
            // There is just one first time.
            let cost = store.fill(keys);
            if keys > 100 && wanted(&new) {
                table.push(&new, WEIR, Ok(cost));
            }
            uniform(criterion, table, &hit, &mut store, keys);
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
    // Flink's figure is with 2 GiB of managed memory.
    for (large, cache) in
        [("state, rocksdb, 20 M keys, cache 256 MiB", CACHE), ("state, rocksdb, 20 M keys, cache 1 GiB", 1 << 30)]
    {
        if quick() || !wanted(large) {
            continue;
        }
        let mut store = Store::open_with(BackendKind::Rocks, cache, None);
        store.fill(20_000_000);
        // Until compaction has caught up with the filling.
        steady(&mut store, 20_000_000, Duration::from_secs(20));
        table.push(large, WEIR, Ok(steady(&mut store, 20_000_000, Duration::from_secs(30))));
    }
}

/// Uniform keys for so long, with all that goes on in the background meanwhile.
fn steady(store: &mut Store, keys: u64, length: Duration) -> Cost {
    let (begun, mut records) = (Instant::now(), 0);
    let cost = Cost::of(0, || {
        while begun.elapsed() < length {
            records += store.count_uniform(keys).records;
        }
    });
    Cost { records, ..cost }
}

fn uniform(criterion: &mut Criterion, table: &mut Table, name: &str, store: &mut Store, keys: u64) {
    let mut group = group(criterion, name, BATCH, 2);
    group.warm_up_time(Duration::from_millis(500));
    let mut costs = Cost::default();
    group.bench_function(WEIR, |bencher| {
        bencher.iter_custom(|batches| {
            let cost: Cost = (0..batches).map(|_| store.count_uniform(keys)).sum();
            costs += cost;
            cost.wall
        });
    });
    group.finish();
    table.push_run(name, WEIR, costs);
}
