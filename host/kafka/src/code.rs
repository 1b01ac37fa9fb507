//! The broker's error codes that this crate decides by, and names for all of them.

use kafka_protocol::ResponseError;

pub(crate) const NONE: i16 = 0;
pub(crate) const UNKNOWN_SERVER_ERROR: i16 = -1;
pub(crate) const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub(crate) const LEADER_NOT_AVAILABLE: i16 = 5;
pub(crate) const NOT_LEADER_OR_FOLLOWER: i16 = 6;
pub(crate) const REQUEST_TIMED_OUT: i16 = 7;
pub(crate) const REPLICA_NOT_AVAILABLE: i16 = 9;
pub(crate) const NETWORK_EXCEPTION: i16 = 13;
pub(crate) const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub(crate) const COORDINATOR_NOT_AVAILABLE: i16 = 15;
pub(crate) const NOT_COORDINATOR: i16 = 16;
pub(crate) const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
pub(crate) const GROUP_AUTHORIZATION_FAILED: i16 = 30;
pub(crate) const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;
pub(crate) const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
pub(crate) const ILLEGAL_SASL_STATE: i16 = 34;
pub(crate) const INVALID_PRODUCER_EPOCH: i16 = 47;
pub(crate) const INVALID_TXN_STATE: i16 = 48;
pub(crate) const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
pub(crate) const CONCURRENT_TRANSACTIONS: i16 = 51;
pub(crate) const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
pub(crate) const KAFKA_STORAGE_ERROR: i16 = 56;
pub(crate) const SASL_AUTHENTICATION_FAILED: i16 = 58;
pub(crate) const PRODUCER_FENCED: i16 = 90;
pub(crate) const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;
pub(crate) const TRANSACTION_ABORTABLE: i16 = 120;

/// For messages: `51 CONCURRENT_TRANSACTIONS`.
pub(crate) fn named(code: i16) -> String {
    let name = match ResponseError::try_from_code(code) {
        None => "NONE".to_owned(),
        Some(ResponseError::Unknown(_)) => "(unknown to this client)".to_owned(),
        Some(error) => screaming(&format!("{error:?}")),
    };
    format!("{code} {name}")
}

/// `ConcurrentTransactions` as the broker's documents spell it.
fn screaming(camel: &str) -> String {
    let mut name = String::with_capacity(camel.len() + 8);
    for (i, letter) in camel.chars().enumerate() {
        if i > 0 && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Whether the cluster says "not now": the same request can succeed later, without a change of anything by anybody.
pub(crate) fn is_passing(code: i16) -> bool {
    matches!(
        code,
        UNKNOWN_SERVER_ERROR
            | LEADER_NOT_AVAILABLE
            | NOT_LEADER_OR_FOLLOWER
            | REQUEST_TIMED_OUT
            | REPLICA_NOT_AVAILABLE
            | NETWORK_EXCEPTION
            | COORDINATOR_LOAD_IN_PROGRESS
            | COORDINATOR_NOT_AVAILABLE
            | NOT_COORDINATOR
            | CONCURRENT_TRANSACTIONS
            | KAFKA_STORAGE_ERROR
    )
}

/// Whether the code says that this user may not do this.
pub(crate) fn is_refusal(code: i16) -> bool {
    matches!(
        code,
        TOPIC_AUTHORIZATION_FAILED
            | GROUP_AUTHORIZATION_FAILED
            | CLUSTER_AUTHORIZATION_FAILED
            | TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
}

/// Whether the answer says that another broker may be the coordinator by now.
pub(crate) fn moves_coordinator(code: i16) -> bool {
    matches!(code, COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE | NOT_COORDINATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_as_the_broker_names_them() {
        for (code, name) in [
            (0, "0 NONE"),
            (-1, "-1 UNKNOWN_SERVER_ERROR"),
            (16, "16 NOT_COORDINATOR"),
            (51, "51 CONCURRENT_TRANSACTIONS"),
            (53, "53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
            (90, "90 PRODUCER_FENCED"),
            (105, "105 TRANSACTIONAL_ID_NOT_FOUND"),
            (120, "120 TRANSACTION_ABORTABLE"),
            (4_000, "4000 (unknown to this client)"),
        ] {
            assert_eq!(named(code), name);
        }
    }

    #[test]
    fn nothing_is_both_passing_and_refused() {
        for code in -1..200 {
            assert!(!(is_passing(code) && is_refusal(code)), "{code}");
            assert!(!moves_coordinator(code) || is_passing(code), "{code}");
        }
    }
}
