//! What `weir check` is told of a cluster: topics, rights, timeouts, and what voids the promise.

use super::super::{ConnectorError, Outlook, SinkConnector};
use super::client::{self, ASK_TIMEOUT};
use super::committable::SlotId;
use super::sink::KafkaSinkConnector;
use super::source::KafkaSourceConnector;
use crate::clock;
use crate::graph::Problem;
use crate::graph::units::{counted, show_minutes};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_kafka::{End, EndOutcome, KafkaError, TopicFacts, TransactionHandle, TransactionState};

/// Partitions whose offsets are asked for: each takes a request.
const COUNTED_PARTITIONS: usize = 64;
/// Names that expire sooner than this are told of: a weekend.
const SHORT_EXPIRATION: Duration = Duration::from_secs(3 * 24 * 3600);

/// Of a sink. `is_first_start`: this data folder has not been used.
pub(super) fn of_sink(sink: &KafkaSinkConnector, is_first_start: bool) -> Outlook {
    let mut out = Outlook::default();
    if let Err(error) = look_at_sink(sink, is_first_start, &mut out) {
        out.problems.push(error.at(&sink.settings().place));
    }
    out
}

fn look_at_sink(sink: &KafkaSinkConnector, is_first_start: bool, out: &mut Outlook) -> Result<(), ConnectorError> {
    let settings = sink.settings();
    let (spec, place) = (&settings.spec, &settings.place);
    if let Some(facts) = sink.topic()? {
        topic(&facts, out);
        if facts.rights.is_some_and(|rights| !rights.write) {
            let what = format!("this user may not write topic {}", facts.name);
            out.problems.push(Problem::new(place.as_str(), what, "grant it WRITE on the topic"));
        }
    }
    if let Some(header) = &spec.topic_header {
        out.facts.push(format!(
            "header '{header}' of a record names its topic: those topics, and the right to write them, are not checked"
        ));
    }
    if !sink.is_transactional() {
        out.warnings.push("at-least-once: after a failure some records come twice".to_owned());
        return Ok(());
    }
    transactions(sink, is_first_start, out)?;
    timeouts(sink, out)?;
    broker_settings(sink, out)
}

/// What of a topic bears on the promise.
fn topic(facts: &TopicFacts, out: &mut Outlook) {
    let TopicFacts { name, partitions, replication_factor, min_insync_replicas, rights: _ } = facts;
    let least = min_insync_replicas.map_or("unknown".to_owned(), |least| least.to_string());
    let (partitions, replicas) =
        (counted(*partitions as u64, "partition", "partitions"), counted(*replication_factor as u64, "replica", "replicas"));
    out.facts.push(format!("topic {name}: {partitions}, {replicas}, min.insync.replicas {least}"));
    let least = min_insync_replicas.map_or(1, |least| least as usize);
    if *replication_factor < 2 {
        out.warnings.push(format!("topic {name} has one replica: committed output is lost with that broker's disk"));
    } else if least < 2 {
        let why = "a broker that is alone may acknowledge records that are lost with it";
        out.warnings.push(format!("topic {name} has min.insync.replicas 1: {why}; set 2"));
    } else if least >= *replication_factor {
        out.warnings.push(format!("topic {name} can't be written while one broker is down: min.insync.replicas is {least}"));
    }
}

/// Names, whose they are, and the right to end them.
fn transactions(sink: &KafkaSinkConnector, is_first_start: bool, out: &mut Outlook) -> Result<(), ConnectorError> {
    let settings = sink.settings();
    let prefix = &settings.spec.prefix;
    let beginning = format!("{prefix}-");
    let listing = settings.admin()?.list(&beginning, clock::monotonic() + ASK_TIMEOUT);
    let listing = listing.map_err(|error| settings.failed(&error))?;
    let (own, foreign): (Vec<_>, Vec<_>) =
        listing.transactions.iter().partition(|one| SlotId::parse(&one.transactional_id, prefix).is_some());
    let open = own.iter().filter(|one| one.state == TransactionState::Ongoing).count();
    let names = counted(own.len() as u64, "name", "names");
    out.facts.push(format!("transactions {beginning}…: {names} known to the brokers, {open} open"));
    if let Some(one) = foreign.first() {
        let (count, name) = (foreign.len(), &one.transactional_id);
        out.warnings.push(format!(
            "{count} names begin with {beginning} and are not this sink's ({name}): if that is another job, give one of them \
             another transaction_prefix"
        ));
    }
    if let Some(unchecked) = listing.unchecked {
        out.warnings.push(format!("it can't be made sure that all of them were listed: {unchecked}"));
    }
    if is_first_start && !own.is_empty() {
        out.problems.push(Problem::new(
            settings.place.as_str(),
            format!("this job has never run with this data folder, but the brokers know transactions of {prefix}"),
            "give this sink a transaction_prefix of its own; or 'weir run --take-over', if no other checkout of this job is left",
        ));
    }
    // No attempt has number 0: there is nothing to end. Whether it were allowed is looked at first.
    let never = TransactionHandle { transactional_id: format!("{prefix}-0-0-0"), producer_id: 0, epoch: 0 };
    let asked = settings.admin()?.end(&never, End::Abort, clock::monotonic() + ASK_TIMEOUT);
    if let EndOutcome::Refused(error @ KafkaError::NotAuthorized { .. }) = asked {
        let next = format!("grant WRITE and DESCRIBE on TransactionalIds that begin with {beginning} (PREFIXED)");
        out.problems.push(Problem::new(settings.place.as_str(), error.to_string(), next));
    }
    out.facts.push(format!(
        "who reads {} must set isolation.level = read_committed, which Kafka's clients do not by themselves",
        settings.spec.topic.as_deref().unwrap_or("a topic that is written")
    ));
    Ok(())
}

/// How long a transaction may live, must live, and what happens after that.
fn timeouts(sink: &KafkaSinkConnector, out: &mut Outlook) -> Result<(), ConnectorError> {
    let spec = &sink.settings().spec;
    let needs = &spec.needs;
    let timeout = sink.timeout()?;
    let from = match spec.transaction_timeout {
        Some(_) => "transaction_timeout",
        None => "derived: the brokers' limit (transaction.max.timeout.ms) up to 15m, if the job needs no more",
    };
    let margin = crate::graph::TransactionNeeds::MARGIN;
    out.facts.push(format!("a transaction may be open for {} ({from})", show_minutes(timeout)));
    out.facts.push(format!(
        "it has to outlive interval {} + checkpoint timeout {} + restart {} + margin {} = {}",
        show_minutes(needs.interval),
        show_minutes(needs.checkpoint_timeout),
        show_minutes(needs.restart()),
        show_minutes(margin),
        show_minutes(needs.lifetime())
    ));
    out.facts.push(format!(
        "the usual formula, interval × (concurrent checkpoints + 1) + tolerable restart, gives {}: it leaves out a checkpoint that \
         takes its whole timeout",
        show_minutes(needs.interval * 2 + needs.restart())
    ));
    let left = timeout.saturating_sub(needs.interval + needs.checkpoint_timeout + margin);
    out.facts.push(format!(
        "worst case: a job that dies between a checkpoint and its commit must run again within {}; later the brokers have aborted \
         what was decided (exit 3, with the source ranges). For longer: raise transaction.max.timeout.ms and transaction_timeout",
        show_minutes(left)
    ));
    Ok(())
}

fn broker_settings(sink: &KafkaSinkConnector, out: &mut Outlook) -> Result<(), ConnectorError> {
    let settings = sink.settings();
    let mut smallest = |name: &str| -> Result<Option<u64>, ConnectorError> {
        match settings.admin()?.describe_broker_config(name, clock::monotonic() + ASK_TIMEOUT) {
            Ok(answers) => Ok(answers.iter().filter_map(|one| one.value.as_ref()?.parse().ok()).min()),
            Err(error @ KafkaError::NotAuthorized { .. }) => {
                let told = format!("some of the brokers' settings can't be asked for: {error}");
                if !out.warnings.contains(&told) {
                    out.warnings.push(told);
                }
                Ok(None)
            }
            Err(error) => Err(settings.failed(&error)),
        }
    };
    let replicas = smallest("transaction.state.log.replication.factor")?;
    let least = smallest("transaction.state.log.min.isr")?;
    let expiration = smallest("transactional.id.expiration.ms")?.map(Duration::from_millis);
    if replicas.is_some_and(|replicas| replicas < 2) {
        let why = "a commit that was decided is forgotten with that broker's disk";
        out.warnings.push(format!("the brokers keep one copy of what they know of transactions: {why}"));
    } else if least.is_some_and(|least| least < 2) {
        let why = "a commit that was answered may be forgotten with one broker";
        out.warnings.push(format!("transaction.state.log.min.isr is 1: {why}; set 2"));
    }
    if let Some(expiration) = expiration.filter(|expiration| *expiration < SHORT_EXPIRATION) {
        out.warnings.push(format!(
            "the brokers forget an idle name after {} (transactional.id.expiration.ms): a job that is down for longer can't tell \
             what became of its last transactions",
            show_minutes(expiration)
        ));
    }
    Ok(())
}

/// Of a source.
pub(super) fn of_source(source: &KafkaSourceConnector) -> Outlook {
    let mut out = Outlook::default();
    if let Err(error) = look_at_source(source, &mut out) {
        out.problems.push(error.at(source.place()));
    }
    out
}

fn look_at_source(source: &KafkaSourceConnector, out: &mut Outlook) -> Result<(), ConnectorError> {
    let (cluster, spec, place) = (source.cluster()?, source.spec(), source.place());
    let partitions = cluster.partitions()?;
    let mut topics: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    let has_counts = partitions.len() <= COUNTED_PARTITIONS;
    for partition in &partitions {
        let (low, high) = if has_counts { cluster.bounds(partition)? } else { (0, 0) };
        let of_topic = topics.entry(&partition.topic).or_default();
        *of_topic = (of_topic.0 + 1, of_topic.1 + (high - low));
    }
    for (topic, (partitions, offsets)) in &topics {
        let partitions = counted(*partitions as u64, "partition", "partitions");
        let stored = if has_counts { format!(", {offsets} offsets stored") } else { String::new() };
        out.facts.push(format!("topic {topic}: {partitions}{stored}"));
    }
    // Before a first start it has been refused by now.
    if let Some(why) = cluster.unknown_start(&partitions) {
        out.warnings.push(format!("{why}. It is refused where this source begins anew: at its first start and with --fresh"));
    }
    if spec.read_uncommitted {
        out.warnings.push("isolation = \"read_uncommitted\": records of aborted transactions are read, too".to_owned());
    }
    let names: Vec<&str> = topics.keys().copied().collect();
    let mut admin =
        client::admin(&spec.cluster, "weir-check").map_err(|why| ConnectorError::permanent(format!("{place}: {why}")))?;
    match admin.topics(&names, clock::monotonic() + ASK_TIMEOUT) {
        Ok(found) => {
            for facts in found.iter().flatten().filter(|facts| facts.rights.is_some_and(|rights| !rights.read)) {
                let what = format!("this user may not read topic {}", facts.name);
                out.problems.push(Problem::new(place, what, "grant it READ on the topic"));
            }
        }
        // It needs none of what is asked here to read.
        Err(error) => out.warnings.push(format!("what this user may do can't be asked for: {error}")),
    }
    Ok(())
}
