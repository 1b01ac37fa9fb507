//! Tests of the file source: exact positions and exact resumption against a brute-force scan, and every way a file can
//! change.

use super::*;
use crate::connectors::Remedy;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

const TASK: SourceTask = SourceTask { subtask: 0, parallelism: 1 };
const WIDE: Budget = Budget { records: 1000, bytes: 256 << 10 };

/// (split, position, value)
type Row = (u32, u64, Vec<u8>);

fn connector(folder: &Path, glob: &str, format: FileFormat, skip_header: bool) -> FileSourceConnector {
    FileSourceConnector { name: "in".to_owned(), pattern: format!("{}/{glob}", folder.display()), format, skip_header }
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("in memory");
    encoder.finish().expect("in memory")
}

/// A folder with one file.
fn folder_with(name: &str, content: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    let stored = if is_gz(name) { gz(content) } else { content.to_vec() };
    fs::write(folder.path().join(name), stored).expect("write");
    folder
}

/// Lines of a content, byte by byte: (position, line without its end).
fn scan(content: &[u8], skip_header: bool) -> Vec<(u64, Vec<u8>)> {
    let (mut lines, mut line, mut start) = (Vec::new(), Vec::new(), 0);
    for (at, &byte) in content.iter().enumerate() {
        line.push(byte);
        if byte == b'\n' || at + 1 == content.len() {
            let mut kept = std::mem::take(&mut line);
            if kept.ends_with(b"\r\n") {
                kept.truncate(kept.len() - 2);
            } else if kept.ends_with(b"\n") {
                kept.truncate(kept.len() - 1);
            }
            lines.push((start, kept));
            start = at as u64 + 1;
        }
    }
    lines.into_iter().skip(usize::from(skip_header)).collect()
}

/// The next batch as rows, with every position told by the provenance; none at the end.
fn next(source: &mut dyn Source, budget: Budget) -> Result<Option<Vec<Row>>, ConnectorError> {
    loop {
        match source.poll(budget)? {
            SourcePoll::Pending(time) => assert_eq!(time, Duration::ZERO, "a file never waits"),
            SourcePoll::End => return Ok(None),
            SourcePoll::Batch { records, provenance } => {
                assert!(!records.is_empty() && records.len() <= budget.records);
                assert!(records.len() == 1 || records.data().len() <= budget.bytes);
                let [span] = provenance.spans[..] else { panic!("one split at a time") };
                let row = |i| {
                    let place = provenance.of_record(&records, i)[0];
                    assert_eq!((place.first, place.source), (place.last, 5), "exact");
                    assert_eq!((records.key(i), records.time(i)), (&b""[..], 0));
                    (place.split, place.first, records.value(i).to_vec())
                };
                let rows: Vec<Row> = (0..records.len()).map(row).collect();
                assert_eq!((span.first, span.last), (rows[0].1, rows[rows.len() - 1].1), "the range is that of its records");
                return Ok(Some(rows));
            }
        }
    }
}

fn open(connector: &FileSourceConnector, splits: Vec<(u32, SplitState)>) -> Result<Box<dyn Source>, ConnectorError> {
    // Through a checkpoint: states are JSON there.
    let stored = serde_json::to_string(&splits.iter().map(|(_, state)| state).collect::<Vec<_>>()).expect("serialised");
    let states: Vec<SplitState> = serde_json::from_str(&stored).expect("read back");
    connector.open(5, splits.iter().map(|(index, _)| *index).zip(states).collect(), TASK)
}

fn enumerated(connector: &FileSourceConnector) -> Vec<(u32, SplitState)> {
    (0..).zip(connector.enumerate().expect("enumerated")).collect()
}

fn rest(source: &mut dyn Source, budget: Budget) -> Result<Vec<Row>, ConnectorError> {
    let mut all = Vec::new();
    while let Some(rows) = next(source, budget)? {
        all.extend(rows);
    }
    Ok(all)
}

/// States after so many records.
fn read_some(connector: &FileSourceConnector, records: usize) -> Vec<(u32, SplitState)> {
    let mut source = open(connector, enumerated(connector)).expect("opened");
    for _ in 0..records {
        next(&mut *source, Budget { records: 1, bytes: 1 }).expect("read").expect("there are more");
    }
    source.positions()
}

fn refusal<T>(outcome: Result<T, ConnectorError>, parts: &[&str]) {
    let error = outcome.err().expect("refused");
    assert_eq!(error.remedy, Remedy::Permanent, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "'{part}' is not in: {error}");
    }
}

const CONTENTS: &[(&str, &[u8])] = &[
    ("empty", b""),
    ("one", b"a"),
    ("plain", b"a\nbb\n\nccc\n"),
    ("no final newline", b"a\nbb"),
    ("a line that is only a carriage return", b"\r\n\r"),
    ("crlf", b"h\r\na\r\n\r\nbb\r\n"),
    ("mixed line ends", b"a\nb\r\nc\r\nd\ne\r\r\nf\rg\nh"),
    ("empty lines", b"\n\n\r\n\n"),
    ("not text", b"\x00\xff\n\xc3\n"),
];

#[test]
fn every_resume_gives_the_exact_rest() {
    for &(case, content) in CONTENTS {
        for name in ["f.csv", "f.csv.gz"] {
            for skip_header in [false, true] {
                let folder = folder_with(name, content);
                let connector = connector(folder.path(), "f*", FileFormat::Lines, skip_header);
                let expected: Vec<Row> = scan(content, skip_header).into_iter().map(|(at, line)| (0, at, line)).collect();
                for cut in 0..=expected.len() {
                    let states = read_some(&connector, cut);
                    for budget in [WIDE, Budget { records: 2, bytes: 3 }] {
                        let mut source = open(&connector, states.clone()).expect("opened");
                        let got = rest(&mut *source, budget).expect("read");
                        assert_eq!(got, expected[cut..], "{case}, {name}, header {skip_header}, cut at {cut}");
                        let ended = source.positions();
                        assert!(ended[0].1.ended && ended[0].1.position == content.len() as u64, "{ended:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn lines_of_all_lengths_have_exact_positions() {
    // Around the buffer's length, and far above it; a third of them end in \r\n.
    let lengths = [1, 100, 4095, 4096, 4097, 262_143, 262_144, 262_145, 1 << 20, 0, 3, 524_288, 70_000];
    let mut content = Vec::new();
    for (i, length) in (0..4).flat_map(|_| lengths).enumerate() {
        content.extend(std::iter::repeat_n(b'a' + (i % 26) as u8, length));
        content.extend_from_slice(if i % 3 == 0 { b"\r\n" } else { b"\n" });
    }
    let expected: Vec<Row> = scan(&content, false).into_iter().map(|(at, line)| (0, at, line)).collect();
    for name in ["f", "f.gz"] {
        let folder = folder_with(name, &content);
        let connector = connector(folder.path(), "f*", FileFormat::Lines, false);
        for cut in 0..expected.len() {
            let mut source = open(&connector, read_some(&connector, cut)).expect("opened");
            let rows = next(&mut *source, WIDE).expect("read").expect("more");
            assert_eq!(rows, expected[cut..cut + rows.len()], "{name}, cut at {cut}");
        }
    }
}

#[test]
fn random_contents_match_the_scan() {
    let mut seed = 1u64;
    for case in 0..300 {
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize
        };
        let length = random() % 60;
        let content: Vec<u8> = (0..length).map(|_| b"ab\r\r\n\n\n"[random() % 7]).collect();
        let (cut, records) = (random(), 1 + random() % 5);
        let folder = folder_with(if case % 2 == 0 { "f" } else { "f.gz" }, &content);
        let connector = connector(folder.path(), "f*", FileFormat::Lines, false);
        let expected: Vec<Row> = scan(&content, false).into_iter().map(|(at, line)| (0, at, line)).collect();
        let cut = cut % (expected.len() + 1);
        let mut source = open(&connector, read_some(&connector, cut)).expect("opened");
        let got = rest(&mut *source, Budget { records, bytes: 10 }).expect("read");
        assert_eq!(got, expected[cut..], "case {case}: {:?}", String::from_utf8_lossy(&content));
    }
}

#[test]
fn a_batch_is_cut_where_the_line_end_changes() {
    let folder = folder_with("f", b"a\nb\nc\r\nd\r\ne\n");
    let connector = connector(folder.path(), "f", FileFormat::Lines, false);
    let mut source = open(&connector, enumerated(&connector)).expect("opened");
    let mut sizes = Vec::new();
    while let Some(rows) = next(&mut *source, WIDE).expect("read") {
        sizes.push(rows.len());
    }
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn files_are_split_by_name_and_read_in_order_by_any_reader() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for name in ["b.csv", "a.csv", "c.csv.gz", ".hidden.csv", "d.txt"] {
        let content = format!("{name} 1\n{name} 2\n");
        fs::write(folder.path().join(name), if is_gz(name) { gz(content.as_bytes()) } else { content.into_bytes() }).expect("write");
    }
    fs::create_dir(folder.path().join("z.csv")).expect("create");
    let connector = connector(folder.path(), "*.csv*", FileFormat::Lines, false);
    let splits = enumerated(&connector);
    let names: Vec<&str> = splits.iter().map(|(_, state)| state.split.rsplit('/').next().expect("a name")).collect();
    assert_eq!(names, ["a.csv", "b.csv", "c.csv.gz"]);
    // The middle split goes to another reader, after one record of the first.
    let states = read_some(&connector, 1);
    let (other, own): (Vec<_>, Vec<_>) = states.into_iter().partition(|(index, _)| *index == 1);
    let values = |rows: Vec<Row>| rows.into_iter().map(|(split, at, value)| (split, at, String::from_utf8(value).expect("UTF-8"))).collect::<Vec<_>>();
    let own = values(rest(&mut *open(&connector, own).expect("opened"), WIDE).expect("read"));
    assert_eq!(own, [(0, 8, "a.csv 2".to_owned()), (2, 0, "c.csv.gz 1".to_owned()), (2, 11, "c.csv.gz 2".to_owned())]);
    let other = values(rest(&mut *open(&connector, other).expect("opened"), WIDE).expect("read"));
    assert_eq!(other, [(1, 0, "b.csv 1".to_owned()), (1, 8, "b.csv 2".to_owned())]);
    let none = rest(&mut *open(&connector, Vec::new()).expect("opened"), WIDE).expect("read");
    assert_eq!(none, []);
}

#[test]
fn raw_gives_one_record_a_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (name, content) in [("a", &b"x\ny\r\n"[..]), ("b", b""), ("c", &[7; 600_000])] {
        fs::write(folder.path().join(name), content).expect("write");
    }
    let connector = connector(folder.path(), "*", FileFormat::Raw, false);
    let expected = [(0, 0, b"x\ny\r\n".to_vec()), (1, 0, Vec::new()), (2, 0, vec![7; 600_000])];
    for cut in 0..=3 {
        let got = rest(&mut *open(&connector, read_some(&connector, cut)).expect("opened"), WIDE).expect("read");
        assert_eq!(got, expected[cut..]);
    }
    let lines = FileSourceConnector { format: FileFormat::Lines, ..self::connector(folder.path(), "a", FileFormat::Raw, false) };
    refusal(open(&self::connector(folder.path(), "a", FileFormat::Raw, false), read_some(&lines, 1)), &["read as lines up to byte 2"]);
}

#[test]
fn ended_files_are_not_touched_again() {
    let folder = folder_with("a", b"1\n");
    fs::write(folder.path().join("b"), "2\n3\n").expect("write");
    let connector = connector(folder.path(), "*", FileFormat::Lines, false);
    let states = read_some(&connector, 2);
    assert!(states[0].1.ended && !states[1].1.ended, "{states:?}");
    fs::remove_file(folder.path().join("a")).expect("remove");
    assert_eq!(rest(&mut *open(&connector, states).expect("opened"), WIDE).expect("read"), [(1, 2, b"3".to_vec())]);
}

#[test]
fn a_glob_without_files_is_refused() {
    let folder = folder_with("a", b"");
    refusal(connector(folder.path(), "b*", FileFormat::Lines, false).enumerate(), &["no file matches", "b*"]);
    refusal(connector(folder.path(), "[", FileFormat::Lines, false).enumerate(), &["no glob"]);
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("a pipe");
    refusal(connector(folder.path(), "pipe", FileFormat::Lines, false).enumerate(), &["not a regular file"]);
}

#[test]
fn a_record_that_is_too_long_is_named_by_its_position() {
    let mut content = b"short\n".to_vec();
    content.extend(std::iter::repeat_n(b'x', RECORD_BYTES_MAX));
    content.extend_from_slice(b"\r\nlast");
    let folder = folder_with("f", &content);
    let rows = {
        let connector = connector(folder.path(), "f", FileFormat::Lines, false);
        rest(&mut *open(&connector, enumerated(&connector)).expect("opened"), WIDE).expect("the longest that may be")
    };
    assert_eq!(rows.iter().map(|row| (row.1, row.2.len())).collect::<Vec<_>>(), [(0, 5), (6, RECORD_BYTES_MAX), (content.len() as u64 - 4, 4)]);
    // One byte more, with each kind of end.
    for end in [&b"x\nlast\n"[..], b"x\r\n", b"x"] {
        content.truncate(6 + RECORD_BYTES_MAX);
        content.extend_from_slice(end);
        for (name, format, at) in [("f", FileFormat::Lines, "byte 6"), ("f.gz", FileFormat::Lines, "byte 6"), ("f", FileFormat::Raw, "byte 0")] {
            let folder = folder_with(name, &content);
            let connector = connector(folder.path(), name, format, false);
            let mut source = open(&connector, enumerated(&connector)).expect("opened");
            if format == FileFormat::Lines {
                assert_eq!(next(&mut *source, WIDE).expect("read"), Some(vec![(0, 0, b"short".to_vec())]), "what is before it comes first");
            }
            refusal(next(&mut *source, WIDE), &["longer than 16 MiB", at, name]);
        }
    }
}

/// A hundred thousand bytes of lines that all differ.
fn long_content() -> Vec<u8> {
    (0..10_000).flat_map(|i| format!("line {i:04}\n").into_bytes()).collect()
}

/// Lines of ten bytes that hardly compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut seed = 1u64;
    let mut byte = |i: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if i % 10 == 9 { b'\n' } else { 33 + ((seed >> 33) % 90) as u8 }
    };
    (0..bytes).map(&mut byte).collect()
}

/// What happens to a file between two runs, and what the refusal says.
type Change = (&'static str, fn(&Path, &[u8]), &'static [&'static str]);

#[test]
fn a_file_that_changed_between_two_runs_is_refused() {
    let changes: &[Change] = &[
        ("gone", |path, _| fs::remove_file(path).expect("remove"), &["is gone", "--fresh"]),
        ("a folder now", |path, _| {
            fs::remove_file(path).expect("remove");
            fs::create_dir(path).expect("create");
        }, &["not a regular file"]),
        ("truncated", |path, stored| fs::write(path, &stored[..stored.len() / 2]).expect("write"), &["changed", "at the first start"]),
        ("other first bytes", |path, stored| {
            let mut stored = stored.to_vec();
            stored[4] ^= 1;
            fs::write(path, stored).expect("write");
        }, &["first bytes"]),
    ];
    for name in ["f", "f.gz"] {
        for (case, change, parts) in changes {
            let folder = folder_with(name, &long_content());
            let connector = connector(folder.path(), "f*", FileFormat::Lines, false);
            let (path, states) = (folder.path().join(name), read_some(&connector, 9_000));
            change(&path, &fs::read(&path).expect("read"));
            println!("{case}");
            refusal(open(&connector, states), parts);
        }
    }
}

#[test]
fn other_bytes_just_before_the_position_are_refused() {
    let folder = folder_with("f", &long_content());
    let connector = connector(folder.path(), "f", FileFormat::Lines, false);
    // Beyond the 64 KiB of the head, so that only the tail tells.
    let states = read_some(&connector, 9_000);
    let path = folder.path().join("f");
    let mut content = long_content();
    content[89_995] ^= 1;
    fs::write(&path, &content).expect("write");
    let mut source = open(&connector, states.clone()).expect("the head is the same");
    refusal(next(&mut *source, WIDE), &["changed", "before byte 90000"]);
    // A change behind the position is new input like any other.
    let mut content = long_content();
    content[90_000] = b'L';
    fs::write(&path, &content).expect("write");
    let rows = next(&mut *open(&connector, states).expect("opened"), WIDE).expect("read").expect("more");
    assert_eq!(rows[0], (0, 90_000, b"Line 9000".to_vec()));
}

#[test]
fn a_gz_that_decompresses_to_something_else_is_refused() {
    // Heads of 64 KiB are compared as stored, so the files must be larger than that.
    let noise = noise(280_000);
    let (head, rest_of) = noise.split_at(200_000);
    let (one, other) = rest_of.split_at(40_000);
    let stored = |end: &[u8]| [gz(head), gz(end)].concat();
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("f.gz");
    fs::write(&path, stored(one)).expect("write");
    let connector = connector(folder.path(), "f.gz", FileFormat::Lines, false);
    let states = read_some(&connector, 24_000);
    assert_eq!(states[0].1.position, 240_000);
    let mut source = open(&connector, states.clone()).expect("opened");
    assert_eq!(rest(&mut *source, WIDE).expect("read"), [], "its members are one stream");
    let mut replaced = stored(other);
    replaced.resize(replaced.len().max(stored(one).len()), 0);
    fs::write(&path, replaced).expect("write");
    refusal(next(&mut *open(&connector, states.clone()).expect("the head is the same"), WIDE), &["changed"]);
    // Shorter when decompressed, longer on disk.
    let mut short = gz(head);
    short.extend(gz(&[]).repeat(4_000));
    fs::write(&path, short).expect("write");
    refusal(next(&mut *open(&connector, states).expect("the head is the same"), WIDE), &["f.gz", "byte 200000"]);
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_not_taken_for_ended() {
    // Longer than the reader's buffers, so that the rest is not read yet.
    let content = noise(1_000_000);
    let members = [gz(&content[..500_000]), gz(&content[500_000..])];
    let cases = [("f", content.clone(), 700_000), ("f.gz", members.concat(), members[0].len())];
    for (name, stored, cut) in cases {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join(name);
        fs::write(&path, stored).expect("write");
        let connector = connector(folder.path(), name, FileFormat::Lines, false);
        let mut source = open(&connector, enumerated(&connector)).expect("opened");
        next(&mut *source, WIDE).expect("read").expect("more");
        OpenOptions::new().write(true).open(&path).expect("open").set_len(cut as u64).expect("truncate");
        refusal(rest(&mut *source, WIDE), &[name, "at byte", "bytes are missing"]);
    }
}

#[test]
fn a_gz_that_is_not_whole_is_refused_where_it_breaks() {
    let content = long_content();
    let whole = gz(&content);
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    let mut checksum = whole.clone();
    let at = checksum.len() - 8;
    checksum[at] ^= 1;
    let cases = [("cut", whole[..whole.len() / 2].to_vec()), ("flipped", flipped), ("wrong checksum", checksum), ("no gz", content), ("empty", Vec::new())];
    for (case, stored) in cases {
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::write(folder.path().join("f.gz"), stored).expect("write");
        let connector = connector(folder.path(), "f.gz", FileFormat::Lines, false);
        let outcome = rest(&mut *open(&connector, enumerated(&connector)).expect("opened"), WIDE);
        println!("{case}");
        refusal(outcome, &["f.gz", "truncated or corrupt", "at byte"]);
    }
}

#[test]
fn what_is_appended_after_the_first_start_is_not_read() {
    let append = |path: &Path, bytes: &[u8]| OpenOptions::new().append(true).open(path).expect("open").write_all(bytes).expect("append");
    for (name, appended) in [("f", b"c\n".to_vec()), ("f.gz", gz(b"c\n"))] {
        let folder = folder_with(name, b"a\nb\n");
        let connector = connector(folder.path(), "f*", FileFormat::Lines, false);
        for cut in 0..=2 {
            let states = read_some(&connector, cut);
            append(&folder.path().join(name), &appended);
            let rows = rest(&mut *open(&connector, states).expect("opened"), WIDE).expect("read");
            assert_eq!(rows.len(), 2 - cut, "{name}");
            fs::write(folder.path().join(name), if is_gz(name) { gz(b"a\nb\n") } else { b"a\nb\n".to_vec() }).expect("write");
        }
    }
    // Nor is a record that was cut in two by the first look.
    for (format, given) in [(FileFormat::Lines, 1), (FileFormat::Raw, 0)] {
        let folder = folder_with("f", b"a\nb");
        let connector = connector(folder.path(), "f", format, false);
        let states = enumerated(&connector);
        append(&folder.path().join("f"), b"bb\n");
        let mut source = open(&connector, states).expect("opened");
        for _ in 0..given {
            next(&mut *source, Budget { records: 1, bytes: 1 }).expect("a whole line").expect("more");
        }
        refusal(rest(&mut *source, WIDE), &["grew", "in two"]);
    }
}

#[test]
fn a_long_gz_is_skipped_in_steps() {
    let content = long_content().repeat(300);
    let folder = folder_with("f.gz", &content);
    let connector = connector(folder.path(), "f.gz", FileFormat::Lines, false);
    let mut states = enumerated(&connector);
    states[0].1.position = 29_000_000;
    let detail = FileDetail::clone(&serde_json::from_value(states[0].1.detail.clone()).expect("detail"));
    states[0].1.detail = to_json(&detail.with_tail(Some(fingerprint(&content[29_000_000 - 4096..29_000_000]))));
    let mut source = open(&connector, states.clone()).expect("opened");
    let mut waits = 0;
    let first = loop {
        match source.poll(WIDE).expect("read") {
            SourcePoll::Batch { provenance, .. } => break provenance.spans[0].first,
            SourcePoll::Pending(_) => {
                waits += 1;
                assert_eq!(source.positions(), states, "a checkpoint on the way keeps the position");
            }
            SourcePoll::End => panic!("there are more"),
        }
    };
    assert_eq!(first, 29_000_000);
    assert!(waits >= 4, "barriers pass between steps of 8 MiB: {waits}");
}
