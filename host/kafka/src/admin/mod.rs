//! The calls of this crate: each finds whom to ask, asks until there is an answer or the deadline has passed, and says no more
//! than the brokers said.

mod describe;
mod end;
mod fence;
mod list;
mod reads;

pub use fence::Fenced;
pub use list::{Listed, Listing};
pub use reads::{BrokerSetting, TopicFacts, TopicRights};

use crate::attempts::Attempts;
use crate::bounds::MAX_ID_BYTES;
use crate::cluster::Cluster;
use crate::code;
use crate::error::{CallError, KafkaError};
use crate::settings::{Address, Settings};
use crate::wire::Ask;
use std::time::Instant;

/// Ends, fences, describes and lists transactions of a cluster, whoever began them. Connections are opened when they are needed
/// and kept. Blocking: every call returns at its deadline, or a scheduling delay after it.
pub struct TransactionAdmin {
    cluster: Cluster,
}

impl TransactionAdmin {
    /// Reads certificates and key; connects to nobody yet.
    ///
    /// # Errors
    /// A file that can't be read or doesn't hold what its property says.
    pub fn new(settings: Settings) -> Result<Self, KafkaError> {
        Ok(TransactionAdmin { cluster: Cluster::new(settings)? })
    }

    /// One attempt at the coordinator of an id. Gives its address and its answer, which the caller takes to
    /// [`TransactionAdmin::heed`] if it holds an error.
    fn ask_coordinator<R: Ask>(
        &mut self,
        id: &str,
        deadline: Instant,
        make: impl FnOnce(i16) -> R,
    ) -> Result<(Address, R::Response), CallError> {
        let address = self.cluster.coordinator(id, deadline)?;
        match self.cluster.call(&address, deadline, make) {
            Ok(answer) => Ok((address, answer)),
            Err(call) => {
                // It may be gone, and another have its place.
                self.cluster.forget(id);
                Err(call)
            }
        }
    }

    /// What a coordinator's error code means for the next attempt: another broker may have to be asked.
    fn heed(&mut self, id: &str, address: &Address, error: i16) {
        if !code::moves_coordinator(error) {
            return;
        }
        self.cluster.forget(id);
        if error != code::COORDINATOR_LOAD_IN_PROGRESS {
            // A broker that the rest of its cluster has lost may go on sending us to itself: the next search asks another.
            self.cluster.disconnect(address);
        }
    }

    /// Asks the coordinator of an id again and again until its answer has no error code, which `code_of` takes from it.
    fn insist<R: Ask>(
        &mut self,
        what: impl Fn() -> String,
        id: &str,
        deadline: Instant,
        make: impl Fn(i16) -> R,
        code_of: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, KafkaError> {
        check_id(id)?;
        let mut attempts = Attempts::until(deadline);
        loop {
            let error = match self.ask_coordinator(id, deadline, &make) {
                Ok((_, answer)) if code_of(&answer) == code::NONE => return Ok(answer),
                Ok((address, answer)) => {
                    let error = code_of(&answer);
                    self.heed(id, &address, error);
                    KafkaError::answered(&address, R::NAME, id, error)
                }
                Err(call) => call.error,
            };
            attempts.after(&what, error)?;
        }
    }
}

impl std::fmt::Debug for TransactionAdmin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionAdmin").finish_non_exhaustive()
    }
}

/// Refuses what no broker would take, before it is sent.
fn check_id(id: &str) -> Result<(), KafkaError> {
    if id.is_empty() || id.len() > MAX_ID_BYTES {
        return Err(KafkaError::Request(format!("a transactional id has 1 to {MAX_ID_BYTES} bytes, not {}", id.len())));
    }
    Ok(())
}
