//! The timers of one operator in one subtask: kept in its keyed state, so that they are in every snapshot and belong to their
//! key's group; in memory, in the order in which they fire.
//!
//! The cell of a key in [`TIMERS_STATE`] holds all of its timers, `(kind u8, time s64, length u32, payload)` each, ascending.

use crate::clock;
use std::collections::{BTreeMap, BTreeSet};
use weir_plugin::batch::{Cells, RecordBatch};
use weir_plugin::state::{KeyGrouping, KeyedStateBackend, StateError, StateId};
use weir_plugin::{TimerChange, TimerClocks, TimerKind, TimerOp};
use weir_protocol::timers::{Timer, TimerQueue};

/// Where they lie: a state that no plugin can declare.
pub const TIMERS_STATE: StateId = StateId::MAX;

/// Its name in manifests, which no plugin can give to a state; and its kind.
pub const TIMERS_NAME: &str = "weir.timers";
/// See [`TIMERS_NAME`].
pub const TIMERS_KIND: &str = "timers";
/// Version of the cells' encoding.
pub const TIMERS_SCHEMA: u32 = 1;

/// Timers that one call is told of.
const FIRED_MAX: usize = 1024;

/// Timers that one key may have: each change writes all of them.
const PER_KEY_MAX: usize = 10_000;

/// Timers that calls may set while timers fire, and that are due at once; or a hundred times as many as there were, if that is
/// more. More than that have no end.
const CHAINED_MAX: usize = 1_000_000;

/// Keys of one page of the restore.
const PAGE: usize = 1024;

/// Why timers can't be kept.
#[derive(Debug)]
pub enum TimerFault {
    /// The plugin's.
    Plugin(String),
    /// The backend's.
    State(StateError),
}

impl From<StateError> for TimerFault {
    fn from(error: StateError) -> Self {
        TimerFault::State(error)
    }
}

/// One timer as a cell has it: kind, time, payload.
type Entry = (TimerKind, i64, Box<[u8]>);

/// See the module.
#[derive(Default)]
pub struct Timers {
    queue: TimerQueue<2>,
    grouping: KeyGrouping,
    /// Those that were set by what fired and were due at once, since there were last no due ones; and how many may be.
    chained: usize,
    chained_max: usize,
}

/// Timers of one kind that were taken to be fired.
pub struct Fired {
    /// Of which kind.
    pub kind: TimerKind,
    /// Key, payload as the value, time; in order.
    pub due: RecordBatch,
    /// What the clocks said.
    pub clocks: TimerClocks,
}

impl Timers {
    /// Those that the restored state holds.
    pub fn restored(backend: &mut dyn KeyedStateBackend) -> Result<Self, TimerFault> {
        let mut timers = Timers::default();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let keys = backend.scan_keys(&[TIMERS_STATE], after.as_deref(), PAGE)?;
            let batch = batch_of(keys.iter().map(Vec::as_slice));
            timers.grouping.group(&batch);
            let mut cells = Cells::new();
            backend.get_many(TIMERS_STATE, timers.grouping.keys(&batch), &mut cells)?;
            for (i, key) in keys.iter().enumerate() {
                let Some(cell) = cells.get(i) else { continue };
                let entries = decode(cell).ok_or_else(|| {
                    TimerFault::Plugin(format!("the stored timers of a key ({} bytes) can't be read", cell.len()))
                })?;
                for (kind, time, payload) in entries {
                    timers.queue.register(kind as usize, Timer { time, key: key.as_slice().into(), payload });
                }
            }
            if keys.len() < PAGE {
                return Ok(timers);
            }
            after = keys.into_iter().last();
        }
    }

    /// Applies what a call wants, to the queue and to the state of its keys. `fired`: what the call was told of: gone with it.
    pub fn apply(
        &mut self,
        fired: Option<&Fired>,
        changes: &[TimerChange],
        backend: &mut dyn KeyedStateBackend,
    ) -> Result<(), TimerFault> {
        let mut by_key: BTreeMap<&[u8], Vec<(bool, Entry)>> = BTreeMap::new();
        if let Some(fired) = fired {
            for i in 0..fired.due.len() {
                by_key.entry(fired.due.key(i)).or_default().push((false, entry_of(fired.kind, &fired.due, i)));
            }
        }
        for TimerChange { op, kind, timers } in changes {
            for i in 0..timers.len() {
                let timer = Timer { time: timers.time(i), key: timers.key(i).into(), payload: timers.value(i).into() };
                let changed = match op {
                    TimerOp::Register => self.queue.register(*kind as usize, timer),
                    TimerOp::Delete => self.queue.delete(*kind as usize, &timer),
                };
                // What changes nothing costs no state: a window sets its timer with each of its records.
                if changed {
                    let is_set = *op == TimerOp::Register;
                    let is_due = fired.is_some_and(|fired| timers.time(i) <= now(fired.clocks, *kind));
                    self.chained += usize::from(is_set && is_due);
                    by_key.entry(timers.key(i)).or_default().push((is_set, entry_of(*kind, timers, i)));
                }
            }
        }
        if by_key.is_empty() {
            return Ok(());
        }
        let batch = batch_of(by_key.keys().copied());
        self.grouping.group(&batch);
        let keys = self.grouping.keys(&batch);
        let (mut before, mut after) = (Cells::new(), Cells::new());
        backend.get_many(TIMERS_STATE, keys, &mut before)?;
        for (i, (key, changes)) in by_key.into_iter().enumerate() {
            let cell = before.get(i).unwrap_or_default();
            let stored = decode(cell).unwrap_or_else(|| panic!("TM2: the timers of a key are no timers: {cell:?}"));
            let mut entries: BTreeSet<Entry> = stored.into_iter().collect();
            for (is_set, entry) in changes {
                if is_set {
                    entries.insert(entry)
                } else {
                    entries.remove(&entry)
                };
            }
            if entries.len() > PER_KEY_MAX {
                let key = key[..key.len().min(40)].escape_ascii();
                return Err(TimerFault::Plugin(format!("key \"{key}\" has more than {PER_KEY_MAX} timers")));
            }
            if entries.is_empty() { after.push_delete() } else { after.push_put(&encode(&entries)) }
        }
        Ok(backend.put_many(TIMERS_STATE, keys, &after)?)
    }

    /// Takes the next timers that are due; none: there are none for now.
    pub fn take_due(&mut self, clocks: TimerClocks) -> Result<Option<Fired>, TimerFault> {
        if self.chained_max == 0 {
            let all: usize = TimerKind::ALL.iter().map(|kind| self.queue.len(*kind as usize)).sum();
            self.chained_max = CHAINED_MAX.max(100 * all);
        }
        if self.chained > self.chained_max {
            let set = self.chained;
            return Err(TimerFault::Plugin(format!(
                "its timers have set {set} more that were due at once, and go on: a timer that sets the next one must have an end"
            )));
        }
        for kind in TimerKind::ALL {
            let due = self.queue.take_due(kind as usize, now(clocks, kind), FIRED_MAX);
            if !due.is_empty() {
                let mut batch = RecordBatch::with_capacity(due.len(), due.iter().map(|t| t.key.len() + t.payload.len()).sum());
                due.iter().for_each(|timer| batch.push(&timer.key, &timer.payload, timer.time));
                return Ok(Some(Fired { kind, due: batch, clocks }));
            }
        }
        (self.chained, self.chained_max) = (0, 0);
        Ok(None)
    }

    /// What the clocks say. `watermark`: of the operator's input. The wall is only looked at where somebody waits for it.
    pub fn clocks(&self, watermark: i64) -> TimerClocks {
        TimerClocks { watermark, processing: i64::try_from(clock::wall_ms()).unwrap_or(i64::MAX) }
    }

    /// Time until the next one of processing time, ms; none if there is none.
    pub fn wait_ms(&self) -> Option<u64> {
        let next = self.queue.next(TimerKind::ProcessingTime as usize)?;
        Some(u64::try_from(next.saturating_sub(self.clocks(0).processing)).unwrap_or(0))
    }

    /// All input has ended, and the clock on the wall is waited for no more; gives how many are dropped.
    pub fn drop_processing(&mut self) -> usize {
        self.queue.clear(TimerKind::ProcessingTime as usize)
    }
}

/// What timers of a kind wait for.
fn now(clocks: TimerClocks, kind: TimerKind) -> i64 {
    match kind {
        TimerKind::EventTime => clocks.watermark,
        TimerKind::ProcessingTime => clocks.processing,
    }
}

/// Keys as a batch without values, so that they are grouped like any other; each stands once, so that their order stays.
fn batch_of<'a>(keys: impl Iterator<Item = &'a [u8]>) -> RecordBatch {
    let mut batch = RecordBatch::new();
    keys.for_each(|key| batch.push(key, &[], 0));
    batch
}

fn entry_of(kind: TimerKind, timers: &RecordBatch, i: usize) -> Entry {
    (kind, timers.time(i), timers.value(i).into())
}

fn encode(entries: &BTreeSet<Entry>) -> Vec<u8> {
    let mut cell = Vec::new();
    for (kind, time, payload) in entries {
        cell.push(*kind as u8);
        cell.extend_from_slice(&time.to_le_bytes());
        cell.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        cell.extend_from_slice(payload);
    }
    cell
}

fn decode(mut cell: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while let Some((&kind, rest)) = cell.split_first() {
        let kind = *TimerKind::ALL.get(usize::from(kind))?;
        let (time, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        entries.push((kind, i64::from_le_bytes(*time), payload.into()));
        cell = rest;
    }
    Some(entries)
}

#[cfg(test)]
#[path = "timers_tests.rs"]
mod tests;
