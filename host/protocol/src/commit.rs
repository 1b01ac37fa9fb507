//! Two-phase commit of the sinks.
//!
//! - [`ledger::WriterLedger`]: one for each sink writer: what it has prepared and not seen committed.
//! - [`coordinator::CommitCoordinator`]: one for each transactional sink: commits what a published manifest contains, retries,
//!   recovers.
//!
//! Invariants: **T1** no commit before a durable manifest that contains the committable. **T2** no transaction is both
//! committed and aborted. **T3** a recovery commits all that the newest checkpoint contains and aborts the rest of this job,
//! of generations up to its own. **T4** every prepared transaction is committed, or the generation ends. **T5** commit twice
//! is commit once. **T6** commits of a writer are in prepare order.

pub mod coordinator;
mod events;
mod lane;
pub mod ledger;
#[cfg(test)]
mod ledger_tests;
mod recovering;
#[cfg(test)]
mod tests;

pub use coordinator::CommitCoordinator;
pub use ledger::WriterLedger;
