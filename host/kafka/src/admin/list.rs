//! ListTransactions over all brokers: which ids with a beginning exist.
//!
//! Each broker knows the ids that it coordinates, and nobody knows all. So that none is missed:
//! 1. Ask who leads each partition of the coordinators' topic: a partition without a leader hides its ids.
//! 2. Describe an id that nobody has of each partition: a broker that has just started leads partitions for a while before it is
//!    their coordinator, and lists nothing then, without an error.
//! 3. Ask every broker of the cluster. One that is loading, or that can't be asked, is a setback and not a gap.
//! 4. Ask again who leads: ids that moved from a broker not asked yet to one asked already were seen by neither.

use super::TransactionAdmin;
use super::reads::Broker;
use crate::attempts::Attempts;
use crate::code;
use crate::describe::TransactionState;
use crate::error::KafkaError;
use crate::wire::Ask;
use kafka_protocol::messages::ListTransactionsRequest;
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Holds one record for each transactional id; its partitions' leaders are the coordinators.
const COORDINATORS_TOPIC: &str = "__transaction_state";

/// An id that a coordinator knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The id.
    pub transactional_id: String,
    /// The producer that has it.
    pub producer_id: i64,
    /// Phase of its newest transaction.
    pub state: TransactionState,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Ids in order, each once. Without those that this user may not describe: brokers leave them out and say nothing.
    pub transactions: Vec<Listed>,
    /// Why it could not be made sure that every coordinator was asked; none if it was. Every broker has answered all the same.
    pub unchecked: Option<String>,
}

impl TransactionAdmin {
    /// Every id of the cluster that begins with `prefix`, in whatever state, also committed and aborted ones. Changes nothing.
    /// Needs DESCRIBE on those TransactionalIds, and to make sure of completeness on the topic `__transaction_state`.
    ///
    /// # Errors
    /// If one broker can't be asked before the deadline, or a coordinator is missing, with the last reason.
    pub fn list(&mut self, prefix: &str, deadline: Instant) -> Result<Listing, KafkaError> {
        let mut attempts = Attempts::until(deadline);
        loop {
            let error = match self.list_once(prefix, deadline) {
                Ok(listing) => return Ok(listing),
                Err(error) => error,
            };
            attempts.after(|| format!("listing the transactions of '{prefix}'"), error)?;
        }
    }

    fn list_once(&mut self, prefix: &str, deadline: Instant) -> Result<Listing, KafkaError> {
        let (brokers, before) = self.coordinators(deadline)?;
        let partitions = before.as_ref().map_or(0, Vec::len);
        let unloaded = self.await_coordinators(&nobodys(prefix, partitions), deadline)?;
        let mut found = BTreeMap::new();
        for broker in &brokers {
            for listed in self.list_at(broker, prefix, deadline)? {
                found.insert(listed.transactional_id.clone(), listed);
            }
        }
        let (brokers_after, after) = self.coordinators(deadline)?;
        if before != after || brokers.len() != brokers_after.len() {
            let why = "coordinators moved while they were asked".to_owned();
            return Err(KafkaError::Unreachable { broker: "the cluster".to_owned(), why });
        }
        let unchecked = after.err().or(unloaded);
        Ok(Listing { transactions: found.into_values().collect(), unchecked })
    }

    /// Describes ids, each of which is answered by a coordinator that is one, and has loaded what it coordinates. Gives why
    /// that can't be made sure of.
    fn await_coordinators(&mut self, ids: &[String], deadline: Instant) -> Result<Option<String>, KafkaError> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        match self.describe_some(&ids, &mut BTreeMap::new(), deadline) {
            Ok(()) => Ok(None),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// All brokers, and leader and epoch of each partition of the coordinators' topic, or why those aren't known.
    fn coordinators(&mut self, deadline: Instant) -> Result<(Vec<Broker>, Result<Vec<(i32, i32, i32)>, String>), KafkaError> {
        let view = self.look(&[COORDINATORS_TOPIC], deadline)?;
        let Some(topic) = view.topics.first() else {
            let why = format!("it was asked for {COORDINATORS_TOPIC}, and answered without");
            return Err(KafkaError::Garbled { broker: view.broker.to_string(), why });
        };
        let leaders = match topic.error_code {
            code::NONE => Ok(topic.partitions.as_slice()),
            // Nobody has ever used a transaction here.
            code::UNKNOWN_TOPIC_OR_PARTITION => Ok(&[][..]),
            error if code::is_refusal(error) => {
                Err(format!("this user may not DESCRIBE the topic {COORDINATORS_TOPIC} ({})", code::named(error)))
            }
            error => return Err(KafkaError::answered(&view.broker, "Metadata", COORDINATORS_TOPIC, error)),
        };
        let leaders = leaders.map(|partitions| {
            let mut all: Vec<_> = partitions.iter().map(|one| (one.partition_index, one.leader_id.0, one.leader_epoch)).collect();
            all.sort_unstable();
            all
        });
        for (partition, leader, _) in leaders.iter().flatten() {
            if !view.brokers.iter().any(|broker| broker.id == *leader) {
                let why =
                    format!("partition {partition} of {COORDINATORS_TOPIC} has no leader: its transactions can't be listed");
                return Err(KafkaError::Unreachable { broker: view.broker.to_string(), why });
            }
        }
        Ok((view.brokers, leaders))
    }

    fn list_at(&mut self, broker: &Broker, prefix: &str, deadline: Instant) -> Result<Vec<Listed>, KafkaError> {
        let answer = self.cluster.call(&broker.address, deadline, |version| {
            let request = ListTransactionsRequest::default();
            if version < 2 || prefix.is_empty() {
                return request;
            }
            request.with_transactional_id_pattern(Some(StrBytes::from_string(pattern(prefix))))
        })?;
        if answer.error_code != code::NONE {
            return Err(KafkaError::answered(&broker.address, ListTransactionsRequest::NAME, prefix, answer.error_code));
        }
        // Also when the broker has filtered: what is given back here may be fenced.
        let ours = answer.transaction_states.into_iter().filter(|row| row.transactional_id.starts_with(prefix));
        Ok(ours
            .map(|row| Listed {
                transactional_id: row.transactional_id.to_string(),
                producer_id: row.producer_id.0,
                state: TransactionState::from_word(&row.transaction_state),
            })
            .collect())
    }
}

/// Ids that begin with `prefix` and that no job has: one for each partition of the coordinators' topic.
fn nobodys(prefix: &str, partitions: usize) -> Vec<String> {
    let mut missing: BTreeSet<usize> = (0..partitions).collect();
    // Each one hits a partition at random: of 50, all are hit by 225 on average.
    let ids = (0..partitions * 100).map(|number| format!("{prefix}nobody-{number}"));
    ids.filter(|id| missing.remove(&partition_of(id, partitions))).collect()
}

/// Where the brokers keep an id (TransactionStateManager.partitionFor): by Java's hash of a string, without its sign.
fn partition_of(id: &str, partitions: usize) -> usize {
    let hash = id.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & i32::MAX) as usize % partitions
}

/// The broker's pattern (RE2) for all ids with this beginning; it must match the whole id, line ends too.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::from("(?s)");
    for letter in prefix.chars() {
        if letter.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push_str(".*");
    pattern
}

#[cfg(test)]
mod tests {
    use super::{nobodys, partition_of, pattern};

    #[test]
    fn a_prefix_is_taken_literally() {
        assert_eq!(pattern("weir-a.b"), r"(?s)weir\-a\.b.*");
        assert_eq!(pattern(r"a\E(.*|x)[é]"), r"(?s)a\\E\(\.\*\|x\)\[é\].*");
    }

    #[test]
    fn every_partition_has_an_id_of_nobody() {
        // "abc".hashCode() is 96354.
        assert_eq!((partition_of("abc", 50), partition_of("", 50)), (96_354 % 50, 0));
        for partitions in [0, 1, 3, 50] {
            let ids = nobodys("weir-", partitions);
            assert_eq!(ids.len(), partitions);
            assert!(ids.iter().all(|id| id.starts_with("weir-")));
        }
    }
}
