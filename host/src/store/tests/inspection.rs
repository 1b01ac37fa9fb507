//! What `checkpoint list` and `show` tell.

use super::*;
use crate::store::inspect::{CheckpointState, list_checkpoints, show_checkpoint};

const NOW_MS: u64 = 1_700_000_060_000;

#[tokio::test]
async fn a_list_tells_sizes_ages_and_what_is_new() {
    let fixture = Fixture::new();
    let empty = list_checkpoints(&fixture.log(), NOW_MS).await.expect("an empty log can be read");
    assert_eq!((empty.checkpoints.len(), empty.claim), (0, None));
    let mut job = claimed(fixture.log()).await;
    let (a, b) = (described("1-a-0.1-1.1.delta.sst", &[1; 100]), described("1-a-0.1-2.2.delta.sst", &[2; 20]));
    published(&mut job.log, manifest("1-1", &[&a])).await;
    published(&mut job.log, manifest("1-2", &[&a, &b])).await;
    let list = list_checkpoints(&fixture.log(), NOW_MS).await.expect("it can be read");
    let told: Vec<_> =
        list.checkpoints.iter().map(|row| (row.id.as_str(), row.state, row.files, row.bytes, row.new_bytes)).collect();
    assert_eq!(told, [("1-1", CheckpointState::Retained, 1, 100, 100), ("1-2", CheckpointState::Newest, 2, 120, 20)]);
    assert!(list.checkpoints.iter().all(|row| row.age_ms == 60_000 && row.committables == 1 && !row.last));
    let claim = list.claim.expect("it was claimed");
    assert_eq!((claim.slot, claim.generation, claim.lineage), (1, 1, LINEAGE.to_string()));
    assert_eq!((list.finished, list.unreadable), (None, vec![]));
}

#[tokio::test]
async fn show_tells_what_is_in_one() {
    let fixture = Fixture::new();
    let nothing = show_checkpoint(&fixture.log(), None, NOW_MS).await.expect_err("there is none");
    assert_eq!(nothing, LogError::NoCheckpoint { job: JOB.to_owned() });
    let mut job = claimed(fixture.log()).await;
    let file = described("1-a-0.1-1.1.delta.sst", &[1; 100]);
    published(&mut job.log, manifest("1-1", &[&file])).await;
    published(&mut job.log, manifest("1-2", &[])).await;
    let newest = show_checkpoint(&fixture.log(), None, NOW_MS).await.expect("there is one");
    assert_eq!(newest.row.id, "1-2");
    let detail = show_checkpoint(&fixture.log(), Some(id("1-1")), NOW_MS).await.expect("it is there");
    let operator = &detail.operators[0];
    assert_eq!((operator.name.as_str(), operator.files, operator.bytes), ("stats", 1, 100));
    assert_eq!((operator.subtasks[0].base_files, operator.subtasks[0].delta_files), (0, 1));
    assert_eq!(detail.sources[0].splits[0].position, 4711);
    let sink = &detail.sinks[0];
    assert_eq!((sink.connector.as_str(), sink.committables[0].sources[0].3), ("file", 4710));
    let text = serde_json::to_string(&detail).expect("it has a JSON form");
    assert!(!text.contains("SECRET"), "a sink's section stays in the manifest");
    let absent = show_checkpoint(&fixture.log(), Some(id("9-9")), NOW_MS).await.expect_err("there is none");
    assert_eq!(absent.to_string(), "there is no checkpoint 9-9; there are: 1-1, 1-2");
}
