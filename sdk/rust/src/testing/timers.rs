//! The timers of an operator in a test.

use crate::batch::Batch;
use crate::timers::{Change, TimerKind};
use std::collections::BTreeSet;

/// Timers that are set, in the order in which they fire: kind, time, key, payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(BTreeSet<(TimerKind, i64, Vec<u8>, Vec<u8>)>);

impl Queue {
    /// Does what a call wants. `keys`: those of the call.
    ///
    /// # Panics
    /// If a key is none of the call's: the host would trap.
    pub(super) fn apply(&mut self, keys: &[Vec<u8>], changes: Vec<Change>) {
        for Change { sets, kind, timers } in changes {
            let batch = Batch::new(&timers, 0).expect("the timers' columns fit together");
            for timer in batch.records() {
                let key = timer.key().to_vec();
                assert!(keys.contains(&key), "a timer for key {key:?}, which is none of the running call's");
                let timer = (kind, timer.time(), key, timer.value().to_vec());
                if sets {
                    self.0.insert(timer)
                } else {
                    self.0.remove(&timer)
                };
            }
        }
    }

    /// Takes at most `limit` of a kind that are due, as (key, payload, time).
    pub(super) fn take_due(&mut self, kind: TimerKind, now: i64, limit: usize) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
        let due = self.0.iter().filter(|(own, time, ..)| *own == kind && *time <= now).take(limit).cloned();
        let due: Vec<_> = due.collect();
        self.0.retain(|timer| !due.contains(timer));
        due.into_iter().map(|(_, time, key, payload)| (key, payload, time)).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
