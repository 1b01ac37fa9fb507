//! Manifests and log records: what is read is what was written, and nothing else is read at all.

use super::*;
use crate::store::manifest::{ManifestError, PartManifest, SourceWatermarks};
use crate::store::record::RecordError;
use proptest::prelude::*;
use weir_plugin::{PartMode, StatePart};
use weir_protocol::log::{Claim, Slot};

#[test]
fn a_sealed_manifest_reads_back() {
    let manifest = manifest("3-17", &[&described("3-stats-0.3-17.1.delta.sst", b"x")]);
    assert_eq!(Manifest::parse_and_verify(&manifest.to_bytes()), Ok(manifest));
}

/// Numbers whose text differs between serializers must not make a manifest look damaged.
#[test]
fn the_checksum_is_of_the_bytes_as_written() {
    let text = String::from_utf8(manifest("3-17", &[]).to_bytes()).expect("JSON is text");
    let (head, _) = text.rsplit_once("\"checksum\"").expect("it ends in its checksum");
    let other_numbers = head.replace("0.1", "0.10000000000000000").replace("1e-300", "0.1E-299");
    assert_ne!(head, other_numbers);
    let sealed = crate::store::checksum::seal(format!("{other_numbers}\"checksum\":\"\"}}").into_bytes());
    Manifest::parse_and_verify(&sealed).expect("the bytes are those that were sealed");
}

#[test]
fn every_flipped_bit_is_found() {
    let claim = LogRecord::Claim(a_claim(Start::From(id("2-9"))));
    let checkpoint = LogRecord::Checkpoint(Box::new(manifest("3-17", &[&described("3-a-0.3-17.1.delta.sst", b"x")])));
    for record in [claim, checkpoint] {
        let bytes = record.to_bytes(JOB);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let read = LogRecord::parse(&damaged, JOB);
            assert!(matches!(read, Err(RecordError::Unreadable(_))), "bit {bit} of {record:?}: {read:?}");
        }
        for end in 0..bytes.len() {
            assert!(LogRecord::parse(&bytes[..end], JOB).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let document = Manifest { format: 2, ..manifest("3-17", &[]) }.seal();
    let error = Manifest::parse_and_verify(&document.to_bytes()).expect_err("format 2 is unknown here");
    assert_eq!(error, ManifestError::Format { found: 2 });
    assert!(error.to_string().contains("format 2") && error.to_string().contains("use the version that wrote it"), "{error}");
}

#[test]
fn unknown_fields_and_bad_ids_are_refused() {
    let reseal = |text: String| {
        let (head, _) = text.rsplit_once("\"checksum\"").expect("it ends in its checksum");
        crate::store::checksum::seal(format!("{head}\"checksum\":\"\"}}").into_bytes())
    };
    let text = String::from_utf8(manifest("3-17", &[]).to_bytes()).expect("JSON is text");
    for (from, to) in [
        ("\"key_groups\"", "\"colour\":1,\"key_groups\""),
        ("\"id\":\"3-17\"", "\"id\":\"3.17\""),
        ("\"lineage\":\"0", "\"lineage\":\"x"),
        (".out.0.17\"", ".out.0\""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from} occurs");
        let read = Manifest::parse_and_verify(&reseal(changed));
        assert!(matches!(read, Err(ManifestError::Invalid(_))), "{from}: {read:?}");
    }
}

#[test]
fn a_record_of_another_job_is_told_apart_from_a_damaged_one() {
    let bytes = LogRecord::Tombstone { id: id("3-17") }.to_bytes("weather");
    assert_eq!(LogRecord::parse(&bytes, JOB), Err(RecordError::Foreign { job: "weather".to_owned() }));
}

#[test]
#[should_panic(expected = "changed after it was sealed")]
fn a_manifest_that_is_not_sealed_is_not_written() {
    let manifest = Manifest { published_ms: 1, ..manifest("3-17", &[]) };
    LogRecord::Checkpoint(Box::new(manifest)).to_bytes(JOB);
}

fn a_claim(start: Start) -> Claim {
    Claim {
        generation: Generation(4),
        nonce: 7,
        lineage: LINEAGE,
        start,
        allow_duplicates: true,
        facts: ClaimFacts {
            lineages: [LINEAGE, Lineage(9)].into(),
            prefixes: ["weir-flights".to_owned()].into(),
            sink_paths: ["/tmp/out".to_owned()].into(),
            parallelism: 8,
            claims: [(Slot(1), Generation(1)), (Slot(u64::MAX), Generation(u32::MAX))].into(),
        },
    }
}

#[test]
fn every_kind_of_record_reads_back() {
    let records = [
        LogRecord::Claim(a_claim(Start::Newest)),
        LogRecord::Claim(a_claim(Start::Scratch)),
        LogRecord::Claim(a_claim(Start::From(id("3-17")))),
        LogRecord::Checkpoint(Box::new(manifest("3-17", &[]))),
        LogRecord::Tombstone { id: id("3-17") },
        LogRecord::Finished { generation: Generation(5), id: id("3-17") },
    ];
    for record in records {
        assert_eq!(LogRecord::parse(&record.to_bytes(JOB), JOB), Ok(record));
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-z0-9-]{0,8}", "\\PC{0,12}"]
}

prop_compose! {
    fn files()(parts in prop::collection::vec((texts(), any::<u64>(), any::<u128>()), 0..4)) -> Vec<FileManifest> {
        let file = |(name, bytes, checksum)| FileManifest { name, bytes, checksum: format!("{checksum:032x}") };
        parts.into_iter().map(file).collect()
    }
}

prop_compose! {
    fn any_manifest()(
        generation in any::<u32>(), sequence in any::<u32>(), lineage in any::<u128>(), published_ms in any::<u64>(),
        last in any::<bool>(), base in files(), deltas in files(), ended_inputs in prop::collection::vec(texts(), 0..3),
        split in texts(), position in any::<u64>(), number in any::<f64>(), secret in texts(), name in texts(),
        watermark in any::<Option<i64>>(),
    ) -> Manifest {
        let part = StatePart { mode: PartMode::Split, schema_version: sequence, bytes: secret.clone().into_bytes() };
        let parts = watermark.map(|_| vec![PartManifest::of(&part)]);
        let output_watermark = watermark;
        let subtask =
            SubtaskManifest { base, deltas, ended_inputs, end_of_data_sent: last, watermark, output_watermark, parts };
        let mut manifest = manifest(&format!("{generation}-{sequence}"), &[]);
        manifest.lineage = Lineage(lineage).to_string();
        manifest.published_ms = published_ms;
        manifest.last = last;
        manifest.operators.get_mut("stats").expect("it has one").subtasks = vec![subtask.clone(), subtask];
        let splits = vec![SplitState { split, position, ended: last, detail: serde_json::Value::Null }];
        let of_splits = watermark.map(|watermark| (splits[0].split.clone(), watermark)).into_iter().collect();
        let watermarks = watermark.map(|_| SourceWatermarks { splits: of_splits, readers: vec![None, watermark] });
        manifest.sources.insert(name, SourceManifest { splits, ended: last, watermarks });
        manifest.sinks.get_mut("out").expect("it has one").section = serde_json::json!({"secret": secret, "number": number});
        manifest.seal()
    }
}

/// What was written before there were watermarks has no such field.
#[test]
fn a_manifest_without_watermarks_says_nothing_of_them() {
    let text = String::from_utf8(manifest("3-17", &[]).to_bytes()).expect("JSON is UTF-8");
    assert!(!text.contains("watermark"), "{text}");
    let read = Manifest::parse_and_verify(text.as_bytes()).expect("it is read");
    assert_eq!((read.sources["flights"].watermarks.clone(), read.operators["stats"].subtasks[0].watermark), (None, None));
}

#[test]
fn parts_of_operator_state_come_back_and_broken_ones_are_refused() {
    let part = StatePart { mode: PartMode::Broadcast, schema_version: 3, bytes: vec![0, 255, 7] };
    assert_eq!(PartManifest::of(&part).part(), Ok(part.clone()));
    let without = String::from_utf8(manifest("3-17", &[]).to_bytes()).expect("JSON is UTF-8");
    assert!(!without.contains("\"parts\""), "{without}");
    for (mode, bytes, words) in [("union", "AA==", "unknown mode"), ("split", "A", "no base64")] {
        let mut manifest = manifest("3-17", &[]);
        let broken = PartManifest { mode: mode.to_owned(), schema_version: 1, bytes: bytes.to_owned() };
        manifest.operators.get_mut("stats").expect("it has one").subtasks[0].parts = Some(vec![PartManifest::of(&part), broken]);
        let error = Manifest::parse_and_verify(&manifest.seal().to_bytes()).expect_err("refused");
        assert!(matches!(&error, ManifestError::Invalid(why) if why.contains(words)), "{error}");
    }
}

proptest! {
    #[test]
    fn any_manifest_survives_the_log(manifest in any_manifest()) {
        let bytes = LogRecord::Checkpoint(Box::new(manifest.clone())).to_bytes(JOB);
        let Ok(LogRecord::Checkpoint(read)) = LogRecord::parse(&bytes, JOB) else { panic!("it reads back") };
        prop_assert_eq!(*read, manifest);
    }

    #[test]
    fn any_noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Manifest::parse_and_verify(&noise).is_err());
        prop_assert!(LogRecord::parse(&noise, JOB).is_err());
    }
}
