//! Kafka to Kafka: what Weir's jobs cost beside a bare loop on the same client library, and how soon their results are visible.

use crate::{ms, quick, wanted};
use criterion::Criterion;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_benches::kafka::{Bench, Job};
use weir_benches::table::{Table, WEIR};
use weir_benches::{Cost, Flavor};

const COPY: &str = "Kafka to Kafka, at least once";
const EXACT: &str = "Kafka to Kafka, exactly once, 1 s";
const COUNT: &str = "Kafka, count, 2 M keys, rocksdb, exactly once, 1 s";
const LATENCY: &str = "Kafka, written to visible";

/// Needs Java for the broker; without it nothing is measured, and that is said.
pub fn kafka(_: &mut Criterion, table: &mut Table) {
    if ![COPY, EXACT, COUNT, LATENCY].iter().any(|name| wanted(name)) {
        return;
    }
    if let Err(error) = Command::new("java").arg("-version").stderr(Stdio::null()).status() {
        table.push(COPY, WEIR, Err(format!("not run: the broker needs Java: {error}")));
        return;
    }
    let bench = Bench::start(if quick() { 1_000_000 } else { 4_000_000 });
    // In turns: what the machine does beside passes over all of them.
    let turns = if quick() { 1 } else { 4 };
    let copies = [(COPY, false), (EXACT, true)].into_iter().filter(|(name, _)| wanted(name));
    let copies: Vec<_> = copies.map(|(name, exactly_once)| (name, Job::Copy { exactly_once }, exactly_once)).collect();
    let mut costs = vec![(Cost::default(), Cost::default()); copies.len()];
    for _ in 0..turns {
        for ((_, job, exactly_once), (weir, bare)) in copies.iter().zip(&mut costs) {
            *weir += bench.run(*job);
            *bare += bench.bare_loop(*exactly_once);
        }
    }
    for ((name, job, _), (weir, bare)) in copies.into_iter().zip(costs) {
        table.push(name, WEIR, Ok(weir));
        table.push(name, "librdkafka, bare loop", Ok(bare));
        flink(table, &bench, name, job);
    }
    if wanted(COUNT) {
        let run = |flavor| Ok((0..turns.min(2)).map(|_| bench.run(Job::Count(flavor))).sum());
        table.push(COUNT, WEIR, run(Flavor::Wasm));
        table.push(COUNT, "Weir, native", run(Flavor::Native));
        flink(table, &bench, COUNT, Job::Count(Flavor::Wasm));
    }
    if wanted(LATENCY) {
        for (interval, name) in [(100, "100 ms"), (1_000, "1 s")] {
            let latencies = bench.latencies(Duration::from_millis(interval), Duration::from_secs(if quick() { 5 } else { 20 }));
            let of = |part: usize| ms(latencies[(latencies.len() * part / 1000).min(latencies.len() - 1)]);
            let subject = format!("{LATENCY}, interval {name}");
            table.figure(&subject, "p50", of(500), "ms");
            table.figure(&subject, "p99", of(990), "ms");
        }
    }
}

fn flink(table: &mut Table, bench: &Bench, name: &str, job: Job) {
    if !quick() {
        table.push(name, "Flink 2.2", bench.flink(job).map_err(|error| error.to_string()));
    }
}
