//! Settings and errors that consumers, producers and the transaction client have in common.

use super::super::ConnectorError;
use crate::graph::{KafkaCluster, KafkaSasl, KafkaTls};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use weir_kafka::{Settings, TransactionAdmin};

/// How long one question to the brokers may take before the job is told.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where somebody waits at a terminal and nothing depends on the answer.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(8);
/// What to do when no broker answers.
pub(super) const NO_BROKER: &str =
    "check 'brokers', 'tls' and 'sasl', and that the brokers' advertised addresses can be reached from here";

/// The settings that say how to reach a cluster, by librdkafka's names; both clients take them.
pub(super) fn connection(cluster: &KafkaCluster) -> BTreeMap<&'static str, String> {
    let KafkaCluster { brokers, tls, sasl, options: _ } = cluster;
    let mut settings = BTreeMap::from([("bootstrap.servers", brokers.clone())]);
    let protocol = match (tls, sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    settings.insert("security.protocol", protocol.to_owned());
    if let Some(KafkaTls { ca, certificate, key, key_password }) = tls {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        settings.extend(ca.as_deref().map(|ca| ("ssl.ca.location", path(ca))));
        settings.extend(certificate.as_deref().map(|own| ("ssl.certificate.location", path(own))));
        settings.extend(key.as_deref().map(|key| ("ssl.key.location", path(key))));
        settings.extend(key_password.as_ref().map(|password| ("ssl.key.password", password.expose().to_owned())));
    }
    if let Some(KafkaSasl { mechanism, username, password }) = sasl {
        settings.insert("sasl.mechanism", mechanism.clone());
        settings.insert("sasl.username", username.clone());
        settings.insert("sasl.password", password.expose().to_owned());
    }
    settings
}

/// A client's configuration: `defaults` first, then the user's options over them, so that what Weir needs, set after both, stays as
/// it needs it.
pub(super) fn config(cluster: &KafkaCluster, client_id: &str, defaults: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (name, value) in defaults {
        config.set(*name, *value);
    }
    for (name, value) in &cluster.options {
        config.set(name, value);
    }
    for (name, value) in connection(cluster) {
        config.set(name, value);
    }
    config.set("client.id", client_id);
    config
}

/// The client that ends and describes transactions, and asks what librdkafka can't be asked.
pub(super) fn admin(cluster: &KafkaCluster, client_id: &str) -> Result<TransactionAdmin, String> {
    let mut properties = connection(cluster);
    properties.insert("client.id", client_id.to_owned());
    let options = cluster.options.iter().filter(|(key, _)| Settings::concerns(key));
    let options = options.map(|(key, value)| (key.as_str(), value.clone()));
    let settings = Settings::from_properties(properties.into_iter().chain(options)).map_err(|error| error.to_string())?;
    TransactionAdmin::new(settings).map_err(|error| error.to_string())
}

/// An error of the client library. `doing`: what failed, as "source orders: asking for its partitions".
pub(super) fn error(doing: &str, error: &KafkaError) -> ConnectorError {
    let message = format!("{doing}: {}", said(error));
    if is_permanent(error) { ConnectorError::permanent(message) } else { ConnectorError::restart(message) }
}

/// What went wrong, without the library's wrapping, and what to do where that is known.
pub(super) fn said(error: &KafkaError) -> String {
    if let KafkaError::ClientConfig(_, what, key, value) = error {
        return format!("setting {key} = '{value}' is refused: {what}");
    }
    let Some(code) = error.rdkafka_error_code() else { return error.to_string() };
    let next = match code {
        RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::OperationTimedOut => {
            return format!("no broker answers ({code}): {NO_BROKER}");
        }
        RDKafkaErrorCode::Resolve => "the address can't be resolved: check 'brokers' and the brokers' advertised names",
        RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed => {
            "the brokers refuse this user or password: check 'sasl'"
        }
        RDKafkaErrorCode::SSL => "TLS failed: check 'tls.ca' and that the port speaks TLS",
        RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => {
            "there is no such topic: create it first; weir creates none"
        }
        RDKafkaErrorCode::TopicAuthorizationFailed => "grant this user READ (source) or WRITE (sink) and DESCRIBE on the topic",
        RDKafkaErrorCode::GroupAuthorizationFailed => "grant this user READ on the group, or set another 'group'",
        RDKafkaErrorCode::TransactionalIdAuthorizationFailed => {
            "grant this user WRITE and DESCRIBE on transactional ids that begin with 'transaction_prefix'"
        }
        RDKafkaErrorCode::InvalidTransactionTimeout => {
            "the brokers allow less (transaction.max.timeout.ms): lower 'transaction_timeout' or raise their limit"
        }
        _ => return code.to_string(),
    };
    format!("{code}: {next}")
}

/// Whether a restart can't help.
pub(super) fn is_permanent(error: &KafkaError) -> bool {
    if let KafkaError::ClientConfig(..) = error {
        return true;
    }
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::SaslAuthenticationFailed
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed
                | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
                | RDKafkaErrorCode::InvalidTransactionTimeout
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::InvalidTopic
                | RDKafkaErrorCode::UnsupportedVersion
        )
    )
}
