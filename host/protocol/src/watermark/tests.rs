//! The cases that merges of the field get wrong, one by one.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(watermark: i64) -> EventTime {
    EventTime { watermark, is_idle: false }
}

fn idle(watermark: i64) -> EventTime {
    EventTime { watermark, is_idle: true }
}

/// A merge that heard these, and what it said to each.
fn merged(inputs: usize, restored: i64, events: &[(usize, Option<EventTime>)]) -> Vec<Option<EventTime>> {
    let mut merge = WatermarkMerge::new(inputs, restored);
    let said = events.iter().map(|&(input, time)| match time {
        Some(time) => merge.handle(MergeEvent::Advanced { input, time }),
        None => merge.handle(MergeEvent::Ended { input }),
    });
    said.collect()
}

#[test]
fn the_slowest_input_holds_the_output() {
    let said = merged(2, NO_WATERMARK, &[(0, Some(at(10))), (1, Some(at(5))), (0, Some(at(20))), (1, Some(at(30)))]);
    assert_eq!(said, [None, Some(at(5)), None, Some(at(20))]);
}

#[test]
fn an_idle_input_is_left_out_and_holds_when_it_comes_back() {
    let events = [(0, Some(at(10))), (1, Some(at(5))), (1, Some(idle(5))), (0, Some(at(40))), (1, Some(at(20)))];
    let said = merged(2, NO_WATERMARK, &events);
    // It comes back late: the output stays where it is (W1) …
    assert_eq!(said, [None, Some(at(5)), Some(at(10)), Some(at(40)), None]);
    let later = [events.as_slice(), &[(0, Some(at(90))), (1, Some(at(60)))]].concat();
    // … until that input has caught up (W3).
    assert_eq!(merged(2, NO_WATERMARK, &later)[5..], [None, Some(at(60))]);
}

#[test]
fn when_all_are_idle_the_greatest_counts_whatever_the_order() {
    let first = [(0, Some(at(10))), (1, Some(at(50))), (0, Some(idle(10))), (1, Some(idle(50)))];
    assert_eq!(merged(2, NO_WATERMARK, &first)[2..], [Some(at(50)), Some(idle(50))]);
    let second = [(0, Some(at(10))), (1, Some(at(50))), (1, Some(idle(50))), (0, Some(idle(10)))];
    assert_eq!(merged(2, NO_WATERMARK, &second)[2..], [None, Some(idle(50))]);
}

#[test]
fn an_ended_input_is_not_the_end_while_another_is_idle() {
    let events = [(0, Some(at(10))), (1, Some(at(5))), (1, Some(idle(5))), (0, None), (1, Some(at(7))), (1, None)];
    let said = merged(2, NO_WATERMARK, &events);
    assert_eq!(said[2..], [Some(at(10)), Some(idle(10)), Some(at(10)), Some(at(FINAL_WATERMARK))]);
}

#[test]
fn a_restored_output_does_not_go_back() {
    let said = merged(2, 100, &[(0, Some(at(10))), (1, Some(at(90))), (0, Some(at(120))), (1, Some(at(110)))]);
    assert_eq!(said, [None, None, None, Some(at(110))]);
}

#[test]
fn without_inputs_it_is_idle() {
    assert_eq!(WatermarkMerge::new(0, NO_WATERMARK).output(), idle(NO_WATERMARK));
}

#[test]
#[should_panic(expected = "W2")]
fn a_final_watermark_without_an_end_is_a_bug() {
    merged(1, NO_WATERMARK, &[(0, Some(at(FINAL_WATERMARK)))]);
}

fn generator(splits: usize, idle: Option<Duration>) -> WatermarkGenerator {
    let fresh = RestoredSplit { watermark: NO_WATERMARK, ended: false };
    WatermarkGenerator::new(WatermarkBound { delay_ms: 5, idle }, &vec![fresh; splits], NO_WATERMARK, Duration::ZERO)
}

fn records(split: usize, max_time: i64, now: Duration) -> GeneratorEvent {
    GeneratorEvent::Records { split, max_time, now }
}

#[test]
fn a_record_as_late_as_the_delay_is_not_late() {
    let mut generator = generator(1, None);
    // Time 95 may come still.
    assert_eq!(generator.handle(records(0, 100, SECOND)), Some(at(94)));
    assert_eq!(generator.handle(records(0, 99, SECOND)), None);
    assert_eq!(generator.handle(records(0, i64::MAX, SECOND)), Some(at(i64::MAX - 6)));
}

#[test]
fn times_out_of_range_are_no_watermark() {
    let mut generator = generator(1, None);
    assert_eq!(generator.handle(records(0, i64::MIN, SECOND)), None);
    assert_eq!(generator.handle(records(0, i64::MIN + 3, SECOND)), None);
    let bound = WatermarkBound { delay_ms: 0, idle: None };
    assert!(bound.watermark(i64::MAX) < FINAL_WATERMARK);
}

#[test]
fn a_split_without_records_holds_event_time_until_it_is_idle() {
    let mut generator = generator(2, Some(3 * SECOND));
    assert_eq!(generator.handle(records(0, 100, SECOND)), None);
    assert_eq!(generator.handle(GeneratorEvent::Tick { now: 2 * SECOND }), None);
    assert_eq!(generator.handle(GeneratorEvent::Tick { now: 3 * SECOND }), Some(at(94)));
    assert_eq!(generator.handle(GeneratorEvent::Tick { now: 4 * SECOND }), Some(idle(94)));
    // It is active before its records are sent, and knows more after them.
    assert_eq!(generator.handle(GeneratorEvent::Woken { split: 1, now: 5 * SECOND }), Some(at(94)));
    assert_eq!(generator.handle(records(1, 50, 5 * SECOND)), None);
    assert_eq!(generator.handle(records(0, 200, 5 * SECOND)), None, "split 1 has not caught up");
    assert_eq!(generator.handle(records(1, 300, 5 * SECOND)), Some(at(194)));
    // Without the setting nothing is ever idle.
    let mut patient = self::generator(2, None);
    patient.handle(records(0, 100, SECOND));
    assert_eq!(patient.handle(GeneratorEvent::Tick { now: 1_000_000 * SECOND }), None);
}

#[test]
fn splits_that_have_ended_hold_nothing() {
    let mut generator = generator(2, None);
    generator.handle(records(0, 100, SECOND));
    generator.handle(records(1, 50, SECOND));
    assert_eq!(generator.handle(GeneratorEvent::Ended { split: 1 }), Some(at(94)));
    assert_eq!(generator.handle(GeneratorEvent::Ended { split: 0 }), Some(at(FINAL_WATERMARK)));
}

#[test]
fn a_restored_generator_goes_on_where_it_was() {
    let splits = [RestoredSplit { watermark: 94, ended: false }, RestoredSplit { watermark: 20, ended: true }];
    let bound = WatermarkBound { delay_ms: 5, idle: None };
    let mut generator = WatermarkGenerator::new(bound, &splits, 80, SECOND);
    assert_eq!(generator.output(), at(94));
    assert_eq!(generator.handle(records(0, 97, SECOND)), None);
    // A split that was idle is behind the output.
    let splits = [RestoredSplit { watermark: 10, ended: false }];
    assert_eq!(WatermarkGenerator::new(bound, &splits, 80, SECOND).output(), at(80));
}
