//! Committed output as multisets of records, and what two of them differ in.

use crate::connectors::ConnectorError;
use crate::connectors::kafka_drill;
use crate::graph::{SinkConnectorSpec, SinkSpec};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Differing records that are shown.
const SAMPLES: usize = 5;
/// Bytes of one that are shown.
const SHOWN_BYTES: usize = 200;

/// Called with each record's key, value and headers; a line of a file is a value.
type Each<'e> = &'e mut dyn FnMut(Option<&[u8]>, Option<&[u8]>, &[u8]);

/// How often each record is there, by a 128-bit hash of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Multiset {
    counts: HashMap<u128, i64>,
    records: u64,
}

/// What differs between the output of an undisturbed run and of a disturbed one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The sink.
    pub sink: String,
    /// Where the disturbed run wrote.
    pub place: String,
    /// Records of the undisturbed run.
    pub expected: u64,
    /// Records of the disturbed one.
    pub got: u64,
    /// Records that are missing.
    pub lost: u64,
    /// Records that are there too often, or are wrong.
    pub extra: u64,
    /// Some of either: `lost: …`, `extra: …`.
    pub samples: Vec<String>,
}

impl Compared {
    /// Whether both are the same.
    pub fn is_same(&self) -> bool {
        self.lost == 0 && self.extra == 0
    }
}

fn hash(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    // None and empty are different things, and so are "a" before "bc" and "ab" before "c".
    for part in [key, value] {
        hash.update(&part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash.update(headers);
    hash.digest128()
}

impl Multiset {
    /// All that a sink has committed.
    pub fn of(sink: &SinkSpec) -> Result<Self, ConnectorError> {
        let mut all = Multiset::default();
        each_record(sink, &mut |key, value, headers| {
            *all.counts.entry(hash(key, value, headers)).or_insert(0) += 1;
            all.records += 1;
        })?;
        Ok(all)
    }

    /// Records in all.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Holds the output of `sink` against this, that of the run without faults, which wrote to `undisturbed`.
    pub fn compare(&self, undisturbed: &SinkSpec, sink: &SinkSpec) -> Result<Compared, ConnectorError> {
        let got = Multiset::of(sink)?;
        let difference = |a: &Multiset, b: &Multiset| -> HashMap<u128, i64> {
            let more = a.counts.iter().map(|(hash, count)| (*hash, count - b.counts.get(hash).copied().unwrap_or(0)));
            more.filter(|(_, count)| *count > 0).collect()
        };
        let (lost, extra) = (difference(self, &got), difference(&got, self));
        let count = |some: &HashMap<u128, i64>| some.values().sum::<i64>() as u64;
        let mut compared = Compared {
            sink: sink.name.clone(),
            place: place(sink),
            expected: self.records,
            got: got.records,
            lost: count(&lost),
            extra: count(&extra),
            samples: Vec::new(),
        };
        samples("lost", undisturbed, lost, &mut compared.samples)?;
        samples("extra", sink, extra, &mut compared.samples)?;
        Ok(compared)
    }
}

/// Finds some of the records again: only hashes were kept.
fn samples(word: &str, of: &SinkSpec, mut wanted: HashMap<u128, i64>, into: &mut Vec<String>) -> Result<(), ConnectorError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let most = into.len() + SAMPLES;
    each_record(of, &mut |key, value, headers| {
        if into.len() < most && wanted.remove(&hash(key, value, headers)).is_some() {
            let text = |part: &[u8]| String::from_utf8_lossy(&part[..part.len().min(SHOWN_BYTES)]).into_owned();
            let key = key.map(|key| format!("{} → ", text(key))).unwrap_or_default();
            into.push(format!("{word}: {key}{}", value.map_or("(null)".to_owned(), text)));
        }
    })
}

/// Where a sink writes, in words.
pub fn place(sink: &SinkSpec) -> String {
    match &sink.connector {
        SinkConnectorSpec::File { path } => path.display().to_string(),
        SinkConnectorSpec::Kafka(kafka) => format!("topic {}", kafka.topic.as_deref().unwrap_or("of each record")),
        SinkConnectorSpec::Discard | SinkConnectorSpec::Plugin { .. } => "nowhere".to_owned(),
    }
}

/// Whether there is something to compare.
pub fn is_comparable(sink: &SinkSpec) -> bool {
    match &sink.connector {
        SinkConnectorSpec::File { .. } | SinkConnectorSpec::Kafka(_) => true,
        SinkConnectorSpec::Discard | SinkConnectorSpec::Plugin { .. } => false,
    }
}

fn each_record(sink: &SinkSpec, each: Each<'_>) -> Result<(), ConnectorError> {
    match &sink.connector {
        SinkConnectorSpec::File { path } => each_line(path, each),
        SinkConnectorSpec::Kafka(kafka) => match &kafka.topic {
            Some(topic) => kafka_drill::each_committed(&kafka.cluster, topic, each),
            None => Ok(()),
        },
        SinkConnectorSpec::Discard | SinkConnectorSpec::Plugin { .. } => Ok(()),
    }
}

/// Every line of the committed files below a folder: what begins with a dot is staged.
fn each_line(folder: &Path, each: Each<'_>) -> Result<(), ConnectorError> {
    let failed = |path: &Path, error: &std::io::Error| ConnectorError::permanent(format!("{}: {error}", path.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // Nothing was ever committed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(folder, &error)),
    };
    for entry in entries {
        let path: PathBuf = entry.map_err(|error| failed(folder, &error))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            each_line(&path, each)?;
            continue;
        }
        let mut file = BufReader::new(std::fs::File::open(&path).map_err(|error| failed(&path, &error))?);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line).map_err(|error| failed(&path, &error))? > 0 {
            each(None, Some(line.strip_suffix(b"\n").unwrap_or(&line)), &[]);
            line.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::job_file::sink_from_section;

    fn sink(folder: &Path, files: &[(&str, &str)]) -> SinkSpec {
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("the folder is ours");
            std::fs::write(path, text).expect("the folder is ours");
        }
        let section = serde_json::json!({ "name": "out", "connector": "file", "path": folder.to_str() });
        sink_from_section(&section, &|_| None).expect("a good section")
    }

    #[test]
    fn order_and_files_do_not_matter_and_counts_do() {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let oracle = sink(&dir.path().join("a"), &[("x/1", "one\ntwo\ntwo\n"), (".staged", "never\n")]);
        let all = Multiset::of(&oracle).expect("readable");
        assert_eq!(all.records(), 3);
        let same = sink(&dir.path().join("b"), &[("1", "two\n"), ("2", "one\ntwo\n")]);
        assert!(all.compare(&oracle, &same).expect("readable").is_same());
        let other = sink(&dir.path().join("c"), &[("1", "two\ntwo\ntwo\nthree\n")]);
        let compared = all.compare(&oracle, &other).expect("readable");
        assert_eq!((compared.expected, compared.got, compared.lost, compared.extra), (3, 4, 1, 2));
        let mut samples = compared.samples;
        samples.sort();
        assert_eq!(samples, ["extra: three", "extra: two", "lost: one"]);
    }

    #[test]
    fn where_a_key_ends_matters() {
        let some = |text: &'static str| Some(text.as_bytes());
        assert_ne!(hash(some("a"), some("bc"), &[]), hash(some("ab"), some("c"), &[]));
        assert_ne!(hash(None, some("x"), &[]), hash(some(""), some("x"), &[]));
        assert_ne!(hash(some("x"), None, &[]), hash(some("x"), some(""), &[]));
        assert_ne!(hash(some("x"), None, b"header"), hash(some("x"), None, &[]));
    }
}
