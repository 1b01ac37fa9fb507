//! A record as it is shown: two that are not the same never look the same.

use std::fmt::{self, Write};
use weir_plugin::batch::Headers;
#[cfg(test)]
use weir_plugin::batch::RecordBatch;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a part that are shown.
const SHOWN_BYTES: usize = 200;

/// A record; a line of a file is a value without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    key: String,
    value: String,
    headers: String,
}

impl Record {
    /// Of its parts, null or not.
    pub fn new(key: Option<&[u8]>, value: Option<&[u8]>, headers: Headers<'_>) -> Self {
        let headers = headers.map(|(name, value)| format!("{}={}", part(Some(name)), part(value)));
        Record { key: part(key), value: part(value), headers: headers.collect::<Vec<_>>().join(" ") }
    }

    /// In what `later`, a record of the same key, is not the same.
    pub fn difference(&self, later: &Record) -> String {
        let mut text = format!("key {}", self.key);
        if self.value == later.value {
            let _ = write!(text, ", value {}", self.value);
        } else {
            let _ = write!(text, ": value {} undisturbed, {} here", self.value, later.value);
        }
        if self.headers != later.headers {
            let (before, after) = (or_none(&self.headers), or_none(&later.headers));
            let _ = write!(text, ": headers {before} undisturbed, {after} here");
        }
        text
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}, value {}", self.key, self.value)?;
        if self.headers.is_empty() { Ok(()) } else { write!(f, ", headers {}", self.headers) }
    }
}

fn or_none(headers: &str) -> &str {
    if headers.is_empty() { "none" } else { headers }
}

/// In quotes, unless it is null. The hash tells long ones apart that begin alike.
fn part(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "null".to_owned() };
    let mut text = "'".to_owned();
    for chunk in bytes[..bytes.len().min(SHOWN_BYTES)].utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\'' | '\\' => text.extend(['\\', char]),
                _ if char.is_control() => text.extend(char.escape_default()),
                _ => text.push(char),
            }
        }
        chunk.invalid().iter().for_each(|byte| _ = write!(text, "\\x{byte:02x}"));
    }
    text.push('\'');
    if bytes.len() > SHOWN_BYTES {
        let _ = write!(text, "… ({} bytes, xxh3 {:016x})", bytes.len(), xxh3_64(bytes));
    }
    text
}

/// A record that has headers and nothing else.
#[cfg(test)]
pub fn with_headers(all: &[(&str, Option<&str>)]) -> RecordBatch {
    let mut record = RecordBatch::new();
    record.push(b"", b"", 0);
    all.iter().for_each(|(name, value)| record.push_header(name.as_bytes(), value.map(str::as_bytes)));
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, Option<&str>)]) -> String {
        Record::new(key, value, with_headers(headers).headers(0)).to_string()
    }

    #[test]
    fn what_is_not_the_same_does_not_look_the_same() {
        assert_eq!(shown(None, Some(b"x"), &[]), "key null, value 'x'");
        assert_eq!(shown(Some(b""), None, &[]), "key '', value null");
        assert_eq!(shown(Some(b"null"), Some(b"it's\n\xff"), &[]), r"key 'null', value 'it\'s\n\xff'");
        let some = [("a", Some("1")), ("b", None), ("c", Some(""))];
        assert_eq!(shown(None, Some(b"x"), &some), "key null, value 'x', headers 'a'='1' 'b'=null 'c'=''");
        let long = |end| [[b'x'; 300].as_slice(), &[end]].concat();
        let (one, other) = (shown(None, Some(&long(1)), &[]), shown(None, Some(&long(2)), &[]));
        assert!(one != other && one.contains("'… (301 bytes, xxh3 "), "{one}");
    }

    #[test]
    fn a_difference_names_what_differs() {
        let record = |value: &str, all: &[(&str, Option<&str>)]| {
            Record::new(Some(b"k"), Some(value.as_bytes()), with_headers(all).headers(0))
        };
        let (one, two) = (record("1", &[]), record("2", &[]));
        assert_eq!(one.difference(&two), "key 'k': value '1' undisturbed, '2' here");
        let traced = record("1", &[("trace", Some("x"))]);
        assert_eq!(one.difference(&traced), "key 'k', value '1': headers none undisturbed, 'trace'='x' here");
    }
}
