//! Watermarks: how far event time has come, at the splits of a source, at an operator's output, and where streams meet.
//!
//! A watermark t says that no record of time t or less is expected any more. One that comes all the same is *late*.
//!
//! Invariants:
//! - **W1** a watermark never goes back: not over a restore, and not when an idle input comes back late.
//! - **W2** the final watermark follows from the end of every input alone, never from a record or from idleness.
//! - **W3** while an input is neither idle nor ended, the output does not pass its watermark.
//!
//! The bound is that of Flink's `BoundedOutOfOrdernessWatermarks`: a record of the time max - delay may still come. Inputs
//! are merged alike whether they are splits of one subtask or channels from several, so that a source's parallelism does not
//! change what is late. Where Flink's two merges differ, this is the choice:
//! - An input that comes back from idleness with less than the output holds the output where it is until it has caught up,
//!   as in `WatermarkOutputMultiplexer`. (`StatusWatermarkValve` goes on without it, and more of its records are late.)
//! - When the last input falls idle the output takes the greatest watermark of all, as in `StatusWatermarkValve`: idle inputs
//!   hold nothing back, in whatever order they fell idle.
//! - An ended input says nothing any more. (In `StatusWatermarkValve` its final watermark counts as one of an active input, and
//!   passes for the end of all when the others are idle.)

use std::time::Duration;

/// Nothing is known yet.
pub const NO_WATERMARK: i64 = i64::MIN;

/// All input has ended: no record follows, of whatever time.
pub const FINAL_WATERMARK: i64 = i64::MAX;

/// What a stream says of its event time. The newest replaces what was said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventTime {
    /// ms since the Unix epoch, or one of the two constants.
    pub watermark: i64,
    /// Nothing is expected for now: who merges streams does not wait for this one.
    pub is_idle: bool,
}

impl EventTime {
    /// Of a stream that has said nothing yet.
    pub const START: EventTime = EventTime { watermark: NO_WATERMARK, is_idle: false };

    /// Takes what came later; true if that changes anything. Keeps W1 on its own.
    pub fn advance(&mut self, to: EventTime) -> bool {
        let next = EventTime { watermark: self.watermark.max(to.watermark), is_idle: to.is_idle };
        std::mem::replace(self, next) != next
    }
}

/// What a merge hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeEvent {
    /// An input says this of itself.
    Advanced {
        /// Its index.
        input: usize,
        /// What.
        time: EventTime,
    },
    /// An input has ended for good.
    Ended {
        /// Its index.
        input: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Status {
    Active,
    Idle,
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Input {
    watermark: i64,
    status: Status,
}

/// The event time of what reads several inputs: the least watermark of those that are neither idle nor ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatermarkMerge {
    inputs: Vec<Input>,
    output: EventTime,
}

impl WatermarkMerge {
    /// A merge of so many inputs that have said nothing yet. `restored`: its output's watermark at the checkpoint.
    ///
    /// Without inputs nothing is to be expected: it is idle.
    pub fn new(inputs: usize, restored: i64) -> Self {
        let output = EventTime { watermark: restored, is_idle: inputs == 0 };
        WatermarkMerge { inputs: vec![Input { watermark: NO_WATERMARK, status: Status::Active }; inputs], output }
    }

    /// What it says of itself.
    pub fn output(&self) -> EventTime {
        self.output
    }

    /// Takes an event; gives what it says of itself from now on, if that has changed.
    ///
    /// # Panics
    /// W2: if an input claims the end of all time without having ended.
    pub fn handle(&mut self, event: MergeEvent) -> Option<EventTime> {
        match event {
            MergeEvent::Advanced { input, time } => {
                assert!(time.watermark < FINAL_WATERMARK, "W2: a final watermark from an input that has not ended");
                let own = &mut self.inputs[input];
                let before = (own.status, own.watermark);
                if own.status == Status::Ended {
                    // It was restored as ended, and says once more what it said before.
                    return None;
                }
                own.status = if time.is_idle { Status::Idle } else { Status::Active };
                own.watermark = own.watermark.max(time.watermark);
                // Whoever was ahead of the output does not hold it: what it says more changes nothing.
                if before.0 == Status::Active && own.status == Status::Active && before.1 > self.output.watermark {
                    return None;
                }
            }
            MergeEvent::Ended { input } => self.inputs[input].status = Status::Ended,
        }
        let found = self.found();
        self.output.advance(found).then_some(self.output)
    }

    /// What the inputs amount to, whatever was said before.
    fn found(&self) -> EventTime {
        let watermarks = |status: Status| self.inputs.iter().filter(move |input| input.status == status).map(|i| i.watermark);
        if let Some(least) = watermarks(Status::Active).min() {
            return EventTime { watermark: least, is_idle: false };
        }
        if watermarks(Status::Idle).next().is_none() {
            // Nothing is left that could send a record.
            return EventTime { watermark: FINAL_WATERMARK, is_idle: false };
        }
        let greatest = self.inputs.iter().map(|input| input.watermark).max();
        EventTime { watermark: greatest.unwrap_or(NO_WATERMARK), is_idle: true }
    }
}

/// How watermarks are made from event times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatermarkBound {
    /// How much later than a record of a greater time a record may come, ms.
    pub delay_ms: i64,
    /// After so long without a record an input counts as idle; none: never.
    pub idle: Option<Duration>,
}

impl WatermarkBound {
    /// The watermark after a record of this time.
    pub fn watermark(&self, time: i64) -> i64 {
        // Less than a record's own time in any case, and so never the final one (W2).
        time.saturating_sub(self.delay_ms).saturating_sub(1)
    }
}

/// What a generator hears. Times are those of a clock that stands still while its output is blocked (as Flink's does since
/// FLIP-471): an input that nobody can ask is not idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GeneratorEvent {
    /// Records of this split are about to be sent.
    Woken {
        /// Its index.
        split: usize,
        /// Now.
        now: Duration,
    },
    /// Records of this split were sent, the greatest time among them being `max_time`.
    Records {
        /// Its index.
        split: usize,
        /// ms since the Unix epoch.
        max_time: i64,
        /// Now.
        now: Duration,
    },
    /// A split was read to its end.
    Ended {
        /// Its index.
        split: usize,
    },
    /// Time has passed.
    Tick {
        /// Now.
        now: Duration,
    },
}

/// What a generator starts a split with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestoredSplit {
    /// Its watermark at the checkpoint.
    pub watermark: i64,
    /// Whether it had been read to its end.
    pub ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Split {
    time: EventTime,
    /// When its last record came; when it was opened, if none did.
    heard: Duration,
    ended: bool,
}

/// Makes the watermarks of one subtask: over the splits that a source's reader has, or over the one output of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatermarkGenerator {
    bound: WatermarkBound,
    splits: Vec<Split>,
    merge: WatermarkMerge,
}

impl WatermarkGenerator {
    /// A generator over these splits. `restored`: its output's watermark at the checkpoint, which may be ahead of a split's
    /// that was idle.
    pub fn new(bound: WatermarkBound, splits: &[RestoredSplit], restored: i64, now: Duration) -> Self {
        let mut merge = WatermarkMerge::new(splits.len(), restored);
        for (input, split) in splits.iter().enumerate() {
            let time = EventTime { watermark: split.watermark, is_idle: false };
            // Those that have ended said this before.
            merge.handle(MergeEvent::Advanced { input, time });
        }
        for (input, _) in splits.iter().enumerate().filter(|(_, split)| split.ended) {
            merge.handle(MergeEvent::Ended { input });
        }
        let split = |split: &RestoredSplit| Split {
            time: EventTime { watermark: split.watermark, is_idle: false },
            heard: now,
            ended: split.ended,
        };
        WatermarkGenerator { bound, splits: splits.iter().map(split).collect(), merge }
    }

    /// What it says of itself.
    pub fn output(&self) -> EventTime {
        self.merge.output()
    }

    /// The watermark of a split.
    pub fn split_watermark(&self, split: usize) -> i64 {
        self.splits[split].time.watermark
    }

    /// Whether a split was read to its end.
    pub fn has_ended(&self, split: usize) -> bool {
        self.splits[split].ended
    }

    /// Whether time changes anything here.
    pub fn has_idleness(&self) -> bool {
        self.bound.idle.is_some()
    }

    /// Takes an event; gives what it says of itself from now on, if that has changed.
    pub fn handle(&mut self, event: GeneratorEvent) -> Option<EventTime> {
        match event {
            GeneratorEvent::Woken { split, now } => self.heard(split, NO_WATERMARK, now),
            GeneratorEvent::Records { split, max_time, now } => self.heard(split, self.bound.watermark(max_time), now),
            GeneratorEvent::Ended { split } => {
                self.splits[split].ended = true;
                self.merge.handle(MergeEvent::Ended { input: split })
            }
            GeneratorEvent::Tick { now } => self.tick(now),
        }
    }

    fn heard(&mut self, input: usize, watermark: i64, now: Duration) -> Option<EventTime> {
        let split = &mut self.splits[input];
        split.heard = now;
        let changed = split.time.advance(EventTime { watermark, is_idle: false });
        let time = split.time;
        if changed { self.merge.handle(MergeEvent::Advanced { input, time }) } else { None }
    }

    fn tick(&mut self, now: Duration) -> Option<EventTime> {
        let idle = self.bound.idle?;
        let before = self.merge.output();
        for (input, split) in self.splits.iter_mut().enumerate() {
            if split.ended || split.time.is_idle || now.saturating_sub(split.heard) < idle {
                continue;
            }
            split.time.is_idle = true;
            self.merge.handle(MergeEvent::Advanced { input, time: split.time });
        }
        let after = self.merge.output();
        (after != before).then_some(after)
    }
}

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
