//! Flink as a peer: starts `benches/peers/flink/run.sh` and reads the line of figures that it prints.

use crate::{Cost, Window};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The jobs of `benches/peers/flink`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// generate → map → filter → discard, one chain: the work of `guests/bench/map-filter`.
    Map,
    /// The same, each operator in a thread of its own.
    MapHop,
    /// generate → key by → count → discard.
    Keyed {
        /// `hashmap` or `rocksdb`.
        backend: &'static str,
        /// Distinct keys.
        keys: u64,
        /// Between checkpoints; zero for none.
        interval: Duration,
        /// Memory for state, MiB; none: what was fastest, 2 GiB.
        managed_mib: Option<u32>,
    },
    /// Text file → map → file sink, exactly-once, a checkpoint each second.
    Lines {
        /// The input. Its end ends the window.
        file: PathBuf,
        /// Lines as bytes, through a writer that buffers, instead of what the documentation shows.
        tuned: bool,
    },
    /// Topic, to its end → topic; with a checkpoint each second.
    Kafka {
        /// Where the brokers are.
        brokers: String,
        /// Topic of the sink.
        output: String,
        /// Of the sink.
        exactly_once: bool,
        /// Counts by key over RocksDB in between.
        counts: bool,
    },
}

/// What a run says.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of the window.
    pub cost: Cost,
    /// Of the checkpoints in the window, if there was one.
    pub checkpoints: Option<Checkpoints>,
    /// Versions, JVM options and Flink's settings, as JSON.
    pub settings: Value,
}

/// What the checkpoints of a window cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// Completed ones.
    pub count: u64,
    /// The time that an operator stood still, of the middle checkpoint.
    pub sync_p50: Duration,
    /// The same of the worst.
    pub sync_max: Duration,
    /// Bytes written by the middle checkpoint.
    pub bytes_p50: u64,
}

/// Why there are no figures: mostly since the machine has no Java. A table shows it in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRun(String);

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not run: {}", self.0)
    }
}

impl std::error::Error for NotRun {}

impl Workload {
    /// When it is looked at.
    fn window(&self) -> Window {
        let (warm, length) = match self {
            // From the first line to the last commit, as Weir's.
            Workload::Lines { .. } => (0, 900),
            // The same, but for what compiles its code.
            Workload::Kafka { .. } => (4, 900),
            Workload::Map | Workload::MapHop => (15, 20),
            // Until the state has most of its keys.
            Workload::Keyed { keys: ..=2_000_000, .. } => (40, 30),
            Workload::Keyed { .. } => (400, 60),
        };
        Window { warm: Duration::from_secs(warm), length: Duration::from_secs(length) }
    }
}

/// Runs the workload, and builds the jobs first where that was never done.
pub fn run(workload: &Workload) -> Result<Report, NotRun> {
    let window = workload.window();
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/flink/run.sh"));
    command.args(arguments(workload));
    command.args([format!("warm={}", window.warm.as_secs()), format!("secs={}", window.length.as_secs())]);
    report(command)
}

fn arguments(workload: &Workload) -> Vec<String> {
    match workload {
        // As many keys as in the map of the other engines.
        Workload::Map => vec!["map".into(), "keys=1000000".into()],
        Workload::MapHop => vec!["map-hop".into(), "keys=1000000".into()],
        Workload::Keyed { backend, keys, interval, managed_mib } => {
            let mut all = vec![
                "keyed".into(),
                format!("backend={backend}"),
                format!("keys={keys}"),
                format!("interval_ms={}", interval.as_millis()),
            ];
            if let Some(mib) = managed_mib {
                all.push(format!("taskmanager.memory.managed.size={mib}m"));
                // Without it filters and indexes push each other out where they do not fit.
                all.push("state.backend.rocksdb.memory.partitioned-index-filters=true".into());
            }
            all
        }
        Workload::Lines { file, tuned } => {
            vec!["lines".into(), format!("file={}", file.display()), format!("tuned={}", u8::from(*tuned))]
        }
        Workload::Kafka { brokers, output, exactly_once, counts } => {
            let guarantee = if *exactly_once { "exactly-once" } else { "at-least-once" };
            let workload = if *counts { "kafka-keyed" } else { "kafka" };
            vec![
                workload.into(),
                "backend=rocksdb".into(),
                format!("brokers={brokers}"),
                format!("out={output}"),
                format!("guarantee={guarantee}"),
            ]
        }
    }
}

fn report(mut command: Command) -> Result<Report, NotRun> {
    let output = command.output().map_err(|error| NotRun(format!("{}: {error}", command.get_program().display())))?;
    if !output.status.success() {
        // The script's last line is the reason; what stands above it is Flink's or Maven's own.
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.trim_end().lines().last().unwrap_or("it said nothing");
        return Err(NotRun(reason.strip_prefix("weir: ").unwrap_or(reason).to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.trim_end().lines().last().unwrap_or_default();
    parse(line).ok_or_else(|| NotRun(format!("this is no line of figures: {line}")))
}

fn parse(line: &str) -> Option<Report> {
    let mut line: Value = serde_json::from_str(line).ok()?;
    let seconds = |name: &str| Duration::try_from_secs_f64(line[name].as_f64()?).ok();
    let cost = Cost { records: line["records"].as_u64()?, wall: seconds("wall_s")?, cpu: seconds("cpu_s")? };
    let checkpoints = match &line["checkpoints"] {
        Value::Null => None,
        all => Some(Checkpoints {
            count: all["count"].as_u64()?,
            sync_p50: Duration::from_millis(all["sync_ms_p50"].as_u64()?),
            sync_max: Duration::from_millis(all["sync_ms_max"].as_u64()?),
            bytes_p50: all["bytes_p50"].as_u64()?,
        }),
    };
    Some(Report { cost, checkpoints, settings: line["settings"].take() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_host::connectors::sequence::{key_number, write_value};

    fn shell(script: &str) -> Result<Report, NotRun> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        report(command)
    }

    #[test]
    fn a_line_of_figures_is_read() {
        let report = shell(
            r#"echo '{"workload":"keyed","records":3000000,"wall_s":2.5,"cpu_s":1.5,"checkpoints":{"count":3,"end_to_end_ms_p50":9,
            "end_to_end_ms_max":9,"sync_ms_p50":5,"sync_ms_max":7,"bytes_p50":800,"bytes_max":900},"settings":{"flink":"2.2.1"}}' | tr -d '\n'"#,
        )
        .expect("it is right");
        assert_eq!((report.cost.records, report.cost.rate(), report.cost.cpu_per_million()), (3_000_000, 1.2, 0.5));
        let (sync_p50, sync_max) = (Duration::from_millis(5), Duration::from_millis(7));
        assert_eq!(report.checkpoints, Some(Checkpoints { count: 3, sync_p50, sync_max, bytes_p50: 800 }));
        assert_eq!(report.settings["flink"], "2.2.1");
        let without = shell(r#"echo '{"records":1,"wall_s":1,"cpu_s":1}'"#).expect("no checkpoint is no fault");
        assert_eq!(without.checkpoints, None);
    }

    #[test]
    fn what_is_missing_is_said_in_place_of_the_figures() {
        let said = |script| shell(script).expect_err("no figures").to_string();
        assert_eq!(said("echo noise >&2; echo 'weir: there is no java' >&2; exit 69"), "not run: there is no java");
        assert_eq!(said("echo '{}'"), "not run: this is no line of figures: {}");
        assert_eq!(said("exit 1"), "not run: it said nothing");
    }

    #[test]
    fn flink_gets_the_records_of_the_sequence_connector() {
        // The job compares its own records with the number in its source at each start.
        let java = include_str!("../peers/flink/src/main/java/weir/bench/Sequence.java");
        let mut checksum = 0u64;
        let mut add =
            |bytes: &[u8]| bytes.iter().for_each(|&byte| checksum = checksum.wrapping_mul(31).wrapping_add(byte.into()));
        for i in (0..1000).map(|i| i * 0x0123_4567_89ab) {
            add(&key_number(7, 2_000_000, i).to_le_bytes());
            for length in [99, 100] {
                let mut value = [0; 100];
                write_value(&mut value[..length], i);
                add(&value[..length]);
            }
        }
        assert!(java.contains(&format!("CHECKSUM = {checksum:#x}L")), "Sequence.java is to be changed, and to say {checksum:#x}");
    }

    #[test]
    fn workloads_become_arguments() {
        let keyed = Workload::Keyed { backend: "rocksdb", keys: 5, interval: Duration::from_secs(1), managed_mib: None };
        assert_eq!(arguments(&keyed), ["keyed", "backend=rocksdb", "keys=5", "interval_ms=1000"]);
        let lines = Workload::Lines { file: "in.txt".into(), tuned: true };
        assert_eq!(arguments(&lines), ["lines", "file=in.txt", "tuned=1"]);
        let kafka = Workload::Kafka { brokers: "b:1".into(), output: "o".into(), exactly_once: false, counts: true };
        let expected = ["kafka-keyed", "backend=rocksdb", "brokers=b:1", "out=o", "guarantee=at-least-once"];
        assert_eq!(arguments(&kafka), expected);
    }
}
