//! Slots: one creator wins, whole; what can't be read is known to exist.

use super::faulty::{Fault, FaultyStore};
use super::*;
use crate::store::durable::{publish_link, through_temporary};
use object_store::memory::InMemory;
use std::io::{ErrorKind, Write};
use weir_protocol::log::{LogEntry, Slot};

fn tombstone(n: u32) -> LogRecord {
    LogRecord::Tombstone { id: CheckpointId::new(Generation(3), n) }
}

async fn everyone_creates(stores: Vec<CheckpointStore>, slot: Slot) -> Vec<u32> {
    let gate = Arc::new(tokio::sync::Barrier::new(stores.len()));
    let creators = (0_u32..).zip(stores).map(|(n, store)| {
        let gate = gate.clone();
        tokio::spawn(async move {
            let log = LogStore::new(store, JOB);
            gate.wait().await;
            (n, log.create(slot, &tombstone(n)).await)
        })
    });
    let mut winners = Vec::new();
    for creator in creators.collect::<Vec<_>>() {
        match creator.await.expect("it does not panic") {
            (n, CreateOutcome::Created) => winners.push(n),
            (_, CreateOutcome::Exists) => {}
            (n, CreateOutcome::Unknown(error)) => panic!("creator {n}: {error}"),
        }
    }
    winners
}

/// The same for a folder, opened by each as by a process of its own, and for a store in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn of_many_creators_exactly_one_wins() {
    let fixture = Fixture::new();
    let reopen = || CheckpointStore::open(fixture.store.place()).expect("it is there");
    let memory = CheckpointStore::with_objects(Arc::new(InMemory::new()), "memory".to_owned());
    for slot in (1..=40).map(Slot) {
        for stores in [(0..8).map(|_| reopen()).collect::<Vec<_>>(), vec![memory.clone(); 8]] {
            let log = LogStore::new(stores[0].clone(), JOB);
            let winners = everyone_creates(stores, slot).await;
            assert_eq!(winners.len(), 1, "slot {slot}: {winners:?}");
            assert_eq!(log.read(slot).await, Ok(Some(tombstone(winners[0]))), "the winner's record stands");
        }
    }
    assert_eq!(fixture.log().list().await, Ok((1..=40).map(Slot).collect()));
    assert!(fixture.names_in("tmp").is_empty(), "temporaries are gone");
    assert_eq!(fixture.names_in("log").len(), 40);
}

/// A creator that stalls before it publishes, whose temporary is cleared away, and whose slot another one takes: it fails,
/// and the other's record stands. With names drawn from the slot it would publish the other's bytes as its own.
#[tokio::test]
async fn a_cleared_temporary_makes_its_owner_fail() {
    let fixture = Fixture::new();
    let root = fixture.folder.path().join("checkpoints");
    let slot = root.join(format!("log/{}.json", Slot(1)));
    let runtime = tokio::runtime::Handle::current();
    let (store, other) = (fixture.store.clone(), fixture.log());
    let owner = tokio::task::spawn_blocking(move || {
        through_temporary(
            &root,
            |file| file.write_all(b"mine"),
            |temporary, ()| {
                assert_eq!(runtime.block_on(store.clear_temporaries()), Ok(1));

                through_temporary(
                    &root,
                    |file| file.write_all(b"theirs"),
                    |_, ()| {
                        // While the other one is writing.
                        let failed = publish_link(temporary, &slot).expect_err("its temporary is gone");
                        assert_eq!(failed.kind(), ErrorKind::NotFound);
                        Ok(())
                    },
                )
            },
        )
    });
    owner.await.expect("it does not panic").expect("both went to their end");
    assert_eq!(other.list().await, Ok(Vec::new()), "nothing was published under a borrowed name");
}

#[tokio::test]
async fn what_a_dead_process_left_is_no_entry_and_goes() {
    let fixture = Fixture::new();
    let tmp = fixture.folder.path().join("checkpoints/tmp");
    std::fs::write(tmp.join("0123456789abcdef"), b"{\"format\":1,\"kind\":\"che").expect("it can be written");
    assert_eq!(fixture.log().list().await, Ok(Vec::new()));
    assert_eq!(fixture.store.clear_temporaries().await, Ok(1));
    assert!(fixture.names_in("tmp").is_empty());
}

#[tokio::test]
async fn names_that_are_no_slots_are_passed_over() {
    let fixture = Fixture::new();
    assert_eq!(fixture.log().create(Slot(7), &tombstone(1)).await, CreateOutcome::Created);
    let log = fixture.folder.path().join("checkpoints/log");
    for name in ["7.json", "00000000000000000008.json#1", "00000000000000000009.json.bak", "+0000000000000000010.json", "x"] {
        std::fs::write(log.join(name), b"x").expect("it can be written");
    }
    std::fs::create_dir(log.join("sub")).expect("it is new");
    std::fs::write(log.join("sub/00000000000000000011.json"), b"x").expect("it can be written");
    assert_eq!(fixture.log().list().await, Ok(vec![Slot(7)]));
    assert_eq!(fixture.log().read(Slot(8)).await, Ok(None));
}

#[tokio::test]
async fn a_damaged_entry_is_known_to_exist() {
    let fixture = Fixture::new();
    let log = fixture.log();
    let record = LogRecord::Checkpoint(Box::new(manifest("3-17", &[])));
    assert_eq!(log.create(Slot(1), &record).await, CreateOutcome::Created);
    let path = fixture.folder.path().join(format!("checkpoints/log/{}.json", Slot(1)));
    flip_a_bit(&path);
    let error = log.read(Slot(1)).await.expect_err("it is damaged");
    assert!(matches!(&error, LogError::Corrupt { slot: Slot(1), .. }), "{error}");
    assert!(error.to_string().contains("00000000000000000001.json"), "{error}");
    assert!(matches!(log.read_entry(Slot(1)).await, Ok(Some(LogEntry::Unreadable { .. }))));
    assert_eq!(log.create(Slot(1), &tombstone(1)).await, CreateOutcome::Exists);
}

#[tokio::test]
async fn another_jobs_log_is_refused() {
    let fixture = Fixture::new();
    assert_eq!(LogStore::new(fixture.store.clone(), "weather").create(Slot(1), &tombstone(1)).await, CreateOutcome::Created);
    let error = fixture.log().read(Slot(1)).await.expect_err("it is another job's");
    assert!(matches!(&error, LogError::OtherJob { theirs, .. } if theirs == "weather"), "{error}");
    assert!(inspect::list_checkpoints(&fixture.log(), 0).await.is_err());
    assert!(fsck::fsck(&fixture.log(), false).await.is_err());
}

#[tokio::test]
async fn an_error_is_never_taken_for_a_no() {
    let fixture = Fixture::new();
    let faulty = FaultyStore::over(fixture.store.objects.clone());
    let log = LogStore::new(CheckpointStore::with_objects(Arc::new(faulty.clone()), "here".to_owned()), JOB);
    faulty.next(&[Fault::Full, Fault::LoseAnswer, Fault::Hold]);
    for n in 1..=3 {
        let outcome = log.create(Slot(n), &tombstone(1)).await;
        assert!(matches!(outcome, CreateOutcome::Unknown(_)), "{outcome:?}");
    }
    assert_eq!(log.list().await, Ok(vec![Slot(2)]));
    assert!(faulty.apply_held().await.iter().all(Result::is_ok));
    assert_eq!(log.list().await, Ok(vec![Slot(2), Slot(3)]));
}
