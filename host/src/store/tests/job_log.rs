//! Claims and publishes against a real folder and a store that loses, delays and fills up: two processes on one log.

use super::faulty::{Fault, FaultyStore};
use super::*;
use std::future::pending;
use weir_protocol::log::{LogEntry, LogView, Slot};
use weir_protocol::recovery::{Refusal, StartPoint};

/// A log behind a faulty store, and the same log as a process with a good connection sees it.
struct Faulty {
    fixture: Fixture,
    store: FaultyStore,
    log: LogStore,
}

impl Faulty {
    fn new() -> Self {
        let fixture = Fixture::new();
        let store = FaultyStore::over(fixture.store.objects.clone());
        let log = LogStore::new(CheckpointStore::with_objects(Arc::new(store.clone()), "here".to_owned()), JOB);
        Faulty { fixture, store, log }
    }

    async fn kinds(&self) -> Vec<(u64, &'static str)> {
        let kind = |entry: &LogEntry| match entry {
            LogEntry::Claim(_) => "claim",
            LogEntry::Checkpoint(_) => "checkpoint",
            LogEntry::Tombstone { .. } => "tombstone",
            LogEntry::Finished { .. } => "finished",
            LogEntry::Unreadable { .. } => "unreadable",
            LogEntry::Foreign { .. } => "foreign",
        };
        let entries = self.fixture.log().read_entries().await.expect("the folder can be read");
        entries.iter().map(|(slot, entry)| (slot.0, kind(entry))).collect()
    }
}

#[tokio::test]
async fn a_job_starts_publishes_resumes_and_finishes() {
    let fixture = Fixture::new();
    let mut first = claimed(fixture.log()).await;
    assert_eq!((first.claim.generation, first.claim.lineage), (Generation(1), LINEAGE));
    assert_eq!(first.plan.start, StartPoint::Scratch);
    published(&mut first.log, manifest("1-1", &[])).await;
    published(&mut first.log, manifest("1-2", &[])).await;

    let mut second = claimed(fixture.log()).await;
    assert_eq!(second.claim.generation, Generation(2));
    assert_eq!(second.plan.start, StartPoint::Checkpoint(id("1-2")));
    assert_eq!(second.plan.commit, manifest("1-2", &[]).entry().expect("its ids are good").contains);
    assert_eq!(fixture.log().manifest(id("1-2")).await, Ok(manifest("1-2", &[])));

    let last = Manifest { last: true, ..manifest("2-1", &[]) }.seal();
    published(&mut second.log, last).await;
    assert_eq!(second.log.finish(id("2-1")).await, FinishOutcome::Finished);
    match claim(fixture.log(), request(RESUME), NO_WAIT).await {
        Ok(Claiming::Finished(final_one)) => assert_eq!(final_one, id("2-1")),
        other => panic!("it has finished: {other:?}"),
    }
    assert_eq!(fixture.names_in("log").len(), 6, "a finished job is not claimed again");
}

#[tokio::test]
async fn a_publisher_whose_slot_a_claim_took_is_fenced_for_good() {
    let fixture = Fixture::new();
    let mut old = claimed(fixture.log()).await;
    published(&mut old.log, manifest("1-1", &[])).await;
    let mut new = claimed(fixture.log()).await;
    assert_eq!(old.log.publish(manifest("1-2", &[]), pending()).await, PublishOutcome::Fenced { by: Slot(3) });
    assert_eq!(old.log.publish(manifest("1-3", &[]), pending()).await, PublishOutcome::Fenced { by: Slot(3) });
    assert_eq!(old.log.finish(id("1-1")).await, FinishOutcome::Fenced { by: Slot(3) });
    published(&mut new.log, manifest("2-1", &[])).await;
    assert_eq!(new.log.store().manifest(id("2-1")).await, Ok(manifest("2-1", &[])));
}

/// Its create succeeds, in a slot that retention has emptied; the look above it tells.
#[tokio::test]
async fn a_publisher_below_a_newer_claim_is_fenced_though_its_create_succeeds() {
    let fixture = Fixture::new();
    let mut old = claimed(fixture.log()).await;
    published(&mut old.log, manifest("1-1", &[])).await;
    let mut new = claimed(fixture.log()).await;
    for sequence in 1..=3 {
        published(&mut new.log, manifest(&format!("2-{sequence}"), &[])).await;
    }
    let mut newest = claimed(fixture.log()).await;
    published(&mut newest.log, manifest("3-1", &[])).await;
    gc::retain(&fixture.log(), 1, &References::default()).await.expect("it can be read");
    assert_eq!(fixture.log().list().await, Ok(vec![Slot(7), Slot(8)]), "slot 3 is empty");
    let outcome = old.log.publish(manifest("1-2", &[]), pending()).await;
    assert_eq!(outcome, PublishOutcome::Fenced { by: Slot(8) });

    let resumed = claimed(fixture.log()).await;
    assert_eq!(resumed.plan.start, StartPoint::Checkpoint(id("3-1")), "what landed late counts for nothing");
    assert!(matches!(fixture.log().manifest(id("1-2")).await, Err(LogError::NoSuchCheckpoint { .. })));
}

#[tokio::test]
async fn a_lost_answer_is_no_failure() {
    let faulty = Faulty::new();
    faulty.store.next(&[Fault::LoseAnswer]);
    let mut job = claimed(faulty.log.clone()).await;
    faulty.store.next(&[Fault::LoseAnswer]);
    assert_eq!(job.log.publish(manifest("1-1", &[]), pending()).await, PublishOutcome::Published(Slot(2)));
    faulty.store.next(&[Fault::LoseAnswer]);
    assert_eq!(job.log.finish(id("1-1")).await, FinishOutcome::Finished);
    assert_eq!(faulty.kinds().await, [(1, "claim"), (2, "checkpoint"), (3, "finished")]);
}

#[tokio::test]
async fn what_was_not_written_is_written_again_and_a_late_put_changes_nothing() {
    let faulty = Faulty::new();
    faulty.store.next(&[Fault::Hold, Fault::Full]);
    let mut job = claimed(faulty.log.clone()).await;
    faulty.store.next(&[Fault::Full, Fault::Hold, Fault::Hold]);
    assert_eq!(job.log.publish(manifest("1-1", &[]), pending()).await, PublishOutcome::Published(Slot(2)));
    let late = faulty.store.apply_held().await;
    assert_eq!(late.len(), 3);
    assert!(late.iter().all(|answer| matches!(answer, Err(object_store::Error::AlreadyExists { .. }))), "{late:?}");
    assert_eq!(faulty.kinds().await, [(1, "claim"), (2, "checkpoint")]);
}

#[tokio::test]
async fn an_abort_is_certain_once_its_tombstone_stands() {
    let faulty = Faulty::new();
    let mut job = claimed(faulty.log.clone()).await;
    faulty.store.next(&[Fault::Hold]);
    let notified = faulty.store.faulted.clone();
    let outcome = job.log.publish(manifest("1-1", &[]), async move { notified.notified().await }).await;
    assert_eq!(outcome, PublishOutcome::Aborted);
    assert!(faulty.store.apply_held().await.iter().all(Result::is_err), "the manifest comes too late");
    published(&mut job.log, manifest("1-2", &[])).await;
    assert_eq!(faulty.kinds().await, [(1, "claim"), (2, "tombstone"), (3, "checkpoint")]);
}

#[tokio::test]
async fn an_abort_that_finds_the_manifest_is_none() {
    let faulty = Faulty::new();
    let mut job = claimed(faulty.log.clone()).await;
    faulty.store.next(&[Fault::LoseAnswer]);
    let notified = faulty.store.faulted.clone();
    let outcome = job.log.publish(manifest("1-1", &[]), async move { notified.notified().await }).await;
    assert_eq!(outcome, PublishOutcome::Published(Slot(2)));
    assert_eq!(faulty.kinds().await, [(1, "claim"), (2, "checkpoint")]);
}

#[tokio::test]
async fn an_abort_before_anything_was_written_leaves_a_tombstone() {
    let faulty = Faulty::new();
    let mut job = claimed(faulty.log.clone()).await;
    assert_eq!(job.log.publish(manifest("1-1", &[]), async {}).await, PublishOutcome::Aborted);
    assert_eq!(faulty.kinds().await, [(1, "claim"), (2, "tombstone")]);
}

#[tokio::test]
async fn a_storage_that_stays_full_leaves_it_undecided_and_says_why() {
    let faulty = Faulty::new();
    let mut job = claimed(faulty.log.clone()).await;
    faulty.store.always(Fault::Full);
    let outcome = job.log.publish(manifest("1-1", &[]), pending()).await;
    let PublishOutcome::Undecided { reason } = &outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("No space left") && reason.contains("free some space") && reason.contains("here/log/"), "{reason}");
    assert_eq!(job.log.publish(manifest("1-2", &[]), pending()).await, outcome, "this generation is over");

    let Err(ClaimError::Storage(reason)) = claim(faulty.log.clone(), request(RESUME), NO_WAIT).await.map(|_| ()) else {
        panic!("nothing can be claimed")
    };
    assert!(reason.contains("No space left"), "{reason}");
    faulty.store.always(Fault::None);
    let resumed = claimed(faulty.log.clone()).await;
    assert_eq!(resumed.claim.generation, Generation(2));
    assert_eq!(resumed.plan.start, StartPoint::Scratch);
    assert_eq!(faulty.kinds().await, [(1, "claim"), (2, "claim")], "no part of anything is left");
}

/// Each round of a publish waits twice, before its create and before its read.
#[test]
fn a_storage_that_stays_full_is_an_error_after_ten_seconds() {
    let waits = (0..weir_protocol::bounds::LOG_TRIES).map(|tries| 2 * Backoff::default().delay(tries));
    let total: std::time::Duration = waits.sum();
    assert!((8..=12).contains(&total.as_secs()), "{total:?}");
}

#[tokio::test]
async fn the_completed_checkpoints_are_those_of_the_listing_that_the_claim_was_decided_on() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    published(&mut job.log, manifest("1-1", &[])).await;
    let resumed = claimed(fixture.log()).await;
    // The fenced publisher's next one lands late, as it does where retention has emptied a slot.
    let late = LogRecord::Checkpoint(Box::new(manifest("1-2", &[])));
    assert!(matches!(fixture.log().create(Slot(4), &late).await, crate::store::log::CreateOutcome::Created));
    assert_eq!(LogView::new(fixture.log().read_entries().await.expect("read")).checkpoint_ids(), [id("1-1"), id("1-2")]);
    let ids: Vec<_> = resumed.log.completed().await.into_iter().map(|(entry, _)| entry.id).collect();
    assert_eq!(ids, [id("1-1")]);
}

#[tokio::test]
async fn of_many_claimants_each_gets_a_generation_of_its_own() {
    let fixture = Fixture::new();
    let starts = (0..6).map(|_| tokio::spawn(claimed(fixture.log())));
    let mut generations = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        generations.push(start.await.expect("each can claim").claim.generation);
    }
    generations.sort();
    generations.dedup();
    assert_eq!(generations.len(), 6, "C5");
}

#[tokio::test]
async fn another_jobs_storage_is_refused_before_anything_is_written() {
    let fixture = Fixture::new();
    claimed(LogStore::new(fixture.store.clone(), "weather")).await;
    let refused = claim(fixture.log(), request(RESUME), NO_WAIT).await.map(|_| ());
    let Err(ClaimError::Refused(Refusal::ForeignLog { job, .. })) = refused else { panic!("{refused:?}") };
    assert_eq!(job, "weather");
    assert_eq!(fixture.names_in("log").len(), 1);
}

#[tokio::test]
async fn a_damaged_newest_checkpoint_stops_a_resume_and_names_the_way_out() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    published(&mut job.log, manifest("1-1", &[])).await;
    published(&mut job.log, manifest("1-2", &[])).await;
    flip_a_bit(&fixture.folder.path().join(format!("checkpoints/log/{}.json", Slot(3))));
    let refused = claim(fixture.log(), request(RESUME), NO_WAIT).await.map(|_| ());
    let Err(ClaimError::Refused(Refusal::NewestUnreadable { slot, available, .. })) = refused else { panic!("{refused:?}") };
    assert_eq!((slot, available), (Slot(3), vec![id("1-1")]));

    let from = Ask { start: Start::From(id("1-1")), allow_duplicates: true, ..RESUME };
    let Ok(Claiming::Claimed(resumed)) = claim(fixture.log(), request(from), NO_WAIT).await else { panic!("it may go on") };
    assert_eq!(resumed.plan.start, StartPoint::Checkpoint(id("1-1")));
}

#[tokio::test]
async fn a_start_that_would_repeat_output_is_refused_by_name() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    published(&mut job.log, manifest("1-1", &[])).await;
    let fresh = Ask { start: Start::Scratch, ..RESUME };
    let refused = claim(fixture.log(), request(fresh), NO_WAIT).await.map(|_| ());
    let Err(ClaimError::Refused(Refusal::WouldRepeat { after, .. })) = refused else { panic!("{refused:?}") };
    assert_eq!(after, [id("1-1")]);
}

#[tokio::test]
#[should_panic(expected = "C7")]
async fn nobody_publishes_for_another_generation() {
    let fixture = Fixture::new();
    let mut job = claimed(fixture.log()).await;
    let _ = job.log.publish(manifest("2-1", &[]), pending()).await;
}
