//! `weir drill`: kills a job again and again, and holds what it has committed against what it commits undisturbed.
//!
//! Every run has a folder, topics and transactions of its own. A *round* is a run from the beginning to the end of the input with
//! kills in between; a short input takes several. What is compared is what readers see: files and topics, as multisets.

mod life;
mod outputs;
mod plan;
mod record;
mod redirect;
mod report;

pub use outputs::Compared;
pub use redirect::redirect;
pub use report::{Life, Report, Round};

use crate::clock;
use crate::connectors::kafka_drill;
use crate::graph::units::counted;
use crate::graph::{JobGraph, KafkaCluster, Problem, SinkConnectorSpec};
use life::{Ended, Job};
use outputs::{Multiset, is_comparable};
use plan::{Kill, Plan};
use report::removal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rounds without a kill, after which the input is called too short.
const EMPTY_ROUNDS: u32 = 12;
/// How long transactions may take to end after a round.
const DANGLING_PATIENCE: Duration = Duration::from_secs(5);

/// What to drill.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The job file.
    pub file: PathBuf,
    /// Kills to be done.
    pub kills: u32,
    /// Of the kills.
    pub seed: u64,
    /// Where all of it lies.
    pub folder: PathBuf,
    /// Whether folders and topics stay.
    pub keep: bool,
}

/// Drills a job. `say`: hears of each step.
pub fn drill(wish: &Wish, graph: &JobGraph, say: &mut dyn FnMut(String)) -> Result<Report, Vec<Problem>> {
    let refusals = redirect::refusals(graph);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    make_folder(&wish.folder).map_err(|problem| vec![problem])?;
    let weir = std::env::current_exe().map_err(|error| vec![Problem::new("weir", error.to_string(), "")])?;
    let mut drill = Drill { wish, graph, weir, id: format!("{:08x}", uuid::Uuid::new_v4().as_fields().0), topics: Vec::new() };
    let mut report = Report::new(wish, graph);
    let done = drill.run(&mut report, say);
    if let Err(why) = done {
        report.failure = Some(why);
    }
    let keep = wish.keep || !report.is_passed();
    report.kept = keep.then(|| wish.folder.display().to_string());
    drill.tidy(keep, &mut report);
    let text = report.lines().join("\n") + "\n";
    if let Err(error) = std::fs::create_dir_all(&wish.folder).and_then(|()| std::fs::write(wish.folder.join("report.txt"), text))
    {
        report.failure.get_or_insert(format!("the report can't be written: {error}"));
    }
    Ok(report)
}

fn make_folder(folder: &Path) -> Result<(), Problem> {
    let problem = |what: String| Problem::new(folder.display().to_string(), what, "give another --dir, or remove it");
    // A report of the last time is no reason to stop.
    let _ = std::fs::remove_file(folder.join("report.txt"));
    std::fs::create_dir_all(folder).map_err(|error| problem(error.to_string()))?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| problem(error.to_string()))?;
    if entries.next().is_some() { Err(problem("the drill's folder is not empty".to_owned())) } else { Ok(()) }
}

struct Drill<'w> {
    wish: &'w Wish,
    graph: &'w JobGraph,
    weir: PathBuf,
    /// Tells this drill's topics from another's.
    id: String,
    /// Made for this drill.
    topics: Vec<(KafkaCluster, String)>,
}

impl Drill<'_> {
    fn run(&mut self, report: &mut Report, say: &mut dyn FnMut(String)) -> Result<(), String> {
        say(format!("drill of job '{}', seed {}: running it undisturbed, for comparison", self.graph.name, self.wish.seed));
        let (oracle, oracle_graph) = self.prepare("oracle")?;
        let log = oracle.folder.join("run.log");
        let (ended, length) = oracle.live(None, &log).map_err(|error| format!("the job can't be started: {error}"))?;
        if ended != Ended::Exit(0) {
            return Err(format!("undisturbed, the job ends with {}: see {}", word(ended, None), log.display()));
        }
        report.undisturbed_ms = length.as_millis() as u64;
        let mut expected = Vec::new();
        for sink in oracle_graph.sinks.iter().filter(|sink| is_comparable(sink)) {
            let all = Multiset::of(sink).map_err(|error| error.message)?;
            report.expected.push((sink.name.clone(), all.records()));
            expected.push((sink, all));
        }
        if expected.iter().all(|(_, all)| all.records() == 0) {
            let (read, why) = match records_read(&oracle_graph, &log) {
                Some(0) => ("0 records were read".to_owned(), "is the input empty, or deleted by retention?"),
                Some(read) => (
                    format!("{} read", counted(read, "record was", "records were")),
                    "does the job drop them all, or still wait for more?",
                ),
                None => (format!("see {}", log.display()), "has it any input?"),
            };
            return Err(format!("undisturbed, the job commits nothing: there is nothing to compare; {read}: {why}"));
        }
        report.undisturbed().into_iter().for_each(&mut *say);
        let mut plan = Plan::new(self.wish.seed, self.graph.checkpoint.interval, length);
        let mut empty = 0;
        while report.kills() < self.wish.kills && report.rounds.iter().all(Round::is_exact) {
            let number = report.rounds.len() as u32 + 1;
            let (job, graph) = self.prepare(&format!("round-{number}"))?;
            let mut round = self.round(number, &job, &mut plan, self.wish.kills - report.kills(), say)?;
            empty = if round.kills() == 0 { empty + 1 } else { 0 };
            if round.failure.is_none() {
                for (undisturbed, all) in &expected {
                    let sink = graph.sinks.iter().find(|sink| sink.name == undisturbed.name).expect("it is the same job");
                    round.outputs.push(all.compare(undisturbed, sink).map_err(|error| error.message)?);
                }
                round.dangling = dangling(&job)?;
            }
            say(round.summary());
            report.rounds.push(round);
            if empty == EMPTY_ROUNDS {
                let why = "it ends before it can be killed: give it more input, or hold its source back with 'rate'";
                return Err(format!("{} of {} kills came to pass: {why}", report.kills(), self.wish.kills));
            }
        }
        Ok(())
    }

    /// Folder and topics of one run.
    fn prepare(&mut self, label: &str) -> Result<(Job, JobGraph), String> {
        let folder = self.wish.folder.join(format!("{}-{label}", self.id));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut graph = self.graph.clone();
        redirect(&mut graph, &folder);
        for (own, redirected) in self.graph.sinks.iter().zip(&graph.sinks) {
            if let (SinkConnectorSpec::Kafka(own), SinkConnectorSpec::Kafka(redirected)) = (&own.connector, &redirected.connector)
            {
                let (Some(like), Some(topic)) = (&own.topic, &redirected.topic) else { continue };
                kafka_drill::create_like(&own.cluster, like, topic).map_err(|error| error.message)?;
                self.topics.push((own.cluster.clone(), topic.clone()));
            }
        }
        Ok((Job { weir: self.weir.clone(), file: self.wish.file.clone(), folder }, graph))
    }

    /// Lives of one run, the last of which ends by itself.
    fn round(
        &self,
        number: u32,
        job: &Job,
        plan: &mut Plan,
        kills_left: u32,
        say: &mut dyn FnMut(String),
    ) -> Result<Round, String> {
        let mut round = Round { number, ..Round::default() };
        let begun = clock::monotonic();
        loop {
            let life = round.lives.len() + 1;
            let kill = (round.kills() < kills_left).then(|| plan.draw());
            let log = job.folder.join(format!("life-{life}.log"));
            let (ended, length) = job.live(kill.as_ref(), &log).map_err(|error| format!("the job can't be started: {error}"))?;
            let asked = kill.as_ref().map_or("to its end".to_owned(), ToString::to_string);
            let is_killed = matches!(ended, Ended::Killed | Ended::KilledLate);
            let lived = Life { asked, ended: word(ended, kill.as_ref()), is_killed, ms: length.as_millis() as u64 };
            say(format!("round {number}, life {life}: {}", lived.summary()));
            round.lives.push(lived);
            match (ended, &kill) {
                (Ended::Killed | Ended::KilledLate, Some(_)) => continue,
                (Ended::Exit(0), _) => {}
                (Ended::Exit(_), _) => {
                    round.failure = Some(format!("life {life} ended with {}: see {}", word(ended, None), log.display()));
                }
                (Ended::Killed | Ended::KilledLate, None) => {
                    round.failure = Some(format!("life {life} was killed by somebody else: see {}", log.display()));
                }
            }
            round.ms = (clock::monotonic() - begun).as_millis() as u64;
            return Ok(round);
        }
    }

    /// Removes what was made, but for the report, or for all of it.
    fn tidy(&self, keep: bool, report: &mut Report) {
        if keep {
            report.topics = self.topics.iter().map(|(_, topic)| topic.clone()).collect();
            report.removal = removal(&self.topics);
            return;
        }
        let mut left = Vec::new();
        for (cluster, topic) in &self.topics {
            if let Err(error) = kafka_drill::delete(cluster, std::slice::from_ref(topic)) {
                left.push((cluster.clone(), topic.clone()));
                tracing::warn!("a topic of the drill is left: {error}");
            }
        }
        report.topics = left.iter().map(|(_, topic)| topic.clone()).collect();
        report.removal = removal(&left);
        let folders = std::fs::read_dir(&self.wish.folder).into_iter().flatten().flatten();
        for folder in folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(&self.id)) {
            if let Err(error) = std::fs::remove_dir_all(folder.path()) {
                tracing::warn!("{} is left: {error}", folder.path().display());
            }
        }
    }
}

/// `kill`: the one that was to come.
fn word(ended: Ended, kill: Option<&Kill>) -> String {
    match (ended, kill) {
        (Ended::Exit(0), Some(Kill::Point { .. })) => "exit code 0, the point was not passed that often in this life,".to_owned(),
        (Ended::Exit(0), Some(Kill::Moment(_))) => "exit code 0, before it was time,".to_owned(),
        (Ended::Exit(code), _) => format!("exit code {code}"),
        (Ended::Killed, _) => "killed".to_owned(),
        (Ended::KilledLate, _) => "not passed that often in time, so killed".to_owned(),
    }
}

/// How many records the sources of a run have read; none if its result does not say so.
fn records_read(graph: &JobGraph, log: &Path) -> Option<u64> {
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(life::result(log)).ok()?).ok()?;
    let stages = document["progress"]["stages"].as_array()?;
    // A chain begins with its source.
    let is_source = |name: &str| graph.sources.iter().any(|source| name.split(" → ").next() == Some(&source.name));
    stages.iter().filter(|stage| stage["name"].as_str().is_some_and(is_source)).map(|stage| stage["records_in"].as_u64()).sum()
}

/// Names of transactions without an end, some seconds after the last life.
fn dangling(job: &Job) -> Result<Vec<String>, String> {
    let until = clock::monotonic() + DANGLING_PATIENCE;
    loop {
        let mut command = job.command(&["txn", "list", "--json"]);
        let answer = command.output().map_err(|error| format!("weir txn list can't be started: {error}"))?;
        let document: serde_json::Value = serde_json::from_slice(&answer.stdout)
            .map_err(|_| format!("weir txn list: {}", String::from_utf8_lossy(&answer.stderr)))?;
        let Some(sinks) = document["sinks"].as_array() else {
            return Err(format!("weir txn list: {}", String::from_utf8_lossy(&answer.stderr)));
        };
        if let Some(failure) = sinks.iter().find_map(|sink| sink["failure"].as_str()) {
            return Err(format!("weir txn list: {failure}"));
        }
        let rows = sinks.iter().filter_map(|sink| sink["transactions"].as_array()).flatten();
        let names: Vec<String> = rows.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect();
        if names.is_empty() || clock::monotonic() >= until {
            return Ok(names);
        }
    }
}
