//! Snapshots of keyed state: how long the subtask stands still, how long the rest takes, how many bytes, and the way back.

use crate::{ms, quick, wanted};
use criterion::Criterion;
use std::time::{Duration, Instant};
use weir_benches::keyed::{BATCH, Store};
use weir_benches::table::{Plot, Series, Table};
use weir_host::state::BackendKind;

/// A key and its counter, as the state has them.
const ROW_BYTES: u64 = 16;

/// State of several sizes, of which several parts change; restores of each size; and the batches' times beside checkpoints.
pub fn snapshot(_: &mut Criterion, table: &mut Table) {
    let mut bytes = Vec::new();
    let mut restores = Vec::new();
    let sizes: &[(&str, u64)] = match quick() {
        true => &[("100 k", 100_000), ("2 M", 2_000_000)],
        false => &[("100 k", 100_000), ("500 k", 500_000), ("2 M", 2_000_000), ("8 M", 8_000_000)],
    };
    for &(label, keys) in sizes {
        if !wanted(&format!("snapshot, {label} keys")) && !wanted(&format!("restore, {label} keys")) {
            continue;
        }
        let mut store = Store::open(BackendKind::Rocks, None);
        store.fill(keys);
        store.snapshot();
        for percent in [1, 10, 100] {
            let name = format!("snapshot, {label} keys, {percent} % changed");
            if !wanted(&name) {
                continue;
            }
            let changed = keys * percent / 100;
            let (mut syncs, mut last) = (Vec::new(), None);
            for _ in 0..if quick() { 2 } else { 5 } {
                store.fill(changed);
                let frozen = store.freeze();
                syncs.push(frozen.sync);
                last = Some(store.finish(&frozen));
            }
            let snapshot = last.expect("there was one at least");
            let (deltas, base) = snapshot.new_bytes();
            table.figure(&name, "subtask stands still, worst", ms(*syncs.iter().max().expect("there was one")), "ms");
            table.figure(&name, "until all is written", ms(snapshot.wall), "ms");
            table.figure(&name, "CPU for a changed key", snapshot.cpu.as_secs_f64() * 1e6 / changed as f64, "µs");
            table.figure(&name, "bytes over bytes changed", deltas as f64 / (changed * ROW_BYTES) as f64, "");
            table.figure(&name, "bytes of a new base", base as f64, "B");
            bytes.push((changed as f64, deltas as f64));
        }
        let snapshot = store.snapshot();
        let begun = Instant::now();
        let mut restored = Store::open(BackendKind::Rocks, Some(&snapshot));
        let opened = begun.elapsed();
        let _ = restored.count(0..BATCH as u64);
        table.figure(&format!("restore, {label} keys"), "opened", ms(opened), "ms");
        table.figure(&format!("restore, {label} keys"), "first batch done", ms(begun.elapsed()), "ms");
        restores.push((keys as f64, ms(begun.elapsed())));
    }
    bytes.sort_by(|a, b| a.0.total_cmp(&b.0));
    table.plot(Plot {
        file: "checkpoint-bytes",
        title: "Bytes of a checkpoint against keys changed since the one before",
        x: "keys changed",
        y: "bytes",
        series: vec![Series { name: "16-byte rows".into(), points: bytes }],
    });
    table.plot(Plot {
        file: "restore",
        title: "From files on the same disk to the first batch done",
        x: "keys in state",
        y: "ms",
        series: vec![Series { name: "rocksdb".into(), points: restores }],
    });
    batch_times(table);
}

/// The same loop with a checkpoint each second and without any: what a record may have to wait longer.
fn batch_times(table: &mut Table) {
    let name = "batch of 1024 keys, 2 M keys in state";
    if !wanted(name) {
        return;
    }
    let (keys, length) = (2_000_000, Duration::from_secs(if quick() { 5 } else { 30 }));
    for (what, interval) in [("no checkpoint", None), ("a checkpoint each second", Some(Duration::from_secs(1)))] {
        let mut store = Store::open(BackendKind::Rocks, None);
        store.fill(keys);
        store.snapshot();
        let (mut times, mut frozen) = (Vec::new(), None);
        let (begun, mut last) = (Instant::now(), Instant::now());
        while begun.elapsed() < length {
            let before = Instant::now();
            let _ = store.count_uniform(keys);
            if frozen.is_none() && interval.is_some_and(|interval| last.elapsed() >= interval) {
                last = Instant::now();
                frozen = Some(store.freeze());
            }
            times.push(before.elapsed());
            if frozen.as_ref().is_some_and(|frozen| store.try_finish(frozen)) {
                frozen = None;
            }
        }
        times.sort_unstable();
        let at = |share: f64| ms(times[((times.len() - 1) as f64 * share) as usize]);
        for (label, share) in [("half are done in", 0.5), ("99 % are done in", 0.99), ("99.99 % are done in", 0.9999)] {
            table.figure(&format!("{name}, {what}"), label, at(share), "ms");
        }
    }
}
