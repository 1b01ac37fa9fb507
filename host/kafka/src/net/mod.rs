//! Connections to brokers: TCP with a deadline on every step, TLS, SASL.

pub(crate) mod connection;
mod diagnosis;
mod resolve;
mod sasl;
mod scram;
#[cfg(test)]
mod scram_tests;
mod socket;
pub(crate) mod tls;
#[cfg(test)]
mod tls_tests;

pub(crate) use connection::Connection;
