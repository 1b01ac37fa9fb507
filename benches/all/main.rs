//! Everything that is measured, in one run: whole jobs beside their native twins and peers, then the parts that they are made of.
//!
//! Criterion reports the wall clock; the table at the end gives CPU seconds per million records, which hold on a noisy machine.
//! Its JSON and SVG go to the folder `$WEIR_BENCH_OUT`, if that is set. `--quick`: short windows, and no Flink.

mod boundary;
mod channel;
mod growth;
mod kafka;
mod languages;
mod neighbours;
mod pipeline;
mod process;
mod snapshot;
mod state;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use std::path::Path;
use std::time::Duration;
use weir_benches::table::Table;

/// Short windows, and no Flink.
fn quick() -> bool {
    std::env::args().any(|argument| argument == "--quick")
}

/// Whether the filter on the command line, if there is one, lets a figure pass that criterion knows nothing of.
fn wanted(name: &str) -> bool {
    std::env::args().skip(1).find(|argument| !argument.starts_with('-')).is_none_or(|filter| name.contains(&filter))
}

/// A part's group: iterations of so many records, measured for so many seconds.
fn group<'c>(criterion: &'c mut Criterion, name: &str, records: usize, seconds: u64) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(records as u64)).sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(seconds));
    group
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn all(criterion: &mut Criterion) {
    let mut table = Table::default();
    let parts: [fn(&mut Criterion, &mut Table); 12] = [
        pipeline::endless,
        pipeline::lines_to_file,
        languages::languages,
        boundary::boundary,
        channel::channel,
        channel::exchange,
        state::state,
        snapshot::snapshot,
        process::process,
        kafka::kafka,
        neighbours::neighbours,
        growth::growth,
    ];
    for part in parts {
        part(criterion, &mut table);
    }
    println!("\n{}", table.text());
    if let Some(folder) = std::env::var_os("WEIR_BENCH_OUT") {
        table.write(Path::new(&folder)).expect("the folder of the results can be written");
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
