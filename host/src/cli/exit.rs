//! Exit codes: scripts rely on them, so they stand in one place and never change their meaning.

use crate::job::JobOutcome;
use std::process::ExitCode;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Finished, or stopped cleanly; the command did what it was asked for.
    Success = 0,
    /// The job failed for good, or the command met an error.
    Failed = 1,
    /// Refused before start.
    Refused = 2,
    /// Commit lost or unknown.
    CommitLost = 3,
    /// This checkpoint can't be restored here.
    CannotRestore = 4,
    /// Another process has taken the job over.
    Fenced = 5,
    /// Stopped at once by a second signal, without a final checkpoint (128 + SIGINT, as shells count).
    StoppedNow = 130,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The code of a job's outcome.
    pub fn of(outcome: &JobOutcome) -> Self {
        match outcome {
            JobOutcome::Finished { .. } | JobOutcome::AlreadyFinished { .. } | JobOutcome::Suspended { .. } => Exit::Success,
            JobOutcome::Stopped { .. } => Exit::StoppedNow,
            JobOutcome::Failed(_) => Exit::Failed,
            JobOutcome::Refused { .. } => Exit::Refused,
            JobOutcome::CommitLost { .. } => Exit::CommitLost,
            JobOutcome::CannotRestore { .. } => Exit::CannotRestore,
            JobOutcome::Fenced { .. } => Exit::Fenced,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
