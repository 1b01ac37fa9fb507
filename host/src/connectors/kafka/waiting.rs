//! Waits for the brokers, of which the user hears when they get long, and when they are over.

use crate::clock;
use std::time::{Duration, Instant};

/// After this time the user hears of it.
const LONG: Duration = Duration::from_secs(5);

/// One wait, or several in a row.
pub(super) struct Waiting<'s> {
    place: &'s str,
    /// What the brokers don't do.
    what: &'static str,
    since: Option<Instant>,
    is_told: bool,
}

impl<'s> Waiting<'s> {
    /// `what`: goes on from "the brokers".
    pub(super) fn new(place: &'s str, what: &'static str) -> Self {
        Waiting { place, what, since: None, is_told: false }
    }

    /// It is still so. `beside`: what else is known of it. Gives for how long it has been.
    pub(super) fn goes_on(&mut self, beside: impl FnOnce() -> Option<String>) -> Duration {
        let waited = clock::monotonic() - *self.since.get_or_insert_with(clock::monotonic);
        if waited > LONG && !self.is_told {
            self.is_told = true;
            let beside = beside().map(|error| format!("; last error: {error}")).unwrap_or_default();
            tracing::warn!("{}: the brokers {} for {} s: waiting{beside}", self.place, self.what, waited.as_secs());
        }
        waited
    }

    /// It is over.
    pub(super) fn is_over(&mut self) {
        if let Some(since) = self.since.take()
            && std::mem::take(&mut self.is_told)
        {
            tracing::info!("{}: the brokers go on, after {} s", self.place, (clock::monotonic() - since).as_secs());
        }
    }
}
