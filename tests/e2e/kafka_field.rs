//! Faults that users of other engines have met with Kafka; each test has the name of what must not happen.

use crate::kafka::ids;
use crate::outside::names;
use serde_json::Value;
use std::time::{Duration, Instant};
use weir_tests::kafka::{Broker, OrdersCase, SLOW, broker};
use weir_tests::soak;

/// In sections of the job file, after its interval.
fn checkpoint(lines: &str) -> String {
    format!("interval = \"100ms\"\n{lines}")
}

/// A job that is stopped as a whole in the middle of a commit (a long garbage collection, a suspended machine) commits late, and
/// once.
#[test]
fn a_stall_between_decision_and_commit_loses_nothing() {
    let stall = if soak() { 60 } else { 4 };
    let case = OrdersCase::new(broker(), "stalled", SLOW);
    case.fill(0..60_000);
    let mut running = case.start(&[], &[("WEIR_STOP_AT", "manifest-published:2")]);
    running.wait_until_stopped();
    assert!(running.wait_for(Duration::from_secs(stall)).is_none());
    running.signal(rustix::process::Signal::CONT);
    running.finish().expect_code(0);
    case.judge().unwrap();
}

/// Transactions may live six seconds longer than a restart needs. Whoever is held back for eight must not publish what might be
/// aborted before it is committed.
#[test]
fn a_publish_that_was_held_back_past_its_validity_is_no_loss() {
    for point in ["all-acked:2", "manifest-partial:2", "sink-prepared:2"] {
        let name = format!("late-{}", &point[..3]);
        let short = checkpoint("timeout = \"5s\"");
        let timeout = ("topic = \"${OUT:-balances}\"", "topic = \"${OUT:-balances}\"\ntransaction_timeout = \"336s\"");
        let case = OrdersCase::new(broker(), &name, &[(SLOW[0].0, &short), SLOW[1], timeout]);
        case.fill(0..60_000);
        let mut running = case.start(&[], &[("WEIR_STOP_AT", point)]);
        running.wait_until_stopped();
        assert!(running.wait_for(Duration::from_secs(8)).is_none());
        running.signal(rustix::process::Signal::CONT);
        running.finish().expect_code(0);
        case.judge().unwrap();
    }
}

/// Without records there are no transactions; and no checkpoint may take the last one with them for committed.
#[test]
fn an_idle_topic_over_many_checkpoints_and_then_a_crash() {
    let case = OrdersCase::new(broker(), "idle", &[SLOW[0], ("until = \"${UNTIL:-never}\"", "")]);
    case.fill(0..500);
    let output = case.output();
    let mut running = case.start(&[], &[]);
    running.wait_until("the orders are booked", || broker().read(&output).len() == 500);
    // Several intervals.
    assert!(running.wait_for(Duration::from_secs(2)).is_none());
    assert!(running.kill_after(Duration::ZERO).was_killed());
    case.fill(500..600);
    let mut running = case.start(&[], &[]);
    running.wait_until("the new ones, too", || broker().read(&output).len() == 600);
    running.signal(rustix::process::Signal::TERM);
    running.finish().expect_code(0);
    case.judge().unwrap();
}

/// The brokers keep each name for a week.
#[test]
fn many_checkpoints_use_a_handful_of_names() {
    let checkpoints = if soak() { 2_000 } else { 60 };
    let fast = [
        ("parallelism = 2", "parallelism = 1"),
        ("interval = \"500ms\"", "interval = \"50ms\""),
        ("topic = \"${IN:-orders}\"", "topic = \"${IN:-orders}\"\nrate = 2000"),
        ("until = \"${UNTIL:-never}\"", ""),
    ];
    let case = OrdersCase::new(broker(), "names", &fast);
    // Enough for the whole time.
    case.fill(0..checkpoints * 200);
    let mut running = case.start(&[], &[]);
    let newest = || -> u64 {
        let listed = case.weir(&["checkpoint", "list", "job.toml", "--data", "data", "--json"]);
        let document: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let ids = document["checkpoints"].as_array().into_iter().flatten().filter_map(|row| row["id"].as_str());
        ids.filter_map(|id| id.rsplit_once('-')?.1.parse().ok()).max().unwrap_or(0)
    };
    running.allow(Duration::from_secs(600));
    running.wait_until("enough checkpoints are complete", || newest() >= checkpoints);
    running.signal(rustix::process::Signal::TERM);
    running.finish().expect_code(0);
    let listed = case.weir(&["txn", "list", "job.toml", "--data", "data", "--json"]).expect_code(0);
    let document: Value = serde_json::from_str(&listed.stdout).unwrap();
    let names = document["sinks"][0]["idle"].as_u64().unwrap();
    // One is written, one is ready, one is being committed; on a busy machine more wait for their commits.
    assert!((2..=12).contains(&names), "{names} names after {checkpoints} checkpoints of one writer: {listed:?}");
    case.judge_prefix().unwrap();
}

/// What is committed stays so; going back writes it again, which has to be asked for.
#[test]
fn an_older_checkpoint_is_restored_only_with_the_duplicates_that_it_means() {
    let keep = checkpoint("retain = 5");
    let case = OrdersCase::new(broker(), "older", &[(SLOW[0].0, &keep), SLOW[1]]);
    case.fill(0..60_000);
    assert!(case.start(&[], &[("WEIR_CRASH_AT", "committed:5")]).finish().was_killed());
    let listed = case.weir(&["checkpoint", "list", "job.toml", "--data", "data", "--json"]).expect_code(0);
    let document: Value = serde_json::from_str(&listed.stdout).unwrap();
    let oldest = document["checkpoints"][0]["id"].as_str().expect("some are kept").to_owned();
    case.start(&["--from", &oldest], &[]).finish().expect_code(2).expect_text(&["--allow-duplicates"]);
    case.start(&["--from", &oldest, "--allow-duplicates"], &[]).finish().expect_code(0);
    let (input, output) = (broker().read(&case.input()), broker().read(&case.output()));
    assert_eq!(ids(&output), ids(&input), "nothing is lost");
    let mut balances = output.iter().map(|(_, key, value)| (key, value)).collect::<Vec<_>>();
    let all = balances.len();
    balances.sort();
    balances.dedup();
    assert_eq!(balances.len(), input.len(), "what is written again is the same");
    assert!(all > input.len(), "going back writes some again");
}

/// Each life leaves transactions open. What the ones before have left is listed, not guessed, so that no restart takes longer for it.
#[test]
fn a_restart_takes_no_longer_for_all_those_before_it() {
    let lives = if soak() { 48 } else { 12 };
    let case = OrdersCase::new(broker(), "restarts", SLOW);
    case.fill(0..lives * 5_000);
    let mut lengths = Vec::new();
    for _ in 0..lives {
        let begun = Instant::now();
        let killed = case.start(&[], &[("WEIR_CRASH_AT", "manifest-published")]).finish();
        assert!(killed.was_killed(), "the input is too short: {killed:?}");
        lengths.push(begun.elapsed());
    }
    case.start(&[], &[]).finish().expect_code(0);
    case.judge().unwrap();
    let median = |lengths: &mut [Duration]| {
        lengths.sort();
        lengths[lengths.len() / 2]
    };
    let half = lengths.len() / 2;
    let (first, last) = lengths.split_at_mut(half);
    let (first, last) = (median(first), median(last));
    assert!(last < 2 * first, "lives grow from {first:?} to {last:?}");
}

/// A transaction that takes longer than its timeout is aborted under its writer. What was in it is written again, from the newest
/// checkpoint, and not for ever.
#[test]
fn a_transaction_that_is_aborted_while_it_is_written_is_written_again() {
    let case = OrdersCase::new(broker(), "aborted", &[SLOW[1]]);
    case.fill(0..60_000);
    // Most of an interval before the next barrier.
    let mut running = case.start(&[], &[("WEIR_STOP_AT", "committed:3")]);
    running.wait_until_stopped();
    // The broker does the same to one that is too old: it fences the producer.
    let listed = case.weir(&["txn", "list", "job.toml", "--data", "data", "--json"]).expect_code(0);
    let open = names(&listed, "in-none");
    assert!(!open.is_empty(), "{listed:?}");
    open.iter().for_each(|id| broker().take_id(id));
    running.signal(rustix::process::Signal::CONT);
    running.finish().expect_code(0).expect_text(&["restart"]);
    case.judge().unwrap();
}

/// A job that was taken over while it stood still finds out, and what it had in hand is nowhere.
#[test]
fn a_zombie_with_an_open_transaction_writes_nothing() {
    let storage = tempfile::tempdir().unwrap();
    let shared = checkpoint(&format!("storage = \"{}\"", storage.path().display()));
    let case = OrdersCase::new(broker(), "zombie", &[(SLOW[0].0, &shared), SLOW[1]]);
    case.fill(0..60_000);
    let mut zombie = case.start(&[], &[("WEIR_STOP_AT", "sink-prepared:3")]);
    zombie.wait_until_stopped();
    // From another machine: another data folder, the same storage.
    let taking = ["run", "job.toml", "--data", "elsewhere"];
    case.weir(&taking).expect_code(0);
    case.judge().unwrap();
    zombie.signal(rustix::process::Signal::CONT);
    zombie.finish().expect_code(5);
    case.judge().unwrap();
}

/// A broker that stands still is no failure: the user hears of it, and the job goes on with it.
#[test]
fn a_broker_that_stands_still_is_waited_for_and_told() {
    let own = Broker::start();
    let case = OrdersCase::new(&own, "still", SLOW);
    case.fill(0..120_000);
    let mut running = case.start(&[], &[]);
    let log = case.scratch.path("data/checkpoints/log");
    running.wait_until("some checkpoints are complete", || std::fs::read_dir(&log).is_ok_and(|entries| entries.count() > 4));
    own.signal(rustix::process::Signal::STOP);
    let ended = running.wait_for(Duration::from_secs(9));
    own.signal(rustix::process::Signal::CONT);
    assert!(ended.is_none(), "it does not end by itself");
    running.finish().expect_code(0).expect_text(&["sink balances: the brokers ", "the brokers go on, after"]);
    case.judge().unwrap();
}

#[test]
fn two_sinks_or_jobs_with_one_prefix_are_refused_before_they_start() {
    let case = OrdersCase::new(broker(), "prefix", &[]);
    let text = std::fs::read_to_string(case.scratch.path("job.toml")).unwrap();
    let prefix = "transaction_prefix = \"mine\"\n";
    let sink =
        "[[sink]]\nname = \"again\"\nconnector = \"kafka\"\nbrokers = \"${BROKERS}\"\nfrom = \"orders\"\ntopic = \"${OUT}\"\n";
    let with = |first: &str, second: &str| {
        text.replace("topic = \"${OUT:-balances}\"\n", &format!("topic = \"${{OUT:-balances}}\"\n{first}{sink}{second}"))
    };
    case.scratch.write("two.toml", with("", ""));
    case.weir(&["check", "two.toml"]).expect_code(0);
    case.scratch.write("clash.toml", with(prefix, prefix));
    case.weir(&["check", "clash.toml"]).expect_code(2).expect_text(&["mine"]);
    // Two jobs.
    case.fill(0..100);
    case.write_job("one.toml", &[("topic = \"${OUT:-balances}\"", &format!("topic = \"${{OUT:-balances}}\"\n{prefix}"))]);
    case.weir(&["run", "one.toml", "--data", "one"]).expect_code(0);
    let other = std::fs::read_to_string(case.scratch.path("one.toml")).unwrap().replace("name = \"prefix\"", "name = \"other\"");
    case.scratch.write("other.toml", other);
    case.weir(&["run", "other.toml", "--data", "other"]).expect_code(2).expect_text(&["transaction_prefix", "--take-over"]);
    case.judge().unwrap();
}

/// A broker with the limit of an hour by default (Flink's) would be refused at run time by most clusters; ours is told before.
#[test]
fn a_cluster_that_allows_too_short_transactions_is_explained() {
    let own = Broker::start_with(None, &["transaction.max.timeout.ms=60000"]);
    let case = OrdersCase::new(&own, "short", &[]);
    case.fill(0..10);
    let told = [
        "must be able to live 7m 30s",
        "the brokers allow 60s (transaction.max.timeout.ms)",
        "raise their limit",
        "[restart].max_delay",
    ];
    case.weir(&["check", "job.toml", "--data", "data"]).expect_code(2).expect_text(&told);
    case.start(&[], &[]).finish().expect_code(2).expect_text(&told);
}

/// Both clients, librdkafka and our own, with the same settings.
#[test]
fn orders_go_over_tls_with_a_password_that_nobody_prints() {
    let own = Broker::start_with(Some(("KAFKA_SASL", "1")), &[]);
    for (mechanism, user, password) in [("PLAIN", "plain-user", "plain-secret"), ("SCRAM-SHA-512", "scram-user", "scram-secret")]
    {
        let name = format!("secure-{}", &user[..5]);
        let security = format!(
            "brokers = \"${{BROKERS}}\"\ntls = {{ ca = \"{}\" }}\nsasl = {{ mechanism = \"{mechanism}\", username = \"{user}\", \
             password = \"${{KAFKA_PASSWORD}}\" }}",
            own.security("ca.pem")
        );
        let case = OrdersCase::new(&own, &name, &[SLOW[0], SLOW[1], ("brokers = \"${BROKERS}\"", &security)]);
        case.fill(0..40_000);
        let secure = own.address_of(2);
        let (brokers, password) = (("BROKERS", secure.as_str()), ("KAFKA_PASSWORD", password));
        assert!(case.start(&[], &[brokers, password, ("WEIR_CRASH_AT", "manifest-published:2")]).finish().was_killed());
        let done = case.start(&["-vv"], &[brokers, password]).finish().expect_code(0);
        assert!(!done.stderr.contains(password.1) && !done.stdout.contains(password.1), "the password is printed");
        case.judge().unwrap();
        let wrong = case.start(&["--fresh", "--allow-duplicates"], &[brokers, ("KAFKA_PASSWORD", "guessed-wrong")]).finish();
        let wrong = wrong.expect_code(2).expect_text(&["sasl"]);
        assert!(!wrong.stderr.contains("guessed-wrong"), "{wrong:?}");
    }
}
