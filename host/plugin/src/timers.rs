//! Timers as the plugin host sees them: what a call wants changed. Who keeps and fires them is its user.

use crate::batch::RecordBatch;

/// Which clock a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// The watermark of the operator's input.
    EventTime,
    /// The clock on the wall.
    ProcessingTime,
}

impl TimerKind {
    /// Both.
    pub const ALL: [TimerKind; 2] = [TimerKind::EventTime, TimerKind::ProcessingTime];

    /// Its name in the contract.
    pub const fn name(self) -> &'static str {
        match self {
            TimerKind::EventTime => "event-time",
            TimerKind::ProcessingTime => "processing-time",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        TimerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What is done with timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOp {
    /// They are set; one that is set already stays.
    Register,
    /// They are taken away; one that is not set is no error.
    Delete,
}

/// A change that a call wants, to be applied in order once the call has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerChange {
    /// What.
    pub op: TimerOp,
    /// Which kind.
    pub kind: TimerKind,
    /// The timers: key, payload as the value, time. All keys are of the call.
    pub timers: RecordBatch,
}

/// What the two clocks say during a call, ms since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerClocks {
    /// The watermark; `i64::MIN` before there is one, `i64::MAX` once all input has ended.
    pub watermark: i64,
    /// The clock on the wall.
    pub processing: i64,
}

impl Default for TimerClocks {
    fn default() -> Self {
        TimerClocks { watermark: i64::MIN, processing: 0 }
    }
}

impl TimerClocks {
    pub(crate) fn of(&self, kind: TimerKind) -> i64 {
        match kind {
            TimerKind::EventTime => self.watermark,
            TimerKind::ProcessingTime => self.processing,
        }
    }
}
