//! A broker that dies between prepare and commit, one that is away while it is asked, and coordinators that move.

use crate::setup::{Broker, PATIENCE, soon};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_kafka::{End, EndOutcome, TransactionHandle, TransactionState};

/// These start brokers of their own: one test at a time, for the memory's sake.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed leaves nothing behind that the next would mind.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shortly() -> Instant {
    Instant::now() + Duration::from_millis(500)
}

#[test]
fn a_prepared_transaction_outlives_a_killed_broker() {
    let _alone = alone();
    let broker = Broker::start(&[]);
    let mut writer = broker.writer();
    writer.topic("crash", 1);
    let handles = ["kept", "again", "dropped"].map(|id| writer.prepare(id, "crash", 600_000, &[id]));
    let mut admin = broker.admin();
    // Decided before the crash; asked again after it.
    assert_eq!(admin.end(&handles[1], End::Commit, soon()), EndOutcome::Committed);
    broker.down("KILL");

    // Nobody is there: nothing was done, and nobody says more.
    let outcome = admin.end(&handles[0], End::Commit, shortly());
    assert!(matches!(outcome, EndOutcome::Retryable(_) | EndOutcome::Unknown(_)), "{outcome:?}");
    let outcome = broker.admin().end(&handles[0], End::Commit, shortly());
    assert!(matches!(outcome, EndOutcome::Retryable(_)), "{outcome:?}");
    assert!(admin.list("", shortly()).expect_err("nobody answers").is_transient());

    // Asked while the broker comes back.
    let outcomes = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let deadline = Instant::now() + PATIENCE * 2;
            [(0, End::Commit), (1, End::Commit), (2, End::Abort)].map(|(i, end)| admin.end(&handles[i], end, deadline))
        });
        broker.up();
        waiting.join().expect("no panic")
    });
    assert_eq!(outcomes, [EndOutcome::Committed, EndOutcome::Committed, EndOutcome::Aborted]);
    let mut reader = broker.writer();
    reader.expect("crash", &["kept", "again"]);

    // The same admin goes on after an orderly stop, over connections that are gone.
    broker.down("TERM");
    broker.up();
    let listing = admin.list("", Instant::now() + PATIENCE).expect("the broker runs");
    assert_eq!(listing.transactions.len(), 3);
    assert_eq!(listing.transactions[1].state, TransactionState::CompleteAbort);
    assert_eq!(admin.end(&handles[0], End::Commit, soon()), EndOutcome::Committed);
}

#[test]
fn coordinators_that_move_are_followed() {
    let _alone = alone();
    let replicated = ["transaction.state.log.replication.factor=2"];
    let first = Broker::start(&replicated);
    let second = first.join(2, &replicated);
    let mut writer = first.writer();
    writer.topic("moves", 1);
    // Three transactions at each coordinator.
    let (mut here, mut there): (Vec<TransactionHandle>, Vec<TransactionHandle>) = (Vec::new(), Vec::new());
    for i in 0..100 {
        let id = format!("move-{i}");
        let handle = writer.init(&id, 600_000);
        let side = if writer.is_coordinated_elsewhere() { &mut there } else { &mut here };
        if side.len() < 3 {
            assert_eq!(writer.try_write(&handle, "moves", 0, &[&id]), (0, 0));
            side.push(handle);
        }
        if here.len() == 3 && there.len() == 3 {
            break;
        }
    }
    let ids: Vec<&str> = here.iter().chain(&there).map(|handle| handle.transactional_id.as_str()).collect();
    assert_eq!(ids.len(), 6, "a hundred ids are shared out among two coordinators");

    // One call asks both.
    let mut admin = first.admin();
    let open = |listing: weir_kafka::Listing| -> BTreeSet<String> {
        let open = listing.transactions.into_iter().filter(|listed| listed.state == TransactionState::Ongoing);
        open.map(|listed| listed.transactional_id).collect()
    };
    let listing = admin.list("move-", soon()).expect("both run");
    assert_eq!(listing.unchecked, None);
    assert_eq!(open(listing), ids.iter().map(ToString::to_string).collect());
    assert_eq!(admin.describe(&ids, soon()).expect("both run").len(), 6);
    assert_eq!(admin.describe_broker_config("transaction.max.timeout.ms", soon()).expect("both run").len(), 2);
    for handle in [&here[0], &there[0]] {
        assert_eq!(admin.end(handle, End::Commit, soon()), EndOutcome::Committed);
    }

    // One dies: at first nobody can speak for its ids, and nothing is made up. Then the other takes them over.
    second.down("KILL");
    let outcome = admin.end(&there[1], End::Commit, shortly());
    assert!(matches!(outcome, EndOutcome::Retryable(_) | EndOutcome::Unknown(_)), "{outcome:?}");
    assert!(admin.list("move-", shortly()).is_err(), "half of the ids can't be seen");
    assert_eq!(admin.end(&there[1], End::Commit, Instant::now() + PATIENCE), EndOutcome::Committed);
    assert_eq!(admin.end(&there[0], End::Commit, soon()), EndOutcome::Committed, "it was before");
    assert_eq!(admin.end(&here[1], End::Commit, soon()), EndOutcome::Committed);
    assert_eq!(open(admin.list("move-", Instant::now() + PATIENCE).expect("the other has them all")).len(), 2);

    // It comes back and the other leaves in order, while the client has connections to both and knows coordinators.
    second.up();
    let both = || {
        let mut fresh = second.admin();
        fresh.describe_broker_config("node.id", soon()).is_ok_and(|brokers| brokers.len() == 2)
    };
    crate::writer::until("both run again", both);
    assert_eq!(open(admin.list("move-", soon()).expect("both run")).len(), 2);
    second.down("TERM");
    assert_eq!(admin.end(&there[2], End::Abort, soon()), EndOutcome::Aborted);
    assert_eq!(admin.end(&here[2], End::Commit, soon()), EndOutcome::Committed);
    let committed: Vec<&str> = writer_order(&here, &there);
    writer.expect("moves", &committed);
}

/// Ids in the order in which they were written, without the one that was aborted.
fn writer_order<'a>(here: &'a [TransactionHandle], there: &'a [TransactionHandle]) -> Vec<&'a str> {
    let mut ids: Vec<&str> = here.iter().chain(&there[..2]).map(|handle| handle.transactional_id.as_str()).collect();
    ids.sort_by_key(|id| id.trim_start_matches("move-").parse::<u32>().unwrap_or(0));
    ids
}
