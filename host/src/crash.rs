//! Named crash points: `WEIR_CRASH_AT=<point>[:n]` kills this process with SIGKILL at the n-th passage of a point,
//! `WEIR_STOP_AT=<point>[:n]` raises SIGSTOP instead. The drill and the tests use them; without the variables a passage costs
//! one relaxed load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every point, in the order in which a checkpoint meets them, then a recovery.
pub const POINTS: &[(&str, &str)] = &[
    ("barrier-injected", "the barrier left a source"),
    ("barrier-aligned", "last input aligned, snapshot not taken"),
    ("snapshot-sync-done", "the synchronous part of a snapshot is done"),
    ("upload-partial", "some state files are written"),
    ("kafka-standby-ready", "the producer of a next transaction is ready"),
    ("kafka-flushed", "all records of a transaction are acknowledged, it is not prepared yet"),
    ("sink-prepared", "prepared, not acknowledged"),
    ("ack-received", "the first of several acknowledgements"),
    ("all-acked", "all acknowledged, manifest not written"),
    ("manifest-partial", "temporary written, not published"),
    ("claimed", "claim written, newest checkpoint not read yet"),
    ("manifest-published", "decided, no commit sent"),
    ("commit-sent", "the outside has it, we have not recorded it"),
    ("commit-partial", "one of several committed"),
    ("committed", "all of a checkpoint committed"),
    ("swap-staged", "another build of an operator is at hand, its checkpoint not begun"),
    ("swap-checkpoint", "the barrier of a swap checkpoint is sent"),
    ("swap-half", "one subtask runs the new build"),
    ("swap-done", "the checkpoint with the new build stands"),
    ("swap-probation", "a checkpoint of a probation stands"),
    ("retention", "between deleting one old file and the next"),
    ("restore-begun", "restore has begun"),
    ("recover-committed", "recovery has committed, not yet aborted the rest"),
    ("recover-fencing", "recovery has fenced half of the transactional ids"),
    ("recover-aborted", "recovery has aborted, no new record yet"),
    ("final-checkpoint", "the final checkpoint is triggered"),
];

/// What a passage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Kill,
    Stop,
}

struct Armed {
    point: &'static str,
    at: u64,
    action: Action,
    passed: AtomicU64,
}

static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();

/// Reads the two variables. Call once at start; an unknown point or number is an error for the user.
pub fn arm_from_env() -> Result<(), String> {
    let mut armed = Vec::new();
    for (variable, action) in [("WEIR_CRASH_AT", Action::Kill), ("WEIR_STOP_AT", Action::Stop)] {
        let Ok(text) = std::env::var(variable) else { continue };
        let (name, at) = match text.split_once(':') {
            Some((name, n)) => (name, n.parse::<u64>().ok().filter(|&n| n > 0)),
            None => (text.as_str(), Some(1)),
        };
        let point = POINTS.iter().find(|(point, _)| *point == name);
        let (Some((point, _)), Some(at)) = (point, at) else {
            let known: Vec<&str> = POINTS.iter().map(|(point, _)| *point).collect();
            return Err(format!("{variable}={text} is not <point>[:n] with one of: {}", known.join(", ")));
        };
        armed.push(Armed { point, at, action, passed: AtomicU64::new(0) });
    }
    // A second call keeps what the first one armed.
    let _ = ARMED.set(armed);
    Ok(())
}

/// Passes a named point; may not return.
///
/// # Panics
/// If the point is not in [`POINTS`].
pub fn point(name: &'static str) {
    debug_assert!(POINTS.iter().any(|(point, _)| *point == name), "unknown crash point {name}");
    let Some(armed) = ARMED.get() else { return };
    for entry in armed.iter().filter(|entry| entry.point == name) {
        if entry.passed.fetch_add(1, Ordering::Relaxed) + 1 == entry.at {
            let signal = match entry.action {
                Action::Kill => rustix::process::Signal::KILL,
                Action::Stop => rustix::process::Signal::STOP,
            };
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
    }
}
