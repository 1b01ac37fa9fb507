//! How to reach a cluster, from the key names that librdkafka has, so that one set of properties serves both clients.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A setting that can't be used: which, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct SettingsError {
    /// The property.
    pub key: String,
    /// What is wrong with its value and what to do. Never the value of a secret.
    pub why: String,
}

impl SettingsError {
    pub(crate) fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        SettingsError { key: key.into(), why: why.into() }
    }
}

/// Text that no message, log or debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself: for the wire and for OpenSSL only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// PEM text, or the file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pem {
    File(PathBuf),
    Text(Secret),
}

/// What the broker is verified by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authorities {
    /// What the system's OpenSSL trusts.
    System,
    /// These certificates and no others.
    Pem(Pem),
    /// A folder of certificates, named by OpenSSL's hashes.
    Folder(PathBuf),
}

/// TLS, if it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub authorities: Authorities,
    /// The client's certificate chain and key.
    pub identity: Option<(Pem, Pem)>,
    pub key_password: Option<Secret>,
    /// False: any certificate will do.
    pub verify: bool,
    /// Whether the certificate must name the host that was connected to.
    pub verify_host: bool,
}

/// How the user proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Mechanism {
    /// Its registered name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// SASL, if it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaslSettings {
    pub mechanism: Mechanism,
    pub username: String,
    pub password: Secret,
}

/// Which addresses of a host are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Any,
    V4,
    V6,
}

/// How to reach a cluster and as whom. Made from properties with librdkafka's names by [`Settings::from_properties`]; what it
/// prints holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) bootstrap: Vec<Address>,
    pub(crate) client_id: String,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) sasl: Option<SaslSettings>,
    pub(crate) family: Family,
    /// Longest wait for one answer.
    pub(crate) answer_timeout: Duration,
    /// Longest wait for a connection, with TLS and SASL.
    pub(crate) connect_timeout: Duration,
}

impl Settings {
    /// Reads properties: `bootstrap.servers` (or `metadata.broker.list`), `client.id`, `security.protocol`, `sasl.mechanism`
    /// (or `sasl.mechanisms`), `sasl.username`, `sasl.password`, `ssl.ca.location`, `ssl.ca.pem`, `ssl.certificate.location`,
    /// `ssl.certificate.pem`, `ssl.key.location`, `ssl.key.pem`, `ssl.key.password`, `enable.ssl.certificate.verification`,
    /// `ssl.endpoint.identification.algorithm`, `socket.timeout.ms`, `socket.connection.setup.timeout.ms`,
    /// `broker.address.family`. Defaults are librdkafka's.
    ///
    /// # Errors
    /// A value that is wrong or that this client can't do (Kerberos, OAuth, PKCS#12 …), and every key that is not listed here:
    /// [`Settings::concerns`] tells which keys of a librdkafka configuration to pass. Certificate files are read later, by
    /// [`TransactionAdmin::new`](crate::TransactionAdmin::new).
    pub fn from_properties<K: AsRef<str>, V: AsRef<str>>(
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError> {
        parse::parse(properties)
    }

    /// Whether a librdkafka property says how to reach the cluster and as whom: those belong to this client too. Others
    /// (queues, batches, statistics) don't.
    pub fn concerns(key: &str) -> bool {
        parse::concerns(key)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, address) in self.bootstrap.iter().enumerate() {
            write!(f, "{}{address}", if i > 0 { "," } else { "" })?;
        }
        f.write_str(match (&self.sasl, &self.tls) {
            (None, None) => " (plaintext)",
            (None, Some(_)) => " (TLS)",
            (Some(_), None) => " (SASL without TLS)",
            (Some(_), Some(_)) => " (SASL over TLS)",
        })
    }
}
