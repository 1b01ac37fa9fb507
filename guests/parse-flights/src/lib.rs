//! Reads lines of the flights file: sets the key `carrier,origin` and the event time from `time_hour`, and leaves the line as
//! it is. Flights without a departure delay (`NA`) go to the side output `rejected`, byte for byte.
//!
//! Config: `tz`, which can only be "UTC", since that is what the file's `time_hour` is in.

use serde::Deserialize;
use weir_sdk::prelude::*;

/// The columns of a flight. The source skips the header.
const COLUMNS: [&str; 19] = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
];
const DEP_DELAY: usize = 5;
const CARRIER: usize = 9;
const ORIGIN: usize = 12;
const TIME_HOUR: usize = 18;

/// Index of the side output for flights without a departure delay.
const REJECTED: usize = 0;

#[derive(Default)]
struct ParseFlights;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    tz: Option<String>,
}

impl Operator for ParseFlights {
    const INFO: Info = weir_sdk::info!();
    const SIDE_OUTPUTS: &'static [&'static str] = &["rejected"];

    fn open(&mut self, _: &Task, config: &str) -> Result<(), Error> {
        let config: Config = serde_json::from_str(config).map_err(|e| Error::fatal(format!("config: {e}")))?;
        match config.tz.as_deref() {
            None | Some("UTC") => Ok(()),
            Some(other) => Err(Error::fatal(format!("config: tz = \"{other}\", but time_hour is in UTC"))),
        }
    }

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let flight = Flight::parse(record.value())?;
        let port = if flight.delayed_known { out.main() } else { out.side(REJECTED) };
        port.emit_built(
            flight.time,
            |key| {
                key.push(flight.carrier);
                key.push_byte(b',');
                key.push(flight.origin);
            },
            |value| value.push(record.value()),
        );
        Ok(())
    }
}

weir_sdk::export_operator!(ParseFlights);

/// What of a line matters here.
struct Flight<'a> {
    carrier: &'a [u8],
    origin: &'a [u8],
    time: i64,
    /// False if the departure delay is `NA`.
    delayed_known: bool,
}

impl<'a> Flight<'a> {
    fn parse(line: &'a [u8]) -> Result<Self, Error> {
        let mut fields = [&[][..]; COLUMNS.len()];
        let mut count = 0;
        for field in weir_csv::fields(line) {
            let field = field.map_err(|why| bad(count, &why.to_string()))?;
            if let Some(slot) = fields.get_mut(count) {
                *slot = field;
            }
            count += 1;
        }
        if count != COLUMNS.len() {
            return Err(Error::bad_record(format!("{count} fields, a flight has {}", COLUMNS.len())));
        }
        let [carrier, origin, delay] = [CARRIER, ORIGIN, DEP_DELAY].map(|column| fields[column]);
        for column in [CARRIER, ORIGIN] {
            if fields[column].is_empty() {
                return Err(bad(column, "is empty"));
            }
        }
        let time = weir_csv::time_ms(fields[TIME_HOUR])
            .ok_or_else(|| wrong(&fields, TIME_HOUR, "a time such as 2013-01-01T10:00:00Z"))?;
        let delayed_known = delay != b"NA";
        if delayed_known && weir_csv::whole(delay).is_none() {
            return Err(wrong(&fields, DEP_DELAY, "a number or NA"));
        }
        Ok(Flight { carrier, origin, time, delayed_known })
    }
}

#[cold]
fn wrong(fields: &[&[u8]], column: usize, wanted: &str) -> Error {
    bad(column, &format!("is '{}', not {wanted}", String::from_utf8_lossy(fields[column])))
}

#[cold]
fn bad(column: usize, what: &str) -> Error {
    let name = COLUMNS.get(column).copied().unwrap_or("?");
    Error::bad_record(format!("field {} ({name}) {what}", column + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    const LINE: &str = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z";
    const NO_DELAY: &str = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z";

    #[test]
    fn a_flight_gets_key_and_time_and_stays_as_it_is() {
        let mut harness = Harness::open(ParseFlights, r#"{"tz":"UTC"}"#).unwrap();
        harness.send(0, &[("", LINE, 0)]).unwrap();
        let flights = harness.take_main();
        assert_eq!((flights[0].key(), flights[0].text(), flights[0].time), ("UA,EWR", LINE, 1_357_034_400_000));
    }

    #[test]
    fn a_flight_without_delay_is_rejected_byte_for_byte() {
        let mut harness = Harness::open(ParseFlights, "{}").unwrap();
        harness.send(0, &[("", NO_DELAY, 0), ("", LINE, 0)]).unwrap();
        let rejected = harness.take_side("rejected");
        assert_eq!((rejected.len(), rejected[0].text()), (1, NO_DELAY));
        assert_eq!(harness.take_main().len(), 1);
    }

    #[test]
    fn a_bad_line_says_which_field_and_why() {
        let cases = [
            ("2013,1,1".to_owned(), "3 fields, a flight has 19"),
            (format!("{LINE},x"), "20 fields, a flight has 19"),
            (String::new(), "1 fields, a flight has 19"),
            (LINE.replace(",2,", ",late,"), "field 6 (dep_delay) is 'late', not a number or NA"),
            (
                LINE.replace("T10", " 10"),
                "field 19 (time_hour) is '2013-01-01 10:00:00Z', not a time such as 2013-01-01T10:00:00Z",
            ),
            (LINE.replace("UA", ""), "field 10 (carrier) is empty"),
            (LINE.replace("UA", "\"UA"), "field 10 (carrier) a quoted field does not end with its quote"),
        ];
        let records: Vec<_> = cases.iter().map(|(line, _)| ("", line, 0)).collect();
        let mut harness = Harness::open(ParseFlights, "{}").unwrap();
        let Err(HarnessError::BadRecords(bad)) = harness.send(0, &records) else { panic!("all are bad") };
        assert_eq!(bad.len(), cases.len());
        for (i, (bad, (line, reason))) in bad.iter().zip(&cases).enumerate() {
            assert_eq!((bad.index as usize, &bad.reason[..]), (i, *reason), "{line}");
        }
    }

    #[test]
    fn config_is_checked() {
        for config in [r#"{"tz":"CET"}"#, r#"{"timezone":"UTC"}"#, "[]"] {
            assert!(matches!(Harness::open(ParseFlights, config), Err(Error::Fatal(_))), "{config}");
        }
    }
}
