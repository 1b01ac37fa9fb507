//! Joins flights (input 0) with the weather at their origin and hour (input 1); both are keyed `origin,time_hour`.
//!
//! Main output: the flight's line, then `,temp,wind_speed` as the weather file writes them. Whichever side comes first waits
//! in state. When both inputs have ended, flights still without weather go to the side output `unmatched`, as they were.
//!
//! A key has one weather. A second row that says the same is ignored; one that says something else is a bad record, since
//! flights may have gone out with the first one.

use weir_sdk::prelude::*;

/// Inputs, in the order of the job file's `from`.
const FLIGHTS: u32 = 0;
const WEATHER: u32 = 1;

/// Columns of a weather row, and how many it has.
const TEMP: usize = 5;
const WIND_SPEED: usize = 9;
const WEATHER_FIELDS: usize = 15;

/// Index of the side output for flights without weather.
const UNMATCHED: usize = 0;

#[derive(Default)]
struct Join;

/// The weather of a key, as `,temp,wind_speed`.
type Weather = Value<Vec<u8>>;
/// The flights that wait for it: event time and line.
type Waiting = Value<Vec<(i64, Vec<u8>)>>;

impl KeyedOperator for Join {
    const INFO: Info = weir_sdk::info!();
    type State = (Weather, Waiting);
    const STATES: &'static [StateName] = &[StateName::new("weather"), StateName::new("waiting-flights")];
    const SIDE_OUTPUTS: &'static [&'static str] = &["unmatched"];
    const INPUTS: u32 = 2;

    fn process(&mut self, record: Record<'_>, (weather, waiting): &mut Self::State, out: &mut Output) -> Result<(), Error> {
        match record.port() {
            FLIGHTS => match weather.get() {
                Some(weather) => emit(record.key(), record.value(), weather, record.time(), out),
                None => waiting.or_default().push((record.time(), record.value().to_vec())),
            },
            WEATHER => {
                let row = temp_and_wind(record.value())?;
                match weather.get() {
                    None => {
                        for (time, flight) in waiting.take().unwrap_or_default() {
                            emit(record.key(), &flight, &row, time, out);
                        }
                        weather.set(row);
                    }
                    Some(same) if *same == row => {}
                    Some(other) => return Err(contradiction(other, &row)),
                }
            }
            port => return Err(Error::fatal(format!("input {port}: the join has flights and weather"))),
        }
        Ok(())
    }
}

impl EndOfKeyedInput for Join {
    fn on_end_key(&mut self, key: &[u8], (_, waiting): &mut Self::State, out: &mut Output) -> Result<(), Error> {
        for (time, flight) in waiting.take().unwrap_or_default() {
            out.side(UNMATCHED).emit(key, flight, time);
        }
        Ok(())
    }
}

weir_sdk::export_operator!(Join, end_of_input);

/// Emits a flight with its weather.
fn emit(key: &[u8], flight: &[u8], weather: &[u8], time: i64, out: &mut Output) {
    out.emit_with(key, time, |line| {
        line.push(flight);
        line.push(weather);
    });
}

/// `,temp,wind_speed` of a weather row.
fn temp_and_wind(row: &[u8]) -> Result<Vec<u8>, Error> {
    let mut fields = [&[][..]; WEATHER_FIELDS];
    let mut count = 0;
    for field in weir_csv::fields(row) {
        let field = field.map_err(|why| Error::bad_record(format!("field {}: {why}", count + 1)))?;
        if let Some(slot) = fields.get_mut(count) {
            *slot = field;
        }
        count += 1;
    }
    if count != WEATHER_FIELDS {
        return Err(Error::bad_record(format!("{count} fields, a weather row has {WEATHER_FIELDS}")));
    }
    Ok([b",", fields[TEMP], b",", fields[WIND_SPEED]].concat())
}

#[cold]
fn contradiction(first: &[u8], second: &[u8]) -> Error {
    let [first, second] = [first, second].map(|pair| String::from_utf8_lossy(&pair[1..]).into_owned());
    Error::bad_record(format!("a second weather for this origin and hour: temp,wind_speed {second}, before it {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Emitted, Harness, HarnessError};

    fn weather(temp: &str, wind: &str) -> String {
        format!("EWR,2013,1,1,1,{temp},26.06,59.37,270,{wind},NA,0,1012,10,2013-01-01T06:00:00Z")
    }

    fn texts(records: Vec<Emitted>) -> Vec<String> {
        records.iter().map(|record| record.text().to_owned()).collect()
    }

    #[test]
    fn flights_find_their_weather_whichever_comes_first() {
        let mut harness = Harness::open_bounded(Join, "{}").unwrap();
        harness.send(FLIGHTS, &[("a", "flight 1", 5), ("b", "flight 2", 6), ("a", "flight 3", 7)]).unwrap();
        assert_eq!(harness.take_main(), []);
        harness.send(WEATHER, &[("a", weather("39.02", "10.357"), 1), ("c", weather("NA", "NA"), 1)]).unwrap();
        harness.send(FLIGHTS, &[("c", "flight 4", 8), ("a", "flight 5", 9)]).unwrap();
        let matched = harness.take_main();
        assert_eq!(matched.iter().map(|record| record.time).collect::<Vec<_>>(), [5, 7, 8, 9]);
        assert_eq!(texts(matched), ["flight 1,39.02,10.357", "flight 3,39.02,10.357", "flight 4,NA,NA", "flight 5,39.02,10.357"]);
        harness.end().unwrap();
        assert_eq!(texts(harness.take_side("unmatched")), ["flight 2"]);
        assert_eq!(harness.take_main(), []);
        assert_eq!(harness.state().keys(1..2), Vec::<Vec<u8>>::new(), "no flight waits any more");
    }

    #[test]
    fn flights_wait_over_many_calls_and_all_keys_end() {
        let mut harness = Harness::open_bounded(Join, "{}").unwrap();
        let keys: Vec<String> = (0..50).map(|i| format!("key {}", i % 10)).collect();
        let lines: Vec<String> = (0..50).map(|i| format!("flight {i}")).collect();
        let flights: Vec<_> = keys.iter().zip(&lines).map(|(key, line)| (key, line, 1)).collect();
        harness.send_in_batches(FLIGHTS, &flights, 7).unwrap();
        harness.end().unwrap();
        let mut unmatched = texts(harness.take_side("unmatched"));
        unmatched.sort_by_key(|line| line[7..].parse::<u32>().unwrap());
        assert_eq!(unmatched, lines);
    }

    #[test]
    fn a_second_weather_must_say_the_same() {
        let mut harness = Harness::open_bounded(Join, "{}").unwrap();
        harness.send(WEATHER, &[("a", weather("1", "2"), 1), ("a", weather("1", "2"), 1)]).unwrap();
        let answer = harness.send(WEATHER, &[("a", weather("1", "3"), 1), ("b", "1,2".to_owned(), 1)]);
        let Err(HarnessError::BadRecords(bad)) = answer else { panic!("{answer:?}") };
        assert_eq!(bad[0].reason, "a second weather for this origin and hour: temp,wind_speed 1,3, before it 1,2");
        assert_eq!(bad[1].reason, "2 fields, a weather row has 15");
    }
}
