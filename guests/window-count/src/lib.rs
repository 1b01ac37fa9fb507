//! Counts the records of each key in tumbling windows of event time: one result for each window, when the watermark passes it.
//!
//! Config: `{"size_ms": 60000}`. Output: the key, and `{"key":…,"start":…,"count":…}` with the window's last millisecond as its
//! time. What comes after its window has closed goes to the side output `late`, as it came.

use serde::{Deserialize, Serialize};
use weir_sdk::prelude::*;

#[derive(Default)]
struct WindowCount {
    size_ms: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    size_ms: i64,
}

#[derive(Serialize)]
struct Window<'a> {
    key: &'a str,
    start: i64,
    count: u64,
}

impl WindowCount {
    /// When a window closes: its last millisecond. None: it would lie beyond all times.
    fn last_ms(&self, start: i64) -> Option<i64> {
        start.checked_add(self.size_ms - 1)
    }
}

impl TimerOperator for WindowCount {
    const INFO: Info = weir_sdk::info!();
    /// Open windows of the key: start and count.
    type State = Value<Vec<(i64, u64)>>;
    const STATES: &'static [StateName] = &[StateName::new("windows")];
    const SIDE_OUTPUTS: &'static [&'static str] = &["late"];
    const INPUTS: u32 = 0;

    fn open(&mut self, _: &Task, config: &str) -> Result<(), Error> {
        let Config { size_ms } = serde_json::from_str(config).map_err(|why| Error::fatal(format!("config: {why}")))?;
        if size_ms <= 0 {
            return Err(Error::fatal(format!("config: size_ms is {size_ms}: it must be above 0")));
        }
        self.size_ms = size_ms;
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<'_>,
        windows: &mut Value<Vec<(i64, u64)>>,
        timers: &mut Timers,
        out: &mut Output,
    ) -> Result<(), Error> {
        let start = record.time() - record.time().rem_euclid(self.size_ms);
        let last_ms = self.last_ms(start).ok_or_else(|| Error::bad_record("its window has no end"))?;
        if last_ms <= timers.watermark() {
            out.side(0).forward(record);
            return Ok(());
        }
        let windows = windows.or_default();
        match windows.iter_mut().find(|(own, _)| *own == start) {
            Some((_, count)) => *count += 1,
            None => {
                windows.push((start, 1));
                timers.set_event_time(record.key(), last_ms, b"");
            }
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer<'_>,
        windows: &mut Value<Vec<(i64, u64)>>,
        _: &mut Timers,
        out: &mut Output,
    ) -> Result<(), Error> {
        let mut open = windows.take().unwrap_or_default();
        let closed = open.iter().position(|(start, _)| self.last_ms(*start) == Some(timer.time()));
        let (start, count) = open.swap_remove(closed.ok_or_else(|| Error::fatal("a timer of no window has fired"))?);
        if !open.is_empty() {
            windows.set(open);
        }
        let key = String::from_utf8_lossy(timer.key());
        let result = serde_json::to_string(&Window { key: &key, start, count }).expect("texts and numbers have a JSON form");
        out.emit(timer.key(), result, timer.time());
        Ok(())
    }
}

weir_sdk::export_operator!(WindowCount, timers);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    const CONFIG: &str = r#"{"size_ms":10}"#;

    fn texts(harness: &mut Harness) -> Vec<String> {
        harness.take_main().iter().map(|record| format!("{} {}", record.time, record.text())).collect()
    }

    #[test]
    fn each_window_gives_its_count_once_the_watermark_has_passed_it() {
        let mut harness = Harness::open(WindowCount::default(), CONFIG).unwrap();
        harness.send(0, &[("a", "", 3), ("b", "", 7), ("a", "", 12), ("a", "", 9), ("a", "", -1)]).unwrap();
        assert_eq!(harness.timers(), 4);
        harness.advance_watermark(8).unwrap();
        assert_eq!(texts(&mut harness), [r#"-1 {"key":"a","start":-10,"count":1}"#]);
        harness.advance_watermark(9).unwrap();
        let both = [r#"9 {"key":"a","start":0,"count":2}"#, r#"9 {"key":"b","start":0,"count":1}"#];
        assert_eq!(texts(&mut harness), both);
        harness.reopen(WindowCount::default(), CONFIG).unwrap();
        harness.send(0, &[("a", "too late", 5), ("a", "", 19)]).unwrap();
        assert_eq!(harness.take_side("late")[0].text(), "too late");
        harness.end().unwrap();
        assert_eq!(texts(&mut harness), [r#"19 {"key":"a","start":10,"count":2}"#]);
        assert_eq!((harness.timers(), harness.state().keys(0..1).len()), (0, 0));
    }

    #[test]
    fn a_window_beyond_all_times_is_a_bad_record() {
        let mut harness = Harness::open(WindowCount::default(), CONFIG).unwrap();
        assert!(harness.send(0, &[("a", "", i64::MAX)]).is_err());
        assert_eq!(harness.timers(), 0);
        assert!(Harness::open(WindowCount::default(), r#"{"size_ms":0}"#).is_err());
    }
}
