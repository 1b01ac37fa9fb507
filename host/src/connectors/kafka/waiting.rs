//! Waits for the brokers: a state of the sink once they get long, of which the user hears then, and when they are over.

use super::sink::SinkSettings;
use crate::clock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After this time the user hears of it.
const LONG: Duration = Duration::from_secs(5);

/// The long waits of a sink's writers: since when, and what the brokers don't do.
#[derive(Default)]
pub(super) struct Waits(Mutex<Vec<(Instant, &'static str)>>);

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, &'static str)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has taken longest, and for how long.
    pub(super) fn longest(&self) -> Option<(String, Duration)> {
        let (since, what) = *self.lock().iter().min()?;
        Some((format!("the brokers {what}"), clock::monotonic() - since))
    }
}

/// One wait, or several in a row.
pub(super) struct Waiting<'s> {
    settings: &'s SinkSettings,
    /// What the brokers don't do.
    what: &'static str,
    since: Option<Instant>,
    is_told: bool,
}

impl<'s> Waiting<'s> {
    /// `what`: goes on from "the brokers".
    pub(super) fn new(settings: &'s SinkSettings, what: &'static str) -> Self {
        Waiting { settings, what, since: None, is_told: false }
    }

    /// It is still so. `beside`: what else is known of it. Gives for how long it has been.
    pub(super) fn goes_on(&mut self, beside: impl FnOnce() -> Option<String>) -> Duration {
        let since = *self.since.get_or_insert_with(clock::monotonic);
        let waited = clock::monotonic() - since;
        if waited > LONG && !self.is_told {
            self.is_told = true;
            self.settings.waits.lock().push((since, self.what));
            let beside = beside().map(|error| format!("; last error: {error}")).unwrap_or_default();
            tracing::warn!("{}: the brokers {} for {} s: waiting{beside}", self.settings.place, self.what, waited.as_secs());
        }
        waited
    }

    /// It is over.
    pub(super) fn is_over(&mut self) {
        if let Some(waited) = self.forget() {
            tracing::info!("{}: the brokers go on, after {} s", self.settings.place, waited.as_secs());
        }
    }

    /// How long it took, if the user has heard of it.
    fn forget(&mut self) -> Option<Duration> {
        let since = self.since.take()?;
        if !std::mem::take(&mut self.is_told) {
            return None;
        }
        let mut waits = self.settings.waits.lock();
        if let Some(at) = waits.iter().position(|wait| *wait == (since, self.what)) {
            waits.swap_remove(at);
        }
        Some(clock::monotonic() - since)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Whoever has given up says why.
        self.forget();
    }
}
