//! The machine of the freeze.

use super::events::{Cause, Effect, Event, FreezePolicy, LocalFile, Residence, Scope, SetId, SnapshotList};
use super::files::Files;
use crate::CheckpointId;
use crate::bounds::FROZEN_SETS;
use crate::mutant::{Mutant, Mutation};
use std::collections::VecDeque;

/// A set that is not ingested and linked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FrozenSet {
    id: SetId,
    cause: Cause,
    scope: Scope,
    residence: Residence,
    /// Cells not copied yet.
    left: u64,
    /// Whether its checkpoint was aborted.
    aborted: bool,
}

/// Where the state that is frozen next will be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Home {
    Memory,
    /// The next set makes the store.
    Spilling,
    Store,
}

/// What the store writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Writer {
    Idle,
    /// Ingesting the first set of the queue.
    Ingesting,
    /// Linking it.
    Linking,
}

/// The machine. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FreezeQueue {
    policy: FreezePolicy,
    sets: VecDeque<FrozenSet>,
    writer: Writer,
    newest_set: SetId,
    newest_barrier: Option<CheckpointId>,
    home: Home,
    files: Files,
    mutation: Mutation,
}

impl FreezeQueue {
    /// Of an empty backend.
    pub fn new(policy: FreezePolicy, residence: Residence) -> Self {
        FreezeQueue::of(policy, residence, Files::default())
    }

    /// Of a backend restored from `snapshot`, which a completed manifest holds. Its entries keep their `stored_by`, so the
    /// driver must know the names that the manifest gives them.
    pub fn restored(policy: FreezePolicy, residence: Residence, snapshot: SnapshotList) -> Self {
        FreezeQueue::of(policy, residence, Files::restored(snapshot))
    }

    fn of(policy: FreezePolicy, residence: Residence, files: Files) -> Self {
        assert!(policy.copying_max >= 1 && policy.waiting_max >= 1, "S5: a set must be able to wait");
        assert!(policy.waiting_max <= FROZEN_SETS, "S5: sets that wait are bounded");
        FreezeQueue {
            policy,
            sets: VecDeque::new(),
            writer: Writer::Idle,
            newest_set: SetId(0),
            newest_barrier: None,
            home: match residence {
                Residence::Memory => Home::Memory,
                Residence::Store => Home::Store,
            },
            files,
            mutation: Mutation::default(),
        }
    }

    /// The same with a fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutation(self, mutation: Mutation) -> Self {
        FreezeQueue { mutation, ..self }
    }

    /// True if so many sets wait for the store writer that nothing may be frozen before one is ingested.
    pub fn must_wait(&self) -> bool {
        self.sets.len() >= self.policy.waiting_max
    }

    /// The set that the next `Freeze` makes. A cell that is clean and is written now names it.
    pub fn next_set(&self) -> SetId {
        SetId(self.newest_set.0 + 1)
    }

    /// Which cells a set frozen now for this cause must have.
    pub fn scope(&self, cause: Cause) -> Scope {
        match (self.home, cause) {
            (Home::Spilling, Cause::Barrier(_) | Cause::HighWater) => Scope::All,
            (Home::Memory, Cause::Barrier(_)) if self.needs_base() => Scope::All,
            (Home::Memory | Home::Store, Cause::Barrier(_) | Cause::HighWater) => Scope::Changes,
        }
    }

    /// The set whose cells the sweep copies next: the oldest that is not all copied.
    pub fn copying(&self) -> Option<SetId> {
        self.sets.iter().find(|set| set.left > 0).map(|set| set.id)
    }

    /// True if nothing is frozen and not ingested, or ingested and not linked.
    pub fn is_idle(&self) -> bool {
        self.sets.is_empty()
    }

    /// Takes one event and appends what has to be done.
    pub fn handle(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Freeze { cause, scope, cells } => self.on_freeze(cause, scope, cells, effects),
            Event::Spill => self.on_spill(),
            Event::Copied { set, cells } => self.on_copied(set, cells),
            Event::Ingested { set, file } => self.on_ingested(set, file, effects),
            Event::Linked { set, base } => self.on_linked(set, &base, effects),
            Event::Completed { checkpoint } => delete(self.files.complete(checkpoint), effects),
            Event::Aborted { checkpoint } => self.on_aborted(checkpoint, effects),
        }
        self.advance(effects);
    }

    fn on_spill(&mut self) {
        assert_eq!(self.home, Home::Memory, "S6: there is a store already");
        self.home = Home::Spilling;
    }

    fn on_freeze(&mut self, cause: Cause, scope: Scope, cells: u64, effects: &mut Vec<Effect>) {
        assert!(!self.must_wait(), "S5: {} sets wait already", self.sets.len());
        if let Cause::Barrier(checkpoint) = cause {
            assert!(self.newest_barrier < Some(checkpoint), "A4: barrier {checkpoint} after {:?}", self.newest_barrier);
            self.newest_barrier = Some(checkpoint);
        }
        let residence = match self.home {
            Home::Memory => Residence::Memory,
            Home::Spilling => {
                assert_eq!(scope, Scope::All, "S6: the first set of a store has all cells");
                self.home = Home::Store;
                Residence::Store
            }
            Home::Store => {
                assert_eq!(scope, Scope::Changes, "S6: the store holds the rest");
                Residence::Store
            }
        };
        self.newest_set = self.next_set();
        self.sets.push_back(FrozenSet { id: self.newest_set, cause, scope, residence, left: cells, aborted: false });
        let copying: Vec<SetId> = self.sets.iter().filter(|set| set.left > 0).map(|set| set.id).collect();
        let excess = copying.len().saturating_sub(self.policy.copying_max);
        effects.extend(copying.into_iter().take(excess).map(|set| Effect::FinishCopy { set }));
    }

    fn on_copied(&mut self, set: SetId, cells: u64) {
        let frozen = self.sets.iter_mut().find(|frozen| frozen.id == set);
        let frozen = frozen.unwrap_or_else(|| panic!("S5: {set:?} is not waiting for copies"));
        frozen.left = frozen.left.checked_sub(cells).unwrap_or_else(|| panic!("S5: {set:?} has fewer cells than were copied"));
    }

    fn on_ingested(&mut self, set: SetId, file: Option<LocalFile>, effects: &mut Vec<Effect>) {
        assert_eq!(self.writer, Writer::Ingesting, "S5: nothing is being ingested");
        let first = self.sets.front().expect("S5: the set that is ingested waits");
        assert_eq!(first.id, set, "S5: sets are ingested in order");
        let links = matches!(first.cause, Cause::Barrier(_)) && !first.aborted && first.residence == Residence::Store;
        match first.scope {
            Scope::Changes => file.into_iter().for_each(|file| self.files.push_delta(file)),
            Scope::All => self.files.replace_base(file.as_slice()),
        }
        effects.push(Effect::Unpin { set });
        if links && self.outweighed() {
            self.writer = Writer::Linking;
            effects.push(Effect::Link { set });
        } else {
            self.finish_first(effects);
        }
    }

    /// Whether a set of all cells is to begin a base, and none is on its way.
    fn needs_base(&self) -> bool {
        let is_first = self.newest_set == SetId(0) && self.files.is_empty();
        (is_first || self.outweighed()) && !self.sets.iter().any(|set| set.scope == Scope::All)
    }

    /// Whether the deltas outweigh the base.
    fn outweighed(&self) -> bool {
        let (base, deltas, count) = self.files.weights();
        let heavier = u128::from(deltas) * 100 > u128::from(base) * u128::from(self.policy.rebase_percent);
        (heavier && deltas >= self.policy.rebase_bytes_min) || count > self.policy.deltas_max
    }

    fn on_linked(&mut self, set: SetId, base: &[LocalFile], effects: &mut Vec<Effect>) {
        assert_eq!(self.writer, Writer::Linking, "S5: nothing is being linked");
        assert_eq!(self.sets.front().map(|first| first.id), Some(set), "S5: the set just ingested is linked, no later one");
        self.files.replace_base(base);
        self.finish_first(effects);
    }

    /// The first set is in the store, and linked if that was to be.
    fn finish_first(&mut self, effects: &mut Vec<Effect>) {
        let first = self.sets.pop_front().expect("S5: the set that is ingested waits");
        self.writer = Writer::Idle;
        match first.cause {
            Cause::Barrier(checkpoint) if first.aborted => effects.push(Effect::Dropped { checkpoint }),
            Cause::Barrier(checkpoint) => effects.push(Effect::Snapshot { list: self.files.snapshot(checkpoint) }),
            Cause::HighWater => {}
        }
        delete(self.files.collect(), effects);
    }

    fn on_aborted(&mut self, checkpoint: CheckpointId, effects: &mut Vec<Effect>) {
        let cause = Cause::Barrier(checkpoint);
        if let Some(set) = self.sets.iter_mut().find(|set| set.cause == cause) {
            set.aborted = true;
        }
        if self.mutation.is(Mutant::CancelFreeze) && self.writer == Writer::Idle {
            self.sets.retain(|set| set.cause != cause);
        }
        delete(self.files.abort(checkpoint), effects);
    }

    /// Lets the store writer begin with the oldest set, if it is all copied and nothing is between an ingest and its link.
    fn advance(&mut self, effects: &mut Vec<Effect>) {
        if let Some(first) = self.sets.front()
            && self.writer == Writer::Idle
            && first.left == 0
        {
            self.writer = Writer::Ingesting;
            effects.push(Effect::Ingest { set: first.id, scope: first.scope, residence: first.residence });
        }
    }
}

fn delete(files: Vec<super::FileId>, effects: &mut Vec<Effect>) {
    if !files.is_empty() {
        effects.push(Effect::DeleteLocal { files });
    }
}
