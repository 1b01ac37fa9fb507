//! The records that an operator is tested with: the author's own, or generated ones.

use super::generate;
use super::trace::show;
use crate::graph::Problem;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use weir_plugin::OperatorDescriptor;
use weir_plugin::batch::RecordBatch;

/// Records of the author's that are read; each run goes through all of them.
const MAX_RECORDS: usize = 20_000;

/// Keys that lines get where state needs some.
const KEYS: usize = 10;

/// Time between two lines, ms.
const LINE_MS: i64 = 1_000;

/// Records before each advance of the watermark, in parts of all: batches of many sizes fit into the first.
const CUTS: [usize; 4] = [50, 75, 90, 100];

/// One record to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub port: u32,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub time: i64,
    pub headers: Vec<(String, Option<String>)>,
}

impl Sample {
    pub fn push_to(&self, batch: &mut RecordBatch) {
        batch.push_nullable(self.key.as_deref(), self.value.as_deref(), self.time);
        for (name, value) in &self.headers {
            batch.push_header(name.as_bytes(), value.as_ref().map(String::as_bytes));
        }
    }

    /// For people.
    pub fn show(&self) -> String {
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or_else(|| "null".to_owned(), |bytes| show(bytes));
        format!("key {}, value {}", text(&self.key), text(&self.value))
    }
}

/// A stretch of records of any ports, after which the watermark advances.
pub(super) struct Segment {
    pub samples: Vec<Sample>,
    /// No record of a later segment has a time that is not above it.
    pub watermark: i64,
}

/// All that an operator is sent.
pub(super) struct Input {
    pub segments: Vec<Segment>,
    /// Number of inputs.
    pub ports: u32,
    /// Whether the author gave them.
    pub is_given: bool,
    /// What they are, for people.
    pub what: String,
}

impl Input {
    /// The author's records if there are some, else generated ones.
    pub fn of(file: Option<&Path>, seed: u64, operator: &OperatorDescriptor) -> Result<Self, Problem> {
        let ports = operator.inputs.unwrap_or(2);
        let (samples, what) = match file {
            None => (generate::samples(seed, ports), format!("generated records (--seed {seed})")),
            Some(path) => {
                let samples = read(path, operator)?;
                (samples, format!("records of {}", path.display()))
            }
        };
        let what = format!("{} {what}", samples.len());
        Ok(Input { segments: segments(samples), ports, is_given: file.is_some(), what })
    }

    /// All records, in order.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.segments.iter().flat_map(|segment| &segment.samples)
    }

    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.samples.len()).sum()
    }
}

/// Cut so that no record is late: what is late may fire a timer at once, and then batches of another size rightly give another
/// order.
fn segments(samples: Vec<Sample>) -> Vec<Segment> {
    let cuts: Vec<usize> = CUTS.iter().map(|percent| samples.len() * percent / 100).collect();
    let mut segments = Vec::new();
    let mut begin = 0;
    for end in cuts {
        let later = samples[end..].iter().map(|sample| sample.time).min();
        let watermark = later.map_or(i64::MAX, |time| time.saturating_sub(1));
        segments.push(Segment { samples: samples[begin..end].to_vec(), watermark });
        begin = end;
    }
    segments
}

/// Reads a file: JSON lines if every line is an object with a `value` and nothing that a record has not, else lines.
fn read(path: &Path, operator: &OperatorDescriptor) -> Result<Vec<Sample>, Problem> {
    let place = format!("--input {}", path.display());
    let problem = |what: String, next: &str| Problem::new(place.clone(), what, next);
    let file = File::open(path).map_err(|error| problem(error.to_string(), "give a file of records"))?;
    let lines = BufReader::new(file).split(b'\n').take(MAX_RECORDS).collect::<Result<Vec<_>, _>>();
    let mut lines = lines.map_err(|error| problem(error.to_string(), ""))?;
    for line in &mut lines {
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    if lines.is_empty() {
        return Err(problem("it is empty".to_owned(), "give at least one record"));
    }
    let objects: Option<Vec<_>> = lines.iter().map(|line| record_of(line)).collect();
    let Some(objects) = objects else {
        return Ok((0..).zip(lines).map(|(i, line)| sample_of_line(i, line, operator)).collect());
    };
    let ports = operator.inputs.unwrap_or(u32::MAX);
    let sample = |(i, object)| sample_of(i, object, ports).map_err(|what| problem(format!("line {}: {what}", i + 1), FORMAT));
    (0..).zip(objects).map(sample).collect()
}

/// What a JSON line may be.
const FORMAT: &str =
    r#"a record is {"value": "…", "key": "…", "time": ms, "port": 0, "headers": {"name": "…"}}; all but value may be left out"#;

/// The members that a record can have.
const MEMBERS: [&str; 5] = ["value", "key", "time", "port", "headers"];

fn record_of(line: &[u8]) -> Option<serde_json::Map<String, Value>> {
    let Ok(Value::Object(object)) = serde_json::from_slice(line) else { return None };
    let is_record = object.contains_key("value") && object.keys().all(|key| MEMBERS.contains(&key.as_str()));
    is_record.then_some(object)
}

fn sample_of_line(i: i64, line: Vec<u8>, operator: &OperatorDescriptor) -> Sample {
    let key = operator.is_keyed().then(|| format!("k{}", i as usize % KEYS).into_bytes());
    Sample { key, value: Some(line), time: i * LINE_MS, ..Sample::default() }
}

fn sample_of(i: i64, mut object: serde_json::Map<String, Value>, ports: u32) -> Result<Sample, String> {
    let mut text = |name: &str| match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into_bytes())),
        // A value that is JSON itself need not be quoted.
        Some(other) if name == "value" => Ok(Some(other.to_string().into_bytes())),
        Some(other) => Err(format!("{name} is {other}, not a text")),
    };
    let (key, value) = (text("key")?, text("value")?);
    let time = match object.remove("time") {
        None => i * LINE_MS,
        Some(time) => time.as_i64().ok_or_else(|| format!("time is {time}, not whole milliseconds since 1970"))?,
    };
    let port = match object.remove("port") {
        None => 0,
        Some(port) => {
            let port = port.as_u64().and_then(|port| u32::try_from(port).ok()).filter(|port| *port < ports);
            port.ok_or_else(|| format!("port: the operator's inputs are counted from 0 to {}", ports - 1))?
        }
    };
    let headers = match object.remove("headers") {
        None => Vec::new(),
        Some(Value::Object(headers)) => headers
            .into_iter()
            .map(|(name, value)| match value {
                Value::Null => Ok((name, None)),
                Value::String(text) => Ok((name, Some(text))),
                other => Err(format!("header {name} is {other}, not a text")),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(format!("headers are {other}, not an object")),
    };
    Ok(Sample { port, key, value, time, headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(states: usize) -> OperatorDescriptor {
        let state = weir_plugin::StateDescriptor {
            name: "s".to_owned(),
            kind: weir_plugin::StateKind::Value,
            schema_version: 1,
            prefetch: true,
        };
        OperatorDescriptor {
            plugin_name: "p".to_owned(),
            plugin_version: "1".to_owned(),
            states: vec![state; states],
            side_outputs: Vec::new(),
            inputs: Some(2),
        }
    }

    fn read_text(text: &str, states: usize) -> Result<Vec<Sample>, Problem> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        read(file.path(), &keyed(states))
    }

    #[test]
    fn lines_are_values_and_json_lines_are_whole_records() {
        let lines = read_text("a,1\r\n{\"value\":1}\n", 1).expect("lines");
        assert_eq!(lines[0].value.as_deref(), Some(&b"a,1"[..]));
        assert_eq!((lines[1].key.as_deref(), lines[1].time), (Some(&b"k1"[..]), 1000));
        assert_eq!(read_text("a\n", 0).expect("lines")[0].key, None);
        let text = r#"{"value":"v","key":"","time":-5,"port":1,"headers":{"a":null}}
{"value":{"x":1}}
{"value":null}"#;
        let records = read_text(text, 1).expect("records");
        let first = Sample {
            port: 1,
            key: Some(Vec::new()),
            value: Some(b"v".to_vec()),
            time: -5,
            headers: vec![("a".to_owned(), None)],
        };
        assert_eq!(records[0], first);
        assert_eq!((records[1].value.as_deref(), &records[2].value), (Some(&br#"{"x":1}"#[..]), &None));
    }

    #[test]
    fn a_record_that_is_none_is_named() {
        for (text, word) in [
            ("", "empty"),
            (r#"{"value":"v","port":2}"#, "port"),
            (r#"{"value":"v","time":"now"}"#, "time"),
            (r#"{"value":"v","key":3}"#, "key is 3"),
            (r#"{"value":"v","headers":["a"]}"#, "headers"),
        ] {
            let problem = read_text(text, 0).expect_err(text);
            assert!(problem.to_string().contains(word), "{problem}");
        }
    }

    #[test]
    fn no_record_is_late() {
        let sample = |time| Sample { time, ..Sample::default() };
        let cut = segments((0..10).map(|i| sample(10 - i)).collect());
        assert_eq!(cut.iter().map(|s| s.samples.len()).collect::<Vec<_>>(), [5, 2, 2, 1]);
        assert_eq!(cut.iter().map(|s| s.watermark).collect::<Vec<_>>(), [0, 0, 0, i64::MAX]);
    }
}
