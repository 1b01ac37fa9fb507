//! TLS by OpenSSL, configured as librdkafka configures it: the same certificates are trusted, and the same hosts.

use super::socket::Socket;
use crate::settings::{Authorities, Pem, SettingsError, TlsSettings};
use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{HandshakeError, SslConnector, SslConnectorBuilder, SslFiletype, SslMethod, SslStream, SslVerifyMode};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509VerifyResult};
use std::path::Path;

/// What every connection of a client shares.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: SslConnector,
    verify: bool,
    verify_host: bool,
}

impl Tls {
    /// Reads the certificates and the key.
    ///
    /// # Errors
    /// The property whose file can't be read or doesn't hold what it should.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, SettingsError> {
        let unusable = |error: ErrorStack| SettingsError::new("security.protocol", format!("OpenSSL can't be used: {error}"));
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(unusable)?;
        if settings.authorities != Authorities::System {
            // The builder trusts the system's authorities; librdkafka doesn't once it is told of others.
            let none = X509StoreBuilder::new().map_err(unusable)?.build();
            builder.set_cert_store(none);
            trust(&mut builder, &settings.authorities)?;
        }
        if let Some((certificate, key)) = &settings.identity {
            let password = settings.key_password.as_ref().map_or("", |password| password.reveal());
            identify(&mut builder, certificate, key, password)?;
        }
        builder.set_verify(if settings.verify { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
        Ok(Tls { connector: builder.build(), verify: settings.verify, verify_host: settings.verify && settings.verify_host })
    }

    /// Greets a broker, on a connected socket whose deadline is set.
    pub(super) fn greet(&self, host: &str, socket: Socket) -> Result<SslStream<Socket>, Refused> {
        let mut one = self.connector.configure().map_err(|error| Refused::Broken(error.to_string()))?;
        one.set_verify_hostname(self.verify_host);
        one.connect(host, socket).map_err(|error| match error {
            HandshakeError::SetupFailure(error) => Refused::Broken(error.to_string()),
            HandshakeError::Failure(half) | HandshakeError::WouldBlock(half) => {
                let verified = half.ssl().verify_result();
                if self.verify && verified != X509VerifyResult::OK {
                    return Refused::Certificate(verified.error_string().to_owned());
                }
                Refused::Handshake(half.into_error())
            }
        })
    }
}

/// Why a handshake failed.
pub(super) enum Refused {
    /// Something on our side.
    Broken(String),
    /// The broker's certificate is not trusted.
    Certificate(String),
    /// What OpenSSL met on the wire.
    Handshake(openssl::ssl::Error),
}

/// (property of the file, property of the text).
type Keys = (&'static str, &'static str);

const CA: Keys = ("ssl.ca.location", "ssl.ca.pem");
const CERTIFICATE: Keys = ("ssl.certificate.location", "ssl.certificate.pem");
const KEY: Keys = ("ssl.key.location", "ssl.key.pem");

/// The text, and the property that a fault of it belongs to.
fn read(pem: &Pem, keys: Keys) -> Result<(Vec<u8>, &'static str), SettingsError> {
    match pem {
        Pem::File(path) => match std::fs::read(path) {
            Ok(text) => Ok((text, keys.0)),
            Err(error) => Err(SettingsError::new(keys.0, format!("{} can't be read: {error}", path.display()))),
        },
        Pem::Text(text) => Ok((text.reveal().as_bytes().to_vec(), keys.1)),
    }
}

fn certificates(pem: &Pem, keys: Keys) -> Result<(Vec<X509>, &'static str), SettingsError> {
    let (text, key) = read(pem, keys)?;
    let found =
        X509::stack_from_pem(&text).map_err(|error| SettingsError::new(key, format!("holds no PEM certificates: {error}")))?;
    if found.is_empty() {
        return Err(SettingsError::new(key, "holds no PEM certificate (-----BEGIN CERTIFICATE-----)"));
    }
    Ok((found, key))
}

fn trust(builder: &mut SslConnectorBuilder, authorities: &Authorities) -> Result<(), SettingsError> {
    match authorities {
        Authorities::System => Ok(()),
        Authorities::Folder(path) => folder(builder, path)
            .map_err(|error| SettingsError::new(CA.0, format!("the folder {} can't be used: {error}", path.display()))),
        Authorities::Pem(pem) => {
            let (found, key) = certificates(pem, CA)?;
            for certificate in found {
                let added = builder.cert_store_mut().add_cert(certificate);
                added.map_err(|error| SettingsError::new(key, format!("holds a certificate that can't be used: {error}")))?;
            }
            Ok(())
        }
    }
}

fn folder(builder: &mut SslConnectorBuilder, path: &Path) -> Result<(), String> {
    let text = path.to_str().ok_or("its name is not UTF-8")?;
    let lookup = openssl::x509::store::X509Lookup::hash_dir();
    let lookup = builder.cert_store_mut().add_lookup(lookup).map_err(|error| error.to_string())?;
    lookup.add_dir(text, SslFiletype::PEM).map_err(|error| error.to_string())
}

fn identify(builder: &mut SslConnectorBuilder, certificate: &Pem, key: &Pem, password: &str) -> Result<(), SettingsError> {
    let (chain, property) = certificates(certificate, CERTIFICATE)?;
    let unusable = |error: ErrorStack| SettingsError::new(property, format!("can't be used: {error}"));
    let mut chain = chain.into_iter();
    if let Some(own) = chain.next() {
        builder.set_certificate(&own).map_err(unusable)?;
    }
    for above in chain {
        builder.add_extra_chain_cert(above).map_err(unusable)?;
    }
    let (key, property) = private_key(key, password)?;
    // OpenSSL holds a key against the certificate that it has already, if both are of one kind; else the second look does.
    let fitting = builder.set_private_key(&key).and_then(|()| builder.check_private_key());
    fitting.map_err(|_| SettingsError::new(property, format!("does not belong to the certificate of {}", CERTIFICATE.0)))
}

fn private_key(pem: &Pem, password: &str) -> Result<(PKey<Private>, &'static str), SettingsError> {
    let (text, property) = read(pem, KEY)?;
    // Always with a password, even an empty one: without, OpenSSL would ask at the terminal.
    let key = PKey::private_key_from_pem_passphrase(&text, password.as_bytes()).map_err(|_| {
        // What OpenSSL says here is about paddings, and would mislead.
        let encrypted = text.windows(9).any(|window| window == b"ENCRYPTED");
        let why = match (encrypted, password.is_empty()) {
            (true, true) => "holds an encrypted key: give ssl.key.password",
            (true, false) => "can't be opened by ssl.key.password",
            (false, _) => "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)",
        };
        SettingsError::new(property, why)
    })?;
    Ok((key, property))
}
