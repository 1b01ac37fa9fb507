//! How many log lines an instance may still write in this second.

use crate::engine::TICK;

/// Counts lines in windows of one second.
#[derive(Debug)]
pub(crate) struct LogBudget {
    window_start: u64,
    lines: u32,
    dropped: u64,
}

/// What to do with a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Over the rate.
    Drop,
    /// Write it, after saying that so many were dropped (0: say nothing).
    Write { dropped_before: u64 },
}

impl LogBudget {
    /// `now`: in ticks, as everywhere in here.
    pub(crate) fn new(now: u64) -> Self {
        LogBudget { window_start: now, lines: 0, dropped: 0 }
    }

    pub(crate) fn admit(&mut self, now: u64, lines_per_second: u32) -> Admission {
        let window = (1_000 / TICK.as_millis()) as u64;
        if now.saturating_sub(self.window_start) >= window {
            self.window_start = now;
            self.lines = 0;
        }
        if self.lines >= lines_per_second {
            self.dropped += 1;
            return Admission::Drop;
        }
        self.lines += 1;
        Admission::Write { dropped_before: std::mem::take(&mut self.dropped) }
    }

    /// Lines dropped and not yet told of.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_above_the_rate_are_dropped_and_told_of_in_the_next_window() {
        let mut budget = LogBudget::new(5);
        let write = |dropped_before| Admission::Write { dropped_before };
        let steps =
            [(5, write(0)), (6, write(0)), (7, Admission::Drop), (104, Admission::Drop), (105, write(2)), (106, write(0))];
        for (now, expected) in steps {
            assert_eq!(budget.admit(now, 2), expected, "at tick {now}");
        }
        assert_eq!(budget.admit(107, 2), Admission::Drop);
        assert_eq!(budget.take_dropped(), 1);
    }
}
