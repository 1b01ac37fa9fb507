//! Which topic a record goes to, if its headers name it.

use crate::graph::is_topic;
use weir_plugin::batch::RecordBatch;

/// Bytes of a key or a name that an error shows.
const SHOWN_BYTES: usize = 100;

/// The topic of record `i`: what its last header of this name says; without one, or where that is null or empty, `otherwise`.
pub(super) fn topic_of<'r>(
    records: &'r RecordBatch,
    i: usize,
    header: &str,
    otherwise: Option<&'r str>,
) -> Result<&'r str, String> {
    let named = records.headers(i).last_of(header.as_bytes()).flatten().filter(|name| !name.is_empty());
    let record = || format!("a record with the key '{}'", shown(records.key(i)));
    let Some(name) = named else {
        return otherwise.ok_or_else(|| {
            let record = record();
            format!(
                "{record} has no header '{header}' that names its topic: set 'topic' for such records, or leave them out before"
            )
        });
    };
    let topic = std::str::from_utf8(name).ok().filter(|name| is_topic(name));
    topic.ok_or_else(|| format!("{}: its header '{header}' is '{}', which can't be a topic", record(), shown(name)))
}

/// Some bytes of a record, for an error.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_header_counts_and_the_fixed_topic_is_for_those_without() {
        let mut records = RecordBatch::new();
        for headers in
            [&[][..], &[("to", Some("a")), ("to", Some("b"))], &[("to", None)], &[("to", Some(""))], &[("to", Some("a b"))]]
        {
            records.push(b"k", b"v", 0);
            headers.iter().for_each(|(name, value)| records.push_header(name.as_bytes(), value.map(str::as_bytes)));
        }
        let topic = |i, otherwise| topic_of(&records, i, "to", otherwise);
        assert_eq!([0, 1, 2, 3].map(|i| topic(i, Some("fixed"))), [Ok("fixed"), Ok("b"), Ok("fixed"), Ok("fixed")]);
        let none = topic(0, None).expect_err("nobody names one");
        assert!(none.contains("key 'k' has no header 'to'") && none.contains("set 'topic'"), "{none}");
        let bad = topic(4, Some("fixed")).expect_err("no name");
        assert!(bad.contains("header 'to' is 'a b', which can't be a topic"), "{bad}");
    }
}
