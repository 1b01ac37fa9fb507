//! Sets key and event time of CSV lines from named columns, and leaves the lines as they are.
//!
//! Config:
//! - `header`: the names of all columns, as the file's first line (which the source skips);
//! - `columns`: those that make the key, in this order. The key is their CSV: quoted only where it must be;
//! - `time` (optional): the column with the event time, such as `2013-01-01T10:00:00Z`; else the record's time stays.

use serde::Deserialize;
use std::borrow::Cow;
use weir_sdk::prelude::*;

#[derive(Default)]
struct KeyByColumns {
    names: Vec<String>,
    /// Positions of the key's columns.
    key: Vec<usize>,
    /// Position of the event time.
    time: Option<usize>,
    /// Where each field of the running record lies: (start, end). Kept for its memory.
    fields: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    header: String,
    columns: Vec<String>,
    time: Option<String>,
}

impl Operator for KeyByColumns {
    const INFO: Info = weir_sdk::info!();

    fn open(&mut self, _: &Task, config: &str) -> Result<(), Error> {
        let config: Config = serde_json::from_str(config).map_err(|e| Error::fatal(format!("config: {e}")))?;
        let names: Result<Vec<_>, _> = weir_csv::fields(config.header.as_bytes()).collect();
        let names = names.map_err(|why| Error::fatal(format!("config: header: {why}")))?;
        self.names = names.iter().map(|name| String::from_utf8_lossy(&weir_csv::unquoted(name)).into_owned()).collect();
        if config.columns.is_empty() {
            return Err(Error::fatal("config: columns is empty, so that all records would have one key"));
        }
        self.key = config.columns.iter().map(|name| self.position(name)).collect::<Result<_, _>>()?;
        self.time = config.time.iter().map(|name| self.position(name)).next().transpose()?;
        Ok(())
    }

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let line = record.value();
        self.split(line)?;
        let field = |column: usize| weir_csv::unquoted(&line[self.fields[column].0..self.fields[column].1]);
        let time = match self.time {
            None => record.time(),
            Some(column) => weir_csv::time_ms(&field(column)).ok_or_else(|| self.bad_time(column, field(column)))?,
        };
        let write_key = |key: &mut Bytes<'_>| {
            for (i, &column) in self.key.iter().enumerate() {
                if i > 0 {
                    key.push_byte(b',');
                }
                push_quoted(key, &field(column));
            }
        };
        out.main().emit_built(time, write_key, |value| value.push(line));
        Ok(())
    }
}

weir_sdk::export_operator!(KeyByColumns);

impl KeyByColumns {
    /// Where a column stands.
    fn position(&self, name: &str) -> Result<usize, Error> {
        let found = self.names.iter().position(|own| own == name);
        found.ok_or_else(|| Error::fatal(format!("config: no column '{name}' in the header: {}", self.names.join(", "))))
    }

    /// Finds the fields of a line.
    fn split(&mut self, line: &[u8]) -> Result<(), Error> {
        self.fields.clear();
        let mut start = 0;
        for field in weir_csv::fields(line) {
            let field = field.map_err(|why| Error::bad_record(format!("field {}: {why}", self.fields.len() + 1)))?;
            self.fields.push((start, start + field.len()));
            start += field.len() + 1;
        }
        if self.fields.len() != self.names.len() {
            return Err(Error::bad_record(format!("{} fields, the header has {}", self.fields.len(), self.names.len())));
        }
        Ok(())
    }

    #[cold]
    fn bad_time(&self, column: usize, text: Cow<'_, [u8]>) -> Error {
        let (name, text) = (&self.names[column], String::from_utf8_lossy(&text));
        Error::bad_record(format!("field {} ({name}) is '{text}', not a time such as 2013-01-01T10:00:00Z", column + 1))
    }
}

/// Appends a field, with quotes if it needs them: so that different columns never make one key.
fn push_quoted(key: &mut Bytes<'_>, field: &[u8]) {
    if !field.iter().any(|byte| matches!(byte, b',' | b'"')) {
        return key.push(field);
    }
    key.push_byte(b'"');
    for &byte in field {
        if byte == b'"' {
            key.push_byte(b'"');
        }
        key.push_byte(byte);
    }
    key.push_byte(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    const CONFIG: &str = r#"{"header":"origin,temp,time_hour","columns":["origin","time_hour"],"time":"time_hour"}"#;

    #[test]
    fn key_and_time_come_from_the_columns() {
        let mut harness = Harness::open(KeyByColumns::default(), CONFIG).unwrap();
        let line = "EWR,39.02,2013-01-01T06:00:00Z";
        harness.send(0, &[("", line, 0)]).unwrap();
        let records = harness.take_main();
        assert_eq!(
            (records[0].key(), records[0].text(), records[0].time),
            ("EWR,2013-01-01T06:00:00Z", line, 1_357_020_000_000)
        );
    }

    #[test]
    fn quotes_make_no_difference_and_no_clash() {
        let mut harness = Harness::open(KeyByColumns::default(), r#"{"header":"a,b,c","columns":["b","a"]}"#).unwrap();
        let lines = ["x,y,1", "\"x\",\"y\",2", "\"x,y\",z,3", "x,\"y\"\"\",4"].map(|line| ("old", line, 7));
        harness.send(0, &lines).unwrap();
        let keys: Vec<_> = harness.take_main().iter().map(|r| (r.key().to_owned(), r.time)).collect();
        assert_eq!(keys, ["y,x", "y,x", "z,\"x,y\"", "\"y\"\"\",x"].map(|key| (key.to_owned(), 7)));
    }

    #[test]
    fn bad_lines_say_why() {
        let mut harness = Harness::open(KeyByColumns::default(), CONFIG).unwrap();
        let answer = harness.send(0, &[("", "EWR,1", 0), ("", "\"EWR,1,2", 0), ("", "EWR,1,now", 0)]);
        let Err(HarnessError::BadRecords(bad)) = answer else { panic!("{answer:?}") };
        let reasons: Vec<_> = bad.iter().map(|bad| &bad.reason[..]).collect();
        assert_eq!(
            reasons,
            [
                "2 fields, the header has 3",
                "field 1: a quoted field does not end with its quote",
                "field 3 (time_hour) is 'now', not a time such as 2013-01-01T10:00:00Z",
            ]
        );
    }

    #[test]
    fn config_is_checked() {
        for config in [
            "{}",
            r#"{"header":"a,b","columns":[]}"#,
            r#"{"header":"a,b","columns":["c"]}"#,
            r#"{"header":"a,b","columns":["a"],"time":"c"}"#,
            r#"{"header":"a,b","columns":["a"],"key":"b"}"#,
        ] {
            assert!(matches!(Harness::open(KeyByColumns::default(), config), Err(Error::Fatal(_))), "{config}");
        }
    }
}
