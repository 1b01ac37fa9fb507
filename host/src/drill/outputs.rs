//! Committed output as multisets of records, and what two of them differ in.

use super::record::Record;
use crate::connectors::ConnectorError;
use crate::connectors::kafka_drill;
use crate::graph::{SinkConnectorSpec, SinkSpec};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use weir_plugin::batch::Headers;
use xxhash_rust::xxh3::Xxh3;

/// Records of a kind that are shown.
const SAMPLES: usize = 5;

/// Called with each record's key, value and headers; a line of a file is a value.
type Each<'e> = &'e mut dyn FnMut(Option<&[u8]>, Option<&[u8]>, Headers<'_>);
/// Reads an output from its beginning.
type Read<'r> = &'r dyn Fn(Each<'_>) -> Result<(), ConnectorError>;

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
    /// Records that are there under the same key, and are not the same.
    pub differing: u64,
    /// Other records that are missing.
    pub lost: u64,
    /// Other records that are there too often, or are wrong.
    pub extra: u64,
    /// Some of each: `differs: …`, `lost: …`, `extra: …`.
    pub samples: Vec<String>,
}

impl Compared {
    /// Whether both are the same.
    pub fn is_same(&self) -> bool {
        self.differing == 0 && self.lost == 0 && self.extra == 0
    }
}

fn hash(key: Option<&[u8]>, value: Option<&[u8]>, headers: Headers<'_>) -> u128 {
    let mut hash = Xxh3::new();
    let headers = headers.flat_map(|(name, value)| [Some(name), value]);
    // None and empty are different things, and so are "a" before "bc" and "ab" before "c".
    for part in [key, value].into_iter().chain(headers) {
        hash.update(&part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash.digest128()
}

/// What a record is recognised by when the rest of it has changed: its key, or without one its value.
fn identity(key: Option<&[u8]>, value: Option<&[u8]>) -> u128 {
    if key.is_some() { hash(key, None, Headers::default()) } else { hash(None, value, Headers::default()) }
}

impl Multiset {
    /// All that a sink has committed.
    pub fn of(sink: &SinkSpec) -> Result<Self, ConnectorError> {
        Multiset::read(&|each| each_record(sink, each))
    }

    fn read(read: Read<'_>) -> Result<Self, ConnectorError> {
        let mut all = Multiset::default();
        read(&mut |key, value, headers| {
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
        let mut compared = self.hold(&|each| each_record(undisturbed, each), &|each| each_record(sink, each))?;
        compared.sink = sink.name.clone();
        compared.place = place(sink);
        if let SinkConnectorSpec::File { .. } = sink.connector {
            // A line has no key to speak of.
            compared.samples.iter_mut().for_each(|sample| *sample = sample.replacen("key null, value ", "", 1));
        }
        Ok(compared)
    }

    /// `before` reads what this was made of, `after` the other one.
    fn hold(&self, before: Read<'_>, after: Read<'_>) -> Result<Compared, ConnectorError> {
        let got = Multiset::read(after)?;
        let (lost, extra) = (Surplus::of(self, &got), Surplus::of(&got, self));
        let (expected, got) = (self.records, got.records);
        let mut compared = Compared { expected, got, lost: lost.records(), extra: extra.records(), ..Compared::default() };
        if compared.is_same() {
            return Ok(compared);
        }
        let mut pairs = lost.identities(before)?;
        let others = extra.identities(after)?;
        pairs.retain(|identity, count| {
            *count = others.get(identity).copied().unwrap_or(0).min(*count);
            *count > 0
        });
        compared.differing = pairs.values().sum();
        compared.lost -= compared.differing;
        compared.extra -= compared.differing;
        let chosen: Vec<u128> = pairs.keys().copied().take(SAMPLES).collect();
        let (old, lost) = lost.samples(before, pairs.clone(), &chosen)?;
        let (new, extra) = extra.samples(after, pairs, &chosen)?;
        let differing = old.iter().filter_map(|(identity, old)| Some(old.difference(new.get(identity)?)));
        compared.samples = differing.map(|difference| format!("differs: {difference}")).collect();
        compared.samples.extend(lost.iter().map(|record| format!("lost: {record}")));
        compared.samples.extend(extra.iter().map(|record| format!("extra: {record}")));
        Ok(compared)
    }
}

/// What one output has more of than another one.
struct Surplus {
    /// By the record's hash: how many more, and whether the other one has none at all.
    records: HashMap<u128, (i64, bool)>,
}

impl Surplus {
    fn of(a: &Multiset, b: &Multiset) -> Self {
        let more = a.counts.iter().map(|(hash, count)| {
            let others = b.counts.get(hash).copied().unwrap_or(0);
            (*hash, (count - others, others == 0))
        });
        Surplus { records: more.filter(|(_, (count, _))| *count > 0).collect() }
    }

    fn records(&self) -> u64 {
        self.records.values().map(|(count, _)| *count as u64).sum()
    }

    /// How many records of each identity the other output has none of: those may be there in another shape. One of which it only
    /// has fewer is lost or repeated.
    fn identities(&self, read: Read<'_>) -> Result<HashMap<u128, u64>, ConnectorError> {
        let mut identities = HashMap::new();
        if self.records.values().any(|(_, is_unknown)| *is_unknown) {
            read(&mut |key, value, headers| {
                if let Some((_, true)) = self.records.get(&hash(key, value, headers)) {
                    *identities.entry(identity(key, value)).or_insert(0) += 1;
                }
            })?;
        }
        Ok(identities)
    }

    /// Finds some of the records again, as only hashes were kept: one of each identity in `chosen`, and some that are not among
    /// the `paired`.
    fn samples(
        mut self,
        read: Read<'_>,
        mut paired: HashMap<u128, u64>,
        chosen: &[u128],
    ) -> Result<(HashMap<u128, Record>, Vec<Record>), ConnectorError> {
        let (mut first, mut rest) = (HashMap::new(), Vec::new());
        if self.records.is_empty() {
            return Ok((first, rest));
        }
        read(&mut |key, value, headers| {
            let hash = hash(key, value, headers);
            let Some((_, is_unknown)) = self.records.get(&hash) else { return };
            let identity = identity(key, value);
            match paired.get_mut(&identity).filter(|left| *is_unknown && **left > 0) {
                Some(left) => {
                    *left -= 1;
                    if chosen.contains(&identity) {
                        first.entry(identity).or_insert_with(|| Record::new(key, value, headers));
                    }
                }
                None if rest.len() < SAMPLES => {
                    rest.push(Record::new(key, value, headers));
                    // Once is enough.
                    self.records.remove(&hash);
                }
                None => {}
            }
        })?;
        Ok((first, rest))
    }
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
            each(None, Some(line.strip_suffix(b"\n").unwrap_or(&line)), Headers::default());
            line.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::record::with_headers;
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
        assert_eq!(samples, ["extra: 'three'", "extra: 'two'", "lost: 'one'"]);
        assert_eq!(compared.differing, 0);
    }

    #[test]
    fn records_of_one_key_are_paired_and_repetitions_are_not() {
        type Row<'h> = (Option<&'static str>, Option<&'static str>, Headers<'h>);
        let compared = |before: &[Row<'_>], after: &[Row<'_>]| {
            let read = |rows: &[Row<'_>], each: Each<'_>| {
                rows.iter().for_each(|(key, value, headers)| each(key.map(str::as_bytes), value.map(str::as_bytes), *headers));
                Ok(())
            };
            let all = Multiset::read(&|each| read(before, each)).expect("readable");
            let found = all.hold(&|each| read(before, each), &|each| read(after, each)).expect("readable");
            ((found.differing, found.lost, found.extra), found.samples)
        };
        let row = |key, value| (Some(key), Some(value), Headers::default());
        let (counts, samples) = compared(&[row("a", "1"), row("b", "1"), row("b", "2")], &[row("a", "2"), row("b", "2")]);
        assert_eq!(
            (counts, samples),
            (
                (1, 1, 0),
                vec!["differs: key 'a': value '1' undisturbed, '2' here".to_owned(), "lost: key 'b', value '1'".to_owned(),]
            )
        );
        let (counts, samples) = compared(&[row("a", "1"), row("a", "2")], &[row("a", "1"), row("a", "1")]);
        assert_eq!(
            (counts, samples),
            ((0, 1, 1), vec!["lost: key 'a', value '2'".to_owned(), "extra: key 'a', value '1'".to_owned()])
        );
        let (null, empty) = ((None, Some("x"), Headers::default()), (Some(""), Some("x"), Headers::default()));
        let (counts, samples) = compared(&[null], &[empty]);
        assert_eq!(
            (counts, samples),
            ((0, 1, 1), vec!["lost: key null, value 'x'".to_owned(), "extra: key '', value 'x'".to_owned()])
        );
        let held = with_headers(&[("h", Some("v"))]);
        let (counts, samples) = compared(&[null], &[(None, Some("x"), held.headers(0))]);
        assert_eq!(
            (counts, samples),
            ((1, 0, 0), vec!["differs: key null, value 'x': headers none undisturbed, 'h'='v' here".to_owned()])
        );
        assert_eq!(identity(Some(b"a"), Some(b"1")), identity(Some(b"a"), None));
        assert_ne!(identity(Some(b""), Some(b"1")), identity(None, Some(b"1")));
        assert_ne!(identity(None, Some(b"1")), identity(None, Some(b"2")));
        assert_ne!(identity(Some(b"a"), None), identity(None, Some(b"a")));
    }

    #[test]
    fn where_a_key_ends_matters() {
        let some = |text: &'static str| Some(text.as_bytes());
        let none = Headers::default();
        assert_ne!(hash(some("a"), some("bc"), none), hash(some("ab"), some("c"), none));
        assert_ne!(hash(None, some("x"), none), hash(some(""), some("x"), none));
        assert_ne!(hash(some("x"), None, none), hash(some("x"), some(""), none));
        let held = with_headers(&[("header", None)]);
        assert_ne!(hash(some("x"), None, held.headers(0)), hash(some("x"), None, none));
    }
}
