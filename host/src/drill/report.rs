//! What a drill has found, for people and for programs.

use super::Wish;
use super::outputs::Compared;
use crate::clock;
use crate::graph::units::{counted, show_utc};
use crate::graph::{JobGraph, KafkaCluster};
use serde::Serialize;
use std::collections::BTreeMap;

/// Why a round differs in which nothing was killed.
const BY_ITSELF: &str = "differs. Most likely the output depends on the order in which partitions or inputs are read, on the clock, or \
     on something outside, or the input grew meanwhile (see 'weir drill' in docs/guide.md)";

/// All of a drill.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The job.
    pub job: String,
    /// Its file.
    pub file: String,
    /// sha256 of that file's text.
    pub file_sha256: String,
    /// Version of Weir.
    pub weir: String,
    /// When it was begun, ms since the Unix epoch.
    pub begun_ms: u64,
    /// Of the kills: the same seed gives the same ones.
    pub seed: u64,
    /// Kills that were wanted.
    pub wanted: u32,
    /// How long the undisturbed run took.
    pub undisturbed_ms: u64,
    /// Records that it committed, by sink.
    pub expected: Vec<(String, u64)>,
    /// Runs with kills.
    pub rounds: Vec<Round>,
    /// Why the drill could not be done to its end.
    pub failure: Option<String>,
    /// The folder, if all of it was kept.
    pub kept: Option<String>,
    /// Topics that are left.
    pub topics: Vec<String>,
    /// Commands that delete them.
    pub removal: Vec<String>,
}

/// One run, from the beginning of the input to its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// 1, 2, …
    pub number: u32,
    /// Its processes.
    pub lives: Vec<Life>,
    /// How long it took.
    pub ms: u64,
    /// Of each sink.
    pub outputs: Vec<Compared>,
    /// Transactions without an end.
    pub dangling: Vec<String>,
    /// Why it did not come to its end.
    pub failure: Option<String>,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    /// When it was to be killed.
    pub asked: String,
    /// How it ended.
    pub ended: String,
    /// Whether it was killed.
    pub is_killed: bool,
    /// How long it took.
    pub ms: u64,
}

impl Life {
    /// In a line.
    pub fn summary(&self) -> String {
        format!("{}: {} after {} ms", self.asked, self.ended, self.ms)
    }
}

impl Round {
    /// Kills that came to pass.
    pub fn kills(&self) -> u32 {
        self.lives.iter().filter(|life| life.is_killed).count() as u32
    }

    /// Whether the output is that of the undisturbed run, and nothing dangles.
    pub fn is_exact(&self) -> bool {
        self.failure.is_none() && self.dangling.is_empty() && self.outputs.iter().all(Compared::is_same)
    }

    /// Whether the output differs, and no kill can be the reason.
    pub fn differs_by_itself(&self) -> bool {
        self.failure.is_none() && self.kills() == 0 && !self.outputs.iter().all(Compared::is_same)
    }

    /// In a line.
    pub fn summary(&self) -> String {
        let Round { number, ms, .. } = self;
        let mut found = Vec::new();
        found.extend(self.failure.clone());
        for output in &self.outputs {
            let Compared { sink, got, differing, lost, extra, .. } = output;
            found.push(match (output.is_same(), self.kills()) {
                (true, _) => format!("{sink}: {}, the same", counted(*got, "record", "records")),
                (false, 0) => format!(
                    "{sink}: not as in the undisturbed run, and not by a kill: {differing} differ, {lost} fewer, {extra} more"
                ),
                (false, _) => format!("{sink}: {differing} DIFFERENT, {lost} LOST, {extra} REPEATED OR WRONG"),
            });
        }
        if self.failure.is_none() {
            found.push(match &self.dangling[..] {
                [] => "no transaction dangles".to_owned(),
                names => format!("DANGLING: {}", names.join(", ")),
            });
        }
        let kills = counted(self.kills().into(), "kill", "kills");
        format!("round {number}: {kills} in {:.1} s; {}", *ms as f64 / 1000.0, found.join("; "))
    }

    /// Where the outputs lie, and some of the records that differ.
    fn findings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for output in &self.outputs {
            lines.push(format!("  {} in {}", output.sink, output.place));
            lines.extend(output.samples.iter().map(|sample| format!("    {sample}")));
        }
        lines
    }
}

impl Report {
    pub(super) fn new(wish: &Wish, graph: &JobGraph) -> Self {
        let text = std::fs::read(&wish.file).unwrap_or_default();
        Report {
            job: graph.name.clone(),
            file: wish.file.display().to_string(),
            file_sha256: crate::store::sha256_hex(&text),
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            begun_ms: clock::wall_ms(),
            seed: wish.seed,
            wanted: wish.kills,
            undisturbed_ms: 0,
            expected: Vec::new(),
            rounds: Vec::new(),
            failure: None,
            kept: None,
            topics: Vec::new(),
            removal: Vec::new(),
        }
    }

    /// Kills that came to pass.
    pub fn kills(&self) -> u32 {
        self.rounds.iter().map(Round::kills).sum()
    }

    /// Whether all kills were survived without a trace.
    pub fn is_passed(&self) -> bool {
        self.failure.is_none() && self.kills() >= self.wanted && self.rounds.iter().all(Round::is_exact)
    }

    /// The report as text.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("Drill of job '{}' ({}, sha256 {})", self.job, self.file, self.file_sha256),
            format!("weir {}, begun {}, seed {}", self.weir, show_utc(self.begun_ms as i64), self.seed),
            String::new(),
        ];
        lines.extend(self.undisturbed());
        for round in &self.rounds {
            lines.push(String::new());
            lines.push(round.summary());
            lines.extend(round.lives.iter().enumerate().map(|(at, life)| format!("  life {}: {}", at + 1, life.summary())));
            lines.extend(round.findings());
        }
        lines.push(String::new());
        lines.extend(self.end());
        lines
    }

    /// What the undisturbed run has given.
    pub fn undisturbed(&self) -> Vec<String> {
        let mut lines = vec![format!("Undisturbed: {:.1} s", self.undisturbed_ms as f64 / 1000.0)];
        let committed =
            |(sink, records): &(String, u64)| format!("  {sink}: {} committed", counted(*records, "record", "records"));
        lines.extend(self.expected.iter().map(committed));
        lines
    }

    /// The report for who has heard of each step: what differs, the verdict, and what is left.
    pub fn rest(&self) -> Vec<String> {
        let inexact = self.rounds.iter().filter(|round| !round.is_exact());
        inexact.flat_map(Round::findings).chain(self.end()).collect()
    }

    fn verdict(&self) -> String {
        let rounds = counted(self.rounds.len() as u64, "round", "rounds");
        let done = format!("{} in {rounds}", counted(self.kills().into(), "kill", "kills"));
        if let Some(why) = &self.failure {
            return format!("NOT PASSED: {why}");
        }
        if self.is_passed() {
            return format!("PASSED: {done}; every record once, as undisturbed, and nothing dangles");
        }
        let mut found = Vec::new();
        for round in self.rounds.iter().filter(|round| !round.is_exact()) {
            let number = round.number;
            found.extend(round.failure.as_ref().map(|why| format!("round {number}: {why}")));
            if round.differs_by_itself() {
                found.push(format!(
                    "this job can't be compared: nothing was killed in round {number}, and its output still {BY_ITSELF}"
                ));
            } else if !round.outputs.iter().all(Compared::is_same) {
                found.push("the output differs, see above".to_owned());
            }
            if !round.dangling.is_empty() {
                found.push(format!("round {number} leaves transactions without an end"));
            }
        }
        format!("NOT PASSED: {done}; {}", found.join("; "))
    }

    fn end(&self) -> Vec<String> {
        let mut lines = vec![self.verdict()];
        if let Some(kept) = &self.kept {
            lines.push(format!("data, outputs and logs are kept in {kept}"));
        }
        if !self.topics.is_empty() {
            lines.push(format!("topics that are left: {}", self.topics.join(", ")));
            lines.push("to remove them, when nobody needs them any more:".to_owned());
            lines.extend(self.removal.iter().map(|command| format!("  {command}")));
        }
        lines
    }
}

/// Commands that delete topics, one for each cluster.
pub(super) fn removal(topics: &[(KafkaCluster, String)]) -> Vec<String> {
    let mut clusters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (cluster, topic) in topics {
        clusters.entry(&cluster.brokers).or_default().push(topic);
    }
    let command = |(brokers, topics): (&str, Vec<&str>)| {
        format!("kafka-topics.sh --bootstrap-server {brokers} --delete --topic '{}'", topics.join(","))
    };
    clusters.into_iter().map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(lost: u64, dangling: &[&str]) -> Round {
        let life = |is_killed| Life { asked: "after 20 ms".into(), ended: "killed".into(), is_killed, ms: 20 };
        let output = Compared { sink: "out".into(), place: "/x".into(), expected: 5, got: 5 - lost, lost, ..Compared::default() };
        let dangling = dangling.iter().map(ToString::to_string).collect();
        Round { number: 1, lives: vec![life(true), life(false)], ms: 1500, outputs: vec![output], dangling, failure: None }
    }

    #[test]
    fn a_round_is_exact_or_says_why_not() {
        assert!(round(0, &[]).is_exact());
        assert_eq!(round(0, &[]).summary(), "round 1: 1 kill in 1.5 s; out: 5 records, the same; no transaction dangles");
        assert!(!round(2, &[]).is_exact());
        assert!(round(2, &[]).summary().contains("out: 0 DIFFERENT, 2 LOST, 0 REPEATED OR WRONG"));
        assert!(!round(0, &["t-1"]).is_exact());
        assert!(round(0, &["t-1"]).summary().contains("DANGLING: t-1"));
    }

    fn report(rounds: Vec<Round>) -> Report {
        Report {
            job: "j".into(),
            file: "job.toml".into(),
            file_sha256: "00".into(),
            weir: "0".into(),
            begun_ms: 1_796_058_707_367,
            seed: 1,
            wanted: 1,
            undisturbed_ms: 1500,
            expected: vec![("out".into(), 1)],
            rounds,
            failure: None,
            kept: None,
            topics: Vec::new(),
            removal: Vec::new(),
        }
    }

    #[test]
    fn a_difference_without_a_kill_is_not_put_down_to_one() {
        let mut quiet = round(2, &[]);
        quiet.lives.remove(0);
        let summary = quiet.summary();
        assert!(summary.contains("0 kills") && summary.contains("not by a kill: 0 differ, 2 fewer, 0 more"), "{summary}");
        assert!(!summary.contains("LOST"), "{summary}");
        let verdict = report(vec![quiet]).verdict();
        assert!(verdict.starts_with("NOT PASSED: 0 kills in 1 round; this job can't be compared"), "{verdict}");
        assert!(verdict.contains("nothing was killed in round 1") && verdict.contains("order in which partitions"), "{verdict}");
        let verdict = report(vec![round(2, &["t-1"])]).verdict();
        let found = "the output differs, see above; round 1 leaves transactions without an end";
        assert_eq!(verdict, format!("NOT PASSED: 1 kill in 1 round; {found}"));
    }

    #[test]
    fn who_has_heard_of_each_step_hears_the_rest_once() {
        let mut failed = report(vec![round(0, &[]), round(2, &[])]);
        failed.rounds[1].outputs[0].samples.push("lost: 'x'".into());
        let all = failed.lines();
        assert!(all.iter().any(|line| line.contains("begun 2026-11-30 17:")), "{all:?}");
        assert!(all.contains(&"  out: 1 record committed".to_owned()), "{all:?}");
        let verdict = "NOT PASSED: 2 kills in 2 rounds; the output differs, see above";
        assert_eq!(failed.rest(), ["  out in /x", "    lost: 'x'", verdict]);
        assert_eq!(all[all.len() - 4..], [&failed.rest()[..2], &["".to_owned(), verdict.to_owned()]].concat());
    }

    #[test]
    fn topics_are_removed_where_they_lie() {
        let cluster =
            |brokers: &str| KafkaCluster { brokers: brokers.to_owned(), tls: None, sasl: None, options: BTreeMap::new() };
        let topics = [(cluster("a:1"), "x".to_owned()), (cluster("b:1"), "z".to_owned()), (cluster("a:1"), "y".to_owned())];
        let expected = [
            "kafka-topics.sh --bootstrap-server a:1 --delete --topic 'x,y'",
            "kafka-topics.sh --bootstrap-server b:1 --delete --topic 'z'",
        ];
        assert_eq!(removal(&topics), expected);
    }
}
