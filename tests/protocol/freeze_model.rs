//! The freeze, exhaustively: cells, frozen sets, aborts, evictions and the store writer in every order, over the shipped queue.

use stateright::{Checker, Model, Property};
use weir_protocol::freeze::{FreezePolicy, FreezeQueue, Residence};
use weir_protocol::mutant::{Mutant, Mutation};
use weir_protocol::{CheckpointId, Generation, freeze};

#[path = "../../host/protocol/src/freeze/tests/backend.rs"]
mod backend;

use backend::{Backend, Fault, Step};

/// Never a new base by itself.
const NO_REBASE: FreezePolicy =
    FreezePolicy { copying_max: 1, waiting_max: 3, rebase_percent: 100, rebase_bytes_min: u64::MAX, deltas_max: usize::MAX };
/// A new base whenever there is a delta.
const ALWAYS_REBASE: FreezePolicy = FreezePolicy { deltas_max: 0, ..NO_REBASE };

/// Everything up to these bounds.
struct Freeze {
    keys: u8,
    writes: u8,
    barriers: u32,
    high_water: u64,
    policy: FreezePolicy,
    residence: Residence,
    spills: bool,
    fault: Fault,
    mutation: Mutation,
}

impl Freeze {
    fn small(policy: FreezePolicy) -> Self {
        Freeze {
            keys: 2,
            writes: 3,
            barriers: 3,
            high_water: 0,
            policy,
            residence: Residence::Store,
            spills: false,
            fault: Fault::None,
            mutation: Mutation::default(),
        }
    }

    fn in_memory(policy: FreezePolicy) -> Self {
        Freeze { residence: Residence::Memory, ..Freeze::small(policy) }
    }

    fn allows(&self, state: &Backend, step: Step) -> bool {
        match step {
            Step::Write(_) | Step::Delete(_) => state.writes < self.writes,
            Step::Barrier => state.barriers < self.barriers,
            Step::HighWater => state.queue.next_set().0 <= u64::from(state.barriers) + self.high_water,
            Step::Spill => self.spills,
            Step::Sweep | Step::StoreWriter | Step::Evict(_) | Step::Complete(_) | Step::Abort(_) => true,
        }
    }
}

impl Model for Freeze {
    type State = Backend;
    type Action = Step;

    fn init_states(&self) -> Vec<Backend> {
        let queue = FreezeQueue::new(self.policy, self.residence).with_mutation(self.mutation);
        vec![Backend::new(queue, self.residence, self.fault)]
    }

    fn actions(&self, state: &Backend, actions: &mut Vec<Step>) {
        if state.fault_found.is_none() {
            actions.extend(state.steps(self.keys).into_iter().filter(|step| self.allows(state, *step)));
        }
    }

    fn next_state(&self, state: &Backend, step: Step) -> Option<Backend> {
        let mut next = state.clone();
        next.step(step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("S1 S2 S5 every snapshot is what was alive, and is there", |_, state: &Backend| {
                state.fault_found.is_none()
            }),
            Property::sometimes("a checkpoint completes", |_, state: &Backend| state.completed.is_some()),
            Property::sometimes("a checkpoint completes after another was given up", |_, state: &Backend| {
                state.completed.is_some_and(|id| id.sequence() == 3) && state.pending.is_empty()
            }),
            Property::sometimes("two snapshots are pending", |_, state: &Backend| state.pending.len() == 2),
            Property::sometimes("two sets wait", |_, state: &Backend| {
                state.queue.copying().is_some_and(|set| set.0 + 1 < state.queue.next_set().0)
            }),
        ]
    }
}

#[track_caller]
fn check(name: &str, model: Freeze) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states ({} reached), depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    assert!(checker.is_done(), "not every state was visited");
    checker.assert_properties();
}

#[test]
fn the_freeze_with_deltas_only() {
    check("freeze, deltas only", Freeze::small(NO_REBASE));
}

#[test]
fn the_freeze_with_a_new_base_each_time() {
    check("freeze, a base each time", Freeze::small(ALWAYS_REBASE));
}

#[test]
fn the_freeze_with_high_water() {
    let model = Freeze { writes: 2, high_water: 1, ..Freeze::small(ALWAYS_REBASE) };
    check("freeze, high water", model);
}

#[test]
fn the_freeze_of_one_key_written_often() {
    let model = Freeze { keys: 1, writes: 5, ..Freeze::small(FreezePolicy { copying_max: 2, ..ALWAYS_REBASE }) };
    check("freeze, one key", model);
}

#[test]
fn the_freeze_without_a_store() {
    check("freeze, no store", Freeze::in_memory(ALWAYS_REBASE));
}

#[test]
fn the_freeze_that_spills() {
    let model = Freeze { writes: 2, spills: true, ..Freeze::in_memory(ALWAYS_REBASE) };
    check("freeze, spill", model);
}

fn is_caught(model: Freeze) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_any_discovery("S1 S2 S5 every snapshot is what was alive, and is there");
}

#[test]
fn mutant_link_after_a_later_ingest_is_caught() {
    is_caught(Freeze { fault: Fault::LinkAfterLaterIngest, ..Freeze::small(ALWAYS_REBASE) });
}

#[test]
fn mutant_a_cell_names_the_set_before_is_caught() {
    is_caught(Freeze { fault: Fault::CopyForTheSetBefore, ..Freeze::small(FreezePolicy { copying_max: 2, ..NO_REBASE }) });
}

#[test]
fn mutant_evict_before_ingest_is_caught() {
    is_caught(Freeze { fault: Fault::EvictBeforeIngest, ..Freeze::small(NO_REBASE) });
}

#[test]
fn mutant_evict_before_there_is_a_store_is_caught() {
    is_caught(Freeze { fault: Fault::EvictBeforeSpill, ..Freeze::in_memory(NO_REBASE) });
}

#[test]
fn mutant_no_copies_for_sets_of_all_cells_is_caught() {
    is_caught(Freeze { fault: Fault::ForgetSetsOfAll, ..Freeze::in_memory(FreezePolicy { copying_max: 2, ..ALWAYS_REBASE }) });
}

#[test]
#[should_panic]
fn mutant_cancel_the_freeze_with_its_checkpoint_is_caught() {
    is_caught(Freeze { mutation: Mutation::of(Mutant::CancelFreeze), ..Freeze::small(NO_REBASE) });
}
