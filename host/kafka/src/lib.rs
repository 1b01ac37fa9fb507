//! A small blocking client for Kafka's transaction coordinators.
//!
//! librdkafka can begin and write a transaction, but only the very object that began it can end it: after a crash nobody can.
//! A coordinator, however, ends a transaction for whoever names its id, producer and epoch. This crate does that, and what
//! belongs to it: it commits, aborts, fences, describes and lists transactions of other clients, dead ones too.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use weir_kafka::{End, EndOutcome, Settings, TransactionAdmin, TransactionHandle};
//!
//! fn run() -> Result<(), Box<dyn std::error::Error>> {
//!     let settings = Settings::from_properties([("bootstrap.servers", "localhost:9092")])?;
//!     let mut admin = TransactionAdmin::new(settings)?;
//!     let handle = TransactionHandle { transactional_id: "sink-0".into(), producer_id: 4_711, epoch: 3 };
//!     match admin.end(&handle, End::Commit, Instant::now() + Duration::from_secs(30)) {
//!         EndOutcome::Committed => println!("its records can be read"),
//!         other => println!("{other:?}"),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # What holds
//!
//! - **Nothing is said that no broker said.** A request whose answer was lost is unknown, never done and never not done; see
//!   [`EndOutcome`].
//! - **Every call ends at its deadline**: connecting, TLS, SASL, reading and writing have it, and what waits between attempts.
//! - **EndTxn goes out as version 2 to 4**, whatever the broker offers: see `wire/ask.rs`.
//! - **Nothing from the wire is trusted**: lengths are held against what came before memory is reserved, answers against what
//!   was asked. All bounds are in `bounds.rs`.
//! - **No secret is printed**, by `Debug`, `Display` or an error.
//!
//! TLS is OpenSSL's, as librdkafka's is, with the same properties: what one of the two clients trusts, the other does.

mod admin;
mod attempts;
mod bounds;
mod clock;
mod cluster;
mod code;
mod describe;
mod end;
#[cfg(test)]
mod end_tests;
mod error;
#[cfg(test)]
mod fake_broker;
#[cfg(test)]
mod fake_broker_tests;
mod net;
mod settings;
mod wire;

pub use admin::{BrokerSetting, Fenced, Listed, Listing, TopicFacts, TopicRights, TransactionAdmin};
pub use describe::{Described, Description, TransactionState};
pub use end::{End, EndOutcome, Fate, TransactionHandle};
pub use error::KafkaError;
pub use settings::{Settings, SettingsError};
