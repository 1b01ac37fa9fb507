//! Whole jobs: Weir with Wasm operators, the same code native on Weir, timely and Flink, in one run.
//!
//! A job runs without end; criterion's samples are stretches of it, so that start-up and new keys do not count.

use crate::quick;
use criterion::{Criterion, SamplingMode, Throughput};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_benches::table::{Table, WEIR};
use weir_benches::{Cost, Flavor, LiveJob, Window, Workload, flink, run_lines, timely, write_lines};

/// Weir's own two rows of each workload.
const OWN: [(&str, Flavor); 2] = [(WEIR, Flavor::Wasm), ("Weir, native", Flavor::Native)];

/// Keys that fit into memory, by default.
const MANY: u64 = 2_000_000;
/// Records of one iteration.
const STRETCH: u64 = 1_000_000;

/// A line of benches.
struct Line {
    name: &'static str,
    workload: Workload,
    /// Records after which it is in its steady state.
    warm_up: u64,
    timely: Option<fn(Window) -> Cost>,
    flink: Vec<(&'static str, flink::Workload)>,
}

fn keyed(name: &'static str, backend: &'static str, keys: u64, interval_s: u32, flink_backend: Option<&'static str>) -> Line {
    let interval = Duration::from_secs(interval_s.into());
    let flink_of = |backend, managed_mib| flink::Workload::Keyed { backend, keys, interval, managed_mib };
    let mut flink: Vec<_> = flink_backend.map(|backend| ("Flink 2.2", flink_of(backend, None))).into_iter().collect();
    if let Some(backend) = flink_backend.filter(|_| keys > MANY) {
        // As much memory as Weir has.
        flink.push(("Flink 2.2, 1 GiB", flink_of(backend, Some(1024))));
    }
    let timely: Option<fn(Window) -> Cost> = match keys {
        100 => Some(|window| timely::keyed_count(100, window)),
        2_000_000 => Some(|window| timely::keyed_count(2_000_000, window)),
        _ => None,
    };
    // By then nine of ten keys, or more, were drawn.
    let warm_up = (keys * if keys > MANY { 3 } else { 5 }).max(2_000_000);
    Line { name, workload: Workload::KeyedCount { backend, keys, interval_s }, warm_up, timely, flink }
}

fn lines() -> Vec<Line> {
    let map = |name, workload| Line { name, workload, warm_up: 2_000_000, timely: None, flink: Vec::new() };
    let mut lines = vec![
        Line {
            timely: Some(timely::map_filter),
            flink: vec![("Flink 2.2", flink::Workload::Map)],
            ..map("map + filter", Workload::MapFilter)
        },
        Line {
            flink: vec![("Flink 2.2", flink::Workload::MapHop)],
            ..map("map + filter, a thread each", Workload::MapFilterHop)
        },
        map("map, every byte", Workload::Map),
        map("map, parse 3 fields, rewrite 1", Workload::RewriteField),
        keyed("count, 100 keys, rocksdb, 10 s", "rocksdb", 100, 10, None),
        keyed("count, 2 M keys, rocksdb, 10 s", "rocksdb", 2_000_000, 10, Some("rocksdb")),
        keyed("count, 2 M keys, rocksdb, 1 s", "rocksdb", 2_000_000, 1, None),
        keyed("count, 2 M keys, memory, 10 s", "memory", 2_000_000, 10, Some("hashmap")),
    ];
    if !quick() {
        // Filling the state takes minutes.
        lines.push(keyed("count, 20 M keys, rocksdb, 10 s", "rocksdb", 20_000_000, 10, Some("rocksdb")));
    }
    lines
}

/// What each bench has cost in all its stretches.
type Costs = BTreeMap<(&'static str, &'static str), Cost>;

/// Endless jobs, and the peers' ones.
pub fn endless(criterion: &mut Criterion, table: &mut Table) {
    let costs: RefCell<Costs> = RefCell::default();
    let lines = lines();
    for line in &lines {
        let mut group = criterion.benchmark_group(line.name);
        group.throughput(Throughput::Elements(STRETCH)).sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(25));
        for (who, flavor) in OWN {
            let mut job: Option<LiveJob> = None;
            group.bench_function(who, |bencher| {
                bencher.iter_custom(|stretches| {
                    let job = job.get_or_insert_with(|| {
                        let mut job = LiveJob::start(line.workload, flavor);
                        job.advance(line.warm_up);
                        job
                    });
                    let cost = job.advance(stretches * STRETCH);
                    *costs.borrow_mut().entry((line.name, who)).or_default() += cost;
                    cost.wall.mul_f64((stretches * STRETCH) as f64 / cost.records as f64)
                });
            });
        }
        group.finish();
    }
    report(table, &lines, &costs.borrow());
}

/// Lines of the file that is read from its first line to its last.
const LINES: u64 = 10_000_000;
const LINES_NAME: &str = "lines, upper-case, file sink, 1 s";

/// From file to file, exactly-once: whole runs, as their input ends.
pub fn lines_to_file(criterion: &mut Criterion, table: &mut Table) {
    let lines = if quick() { LINES / 5 } else { LINES };
    let scratch = tempfile::tempdir().expect("a scratch folder can be made");
    let file = scratch.path().join("lines.txt");
    write_lines(&file, lines);
    let costs: RefCell<Costs> = RefCell::default();
    let mut group = criterion.benchmark_group(LINES_NAME);
    group.throughput(Throughput::Elements(lines)).sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(1));
    for (who, flavor) in OWN {
        group.bench_function(who, |bencher| {
            bencher.iter_custom(|runs| {
                let mut wall = Duration::ZERO;
                for _ in 0..runs {
                    let cost = run_lines(flavor, &file, lines);
                    wall += cost.wall;
                    *costs.borrow_mut().entry((LINES_NAME, who)).or_default() += cost;
                }
                wall
            });
        });
    }
    group.finish();
    let flink = |tuned| flink::Workload::Lines { file: file.clone(), tuned };
    let line = Line {
        name: LINES_NAME,
        workload: Workload::Map,
        warm_up: 0,
        timely: None,
        flink: vec![("Flink 2.2, tuned", flink(true)), ("Flink 2.2, stock", flink(false))],
    };
    report(table, &[line], &costs.borrow());
}

/// Adds what was run, and the peers of it.
fn report(table: &mut Table, lines: &[Line], costs: &Costs) {
    let window = |warm, length| Window { warm: Duration::from_secs(warm), length: Duration::from_secs(length) };
    for line in lines {
        let own: Vec<_> = OWN.iter().filter_map(|(who, _)| Some((*who, *costs.get(&(line.name, *who))?))).collect();
        if own.is_empty() {
            continue;
        }
        own.into_iter().for_each(|(who, cost)| table.push(line.name, who, Ok(cost)));
        if let Some(timely) = line.timely {
            table.push(line.name, "timely 0.32", Ok(timely(if quick() { window(2, 4) } else { window(5, 20) })));
        }
        for (who, workload) in line.flink.iter().filter(|_| !quick()) {
            let run = flink::run(workload);
            table.push(line.name, who, run.map(|report| report.cost).map_err(|error| error.to_string()));
        }
    }
}
