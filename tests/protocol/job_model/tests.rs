//! The parts, and the mutants that they catch.

use super::{Config, Fault, Messages, RESUME};
use stateright::{Checker, Model};
use weir_protocol::log::Start;
use weir_protocol::mutant::{Mutant, Mutation};
use weir_protocol::recovery::Ask;
use weir_protocol::{CheckpointId, Generation};

const HOLDS: &str = "C T E hold";

/// Nothing goes wrong.
fn calm() -> Config {
    Config {
        processes: 1,
        starts: 3,
        checkpoints: 3,
        slots: 16,
        writers: 1,
        concurrent: 1,
        tries: 2,
        attempts: 2,
        crashes: 2,
        late_store: false,
        flaky_outside: false,
        messages: Messages::Prompt,
        retention: false,
        tombstones: false,
        deadline: None,
        time_max: 0,
        ends: false,
        asks: vec![RESUME],
        fault: Fault::None,
        mutation: Mutation::default(),
    }
}

/// Two processes, of which any may be stopped for any time.
fn two() -> Config {
    Config { processes: 2, checkpoints: 1, crashes: 0, retention: true, ..calm() }
}

#[track_caller]
fn check(name: &str, mut model: Config) {
    for part in std::env::var("TUNE").unwrap_or_default().split(',').filter(|p| !p.is_empty()) {
        let (k, v) = part.split_once('=').unwrap();
        let n: u32 = v.parse().unwrap();
        match k { "starts" => model.starts = n, "checkpoints" => model.checkpoints = n, "crashes" => model.crashes = n,
            "attempts" => model.attempts = n, "tries" => model.tries = n, "concurrent" => model.concurrent = n as usize,
            "writers" => model.writers = n, "time" => model.time_max = n as u64, "slots" => model.slots = n as u64,
            "retention" => model.retention = n == 1, "late" => model.late_store = n == 1, "flaky" => model.flaky_outside = n == 1, _ => panic!() }
    }
    let begun = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (states, reached, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{name}: {states} states ({reached} reached), depth {depth}, {:?}", begun.elapsed());
    assert!(checker.is_done(), "not every state was visited");
    checker.assert_properties();
}

#[test]
fn one_process_that_crashes() {
    check("one process, 2 crashes", calm());
}

#[test]
fn messages_get_lost_and_overtake_each_other() {
    let model = Config { messages: Messages::Disorderly, concurrent: 2, crashes: 1, starts: 2, ..calm() };
    check("disorderly messages, 2 at a time", model);
}

#[test]
fn two_writers_and_messages_in_disorder() {
    let model = Config { messages: Messages::Disorderly, writers: 2, checkpoints: 2, crashes: 1, starts: 2, ..calm() };
    check("disorderly messages, 2 writers", model);
}

#[test]
fn the_outside_loses_answers() {
    let model = Config { flaky_outside: true, checkpoints: 2, ..calm() };
    check("flaky outside", model);
}

#[test]
fn two_processes_and_a_prompt_store() {
    check("two processes", Config { checkpoints: 2, starts: 4, ..two() });
}

#[test]
fn two_processes_and_a_store_that_is_late() {
    check("two processes, late store", Config { late_store: true, ..two() });
}

#[test]
fn two_processes_and_tombstones() {
    check("two processes, tombstones", Config { late_store: true, tombstones: true, starts: 2, ..two() });
}

#[test]
fn committables_have_a_deadline() {
    let model = Config { deadline: Some(1), time_max: 4, late_store: true, crashes: 1, starts: 2, checkpoints: 2, ..calm() };
    check("a deadline", model);
}

#[test]
fn a_bounded_job_finishes() {
    check("bounded input", Config { ends: true, starts: 4, crashes: 3, flaky_outside: true, ..calm() });
}

#[test]
fn starts_at_the_beginning_and_at_older_checkpoints_lose_nothing() {
    let again = |start| Ask { start, allow_duplicates: true, ..RESUME };
    let first = CheckpointId::new(Generation(1), 1);
    let asks = vec![RESUME, again(Start::Scratch), again(Start::From(first))];
    check("fresh and from", Config { asks, checkpoints: 2, ..calm() });
}

/// The model with this fault breaks an invariant.
fn is_caught(model: Config) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let path = checker.discovery(HOLDS).expect("the fault is not caught");
    let broken = path.last_state().world.broken;
    println!("{broken:?} after {} steps", path.into_actions().len());
}

fn mutated(mutant: Mutant, model: Config) -> Config {
    Config { mutation: Mutation::of(mutant), ..model }
}

#[test]
fn mutant_abort_the_transaction_with_its_checkpoint_is_caught() {
    let model = Config { messages: Messages::Disorderly, fault: Fault::AbortTransactionWithCheckpoint, ..calm() };
    is_caught(model);
}

#[test]
fn mutant_absent_is_not_written_is_caught() {
    is_caught(mutated(Mutant::AbsentIsNotWritten, Config { late_store: true, ..two() }));
}

#[test]
fn mutant_unknown_publish_is_abort_is_caught() {
    is_caught(mutated(Mutant::UnknownPublishIsAbort, Config { late_store: true, ..two() }));
}

#[test]
fn mutant_commit_at_prepare_is_caught() {
    is_caught(Config { fault: Fault::CommitAtPrepare, ..calm() });
}

#[test]
fn mutant_no_commit_on_recovery_is_caught() {
    is_caught(mutated(Mutant::NoCommitOnRecovery, calm()));
}

#[test]
fn mutant_a_snapshot_holds_only_its_own_committable_is_caught() {
    is_caught(mutated(Mutant::OnlyOwnCommittable, Config { messages: Messages::Disorderly, ..calm() }));
}

#[test]
fn mutant_no_look_above_is_caught() {
    is_caught(mutated(Mutant::NoLookAbove, Config { late_store: true, checkpoints: 2, ..two() }));
}

#[test]
fn mutant_a_publisher_takes_the_highest_slot_is_caught() {
    is_caught(Config { fault: Fault::HighestSlotPlusOne, ..two() });
}

#[test]
fn mutant_retention_above_the_newest_checkpoint_is_caught() {
    is_caught(Config { fault: Fault::RetainAboveNewest, late_store: true, ..two() });
}

#[test]
fn mutant_a_recovery_aborts_a_newer_generations_is_caught() {
    is_caught(mutated(Mutant::AbortNewerGenerations, two()));
}

#[test]
fn mutant_the_newest_is_read_before_the_claim_is_caught() {
    is_caught(Config { fault: Fault::ReadNewestBeforeClaim, late_store: true, ..two() });
}
