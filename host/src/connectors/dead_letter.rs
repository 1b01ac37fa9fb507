//! The line that the dead-letter sink writes for a bad record: one JSON object, whose first fields say where to look.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::borrow::Cow;
use weir_plugin::batch::Headers;

/// A bad record, and everything known about it.
#[derive(Clone, Debug)]
pub struct DeadLetter<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The operator that refused it.
    pub operator: &'a str,
    /// sha256 of the plugin.
    pub plugin: &'a str,
    /// Where it came from: one exact place when chained to the source, else the ranges of its batch. Not empty.
    pub places: &'a [Place<'a>],
    /// Why it was refused.
    pub reason: &'a str,
    /// Its key; none: null.
    pub key: Option<&'a [u8]>,
    /// Its value; none: null.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// A range of positions in one split, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place<'a> {
    /// Name of the source.
    pub source: &'a str,
    /// Name of the split.
    pub split: &'a str,
    /// Position of the first record.
    pub first: u64,
    /// Position of the last record; the same if exact.
    pub last: u64,
}

/// The fields, in this order. `key`, `value` and those of the headers are base64, or null; a null key is "", as most have none.
#[derive(Serialize)]
struct Line<'a> {
    job: &'a str,
    operator: &'a str,
    plugin: &'a str,
    #[serde(flatten)]
    place: Option<Place<'a>>,
    /// Further ranges, if its batch was mixed from several splits: it came from one of all.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    or: &'a [Place<'a>],
    reason: &'a str,
    key: String,
    value: Option<String>,
    /// Name, which is text as a rule, and value; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(Cow<'a, str>, Option<String>)>,
}

/// The JSON object, without a newline and with none inside.
pub fn dead_letter_line(letter: &DeadLetter<'_>) -> Vec<u8> {
    let line = Line {
        job: letter.job,
        operator: letter.operator,
        plugin: letter.plugin,
        place: letter.places.first().copied(),
        or: letter.places.get(1..).unwrap_or(&[]),
        reason: letter.reason,
        key: STANDARD.encode(letter.key.unwrap_or_default()),
        value: letter.value.map(|value| STANDARD.encode(value)),
        headers: letter
            .headers
            .map(|(name, value)| (String::from_utf8_lossy(name), value.map(|value| STANDARD.encode(value))))
            .collect(),
    };
    serde_json::to_vec(&line).expect("strings and numbers are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_plugin::batch::RecordBatch;

    fn letter<'a>(places: &'a [Place<'a>]) -> DeadLetter<'a> {
        DeadLetter {
            job: "flights",
            operator: "parse",
            plugin: "ab12",
            places,
            reason: "no \"year\"\nat all",
            key: None,
            value: Some(b"2013,x\xff"),
            headers: Headers::default(),
        }
    }

    #[test]
    fn an_exact_place_stands_at_the_top() {
        let place = Place { source: "in", split: "/data/a.csv", first: 81, last: 81 };
        let expected = concat!(
            r#"{"job":"flights","operator":"parse","plugin":"ab12","source":"in","split":"/data/a.csv","first":81,"last":81,"#,
            r#""reason":"no \"year\"\nat all","key":"","value":"MjAxMyx4/w=="}"#
        );
        assert_eq!(String::from_utf8(dead_letter_line(&letter(&[place]))).expect("UTF-8"), expected);
    }

    #[test]
    fn what_is_null_and_headers_are_kept() {
        let mut record = RecordBatch::new();
        record.push_nullable(Some(b"k"), None, 0);
        record.push_header(b"trace", Some(b"x"));
        record.push_header(b"none", None);
        let letter = DeadLetter { key: record.key_or_null(0), value: None, headers: record.headers(0), ..letter(&[]) };
        let line = String::from_utf8(dead_letter_line(&letter)).expect("UTF-8");
        assert!(line.ends_with(r#""key":"aw==","value":null,"headers":[["trace","eA=="],["none",null]]}"#), "{line}");
    }

    #[test]
    fn further_ranges_follow() {
        let one = Place { source: "in", split: "a", first: 1, last: 9 };
        let two = Place { split: "b", ..one };
        let line = String::from_utf8(dead_letter_line(&letter(&[one, two]))).expect("UTF-8");
        assert!(
            line.contains(r#""split":"a","first":1,"last":9,"or":[{"source":"in","split":"b","first":1,"last":9}]"#),
            "{line}"
        );
        assert!(!line.contains('\n'), "one line: {line}");
    }
}
