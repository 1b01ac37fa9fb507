//! Random jobs, sound and faulty.

use super::random_world::World;
use crate::mutant::Mutant;
use crate::testkit::seeded;
use std::collections::BTreeSet;
use std::panic::catch_unwind;

/// Everything that a job can come to, but for what takes 2³² checkpoints or a snapshot of 2¹⁶ files.
const EVERYTHING: [&str; 27] = [
    "Commit",
    "Fenced",
    "Finished",
    "InjectBarrier",
    "NotifyComplete",
    "PublishManifest",
    "PutTombstone",
    "ReleaseFiles",
    "Subsume",
    "Suspended",
    "abort Declined",
    "abort Expired",
    "abort FailOver",
    "abort FileGone",
    "abort Subsumed",
    "abort Timeout",
    "abort Tombstone",
    "ack Accepted",
    "ack Duplicate",
    "ack Late",
    "ack StaleGeneration",
    "ack Unknown",
    "fail over Expired",
    "fail over PublishUnknown",
    "fail over SwapAborted",
    "fail over TaskFailed",
    "fail over TooManyAborts",
];

#[test]
fn random_jobs_keep_the_invariants_and_leave_nothing_out() {
    let mut seen = BTreeSet::new();
    for seed in 0..3_000 {
        seen.append(&mut seeded(seed, || World::new(seed, None).run()));
    }
    let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!(seen, EVERYTHING);
}

#[test]
fn random_jobs_catch_every_mutant_of_the_coordinator() {
    let mutants = [
        Mutant::UnknownPublishIsAbort,
        Mutant::OwedSkipsEnded,
        Mutant::PermitByIds,
        Mutant::AbortTransactionWithCheckpoint,
        Mutant::SwapSurvivesAbort,
    ];
    for mutant in mutants {
        let caught = (0..3_000).any(|seed| catch_unwind(|| World::new(seed, Some(mutant)).run()).is_err());
        assert!(caught, "{mutant:?} survives");
    }
}
