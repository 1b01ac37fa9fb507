//! What a drill has found, for people and for programs.

use super::Wish;
use super::outputs::Compared;
use crate::clock;
use crate::graph::JobGraph;
use serde::Serialize;

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

impl Round {
    /// Kills that came to pass.
    pub fn kills(&self) -> u32 {
        self.lives.iter().filter(|life| life.is_killed).count() as u32
    }

    /// Whether the output is that of the undisturbed run, and nothing dangles.
    pub fn is_exact(&self) -> bool {
        self.failure.is_none() && self.dangling.is_empty() && self.outputs.iter().all(Compared::is_same)
    }

    /// In a line.
    pub fn summary(&self) -> String {
        let Round { number, ms, .. } = self;
        let mut found = Vec::new();
        found.extend(self.failure.clone());
        for output in &self.outputs {
            let Compared { sink, got, lost, extra, .. } = output;
            found.push(match output.is_same() {
                true => format!("{sink}: {got} records, the same"),
                false => format!("{sink}: {lost} LOST, {extra} REPEATED OR WRONG"),
            });
        }
        if self.failure.is_none() {
            found.push(match &self.dangling[..] {
                [] => "no transaction dangles".to_owned(),
                names => format!("DANGLING: {}", names.join(", ")),
            });
        }
        format!("round {number}: {} kills in {:.1} s; {}", self.kills(), *ms as f64 / 1000.0, found.join("; "))
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
            format!("weir {}, begun {} ms after the Unix epoch, seed {}", self.weir, self.begun_ms, self.seed),
            String::new(),
            format!("Undisturbed: {:.1} s", self.undisturbed_ms as f64 / 1000.0),
        ];
        lines.extend(self.expected.iter().map(|(sink, records)| format!("  {sink}: {records} records committed")));
        for round in &self.rounds {
            lines.push(String::new());
            lines.push(round.summary());
            for (at, life) in round.lives.iter().enumerate() {
                lines.push(format!("  life {}: {}: {} after {} ms", at + 1, life.asked, life.ended, life.ms));
            }
            for output in &round.outputs {
                lines.push(format!("  {} in {}", output.sink, output.place));
                lines.extend(output.samples.iter().map(|sample| format!("    {sample}")));
            }
        }
        lines.push(String::new());
        let (kills, rounds) = (self.kills(), self.rounds.len());
        lines.push(match (&self.failure, self.is_passed()) {
            (Some(why), _) => format!("NOT PASSED: {why}"),
            (None, true) => {
                format!("PASSED: {kills} kills in {rounds} rounds; every record once, as undisturbed, and nothing dangles")
            }
            (None, false) => format!("NOT PASSED: {kills} kills in {rounds} rounds; the output differs, see above"),
        });
        if let Some(kept) = &self.kept {
            lines.push(format!("data, outputs and logs are kept in {kept}"));
        }
        if !self.topics.is_empty() {
            lines.push(format!("topics that are left: {}", self.topics.join(", ")));
        }
        lines
    }
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
        assert_eq!(round(0, &[]).summary(), "round 1: 1 kills in 1.5 s; out: 5 records, the same; no transaction dangles");
        assert!(!round(2, &[]).is_exact());
        assert!(round(2, &[]).summary().contains("out: 2 LOST, 0 REPEATED OR WRONG"));
        assert!(!round(0, &["t-1"]).is_exact());
        assert!(round(0, &["t-1"]).summary().contains("DANGLING: t-1"));
    }
}
