//! Why a call failed: what, where, whose fault and what to do next.

use crate::code;
use crate::settings::{Address, SettingsError};

/// Why the cluster could not be asked, or what it refused. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KafkaError {
    /// The settings can't work: a file that can't be read, a value that is not supported.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No connection, a connection that was lost, or no answer in time. Whether the request was carried out is unknown.
    #[error("{broker}: {why}")]
    Unreachable {
        /// Address, `host:port`.
        broker: String,
        /// What happened, and what it may come from.
        why: String,
    },
    /// TLS failed, and will again: certificates, or a listener of another kind.
    #[error("{broker}: {why}")]
    Tls {
        /// Address, `host:port`.
        broker: String,
        /// What OpenSSL said, and what to look at.
        why: String,
    },
    /// The broker did not accept the user, or did not prove that it knows the password itself.
    #[error("{broker}: {why}")]
    Authentication {
        /// Address, `host:port`.
        broker: String,
        /// What the broker said, and what to look at.
        why: String,
    },
    /// The user is known but may not do this.
    #[error("{broker}: {api} for {what} is not allowed ({}): grant {grant}", code::named(*code))]
    NotAuthorized {
        /// Address, `host:port`.
        broker: String,
        /// Name of the request.
        api: &'static str,
        /// What was asked for.
        what: String,
        /// The broker's error code.
        code: i16,
        /// Access control entry that is missing.
        grant: &'static str,
    },
    /// The broker lacks a request, or the versions of it that this client speaks.
    #[error(
        "{broker} can't be used: it offers {offered} of {api}, but versions {} to {} are needed, which {since} has and every \
         broker after it; use a newer broker",
        needed.0, needed.1
    )]
    Unsupported {
        /// Address, `host:port`.
        broker: String,
        /// Name of the request.
        api: &'static str,
        /// Versions that the broker has, in words.
        offered: String,
        /// Lowest and highest version that this client speaks.
        needed: (i16, i16),
        /// First broker version that will do.
        since: &'static str,
    },
    /// The broker answered with an error.
    #[error("{broker}: {api} for {what} was answered by error {}", code::named(*code))]
    Rejected {
        /// Address, `host:port`.
        broker: String,
        /// Name of the request.
        api: &'static str,
        /// What was asked for.
        what: String,
        /// The broker's error code.
        code: i16,
    },
    /// The answer can't be understood. Whether the request was carried out is unknown.
    #[error("{broker}: {why}")]
    Garbled {
        /// Address, `host:port`.
        broker: String,
        /// What is wrong with the bytes.
        why: String,
    },
    /// A request that can't be written as bytes.
    #[error("{0}")]
    Request(String),
    /// The deadline came first.
    #[error("{what} was not done before its deadline: {last}")]
    TimedOut {
        /// What was to be done.
        what: String,
        /// The last setback.
        last: String,
    },
}

impl KafkaError {
    /// Whether the same call can succeed later, without a change of settings, rights or versions.
    pub fn is_transient(&self) -> bool {
        match self {
            KafkaError::Unreachable { .. } | KafkaError::Garbled { .. } | KafkaError::TimedOut { .. } => true,
            KafkaError::Rejected { code, .. } => code::is_passing(*code),
            KafkaError::Settings(_)
            | KafkaError::Tls { .. }
            | KafkaError::Authentication { .. }
            | KafkaError::NotAuthorized { .. }
            | KafkaError::Unsupported { .. }
            | KafkaError::Request(_) => false,
        }
    }

    /// Names the broker that an answer came from, where a pure decision could not.
    pub(crate) fn set_broker(&mut self, address: &Address) {
        if let KafkaError::NotAuthorized { broker, .. } | KafkaError::Rejected { broker, .. } = self {
            *broker = address.to_string();
        }
    }

    /// What an answer with this error code means for the caller; `what` was asked for.
    pub(crate) fn answered(broker: impl ToString, api: &'static str, what: impl Into<String>, code: i16) -> Self {
        let (broker, what) = (broker.to_string(), what.into());
        if !code::is_refusal(code) {
            return KafkaError::Rejected { broker, api, what, code };
        }
        let grant = match (api, code) {
            ("EndTxn" | "InitProducerId", _) => "WRITE on this TransactionalId (best PREFIXED)",
            ("DescribeConfigs", code::CLUSTER_AUTHORIZATION_FAILED) => "DESCRIBE_CONFIGS on the Cluster",
            ("DescribeConfigs", _) => "DESCRIBE_CONFIGS on the Topic",
            ("Metadata", _) => "DESCRIBE on the Topic",
            _ => "DESCRIBE on this TransactionalId (best PREFIXED)",
        };
        KafkaError::NotAuthorized { broker, api, what, code, grant }
    }
}

/// A call that failed, and whether the broker may have carried it out all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// Why.
    pub error: KafkaError,
    /// False only if not one byte of the request was handed to the network.
    pub sent: bool,
}

impl CallError {
    /// The request never left.
    pub(crate) fn unsent(error: KafkaError) -> Self {
        CallError { error, sent: false }
    }

    /// It left, or part of it may have.
    pub(crate) fn sent(error: KafkaError) -> Self {
        CallError { error, sent: true }
    }
}

impl From<CallError> for KafkaError {
    fn from(call: CallError) -> Self {
        call.error
    }
}
