//! `rate`: holds a source to so many records per second, evenly.
//!
//! A bucket of credit fills with the clock and each record takes one. It holds 100 ms' worth: a source that was blocked does
//! not make up for more than that afterwards. Each reader has an equal share of the rate, also one that owns few splits.

use super::{Budget, ConnectorError, Outlook, Source, SourceConnector, SourcePoll, SourceTask, SplitState};
use crate::clock;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Credit at most, in seconds of the rate; one record is always possible.
const BURST_SECONDS: f64 = 0.1;
/// Records of one poll, in seconds of the rate: the steps that a watcher would see.
const STEP_SECONDS: f64 = 0.005;
/// Longest time to be away: a very low rate is waited for in parts.
const PENDING_MAX: Duration = Duration::from_millis(200);

/// A source connector whose readers are held back.
pub(super) struct RateLimitedConnector {
    /// What it reads.
    pub(super) inner: Box<dyn SourceConnector>,
    /// Records per second over all readers.
    pub(super) per_second: NonZeroU64,
}

impl SourceConnector for RateLimitedConnector {
    fn enumerate(&self) -> Result<Vec<SplitState>, ConnectorError> {
        self.inner.enumerate()
    }

    fn added(&self, splits: &[SplitState]) -> Result<Vec<SplitState>, ConnectorError> {
        self.inner.added(splits)
    }

    fn discovery(&self) -> Option<Duration> {
        self.inner.discovery()
    }

    fn differs(&self, splits: &[SplitState]) -> Result<Vec<String>, ConnectorError> {
        self.inner.differs(splits)
    }

    fn outlook(&self) -> Outlook {
        self.inner.outlook()
    }

    fn open(&self, source: u16, splits: Vec<(u32, SplitState)>, task: SourceTask) -> Result<Box<dyn Source>, ConnectorError> {
        let share = self.per_second.get() as f64 / f64::from(task.parallelism.max(1));
        Ok(Box::new(RateLimited::new(self.inner.open(source, splits, task)?, share, clock::monotonic)))
    }
}

/// One reader, held back. `now` is its clock.
struct RateLimited<C> {
    inner: Box<dyn Source>,
    per_second: f64,
    now: C,
    /// Records that may be given now.
    credit: f64,
    /// When the credit was counted.
    counted: Instant,
}

impl<C: FnMut() -> Instant + Send> RateLimited<C> {
    fn new(inner: Box<dyn Source>, per_second: f64, mut now: C) -> Self {
        let counted = now();
        // One record at once, and the rest in time.
        RateLimited { inner, per_second, now, credit: 1.0, counted }
    }

    /// Records of a step; at least one.
    fn step(&self) -> f64 {
        (self.per_second * STEP_SECONDS).max(1.0)
    }

    fn fill(&mut self) {
        let now = (self.now)();
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.credit = (self.credit + passed * self.per_second).min((self.per_second * BURST_SECONDS).max(1.0));
    }
}

impl<C: FnMut() -> Instant + Send> Source for RateLimited<C> {
    fn poll(&mut self, budget: Budget) -> Result<SourcePoll, ConnectorError> {
        self.fill();
        if self.credit < 1.0 {
            let seconds = (self.step() - self.credit) / self.per_second;
            return Ok(SourcePoll::Pending(Duration::from_secs_f64(seconds).min(PENDING_MAX)));
        }
        let records = budget.records.min(self.credit.min(self.step().ceil()) as usize);
        let given = self.inner.poll(Budget { records, ..budget })?;
        if let SourcePoll::Batch { records, .. } = &given {
            self.credit -= records.len() as f64;
        }
        Ok(given)
    }

    fn positions(&self) -> Vec<(u32, SplitState)> {
        self.inner.positions()
    }

    fn has_ended(&self, split: u32) -> bool {
        self.inner.has_ended(split)
    }

    fn completed(&mut self, positions: &[(u32, u64)]) {
        self.inner.completed(positions);
    }

    fn tells_positions(&self) -> bool {
        self.inner.tells_positions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{PositionStep, Provenance, SourceSpan};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use weir_plugin::batch::RecordBatch;

    /// Gives as much as it may, for ever.
    struct Endless;

    impl Source for Endless {
        fn poll(&mut self, budget: Budget) -> Result<SourcePoll, ConnectorError> {
            let mut records = RecordBatch::new();
            (0..budget.records).for_each(|_| records.push(b"", b"x", 0));
            let span = SourceSpan { source: 0, split: 0, first: 0, last: 0 };
            Ok(SourcePoll::Batch { records, provenance: Provenance::of_source(span, PositionStep::One) })
        }

        fn positions(&self) -> Vec<(u32, SplitState)> {
            Vec::new()
        }
    }

    /// A clock that stands still between polls; time passes only where the source asks for it.
    struct Rig {
        source: Box<dyn Source>,
        micros: Arc<AtomicU64>,
    }

    impl Rig {
        fn new(per_second: f64) -> Self {
            let (micros, start) = (Arc::new(AtomicU64::new(0)), clock::monotonic());
            let read = Arc::clone(&micros);
            let now = move || start + Duration::from_micros(read.load(Ordering::Relaxed));
            Rig { source: Box::new(RateLimited::new(Box::new(Endless), per_second, now)), micros }
        }

        fn pass(&self, time: Duration) {
            // Sleeping takes at least as long as asked for.
            self.micros.fetch_add(time.as_micros() as u64 + 1, Ordering::Relaxed);
        }

        /// Records in each span of time, given by a caller who comes again when told to.
        fn run(&mut self, spans: usize, span: Duration) -> Vec<usize> {
            let mut given = vec![0; spans];
            let began = self.micros.load(Ordering::Relaxed);
            loop {
                let at = (self.micros.load(Ordering::Relaxed) - began) as usize / span.as_micros() as usize;
                if at >= spans {
                    return given;
                }
                match self.source.poll(Budget { records: 1000, bytes: 1 << 18 }).expect("never fails") {
                    SourcePoll::Batch { records, .. } => given[at] += records.len(),
                    SourcePoll::Pending(time) => self.pass(time),
                    SourcePoll::End => panic!("it is endless"),
                }
            }
        }
    }

    #[test]
    fn the_flow_is_even_and_as_fast_as_told() {
        // (rate, span, records in each span, tolerance)
        let cases = [
            (1_000_000.0, 20, 20_000, 5_500),
            (50_000.0, 20, 1_000, 260),
            (1_000.0, 20, 20, 6),
            (10.0, 1_000, 10, 1),
            (0.5, 20_000, 10, 1),
        ];
        for (rate, span_ms, expected, tolerance) in cases {
            let given = Rig::new(rate).run(50, Duration::from_millis(span_ms));
            for (at, &n) in given.iter().enumerate() {
                assert!(n.abs_diff(expected) <= tolerance, "rate {rate}, span {at}: {n} records, {expected} expected");
            }
            let sum: usize = given.iter().sum();
            assert!(sum.abs_diff(50 * expected) <= tolerance, "rate {rate}: {sum} records in all");
        }
    }

    #[test]
    fn a_blocked_source_does_not_catch_up() {
        let mut rig = Rig::new(1_000.0);
        rig.run(10, Duration::from_millis(20));
        rig.pass(Duration::from_secs(60));
        let after = rig.run(5, Duration::from_millis(200));
        assert!(after[0] <= 200 + 100 + 6, "100 ms' worth at most: {after:?}");
        assert!(after[1..].iter().all(|n| n.abs_diff(200) <= 6), "{after:?}");
    }

    #[test]
    fn a_slow_source_is_asked_again_soon() {
        let mut rig = Rig::new(0.1);
        assert!(
            matches!(rig.source.poll(Budget { records: 10, bytes: 10 }), Ok(SourcePoll::Batch { records, .. }) if records.len() == 1)
        );
        assert!(
            matches!(rig.source.poll(Budget { records: 10, bytes: 10 }), Ok(SourcePoll::Pending(time)) if time == PENDING_MAX)
        );
    }
}
