//! InitProducerId: aborts what is open under an id and shuts out whoever had it.

use super::TransactionAdmin;
use crate::bounds::FENCING_TIMEOUT_MS;
use crate::error::KafkaError;
use kafka_protocol::messages::InitProducerIdRequest;
use kafka_protocol::protocol::StrBytes;
use std::time::Instant;

/// Who has the id after fencing: nobody will ever write by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The id's producer.
    pub producer_id: i64,
    /// Its new epoch.
    pub epoch: i16,
}

impl TransactionAdmin {
    /// Aborts the transaction that is open under an id, if any, and fences its producer. Makes an id that the cluster does not
    /// know known to it, for a week. Idempotent but for the epoch, which each call raises. Needs WRITE on the TransactionalId.
    ///
    /// # Errors
    /// Also after the deadline: then it is not known whether the id is fenced. Call it again.
    pub fn fence(&mut self, transactional_id: &str, deadline: Instant) -> Result<Fenced, KafkaError> {
        let request = |_| {
            InitProducerIdRequest::default()
                .with_transactional_id(Some(StrBytes::from_string(transactional_id.to_owned()).into()))
                .with_transaction_timeout_ms(FENCING_TIMEOUT_MS)
                // Whoever has it now.
                .with_producer_id((-1).into())
                .with_producer_epoch(-1)
        };
        // The abort of an open transaction is answered by 51 until it is done.
        let what = || format!("fencing {transactional_id}");
        let answer = self.insist(what, transactional_id, deadline, request, |answer| answer.error_code)?;
        Ok(Fenced { producer_id: answer.producer_id.0, epoch: answer.producer_epoch })
    }
}
