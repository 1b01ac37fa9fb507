//! Timers of keys: set while records are processed, fired when event time or the clock on the wall has passed them.

use crate::bindings::types;

/// What a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// The watermark of the operator's input.
    EventTime,
    /// The clock on the wall.
    ProcessingTime,
}

impl TimerKind {
    /// Its name in the contract.
    pub const fn name(self) -> &'static str {
        match self {
            TimerKind::EventTime => "event-time",
            TimerKind::ProcessingTime => "processing-time",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [TimerKind::EventTime, TimerKind::ProcessingTime].into_iter().find(|kind| kind.name() == name)
    }
}

/// A timer that is due. It is gone already: to hear of it again, set it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer<'a> {
    pub(crate) kind: TimerKind,
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) time: i64,
}

impl<'a> Timer<'a> {
    /// What it waited for.
    pub fn kind(&self) -> TimerKind {
        self.kind
    }

    /// Whose it is.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// What it was set with.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// When it was to fire, in milliseconds since the Unix epoch.
    pub fn time(&self) -> i64 {
        self.time
    }
}

/// Sets timers and takes them away. Nothing of it counts if the call fails.
///
/// A timer is (kind, key, time, payload): set twice, it fires once. Keys must be of the running call: the record's, or the
/// timer's that fires.
#[derive(Debug)]
pub struct Timers {
    changes: Vec<Change>,
    /// What the clocks say, once they were asked.
    clocks: [Option<i64>; 2],
    host: TimerHost,
}

/// Timers that are all set, or all taken away.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) sets: bool,
    pub(crate) kind: TimerKind,
    pub(crate) timers: types::Batch,
}

impl Timers {
    pub(crate) fn new(host: &TimerHost) -> Self {
        Timers { changes: Vec::new(), clocks: [None; 2], host: host.clone() }
    }

    /// Sets a timer for when the watermark has passed `time`, ms since the Unix epoch.
    pub fn set_event_time(&mut self, key: &[u8], time: i64, payload: &[u8]) {
        self.change(true, TimerKind::EventTime, key, time, payload);
    }

    /// Sets a timer for when the clock on the wall has passed `time`, ms since the Unix epoch.
    pub fn set_processing_time(&mut self, key: &[u8], time: i64, payload: &[u8]) {
        self.change(true, TimerKind::ProcessingTime, key, time, payload);
    }

    /// Takes a timer away that was set with the same values; if there is none, nothing happens.
    pub fn delete(&mut self, kind: TimerKind, key: &[u8], time: i64, payload: &[u8]) {
        self.change(false, kind, key, time, payload);
    }

    /// How far event time has come: no record of this time or less is expected any more. `i64::MIN` before that is known,
    /// `i64::MAX` once all input has ended. The same during a call.
    pub fn watermark(&mut self) -> i64 {
        self.current(TimerKind::EventTime)
    }

    /// The clock on the wall, in milliseconds since the Unix epoch. The same during a call.
    pub fn processing_time(&mut self) -> i64 {
        self.current(TimerKind::ProcessingTime)
    }

    fn current(&mut self, kind: TimerKind) -> i64 {
        *self.clocks[kind as usize].get_or_insert_with(|| self.host.current(kind))
    }

    fn change(&mut self, sets: bool, kind: TimerKind, key: &[u8], time: i64, payload: &[u8]) {
        if self.changes.last().is_none_or(|last| (last.sets, last.kind) != (sets, kind)) {
            let timers = types::Batch { count: 0, data: Vec::new(), index: vec![0; 4], times: Vec::new(), aux: Vec::new() };
            self.changes.push(Change { sets, kind, timers });
        }
        let timers = &mut self.changes.last_mut().expect("there is one now").timers;
        for bytes in [key, payload] {
            timers.data.extend_from_slice(bytes);
            timers.index.extend_from_slice(&(timers.data.len() as u32).to_le_bytes());
        }
        timers.times.extend_from_slice(&time.to_le_bytes());
        timers.count += 1;
    }

    /// The call has gone well: hands over what is to change, one host call for each run of the same.
    pub(crate) fn finish(self) {
        for change in self.changes {
            self.host.change(change);
        }
    }
}

/// Where timers are kept.
#[cfg(target_family = "wasm")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TimerHost;

#[cfg(target_family = "wasm")]
impl TimerHost {
    fn change(&self, change: Change) {
        use crate::bindings::timers::weir::plugin::timer_service;
        match change.sets {
            true => timer_service::register_many(change.kind.name(), &change.timers),
            false => timer_service::delete_many(change.kind.name(), &change.timers),
        }
    }

    fn current(&self, kind: TimerKind) -> i64 {
        crate::bindings::timers::weir::plugin::timer_service::current(kind.name())
    }
}

/// Stand-in that keeps what is to change for the test harness, and says what that lets the clocks say.
#[cfg(not(target_family = "wasm"))]
#[derive(Clone, Debug, Default)]
pub struct TimerHost(std::rc::Rc<std::cell::RefCell<Kept>>);

#[cfg(not(target_family = "wasm"))]
#[derive(Debug)]
struct Kept {
    changes: Vec<Change>,
    clocks: [i64; 2],
}

#[cfg(not(target_family = "wasm"))]
impl Default for Kept {
    fn default() -> Self {
        Kept { changes: Vec::new(), clocks: [i64::MIN, 0] }
    }
}

#[cfg(not(target_family = "wasm"))]
impl TimerHost {
    fn change(&self, change: Change) {
        self.0.borrow_mut().changes.push(change);
    }

    pub(crate) fn current(&self, kind: TimerKind) -> i64 {
        self.0.borrow().clocks[kind as usize]
    }

    pub(crate) fn set_clock(&self, kind: TimerKind, time: i64) {
        self.0.borrow_mut().clocks[kind as usize] = time;
    }

    pub(crate) fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.0.borrow_mut().changes)
    }
}
