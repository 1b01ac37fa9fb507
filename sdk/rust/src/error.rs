//! What an author's code answers when something is wrong.

use crate::bindings::types;
use std::fmt;

/// Why a call fails. Nothing that the call did (output, state, appended bytes) is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// This record can't be processed; the text says why. The other records of the batch are still looked at, so that one
    /// call names all bad ones. The host then does with them what the job says (fail, drop, dead letter) and calls again
    /// with the rest. Where no record is at hand (`open`, the end of the input, sinks) it counts as [`Error::Fatal`].
    BadRecord(String),
    /// Transient: the host calls again with the same input, a bounded number of times.
    Retry(String),
    /// The job's attempt fails.
    Fatal(String),
}

impl Error {
    /// A record that can't be processed, and why.
    pub fn bad_record(reason: impl Into<String>) -> Self {
        Error::BadRecord(reason.into())
    }

    /// A failure that trying again may mend.
    pub fn retry(reason: impl Into<String>) -> Self {
        Error::Retry(reason.into())
    }

    /// A failure that ends the job's attempt.
    pub fn fatal(reason: impl Into<String>) -> Self {
        Error::Fatal(reason.into())
    }

    /// The same where no record can be blamed.
    pub(crate) fn without_record(self) -> Self {
        match self {
            Error::BadRecord(reason) => Error::Fatal(reason),
            error @ (Error::Retry(_) | Error::Fatal(_)) => error,
        }
    }

    /// As the contract says it, where no record can be named.
    pub(crate) fn into_wire(self) -> types::Error {
        match self {
            Error::Retry(reason) => types::Error::Retry(reason),
            Error::Fatal(reason) | Error::BadRecord(reason) => types::Error::Fatal(reason),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadRecord(reason) => write!(f, "bad record: {reason}"),
            Error::Retry(reason) => write!(f, "failed, try again: {reason}"),
            Error::Fatal(reason) => write!(f, "failed: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
