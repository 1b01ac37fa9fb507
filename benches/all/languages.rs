//! The same operator by language: the flights job with every build of `carrier-stats` that there is.

use crate::{quick, wanted};
use criterion::Criterion;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use weir_benches::table::{Table, WEIR};
use weir_benches::{Cost, guest, run_flights};
use weir_tests::flights::{FLIGHTS, example_lines};

const NAME: &str = "flights, by language";

/// Measured runs of each build; one before them compiles the plugin.
const RUNS: usize = 3;

/// Whole runs, as their input ends.
pub fn languages(_: &mut Criterion, table: &mut Table) {
    if !wanted(NAME) {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch folder can be made");
    let file = scratch.path().join("flights.csv");
    let lines = write_flights(&file, if quick() { 4 } else { 20 });
    let mut builds = vec![("without it".to_owned(), None)];
    builds.extend(guests().into_iter().map(|(who, plugin)| (who, Some(plugin))));
    let mut costs: BTreeMap<&str, Cost> = BTreeMap::new();
    // In turns, so that a busy moment is nobody's own.
    for run in 0..=RUNS {
        for (who, plugin) in &builds {
            let cost = run_flights(plugin.as_deref(), &file, lines);
            if run > 0 {
                *costs.entry(who).or_default() += cost;
            }
        }
    }
    builds.iter().for_each(|(who, _)| table.push(NAME, who, Ok(costs[who.as_str()])));
}

/// Every build, by its language; Rust's, which the others are compared with, is Weir's own.
fn guests() -> Vec<(String, PathBuf)> {
    let folder = guest("");
    let entries = std::fs::read_dir(folder).expect("the guests are built").map(|entry| entry.expect("readable").path());
    let mut guests: Vec<_> = entries
        .filter_map(|path| {
            let language = path.file_name()?.to_str()?.strip_prefix("carrier_stats")?.strip_suffix(".wasm")?;
            let who = if language.is_empty() { WEIR.to_owned() } else { language.trim_start_matches('_').to_owned() };
            Some((who, path))
        })
        .collect();
    guests.sort();
    guests
}

/// A month of flights, so many times; gives the number of flights.
fn write_flights(path: &Path, times: u64) -> u64 {
    let flights = example_lines(FLIGHTS);
    let mut file = BufWriter::new(File::create(path).expect("a scratch file can be made"));
    for _ in 0..times {
        flights.iter().for_each(|line| writeln!(file, "{line}").expect("the scratch folder has room"));
    }
    file.flush().expect("the scratch folder has room");
    times * flights.len() as u64
}
