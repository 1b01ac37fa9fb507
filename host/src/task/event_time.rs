//! Event time in a subtask: where watermarks are made, and what each node shows of them.

use super::times::{Stage, TaskTimes};
use crate::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use weir_plugin::batch::RecordBatch;
use weir_protocol::watermark::{
    EventTime, FINAL_WATERMARK, GeneratorEvent, NO_WATERMARK, RestoredSplit, WatermarkBound, WatermarkGenerator,
};

/// Time between two looks for inputs that have fallen idle.
pub const TICK: Duration = Duration::from_millis(50);

/// The greatest event time of a batch; none if it is empty.
pub fn max_time(records: &RecordBatch) -> Option<i64> {
    let times = records.times().chunks_exact(8);
    times.map(|time| i64::from_le_bytes(time.try_into().expect("chunks of eight bytes"))).max()
}

/// Makes the watermarks of a node: a source's over its splits, an operator's over its main output.
pub struct Watermarks {
    generator: WatermarkGenerator,
    /// Indexes in the source's enumeration, ascending; one for an operator.
    splits: Vec<u32>,
    /// Nothing follows: EndOfData was sent.
    ended: bool,
}

impl Watermarks {
    /// Over these splits, (index in the enumeration, what it starts with), ascending. `restored`: the watermark that the
    /// subtask had given out.
    pub fn new(bound: WatermarkBound, splits: &[(u32, RestoredSplit)], restored: i64) -> Self {
        let states: Vec<RestoredSplit> = splits.iter().map(|(_, split)| *split).collect();
        let generator = WatermarkGenerator::new(bound, &states, restored, Duration::ZERO);
        Watermarks { generator, splits: splits.iter().map(|(index, _)| *index).collect(), ended: false }
    }

    /// Of an operator's output.
    pub fn of_output(bound: WatermarkBound, restored: i64) -> Self {
        Watermarks::new(bound, &[(0, RestoredSplit { watermark: restored, ended: false })], restored)
    }

    /// What is given out now.
    pub fn output(&self) -> EventTime {
        self.generator.output()
    }

    /// The watermark of each split that has one.
    pub fn by_split(&self) -> Vec<(u32, i64)> {
        let known = |(at, index): (usize, &u32)| (*index, self.generator.split_watermark(at));
        self.splits.iter().enumerate().map(known).filter(|(_, watermark)| *watermark > NO_WATERMARK).collect()
    }

    /// Records of a split are about to be sent.
    pub fn woken(&mut self, split: u32, now: Duration) -> Option<EventTime> {
        let split = self.at(split);
        self.generator.handle(GeneratorEvent::Woken { split, now })
    }

    /// Records of a split were sent.
    pub fn sent(&mut self, split: u32, max_time: i64, now: Duration) -> Option<EventTime> {
        let split = self.at(split);
        self.generator.handle(GeneratorEvent::Records { split, max_time, now })
    }

    /// Time has passed. `has_ended`: whether a split was read to its end.
    pub fn tick(&mut self, now: Duration, has_ended: impl Fn(u32) -> bool) -> Option<EventTime> {
        if self.ended {
            return None;
        }
        let mut said = None;
        for split in 0..self.splits.len() {
            if !self.generator.has_ended(split) && has_ended(self.splits[split]) {
                said = self.generator.handle(GeneratorEvent::Ended { split }).or(said);
            }
        }
        self.generator.handle(GeneratorEvent::Tick { now }).or(said)
    }

    /// EndOfData follows.
    pub fn end(&mut self) {
        self.ended = true;
    }

    fn at(&self, split: u32) -> usize {
        self.splits.binary_search(&split).expect("a reader gives records of its own splits")
    }
}

/// Runs while the subtask may read and write: what waits for room downstream can't be told from what is idle.
pub struct UnblockedClock {
    origin: Instant,
    times: Arc<TaskTimes>,
    blocked_before: u64,
}

impl UnblockedClock {
    /// From now on.
    pub fn start(times: &Arc<TaskTimes>) -> Self {
        let times = Arc::clone(times);
        UnblockedClock { origin: clock::monotonic(), blocked_before: times.stage_ns(Stage::Blocked), times }
    }

    /// Time since its start.
    pub fn now(&self) -> Duration {
        let blocked = self.times.stage_ns(Stage::Blocked) - self.blocked_before;
        self.origin.elapsed().saturating_sub(Duration::from_nanos(blocked))
    }
}

/// What a node says of its event time, for the display.
#[derive(Debug)]
pub struct EventTimeGauge {
    watermark: AtomicI64,
    is_idle: AtomicBool,
}

impl Default for EventTimeGauge {
    fn default() -> Self {
        EventTimeGauge { watermark: AtomicI64::new(NO_WATERMARK), is_idle: AtomicBool::new(false) }
    }
}

impl EventTimeGauge {
    /// Shows this.
    pub fn set(&self, time: EventTime) {
        self.watermark.store(time.watermark, Ordering::Relaxed);
        self.is_idle.store(time.is_idle, Ordering::Relaxed);
    }

    /// All input has ended.
    pub fn end(&self) {
        self.set(EventTime { watermark: FINAL_WATERMARK, is_idle: false });
    }

    /// What was shown last.
    pub fn get(&self) -> EventTime {
        EventTime { watermark: self.watermark.load(Ordering::Relaxed), is_idle: self.is_idle.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_time_of_a_batch() {
        let mut records = RecordBatch::new();
        assert_eq!(max_time(&records), None);
        for time in [3, i64::MIN, 70_000_000_000, -1] {
            records.push(b"k", b"v", time);
        }
        assert_eq!(max_time(&records), Some(70_000_000_000));
    }

    #[test]
    fn splits_are_known_by_their_index_in_the_enumeration() {
        let fresh = RestoredSplit { watermark: NO_WATERMARK, ended: false };
        let bound = WatermarkBound { delay_ms: 0, idle: None };
        let mut made = Watermarks::new(bound, &[(1, fresh), (4, fresh)], NO_WATERMARK);
        assert_eq!(made.sent(4, 100, Duration::ZERO), None);
        assert_eq!(made.by_split(), [(4, 99)]);
        let ended = made.tick(Duration::ZERO, |split| split == 1);
        assert_eq!(ended, Some(EventTime { watermark: 99, is_idle: false }));
        assert_eq!(made.sent(4, 200, Duration::ZERO), Some(EventTime { watermark: 199, is_idle: false }));
    }

    #[test]
    fn the_clock_stands_still_while_the_subtask_is_blocked() {
        let times = Arc::new(TaskTimes::new(1));
        times.nodes[0].add_for_test(Stage::Blocked, 1 << 60);
        let clock = UnblockedClock::start(&times);
        let before = clock.now();
        times.nodes[0].add_for_test(Stage::Blocked, 3_600_000_000_000);
        assert_eq!(clock.now(), Duration::ZERO, "an hour of waiting, after {before:?}");
    }
}
