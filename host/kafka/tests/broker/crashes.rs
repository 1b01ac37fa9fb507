//! A broker that dies between prepare and commit, and one that is away while it is asked.

use crate::setup::{Broker, PATIENCE, soon};
use std::time::{Duration, Instant};
use weir_kafka::{End, EndOutcome, TransactionState};

#[test]
fn a_prepared_transaction_outlives_a_killed_broker() {
    let broker = Broker::start(&[]);
    let mut writer = broker.writer();
    writer.topic("crash", 1);
    let handles = ["kept", "again", "dropped"].map(|id| writer.prepare(id, "crash", 600_000, &[id]));
    let mut admin = broker.admin();
    // Decided before the crash; asked again after it.
    assert_eq!(admin.end(&handles[1], End::Commit, soon()), EndOutcome::Committed);
    broker.down("KILL");

    // Nobody is there: nothing was done, and nobody says more.
    let outcome = admin.end(&handles[0], End::Commit, Instant::now() + Duration::from_millis(500));
    assert!(matches!(outcome, EndOutcome::Retryable(_) | EndOutcome::Unknown(_)), "{outcome:?}");
    let outcome = broker.admin().end(&handles[0], End::Commit, Instant::now() + Duration::from_millis(500));
    assert!(matches!(outcome, EndOutcome::Retryable(_)), "{outcome:?}");
    assert!(admin.list("", Instant::now() + Duration::from_millis(300)).expect_err("nobody answers").is_transient());

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
