//! Every cell of the commit table as a named case, and every invariant as an assertion that holds or fires.
//!
//! A transaction is written `w.n` (writer, number) in generation 2, `g:w.n` in generation g.

use super::coordinator::{AbortOutcome, Call, CommitCoordinator, CommitOutcome, Effect, Event, LossReason, RetryPolicy};
use crate::coordinator::CommitPermit;
use crate::mutant::{Mutant, Mutation};
use crate::{CheckpointId, Generation, Lineage, TransactionId};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) const GENERATION: Generation = Generation(2);

pub(super) fn tx(text: &str) -> TransactionId {
    let (generation, rest) = text.split_once(':').unwrap_or(("2", text));
    let (writer, number) = rest.split_once('.').expect("w.n");
    TransactionId {
        lineage: Lineage(7),
        generation: Generation(generation.parse().expect("a generation")),
        sink: "out".to_owned(),
        writer: writer.parse().expect("a writer"),
        number: number.parse().expect("a number"),
    }
}

pub(super) fn txs(text: &str) -> Vec<TransactionId> {
    text.split_whitespace().map(tx).collect()
}

fn short(id: &TransactionId) -> String {
    let of_sink = if id.sink == "out" { String::new() } else { format!("{}/", id.sink) };
    let of_generation = if id.generation == GENERATION { String::new() } else { format!("{}:", id.generation) };
    format!("{of_sink}{of_generation}{}.{}", id.writer, id.number)
}

fn list(ids: &[TransactionId]) -> String {
    ids.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Commit { call, transactions } => format!("commit #{} {}", call.0, list(transactions)),
        Effect::AskStatus { call, transactions } => format!("ask #{} {}", call.0, list(transactions)),
        Effect::Abort { call, transactions } => format!("abort #{} {}", call.0, list(transactions)),
        Effect::Committed { transactions } => format!("committed {}", list(transactions)),
        Effect::PermitDone { checkpoint } => format!("done {checkpoint}"),
        Effect::RecoveryCommitted => "recovery committed".to_owned(),
        Effect::RecoveryAborted => "recovery aborted".to_owned(),
        Effect::Replayed { transaction } => format!("replayed {}", short(transaction)),
        Effect::FoundCommitted { transactions } => format!("found committed {}", list(transactions)),
        Effect::Forget { transactions } => format!("forget {}", list(transactions)),
        Effect::Lost { transaction, reason: LossReason::Lost(why) } => format!("lost {}: {why}", short(transaction)),
        Effect::Lost { transaction, reason: LossReason::Exhausted(why) } => format!("exhausted {}: {why}", short(transaction)),
        Effect::AbortFailed { transactions, reason } => format!("abort failed {}: {reason}", list(transactions)),
        Effect::WakeAt { at } => format!("wake at {}", at.as_secs()),
    }
}

/// Runs a machine against a script; times are whole seconds.
struct Script {
    machine: CommitCoordinator,
    now: Duration,
}

impl Script {
    fn new() -> Self {
        let policy = RetryPolicy { attempts: 3, first_delay: Duration::from_secs(1), max_delay: Duration::from_secs(3) };
        Script { machine: CommitCoordinator::new(GENERATION, "out", policy), now: Duration::ZERO }
    }

    /// One whose recovery had nothing to do.
    fn running() -> Self {
        let mut script = Script::new();
        script.recover("", "", "", "recovery committed; recovery aborted");
        script
    }

    fn mutated(mut self, mutant: Mutant) -> Self {
        self.machine = self.machine.with_mutation(Mutation::of(mutant));
        self
    }

    #[track_caller]
    fn event(&mut self, event: Event, expected: &str) {
        let mut effects = Vec::new();
        self.machine.handle(event, &mut effects);
        let shown: Vec<String> = effects.iter().map(show).collect();
        assert_eq!(shown.join("; "), expected);
    }

    #[track_caller]
    fn recover(&mut self, contained: &str, known: &str, dangling: &str, expected: &str) {
        self.recover_event(contained, "", known, txs(dangling), expected);
    }

    #[track_caller]
    fn recover_event(&mut self, contained: &str, replayed: &str, known: &str, dangling: Vec<TransactionId>, expected: &str) {
        let event = Event::Recover {
            now: self.now,
            contained: txs(contained),
            replayed: txs(replayed).into_iter().collect(),
            known_committed: txs(known).into_iter().collect(),
            dangling,
            up_to: GENERATION,
        };
        self.event(event, expected);
    }

    #[track_caller]
    fn permit(&mut self, sequence: u32, contains: &str, expected: &str) {
        self.permit_of(CheckpointId::new(GENERATION, sequence), txs(contains), expected);
    }

    #[track_caller]
    fn permit_of(&mut self, checkpoint: CheckpointId, contains: Vec<TransactionId>, expected: &str) {
        self.event(Event::Permit { now: self.now, permit: CommitPermit::forged(checkpoint, contains) }, expected);
    }

    #[track_caller]
    fn answer(&mut self, call: u32, outcomes: &str, expected: &str) {
        self.event(Event::CommitAnswered { now: self.now, call: Call(call), outcomes: outcomes_of(outcomes) }, expected);
    }

    #[track_caller]
    fn status(&mut self, call: u32, outcomes: &str, expected: &str) {
        self.event(Event::StatusAnswered { now: self.now, call: Call(call), outcomes: outcomes_of(outcomes) }, expected);
    }

    #[track_caller]
    fn aborted(&mut self, call: u32, outcomes: &str, expected: &str) {
        let outcomes = outcomes.split_whitespace().map(|word| match word {
            "aborted" => AbortOutcome::Aborted,
            "committed" => AbortOutcome::Committed,
            "retry" => AbortOutcome::Retryable("busy".to_owned()),
            other => panic!("{other} is no outcome of an abort"),
        });
        self.event(Event::AbortAnswered { now: self.now, call: Call(call), outcomes: outcomes.collect() }, expected);
    }

    #[track_caller]
    fn tick(&mut self, second: u64, expected: &str) {
        self.now = Duration::from_secs(second);
        self.event(Event::Tick { now: self.now }, expected);
    }
}

fn outcomes_of(text: &str) -> Vec<CommitOutcome> {
    let outcome = |word: &str| match word {
        "ok" => CommitOutcome::Committed,
        "already" => CommitOutcome::AlreadyCommitted,
        "retry" => CommitOutcome::Retryable("busy".to_owned()),
        "unknown" => CommitOutcome::Unknown("no answer".to_owned()),
        "lost" => CommitOutcome::Lost("expired".to_owned()),
        other => panic!("{other} is no outcome of a commit"),
    };
    text.split_whitespace().map(outcome).collect()
}

// Prepared(n) × CommitPermit(m)

#[test]
fn a_permit_commits_what_its_manifest_contains() {
    let mut s = Script::running();
    s.permit(1, "0.1 1.1", "commit #1 0.1; commit #2 1.1");
    s.answer(2, "ok", "committed 1.1");
    s.answer(1, "ok", "committed 0.1; done 2-1");
}

/// (h) Nobody commits by comparing ids: 0.2 was prepared at an earlier barrier than this permit's, and is not in it.
#[test]
fn a_permit_does_not_commit_what_it_does_not_contain() {
    let mut s = Script::running();
    s.permit(3, "0.1", "commit #1 0.1");
    s.answer(1, "ok", "committed 0.1; done 2-3");
}

#[test]
fn a_permit_for_nothing_is_done_at_once() {
    let mut s = Script::running();
    s.permit(1, "", "done 2-1");
}

#[test]
fn a_permit_passes_over_other_sinks() {
    let mut s = Script::running();
    let other = TransactionId { sink: "audit".to_owned(), ..tx("0.1") };
    s.permit_of(CheckpointId::new(GENERATION, 1), vec![other], "done 2-1");
}

#[test]
fn a_permit_of_another_generation_or_a_repeated_one_is_dropped() {
    let mut s = Script::running();
    s.permit_of(CheckpointId::new(Generation(1), 9), txs("1:0.1"), "");
    s.permit_of(CheckpointId::new(Generation(3), 1), txs("3:0.1"), "");
    s.permit(2, "0.1", "commit #1 0.1");
    s.permit(2, "0.1", "");
    s.permit(1, "0.1", "");
}

// Prepared(n) × checkpoint n aborted: it rides, and the next permit that contains it commits it, in order.

#[test]
fn what_rode_is_committed_before_what_was_prepared_later() {
    let mut s = Script::running();
    s.permit(2, "0.1 0.2", "commit #1 0.1 0.2");
    s.answer(1, "ok ok", "committed 0.1 0.2; done 2-2");
}

// Committing(k)

#[test]
fn already_committed_is_committed() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "already", "committed 0.1; done 2-1");
}

#[test]
fn retryable_backs_off_and_asks_before_it_commits_again() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "retry", "wake at 1");
    s.tick(0, "");
    s.tick(1, "ask #2 0.1");
    s.status(2, "retry", "commit #3 0.1");
    s.answer(3, "ok", "committed 0.1; done 2-1");
}

#[test]
fn unknown_backs_off_and_asks_before_it_commits_again() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "unknown", "wake at 1");
    s.tick(1, "ask #2 0.1");
    s.status(2, "ok", "committed 0.1; done 2-1");
}

#[test]
fn an_unknown_status_backs_off_for_longer_up_to_the_limit() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "unknown", "wake at 1");
    s.tick(1, "ask #2 0.1");
    s.status(2, "unknown", "wake at 3");
    s.tick(3, "ask #3 0.1");
    s.status(3, "unknown", "exhausted 0.1: no answer");
}

#[test]
fn attempts_are_used_up_and_nothing_is_called_after() {
    let mut s = Script::running();
    s.permit(1, "0.1 0.2", "commit #1 0.1 0.2");
    s.answer(1, "retry", "wake at 1");
    s.tick(1, "ask #2 0.1");
    s.status(2, "retry", "commit #3 0.1 0.2");
    s.answer(3, "retry", "wake at 3");
    s.tick(3, "ask #4 0.1");
    s.status(4, "retry", "commit #5 0.1 0.2");
    s.answer(5, "retry", "exhausted 0.1: busy");
    s.tick(100, "");
    s.permit(2, "0.1 0.2 0.3", "");
}

#[test]
fn lost_stops_loudly() {
    let mut s = Script::running();
    s.permit(1, "0.1 0.2", "commit #1 0.1 0.2");
    s.answer(1, "lost", "lost 0.1: expired");
    s.tick(100, "");
}

#[test]
fn a_status_of_lost_stops_loudly() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "unknown", "wake at 1");
    s.tick(1, "ask #2 0.1");
    s.status(2, "lost", "lost 0.1: expired");
}

#[test]
fn progress_starts_the_count_anew_and_the_rest_of_a_run_is_not_counted() {
    let mut s = Script::running();
    s.permit(1, "0.1 0.2 0.3", "commit #1 0.1 0.2 0.3");
    s.answer(1, "retry retry retry", "wake at 1");
    s.tick(1, "ask #2 0.1");
    s.status(2, "ok", "committed 0.1; commit #3 0.2 0.3");
    s.answer(3, "retry retry", "wake at 2");
    s.tick(2, "ask #4 0.2");
    s.status(4, "retry", "commit #5 0.2 0.3");
    s.answer(5, "ok ok", "committed 0.2 0.3; done 2-1");
}

#[test]
fn answers_that_are_missing_are_unknown() {
    let mut s = Script::running();
    s.permit(1, "0.1 0.2", "commit #1 0.1 0.2");
    s.answer(1, "ok", "committed 0.1; wake at 1");
}

#[test]
fn an_answer_to_another_call_is_dropped() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(9, "lost", "");
    s.status(1, "lost", "");
    s.answer(1, "ok", "committed 0.1; done 2-1");
    s.answer(1, "lost", "");
}

/// (h) n+1 waits for n.
#[test]
fn a_later_permit_waits_for_the_earlier_one_of_its_writer() {
    let mut s = Script::running();
    s.permit(1, "0.1 1.1", "commit #1 0.1; commit #2 1.1");
    s.permit(2, "0.1 0.2 1.1 1.2", "");
    s.answer(2, "ok", "committed 1.1; commit #3 1.2");
    s.answer(3, "ok", "committed 1.2");
    s.answer(1, "ok", "committed 0.1; done 2-1; commit #4 0.2");
    s.answer(4, "ok", "committed 0.2; done 2-2");
}

/// T5: the snapshot was taken before the writer knew that it is committed.
#[test]
fn what_a_later_permit_contains_again_is_not_committed_again() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "ok", "committed 0.1; done 2-1");
    s.permit(2, "0.1 0.2", "commit #2 0.2");
    s.answer(2, "ok", "committed 0.2; done 2-2");
}

// Committed

/// One more checkpoint than the newest: if that one can't be read, the one before it is what a resume commits.
#[test]
fn committed_is_forgotten_when_two_checkpoints_no_longer_contain_it() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "ok", "committed 0.1; done 2-1");
    s.permit(2, "", "done 2-2");
    s.permit(3, "", "forget 0.1; done 2-3");
    s.permit(4, "", "done 2-4");
}

#[test]
fn finished_forgets_everything() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.answer(1, "ok", "committed 0.1; done 2-1");
    s.event(Event::Finished, "forget 0.1");
    s.event(Event::Finished, "");
}

// Recovery

#[test]
fn a_recovery_commits_then_aborts_the_rest_then_runs() {
    let mut s = Script::new();
    s.recover("1:0.4 1:0.5", "", "1:0.4 1:0.5 1:0.6 1:3.2", "commit #1 1:0.4 1:0.5");
    s.answer(1, "already ok", "committed 1:0.4 1:0.5; recovery committed; abort #2 1:0.6 1:3.2");
    s.aborted(2, "aborted aborted", "recovery aborted");
    s.permit(1, "0.1", "commit #3 0.1");
}

/// (h) What an older checkpoint contains and the newest does not is committed: the outside may have forgotten it.
#[test]
fn what_is_known_committed_is_neither_committed_nor_aborted() {
    let mut s = Script::new();
    s.recover("", "1:0.4", "1:0.4", "recovery committed; recovery aborted");
    s.permit(1, "", "done 2-1");
    s.permit(2, "", "forget 1:0.4; done 2-2");
}

/// (h) A process that stalled between its claim and its recovery.
#[test]
fn a_recovery_does_not_touch_a_newer_generation() {
    let mut s = Script::new();
    s.recover("", "", "1:0.1 3:0.1", "recovery committed; abort #1 1:0.1");
}

#[test]
fn mutant_abort_newer_generations_is_caught() {
    let mut s = Script::new().mutated(Mutant::AbortNewerGenerations);
    s.recover("", "", "1:0.1 3:0.1", "recovery committed; abort #1 1:0.1 3:0.1");
}

#[test]
fn mutant_no_commit_on_recovery_is_caught() {
    let mut s = Script::new().mutated(Mutant::NoCommitOnRecovery);
    s.recover("1:0.1", "", "", "recovery committed; recovery aborted");
}

#[test]
fn a_recovery_aborts_other_lineages_and_no_other_sinks() {
    let mut s = Script::new();
    let older = TransactionId { lineage: Lineage(1), ..tx("1:0.1") };
    let other = TransactionId { sink: "audit".to_owned(), ..tx("1:0.1") };
    s.recover_event("", "", "", vec![older, other], "recovery committed; abort #1 1:0.1");
}

#[test]
fn nothing_is_aborted_before_everything_is_committed() {
    let mut s = Script::new();
    s.recover("1:0.4 1:1.1", "", "1:0.6", "commit #1 1:0.4; commit #2 1:1.1");
    s.answer(1, "ok", "committed 1:0.4");
    s.answer(2, "retry", "wake at 1");
    s.tick(1, "ask #3 1:1.1");
    s.status(3, "ok", "committed 1:1.1; recovery committed; abort #4 1:0.6");
}

#[test]
fn an_abort_is_tried_again_and_what_is_found_committed_is_told_and_forgotten() {
    let mut s = Script::new();
    s.recover("", "", "1:0.1 1:0.2 1:0.3", "recovery committed; abort #1 1:0.1 1:0.2 1:0.3");
    s.aborted(1, "aborted committed retry", "found committed 1:0.2; forget 1:0.2; wake at 1");
    s.tick(1, "abort #2 1:0.3");
    s.aborted(1, "aborted", "");
    s.aborted(2, "", "wake at 3");
    s.tick(3, "abort #3 1:0.3");
    s.aborted(3, "retry", "abort failed 1:0.3: busy");
    s.tick(100, "");
}

#[test]
fn lost_in_a_recovery_stops_loudly() {
    let mut s = Script::new();
    s.recover("1:0.1", "", "1:0.9", "commit #1 1:0.1");
    s.answer(1, "lost", "lost 1:0.1: expired");
}

/// The way out after exit 3: a start before the lost transaction reads its records again.
#[test]
fn lost_is_no_loss_if_its_records_are_read_again() {
    let mut s = Script::new();
    s.recover_event("1:0.1 1:0.2 1:0.3", "1:0.1 1:0.2 1:0.3", "", txs(""), "commit #1 1:0.1 1:0.2 1:0.3");
    s.answer(1, "lost retry retry", "replayed 1:0.1; commit #2 1:0.2 1:0.3");
    s.answer(2, "ok unknown", "committed 1:0.2; wake at 1");
    s.tick(1, "ask #3 1:0.3");
    s.status(3, "lost", "replayed 1:0.3; recovery committed; recovery aborted");
}

#[test]
fn a_repeated_recovery_is_dropped() {
    let mut s = Script::running();
    s.recover("1:0.1", "", "1:0.2", "");
}

// Assertions

#[test]
#[should_panic(expected = "T2")]
fn t2_what_the_recovery_decided_is_not_permitted() {
    Script::running().permit(1, "1:0.1", "");
}

#[test]
#[should_panic(expected = "T3")]
fn t3_no_permit_during_the_recovery() {
    let mut s = Script::new();
    s.recover("1:0.1", "", "", "commit #1 1:0.1");
    s.permit(1, "0.1", "");
}

#[test]
#[should_panic(expected = "T3")]
fn t3_a_recovery_up_to_a_newer_generation() {
    let mut s = Script::new();
    let (contained, dangling, known_committed) = (Vec::new(), Vec::new(), BTreeSet::new());
    let up_to = Generation(3);
    let replayed = BTreeSet::new();
    s.event(Event::Recover { now: s.now, contained, replayed, known_committed, dangling, up_to }, "");
}

#[test]
#[should_panic(expected = "T4")]
fn t4_a_permit_that_leaves_out_what_is_not_committed() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.permit(2, "0.2", "");
}

#[test]
#[should_panic(expected = "T4")]
fn t4_finished_before_everything_is_committed() {
    let mut s = Script::running();
    s.permit(1, "0.1", "commit #1 0.1");
    s.event(Event::Finished, "");
}

#[test]
#[should_panic(expected = "T5")]
fn t5_what_is_known_committed_is_not_called_for() {
    Script::new().recover("1:0.1", "1:0.1", "", "");
}

#[test]
#[should_panic(expected = "T6")]
fn t6_a_recovery_out_of_order() {
    Script::new().recover("1:0.2 1:0.1", "", "", "");
}

#[test]
#[should_panic(expected = "T6")]
fn t6_a_permit_names_something_prepared_before_what_was_committed() {
    let mut s = Script::running();
    s.permit(1, "0.2", "commit #1 0.2");
    s.answer(1, "ok", "committed 0.2; done 2-1");
    s.permit(2, "0.1", "");
}
