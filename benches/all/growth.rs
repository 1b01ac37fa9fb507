//! How costs grow: with the number of keys, and with the number of cores.

use crate::{quick, wanted};
use criterion::Criterion;
use weir_benches::table::{Plot, Series, Table, WEIR};
use weir_benches::{Flavor, LiveJob, Workload};

/// The pipelines' rows as curves, and one job on one core and on two.
pub fn growth(_: &mut Criterion, table: &mut Table) {
    let curve = |who: &str, backend: &str| {
        let keys = [("100", 1e2), ("2 M", 2e6), ("20 M", 2e7)];
        let point = |(label, keys)| Some((keys, table.cpu(&format!("count, {label} keys, {backend}, 10 s"), who)?));
        Series { name: format!("{who}, {backend}"), points: keys.into_iter().filter_map(point).collect() }
    };
    let series = vec![curve(WEIR, "rocksdb"), curve("Weir, native", "rocksdb"), curve("Flink 2.2", "rocksdb")];
    table.plot(Plot {
        file: "keys",
        title: "Keyed count, RocksDB, a checkpoint each 10 s",
        x: "keys",
        y: "CPU s per million records",
        series,
    });
    cores(table);
}

/// CPU time of a record: with one subtask on one core, and with one on each of two.
fn cores(table: &mut Table) {
    let Some(first) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) else { return };
    for (work, workload) in [
        ("map + filter", Workload::MapFilter),
        ("count, 2 M keys, rocksdb, 10 s", Workload::KeyedCount { backend: "rocksdb", keys: 2_000_000, interval_s: 10 }),
    ] {
        let name = format!("cores, {work}");
        if !wanted(&name) {
            continue;
        }
        let run = move |pinned: bool, parallelism: u32| {
            let run = move || {
                // The job's threads inherit it.
                assert!(!pinned || core_affinity::set_for_current(first), "a thread may give cores away");
                let mut job = LiveJob::start_parallel(workload, Flavor::Wasm, parallelism);
                job.advance(12_000_000);
                job.advance(if quick() { 10_000_000 } else { 60_000_000 })
            };
            std::thread::spawn(run).join().expect("the job runs")
        };
        let (one, two) = (run(true, 1), run(false, 2));
        table.figure(&name, "M records/s, one subtask on one core", one.rate(), "");
        table.figure(&name, "M records/s, two subtasks", two.rate(), "");
        table.figure(&name, "CPU of a record: one core over two", one.cpu_per_million() / two.cpu_per_million(), "");
    }
}
