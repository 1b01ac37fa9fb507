//! The line that the dead-letter sink writes for a bad record: one JSON object, whose first fields say where to look.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

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
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
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

/// The fields, in this order. `key` and `value` are base64.
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
    value: String,
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
        key: STANDARD.encode(letter.key),
        value: STANDARD.encode(letter.value),
    };
    serde_json::to_vec(&line).expect("strings and numbers are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter<'a>(places: &'a [Place<'a>]) -> DeadLetter<'a> {
        DeadLetter {
            job: "flights",
            operator: "parse",
            plugin: "ab12",
            places,
            reason: "no \"year\"\nat all",
            key: b"",
            value: b"2013,x\xff",
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
