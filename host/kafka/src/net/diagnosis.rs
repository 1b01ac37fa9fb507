//! What a failed greeting probably comes from: most first connections fail by a listener of another kind.

use super::tls::Refused;
use crate::error::KafkaError;
use crate::settings::Address;
use openssl::ssl::ErrorCode;
use std::io::{self, ErrorKind};

/// The client's side, as set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub tls: bool,
    pub sasl: bool,
}

/// First bytes of a TLS alert or handshake, where a length should stand.
pub(super) fn is_tls(length: [u8; 4]) -> bool {
    matches!(length, [0x15 | 0x16, 3, 0..=4, _])
}

/// The listener speaks TLS and we don't.
pub(super) fn unexpected_tls(broker: &Address) -> KafkaError {
    let why = "answers in TLS, but security.protocol says plaintext: set it to ssl or sasl_ssl, or use a plain listener's port";
    KafkaError::Tls { broker: broker.to_string(), why: why.to_owned() }
}

/// The handshake failed.
pub(super) fn handshake(broker: &Address, refused: Refused) -> KafkaError {
    let broker = broker.to_string();
    match refused {
        Refused::Broken(why) => KafkaError::Tls { broker, why: format!("no TLS: {why}") },
        Refused::Certificate(why) => {
            let advice = "check ssl.ca.location, and that bootstrap.servers and the broker's advertised.listeners use a name \
                          of its certificate";
            KafkaError::Tls { broker, why: format!("its certificate is not trusted ({why}): {advice}") }
        }
        Refused::Handshake(error) => match of_openssl(error) {
            Met::Lost(what) => {
                let hint = "is it a listener without TLS, or one that asks for a client certificate (ssl.certificate.location)?";
                KafkaError::Unreachable { broker, why: format!("{what} during the TLS handshake: {hint}") }
            }
            Met::Late => KafkaError::Unreachable { broker, why: "the TLS handshake was not done in time".to_owned() },
            Met::Refusal(why) => {
                let hint = "is it a listener without TLS, or one that asks for a client certificate (ssl.certificate.location)?";
                KafkaError::Tls { broker, why: format!("the TLS handshake failed ({why}): {hint}") }
            }
        },
    }
}

/// Reading or writing failed. `answers`: how many this connection has given.
pub(super) fn stream(broker: &Address, spoken: Spoken, answers: u32, error: io::Error) -> KafkaError {
    let met = match error.downcast::<openssl::ssl::Error>() {
        Ok(error) => of_openssl(error),
        Err(error) => of_system(&error),
    };
    let broker = broker.to_string();
    match met {
        Met::Late => KafkaError::Unreachable { broker, why: "no answer in time".to_owned() },
        Met::Refusal(why) => {
            let hint = if answers == 0 && spoken.tls {
                ": does it ask for a client certificate (ssl.certificate.location)?"
            } else {
                ""
            };
            KafkaError::Tls { broker, why: format!("TLS failed ({why}){hint}") }
        }
        Met::Lost(what) => {
            // A broker closes what it doesn't understand and says nothing.
            let hint = match (answers, spoken.tls, spoken.sasl) {
                (0, false, _) => " at the first request: does this port speak TLS (security.protocol)?",
                (0, true, _) => " at the first request: does it ask for a client certificate (ssl.certificate.location)?",
                (1, _, false) => " at the second request: does this port ask for SASL (security.protocol)?",
                _ => "",
            };
            KafkaError::Unreachable { broker, why: format!("{what}{hint}") }
        }
    }
}

/// What was met on the wire.
enum Met {
    /// The connection is gone.
    Lost(String),
    /// The deadline passed.
    Late,
    /// The other side refuses, or speaks something else.
    Refusal(String),
}

fn of_system(error: &io::Error) -> Met {
    match error.kind() {
        ErrorKind::TimedOut => Met::Late,
        ErrorKind::UnexpectedEof => Met::Lost("the broker closed the connection".to_owned()),
        _ => Met::Lost(format!("the connection was lost ({error})")),
    }
}

fn of_openssl(error: openssl::ssl::Error) -> Met {
    if let Some(system) = error.io_error() {
        return of_system(system);
    }
    let closed = || Met::Lost("the broker closed the connection".to_owned());
    let reasons: Vec<&str> =
        error.ssl_error().map(|stack| stack.errors().iter().filter_map(|one| one.reason()).collect()).unwrap_or_default();
    match error.code() {
        ErrorCode::ZERO_RETURN | ErrorCode::SYSCALL => closed(),
        // The end of a connection without TLS's own farewell: a broker that was killed.
        _ if reasons.contains(&"unexpected eof while reading") => closed(),
        _ if reasons.is_empty() => Met::Refusal(error.to_string()),
        _ => Met::Refusal(reasons.join("; ")),
    }
}
