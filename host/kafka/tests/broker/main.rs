//! The client against a real Kafka broker, which tests/kafka/up.sh starts: needs Java, and Maven at the first time.
//!
//! `KAFKA_VERSION` and `KAFKA_TRANSACTION_VERSION` choose what is tested against, as for up.sh.

mod crashes;
mod ends;
mod reads;
mod security;
mod setup;
mod writer;
