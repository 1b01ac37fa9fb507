//! The timers of one subtask of an operator, in the order in which they fire.
//!
//! A timer is (kind, time, key, payload); the same one is in the queue once.
//!
//! Invariants:
//! - **TM1** timers of a kind fire by time, then by key, then by payload.
//! - **TM2** a timer fires once for each time that it was set: whoever takes it has it, and the queue has it no more.

use std::collections::BTreeSet;

/// A timer of some kind. Its order is the one in which it fires (TM1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// When, ms since the Unix epoch.
    pub time: i64,
    /// Whose.
    pub key: Box<[u8]>,
    /// What its owner wants to be told.
    pub payload: Box<[u8]>,
}

/// Timers of all kinds, each kind by its index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimerQueue<const KINDS: usize> {
    kinds: [BTreeSet<Timer>; KINDS],
}

impl<const KINDS: usize> Default for TimerQueue<KINDS> {
    fn default() -> Self {
        TimerQueue { kinds: std::array::from_fn(|_| BTreeSet::new()) }
    }
}

impl<const KINDS: usize> TimerQueue<KINDS> {
    /// Sets a timer; false if it was set already.
    pub fn register(&mut self, kind: usize, timer: Timer) -> bool {
        self.kinds[kind].insert(timer)
    }

    /// Takes a timer away; false if it was not set.
    pub fn delete(&mut self, kind: usize, timer: &Timer) -> bool {
        self.kinds[kind].remove(timer)
    }

    /// When the next one of a kind is due; none if there is none.
    pub fn next(&self, kind: usize) -> Option<i64> {
        self.kinds[kind].first().map(|timer| timer.time)
    }

    /// Takes those that are due, at most `limit`, in order. `now`: all of this time or less are.
    pub fn take_due(&mut self, kind: usize, now: i64, limit: usize) -> Vec<Timer> {
        let mut due = Vec::new();
        while due.len() < limit && self.next(kind).is_some_and(|time| time <= now) {
            due.extend(self.kinds[kind].pop_first());
        }
        assert!(due.is_sorted(), "TM1: timers fire in order");
        due
    }

    /// Forgets all of a kind; gives how many.
    pub fn clear(&mut self, kind: usize) -> usize {
        std::mem::take(&mut self.kinds[kind]).len()
    }

    /// Number of timers of a kind.
    pub fn len(&self, kind: usize) -> usize {
        self.kinds[kind].len()
    }

    /// True if there is none of any kind.
    pub fn is_empty(&self) -> bool {
        self.kinds.iter().all(BTreeSet::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Rng, for_seeds};

    fn timer(time: i64, key: &str, payload: &str) -> Timer {
        Timer { time, key: key.as_bytes().into(), payload: payload.as_bytes().into() }
    }

    #[test]
    fn they_fire_by_time_and_key_and_once() {
        let mut queue = TimerQueue::<2>::default();
        let all = [timer(5, "b", ""), timer(5, "a", "2"), timer(i64::MIN, "z", ""), timer(5, "a", "1"), timer(i64::MAX, "a", "")];
        assert!(all.iter().all(|timer| queue.register(0, timer.clone())));
        assert!(!queue.register(0, all[0].clone()), "it is set already");
        assert!(queue.register(1, all[0].clone()), "kinds are apart");
        assert_eq!(queue.next(0), Some(i64::MIN));
        assert_eq!(queue.take_due(0, 4, 10), [all[2].clone()]);
        assert_eq!(queue.take_due(0, 5, 2), [all[3].clone(), all[1].clone()]);
        assert_eq!(queue.take_due(0, 5, 2), [all[0].clone()]);
        assert_eq!(queue.take_due(0, i64::MAX - 1, 2), []);
        assert!(queue.delete(0, &all[4]) && !queue.delete(0, &all[4]));
        assert_eq!((queue.len(0), queue.clear(1), queue.is_empty()), (0, 1, true));
    }

    /// Against a plain list.
    fn run(seed: u64) {
        let mut rng = Rng::new(seed);
        let (mut queue, mut plain) = (TimerQueue::<1>::default(), Vec::<Timer>::new());
        for _ in 0..100 {
            let one = timer(rng.below(20) as i64, ["a", "b"][rng.below(2)], ["", "x"][rng.below(2)]);
            match rng.below(4) {
                0 | 1 => {
                    assert_eq!(queue.register(0, one.clone()), !plain.contains(&one));
                    plain.push(one);
                    plain.sort();
                    plain.dedup();
                }
                2 => {
                    assert_eq!(queue.delete(0, &one), plain.contains(&one));
                    plain.retain(|timer| *timer != one);
                }
                _ => {
                    let (now, limit) = (rng.below(20) as i64, 1 + rng.below(3));
                    let wanted: Vec<Timer> = plain.iter().filter(|timer| timer.time <= now).take(limit).cloned().collect();
                    assert_eq!(queue.take_due(0, now, limit), wanted);
                    plain.retain(|timer| !wanted.contains(timer));
                }
            }
            assert_eq!(queue.next(0), plain.first().map(|timer| timer.time));
        }
    }

    #[test]
    fn random_timers_fire_as_a_plain_list_says() {
        for_seeds(0..2_000, run);
    }
}
