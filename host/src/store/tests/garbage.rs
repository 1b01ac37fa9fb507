//! Retention, collection, fsck: what is stored is what is referred to.

use super::faulty::FaultyStore;
use super::*;
use crate::store::gc::{collect_garbage, release, retain};
use bytes::Bytes;
use std::collections::BTreeSet;
use weir_protocol::log::Slot;

fn nothing() -> References {
    References::default()
}

async fn is_exact(log: &LogStore) {
    log.storage().put_plugin(&sha256_hex(b"plugin"), Bytes::from_static(b"plugin")).await.expect("it is stored");
    let report = fsck::fsck(log, true).await.expect("it can be read");
    assert!(report.is_exact(), "{report:?}");
}

/// A sliding window of files, as with deltas and rebases: each checkpoint shares some with the one before.
#[tokio::test]
async fn retention_keeps_exactly_what_is_reachable() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    let mut files = Vec::new();
    for n in 1..=7_u32 {
        files.push(fixture.upload(&format!("1-stats-0.1-{n}.{n}.delta.sst")).await);
        let window: Vec<&FileManifest> = files.iter().rev().take(3).rev().collect();
        published(&mut job.log, manifest(&format!("1-{n}"), &window)).await;
        retain(&fixture.log(), 2, &nothing()).await.expect("it can be read");
        let kept: Vec<String> = files.iter().rev().take(4).rev().map(|file| file.name.clone()).collect();
        assert_eq!(fixture.names_in("shared"), kept, "after 1-{n}");
        is_exact(&fixture.log()).await;
    }
    let slots: Vec<u64> = fixture.log().list().await.expect("it can be listed").iter().map(|slot| slot.0).collect();
    assert_eq!(slots, [1, 7, 8], "the newest claim and the newest two stay");
}

#[tokio::test]
async fn what_is_in_use_stays() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    let (old, new) = (fixture.upload("1-a-0.1-1.1.delta.sst").await, fixture.upload("1-a-0.1-2.2.delta.sst").await);
    published(&mut job.log, manifest("1-1", &[&old])).await;
    published(&mut job.log, manifest("1-2", &[&new])).await;
    let in_use = References { files: [old.name.clone()].into(), ..nothing() };
    let removed = retain(&fixture.log(), 1, &in_use).await.expect("it can be read");
    assert_eq!((removed.entries, removed.files), (vec![Slot(2)], vec![]));
    assert_eq!(fixture.names_in("shared"), [old.name.as_str(), new.name.as_str()]);
    let removed = release(&fixture.store, [old.name.clone()]).await;
    assert_eq!(removed.files, [old.name]);
    assert_eq!(fixture.names_in("shared"), [new.name]);
}

/// Stops after every deletion in turn, as a crash would: never does a manifest stand whose files are gone.
#[tokio::test]
async fn deletions_go_in_an_order_that_a_crash_can_cut_anywhere() {
    for cut in 0..6 {
        let fixture = Fixture::new();
        let faulty = FaultyStore::over(fixture.store.objects.clone());
        let log = LogStore::new(CheckpointStore::with_objects(Arc::new(faulty.clone()), "here".to_owned()), JOB);
        let mut job = claimed(fixture.log()).await;
        for n in 1..=4 {
            let file = fixture.upload(&format!("1-a-0.1-{n}.{n}.delta.sst")).await;
            published(&mut job.log, manifest(&format!("1-{n}"), &[&file])).await;
        }
        fixture.store.put_plugin(&sha256_hex(b"plugin"), Bytes::from_static(b"plugin")).await.expect("it is stored");
        faulty.fail_deletes_after(cut);
        let removed = retain(&log, 1, &nothing()).await.expect("it can be read");
        assert_eq!(removed.entries.len() + removed.files.len(), cut, "3 entries, then 3 files");
        assert_eq!(removed.leftovers.is_empty(), cut == 6);
        let report = fsck::fsck(&fixture.log(), true).await.expect("it can be read");
        assert!(report.is_whole(), "after {cut} deletions: {report:?}");

        // The next start finishes the work.
        let next = claimed(fixture.log()).await;
        retain(&fixture.log(), 1, &nothing()).await.expect("it can be read");
        collect_garbage(&fixture.log(), next.claim.generation, next.log.claim_slot(), &nothing()).await.expect("it can be read");
        is_exact(&fixture.log()).await;
        assert_eq!(fixture.names_in("shared").len(), 1);
    }
}

#[tokio::test]
async fn a_claim_collects_what_older_generations_left_and_nothing_else() {
    let fixture = Fixture::new();
    let mut old = claimed(fixture.log()).await;
    let kept = fixture.upload("1-a-0.1-1.1.delta.sst").await;
    published(&mut old.log, manifest("1-1", &[&kept])).await;
    let next = claimed(fixture.log()).await;
    for name in ["1-a-0.1-2.9.delta.sst", "2-a-0.2-1.1.delta.sst", "3-a-0.3-1.1.delta.sst", "notes.txt", "01-a.sst", "x-1"] {
        fixture.upload(name).await;
    }
    let unneeded = sha256_hex(b"unneeded");
    let running = sha256_hex(b"running");
    for plugin in [&b"unneeded"[..], b"running", b"plugin"] {
        fixture.store.put_plugin(&sha256_hex(plugin), Bytes::from_static(plugin)).await.expect("it is stored");
    }
    std::fs::write(fixture.folder.path().join("checkpoints/tmp/left"), b"x").expect("it can be written");

    let in_use = References { plugins: [running.clone()].into(), ..nothing() };
    let collect = || collect_garbage(next.log.store(), next.claim.generation, next.log.claim_slot(), &in_use);
    let removed = collect().await.expect("it can be read");
    assert_eq!(removed.files, ["1-a-0.1-2.9.delta.sst"]);
    assert_eq!((removed.plugins, removed.temporaries, removed.held_back), (vec![unneeded], 1, None));
    let plugins: BTreeSet<String> = fixture.store.list_plugins().await.expect("listed").into_iter().map(|p| p.name).collect();
    assert_eq!(plugins, [running, sha256_hex(b"plugin")].into());
    let report = fsck::fsck(&fixture.log(), false).await.expect("it can be read");
    assert_eq!(report.orphans.len(), 3, "two of generations that are not claimed over, and a plugin that only runs yet");
    assert_eq!(report.foreign, ["01-a.sst", "notes.txt", "x-1"]);
    assert!(report.is_whole());
}

#[tokio::test]
async fn a_claimant_that_was_overtaken_leaves_the_newer_ones_things_alone() {
    let fixture = Fixture::new();
    let stalled = claimed(fixture.log()).await;
    let newer = claimed(fixture.log()).await;
    let plugin = sha256_hex(b"newer");
    fixture.store.put_plugin(&plugin, Bytes::from_static(b"newer")).await.expect("it is stored");
    fixture.upload("2-a-0.2-1.1.delta.sst").await;
    std::fs::write(fixture.folder.path().join("checkpoints/tmp/writing"), b"x").expect("it can be written");
    let (generation, slot) = (stalled.claim.generation, stalled.log.claim_slot());
    let removed = collect_garbage(stalled.log.store(), generation, slot, &nothing()).await.expect("it can be read");
    assert_eq!(removed, gc::Removed::default());
    assert_eq!(newer.claim.generation, Generation(2));
}

#[tokio::test]
async fn nothing_is_collected_while_an_entry_can_not_be_read() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    let file = fixture.upload("1-a-0.1-1.1.delta.sst").await;
    published(&mut job.log, manifest("1-1", &[&file])).await;
    published(&mut job.log, manifest("1-2", &[])).await;
    flip_a_bit(&fixture.folder.path().join(format!("checkpoints/log/{}.json", Slot(2))));
    let next = claimed(fixture.log()).await;
    let removed =
        collect_garbage(next.log.store(), next.claim.generation, next.log.claim_slot(), &nothing()).await.expect("it answers");
    assert!(removed.held_back.is_some_and(|why| why.contains("00000000000000000002.json")));
    assert_eq!(fixture.names_in("shared"), [file.name]);
}

#[tokio::test]
async fn a_failing_delete_is_told_and_tried_again() {
    let fixture = Fixture::new();
    let faulty = FaultyStore::over(fixture.store.objects.clone());
    let log = LogStore::new(CheckpointStore::with_objects(Arc::new(faulty.clone()), "here".to_owned()), JOB);
    let mut job = claimed(log.clone()).await;
    for n in 1..=2 {
        published(&mut job.log, manifest(&format!("1-{n}"), &[])).await;
    }
    faulty.fail_deletes_after(0);
    let removed = retain(&log, 1, &nothing()).await.expect("it can be read");
    assert_eq!(removed.leftovers.len(), 1, "{removed:?}");
    assert!(removed.leftovers[0].error.to_string().contains("the answer was lost"));
    faulty.fail_deletes_after(usize::MAX);
    let removed = retain(&log, 1, &nothing()).await.expect("it can be read");
    assert_eq!(removed.entries, [Slot(2)]);
}

#[tokio::test]
async fn fsck_finds_what_is_missing_cut_or_flipped() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    let mut files = Vec::new();
    for n in 1..=4 {
        files.push(fixture.upload(&format!("1-a-0.1-{n}.{n}.delta.sst")).await);
    }
    for n in 1..=2 {
        published(&mut job.log, manifest(&format!("1-{n}"), &files.iter().collect::<Vec<_>>())).await;
    }
    fixture.store.delete_shared(&files[0].name).await.expect("it can be deleted");
    std::fs::write(fixture.stored(&files[1].name), b"cut").expect("it can be written");
    flip_a_bit(&fixture.stored(&files[2].name));
    for (deep, expected) in [(false, vec![0, 1]), (true, vec![0, 1, 2])] {
        let report = fsck::fsck(&fixture.log(), deep).await.expect("it can be read");
        let mut damaged: Vec<&str> = report.damaged.iter().map(|damage| damage.file.as_str()).collect();
        assert_eq!(damaged.pop(), Some(format!("plugins/{}.wasm", sha256_hex(b"plugin")).as_str()));
        assert_eq!(damaged, expected.iter().map(|&n: &usize| files[n].name.as_str()).collect::<Vec<_>>());
        assert!(report.damaged.iter().all(|damage| damage.checkpoints == ["1-1", "1-2"]), "{report:?}");
        assert!(!report.is_whole());
    }
}
