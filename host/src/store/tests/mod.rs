//! Tests of the storage on a real folder, on a store in memory, and on one that fails and delays.

mod faulty;
mod garbage;
mod inspection;
mod job_log;
mod locking;
mod logging;
mod manifests;
mod transfers;

use super::manifest::{
    CommittableManifest, FileManifest, MANIFEST_FORMAT, Manifest, OperatorManifest, SinkManifest, SourceManifest, StateManifest,
    SubtaskManifest,
};
use super::*;
use crate::connectors::SplitState;
use crate::store::checksum::read_through;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use weir_protocol::log::claimant::ClaimRequest;
use weir_protocol::log::{ClaimFacts, Start};
use weir_protocol::recovery::{Ask, Purpose};
use weir_protocol::{CheckpointId, Generation, Lineage};

const JOB: &str = "flights";
const NO_WAIT: Backoff = Backoff { first: Duration::ZERO, max: Duration::ZERO };

/// A storage in a folder of its own, and a working folder beside it.
struct Fixture {
    folder: TempDir,
    store: CheckpointStore,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the test machine has a temporary folder");
        std::fs::create_dir(folder.path().join("work")).expect("it is new");
        let place = folder.path().join("checkpoints");
        let store = CheckpointStore::create(place.to_str().expect("temporary paths are texts")).expect("it can be made");
        Fixture { folder, store }
    }

    fn log(&self) -> LogStore {
        LogStore::new(self.store.clone(), JOB)
    }

    fn work(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.folder.path().join("checkpoints/shared").join(name)
    }

    /// Writes a working file, and says what a manifest would say of it.
    fn write(&self, name: &str, content: &[u8]) -> FileManifest {
        std::fs::write(self.work(name), content).expect("the working folder is there");
        described(name, content)
    }

    /// Writes and uploads a file.
    async fn upload(&self, name: &str) -> FileManifest {
        let file = self.write(name, name.as_bytes());
        self.store.upload(&file, &self.work(name)).await.expect("it is uploaded");
        file
    }

    fn names_in(&self, part: &str) -> Vec<String> {
        names_in(&self.folder.path().join("checkpoints").join(part))
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn described(name: &str, content: &[u8]) -> FileManifest {
    let found = read_through(content, |_| Ok(())).expect("memory can be read");
    FileManifest { name: name.to_owned(), bytes: found.bytes, checksum: found.checksum }
}

fn flip_a_bit(path: &Path) {
    let mut bytes = std::fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("it can be written");
}

fn id(text: &str) -> CheckpointId {
    text.parse().expect("tests write ids right")
}

const LINEAGE: Lineage = Lineage(0xabc);

/// A manifest with one operator of one subtask, which has these files, and one committable.
fn manifest(checkpoint: &str, files: &[&FileManifest]) -> Manifest {
    let generation = id(checkpoint).generation();
    let split = SplitState {
        split: "flights-01.csv".to_owned(),
        position: 4711,
        ended: false,
        detail: serde_json::json!({"bytes": u64::MAX, "ratio": 0.1, "odd": 1.0e-300}),
    };
    let operator = OperatorManifest {
        parallelism: 1,
        plugin: sha256_hex(b"plugin"),
        swap: None,
        backend: "rocksdb".to_owned(),
        states: vec![StateManifest { name: "count".to_owned(), kind: "value".to_owned(), schema_version: 1 }],
        subtasks: vec![SubtaskManifest { deltas: files.iter().copied().cloned().collect(), ..SubtaskManifest::default() }],
    };
    let committable = CommittableManifest {
        id: format!("{LINEAGE}.{generation}.out.0.{}", id(checkpoint).sequence()),
        checkpoint: checkpoint.to_owned(),
        version: 1,
        bytes: "cGFydA==".to_owned(),
        plugin: None,
        sources: vec![("flights".to_owned(), "flights-01.csv".to_owned(), 1, 4710)],
    };
    let section = serde_json::json!({"connector": "file", "path": "out", "password": "${SECRET}"});
    Manifest {
        format: MANIFEST_FORMAT,
        job: JOB.to_owned(),
        id: checkpoint.to_owned(),
        lineage: LINEAGE.to_string(),
        published_ms: 1_700_000_000_000,
        key_groups: 32_768,
        key_hash: "xxh3-64".to_owned(),
        last: false,
        sources: [("flights".to_owned(), SourceManifest { splits: vec![split], ended: false, watermarks: None })].into(),
        operators: [("stats".to_owned(), operator)].into(),
        sinks: [("out".to_owned(), SinkManifest { section, committables: vec![committable] })].into(),
        checksum: String::new(),
    }
    .seal()
}

fn request(ask: Ask) -> ClaimRequest {
    ClaimRequest {
        nonce: uuid::Uuid::new_v4().as_u128(),
        new_lineage: LINEAGE,
        ask,
        facts: ClaimFacts { sink_paths: ["out".to_owned()].into(), parallelism: 2, ..ClaimFacts::default() },
        above: Generation(0),
    }
}

const RESUME: Ask = Ask { purpose: Purpose::Run, start: Start::Newest, allow_duplicates: false };

async fn claimed(log: LogStore) -> Claimed {
    match claim(log, request(RESUME), NO_WAIT).await {
        Ok(Claiming::Claimed(claimed)) => *claimed,
        other => panic!("the job can be claimed: {other:?}"),
    }
}

async fn published(log: &mut JobLog, manifest: Manifest) {
    let outcome = log.publish(manifest, std::future::pending()).await;
    assert!(matches!(outcome, PublishOutcome::Published(_)), "{outcome:?}");
}
