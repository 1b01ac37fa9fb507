//! State that belongs to no key, end to end: killed at random moments, restored at another parallelism, each record counts once.

use std::time::Duration;
use weir_tests::judge::lines;
use weir_tests::process::Running;
use weir_tests::scratch::Scratch;
use weir_tests::{Seeded, guest, soak};

fn write_job(scratch: &Scratch, records: u64, parallelism: u32, plugin: &str) {
    let plugin = guest(plugin).display().to_string();
    let job = format!(
        r#"
[job]
name = "own"
[checkpoint]
interval = "100ms"
[[source]]
name = "numbers"
connector = "sequence"
count = {records}
keys = 10
value_bytes = 20
rate = {rate}
[[operator]]
name = "own"
plugin = "{plugin}"
from = "numbers"
parallelism = {parallelism}
on_bad_record = "drop"
[[sink]]
name = "out"
connector = "file"
path = "out"
from = "own"
"#,
        rate = records / 5
    );
    scratch.write("job.toml", job);
}

fn start(scratch: &Scratch, variables: &[(&str, &str)]) -> Running {
    Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], variables)
}

#[test]
fn operator_state_is_exact_through_kills_and_other_parallelisms() {
    let (records, kills) = if soak() { (2_000_000, 60) } else { (60_000, 6) };
    let scratch = Scratch::new();
    let mut random = Seeded(0x0515);
    let mut restores = 0;
    for kill in 0..kills {
        write_job(&scratch, records, [2, 3, 1][kill % 3], "own_count");
        // Every other one after a checkpoint of its own, so that state goes through every parallelism.
        let ended = match kill % 2 {
            0 => start(&scratch, &[("WEIR_CRASH_AT", "committed:2")]).finish(),
            _ => start(&scratch, &[]).kill_after(Duration::from_millis(300 + random.below(600))),
        };
        assert!(ended.was_killed(), "the input is too short: {ended:?}");
        restores += 1 - kill % 2;
    }
    write_job(&scratch, records, 3, "own_count");
    start(&scratch, &[]).finish().expect_code(0);
    let told: Vec<Vec<u64>> = lines(&scratch.path("out"))
        .expect("committed files are whole")
        .iter()
        .map(|line| line.split(' ').map(|number| number.parse().expect("numbers")).collect())
        .collect();
    let good = || (0..records).filter(|number| number % 100 != 77);
    assert_eq!(told.len(), 3, "one line of each instance: {told:?}");
    assert_eq!(told.iter().map(|line| line[0]).sum::<u64>(), good().count() as u64, "{told:?}");
    assert_eq!(told.iter().map(|line| line[1]).sum::<u64>(), good().sum::<u64>(), "{told:?}");
    // Each instance knows of the restores of all.
    assert!(told.iter().all(|line| line[2] == told[0][2] && line[2] >= restores as u64), "{restores} at least: {told:?}");
}

#[test]
fn a_plugin_that_would_forget_operator_state_is_refused() {
    let scratch = Scratch::new();
    write_job(&scratch, 60_000, 2, "own_count");
    let ended = start(&scratch, &[("WEIR_CRASH_AT", "committed:1")]).finish();
    assert!(ended.was_killed(), "{ended:?}");
    write_job(&scratch, 60_000, 2, "filter_even");
    let words = ["operator own had state of its own (4 parts), and its plugin now gives no snapshots", "--fresh"];
    start(&scratch, &[]).finish().expect_code(4).expect_text(&words);
}
