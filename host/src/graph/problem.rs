//! A problem of a job file or a job: what, where, and what to do next.

use std::fmt;

/// One thing that keeps a job from starting. All problems of a job are collected and shown together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a file with line and column, a section and its name, a plugin.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to do about it; empty only where `what` says it.
    pub next: String,
}

impl Problem {
    /// A problem with all its parts.
    pub fn new(place: impl Into<String>, what: impl Into<String>, next: impl Into<String>) -> Self {
        Problem { place: place.into(), what: what.into(), next: next.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        if self.next.is_empty() { Ok(()) } else { write!(f, "; {}", self.next) }
    }
}

impl std::error::Error for Problem {}
