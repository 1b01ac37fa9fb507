//! A stateless operator that goes wrong on demand, for tests of the host. Other records pass through unchanged.
//!
//! Config: `{"on": "<text>", "do": "<action>"}`: the action is taken for every record whose value contains the text.
//! - `trap`: panics;
//! - `loop`: never returns;
//! - `memory`: asks for 10 GiB, piece by piece, and touches what it gets;
//! - `recurse`: calls itself until the stack is full;
//! - `bad-record`: names the record as bad;
//! - `retry`, `fatal`: fails that way;
//! - `flood`: emits 1 MiB records without end;
//! - `side-flood`: the same to the side output `flood`;
//! - `log-flood`: logs 100,000 lines, then passes the record on;
//! - `trap-at-open`, `fatal-at-open`, `loop-at-open`: goes wrong in `open`; `on` is not needed.

use serde::Deserialize;
use std::hint::black_box;
use weir_sdk::prelude::*;

#[derive(Default)]
struct Misbehave {
    on: Vec<u8>,
    action: Action,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    #[default]
    Trap,
    Loop,
    Memory,
    Recurse,
    BadRecord,
    Retry,
    Fatal,
    Flood,
    SideFlood,
    LogFlood,
    TrapAtOpen,
    FatalAtOpen,
    LoopAtOpen,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    on: String,
    r#do: Action,
}

impl Operator for Misbehave {
    const INFO: Info = weir_sdk::info!();
    const SIDE_OUTPUTS: &'static [&'static str] = &["flood"];
    const INPUTS: u32 = 0;

    fn open(&mut self, _: &Task, config: &str) -> Result<(), Error> {
        let config: Config = serde_json::from_str(config).map_err(|e| Error::fatal(format!("config: {e}")))?;
        (self.on, self.action) = (config.on.into_bytes(), config.r#do);
        match self.action {
            Action::TrapAtOpen => panic!("trap at open, as configured"),
            Action::FatalAtOpen => Err(Error::fatal("fatal at open, as configured")),
            Action::LoopAtOpen => endless(),
            _ => Ok(()),
        }
    }

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        // An empty text is in no record: then nothing goes wrong.
        if !self.on.is_empty() && record.value().windows(self.on.len()).any(|part| part == self.on) {
            self.misbehave(record, out)?;
        }
        out.forward(record);
        Ok(())
    }
}

weir_sdk::export_operator!(Misbehave);

impl Misbehave {
    fn misbehave(&self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        match self.action {
            Action::Trap => panic!("trap, as configured"),
            Action::Loop => endless(),
            Action::Memory => take_memory(),
            Action::Recurse => panic!("the stack was not full after {} calls", recurse(1)),
            Action::BadRecord => Err(Error::bad_record("bad, as configured")),
            Action::Retry => Err(Error::retry("retry, as configured")),
            Action::Fatal => Err(Error::fatal("fatal, as configured")),
            Action::Flood => flood(out.main(), record),
            Action::SideFlood => flood(out.side(0), record),
            Action::LogFlood => {
                for i in 0..100_000 {
                    weir_sdk::log(Level::Warn, &format!("flood, line {i}"));
                }
                Ok(())
            }
            Action::TrapAtOpen | Action::FatalAtOpen | Action::LoopAtOpen => Ok(()),
        }
    }
}

fn endless() -> ! {
    let mut n = 0u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

/// Asks for 10 GiB in pieces of 1 MiB, and keeps and touches all of it.
fn take_memory() -> Result<(), Error> {
    let pieces: Vec<Vec<u8>> = (0..10 * 1024).map(|i| black_box(vec![i as u8 | 1; 1 << 20])).collect();
    Err(Error::fatal(format!("{} MiB were given to me", pieces.len())))
}

/// The depth that was reached, if it ever returned.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if frame[0] == 0 { depth } else { recurse(black_box(depth + 1)).max(frame[15]) }
}

fn flood(port: &mut Port, record: Record<'_>) -> ! {
    let large = vec![b'x'; 1 << 20];
    loop {
        port.emit(record.key(), &large, record.time());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    #[test]
    fn only_the_configured_text_goes_wrong() {
        let mut harness = Harness::open(Misbehave::default(), r#"{"on":"boom","do":"bad-record"}"#).unwrap();
        let answer = harness.send(0, &[("k", "fine", 1), ("k", "a boom!", 2)]);
        let Err(HarnessError::BadRecords(bad)) = answer else { panic!("{answer:?}") };
        assert_eq!((bad.len(), bad[0].index), (1, 1));
        harness.send(0, &[("k", "fine", 1)]).unwrap();
        assert_eq!(harness.take_main().len(), 1);
    }

    #[test]
    fn failures_are_of_the_configured_kind() {
        for (action, expected) in [
            ("retry", HarnessError::Retry("retry, as configured".into())),
            ("fatal", HarnessError::Fatal("fatal, as configured".into())),
        ] {
            let mut harness = Harness::open(Misbehave::default(), &format!(r#"{{"on":"x","do":"{action}"}}"#)).unwrap();
            assert_eq!(harness.send(0, &[("", "x", 0)]), Err(expected));
        }
    }

    #[test]
    #[should_panic(expected = "trap, as configured")]
    fn a_trap_is_a_panic() {
        let mut harness = Harness::open(Misbehave::default(), r#"{"on":"x","do":"trap"}"#).unwrap();
        let _ = harness.send(0, &[("", "x", 0)]);
    }

    #[test]
    fn open_goes_wrong_only_if_told_to() {
        assert!(Harness::open(Misbehave::default(), r#"{"do":"fatal-at-open"}"#).is_err());
        assert!(Harness::open(Misbehave::default(), r#"{"do":"dance"}"#).is_err());
        assert!(Harness::open(Misbehave::default(), r#"{"do":"loop"}"#).is_ok());
    }
}
