//! The coordinator among subtasks, a sink, a log and a store that behave at random: late, twice, never. C1–C6, T1, S1 and S4
//! are the oracle, kept by an observer that knows what really happened.

use super::{AckOutcome, CheckpointCoordinator, CheckpointKind, Committable, CoordEffect, CoordEvent, CoordinatorConfig};
use crate::ids::{CheckpointId, Generation, Lineage, SubtaskIndex, TransactionId};
use crate::mutant::Mutant;
use crate::shared::{FileOrigin, FileRef};
use crate::testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const GENERATION: Generation = Generation(3);
const SOURCES: [SubtaskIndex; 2] = [SubtaskIndex(0), SubtaskIndex(1)];
const SINK: SubtaskIndex = SubtaskIndex(2);

/// A subtask with a list of files, each stored under a name for each checkpoint that uploaded it.
#[derive(Default)]
struct Subtask {
    /// Barriers on the way to it.
    barriers: Vec<CheckpointId>,
    /// Notifications on the way to it, which overtake barriers and are overtaken.
    news: Vec<CheckpointId>,
    /// Its current files.
    list: Vec<u32>,
    /// Under which name each file of a snapshot is stored, by checkpoint.
    snapshots: BTreeMap<CheckpointId, BTreeMap<u32, String>>,
    /// The newest checkpoint that it knows to be complete.
    known: Option<CheckpointId>,
}

/// What one checkpoint really consists of.
#[derive(Default)]
struct Truth {
    acknowledged: BTreeSet<SubtaskIndex>,
    files: BTreeSet<String>,
    transactions: BTreeSet<TransactionId>,
    /// Whether its manifest stands in its slot, or a tombstone.
    stands: Option<bool>,
    /// Whether the machine was told that it stands.
    published: bool,
    ended: bool,
    is_swap: bool,
}

pub struct World {
    rng: Rng,
    now: Duration,
    machine: CheckpointCoordinator,
    max_concurrent: usize,
    subtasks: BTreeMap<SubtaskIndex, Subtask>,
    /// Prepared transactions that the sink does not know to be committed, with their deadlines.
    uncommitted: BTreeMap<TransactionId, Option<Duration>>,
    /// Events on the way to the machine.
    mail: Vec<CoordEvent>,
    truth: BTreeMap<CheckpointId, Truth>,
    /// Completed and not subsumed.
    retained: BTreeSet<CheckpointId>,
    store: BTreeSet<String>,
    next_name: u32,
    /// No more losses, repeats or declines.
    calm: bool,
    end: Option<CoordEffect>,
    /// A swap checkpoint was aborted.
    must_end: bool,
    /// What has happened in this run, so that a test can show that nothing is missing.
    seen: BTreeSet<String>,
}

impl World {
    /// A job drawn from `seed`.
    pub fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut rng = Rng::new(seed);
        let subtasks = BTreeSet::from([SOURCES[0], SOURCES[1], SINK]);
        let max_concurrent = 1 + rng.below(3);
        let config = CoordinatorConfig {
            generation: GENERATION,
            first_sequence: 1,
            sources: BTreeSet::from(SOURCES),
            subtasks: subtasks.clone(),
            interval: Duration::from_secs(1 + rng.below(8) as u64),
            timeout: Duration::from_secs(10 + rng.below(30) as u64),
            min_pause: Duration::from_secs(rng.below(5) as u64),
            max_concurrent,
            tolerable_failures: rng.below(30) as u32,
            retain: 1 + rng.below(2),
        };
        let machine = CheckpointCoordinator::new(config, &[], None, Duration::ZERO);
        World {
            machine: match mutant {
                Some(mutant) => machine.with_mutant(mutant),
                None => machine,
            },
            rng,
            now: Duration::ZERO,
            max_concurrent,
            subtasks: subtasks.into_iter().map(|subtask| (subtask, Subtask::default())).collect(),
            uncommitted: BTreeMap::new(),
            mail: Vec::new(),
            truth: BTreeMap::new(),
            retained: BTreeSet::new(),
            store: BTreeSet::new(),
            next_name: 0,
            calm: false,
            end: None,
            must_end: false,
            seen: BTreeSet::new(),
        }
    }

    /// Runs to the end of the attempt and gives what has happened.
    pub fn run(mut self) -> BTreeSet<String> {
        for _ in 0..300 {
            self.step();
        }
        self.calm = true;
        for source in SOURCES {
            self.mail.push(CoordEvent::SourceEndOfData { now: self.now, generation: GENERATION, subtask: source });
        }
        for _ in 0..3000 {
            if self.end.is_some() && self.mail.is_empty() {
                break;
            }
            self.step();
        }
        let end = self.end.take().expect("a job whose input has ended comes to an end");
        if matches!(end, CoordEffect::Finished { .. }) {
            let reachable: BTreeSet<String> = self.retained.iter().flat_map(|n| self.truth[n].files.clone()).collect();
            let known: BTreeSet<String> = self.machine.registry().files().keys().cloned().collect();
            assert_eq!(known, reachable, "S4: what the registry knows when idle");
            assert!(self.uncommitted.is_empty(), "T4: the job has finished without {:?}", self.uncommitted);
        }
        self.seen
    }

    fn step(&mut self) {
        match self.rng.below(8) {
            0 => {
                self.now += Duration::from_secs(self.rng.below(3) as u64);
                self.handle(CoordEvent::Tick { now: self.now });
            }
            1..=3 => self.deliver(),
            4 | 5 => self.snapshot(),
            6 => self.tell_news(),
            _ => self.disturb(),
        }
    }

    /// One event reaches the machine, in any order.
    fn deliver(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let at = self.rng.below(self.mail.len());
        let event = if !self.calm && self.rng.one_in(8) { self.mail[at].clone() } else { self.mail.swap_remove(at) };
        let event = stamped(event, self.now);
        self.handle(event);
    }

    /// A barrier reaches a subtask.
    fn snapshot(&mut self) {
        let waiting: Vec<SubtaskIndex> =
            self.subtasks.iter().filter(|(_, task)| !task.barriers.is_empty()).map(|(index, _)| *index).collect();
        if waiting.is_empty() {
            return;
        }
        let subtask = *self.rng.pick(&waiting);
        let checkpoint = self.subtasks.get_mut(&subtask).expect("picked from it").barriers.remove(0);
        let files = self.files_of(subtask, checkpoint);
        let committables = if subtask == SINK { self.prepare(checkpoint) } else { vec![] };
        if self.calm || !self.rng.one_in(10) {
            let now = self.now;
            self.mail.push(CoordEvent::Acknowledge { now, checkpoint, subtask, files, committables });
        } else if self.rng.one_in(2) {
            self.mail.push(CoordEvent::Decline { now: self.now, checkpoint, subtask });
        }
    }

    /// As a state backend does it: what no completed manifest holds, as far as it knows, goes up under a new name.
    fn files_of(&mut self, subtask: SubtaskIndex, checkpoint: CheckpointId) -> Vec<FileRef> {
        let task = self.subtasks.get_mut(&subtask).expect("a subtask");
        if self.rng.one_in(4) {
            task.list.clear();
        }
        self.next_name += 1;
        task.list.push(self.next_name);
        let stored = task.known.and_then(|known| task.snapshots.get(&known)).cloned().unwrap_or_default();
        let mut files = Vec::new();
        let mut names = BTreeMap::new();
        for file in &task.list {
            let (name, origin) = match stored.get(file) {
                Some(name) => (name.clone(), FileOrigin::Stored),
                None => (format!("{file}-{}-{}", subtask.0, checkpoint.sequence()), FileOrigin::Uploaded),
            };
            if origin == FileOrigin::Uploaded {
                self.store.insert(name.clone());
            }
            names.insert(*file, name.clone());
            files.push(FileRef { name, origin });
        }
        task.snapshots.insert(checkpoint, names);
        files
    }

    /// The sink's transaction of this interval, and all that ride.
    fn prepare(&mut self, checkpoint: CheckpointId) -> Vec<Committable> {
        if !self.rng.one_in(3) {
            let number = u64::from(checkpoint.sequence());
            let id = TransactionId { lineage: Lineage(7), generation: GENERATION, sink: "out".to_owned(), writer: 0, number };
            let valid_until = self.rng.one_in(2).then(|| self.now + Duration::from_secs(10 + self.rng.below(90) as u64));
            self.uncommitted.insert(id, valid_until);
        }
        self.uncommitted.iter().map(|(id, valid_until)| Committable { id: id.clone(), valid_until: *valid_until }).collect()
    }

    /// A notification reaches a subtask.
    fn tell_news(&mut self) {
        let subtask = SubtaskIndex(self.rng.below(3) as u32);
        let lost = !self.calm && self.rng.one_in(5);
        let task = self.subtasks.get_mut(&subtask).expect("a subtask");
        if let Some(news) = task.news.pop().filter(|_| !lost) {
            task.known = task.known.max(Some(news));
        }
    }

    fn disturb(&mut self) {
        if self.calm {
            return;
        }
        let now = self.now;
        let subtask = SubtaskIndex(self.rng.below(3) as u32);
        match self.rng.below(400) {
            0 => self.mail.push(CoordEvent::TaskFailed { now, generation: GENERATION, subtask }),
            1 => self.mail.push(CoordEvent::NewerClaim { now }),
            2 => self.mail.push(CoordEvent::RequestSuspend { now }),
            3 => self.mail.push(CoordEvent::SourceEndOfData { now, generation: GENERATION, subtask: SOURCES[0] }),
            4 => {
                let checkpoint = CheckpointId::new(Generation(2), 1);
                self.mail.push(CoordEvent::Acknowledge { now, checkpoint, subtask, files: vec![], committables: vec![] });
            }
            5 => {
                let checkpoint = CheckpointId::new(GENERATION, 1_000_000);
                self.mail.push(CoordEvent::Acknowledge { now, checkpoint, subtask, files: vec![], committables: vec![] });
            }
            31 | 32 => self.mail.push(CoordEvent::RequestSwap { now }),
            6..=30 => self.mail.push(CoordEvent::TaskFailed { now, generation: Generation(2), subtask }),
            _ => {}
        }
    }

    fn handle(&mut self, event: CoordEvent) {
        self.observe(&event);
        let mut effects = Vec::new();
        self.machine.handle(event.clone(), &mut effects);
        for effect in effects {
            self.execute(&event, effect);
        }
        let under_way = self.truth.values().filter(|truth| !truth.ended).count();
        assert!(self.end.is_some() || under_way <= self.max_concurrent, "C6: {under_way} are under way");
        assert!(self.machine.next_deadline().is_none_or(|at| at > self.now), "what is due was not done");
        assert_eq!(self.end.is_some(), self.machine.is_done());
        assert!(self.end.is_some() || !self.must_end, "X2: some subtasks have exchanged, and the attempt goes on");
    }

    /// What the observer learns from what the machine is told.
    fn observe(&mut self, event: &CoordEvent) {
        if let (CoordEvent::Published { checkpoint, .. }, None) = (event, &self.end) {
            self.truth.get_mut(checkpoint).expect("published after it was injected").published = true;
        }
    }

    fn execute(&mut self, event: &CoordEvent, effect: CoordEffect) {
        assert!(self.end.is_none() || matches!(effect, CoordEffect::Acknowledged { .. }), "{effect:?} after the end");
        self.note(&effect);
        let now = self.now;
        match effect {
            CoordEffect::Acknowledged { checkpoint, subtask, outcome } => {
                let CoordEvent::Acknowledge { files, committables, .. } = event else { panic!("nothing was acknowledged") };
                if outcome == AckOutcome::Accepted {
                    let truth = self.truth.get_mut(&checkpoint).expect("C2: accepted for what was injected");
                    assert!(truth.acknowledged.insert(subtask), "C2: {subtask:?} counted twice for {checkpoint}");
                    truth.files.extend(files.iter().map(|file| file.name.clone()));
                    truth.transactions.extend(committables.iter().map(|committable| committable.id.clone()));
                }
            }
            CoordEffect::InjectBarrier { checkpoint, kind, sources } => {
                let mut under_way = self.truth.values().filter(|truth| !truth.ended);
                let is_swap = kind == CheckpointKind::Swap;
                assert!(under_way.all(|truth| !truth.is_swap && !is_swap), "X2: the swap checkpoint is not alone");
                assert_eq!(sources, BTreeSet::from(SOURCES), "C2: ended sources answer too");
                assert!(self.truth.keys().all(|id| *id < checkpoint), "C5: {checkpoint} was used before");
                self.truth.insert(checkpoint, Truth { is_swap, ..Truth::default() });
                self.subtasks.values_mut().for_each(|task| task.barriers.push(checkpoint));
            }
            CoordEffect::PublishManifest { checkpoint } => {
                let missing: Vec<&String> = self.truth[&checkpoint].files.difference(&self.store).collect();
                assert!(missing.is_empty(), "S1: manifest {checkpoint} names deleted files: {missing:?}");
                self.answer_publish(checkpoint);
            }
            // One answer to the publish is on its way already; which of the two is there first is decided by the log, once.
            CoordEffect::PutTombstone { checkpoint: _ } => {}
            CoordEffect::NotifyComplete { checkpoint } => {
                let truth = self.truth.get_mut(&checkpoint).expect("injected");
                assert!(truth.published, "C3: {checkpoint} is not durable");
                assert!(!std::mem::replace(&mut truth.ended, true), "C4: {checkpoint} has ended before");
                assert_eq!(truth.acknowledged.len(), 3, "C2: {checkpoint} lacks a snapshot");
                assert!(self.retained.last() < Some(&checkpoint), "C1: {checkpoint} is older than the newest");
                self.retained.insert(checkpoint);
                self.subtasks.values_mut().for_each(|task| task.news.push(checkpoint));
            }
            CoordEffect::Commit(permit) => {
                let truth = &self.truth[&permit.checkpoint()];
                assert!(truth.published, "T1: a permit before the manifest is durable");
                assert_eq!(permit.transactions(), &truth.transactions, "T1: a permit names what the manifest contains");
                self.uncommitted.retain(|id, _| !permit.contains(id));
                self.mail.push(CoordEvent::CommitsDone { now, checkpoint: permit.checkpoint() });
            }
            CoordEffect::NotifyAborted { checkpoint, reason: _ } => {
                let truth = self.truth.get_mut(&checkpoint).expect("injected");
                self.must_end |= truth.is_swap;
                assert!(truth.stands != Some(true), "C4: {checkpoint} stands in the log and is aborted");
                assert!(!std::mem::replace(&mut truth.ended, true), "C4: {checkpoint} has ended before");
                for task in self.subtasks.values_mut() {
                    if self.rng.one_in(2) {
                        task.barriers.retain(|barrier| *barrier != checkpoint);
                    }
                }
            }
            CoordEffect::Subsume { checkpoint } => {
                assert_eq!(self.retained.pop_first(), Some(checkpoint), "S1: retention goes oldest first");
                assert!(!self.retained.is_empty(), "S1: the newest completed checkpoint is kept");
            }
            CoordEffect::ReleaseFiles { names } => self.release(names),
            end @ (CoordEffect::FailOver { .. }
            | CoordEffect::Fenced
            | CoordEffect::Finished { .. }
            | CoordEffect::Suspended { .. }) => {
                for n in &self.retained {
                    assert!(self.truth[n].files.is_subset(&self.store), "S1: {n} lacks a file when the next attempt begins");
                }
                // The manifest of a publish that nobody waits for any more may be the newest one that the next attempt finds.
                let unheard = self.truth.iter().filter(|(_, truth)| truth.stands == Some(true) && !truth.ended);
                for (n, truth) in unheard {
                    assert!(truth.files.is_subset(&self.store), "S1: {n} stands unheard and lacks a file");
                }
                self.end = Some(end);
            }
        }
    }

    fn note(&mut self, effect: &CoordEffect) {
        // The first word is the kind: the reason without whom it concerns, or the effect.
        let kind = |debug: String| debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
        self.seen.insert(match effect {
            CoordEffect::NotifyAborted { reason, .. } => format!("abort {}", kind(format!("{reason:?}"))),
            CoordEffect::FailOver { reason } => format!("fail over {}", kind(format!("{reason:?}"))),
            CoordEffect::Acknowledged { outcome, .. } => format!("ack {outcome:?}"),
            other => kind(format!("{other:?}")),
        });
    }

    /// The log's answer to a publish. What stands in the slot is decided once, whatever is known of it.
    fn answer_publish(&mut self, checkpoint: CheckpointId) {
        let now = self.now;
        if !self.calm && self.rng.one_in(30) {
            if self.rng.one_in(2) {
                self.truth.get_mut(&checkpoint).expect("injected").stands.get_or_insert(true);
            }
            return self.mail.push(CoordEvent::PublishUnknown { now, checkpoint });
        }
        let tombstone = !self.calm && self.rng.one_in(8);
        let stands = *self.truth.get_mut(&checkpoint).expect("injected").stands.get_or_insert(!tombstone);
        self.mail.push(match stands {
            true => CoordEvent::Published { now, checkpoint },
            false => CoordEvent::TombstoneStands { now, checkpoint },
        });
    }

    fn release(&mut self, names: BTreeSet<String>) {
        for name in names {
            let holder = self.retained.iter().find(|n| self.truth[n].files.contains(&name));
            assert_eq!(holder, None, "S1: {name} is in a retained manifest and was released");
            assert!(self.store.remove(&name), "{name} was released twice");
        }
    }
}

/// Handed over now, whenever it was sent.
fn stamped(event: CoordEvent, now: Duration) -> CoordEvent {
    match event {
        CoordEvent::Tick { .. } => CoordEvent::Tick { now },
        CoordEvent::Acknowledge { checkpoint, subtask, files, committables, .. } => {
            CoordEvent::Acknowledge { now, checkpoint, subtask, files, committables }
        }
        CoordEvent::Decline { checkpoint, subtask, .. } => CoordEvent::Decline { now, checkpoint, subtask },
        CoordEvent::TaskFailed { generation, subtask, .. } => CoordEvent::TaskFailed { now, generation, subtask },
        CoordEvent::SourceEndOfData { generation, subtask, .. } => CoordEvent::SourceEndOfData { now, generation, subtask },
        CoordEvent::Published { checkpoint, .. } => CoordEvent::Published { now, checkpoint },
        CoordEvent::PublishUnknown { checkpoint, .. } => CoordEvent::PublishUnknown { now, checkpoint },
        CoordEvent::TombstoneStands { checkpoint, .. } => CoordEvent::TombstoneStands { now, checkpoint },
        CoordEvent::NewerClaim { .. } => CoordEvent::NewerClaim { now },
        CoordEvent::RequestSuspend { .. } => CoordEvent::RequestSuspend { now },
        CoordEvent::RequestSwap { .. } => CoordEvent::RequestSwap { now },
        CoordEvent::CommitsDone { checkpoint, .. } => CoordEvent::CommitsDone { now, checkpoint },
    }
}
