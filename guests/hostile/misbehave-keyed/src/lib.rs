//! A keyed operator that goes wrong on demand, for tests of the host. It counts records by key and emits `value:count`.
//!
//! Config: `{"on": "<text>", "do": "<action>"}`: the action is taken for every record whose value contains the text, after
//! its state was changed and its output emitted, so that a test sees whether any of it was applied.
//! - `trap`: panics;
//! - `loop`: never returns;
//! - `bad-record`: names the record as bad;
//! - `delete`: no fault: deletes the key's state after the emit.

use serde::Deserialize;
use std::hint::black_box;
use weir_sdk::prelude::*;

#[derive(Default)]
struct MisbehaveKeyed {
    on: Vec<u8>,
    action: Action,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    #[default]
    Trap,
    Loop,
    BadRecord,
    Delete,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    on: String,
    r#do: Action,
}

impl KeyedOperator for MisbehaveKeyed {
    const INFO: Info = weir_sdk::info!();
    type State = Value<u64>;
    const STATES: &'static [StateName] = &[StateName::new("count")];
    const INPUTS: u32 = 0;

    fn open(&mut self, _: &Task, config: &str) -> Result<(), Error> {
        let config: Config = serde_json::from_str(config).map_err(|e| Error::fatal(format!("config: {e}")))?;
        (self.on, self.action) = (config.on.into_bytes(), config.r#do);
        Ok(())
    }

    fn process(&mut self, record: Record<'_>, count: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
        let now = count.or_default();
        *now += 1;
        out.emit_with(record.key(), record.time(), |value| {
            value.push(record.value());
            value.push_byte(b':');
            value.push_int(*now as i64);
        });
        // An empty text is in no record: then nothing goes wrong.
        if self.on.is_empty() || !record.value().windows(self.on.len()).any(|part| part == self.on) {
            return Ok(());
        }
        match self.action {
            Action::Trap => panic!("trap, as configured"),
            Action::Loop => loop {
                black_box(&self.on);
            },
            Action::BadRecord => Err(Error::bad_record("bad, as configured")),
            Action::Delete => {
                count.take();
                Ok(())
            }
        }
    }
}

weir_sdk::export_operator!(MisbehaveKeyed);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn nothing_of_a_bad_call_is_applied() {
        let mut harness = Harness::open(MisbehaveKeyed::default(), r#"{"on":"boom","do":"bad-record"}"#).unwrap();
        harness.send(0, &[("k", "a", 1)]).unwrap();
        assert!(harness.send(0, &[("k", "b", 1), ("k", "boom", 1)]).is_err());
        harness.send(0, &[("k", "c", 1)]).unwrap();
        let values: Vec<_> = harness.take_main().iter().map(|r| r.text().to_owned()).collect();
        assert_eq!(values, ["a:1", "c:2"]);
    }

    #[test]
    fn a_deleted_count_starts_anew() {
        let mut harness = Harness::open(MisbehaveKeyed::default(), r#"{"on":"x","do":"delete"}"#).unwrap();
        harness.send(0, &[("k", "a", 1), ("k", "x", 1)]).unwrap();
        assert_eq!(harness.state().get(0, b"k"), None);
        harness.send(0, &[("k", "b", 1)]).unwrap();
        assert_eq!(harness.take_main()[2].text(), "b:1");
    }
}
