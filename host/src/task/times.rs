//! Where a subtask's time goes: a clock that is read between the steps of its loop, and the counters that it adds to.
//!
//! Invariants:
//! - *whole*: from the start of the clock to its last reading, every nanosecond belongs to exactly one stage of one node;
//! - *one writer*: only the subtask adds to its counters; whoever else reads them may see a batch half counted;
//! - *per batch*: nothing here is done for single records.

use super::event_time::EventTimeGauge;
use crate::clock;
use crate::state::LookUps;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weir_plugin::CallTimes;

/// What a node spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Stage {
    /// Waiting for input (for a source: until its rate lets it go on).
    Idle,
    /// Waiting for room downstream.
    Blocked,
    /// Reading a source.
    SourcePoll,
    /// Spreading records over the readers and handing them to their channels.
    Exchange,
    /// Grouping records by key.
    Group,
    /// Reading state for the keys of a batch.
    LookUp,
    /// In the Wasm code, copies in and out included.
    Guest,
    /// In the host's functions that the guest calls.
    HostCalls,
    /// Checking what the guest gave.
    Take,
    /// Writing state.
    Apply,
    /// Writing to a sink.
    SinkWrite,
    /// Background work of state: copies of a frozen set, eviction.
    Sweep,
    /// The synchronous part of a snapshot.
    Snapshot,
    /// Everything else: the loop, alignment, dead letters, the replay of a batch, freeing memory.
    Rest,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Stage; 14] = [
        Stage::Idle,
        Stage::Blocked,
        Stage::SourcePoll,
        Stage::Exchange,
        Stage::Group,
        Stage::LookUp,
        Stage::Guest,
        Stage::HostCalls,
        Stage::Take,
        Stage::Apply,
        Stage::SinkWrite,
        Stage::Sweep,
        Stage::Snapshot,
        Stage::Rest,
    ];

    /// The name that people and scripts see.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Idle => "waiting for input",
            Stage::Blocked => "waiting for room",
            Stage::SourcePoll => "source poll",
            Stage::Exchange => "exchange",
            Stage::Group => "grouping by key",
            Stage::LookUp => "state look-up",
            Stage::Guest => "guest call",
            Stage::HostCalls => "host calls",
            Stage::Take => "taking the output",
            Stage::Apply => "state apply",
            Stage::SinkWrite => "sink write",
            Stage::Sweep => "sweep",
            Stage::Snapshot => "snapshot",
            Stage::Rest => "rest",
        }
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// What it has counted.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, n: u64) {
        // No `fetch_add`: there is one writer, and a locked instruction costs as much as a reading of the clock.
        self.0.store(self.get() + n, Ordering::Relaxed);
    }
}

/// Times and counts of one node in one subtask, since the run began.
#[derive(Debug, Default)]
pub struct NodeTimes {
    /// Records that it got (for a source: read).
    pub records: Counter,
    /// Calls of its guest.
    pub calls: Counter,
    /// Host calls of its guest.
    pub host_calls: Counter,
    /// Keys looked up whose state was in memory.
    pub hits: Counter,
    /// Keys looked up whose state was not.
    pub misses: Counter,
    /// Keys of those that were read from the store; the others are known to have no state.
    pub store_reads: Counter,
    /// What it says of its event time.
    pub event_time: EventTimeGauge,
    stages: [Counter; Stage::ALL.len()],
}

impl NodeTimes {
    #[cfg(test)]
    pub(super) fn add_for_test(&self, stage: Stage, ns: u64) {
        self.stages[stage as usize].add(ns);
    }

    /// Nanoseconds of a stage.
    pub fn stage_ns(&self, stage: Stage) -> u64 {
        self.stages[stage as usize].get()
    }
}

/// Times and counts of one subtask, since the run began.
#[derive(Debug)]
pub struct TaskTimes {
    /// Nanoseconds of its thread, added when a turn of the loop is over.
    pub thread_ns: Counter,
    /// By node.
    pub nodes: Vec<NodeTimes>,
}

impl TaskTimes {
    /// Of a chain of so many nodes.
    pub fn new(nodes: usize) -> Self {
        TaskTimes { thread_ns: Counter::default(), nodes: (0..nodes).map(|_| NodeTimes::default()).collect() }
    }

    /// Nanoseconds of a stage, all nodes together.
    pub fn stage_ns(&self, stage: Stage) -> u64 {
        self.nodes.iter().map(|node| node.stage_ns(stage)).sum()
    }

    /// Nanoseconds of the stages that are work.
    pub fn busy_ns(&self) -> u64 {
        let work = Stage::ALL.into_iter().filter(|stage| !matches!(stage, Stage::Idle | Stage::Blocked));
        work.map(|stage| self.stage_ns(stage)).sum()
    }
}

/// The clock of one subtask.
pub struct StageClock {
    times: Arc<TaskTimes>,
    /// The last reading: what follows belongs to nothing yet.
    at: Instant,
    /// Up to where the thread's own time is counted.
    turned: Instant,
    /// What each node's operator and backend had counted when they were last looked at.
    seen: Vec<(CallTimes, LookUps)>,
}

impl StageClock {
    /// Starts it.
    pub fn start(times: Arc<TaskTimes>) -> Self {
        StageClock::start_at(times, clock::monotonic())
    }

    fn start_at(times: Arc<TaskTimes>, at: Instant) -> Self {
        let seen = vec![Default::default(); times.nodes.len()];
        StageClock { times, at, turned: at, seen }
    }

    /// All the time since the last reading belongs to this stage.
    pub fn lap(&mut self, node: usize, stage: Stage) {
        let ns = self.read(clock::monotonic());
        self.times.nodes[node].stages[stage as usize].add(ns);
    }

    /// The time since the last reading went into a call of the node's operator, which says of itself what it did; what it
    /// does not say is `Rest`. `look_ups`: what its backend has counted.
    pub fn lap_call(&mut self, node: usize, times: CallTimes, look_ups: LookUps) {
        self.lap_call_at(clock::monotonic(), node, times, look_ups);
    }

    fn lap_call_at(&mut self, now: Instant, node: usize, times: CallTimes, look_ups: LookUps) {
        let mut left = self.read(now);
        let (times_before, look_ups_before) = std::mem::replace(&mut self.seen[node], (times, look_ups));
        let (spent, found) = (times - times_before, look_ups - look_ups_before);
        let own = &self.times.nodes[node];
        for (stage, ns) in [
            (Stage::Group, spent.group_ns),
            (Stage::LookUp, spent.look_up_ns),
            (Stage::Guest, spent.guest_ns),
            (Stage::HostCalls, spent.host_ns),
            (Stage::Take, spent.take_ns),
            (Stage::Apply, spent.apply_ns),
        ] {
            // What it says can't be more than what has passed.
            let ns = ns.min(left);
            left -= ns;
            own.stages[stage as usize].add(ns);
        }
        own.stages[Stage::Rest as usize].add(left);
        own.calls.add(spent.calls);
        own.host_calls.add(spent.host_calls);
        own.hits.add(found.hits);
        own.misses.add(found.misses);
        own.store_reads.add(found.store_reads);
    }

    /// A node's operator is another instance: what it says of itself begins anew.
    pub fn exchanged(&mut self, node: usize) {
        self.seen[node].0 = CallTimes::default();
    }

    /// A node gets so many records.
    pub fn records(&self, node: usize, records: usize) {
        self.times.nodes[node].records.add(records as u64);
    }

    /// A turn of the loop is over.
    pub fn turn(&mut self) {
        self.times.thread_ns.add(nanoseconds(self.turned, self.at));
        self.turned = self.at;
    }

    /// Nanoseconds since the last reading.
    fn read(&mut self, now: Instant) -> u64 {
        let ns = nanoseconds(self.at, now);
        self.at = now;
        ns
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
