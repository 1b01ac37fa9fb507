//! Random inputs, restored at random; W1 to W3 are the oracle, with what is known of each split kept plainly.

use super::*;
use crate::testkit::{Rng, for_seeds};

const IDLE: Duration = Duration::from_millis(30);

#[derive(Clone, Debug)]
struct Known {
    watermark: i64,
    heard: u64,
    idle: bool,
    ended: bool,
}

fn check(generator: &WatermarkGenerator, known: &[Known], before: EventTime) {
    let after = generator.output();
    assert!(after.watermark >= before.watermark, "W1: {before:?} → {after:?}");
    let all_ended = known.iter().all(|split| split.ended) && !known.is_empty();
    assert_eq!(after.watermark == FINAL_WATERMARK, all_ended, "W2: {after:?} of {known:?}");
    let active = || known.iter().filter(|split| !split.idle && !split.ended);
    if after.watermark > before.watermark {
        assert!(active().all(|split| split.watermark >= after.watermark), "W3: {after:?} passes one of {known:?}");
    }
    // It is not held back by more than it must, either.
    let least = active().map(|split| split.watermark).min();
    assert!(least.is_none_or(|least| after.watermark >= least), "held back without reason: {after:?} of {known:?}");
    assert_eq!(after.is_idle, active().count() == 0 && !all_ended, "{after:?} of {known:?}");
    if after.is_idle {
        assert!(known.iter().all(|split| after.watermark >= split.watermark), "idle inputs hold nothing: {after:?} of {known:?}");
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let bound = WatermarkBound { delay_ms: rng.below(20) as i64, idle: (!rng.one_in(4)).then_some(IDLE) };
    let count = rng.below(5);
    let mut known = vec![Known { watermark: NO_WATERMARK, heard: 0, idle: false, ended: false }; count];
    let fresh = RestoredSplit { watermark: NO_WATERMARK, ended: false };
    let mut generator = WatermarkGenerator::new(bound, &vec![fresh; count], NO_WATERMARK, Duration::ZERO);
    let mut now = 0;
    for _ in 0..80 {
        let before = generator.output();
        now += rng.below(12) as u64;
        let time = Duration::from_millis(now);
        let open: Vec<usize> = (0..count).filter(|split| !known[*split].ended).collect();
        let said = match rng.below(12) {
            0 if !open.is_empty() && rng.one_in(3) => {
                let split = *rng.pick(&open);
                known[split].ended = true;
                generator.handle(GeneratorEvent::Ended { split })
            }
            1 => {
                // A crash and a restore: all are active again until they have been silent for long enough.
                let splits: Vec<RestoredSplit> = (0..count)
                    .map(|split| RestoredSplit { watermark: generator.split_watermark(split), ended: generator.has_ended(split) })
                    .collect();
                generator = WatermarkGenerator::new(bound, &splits, before.watermark, time);
                known.iter_mut().for_each(|split| (split.idle, split.heard) = (false, now));
                None
            }
            2..=4 => {
                if bound.idle.is_some() {
                    let silent = |split: &Known| now - split.heard >= IDLE.as_millis() as u64;
                    known.iter_mut().filter(|split| !split.ended).for_each(|split| split.idle |= silent(split));
                }
                generator.handle(GeneratorEvent::Tick { now: time })
            }
            _ if !open.is_empty() => {
                let split = *rng.pick(&open);
                let max_time = if rng.one_in(50) { i64::MAX } else { now as i64 + rng.below(60) as i64 - 30 };
                let woken = generator.handle(GeneratorEvent::Woken { split, now: time });
                (known[split].idle, known[split].heard) = (false, now);
                check(&generator, &known, before);
                let said = generator.handle(GeneratorEvent::Records { split, max_time, now: time });
                known[split].watermark = known[split].watermark.max(max_time.saturating_sub(bound.delay_ms).saturating_sub(1));
                said.or(woken)
            }
            _ => None,
        };
        check(&generator, &known, before);
        let changed = generator.output() != before;
        assert!(said.is_none_or(|said| said == generator.output()), "it says {said:?} and is {:?}", generator.output());
        assert!(said.is_some() || !changed || known.iter().all(|split| split.heard == now), "a change is not said");
    }
}

#[test]
fn random_splits_keep_the_invariants() {
    for_seeds(0..5_000, run);
}

/// Two stages, as a job has them: a generator for each of some subtasks, and one merge of all of them.
fn run_stages(seed: u64) {
    let mut rng = Rng::new(seed);
    let bound = WatermarkBound { delay_ms: 3, idle: Some(IDLE) };
    let subtasks = 1 + rng.below(4);
    let fresh = RestoredSplit { watermark: NO_WATERMARK, ended: false };
    let new = |_| WatermarkGenerator::new(bound, &[fresh], NO_WATERMARK, Duration::ZERO);
    let mut generators: Vec<WatermarkGenerator> = (0..subtasks).map(new).collect();
    let mut merge = WatermarkMerge::new(subtasks, NO_WATERMARK);
    let mut now = 0;
    for _ in 0..100 {
        now += rng.below(12) as u64;
        let (input, time) = (rng.below(subtasks), Duration::from_millis(now));
        let event = match rng.below(3) {
            0 => GeneratorEvent::Tick { now: time },
            _ => GeneratorEvent::Records { split: 0, max_time: now as i64 - rng.below(40) as i64, now: time },
        };
        let before = merge.output();
        if let Some(time) = generators[input].handle(event) {
            merge.handle(MergeEvent::Advanced { input, time });
        }
        let after = merge.output();
        assert!(after.watermark >= before.watermark, "W1: {before:?} → {after:?}");
        let outputs = || generators.iter().map(WatermarkGenerator::output).filter(|output| !output.is_idle);
        if after.watermark > before.watermark {
            assert!(outputs().all(|output| output.watermark >= after.watermark), "W3");
        }
        assert_eq!(after.is_idle, outputs().count() == 0);
        assert!(outputs().map(|output| output.watermark).min().is_none_or(|least| after.watermark >= least));
    }
}

#[test]
fn random_stages_keep_the_invariants() {
    for_seeds(0..5_000, run_stages);
}
