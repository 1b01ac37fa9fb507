//! The rules of the freeze as named cases, and random runs against an oracle.

mod backend;

use super::{
    Cause, Effect, Event, FileId, FreezePolicy, FreezeQueue, LocalFile, Residence, Scope, SetId, SnapshotEntry, SnapshotList,
};
use crate::mutant::{Mutant, Mutation};
use crate::{CheckpointId, Generation, freeze};
use backend::{Backend, Fault, Step};

/// Never a new base by itself.
const NO_REBASE: FreezePolicy =
    FreezePolicy { copying_max: 2, waiting_max: 4, rebase_percent: 100, rebase_bytes_min: u64::MAX, deltas_max: usize::MAX };
/// A new base whenever there is a delta.
const ALWAYS_REBASE: FreezePolicy = FreezePolicy { deltas_max: 0, ..NO_REBASE };

fn id(sequence: u32) -> CheckpointId {
    CheckpointId::new(Generation(1), sequence)
}

fn barrier(sequence: u32, cells: u64) -> Event {
    Event::Freeze { cause: Cause::Barrier(id(sequence)), scope: Scope::Changes, cells }
}

fn barrier_of_all(sequence: u32, cells: u64) -> Event {
    Event::Freeze { cause: Cause::Barrier(id(sequence)), scope: Scope::All, cells }
}

fn high_water(cells: u64) -> Event {
    Event::Freeze { cause: Cause::HighWater, scope: Scope::Changes, cells }
}

fn copied(set: u64, cells: u64) -> Event {
    Event::Copied { set: SetId(set), cells }
}

fn ingested(set: u64, file: u64, bytes: u64) -> Event {
    Event::Ingested { set: SetId(set), file: Some(LocalFile { id: FileId(file), bytes }) }
}

fn nothing(set: u64) -> Event {
    Event::Ingested { set: SetId(set), file: None }
}

fn linked(set: u64, files: &[u64]) -> Event {
    let base = files.iter().map(|file| LocalFile { id: FileId(*file), bytes: 100 }).collect();
    Event::Linked { set: SetId(set), base }
}

/// `3` is to be uploaded, `3@1` was stored by checkpoint 1.
fn show_files(entries: &[SnapshotEntry], own: CheckpointId) -> String {
    let one = |entry: &SnapshotEntry| match entry.stored_by == own {
        true => entry.file.0.to_string(),
        false => format!("{}@{}", entry.file.0, entry.stored_by.sequence()),
    };
    entries.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::FinishCopy { set } => format!("finish {}", set.0),
        Effect::Ingest { set, .. } => format!("ingest {}", set.0),
        Effect::Unpin { set } => format!("unpin {}", set.0),
        Effect::Link { set } => format!("link {}", set.0),
        Effect::Snapshot { list } => {
            let (base, deltas) = (show_files(&list.base, list.checkpoint), show_files(&list.deltas, list.checkpoint));
            format!("snapshot {} [{base}] {deltas}", list.checkpoint.sequence())
        }
        Effect::Dropped { checkpoint } => format!("dropped {}", checkpoint.sequence()),
        Effect::DeleteLocal { files } => {
            format!("delete {}", files.iter().map(|file| file.0.to_string()).collect::<Vec<_>>().join(" "))
        }
    }
}

struct Script(FreezeQueue);

impl Script {
    #[track_caller]
    fn event(&mut self, event: Event, expected: &str) {
        let mut effects = Vec::new();
        self.0.handle(event, &mut effects);
        assert_eq!(effects.iter().map(show).collect::<Vec<_>>().join("; "), expected);
    }

    #[track_caller]
    fn complete(&mut self, sequence: u32, expected: &str) {
        self.event(Event::Completed { checkpoint: id(sequence) }, expected);
    }

    #[track_caller]
    fn abort(&mut self, sequence: u32, expected: &str) {
        self.event(Event::Aborted { checkpoint: id(sequence) }, expected);
    }
}

#[test]
fn freeze_copy_ingest_snapshot_complete() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 2), "");
    assert_eq!((s.0.copying(), s.0.next_set()), (Some(SetId(1)), SetId(2)));
    s.event(copied(1, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; snapshot 1 [] 1");
    s.complete(1, "delete 1");
    s.complete(1, "");
    assert!(s.0.is_idle());
}

#[test]
fn an_empty_set_has_a_snapshot_and_no_file() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 0), "ingest 1");
    s.event(nothing(1), "unpin 1; snapshot 1 [] ");
}

/// S5.
#[test]
fn sets_are_ingested_in_order_however_they_were_copied() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "");
    assert_eq!(s.0.copying(), Some(SetId(1)));
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; snapshot 1 [] 1; ingest 2");
    s.event(ingested(2, 2, 10), "unpin 2; snapshot 2 [] 1 2");
}

/// (h) S5, S2: an abort cancels only the upload; the delta belongs to every later snapshot.
#[test]
fn an_aborted_checkpoints_freeze_goes_on() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.abort(1, "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; dropped 1");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 2, 10), "unpin 2; snapshot 2 [] 1 2");
    s.complete(2, "delete 1 2");
}

#[test]
fn mutant_cancel_the_freeze_with_its_checkpoint_is_caught() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store).with_mutation(Mutation::of(Mutant::CancelFreeze)));
    s.event(barrier(1, 1), "");
    s.abort(1, "");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 2, 10), "unpin 2; snapshot 2 [] 2");
}

#[test]
fn a_pending_snapshots_files_are_uploaded_again_by_the_next() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; snapshot 1 [] 1");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 2, 10), "unpin 2; snapshot 2 [] 1 2");
    s.complete(1, "");
    s.complete(2, "delete 1 2");
}

/// S1: file 1 is stored by checkpoint 1, and 2 is going to replace that name by its own. A third snapshot that counted on the
/// name of 1 would lose it as soon as 2 completes and 1 is deleted.
#[test]
fn a_stored_name_that_a_pending_snapshot_will_replace_is_not_relied_on() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; snapshot 1 [] 1");
    s.event(barrier(2, 0), "ingest 2");
    s.event(nothing(2), "unpin 2; snapshot 2 [] 1");
    s.complete(1, "");
    s.event(barrier(3, 0), "ingest 3");
    s.event(nothing(3), "unpin 3; snapshot 3 [] 1");
    s.complete(2, "");
    s.complete(3, "delete 1");
    s.event(barrier(4, 0), "ingest 4");
    s.event(nothing(4), "unpin 4; snapshot 4 [] 1@3");
}

#[test]
fn too_many_copying_sets_finish_the_oldest_at_once() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 5), "");
    s.event(barrier(2, 5), "");
    s.event(barrier(3, 5), "finish 1");
    s.event(copied(1, 5), "ingest 1");
    s.event(high_water(5), "finish 2");
    assert!(s.0.must_wait());
}

#[test]
fn a_high_water_freeze_belongs_to_the_next_snapshot() {
    let mut s = Script(FreezeQueue::new(ALWAYS_REBASE, Residence::Store));
    s.event(high_water(1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1");
    s.event(barrier(1, 0), "ingest 2");
    s.event(nothing(2), "unpin 2; link 2");
}

/// (h) S5: nothing newer changes the store between ingest(n) and link(n).
#[test]
fn the_next_set_waits_for_the_link() {
    let mut s = Script(FreezeQueue::new(ALWAYS_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(barrier(2, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(copied(2, 1), "");
    s.event(ingested(1, 1, 10), "unpin 1; link 1");
    s.event(linked(1, &[2, 3]), "snapshot 1 [2 3] ; delete 1; ingest 2");
    s.event(ingested(2, 4, 10), "unpin 2; link 2");
    // 3 is unchanged in the new folder, and pending: uploaded again; the delta 4 is in no list.
    s.event(linked(2, &[3, 5]), "snapshot 2 [3 5] ; delete 4");
    s.complete(1, "delete 2");
    s.complete(2, "delete 3 5");
}

#[test]
fn a_base_file_that_is_stored_is_not_uploaded_with_the_next_base() {
    let mut s = Script(FreezeQueue::new(ALWAYS_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; link 1");
    s.event(linked(1, &[2, 3]), "snapshot 1 [2 3] ; delete 1");
    s.complete(1, "delete 2 3");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 4, 10), "unpin 2; link 2");
    s.event(linked(2, &[3, 5]), "snapshot 2 [3@1 5] ; delete 4");
    s.complete(2, "delete 5");
}

#[test]
fn an_aborted_checkpoint_begins_no_base_but_keeps_one_that_is_being_linked() {
    let mut s = Script(FreezeQueue::new(ALWAYS_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.abort(1, "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; dropped 1");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 2, 10), "unpin 2; link 2");
    s.abort(2, "");
    s.event(linked(2, &[3]), "dropped 2; delete 1 2");
    s.event(barrier(3, 0), "ingest 3");
    s.event(nothing(3), "unpin 3; snapshot 3 [3] ");
}

#[test]
fn a_new_base_when_the_deltas_outweigh_the_old_one() {
    let policy = FreezePolicy { rebase_percent: 50, rebase_bytes_min: 20, ..NO_REBASE };
    let mut s = Script(FreezeQueue::new(policy, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 19), "unpin 1; snapshot 1 [] 1");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 2, 1), "unpin 2; link 2");
    s.event(linked(2, &[3]), "snapshot 2 [3] ; delete 2");
    s.complete(2, "delete 1 3");
    s.event(barrier(3, 1), "");
    s.event(copied(3, 1), "ingest 3");
    s.event(ingested(3, 4, 50), "unpin 3; snapshot 3 [3@2] 4");
    s.event(barrier(4, 1), "");
    s.event(copied(4, 1), "ingest 4");
    s.event(ingested(4, 5, 1), "unpin 4; link 4");
}

#[test]
fn a_restored_backend_counts_on_what_the_manifest_holds() {
    let entry = |file, stored_by| SnapshotEntry { file: FileId(file), bytes: 10, stored_by: id(stored_by) };
    let list = SnapshotList { checkpoint: id(7), base: vec![entry(1, 3)], deltas: vec![entry(2, 7)] };
    let mut s = Script(FreezeQueue::restored(NO_REBASE, Residence::Store, list));
    s.event(barrier(8, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 3, 10), "unpin 1; snapshot 8 [1@3] 2@7 3");
    s.complete(7, "");
    s.complete(8, "delete 3");
}

/// With all of the state in memory a new base is a set of all cells, decided when it is frozen.
#[test]
fn without_a_store_a_base_is_a_set_of_all_cells() {
    let mut s = Script(FreezeQueue::new(ALWAYS_REBASE, Residence::Memory));
    assert_eq!(s.0.scope(Cause::HighWater), Scope::Changes, "only a checkpoint begins a base");
    assert_eq!(s.0.scope(Cause::Barrier(id(1))), Scope::All, "the first one does");
    s.event(barrier_of_all(1, 3), "");
    assert_eq!(s.0.scope(Cause::Barrier(id(2))), Scope::Changes);
    s.event(copied(1, 3), "ingest 1");
    s.event(ingested(1, 1, 30), "unpin 1; snapshot 1 [1] ");
    assert_eq!(s.0.scope(Cause::Barrier(id(2))), Scope::Changes, "there are no deltas");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 2, 10), "unpin 2; snapshot 2 [1] 2");
    assert_eq!(s.0.scope(Cause::Barrier(id(3))), Scope::All);
    s.event(barrier_of_all(3, 5), "");
    assert_eq!(s.0.scope(Cause::Barrier(id(4))), Scope::Changes, "one base at a time");
    s.event(barrier(4, 1), "");
    s.event(copied(3, 5), "ingest 3");
    s.event(ingested(3, 3, 50), "unpin 3; snapshot 3 [3] ");
    // Its files are wanted no more; that the list begins with it stays true.
    s.abort(3, "");
    s.event(copied(4, 1), "ingest 4");
    s.event(ingested(4, 4, 10), "unpin 4; snapshot 4 [3] 4");
    s.complete(4, "delete 1 2 3 4");
}

/// S6: sets that were frozen before go into no store.
#[test]
fn the_set_after_a_spill_has_all_cells_and_the_next_may_be_linked() {
    let mut s = Script(FreezeQueue::new(ALWAYS_REBASE, Residence::Memory));
    s.event(barrier(1, 1), "");
    s.event(Event::Spill, "");
    assert_eq!(s.0.scope(Cause::HighWater), Scope::All);
    s.event(Event::Freeze { cause: Cause::HighWater, scope: Scope::All, cells: 5 }, "");
    assert_eq!(s.0.scope(Cause::Barrier(id(2))), Scope::Changes);
    s.event(barrier(2, 1), "finish 1");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; snapshot 1 [] 1");
    s.event(copied(2, 5), "ingest 2");
    s.event(ingested(2, 2, 50), "unpin 2");
    s.event(copied(3, 1), "ingest 3");
    s.event(ingested(3, 3, 10), "unpin 3; link 3");
    s.event(linked(3, &[4]), "snapshot 2 [4] ; delete 2 3");
}

#[test]
#[should_panic(expected = "S6")]
fn s6_a_store_begins_with_all_cells() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Memory));
    s.event(Event::Spill, "");
    s.event(barrier(1, 1), "");
}

#[test]
#[should_panic(expected = "S3")]
fn s3_a_file_id_is_not_used_again() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(copied(1, 1), "ingest 1");
    s.event(ingested(1, 1, 10), "unpin 1; snapshot 1 [] 1");
    s.event(barrier(2, 1), "");
    s.event(copied(2, 1), "ingest 2");
    s.event(ingested(2, 1, 10), "");
}

#[test]
#[should_panic(expected = "S5")]
fn s5_more_cells_than_were_frozen() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 1), "");
    s.event(copied(1, 2), "");
}

#[test]
#[should_panic(expected = "S5")]
fn s5_an_ingest_out_of_order() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(1, 0), "ingest 1");
    s.event(barrier(2, 0), "");
    s.event(ingested(2, 1, 10), "");
}

#[test]
#[should_panic(expected = "C2")]
fn c2_complete_without_a_snapshot() {
    Script(FreezeQueue::new(NO_REBASE, Residence::Store)).complete(1, "");
}

#[test]
#[should_panic(expected = "A4")]
fn a4_barriers_rise() {
    let mut s = Script(FreezeQueue::new(NO_REBASE, Residence::Store));
    s.event(barrier(2, 0), "ingest 1");
    s.event(barrier(1, 0), "");
}

// Random runs against the oracle: the map of live values, cloned at each barrier.

/// A small generator (xorshift64*), so that a seed gives the same run for ever.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

/// A run of this seed, up to what is wrong first, if anything.
fn run(seed: u64, policy: FreezePolicy, fault: Fault, mutation: Mutation) -> Backend {
    let residence = if seed.is_multiple_of(2) { Residence::Memory } else { Residence::Store };
    let mut backend = Backend::new(FreezeQueue::new(policy, residence).with_mutation(mutation), residence, fault);
    let mut random = Seeded(seed.wrapping_mul(2).wrapping_add(1));
    for _ in 0..200 {
        let steps = backend.steps(4);
        backend.step(steps[random.below(steps.len())]);
        if backend.fault_found.is_some() {
            break;
        }
    }
    backend
}

const POLICIES: [FreezePolicy; 3] = [NO_REBASE, ALWAYS_REBASE, FreezePolicy { rebase_bytes_min: 4, copying_max: 1, ..NO_REBASE }];

#[test]
fn random_runs_restore_what_was_alive_at_each_barrier() {
    let mut completed = 0;
    for seed in 1..=250 {
        for policy in POLICIES {
            let backend = run(seed, policy, Fault::None, Mutation::default());
            assert_eq!(backend.fault_found, None, "seed {seed}, {policy:?}");
            completed += usize::from(backend.completed.is_some());
        }
    }
    assert!(completed > 100, "many runs complete a checkpoint: {completed}");
}

fn is_caught(fault: Fault, mutation: Mutation) -> Option<&'static str> {
    let mut runs = (1..=500).flat_map(|seed| POLICIES.map(|policy| run(seed, policy, fault, mutation)));
    runs.find_map(|backend| backend.fault_found)
}

#[test]
fn mutant_link_after_a_later_ingest_is_caught() {
    assert!(is_caught(Fault::LinkAfterLaterIngest, Mutation::default()).is_some());
}

#[test]
fn mutant_a_cell_names_the_set_before_is_caught() {
    assert!(is_caught(Fault::CopyForTheSetBefore, Mutation::default()).is_some());
}

#[test]
fn mutant_evict_before_ingest_is_caught() {
    assert!(is_caught(Fault::EvictBeforeIngest, Mutation::default()).is_some());
}

#[test]
fn mutant_evict_before_there_is_a_store_is_caught() {
    assert!(is_caught(Fault::EvictBeforeSpill, Mutation::default()).is_some());
}

#[test]
fn mutant_no_copies_for_sets_of_all_cells_is_caught() {
    assert!(is_caught(Fault::ForgetSetsOfAll, Mutation::default()).is_some());
}

/// The set is gone when its next cell is copied.
#[test]
#[should_panic(expected = "S5")]
fn mutant_cancel_the_freeze_is_caught_by_an_assertion() {
    is_caught(Fault::None, Mutation::of(Mutant::CancelFreeze));
}

/// (h) Two frozen sets need one cell: each gets its own value.
#[test]
fn two_sets_that_need_one_cell_both_get_a_copy() {
    let mut backend = Backend::new(FreezeQueue::new(NO_REBASE, Residence::Store), Residence::Store, Fault::None);
    for step in [Step::Write(0), Step::Barrier, Step::Write(0), Step::Barrier, Step::Write(0)] {
        backend.step(step);
    }
    while backend.fault_found.is_none() && !backend.queue.is_idle() {
        let next = if backend.queue.copying().is_some() { Step::Sweep } else { Step::StoreWriter };
        backend.step(next);
    }
    assert_eq!(backend.fault_found, None);
    assert_eq!(backend.pending.len(), 2, "both snapshots are out, each as of its barrier");
}
