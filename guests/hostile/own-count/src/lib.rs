//! Counts and adds up the numbers at the front of all values, whatever their key, in state of its own; tells both at the end of the
//! input, and how often the job was restored. It exercises operator state.
//!
//! A number that ends in 77 is a bad record: the call that meets it is made again without it.

use weir_sdk::prelude::*;

#[derive(Clone, Default)]
struct OwnCount {
    count: u64,
    sum: u64,
    restores: u32,
}

/// Version of all parts.
const VERSION: u32 = 1;

impl Operator for OwnCount {
    const INFO: Info = weir_sdk::info!();

    fn process(&mut self, record: Record<'_>, _: &mut Output) -> Result<(), Error> {
        let digits = record.value().get(..20).and_then(|digits| std::str::from_utf8(digits).ok());
        let number: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Error::bad_record("no number"))?;
        if number % 100 == 77 {
            return Err(Error::bad_record("it ends in 77"));
        }
        (self.count, self.sum) = (self.count + 1, self.sum + number);
        Ok(())
    }
}

impl EndOfInput for OwnCount {
    fn on_end(&mut self, _: u32, out: &mut Output) -> Result<(), Error> {
        let OwnCount { count, sum, restores } = self;
        out.emit([], format!("{count} {sum} {restores}"), 0);
        Ok(())
    }
}

impl Checkpointed for OwnCount {
    fn snapshot(&self) -> Result<Vec<Part>, Error> {
        Ok(vec![Part::split(VERSION, &(self.count, self.sum)), Part::broadcast(VERSION, &self.restores)])
    }

    fn restore(&mut self, parts: &[Part]) -> Result<(), Error> {
        for part in parts {
            match part.mode {
                PartMode::Split => {
                    let (count, sum): (u64, u64) = part.value(VERSION)?;
                    (self.count, self.sum) = (self.count + count, self.sum + sum);
                }
                PartMode::Broadcast => self.restores = self.restores.max(part.value::<u32>(VERSION)? + 1),
            }
        }
        Ok(())
    }
}

weir_sdk::export_operator!(OwnCount, end_of_input, checkpointed);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    #[test]
    fn a_call_that_fails_counts_nothing_and_a_restore_goes_on() {
        let record = |number: u64| ("", format!("{number:020}"), 1);
        let mut harness = Harness::open_checkpointed(OwnCount::default(), "{}").unwrap();
        harness.send(0, &[record(1), record(2)]).unwrap();
        let answer = harness.send(0, &[record(3), record(177), record(4)]);
        assert!(matches!(answer, Err(HarnessError::BadRecords(bad)) if bad[0].index == 1));
        harness.send(0, &[record(3), record(4)]).unwrap();
        let parts = harness.snapshot().unwrap();
        assert_eq!(parts[0], Part::split(1, &(4u64, 10u64)));
        // As two instances give them, and one takes them.
        let mut one = Harness::open_checkpointed(OwnCount::default(), "{}").unwrap();
        one.restore(&[parts.clone(), parts].concat()).unwrap();
        let parts = one.snapshot().unwrap();
        assert_eq!(parts, [Part::split(1, &(8u64, 20u64)), Part::broadcast(1, &1u32)]);
        assert!(one.restore(&[Part::split(2, &(8u64, 20u64))]).is_err(), "another version");
    }
}
