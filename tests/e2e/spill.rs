//! kill -9 while keyed state outgrows its memory and moves into a store: each count comes once.

use std::collections::BTreeMap;
use weir_host::connectors::sequence::key_number;
use weir_tests::process::Running;
use weir_tests::scratch::{Scratch, files_below};
use weir_tests::{guest, soak};

const RECORDS: u64 = 500_000;
const KEYS: u64 = 160_000;
const SEED: u64 = 11;

/// Two subtasks of 4 MiB each: they overflow when about four fifths of the keys were seen, after three quarters of a second.
fn job_file() -> String {
    format!(
        r#"
[job]
name = "spill"
parallelism = 2

[checkpoint]
interval = "100ms"

[state]
cache = "8MiB"

[[source]]
name = "keys"
connector = "sequence"
count = {RECORDS}
keys = {KEYS}
seed = {SEED}
value_bytes = 8
rate = 400_000

[[operator]]
name = "count"
plugin = "{}"
from = "keys"

[[sink]]
name = "out"
connector = "file"
from = "count"
path = "out"
"#,
        guest("keyed_count").display()
    )
}

/// How often each count is to come: once for each key that has so many records.
fn expected() -> BTreeMap<u64, u64> {
    let (mut counts, mut times) = (vec![0u64; KEYS as usize], BTreeMap::new());
    for i in 0..RECORDS {
        let count = &mut counts[key_number(SEED, KEYS, i) as usize];
        *count += 1;
        *times.entry(*count).or_default() += 1;
    }
    times
}

/// How often each count was committed. A line is a count in eight bytes.
fn committed(scratch: &Scratch) -> BTreeMap<u64, u64> {
    let mut times = BTreeMap::new();
    for name in files_below(&scratch.path("out")).iter().filter(|name| name.starts_with("part-")) {
        let content = std::fs::read(scratch.path("out").join(name)).expect("a part can be read");
        let (lines, rest) = content.as_chunks::<9>();
        assert!(rest.is_empty(), "{name} ends within a line");
        for line in lines {
            assert_eq!(line[8], b'\n', "{name} has another line");
            *times.entry(u64::from_le_bytes(line[..8].try_into().expect("eight bytes"))).or_default() += 1;
        }
    }
    times
}

#[test]
fn kills_while_state_moves_into_a_store() {
    let expected = expected();
    let checkpoints: Vec<u32> = if soak() { (1..=10).collect() } else { vec![4, 6] };
    for point in ["snapshot-sync-done", "upload-partial", "committed"] {
        for checkpoint in &checkpoints {
            let scratch = Scratch::new();
            scratch.write("job.toml", job_file());
            let run = |variables: &[(&str, &str)]| {
                Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], variables).finish()
            };
            let at = format!("{point}:{checkpoint}");
            let ended = run(&[("WEIR_CRASH_AT", &at)]);
            if ended.was_killed() {
                run(&[]).expect_code(0);
            } else {
                // A slow machine has fewer checkpoints.
                ended.expect_code(0);
            }
            assert_eq!(committed(&scratch), expected, "{at}");
            let stored = files_below(&scratch.path("data/checkpoints/shared"));
            assert!(stored.iter().any(|name| name.ends_with(".sst")), "{at}: there was no store: {stored:?}");
        }
    }
}
