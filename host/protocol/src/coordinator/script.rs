//! The language of the coordinator's table tests: a script of `event => effects` lines, run against the machine.
//!
//! Subtasks: `s` and `t` are sources, `k` is a sink, `all` stands for the three in this order. Times are seconds from the
//! start of the attempt, checkpoints are sequences of attempt 1, `0/7` is one of another attempt.
//!
//! Events, each after `@<now>`: `tick` · `ack N SUB [+uploaded] [=stored] [!transaction[<valid until]]` · `decline N SUB` ·
//! `fail SUB` · `end SUB` · `published N` · `unknown N` · `tombstone N` · `claim` · `suspend` · `swap` · `committed N`.

use super::{
    AbortReason, AckOutcome, CheckpointCoordinator, CheckpointKind, Committable, CompletedCheckpoint, CoordEffect, CoordEvent,
    CoordinatorConfig, FailOverReason,
};
use crate::ids::{CheckpointId, Generation, Lineage, SubtaskIndex, TransactionId};
use crate::mutant::Mutant;
use crate::shared::{FileOrigin, FileRef};
use crate::testkit::run_script;
use std::collections::BTreeSet;
use std::time::Duration;

pub const GENERATION: Generation = Generation(1);
const SUBTASKS: &str = "stk";

/// What a script starts from; [`Setup::default`] suits most.
pub struct Setup {
    pub max_concurrent: usize,
    pub tolerable_failures: u32,
    pub min_pause: u64,
    pub retain: usize,
    pub first_sequence: u32,
    /// Completed checkpoints of earlier attempts: sequence in attempt 0, files, transaction numbers.
    pub completed: &'static [(u32, &'static str, &'static [u64])],
    /// Which of them is restored.
    pub restored: Option<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            max_concurrent: 2,
            tolerable_failures: 3,
            min_pause: 0,
            retain: 1,
            first_sequence: 1,
            completed: &[],
            restored: None,
        }
    }
}

impl Setup {
    /// Interval 10 s, timeout 25 s.
    fn build(&self, mutant: Option<Mutant>) -> CheckpointCoordinator {
        let config = CoordinatorConfig {
            generation: GENERATION,
            first_sequence: self.first_sequence,
            sources: BTreeSet::from([subtask("s"), subtask("t")]),
            subtasks: SUBTASKS.chars().map(|name| subtask(&name.to_string())).collect(),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(25),
            min_pause: Duration::from_secs(self.min_pause),
            max_concurrent: self.max_concurrent,
            tolerable_failures: self.tolerable_failures,
            retain: self.retain,
        };
        let earlier = |sequence| CheckpointId::new(Generation(0), sequence);
        let completed: Vec<CompletedCheckpoint> = self
            .completed
            .iter()
            .map(|(sequence, files, transactions)| CompletedCheckpoint {
                checkpoint: earlier(*sequence),
                files: files.split_whitespace().map(str::to_owned).collect(),
                transactions: transactions.iter().map(|number| transaction(*number)).collect(),
            })
            .collect();
        let machine = CheckpointCoordinator::new(config, &completed, self.restored.map(earlier), Duration::ZERO);
        match mutant {
            Some(mutant) => machine.with_mutant(mutant),
            None => machine,
        }
    }

    /// Runs a script; the difference, if there is one.
    pub fn run(&self, script: &str, mutant: Option<Mutant>) -> Result<(), String> {
        let mut machine = self.build(mutant);
        run_script(script, |text| {
            let mut effects = Vec::new();
            for event in events(text) {
                let now = event.now();
                machine.handle(event, &mut effects);
                assert!(machine.next_deadline().is_none_or(|at| at > now), "a deadline that has passed was not acted upon");
            }
            effects.iter().map(show).collect()
        })
    }

    /// Runs a script that must hold.
    #[track_caller]
    pub fn check(&self, script: &str) {
        if let Err(difference) = self.run(script, None) {
            panic!("{difference}");
        }
    }

    /// Runs a script that must hold, and must not hold for a machine with this fault.
    #[track_caller]
    pub fn check_catches(&self, mutant: Mutant, script: &str) {
        self.check(script);
        assert!(self.run(script, Some(mutant)).is_err(), "{mutant:?} is not caught");
    }
}

fn subtask(name: &str) -> SubtaskIndex {
    SubtaskIndex(SUBTASKS.find(name).expect("s, t or k") as u32)
}

fn transaction(number: u64) -> TransactionId {
    TransactionId { lineage: Lineage(1), generation: GENERATION, sink: "k".to_owned(), writer: 0, number }
}

fn checkpoint(text: &str) -> CheckpointId {
    let (generation, sequence) = text.split_once('/').unwrap_or(("1", text));
    CheckpointId::new(Generation(generation.parse().expect("a number")), sequence.parse().expect("a number"))
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.parse().expect("seconds"))
}

fn events(text: &str) -> Vec<CoordEvent> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let now = seconds(words[0].strip_prefix('@').expect("@<now>"));
    let generation = GENERATION;
    match words[1..] {
        ["tick"] => vec![CoordEvent::Tick { now }],
        ["ack", n, "all"] => ["s", "t", "k"].map(|name| acknowledge(now, n, subtask(name), &[])).to_vec(),
        ["ack", n, "9", ref what @ ..] => vec![acknowledge(now, n, SubtaskIndex(9), what)],
        ["ack", n, name, ref what @ ..] => vec![acknowledge(now, n, subtask(name), what)],
        ["decline", n, name] => vec![CoordEvent::Decline { now, checkpoint: checkpoint(n), subtask: subtask(name) }],
        ["fail", name] => vec![CoordEvent::TaskFailed { now, generation, subtask: subtask(name) }],
        ["fail", "0", name] => vec![CoordEvent::TaskFailed { now, generation: Generation(0), subtask: subtask(name) }],
        ["end", name] => vec![CoordEvent::SourceEndOfData { now, generation, subtask: subtask(name) }],
        ["end", "0", name] => vec![CoordEvent::SourceEndOfData { now, generation: Generation(0), subtask: subtask(name) }],
        ["published", n] => vec![CoordEvent::Published { now, checkpoint: checkpoint(n) }],
        ["unknown", n] => vec![CoordEvent::PublishUnknown { now, checkpoint: checkpoint(n) }],
        ["tombstone", n] => vec![CoordEvent::TombstoneStands { now, checkpoint: checkpoint(n) }],
        ["claim"] => vec![CoordEvent::NewerClaim { now }],
        ["swap"] => vec![CoordEvent::RequestSwap { now }],
        ["suspend"] => vec![CoordEvent::RequestSuspend { now }],
        ["committed", n] => vec![CoordEvent::CommitsDone { now, checkpoint: checkpoint(n) }],
        _ => panic!("no such event: {text}"),
    }
}

fn acknowledge(now: Duration, n: &str, subtask: SubtaskIndex, what: &[&str]) -> CoordEvent {
    let mut files = Vec::new();
    let mut committables = Vec::new();
    for word in what {
        match word.split_at(1) {
            ("+", name) => files.push(FileRef { name: name.to_owned(), origin: FileOrigin::Uploaded }),
            ("=", name) => files.push(FileRef { name: name.to_owned(), origin: FileOrigin::Stored }),
            ("!", committable) => committables.push(match committable.split_once('<') {
                Some((number, until)) => Committable { id: transaction(parse(number)), valid_until: Some(seconds(until)) },
                None => Committable { id: transaction(parse(committable)), valid_until: None },
            }),
            _ => panic!("neither file nor transaction: {word}"),
        }
    }
    CoordEvent::Acknowledge { now, checkpoint: checkpoint(n), subtask, files, committables }
}

fn parse(number: &str) -> u64 {
    number.parse().expect("a transaction number")
}

fn name_of(subtask: SubtaskIndex) -> &'static str {
    ["s", "t", "k"].get(subtask.0 as usize).copied().unwrap_or("?")
}

fn join<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(" ")
}

/// Ids of attempt 1 by their sequence, others in full.
fn number(n: &CheckpointId) -> String {
    if n.generation() == GENERATION { n.sequence().to_string() } else { format!("{}/{}", n.generation(), n.sequence()) }
}

fn show(effect: &CoordEffect) -> String {
    match effect {
        CoordEffect::Acknowledged { checkpoint: _, subtask: _, outcome } => match outcome {
            AckOutcome::Accepted => "accepted".to_owned(),
            AckOutcome::Duplicate => "duplicate".to_owned(),
            AckOutcome::Late => "late".to_owned(),
            AckOutcome::Unknown => "no such".to_owned(),
            AckOutcome::StaleGeneration => "stale".to_owned(),
        },
        CoordEffect::InjectBarrier { checkpoint, kind, sources } => {
            assert_eq!(join(sources.iter().map(|source| name_of(*source))), "s t", "every source, ended or not");
            match kind {
                CheckpointKind::Periodic => format!("inject {}", number(checkpoint)),
                CheckpointKind::Swap => format!("inject {} swap", number(checkpoint)),
                CheckpointKind::Suspension => format!("inject {} suspension", number(checkpoint)),
                CheckpointKind::Final => format!("inject {} final", number(checkpoint)),
            }
        }
        CoordEffect::PublishManifest { checkpoint } => format!("publish {}", number(checkpoint)),
        CoordEffect::PutTombstone { checkpoint } => format!("withdraw {}", number(checkpoint)),
        CoordEffect::NotifyComplete { checkpoint } => format!("complete {}", number(checkpoint)),
        CoordEffect::Commit(permit) => {
            let transactions = join(permit.transactions().iter().map(|transaction| transaction.number));
            format!("permit {} [{transactions}]", number(&permit.checkpoint()))
        }
        CoordEffect::NotifyAborted { checkpoint, reason } => format!("abort {} {}", number(checkpoint), show_reason(reason)),
        CoordEffect::Subsume { checkpoint } => format!("subsume {}", number(checkpoint)),
        CoordEffect::ReleaseFiles { names } => format!("release {}", join(names)),
        CoordEffect::FailOver { reason } => match reason {
            FailOverReason::TaskFailed(subtask) => format!("fail over: {} failed", name_of(*subtask)),
            FailOverReason::TooManyAborts(n) => format!("fail over: aborts up to {}", number(n)),
            FailOverReason::Expired(n) => format!("fail over: {} expired", number(n)),
            FailOverReason::PublishUnknown(n) => format!("fail over: {} unknown", number(n)),
            FailOverReason::SwapAborted(n) => format!("fail over: swap {} aborted", number(n)),
            FailOverReason::SequenceExhausted => "fail over: no more ids".to_owned(),
        },
        CoordEffect::Fenced => "fenced".to_owned(),
        CoordEffect::Finished { checkpoint } => format!("finished {}", number(checkpoint)),
        CoordEffect::Suspended { checkpoint } => format!("suspended {}", number(checkpoint)),
    }
}

fn show_reason(reason: &AbortReason) -> String {
    match reason {
        AbortReason::Timeout => "timeout".to_owned(),
        AbortReason::Declined(subtask) => format!("declined by {}", name_of(*subtask)),
        AbortReason::Subsumed => "subsumed".to_owned(),
        AbortReason::FileGone(subtask) => format!("gone file of {}", name_of(*subtask)),
        AbortReason::OverBound(subtask) => format!("over bound of {}", name_of(*subtask)),
        AbortReason::Expired => "expired".to_owned(),
        AbortReason::Tombstone => "tombstone".to_owned(),
        AbortReason::FailOver => "fail over".to_owned(),
    }
}
