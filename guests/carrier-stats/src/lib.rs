//! Running departure delays of each carrier and origin: for every flight one line
//! `carrier,origin,count,sum_dep_delay,max_dep_delay`, after this flight. Delays are whole minutes.
//!
//! Input: lines of the flights file, keyed `carrier,origin`, as `parse-flights` gives them.

use weir_sdk::prelude::*;

/// Where the delay stands in a line, and how many fields a line has.
const DEP_DELAY: usize = 5;
const FIELDS: usize = 19;

#[derive(Default)]
struct CarrierStats;

#[derive(Default)]
struct Stats {
    count: u64,
    sum: i64,
    max: i64,
}

weir_sdk::state_value!(Stats { count, sum, max });

impl KeyedOperator for CarrierStats {
    const INFO: Info = weir_sdk::info!();
    type State = Value<Stats>;
    const STATES: &'static [StateName] = &[StateName::new("delays")];

    fn process(&mut self, record: Record<'_>, state: &mut Value<Stats>, out: &mut Output) -> Result<(), Error> {
        let delay = dep_delay(record.value())?;
        let stats = state.or_default();
        stats.max = if stats.count == 0 { delay } else { stats.max.max(delay) };
        stats.count += 1;
        stats.sum += delay;
        out.emit_with(record.key(), record.time(), |line| {
            line.push(record.key());
            for number in [stats.count as i64, stats.sum, stats.max] {
                line.push_byte(b',');
                line.push_int(number);
            }
        });
        Ok(())
    }
}

weir_sdk::export_operator!(CarrierStats);

/// The delay of a flight's line.
fn dep_delay(line: &[u8]) -> Result<i64, Error> {
    let (mut delay, mut count) = (None, 0);
    for field in weir_csv::fields(line) {
        let field = field.map_err(|why| Error::bad_record(why.to_string()))?;
        if count == DEP_DELAY {
            delay = Some(field);
        }
        count += 1;
    }
    if count != FIELDS {
        return Err(Error::bad_record(format!("{count} fields, a flight has {FIELDS}")));
    }
    let delay = delay.expect("there are more fields than that");
    weir_csv::whole(&weir_csv::unquoted(delay))
        .ok_or_else(|| Error::bad_record(format!("dep_delay '{}' is not a number", String::from_utf8_lossy(delay))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    fn line(delay: &str) -> String {
        format!("2013,1,1,517,515,{delay},830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z")
    }

    #[test]
    fn each_flight_gives_the_running_values_of_its_key() {
        let flights: Vec<_> = [("UA,EWR", "-3"), ("B6,JFK", "2.0"), ("UA,EWR", "-5"), ("UA,EWR", "7")]
            .map(|(key, delay)| (key, line(delay), 1))
            .into();
        for size in [1, 4] {
            let mut harness = Harness::open(CarrierStats, "{}").unwrap();
            harness.send_in_batches(0, &flights, size).unwrap();
            let lines: Vec<_> = harness.take_main().iter().map(|r| r.text().to_owned()).collect();
            assert_eq!(lines, ["UA,EWR,1,-3,-3", "B6,JFK,1,2,2", "UA,EWR,2,-8,-3", "UA,EWR,3,-1,7"]);
        }
    }

    #[test]
    fn bad_lines_are_named_and_change_nothing() {
        let mut harness = Harness::open(CarrierStats, "{}").unwrap();
        let answer = harness.send(0, &[("k", line("1"), 1), ("k", line("NA"), 1), ("k", "1,2".to_owned(), 1)]);
        let Err(HarnessError::BadRecords(bad)) = answer else { panic!("{answer:?}") };
        assert_eq!(bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 2]);
        assert!(bad[0].reason.contains("dep_delay 'NA'") && bad[1].reason.contains("2 fields"), "{bad:?}");
        assert_eq!((harness.take_main().len(), harness.state().get(0, b"k")), (0, None));
    }
}
