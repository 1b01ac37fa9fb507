//! Which certificates are accepted, by a server in this process.

use super::socket::Socket;
use super::tls::{Refused, Tls};
use crate::clock;
use crate::settings::{Address, Family, Settings, TlsSettings};
use openssl::asn1::Asn1Time;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use std::net::TcpListener;
use std::time::Duration;

struct Identity {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate for `names`, from yesterday on for so many days; signed by `authority`, else by itself.
fn identity(names: &[&str], days: u32, authority: Option<&Identity>) -> Identity {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("the curve is known");
    let key = PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key");
    let mut name = X509NameBuilder::new().expect("a name");
    name.append_entry_by_text("CN", names.first().unwrap_or(&"a test's CA")).expect("a name");
    let name = name.build();
    let build = || -> Result<X509, openssl::error::ErrorStack> {
        let mut builder = X509Builder::new()?;
        builder.set_version(2)?;
        builder.set_subject_name(&name)?;
        builder.set_issuer_name(authority.map_or(&*name, |by| by.certificate.subject_name()))?;
        builder.set_pubkey(&key)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs() as i64;
        let day = 86_400;
        builder.set_not_before(&*Asn1Time::from_unix(now - 10 * day)?)?;
        builder.set_not_after(&*Asn1Time::from_unix(now - 9 * day + i64::from(days) * day)?)?;
        if names.is_empty() {
            builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        } else {
            let mut alternative = SubjectAlternativeName::new();
            for name in names {
                if name.parse::<std::net::IpAddr>().is_ok() {
                    alternative.ip(name)
                } else {
                    alternative.dns(name)
                };
            }
            let extension = alternative.build(&builder.x509v3_context(None, None))?;
            builder.append_extension(extension)?;
        }
        builder.sign(authority.map_or(&key, |by| &by.key), MessageDigest::sha256())?;
        Ok(builder.build())
    };
    Identity { certificate: build().expect("a certificate"), key }
}

/// Why a client that trusts `ca` does not accept the server, which it knows by `host`; none if it does.
fn refusal(server: &Identity, ca: &Identity, host: &str, more: &[(&str, &str)]) -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).expect("OpenSSL");
    acceptor.set_certificate(&server.certificate).expect("a certificate");
    acceptor.set_private_key(&server.key).expect("its key");
    let acceptor = acceptor.build();
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the client comes");
        drop(acceptor.accept(stream));
    });
    let pem = String::from_utf8(ca.certificate.to_pem().expect("PEM")).expect("ASCII");
    let properties = [("bootstrap.servers", "h"), ("security.protocol", "ssl"), ("ssl.ca.pem", pem.as_str())];
    let settings = Settings::from_properties(properties.into_iter().chain(more.iter().copied())).expect("right");
    let tls: TlsSettings = settings.tls.expect("it is on");
    let address = Address { host: "127.0.0.1".to_owned(), port };
    let deadline = clock::monotonic() + Duration::from_secs(20);
    let socket = Socket::connect(&address, Family::Any, deadline).expect("the server listens");
    let greeted = Tls::new(&tls).expect("the CA can be read").greet(host, socket);
    let refusal = match greeted {
        Ok(_) => None,
        Err(Refused::Certificate(why) | Refused::Broken(why)) => Some(why),
        Err(Refused::Handshake(error)) => Some(error.to_string()),
    };
    serving.join().expect("no panic");
    refusal
}

#[test]
fn a_certificate_must_be_signed_valid_and_of_this_host() {
    let (ca, other_ca) = (identity(&[], 100, None), identity(&[], 100, None));
    let server = identity(&["broker.test", "127.0.0.1"], 100, Some(&ca));
    assert_eq!(refusal(&server, &ca, "broker.test", &[]), None);
    assert_eq!(refusal(&server, &ca, "127.0.0.1", &[]), None);

    let contains = |found: Option<String>, word: &str| {
        let found = found.expect("it must not be accepted");
        assert!(found.contains(word), "{found}");
    };
    contains(refusal(&server, &ca, "other.test", &[]), "hostname mismatch");
    contains(refusal(&server, &ca, "127.0.0.2", &[]), "IP address mismatch");
    contains(refusal(&server, &other_ca, "broker.test", &[]), "certificate");
    let expired = identity(&["broker.test"], 1, Some(&ca));
    contains(refusal(&expired, &ca, "broker.test", &[]), "expired");
    let own = identity(&["broker.test"], 100, None);
    contains(refusal(&own, &ca, "broker.test", &[]), "self");
}

#[test]
fn what_is_not_to_be_looked_at_is_not() {
    let (ca, other_ca) = (identity(&[], 100, None), identity(&[], 100, None));
    let server = identity(&["broker.test"], 100, Some(&ca));
    let any_host = [("ssl.endpoint.identification.algorithm", "none")];
    assert_eq!(refusal(&server, &ca, "other.test", &any_host), None);
    assert!(refusal(&server, &other_ca, "other.test", &any_host).is_some(), "the CA is still looked at");
    let nothing = [("enable.ssl.certificate.verification", "false")];
    assert_eq!(refusal(&server, &other_ca, "other.test", &nothing), None);
}
