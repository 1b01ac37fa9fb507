//! A checkpoint stores what has changed since the last one, not the whole state.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use weir_tests::guest;
use weir_tests::process::Running;
use weir_tests::scratch::{Scratch, files_below};

/// Keys of the state.
const KEYS: u64 = 2_000_000;

/// Records until (nearly) every key was touched: each key is missed with probability e⁻³.
const ALL: u64 = 3 * KEYS;

/// Records between two checkpoints that touch up to 1 % of the keys.
const FEW: u64 = KEYS / 100;

/// Time between two looks at the log.
const LOOK: Duration = Duration::from_millis(50);

/// Counts keys. `rate`: a line for the source.
fn job_file(rate: &str) -> String {
    let plugin = guest("keyed_count");
    format!(
        r#"
[job]
name = "incremental"

[checkpoint]
interval = "2s"
retain = 100

[state]
backend = "rocksdb"

[[source]]
name = "keys"
connector = "sequence"
count = 1_000_000_000
keys = {KEYS}
value_bytes = 8
{rate}

[[operator]]
name = "count"
plugin = "{}"
from = "keys"

[[sink]]
name = "out"
connector = "discard"
from = "count"
"#,
        plugin.display()
    )
}

/// What a test needs of a manifest.
struct Checkpoint {
    /// Records that its source had given.
    records: u64,
    /// Bytes of its state files, by name.
    files: BTreeMap<String, u64>,
}

impl Checkpoint {
    fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// Bytes of files that `before` does not have.
    fn new_bytes(&self, before: &Checkpoint) -> u64 {
        self.files.iter().filter(|(name, _)| !before.files.contains_key(*name)).map(|(_, bytes)| bytes).sum()
    }
}

/// The completed checkpoints, oldest first.
fn checkpoints(storage: &Path) -> Vec<Checkpoint> {
    let log = storage.join("log");
    let names = files_below(&log).into_iter().filter(|name| name.ends_with(".json"));
    let entries = names.map(|name| std::fs::read(log.join(name)).expect("an entry can be read"));
    let manifests = entries.map(|text| serde_json::from_slice::<Value>(&text).expect("an entry is JSON")["manifest"].take());
    manifests.filter(|manifest| manifest["sources"].is_object()).map(|manifest| read(&manifest)).collect()
}

fn read(manifest: &Value) -> Checkpoint {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_u64().expect("a number");
    let first = |split: &Value| -> u64 {
        let range = split["split"].as_str().expect("a range");
        range.split("..").next().and_then(|first| first.parse().ok()).expect("a range begins with a number")
    };
    let splits = list(&manifest["sources"]["keys"]["splits"]);
    let subtasks = list(&manifest["operators"]["count"]["subtasks"]);
    let files = subtasks.iter().flat_map(|subtask| [list(&subtask["base"]), list(&subtask["deltas"])].concat());
    Checkpoint {
        records: splits.iter().map(|split| number(&split["position"]) - first(split)).sum(),
        files: files.map(|file| (file["name"].as_str().expect("a name").to_owned(), number(&file["bytes"]))).collect(),
    }
}

/// Runs until `enough` is true of the checkpoints, then suspends.
fn run_until(scratch: &Scratch, what: &str, enough: impl Fn(&[Checkpoint]) -> bool) -> Vec<Checkpoint> {
    let mut running = Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], &[]);
    let storage = scratch.path("data/checkpoints");
    while !enough(&checkpoints(&storage)) {
        if running.wait_for(LOOK).is_some() {
            panic!("weir ended before {what}: {:?}", running.finish());
        }
    }
    running.signal(rustix::process::Signal::INT);
    running.finish().expect_code(0);
    checkpoints(&storage)
}

/// Two checkpoints in a row with at most [`FEW`] records, and not far fewer, between them.
fn few_apart(all: &[Checkpoint]) -> Option<&[Checkpoint]> {
    all.windows(2).find(|pair| (FEW / 2..=FEW).contains(&(pair[1].records - pair[0].records)))
}

#[test]
fn a_checkpoint_after_one_percent_of_the_keys_stores_less_than_five_percent() {
    let scratch = Scratch::new();
    scratch.write("job.toml", job_file(""));
    let before = run_until(&scratch, "every key was touched", |all| all.last().is_some_and(|last| last.records >= ALL));
    let full = before.last().expect("the last one is the suspension's");
    // A key and its count are eight bytes each; at least half of that remains, however well it is compressed.
    assert!(full.bytes() >= KEYS * 8, "{} bytes are no full state of {KEYS} keys", full.bytes());
    // So that 2 s touch 0.8 % of the keys.
    scratch.write("job.toml", job_file(&format!("rate = {}", FEW * 2 / 5)));
    let after = run_until(&scratch, "a few keys were touched", |all| few_apart(&all[before.len() - 1..]).is_some());
    let pair = few_apart(&after[before.len() - 1..]).expect("waited for");
    let (records, bytes) = (pair[1].records - pair[0].records, pair[1].new_bytes(&pair[0]));
    assert!(bytes > 0, "{records} records changed nothing");
    assert!(bytes * 20 < full.bytes(), "{bytes} bytes for {records} records, a full checkpoint has {}", full.bytes());
    assert!(pair[1].bytes() >= full.bytes(), "it must hold the whole state, not only what changed");
}
