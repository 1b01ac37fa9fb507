//! EndTxn, and DescribeTransactions after every answer that is not plain.

use super::{TransactionAdmin, check_id};
use crate::attempts::Attempts;
use crate::describe::Described;
use crate::end::{End, EndOutcome, TransactionHandle, Verdict, judge, needs_description};
use crate::error::KafkaError;
use kafka_protocol::messages::EndTxnRequest;
use kafka_protocol::protocol::StrBytes;
use std::time::Instant;

impl TransactionAdmin {
    /// Commits or aborts a transaction, whoever wrote it and whether or not that process still lives. Idempotent: asked again
    /// it says the same.
    ///
    /// A transaction must be the only one that its producer and epoch have ever begun. Needs WRITE on the TransactionalId, and
    /// DESCRIBE for definite answers.
    pub fn end(&mut self, handle: &TransactionHandle, end: End, deadline: Instant) -> EndOutcome {
        if let Err(error) = check_id(&handle.transactional_id) {
            return EndOutcome::Refused(error);
        }
        let mut attempts = Attempts::until(deadline);
        // Whether some attempt may have been carried out although nobody has said so.
        let mut maybe_done = false;
        loop {
            let why = match self.end_once(handle, end, deadline) {
                Ok(Verdict::Is(outcome)) => return with_history(outcome, maybe_done),
                Ok(Verdict::Again { maybe_done: maybe, why }) => {
                    maybe_done |= maybe;
                    why
                }
                Err((error, sent)) => {
                    maybe_done |= sent;
                    if !error.is_transient() {
                        return with_history(EndOutcome::Refused(error), maybe_done);
                    }
                    error.to_string()
                }
            };
            if let Err(why) = attempts.again(why) {
                return if maybe_done { EndOutcome::Unknown(why) } else { EndOutcome::Retryable(why) };
            }
        }
    }

    /// One attempt. An error comes with whether the request may have been carried out.
    fn end_once(&mut self, handle: &TransactionHandle, end: End, deadline: Instant) -> Result<Verdict, (KafkaError, bool)> {
        let id = handle.transactional_id.as_str();
        let asked = self.ask_coordinator(id, deadline, |_| request(handle, end));
        let (address, answer) = asked.map_err(|call| (call.error, call.sent))?;
        let described = if needs_description(answer.error_code) { self.describe_if_possible(id, deadline) } else { None };
        let mut verdict = judge(end, handle, answer.error_code, described.as_ref());
        match &mut verdict {
            Verdict::Again { .. } => self.heed(id, &address, answer.error_code),
            Verdict::Is(EndOutcome::Refused(error)) => error.set_broker(&address),
            Verdict::Is(_) => {}
        }
        Ok(verdict)
    }

    /// One attempt; brokers before 3.0 and users without the right to ask get none.
    fn describe_if_possible(&mut self, id: &str, deadline: Instant) -> Option<Described> {
        self.describe_once(id, deadline).ok()
    }
}

fn request(handle: &TransactionHandle, end: End) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(StrBytes::from_string(handle.transactional_id.clone()).into())
        .with_producer_id(handle.producer_id.into())
        .with_producer_epoch(handle.epoch)
        .with_committed(end == End::Commit)
}

/// An outcome in the light of earlier attempts that nobody answered for.
fn with_history(outcome: EndOutcome, maybe_done: bool) -> EndOutcome {
    match outcome {
        EndOutcome::Fenced { now, unanswered } => EndOutcome::Fenced { now, unanswered: unanswered || maybe_done },
        // This attempt was refused; one before it may have been carried out.
        EndOutcome::Refused(error) if maybe_done => EndOutcome::Unknown(error.to_string()),
        other => other,
    }
}
