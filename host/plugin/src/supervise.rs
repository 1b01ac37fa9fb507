//! What a host does when a plugin refuses records or traps: one file for operators, one for sink writers.

mod operator;
mod rest;
mod writer;

pub use operator::{OperatorSpec, SupervisedOperator, SupervisorCounts};
pub use writer::SupervisedWriter;

use crate::error::{CallError, CallErrorKind};
use crate::output::Output;
use std::fmt;
use std::time::Duration;

/// What becomes of a record that can't be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRecordPolicy {
    /// The attempt fails, naming it.
    Fail,
    /// It is left out and reported; the rest goes on. The caller drops it or sends it to the dead letter.
    Skip,
}

/// A record that could not be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Its index in the batch that was handed in.
    pub index: u32,
    /// Why, for people.
    pub reason: String,
}

/// A batch that was processed, but for the skipped records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// What it gave.
    pub output: Output,
    /// Records left out, by index; empty with [`BadRecordPolicy::Fail`].
    pub skipped: Vec<BadRecord>,
}

/// Why a batch was not processed. The attempt of the job ends: keyed state may hold a part of the batch.
#[derive(Debug)]
pub enum Failure {
    /// A record can't be processed, and the policy is to fail.
    BadRecord {
        /// The first one that was found.
        record: BadRecord,
        /// The call that named it, or that trapped on it.
        error: CallError,
    },
    /// A call failed, whatever the records.
    Task(CallError),
    /// Too many fresh instances, or too much time, went into finding bad records.
    GaveUp {
        /// Which bound was passed.
        why: String,
        /// The call that made it necessary, or the last that failed.
        last: Option<CallError>,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadRecord { record, error } => {
                write!(f, "{}: record {} of the batch can't be processed: {}", error.site, record.index, record.reason)
            }
            Failure::Task(error) => write!(f, "{error}"),
            Failure::GaveUp { why, last: None } => f.write_str(why),
            Failure::GaveUp { why, last: Some(error) } => write!(f, "{why}; {error}"),
        }
    }
}

impl std::error::Error for Failure {}

/// How often, and how fast, a call that asks for it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Calls in all, the first one included; at least 1.
    pub attempts: u32,
    /// Pause before the second call; doubled before each later one. The calling thread waits.
    pub pause: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { attempts: 5, pause: Duration::from_millis(20) }
    }
}

impl Retries {
    /// Calls until something else than `retry` comes, or the attempts are used up.
    fn run<R>(&self, mut call: impl FnMut() -> Result<R, CallError>) -> Result<R, CallError> {
        let mut pause = self.pause;
        for _ in 1..self.attempts {
            match call() {
                Err(CallError { kind: CallErrorKind::Retry(why), site }) => {
                    tracing::debug!(%site, "tries again: {why}");
                    std::thread::sleep(pause);
                    pause = pause.saturating_mul(2);
                }
                other => return other,
            }
        }
        call()
    }
}

/// Whether an instance has grown so far since it was opened that a fresh one should take its place. The runtimes of some languages
/// lose memory with each call; those that need much from the start are left alone. All in bytes.
fn has_outgrown(opened: usize, now: usize, limit: usize) -> bool {
    now > limit / 4 * 3 && now.saturating_sub(opened) > limit / 4
}

/// What a failed call means for the batch.
enum Verdict {
    /// These records (index in the batch of the call) are bad; nothing else is known to be wrong.
    Bad(Vec<(u32, String)>),
    /// Some record may have caused it.
    Suspect,
    /// No record can be blamed.
    Task,
}

impl Verdict {
    fn of(kind: &CallErrorKind) -> Self {
        match kind {
            CallErrorKind::BadInput(records) => Verdict::Bad(records.clone()),
            CallErrorKind::Trap { .. } | CallErrorKind::Limit(_) | CallErrorKind::Malformed(_) => Verdict::Suspect,
            CallErrorKind::Retry(_) | CallErrorKind::Fatal(_) | CallErrorKind::State(_) | CallErrorKind::Environment { .. } => {
                Verdict::Task
            }
        }
    }
}
