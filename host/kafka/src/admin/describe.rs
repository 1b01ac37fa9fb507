//! DescribeTransactions: what the coordinators know of given ids.

use super::{TransactionAdmin, check_id};
use crate::attempts::Attempts;
use crate::bounds::IDS_PER_REQUEST;
use crate::code;
use crate::describe::{Described, Description, TransactionState};
use crate::error::KafkaError;
use crate::settings::Address;
use crate::wire::Ask;
use kafka_protocol::messages::describe_transactions_response::TransactionState as Row;
use kafka_protocol::messages::{DescribeTransactionsRequest, TransactionalId};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

impl TransactionAdmin {
    /// What the coordinators know of each id, in the order of `ids`. Changes nothing. Needs DESCRIBE on the TransactionalIds.
    ///
    /// # Errors
    /// If one of them can't be described before the deadline, with the last reason.
    pub fn describe(&mut self, ids: &[&str], deadline: Instant) -> Result<Vec<Described>, KafkaError> {
        ids.iter().try_for_each(|id| check_id(id))?;
        let mut known: BTreeMap<&str, Described> = BTreeMap::new();
        let mut attempts = Attempts::until(deadline);
        loop {
            let missing: Vec<&str> = ids.iter().copied().filter(|id| !known.contains_key(id)).collect();
            if missing.is_empty() {
                return Ok(ids.iter().map(|id| known[id].clone()).collect());
            }
            if let Err(error) = self.describe_some(&missing, &mut known, deadline) {
                let left = || format!("describing {} of {} transactions", missing.len(), ids.len());
                attempts.after(left, error)?;
            }
        }
    }

    /// One attempt at one id.
    pub(super) fn describe_once(&mut self, id: &str, deadline: Instant) -> Result<Described, KafkaError> {
        let mut known = BTreeMap::new();
        self.describe_some(&[id], &mut known, deadline)?;
        known.remove(id).ok_or_else(|| KafkaError::Request(format!("{id} was not described")))
    }

    /// One attempt: takes in all that is answered, and gives the last setback if something was not.
    pub(super) fn describe_some<'a>(
        &mut self,
        ids: &[&'a str],
        known: &mut BTreeMap<&'a str, Described>,
        deadline: Instant,
    ) -> Result<(), KafkaError> {
        self.cluster.find(ids, deadline)?;
        let mut by_coordinator: BTreeMap<Address, Vec<&'a str>> = BTreeMap::new();
        for id in ids {
            by_coordinator.entry(self.cluster.coordinator(id, deadline)?).or_default().push(id);
        }
        let mut setback = Ok(());
        for (address, ids) in by_coordinator {
            for ids in ids.chunks(IDS_PER_REQUEST) {
                if let Err(error) = self.describe_at(&address, ids, known, deadline) {
                    // What can't pass is told at once, the rest after all have been asked.
                    if !error.is_transient() {
                        return Err(error);
                    }
                    setback = Err(error);
                }
            }
        }
        setback
    }

    fn describe_at<'a>(
        &mut self,
        address: &Address,
        ids: &[&'a str],
        known: &mut BTreeMap<&'a str, Described>,
        deadline: Instant,
    ) -> Result<(), KafkaError> {
        let wanted: Vec<TransactionalId> = ids.iter().map(|id| StrBytes::from_string((*id).to_owned()).into()).collect();
        let request = |_| DescribeTransactionsRequest::default().with_transactional_ids(wanted);
        let answer = self.cluster.call(address, deadline, request).map_err(|call| {
            ids.iter().for_each(|id| self.cluster.forget(id));
            call.error
        })?;
        let mut setback = None;
        for row in answer.transaction_states {
            // Only what was asked for: an answer must not describe another id.
            let Some(id) = ids.iter().copied().find(|id| *id == row.transactional_id.as_str()) else { continue };
            match read(&row) {
                Ok(described) => {
                    known.insert(id, described);
                }
                Err(error) => {
                    self.heed(id, address, error);
                    setback = Some(KafkaError::answered(address, DescribeTransactionsRequest::NAME, id, error));
                }
            }
        }
        let unanswered = ids.iter().find(|id| !known.contains_key(**id));
        match (setback, unanswered) {
            (Some(error), _) => Err(error),
            (None, Some(id)) => {
                let why = format!("it was asked to describe {id}, and answered without");
                Err(KafkaError::Garbled { broker: address.to_string(), why })
            }
            (None, None) => Ok(()),
        }
    }
}

/// One row, or its error code.
fn read(row: &Row) -> Result<Described, i16> {
    match row.error_code {
        code::NONE => Ok(Described::Known(Description {
            state: TransactionState::from_word(&row.transaction_state),
            producer_id: row.producer_id.0,
            epoch: row.producer_epoch,
            timeout: Duration::from_millis(u64::try_from(row.transaction_timeout_ms).unwrap_or(0)),
            start_ms: u64::try_from(row.transaction_start_time_ms).ok(),
            partitions: row.topics.iter().map(|topic| (topic.topic.to_string(), topic.partitions.clone())).collect(),
        })),
        code::TRANSACTIONAL_ID_NOT_FOUND => Ok(Described::UnknownId),
        error => Err(error),
    }
}
