//! Hot swap, exhaustively: the shipped swap machine and the shipped coordinator over two subtasks and a log, with swaps, aborts,
//! builds that fail, publishes that nobody hears of, and kills at every step.
//!
//! Every subtask processes a record whenever it likes; what it processed since its last barrier, by which build, goes into its
//! snapshot, so that a checkpoint knows which builds have made what it holds.

use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weir_protocol::coordinator::{
    CheckpointCoordinator, CheckpointKind, CompletedCheckpoint, CoordEffect, CoordEvent, CoordinatorConfig,
};
use weir_protocol::mutant::Mutant;
use weir_protocol::swap::{OperatorBuild, SwapEffect, SwapEvent, SwapMachine};
use weir_protocol::{CheckpointId, Generation, SubtaskIndex};

const SUBTASKS: u32 = 2;

const ALWAYS: &str = "X1 X3 X4";
const TAKEN_BACK: &str = "a build is taken back";
const UNHEARD: &str = "a swap stands of which nobody has heard";
const OUTLIVES: &str = "the new build outlives a kill";
const SWAPPED_BACK: &str = "it is swapped back";

/// What can be asked for, and what can go wrong.
#[derive(Clone, Debug)]
struct Config {
    swaps: u32,
    checkpoints: u32,
    kills: u32,
    failures: u32,
    aborts: u32,
    unheard: u32,
    probation: u32,
    mutant: Option<Mutant>,
}

/// What the log holds of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Manifest {
    id: CheckpointId,
    build: OperatorBuild,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    generation: u32,
    swap: SwapMachine,
    coordinator: CheckpointCoordinator,
    /// What each subtask runs.
    runs: Vec<String>,
    /// The instance that each has at hand, for a barrier.
    next: Vec<Option<(CheckpointId, String)>>,
    /// Barriers on their way, oldest first.
    barriers: Vec<Vec<CheckpointId>>,
    /// What each subtask ran behind each barrier that it has passed.
    behind: BTreeMap<CheckpointId, Vec<Option<String>>>,
    publishing: Option<CheckpointId>,
    staging: bool,
    /// The build that is asked for.
    wished: String,
    now: u64,
    /// Periodic checkpoints.
    triggered: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    process: Option<Box<Process>>,
    /// The newest of the log: retention is 1.
    newest: Option<Manifest>,
    generations: u32,
    swaps: u32,
    kills: u32,
    failures: u32,
    aborts: u32,
    unheard: u32,
    /// A checkpoint that holds what two builds made behind one barrier, or whose manifest says another build.
    fault: Option<&'static str>,
    rolled_back: bool,
    stood_unheard: bool,
    swapped_back: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Start,
    Kill,
    Swap(&'static str),
    Staged(bool),
    Trigger,
    /// The oldest barrier on its way reaches a subtask.
    Barrier(u32),
    /// The newest one is declined by it instead.
    Decline(u32),
    /// The manifest lands and is heard of.
    Publish,
    /// It lands, and the attempt ends before anybody hears.
    PublishUnheard,
    /// It never will.
    Tombstone,
    /// A record fails in a subtask.
    Fail(u32),
}

impl State {
    fn start(&mut self, config: &Config, swap: Option<SwapMachine>) {
        self.generations += 1;
        let newest = self.newest.as_ref();
        let machine = SwapMachine::new(&["a".to_owned()]);
        let mut swap = swap.unwrap_or(match config.mutant {
            Some(mutant) => machine.with_mutant(mutant),
            None => machine,
        });
        let mut effects = Vec::new();
        swap.handle(SwapEvent::AttemptBegan { restored: vec![newest.map(|manifest| manifest.build.clone())] }, &mut effects);
        self.rolled_back |= effects.iter().any(|effect| matches!(effect, SwapEffect::RolledBack { .. }));
        self.stood_unheard |= effects.iter().any(|effect| matches!(effect, SwapEffect::Exchanged { .. }));
        let runs = vec![swap.builds()[0].runs.clone(); SUBTASKS as usize];
        let stands =
            |one: &Manifest| CompletedCheckpoint { checkpoint: one.id, files: BTreeSet::new(), transactions: BTreeSet::new() };
        let completed: Vec<CompletedCheckpoint> = newest.map(stands).into_iter().collect();
        let coordinator_config = CoordinatorConfig {
            generation: Generation(self.generations),
            first_sequence: 1,
            sources: [SubtaskIndex(0)].into(),
            subtasks: (0..SUBTASKS).map(SubtaskIndex).collect(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1_000_000),
            min_pause: Duration::ZERO,
            max_concurrent: 2,
            tolerable_failures: 3,
            retain: 1,
        };
        let restored = newest.map(|manifest| manifest.id);
        let mut coordinator = CheckpointCoordinator::new(coordinator_config, &completed, restored, Duration::ZERO);
        if let Some(mutant) = config.mutant {
            coordinator = coordinator.with_mutant(mutant);
        }
        self.process = Some(Box::new(Process {
            generation: self.generations,
            swap,
            coordinator,
            runs,
            next: vec![None; SUBTASKS as usize],
            barriers: vec![Vec::new(); SUBTASKS as usize],
            behind: BTreeMap::new(),
            publishing: None,
            staging: false,
            wished: String::new(),
            now: 0,
            triggered: 0,
        }));
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it runs")
    }

    fn swap(&mut self, config: &Config, event: SwapEvent) {
        let mut effects = Vec::new();
        self.process().swap.handle(event, &mut effects);
        for effect in effects {
            match effect {
                SwapEffect::Stage => self.process().staging = true,
                SwapEffect::RequestCheckpoint => {
                    let now = Duration::from_secs(self.process().now);
                    self.coordinate(config, CoordEvent::RequestSwap { now });
                }
                _ => {}
            }
        }
    }

    /// An event for the coordinator, and what it brings about.
    fn coordinate(&mut self, config: &Config, event: CoordEvent) {
        let mut effects = Vec::new();
        self.process().coordinator.handle(event, &mut effects);
        for effect in effects {
            match effect {
                CoordEffect::InjectBarrier { checkpoint, kind, .. } => {
                    let is_swap = kind == CheckpointKind::Swap;
                    if is_swap {
                        self.swap(config, SwapEvent::Triggered { checkpoint });
                        let next = Some((checkpoint, self.process().wished.clone()));
                        self.process().next = vec![next; SUBTASKS as usize];
                    }
                    let process = self.process();
                    process.triggered += u32::from(!is_swap);
                    process.barriers.iter_mut().for_each(|barriers| barriers.push(checkpoint));
                    process.behind.insert(checkpoint, vec![None; SUBTASKS as usize]);
                }
                CoordEffect::PublishManifest { checkpoint } => self.process().publishing = Some(checkpoint),
                CoordEffect::NotifyComplete { checkpoint } => {
                    self.swap(config, SwapEvent::Completed { checkpoint });
                }
                CoordEffect::FailOver { .. } => {
                    self.fail_over(config);
                    return;
                }
                _ => {}
            }
        }
    }

    fn fail_over(&mut self, config: &Config) {
        self.swap(config, SwapEvent::AttemptEnded);
        let swap = self.process.take().expect("it ran").swap;
        self.start(config, Some(swap));
    }

    /// The manifest of the publish under way lands in the log.
    fn land(&mut self) -> CheckpointId {
        let process = self.process.as_mut().expect("it runs");
        let id = process.publishing.take().expect("a publish is under way");
        let runs: Vec<String> = process.behind[&id].iter().map(|build| build.clone().expect("C2: all have passed")).collect();
        let build = process.swap.after(id)[0].clone();
        if runs.iter().any(|own| *own != runs[0]) {
            self.fault = Some("X1: two builds behind one barrier");
        } else if build.runs != runs[0] {
            self.fault = Some("X3: the manifest names another build than the one that runs");
        }
        self.swapped_back |= self.newest.as_ref().is_some_and(|newest| newest.build.runs == "b") && build.runs == "a";
        self.newest = Some(Manifest { id, build });
        id
    }
}

impl Model for Config {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::default();
        state.start(self, None);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.fault.is_some() {
            return;
        }
        let Some(process) = &state.process else { return actions.push(Action::Start) };
        if state.kills < self.kills {
            actions.push(Action::Kill);
        }
        if state.swaps < self.swaps {
            actions.push(Action::Swap(if process.swap.builds()[0].runs == "a" { "b" } else { "a" }));
        }
        if process.staging {
            actions.extend([Action::Staged(true), Action::Staged(false)]);
        }
        if process.triggered < self.checkpoints && process.coordinator.next_deadline().is_some() {
            actions.push(Action::Trigger);
        }
        for subtask in 0..SUBTASKS {
            if !process.barriers[subtask as usize].is_empty() {
                actions.push(Action::Barrier(subtask));
                if state.aborts < self.aborts {
                    actions.push(Action::Decline(subtask));
                }
            }
            if state.failures < self.failures {
                actions.push(Action::Fail(subtask));
            }
        }
        if process.publishing.is_some() {
            actions.push(Action::Publish);
            if state.unheard < self.unheard {
                actions.push(Action::PublishUnheard);
            }
            if state.aborts < self.aborts {
                actions.push(Action::Tombstone);
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Start => next.start(self, None),
            Action::Kill => {
                next.kills += 1;
                next.process = None;
            }
            Action::Swap(build) => {
                next.swaps += 1;
                let wanted =
                    SwapEvent::Requested { operator: 0, build: build.to_owned(), probation: self.probation, again: false };
                next.swap(self, wanted);
                if next.process().staging && !state.process.as_ref().is_some_and(|process| process.staging) {
                    build.clone_into(&mut next.process().wished);
                }
            }
            Action::Staged(fits) => {
                next.process().staging = false;
                next.swap(self, if fits { SwapEvent::Staged } else { SwapEvent::StageFailed });
            }
            Action::Trigger => {
                next.process().now += 1;
                let now = Duration::from_secs(next.process().now);
                next.coordinate(self, CoordEvent::Tick { now });
                // Time in which nothing happens is left out.
                if next.process().triggered == state.process.as_ref().map_or(0, |process| process.triggered) {
                    return None;
                }
            }
            Action::Barrier(subtask) => {
                let process = next.process();
                let (s, now) = (subtask as usize, Duration::from_secs(process.now));
                let checkpoint = process.barriers[s].remove(0);
                if let Some((_, build)) = process.next[s].take_if(|(at, _)| *at == checkpoint) {
                    process.runs[s] = build;
                }
                let behind = process.runs[s].clone();
                process.behind.get_mut(&checkpoint).expect("injected")[s] = Some(behind);
                let subtask = SubtaskIndex(subtask);
                next.coordinate(self, CoordEvent::Acknowledge { now, checkpoint, subtask, files: vec![], committables: vec![] });
            }
            Action::Decline(subtask) => {
                next.aborts += 1;
                let process = next.process();
                let now = Duration::from_secs(process.now);
                let checkpoint = process.barriers[subtask as usize].remove(0);
                // As the aligner does: a barrier that is not taken part in exchanges nothing.
                process.next[subtask as usize].take_if(|(at, _)| *at == checkpoint);
                next.coordinate(self, CoordEvent::Decline { now, checkpoint, subtask: SubtaskIndex(subtask) });
            }
            Action::Publish => {
                let checkpoint = next.land();
                let now = Duration::from_secs(next.process().now);
                next.coordinate(self, CoordEvent::Published { now, checkpoint });
            }
            Action::PublishUnheard => {
                next.unheard += 1;
                let checkpoint = next.land();
                let now = Duration::from_secs(next.process().now);
                next.coordinate(self, CoordEvent::PublishUnknown { now, checkpoint });
            }
            Action::Tombstone => {
                next.aborts += 1;
                let process = next.process();
                let checkpoint = process.publishing.take().expect("under way");
                let now = Duration::from_secs(process.now);
                next.coordinate(self, CoordEvent::TombstoneStands { now, checkpoint });
            }
            Action::Fail(subtask) => {
                next.failures += 1;
                let process = next.process();
                let build = process.runs[subtask as usize].clone();
                let (now, generation) = (Duration::from_secs(process.now), Generation(process.generation));
                next.swap(self, SwapEvent::BuildFailed { operator: 0, build });
                next.coordinate(self, CoordEvent::TaskFailed { now, generation, subtask: SubtaskIndex(subtask) });
            }
        }
        // Behind the same barriers both subtasks run the same, and that is what the machine says or is about to.
        if let Some(process) = &next.process {
            let passed = |s: usize| process.behind.iter().filter(|(_, behind)| behind[s].is_some()).map(|(id, _)| *id).max();
            if passed(0) == passed(1) && process.runs[0] != process.runs[1] {
                next.fault = Some("X1: two builds between the same barriers");
            }
            if process.runs.iter().any(|build| process.swap.builds()[0].refused.contains(build)) {
                next.fault = Some("X4: a build that has failed on probation runs");
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALWAYS, |_, state: &State| state.fault.is_none()),
            Property::sometimes(TAKEN_BACK, |_, state: &State| state.rolled_back),
            Property::sometimes(UNHEARD, |_, state: &State| state.stood_unheard),
            Property::sometimes(OUTLIVES, |_, state: &State| {
                state.kills > 0 && state.process.as_ref().is_some_and(|process| process.runs[0] == "b")
            }),
            Property::sometimes(SWAPPED_BACK, |_, state: &State| state.swapped_back),
        ]
    }
}

/// A swap and its probation; nothing goes wrong.
fn calm() -> Config {
    Config { swaps: 1, checkpoints: 3, kills: 0, failures: 0, aborts: 0, unheard: 0, probation: 1, mutant: None }
}

/// Searches parts that each finish; `wanted` must be met in at least one of them.
#[track_caller]
fn check(name: &str, model: Config, wanted: &[&'static str]) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states ({} reached), depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    assert!(checker.is_done(), "not every state was visited");
    checker.assert_no_discovery(ALWAYS);
    wanted.iter().for_each(|property| {
        checker.assert_any_discovery(property);
    });
}

#[test]
fn a_swap_that_is_killed_or_fails_ends_in_one_build() {
    check("kill and failure", Config { kills: 1, failures: 1, ..calm() }, &[TAKEN_BACK, OUTLIVES]);
}

#[test]
fn a_swap_that_is_killed_twice_ends_in_one_build() {
    check("two kills", Config { kills: 2, probation: 2, checkpoints: 4, ..calm() }, &[OUTLIVES]);
}

#[test]
fn a_swap_that_is_aborted_or_unheard_ends_in_one_build() {
    check("abort and unheard publish", Config { aborts: 1, unheard: 1, ..calm() }, &[UNHEARD]);
}

#[test]
fn a_swap_that_fails_while_its_publish_is_unheard_ends_in_one_build() {
    check("failure and unheard publish", Config { failures: 1, unheard: 1, ..calm() }, &[UNHEARD, TAKEN_BACK]);
}

#[test]
fn swaps_there_and_back_end_in_one_build() {
    let all = [SWAPPED_BACK, TAKEN_BACK, OUTLIVES, UNHEARD];
    check(
        "two swaps, everything",
        Config { swaps: 2, checkpoints: 2, kills: 1, failures: 1, aborts: 1, unheard: 1, ..calm() },
        &all,
    );
}

#[track_caller]
fn is_caught(model: Config) {
    model.checker().threads(2).spawn_bfs().join().assert_any_discovery(ALWAYS);
}

#[test]
fn mutant_manifest_names_the_old_build_is_caught() {
    is_caught(Config { mutant: Some(Mutant::ManifestNamesOldBuild), ..calm() });
}

#[test]
fn mutant_a_failed_build_runs_again_is_caught() {
    is_caught(Config { failures: 1, mutant: Some(Mutant::FailedBuildRunsAgain), ..calm() });
}

#[test]
fn mutant_a_swap_survives_its_abort_is_caught() {
    is_caught(Config { aborts: 1, mutant: Some(Mutant::SwapSurvivesAbort), ..calm() });
}
