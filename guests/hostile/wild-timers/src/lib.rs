//! Sets timers as no sensible operator does, for tests of the host. What fires is emitted: `<payload>@<time>`, of the timer's key.
//!
//! Config: `{"do": "<action>"}`, taken for every record:
//! - `wall`: sets one for 30 ms from now on the wall, with the record's value; and one that it deletes again;
//! - `thousands`: sets 2,000 of event time, from the least time to the greatest, each twice;
//! - `strange-key`: sets one for a key that is not of the call;
//! - `endless`: sets one that sets itself again whenever it fires.

use serde::Deserialize;
use weir_sdk::prelude::*;

#[derive(Default)]
struct WildTimers {
    action: Action,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    #[default]
    Wall,
    Thousands,
    StrangeKey,
    Endless,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    r#do: Action,
}

/// Milliseconds from now.
const SOON: i64 = 30;

/// Timer `i` of 2,000: the least time first, the greatest last, the others around the epoch.
fn spread(i: i64) -> i64 {
    match i {
        0 => i64::MIN,
        1_999 => i64::MAX,
        i => (i - 1_000) * 1_000,
    }
}

impl TimerOperator for WildTimers {
    const INFO: Info = weir_sdk::info!();
    type State = Value<u64>;
    const STATES: &'static [StateName] = &[StateName::new("fired")];
    const INPUTS: u32 = 0;

    fn open(&mut self, _: &Task, config: &str) -> Result<(), Error> {
        let config: Config = serde_json::from_str(config).map_err(|e| Error::fatal(format!("config: {e}")))?;
        self.action = config.r#do;
        Ok(())
    }

    fn process(&mut self, record: Record<'_>, _: &mut Value<u64>, timers: &mut Timers, _: &mut Output) -> Result<(), Error> {
        let key = record.key();
        match self.action {
            Action::Wall => {
                let at = timers.processing_time() + SOON;
                timers.set_processing_time(key, at, record.value());
                timers.set_processing_time(key, at, b"deleted");
                timers.delete(TimerKind::ProcessingTime, key, at, b"deleted");
            }
            Action::Thousands => (0..4_000).for_each(|i| timers.set_event_time(key, spread(i % 2_000), b"t")),
            Action::StrangeKey => timers.set_event_time(b"a key of somebody else", 0, b""),
            Action::Endless => timers.set_event_time(key, 0, b""),
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer<'_>, fired: &mut Value<u64>, timers: &mut Timers, out: &mut Output) -> Result<(), Error> {
        *fired.or_default() += 1;
        if let Action::Endless = self.action {
            timers.set_event_time(timer.key(), timer.time(), b"");
            return Ok(());
        }
        out.emit_with(timer.key(), timer.time(), |value| {
            value.push(timer.payload());
            value.push_byte(b'@');
            value.push_int(timer.time());
        });
        Ok(())
    }
}

weir_sdk::export_operator!(WildTimers, timers);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn the_wall_fires_what_was_not_deleted() {
        let mut harness = Harness::open(WildTimers::default(), r#"{"do":"wall"}"#).unwrap();
        harness.advance_processing_time(100).unwrap();
        harness.send(0, &[("k", "a", 1), ("k", "a", 1), ("l", "b", 1)]).unwrap();
        harness.advance_processing_time(129).unwrap();
        assert_eq!((harness.take_main().len(), harness.timers()), (0, 2));
        harness.advance_processing_time(130).unwrap();
        let fired: Vec<_> = harness.take_main().iter().map(|r| format!("{} {}", r.key(), r.text())).collect();
        assert_eq!(fired, ["k a@130", "l b@130"]);
    }

    #[test]
    fn thousands_fire_in_order_and_the_last_at_the_end() {
        let mut harness = Harness::open(WildTimers::default(), r#"{"do":"thousands"}"#).unwrap();
        harness.send(0, &[("k", "", 1)]).unwrap();
        assert_eq!(harness.take_main()[0].text(), format!("t@{}", i64::MIN), "before any time");
        harness.advance_watermark(i64::MAX - 1).unwrap();
        let fired = harness.take_main();
        assert!(fired.len() == 1_998 && fired.is_sorted_by_key(|record| record.time));
        harness.end().unwrap();
        assert_eq!(harness.take_main()[0].time, i64::MAX);
    }

    #[test]
    #[should_panic(expected = "none of the running call's")]
    fn a_strange_key_is_found_by_the_harness() {
        let mut harness = Harness::open(WildTimers::default(), r#"{"do":"strange-key"}"#).unwrap();
        drop(harness.send(0, &[("k", "", 1)]));
    }
}
