//! Kafka to Kafka: what Weir's jobs cost beside a bare loop on the same client library, and how soon their results are visible.

use crate::{ms, quick, wanted};
use criterion::Criterion;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_benches::Flavor;
use weir_benches::kafka::{Bench, Job};
use weir_benches::table::{Table, WEIR};

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
    let bare = "librdkafka, bare loop";
    if wanted(COPY) {
        table.push(COPY, WEIR, Ok(bench.run(Job::Copy { exactly_once: false })));
        table.push(COPY, bare, Ok(bench.bare_loop(false)));
    }
    if wanted(EXACT) {
        table.push(EXACT, WEIR, Ok(bench.run(Job::Copy { exactly_once: true })));
        table.push(EXACT, bare, Ok(bench.bare_loop(true)));
    }
    if wanted(COUNT) {
        table.push(COUNT, WEIR, Ok(bench.run(Job::Count(Flavor::Wasm))));
        table.push(COUNT, "Weir, native", Ok(bench.run(Job::Count(Flavor::Native))));
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
