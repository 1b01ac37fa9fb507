//! Properties that are taken, and those that are refused with advice.

use super::parse::address;
use super::*;

fn read(properties: &str) -> Result<Settings, SettingsError> {
    Settings::from_properties(properties.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let (key, value) = line.split_once('=').expect("key=value");
        (key.to_owned(), value.to_owned())
    }))
}

const SASL_SSL: &str = "bootstrap.servers=a:1,b\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n\
    sasl.username=bob\nsasl.password=hunter2\nssl.ca.location=/etc/ca.pem\nssl.certificate.location=/etc/c.pem\n\
    ssl.key.pem=-----BEGIN hunter3\nssl.key.password=hunter4\nclient.id=me\nsocket.timeout.ms=1500";

#[test]
fn librdkafkas_names_and_defaults_are_taken() {
    let settings = read(SASL_SSL).expect("they are right");
    assert_eq!(settings.bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "b:9092"]);
    assert_eq!((settings.client_id.as_str(), settings.answer_timeout), ("me", Duration::from_millis(1_500)));
    assert_eq!(settings.connect_timeout, Duration::from_secs(30));
    let tls = settings.tls.as_ref().expect("TLS is on");
    assert!(tls.verify && tls.verify_host);
    assert_eq!(settings.sasl.as_ref().expect("SASL is on").mechanism, Mechanism::ScramSha512);

    let plain = read("metadata.broker.list=SASL_SSL://h:9,\nssl.ca.location=").expect("empty is absent");
    assert_eq!(plain.bootstrap.len(), 1);
    assert_eq!((plain.tls, plain.sasl), (None, None));
    let lax = read(
        "bootstrap.servers=h\nsecurity.protocol=ssl\nenable.ssl.certificate.verification=FALSE\nssl.endpoint.identification.algorithm=none",
    );
    let tls = lax.expect("they are right").tls.expect("TLS is on");
    assert!(!tls.verify && !tls.verify_host && tls.authorities == Authorities::System);
}

#[test]
fn nothing_that_is_printed_holds_a_secret() {
    let settings = read(SASL_SSL).expect("they are right");
    let printed = format!("{settings:?} {settings:#?} {settings}");
    assert!(!printed.contains("hunter"), "{printed}");
    assert!(printed.contains("bob") && printed.contains("a:1,b:9092 (SASL over TLS)"), "{printed}");
    let twice = read("sasl.password=hunter2\nsasl.password=hunter3").expect_err("given twice");
    assert!(!twice.to_string().contains("hunter"), "{twice}");
}

#[test]
fn what_cannot_work_is_refused_with_advice() {
    let cases = [
        ("", "bootstrap.servers: is missing: give host:port of one or more brokers"),
        ("bootstrap.servers= , ", "bootstrap.servers: names no broker: give host:port of one or more"),
        ("bootstrap.servers=h:70000", "bootstrap.servers: 'h:70000' is not host:port"),
        (
            "bootstrap.servers=h\nmetadata.broker.list=h",
            "metadata.broker.list: is another name of bootstrap.servers: give only one of them",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=tls",
            "security.protocol: 'tls' is not one of plaintext, ssl, sasl_plaintext, sasl_ssl",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=sasl_ssl",
            "sasl.mechanism: is missing: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=GSSAPI",
            "sasl.mechanisms: GSSAPI is not supported by the client that commits transactions: \
             use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=sasl_ssl\nsasl.mechanism=OAUTHBEARER",
            "sasl.mechanism: OAUTHBEARER is not supported by the client that commits transactions: \
             use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=sasl_ssl\nsasl.mechanism=PLAIN\nsasl.username=u",
            "sasl.password: is missing; PLAIN needs it",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=ssl\nssl.certificate.location=c.pem",
            "ssl.key.location: is missing, though a client certificate is given",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=ssl\nssl.ca.location=a\nssl.ca.pem=b",
            "ssl.ca.pem: stands beside ssl.ca.location: give only one of them",
        ),
        (
            "bootstrap.servers=h\nsecurity.protocol=ssl\nenable.ssl.certificate.verification=yes",
            "enable.ssl.certificate.verification: 'yes' is neither true nor false",
        ),
        ("bootstrap.servers=h\nsocket.timeout.ms=0", "socket.timeout.ms: '0' is not a number of milliseconds from 10 to 300000"),
        (
            "ssl.keystore.location=k.p12",
            "ssl.keystore.location: PKCS#12 is not supported: give ssl.certificate.location and ssl.key.location as PEM \
             (openssl pkcs12 -in … -out …)",
        ),
        (
            "sasl.kerberos.keytab=k",
            "sasl.kerberos.keytab: Kerberos is not supported: use SCRAM-SHA-512, PLAIN or client certificates",
        ),
        ("ssl.ca=x", "ssl.ca: not supported by the client that commits transactions, or misspelt"),
        ("bootstrap.servers=h\nbootstrap.servers=h", "bootstrap.servers: is given twice: remove one"),
        ("bootstrap.servers=h\nbroker.address.family=v5", "broker.address.family: 'v5' is not one of any, v4, v6"),
    ];
    for (properties, message) in cases {
        assert_eq!(read(properties).expect_err(properties).to_string(), message);
    }
}

#[test]
fn an_unknown_key_of_security_is_never_skipped() {
    for key in ["ssl.cipher.suites", "sasl.oauthbearer.config", "security.protocol", "ssl.ca.location", "socket.timeout.ms"] {
        assert!(Settings::concerns(key), "{key}");
    }
    for key in ["linger.ms", "queue.buffering.max.messages", "statistics.interval.ms", "socket.nagle.disable"] {
        assert!(!Settings::concerns(key), "{key}");
    }
}

#[test]
fn addresses_are_read_in_every_form() {
    let cases = [
        ("h", Some(("h", 9092))),
        ("h:1", Some(("h", 1))),
        ("127.0.0.1:65535", Some(("127.0.0.1", 65535))),
        ("[::1]", Some(("::1", 9092))),
        ("[::1]:7", Some(("::1", 7))),
        ("", None),
        (":1", None),
        ("h:", None),
        ("h:x", None),
        ("h:0", None),
        ("h:65536", None),
        ("[::1", None),
        ("[::1]x", None),
        ("a b:1", None),
        ("a/b:1", None),
        ("a:b:1", None),
    ];
    for (text, expected) in cases {
        let found = address(text);
        assert_eq!(found.as_ref().map(|a| (a.host.as_str(), a.port)), expected, "{text}");
        if let Some(found) = found {
            assert_eq!(address(&found.to_string()), Some(found), "what is printed is read again");
        }
    }
}
