//! Lists and maps end to end: killed at random moments, on every backend, each number is there exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weir_host::connectors::sequence::key_number;
use weir_tests::judge::{counted, lines, same};
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::Scratch;
use weir_tests::{Seeded, guest, soak};

const SEED: u64 = 5;
const KEYS: u64 = 40;
/// As the guest has it.
const KEPT: usize = 400;

fn write_job(scratch: &Scratch, records: u64, rate: u64, state: &str) {
    let plugin = guest("hoard").display().to_string();
    let job = format!(
        r#"
[job]
name = "hoard"
parallelism = 2
[checkpoint]
interval = "100ms"
[state]
{state}
[[source]]
name = "numbers"
connector = "sequence"
count = {records}
keys = {KEYS}
seed = {SEED}
value_bytes = 20
rate = {rate}
[[operator]]
name = "hoard"
plugin = "{plugin}"
from = "numbers"
[[sink]]
name = "out"
connector = "file"
path = "out"
from = "hoard"
"#
    );
    scratch.write("job.toml", job);
}

fn start(scratch: &Scratch) -> Running {
    Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], &[])
}

/// What is told of this many numbers.
fn expected(records: u64) -> BTreeMap<String, i64> {
    let mut by_key: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for i in 0..records {
        by_key.entry(key_number(SEED, KEYS, i)).or_default().insert(i);
    }
    let all = (0..records).map(|i| format!("all {i}"));
    let greatest = by_key.values().flat_map(|numbers| numbers.iter().rev().take(KEPT));
    counted(all.chain(greatest.map(|i| format!("greatest {i} of {i}"))))
}

#[test]
fn lists_and_maps_are_exact_through_kills_at_random_moments() {
    let (records, kills) = if soak() { (2_000_000, 60) } else { (60_000, 5) };
    // The cache holds some of it, all of it, and whatever comes.
    for state in ["cache = \"1MiB\"", "", "backend = \"memory\""] {
        let scratch = Scratch::new();
        write_job(&scratch, records, records / 5, state);
        let mut random = Seeded(0x11AB);
        for _ in 0..kills {
            let ended: Ended = start(&scratch).kill_after(Duration::from_millis(200 + random.below(700)));
            assert!(ended.was_killed(), "the input is too short: {ended:?}");
        }
        start(&scratch).finish().expect_code(0);
        let got = lines(&scratch.path("out")).expect("committed files are whole");
        same(state, &expected(records), &counted(got)).unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[test]
fn a_state_that_has_become_one_of_another_kind_is_refused() {
    let scratch = Scratch::new();
    write_job(&scratch, 60_000, 12_000, "");
    let ended =
        Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], &[("WEIR_CRASH_AT", "committed:1")]).finish();
    assert!(ended.was_killed(), "{ended:?}");
    let job = std::fs::read_to_string(scratch.path("job.toml")).expect("it was written");
    let other = guest("on_demand_count").display().to_string();
    scratch.write("job.toml", job.replace(&guest("hoard").display().to_string(), &other));
    start(&scratch).finish().expect_code(4).expect_text(&[
        "operator hoard had all (list, schema 1), count (value, schema 1), greatest (map, schema 1)",
        "now declares count (value, schema 1)",
        "--fresh",
    ]);
}
