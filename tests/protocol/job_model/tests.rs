//! The parts, and the mutants that they catch.

use super::{Config, Fault, JobState, Messages, RESUME};
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
fn check(name: &str, model: Config) {
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
    check("disorderly messages, 2 checkpoints at a time", model);
}

#[test]
fn two_writers_and_messages_in_disorder() {
    let model = Config { messages: Messages::Disorderly, writers: 2, crashes: 1, starts: 2, ..calm() };
    check("disorderly messages, 2 writers", model);
}

#[test]
fn the_outside_loses_answers() {
    check("flaky outside, 2 crashes", Config { flaky_outside: true, checkpoints: 1, ..calm() });
    check("flaky outside, 3 checkpoints", Config { flaky_outside: true, starts: 2, crashes: 1, ..calm() });
}

#[test]
fn two_processes_and_a_prompt_store() {
    check("two processes, 2 checkpoints", Config { starts: 2, checkpoints: 2, ..two() });
    check("two processes, 3 starts", two());
}

#[test]
fn two_processes_and_a_store_that_is_late() {
    let late = Config { late_store: true, starts: 2, ..two() };
    check("two processes, late store, retention", Config { tries: 1, ..late.clone() });
    check("two processes, late store, tried again", Config { retention: false, ..late });
}

#[test]
fn two_processes_and_tombstones() {
    let model = Config { late_store: true, tombstones: true, starts: 2, tries: 1, retention: false, ..two() };
    check("two processes, late store, tombstones", model);
}

/// A withdrawn manifest lands after retention has passed its slot.
#[test]
fn tombstones_and_retention() {
    let model = Config { late_store: true, tombstones: true, retention: true, starts: 1, tries: 1, crashes: 0, ..calm() };
    check("one process, late store, tombstones, retention", Config { checkpoints: 2, ..model });
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

/// A small generator (xorshift64*), so that a seed gives the same walk for ever.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

/// One walk through everything at once, far beyond what can be searched. Gives the state at its end.
fn walk(seed: u64, model: &Config) -> JobState {
    let mut random = Seeded(seed.wrapping_mul(2).wrapping_add(1));
    let mut state = model.init_states().remove(0);
    let mut taken = Vec::new();
    for _ in 0..250 {
        let mut steps = Vec::new();
        model.actions(&state, &mut steps);
        if steps.is_empty() {
            break;
        }
        let step = steps.swap_remove(random.below(steps.len()));
        taken.push(step.clone());
        state = model.next_state(&state, step).expect("every step leads somewhere");
    }
    assert_eq!(state.world.broken, None, "seed {seed}: {taken:#?}");
    state
}

/// All disorder at once.
fn everything() -> Config {
    Config {
        processes: 3,
        starts: 8,
        crashes: 4,
        checkpoints: 4,
        slots: 60,
        writers: 2,
        concurrent: 2,
        tries: 4,
        attempts: 4,
        late_store: true,
        flaky_outside: true,
        messages: Messages::Disorderly,
        retention: true,
        tombstones: true,
        ..calm()
    }
}

#[test]
fn random_walks_through_everything_at_once() {
    let mut completed = 0;
    let mut fenced = 0;
    for seed in 1..=3_000 {
        let state = walk(seed, &everything());
        completed += usize::from(state.world.newest().is_some());
        fenced += usize::from(state.processes.iter().any(|process| process.fenced));
    }
    println!("3000 walks: {completed} complete a checkpoint, {fenced} end with a fenced process");
    assert!(completed > 500 && fenced > 20, "{completed} complete a checkpoint, {fenced} end with a fenced process");
}

#[test]
fn random_walks_with_deadlines_and_starts_that_repeat() {
    let again = |start| Ask { start, allow_duplicates: true, ..RESUME };
    let first = CheckpointId::new(Generation(1), 1);
    let asks = vec![RESUME, RESUME, again(Start::Scratch), again(Start::From(first))];
    let model = Config { asks, deadline: Some(2), time_max: 12, ends: false, ..everything() };
    (1..=2_000).for_each(|seed| drop(walk(seed, &model)));
    let ending = Config { ends: true, ..everything() };
    let finished = (1..=2_000).filter(|seed| walk(*seed, &ending).processes.iter().any(|process| process.finished)).count();
    println!("2000 walks with bounded input: {finished} end finished");
    assert!(finished > 100, "{finished} end finished");
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
fn mutant_a_recovery_aborts_a_newer_generations_is_caught() {
    is_caught(mutated(Mutant::AbortNewerGenerations, two()));
}

#[test]
fn mutant_the_newest_is_read_before_the_claim_is_caught() {
    is_caught(Config { fault: Fault::ReadNewestBeforeClaim, late_store: true, ..two() });
}
