//! Properties → [`Settings`]: everything that can be refused without a network is refused here.

use super::{Address, Authorities, Family, Mechanism, Pem, SaslSettings, Secret, Settings, SettingsError, TlsSettings};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const DEFAULT_PORT: u16 = 9092;

/// Properties that both clients read.
const KNOWN: &[&str] = &[
    "bootstrap.servers",
    "metadata.broker.list",
    "client.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
    "socket.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "broker.address.family",
];

/// Beginnings of keys that say how to reach a cluster and as whom: one of them that is not known is an error and never
/// skipped, or this client would trust or prove something else than librdkafka does.
const CONCERNING: &[&str] = &["ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.", "https.", "bootstrap."];

/// Keys of that kind whose values only librdkafka can use, and that change nothing in what this client does.
const WITHOUT_EFFECT: &[&str] = &["enable.sasl.oauthbearer.unsecure.jwt"];

/// What stands in for a key that this client can't do.
fn advice(key: &str) -> &'static str {
    match key {
        "ssl.keystore.location" | "ssl.keystore.password" => {
            "PKCS#12 is not supported: give ssl.certificate.location and ssl.key.location as PEM (openssl pkcs12 -in … -out …)"
        }
        _ if key.starts_with("sasl.kerberos.") => "Kerberos is not supported: use SCRAM-SHA-512, PLAIN or client certificates",
        _ if key.starts_with("sasl.oauthbearer.") || key.starts_with("https.") => {
            "OAUTHBEARER is not supported: use SCRAM-SHA-512, PLAIN or client certificates"
        }
        _ => "not supported by the client that commits transactions, or misspelt",
    }
}

pub(super) fn concerns(key: &str) -> bool {
    (KNOWN.contains(&key) || CONCERNING.iter().any(|start| key.starts_with(start))) && !WITHOUT_EFFECT.contains(&key)
}

pub(super) fn parse<K: AsRef<str>, V: AsRef<str>>(
    properties: impl IntoIterator<Item = (K, V)>,
) -> Result<Settings, SettingsError> {
    let given = Given::collect(properties)?;
    let (sasl_on, tls_on) = protocol(&given)?;
    Ok(Settings {
        bootstrap: bootstrap(&given)?,
        client_id: given.text("client.id").unwrap_or("weir").to_owned(),
        tls: if tls_on { Some(tls(&given)?) } else { None },
        sasl: if sasl_on { Some(sasl(&given)?) } else { None },
        family: family(&given)?,
        answer_timeout: given.millis("socket.timeout.ms", 60_000, 10..=300_000)?,
        connect_timeout: given.millis("socket.connection.setup.timeout.ms", 30_000, 1_000..=i64::from(i32::MAX))?,
    })
}

/// Properties by key; a key stands once.
struct Given(BTreeMap<String, String>);

impl Given {
    fn collect<K: AsRef<str>, V: AsRef<str>>(properties: impl IntoIterator<Item = (K, V)>) -> Result<Self, SettingsError> {
        let mut given = BTreeMap::new();
        for (key, value) in properties {
            let key = key.as_ref();
            if !KNOWN.contains(&key) {
                return Err(SettingsError::new(key, advice(key)));
            }
            if value.as_ref().contains('\0') {
                return Err(SettingsError::new(key, "holds a zero byte"));
            }
            if given.insert(key.to_owned(), value.as_ref().to_owned()).is_some() {
                return Err(SettingsError::new(key, "is given twice: remove one"));
            }
        }
        Ok(Given(given))
    }

    /// Its value, if it is not empty: librdkafka takes an empty one for absent.
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of one of two names for the same thing.
    fn either(&self, name: &'static str, alias: &'static str) -> Result<Option<(&'static str, &str)>, SettingsError> {
        match (self.text(name), self.text(alias)) {
            (Some(_), Some(_)) => Err(SettingsError::new(alias, format!("is another name of {name}: give only one of them"))),
            (Some(value), None) => Ok(Some((name, value))),
            (None, Some(value)) => Ok(Some((alias, value))),
            (None, None) => Ok(None),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, SettingsError> {
        match self.text(key).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true" | "t" | "1") => Ok(true),
            Some("false" | "f" | "0") => Ok(false),
            Some(other) => Err(SettingsError::new(key, format!("'{other}' is neither true nor false"))),
        }
    }

    fn millis(&self, key: &str, default: i64, range: std::ops::RangeInclusive<i64>) -> Result<Duration, SettingsError> {
        let millis = match self.text(key) {
            None => default,
            Some(text) => text.parse().ok().filter(|ms| range.contains(ms)).ok_or_else(|| {
                let why = format!("'{text}' is not a number of milliseconds from {} to {}", range.start(), range.end());
                SettingsError::new(key, why)
            })?,
        };
        Ok(Duration::from_millis(millis.unsigned_abs()))
    }

    /// A file or the text itself, under two keys of which one may stand.
    fn pem(&self, file_key: &'static str, text_key: &'static str) -> Result<Option<Pem>, SettingsError> {
        match (self.text(file_key), self.text(text_key)) {
            (Some(_), Some(_)) => Err(SettingsError::new(text_key, format!("stands beside {file_key}: give only one of them"))),
            (Some(file), None) => Ok(Some(Pem::File(PathBuf::from(file)))),
            (None, Some(text)) => Ok(Some(Pem::Text(Secret::new(text)))),
            (None, None) => Ok(None),
        }
    }
}

/// (SASL is on, TLS is on).
fn protocol(given: &Given) -> Result<(bool, bool), SettingsError> {
    let key = "security.protocol";
    match given.text(key).unwrap_or("plaintext").to_ascii_lowercase().as_str() {
        "plaintext" => Ok((false, false)),
        "ssl" => Ok((false, true)),
        "sasl_plaintext" => Ok((true, false)),
        "sasl_ssl" => Ok((true, true)),
        other => Err(SettingsError::new(key, format!("'{other}' is not one of plaintext, ssl, sasl_plaintext, sasl_ssl"))),
    }
}

fn bootstrap(given: &Given) -> Result<Vec<Address>, SettingsError> {
    let Some((key, list)) = given.either("bootstrap.servers", "metadata.broker.list")? else {
        return Err(SettingsError::new("bootstrap.servers", "is missing: give host:port of one or more brokers"));
    };
    let mut addresses = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        // librdkafka allows a protocol here, but then refuses any that is not security.protocol's.
        let entry = entry.split_once("://").map_or(entry, |(_, rest)| rest);
        let address = address(entry).ok_or_else(|| SettingsError::new(key, format!("'{entry}' is not host:port")))?;
        addresses.push(address);
    }
    if addresses.is_empty() {
        return Err(SettingsError::new(key, "names no broker: give host:port of one or more"));
    }
    Ok(addresses)
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
pub(crate) fn address(text: &str) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => match text.split_once(':') {
            Some((host, port)) => (host, &text[text.len() - port.len() - 1..]),
            None => (text, ""),
        },
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None if port.is_empty() => DEFAULT_PORT,
        None => return None,
    };
    let plausible = !host.is_empty() && !host.chars().any(|c| c.is_whitespace() || c == '/');
    plausible.then(|| Address { host: host.to_owned(), port })
}

fn family(given: &Given) -> Result<Family, SettingsError> {
    let key = "broker.address.family";
    match given.text(key).unwrap_or("any") {
        "any" => Ok(Family::Any),
        "v4" => Ok(Family::V4),
        "v6" => Ok(Family::V6),
        other => Err(SettingsError::new(key, format!("'{other}' is not one of any, v4, v6"))),
    }
}

fn tls(given: &Given) -> Result<TlsSettings, SettingsError> {
    let authorities = match given.pem("ssl.ca.location", "ssl.ca.pem")? {
        None => Authorities::System,
        // librdkafka's word for "look in the usual places".
        Some(Pem::File(path)) if path.as_os_str() == "probe" => Authorities::System,
        Some(Pem::File(path)) if path.is_dir() => Authorities::Folder(path),
        Some(pem) => Authorities::Pem(pem),
    };
    let certificate = given.pem("ssl.certificate.location", "ssl.certificate.pem")?;
    let key = given.pem("ssl.key.location", "ssl.key.pem")?;
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(SettingsError::new("ssl.key.location", "is missing, though a client certificate is given"));
        }
        (None, Some(_)) => return Err(SettingsError::new("ssl.certificate.location", "is missing, though a key is given")),
    };
    let identification = "ssl.endpoint.identification.algorithm";
    let verify_host = match given.text(identification).unwrap_or("https") {
        "https" => true,
        "none" => false,
        other => return Err(SettingsError::new(identification, format!("'{other}' is neither https nor none"))),
    };
    Ok(TlsSettings {
        authorities,
        identity,
        key_password: given.text("ssl.key.password").map(Secret::new),
        verify: given.flag("enable.ssl.certificate.verification", true)?,
        verify_host,
    })
}

fn sasl(given: &Given) -> Result<SaslSettings, SettingsError> {
    let supported = "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512";
    let Some((key, name)) = given.either("sasl.mechanism", "sasl.mechanisms")? else {
        // librdkafka's default is GSSAPI.
        return Err(SettingsError::new("sasl.mechanism", format!("is missing: {supported}")));
    };
    let mechanism = match name.to_ascii_uppercase().as_str() {
        "PLAIN" => Mechanism::Plain,
        "SCRAM-SHA-256" => Mechanism::ScramSha256,
        "SCRAM-SHA-512" => Mechanism::ScramSha512,
        other => {
            return Err(SettingsError::new(
                key,
                format!("{other} is not supported by the client that commits transactions: {supported}"),
            ));
        }
    };
    let needed =
        |key: &str| given.text(key).ok_or_else(|| SettingsError::new(key, format!("is missing; {} needs it", mechanism.name())));
    Ok(SaslSettings { mechanism, username: needed("sasl.username")?.to_owned(), password: Secret::new(needed("sasl.password")?) })
}
