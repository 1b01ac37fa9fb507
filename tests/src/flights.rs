//! The flights job with what tests vary: parallelism, input files, rate, interval, backend, storage.

use crate::process::{Ended, Running};
use crate::scratch::{Scratch, files_below};
use crate::{guest, judge, repository};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;

/// Lines of a gzipped CSV of the examples, without the header.
///
/// # Panics
/// If it is not there.
pub fn example_lines(relative: &str) -> Vec<String> {
    let path = repository().join(relative);
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("the example data is gzipped text");
    text.lines().skip(1).map(str::to_owned).collect()
}

/// One month of flights, 27,004 lines.
pub const FLIGHTS: &str = "examples/flights/data/flights-2013-01.csv.gz";

/// The weather of that month.
pub const WEATHER: &str = "examples/flights-weather/data/weather-2013-01.csv.gz";

/// Copies an example's job file into a scratch folder, without the rate that makes a demonstration last.
///
/// # Panics
/// If there is no such example.
pub fn unhurried_example(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = repository().join("examples").join(name);
    let text = std::fs::read_to_string(folder.join("job.toml")).expect("the example has a job file");
    let guests = repository().join("guests").display().to_string();
    let lines = text.lines().filter(|line| !line.starts_with("rate")).map(|line| line.replace("../../guests", &guests));
    scratch.write("job.toml", lines.map(|line| line + "\n").collect::<String>())
}

/// What a test varies.
#[derive(Clone, Debug)]
pub struct FlightsOptions {
    /// Of every stage.
    pub parallelism: u32,
    /// Number of input files.
    pub files: usize,
    /// Input lines.
    pub rows: usize,
    /// Records per second; none: as fast as it goes.
    pub rate: Option<u64>,
    /// Checkpoint interval.
    pub interval: &'static str,
    /// State backend.
    pub backend: &'static str,
    /// `[checkpoint].storage`.
    pub storage: Option<String>,
    /// More lines for `[checkpoint]`.
    pub checkpoint: &'static str,
    /// More sections, and keys of `[job]` before them.
    pub restart: &'static str,
}

impl Default for FlightsOptions {
    fn default() -> Self {
        FlightsOptions {
            parallelism: 1,
            files: 1,
            rows: 6_000,
            rate: Some(6_000),
            interval: "200ms",
            backend: "rocksdb",
            storage: None,
            checkpoint: "",
            restart: "[restart]\nstrategy = \"none\"",
        }
    }
}

/// A flights job in a scratch folder.
pub struct FlightsCase {
    /// Holds job.toml, in/, out/ and data/.
    pub scratch: Scratch,
    /// The input, without headers.
    pub lines: Vec<String>,
    /// What it was made with.
    pub options: FlightsOptions,
}

impl FlightsCase {
    /// Writes input and job file.
    pub fn new(options: FlightsOptions) -> Self {
        let scratch = Scratch::new();
        let mut lines = example_lines(FLIGHTS);
        lines.truncate(options.rows);
        let header = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour";
        for (i, part) in lines.chunks(lines.len().div_ceil(options.files)).enumerate() {
            let text = format!("{header}\n{}\n", part.join("\n"));
            scratch.write(&format!("in/flights-{:02}.csv", i + 1), text);
        }
        let case = FlightsCase { scratch, lines, options };
        case.scratch.write("job.toml", case.job_file());
        case
    }

    /// The job file.
    pub fn job_file(&self) -> String {
        let FlightsOptions { parallelism, rate, interval, backend, storage, checkpoint, restart, .. } = &self.options;
        let rate = rate.map_or(String::new(), |rate| format!("rate = {rate}"));
        let storage = storage.as_ref().map_or(String::new(), |storage| format!("storage = \"{storage}\""));
        let (parse, stats) = (guest("parse_flights"), guest("carrier_stats"));
        let (parse, stats) = (parse.display(), stats.display());
        format!(
            r#"
[job]
name = "flights"
parallelism = {parallelism}

[checkpoint]
interval = "{interval}"
{storage}
{checkpoint}

[state]
backend = "{backend}"

{restart}

[[source]]
name = "flights"
connector = "file"
path = "in/*.csv"
format = "lines"
header = "skip"
{rate}

[[operator]]
name = "parse"
plugin = "{parse}"
from = "flights"

[[operator]]
name = "stats"
plugin = "{stats}"
from = "parse"

[[sink]]
name = "stats-out"
connector = "file"
from = "stats"
path = "out/stats"

[[sink]]
name = "rejected-out"
connector = "file"
from = "parse.rejected"
path = "out/rejected"
"#
        )
    }

    /// Rewrites the job file with some of its text replaced.
    ///
    /// # Panics
    /// If that text does not stand there.
    pub fn edit(&self, replacements: &[(&str, &str)]) {
        let mut text = self.job_file();
        for (old, new) in replacements {
            assert!(text.contains(old), "'{old}' is not in the job file:\n{text}");
            text = text.replace(old, new);
        }
        self.scratch.write("job.toml", text);
    }

    /// The committed files, as paths below `out`.
    pub fn parts(&self) -> Vec<String> {
        let files = files_below(&self.scratch.path("out"));
        files.into_iter().filter(|path| !path.split('/').any(|name| name.starts_with('.'))).collect()
    }

    /// The completed checkpoints, oldest first, as `weir checkpoint list` shows them.
    pub fn checkpoints(&self) -> Vec<String> {
        let arguments = ["checkpoint", "list", "job.toml", "--data", "data", "--json"];
        let listed = Running::start(self.scratch.folder(), &arguments, &[]).finish().expect_code(0);
        let list: serde_json::Value = serde_json::from_str(&listed.stdout).expect("--json gives JSON");
        let rows = list["checkpoints"].as_array().expect("the list has checkpoints");
        rows.iter().map(|row| row["id"].as_str().expect("each has an id").to_owned()).collect()
    }

    /// Starts `weir run` on it.
    pub fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut all = vec!["run", "job.toml", "--data", "data"];
        all.extend_from_slice(arguments);
        Running::start(self.scratch.folder(), &all, variables)
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        self.start(arguments, variables).finish()
    }

    /// Judges the committed output.
    pub fn judge(&self) -> Result<(), String> {
        judge::flights(&self.lines, &self.scratch.path("out/stats"), &self.scratch.path("out/rejected"))
    }

    /// Folder of the checkpoint storage.
    pub fn storage(&self) -> PathBuf {
        self.scratch.path("data/checkpoints")
    }

    /// Asserts that a clean end has left nothing: no staged or temporary file, no state file that no manifest names.
    pub fn expect_clean(&self) {
        let out = files_below(&self.scratch.path("out"));
        let staged: Vec<&String> = out.iter().filter(|path| path.contains(".weir-staging")).collect();
        assert!(staged.is_empty(), "staged files are left: {staged:?}");
        assert!(!self.scratch.path("out/stats/.weir-staging").exists(), "an empty staging folder is left");
        self.expect_exact_storage();
    }

    /// Asserts that the checkpoint storage holds exactly what its manifests name, and that no working state is left.
    pub fn expect_exact_storage(&self) {
        let mut referenced = BTreeSet::new();
        for slot in files_below(&self.storage().join("log")) {
            assert!(slot.ends_with(".json"), "a temporary is left in the log: {slot}");
            let text = std::fs::read_to_string(self.storage().join("log").join(slot)).expect("an entry can be read");
            collect_names(&serde_json::from_str(&text).expect("an entry is JSON"), &mut referenced);
        }
        let stored: BTreeSet<String> = files_below(&self.storage().join("shared")).into_iter().collect();
        let orphans: Vec<&String> = stored.difference(&referenced).collect();
        let missing: Vec<&String> = referenced.difference(&stored).collect();
        assert!(orphans.is_empty() && missing.is_empty(), "unreferenced: {orphans:?}, missing: {missing:?}");
        let working = files_below(&self.scratch.path("data/state"));
        assert!(working.is_empty(), "working state is left: {working:?}");
    }
}

/// Names of state files in a manifest: the `name` of every object in a `base` or `deltas` list.
pub fn collect_names(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                if let ("base" | "deltas", serde_json::Value::Array(files)) = (key.as_str(), value) {
                    names.extend(files.iter().filter_map(|file| file["name"].as_str()).map(str::to_owned));
                }
                collect_names(value, names);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| collect_names(value, names)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) | serde_json::Value::String(_) => {}
    }
}
