//! Where and when a drill kills: drawn from a seed, so that a drill that found something can be repeated.

use crate::crash::POINTS;
use std::fmt;
use std::time::Duration;

/// A passage of a point at most that is waited for: the first ones are the likeliest to come.
const PASSAGES: u64 = 3;
/// A start takes this long at least: earlier kills meet the same nothing.
const EARLIEST: Duration = Duration::from_millis(20);

/// One kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kill {
    /// At a passage of a named crash point; after `limit` at the latest.
    Point {
        /// Its name.
        point: &'static str,
        /// Which passage.
        passage: u64,
        /// For who never passes it.
        limit: Duration,
    },
    /// After this time.
    Moment(Duration),
}

impl Kill {
    /// When it is done from outside.
    pub fn limit(&self) -> Duration {
        match self {
            Kill::Point { limit, .. } => *limit,
            Kill::Moment(after) => *after,
        }
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kill::Point { point, passage, .. } => write!(f, "passage {passage} of {point}"),
            Kill::Moment(after) => write!(f, "after {} ms", after.as_millis()),
        }
    }
}

/// Draws kills.
#[derive(Debug)]
pub struct Plan {
    random: fastrand::Rng,
    /// The longest time from a start to a kill.
    longest: Duration,
}

/// Points that a run can pass by itself: nobody swaps a plugin in a drill.
fn drilled() -> impl Iterator<Item = &'static str> {
    POINTS.iter().map(|(point, _)| *point).filter(|point| !point.starts_with("swap-"))
}

impl Plan {
    /// `interval`: between checkpoints; `undisturbed`: how long the whole job takes.
    pub fn new(seed: u64, interval: Duration, undisturbed: Duration) -> Self {
        // Some lives end before their first checkpoint, most have some.
        let longest = (interval * 4 + Duration::from_secs(1)).min(undisturbed).max(EARLIEST * 2);
        Plan { random: fastrand::Rng::with_seed(seed), longest }
    }

    /// The next one: half of them at points, half at moments.
    pub fn draw(&mut self) -> Kill {
        if self.random.bool() {
            let points: Vec<&str> = drilled().collect();
            let point = points[self.random.usize(..points.len())];
            return Kill::Point { point, passage: self.random.u64(1..=PASSAGES), limit: self.longest / 4 * 3 };
        }
        let (least, most) = (EARLIEST.as_micros() as u64, self.longest.as_micros() as u64);
        Kill::Moment(Duration::from_micros(self.random.u64(least..=most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_the_same_kills_again_and_all_kinds_of_them() {
        let draw = |seed| {
            let mut plan = Plan::new(seed, Duration::from_millis(500), Duration::from_secs(60));
            (0..2_000).map(|_| plan.draw()).collect::<Vec<_>>()
        };
        let kills = draw(7);
        assert_eq!(kills, draw(7));
        assert_ne!(kills, draw(8));
        let points: BTreeSet<&str> = kills
            .iter()
            .filter_map(|kill| match kill {
                Kill::Point { point, .. } => Some(*point),
                Kill::Moment(after) => {
                    assert!((EARLIEST..=Duration::from_secs(3)).contains(after), "{kill}");
                    None
                }
            })
            .collect();
        assert_eq!(points.len(), drilled().count(), "every point is met");
    }

    #[test]
    fn a_short_job_is_killed_within_its_time() {
        let mut plan = Plan::new(1, Duration::from_secs(10), Duration::from_millis(300));
        assert!((0..100).map(|_| plan.draw()).all(|kill| kill.limit() <= Duration::from_millis(600)));
    }
}
