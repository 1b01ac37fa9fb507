//! Proving who the user is, by SaslHandshake and SaslAuthenticate.

use super::connection::Connection;
use super::scram::{Begun, Digest, Refusal};
use crate::code;
use crate::error::{CallError, KafkaError};
use crate::settings::{Mechanism, SaslSettings};
use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use std::time::{Duration, Instant};

/// Authenticates the connection. Gives how long the broker accepts it; none: for good.
pub(super) fn authenticate(
    connection: &mut Connection,
    sasl: &SaslSettings,
    deadline: Instant,
) -> Result<Option<Duration>, CallError> {
    choose(connection, sasl.mechanism, deadline)?;
    match sasl.mechanism {
        Mechanism::Plain => plain(connection, sasl, deadline),
        Mechanism::ScramSha256 => scram(connection, sasl, Digest::Sha256, deadline),
        Mechanism::ScramSha512 => scram(connection, sasl, Digest::Sha512, deadline),
    }
}

fn choose(connection: &mut Connection, mechanism: Mechanism, deadline: Instant) -> Result<(), CallError> {
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism.name()));
    let answer = connection.call(deadline, |_| request)?;
    let why = match answer.error_code {
        code::NONE => return Ok(()),
        code::UNSUPPORTED_SASL_MECHANISM => {
            let offered: Vec<&str> = answer.mechanisms.iter().map(|name| name.as_str()).collect();
            format!("has no sasl.mechanism {}, but {}", mechanism.name(), offered.join(", "))
        }
        code::ILLEGAL_SASL_STATE => "this port asks for no SASL: set security.protocol to plaintext or ssl".to_owned(),
        other => format!("SaslHandshake was answered by error {}", code::named(other)),
    };
    Err(denied(connection, why))
}

fn plain(connection: &mut Connection, sasl: &SaslSettings, deadline: Instant) -> Result<Option<Duration>, CallError> {
    let message = format!("\0{}\0{}", sasl.username, sasl.password.reveal());
    exchange(connection, sasl, message, deadline).map(|(_, lifetime)| lifetime)
}

fn scram(
    connection: &mut Connection,
    sasl: &SaslSettings,
    digest: Digest,
    deadline: Instant,
) -> Result<Option<Duration>, CallError> {
    let begun = Begun::new(digest, &sasl.username).map_err(|refusal| refused(connection, sasl, refusal))?;
    let (challenge, _) = exchange(connection, sasl, begun.message(), deadline)?;
    let (proven, message) =
        begun.prove(sasl.password.reveal(), &challenge).map_err(|refusal| refused(connection, sasl, refusal))?;
    let (last, lifetime) = exchange(connection, sasl, message, deadline)?;
    proven.verify(&last).map_err(|refusal| refused(connection, sasl, refusal))?;
    Ok(lifetime)
}

/// One message there and one back.
fn exchange(
    connection: &mut Connection,
    sasl: &SaslSettings,
    message: String,
    deadline: Instant,
) -> Result<(Bytes, Option<Duration>), CallError> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
    let answer = connection.call(deadline, |_| request)?;
    if answer.error_code == code::NONE {
        let lifetime = u64::try_from(answer.session_lifetime_ms).ok().filter(|ms| *ms > 0);
        return Ok((answer.auth_bytes, lifetime.map(Duration::from_millis)));
    }
    let said = answer.error_message.as_ref().map_or("", |message| message.as_str());
    if answer.error_code == code::SASL_AUTHENTICATION_FAILED {
        return Err(refused(connection, sasl, Refusal::Denied(said.to_owned())));
    }
    Err(denied(connection, format!("SaslAuthenticate was answered by error {} {said}", code::named(answer.error_code))))
}

fn refused(connection: &Connection, sasl: &SaslSettings, refusal: Refusal) -> CallError {
    let why = match refusal {
        Refusal::Denied(said) => format!(
            "does not accept user '{}' by {} ({said}): check sasl.username, sasl.password and sasl.mechanism",
            sasl.username,
            sasl.mechanism.name()
        ),
        Refusal::NotTrusted(why) => format!("authentication by {} was given up: {why}", sasl.mechanism.name()),
    };
    denied(connection, why)
}

fn denied(connection: &Connection, why: String) -> CallError {
    CallError::unsent(KafkaError::Authentication { broker: connection.broker(), why })
}
