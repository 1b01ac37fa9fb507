//! Who may do what, and listeners of the wrong kind: each must say what to change.

use crate::setup::{Broker, shared, soon};
use std::time::{Duration, Instant};
use weir_kafka::{End, EndOutcome, KafkaError, Settings, TransactionAdmin, TransactionHandle};

type Properties<'a> = Vec<(&'a str, &'a str)>;

fn sasl_port(broker: &Broker) -> u16 {
    broker.port + 2
}

fn mtls_port(broker: &Broker) -> u16 {
    broker.port + 3
}

fn user<'a>(ca: &'a str, mechanism: &'a str, name: &'a str, password: &'a str) -> Properties<'a> {
    vec![
        ("security.protocol", "sasl_ssl"),
        ("ssl.ca.location", ca),
        ("sasl.mechanism", mechanism),
        ("sasl.username", name),
        ("sasl.password", password),
    ]
}

/// Commits a transaction of its own through a client with these properties.
fn commits(broker: &Broker, name: &str, port: u16, properties: &[(&str, &str)]) {
    let mut writer = broker.writer();
    writer.topic(name, 1);
    let handle = writer.prepare(name, name, 60_000, &["a"]);
    let mut admin = broker.admin_with(port, properties);
    assert_eq!(admin.end(&handle, End::Commit, soon()), EndOutcome::Committed);
    assert_eq!(admin.list(name, soon()).expect("the broker runs").transactions.len(), 1);
    writer.expect(name, &["a"]);
}

/// The error of a client with these properties; what can pass is waited for a little.
fn error(broker: &Broker, port: u16, properties: &[(&str, &str)]) -> KafkaError {
    let mut admin = broker.admin_with(port, properties);
    admin.fence("never-reached", Instant::now() + Duration::from_secs(3)).expect_err("it must not work")
}

/// That this error ends the call at once, and holds these words.
fn check(error: &KafkaError, passing: bool, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.is_transient(), passing, "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is missing in: {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn every_mechanism_commits() {
    let broker = shared();
    let ca = broker.security("ca.pem");
    commits(broker, "by-plain", sasl_port(broker), &user(&ca, "PLAIN", "plain-user", "plain-secret"));
    commits(broker, "by-scram-256", sasl_port(broker), &user(&ca, "SCRAM-SHA-256", "scram-user", "scram-secret"));
    commits(broker, "by-scram-512", sasl_port(broker), &user(&ca, "SCRAM-SHA-512", "scram-user", "scram-secret"));
}

#[test]
fn a_client_certificate_commits() {
    let broker = shared();
    let (ca, certificate) = (broker.security("ca.pem"), broker.security("client.pem"));
    let (key, locked) = (broker.security("client.key"), broker.security("client-locked.key"));
    let mut properties: Properties = vec![
        ("security.protocol", "ssl"),
        ("ssl.ca.location", &ca),
        ("ssl.certificate.location", &certificate),
        ("ssl.key.location", &key),
    ];
    commits(broker, "by-certificate", mtls_port(broker), &properties);
    properties[3] = ("ssl.key.location", &locked);
    properties.push(("ssl.key.password", "key-secret"));
    commits(broker, "by-locked-key", mtls_port(broker), &properties);
}

#[test]
fn certificate_files_that_cannot_be_used_are_named() {
    let broker = shared();
    let (ca, certificate) = (broker.security("ca.pem"), broker.security("client.pem"));
    let (locked, stranger) = (broker.security("client-locked.key"), broker.security("ca.key"));
    let with = |more: &[(&str, &str)]| {
        let properties = [("security.protocol", "ssl"), ("ssl.ca.location", &ca), ("ssl.certificate.location", &certificate)];
        let properties: Properties = properties.into_iter().chain(more.iter().copied()).collect();
        TransactionAdmin::new(broker.settings(1, &properties)).expect_err("the file is wrong").to_string()
    };
    assert_eq!(with(&[("ssl.key.location", &locked)]), "ssl.key.location: holds an encrypted key: give ssl.key.password");
    let wrong = with(&[("ssl.key.location", &locked), ("ssl.key.password", "wrong-secret")]);
    assert_eq!(wrong, "ssl.key.location: can't be opened by ssl.key.password");
    let other = with(&[("ssl.key.location", &stranger)]);
    assert_eq!(other, "ssl.key.location: does not belong to the certificate of ssl.certificate.location");
    let none = with(&[("ssl.key.location", &ca)]);
    assert_eq!(none, "ssl.key.location: holds no private key in PEM (-----BEGIN PRIVATE KEY-----)");
    assert!(with(&[("ssl.key.location", "/no/such/file")]).contains("/no/such/file can't be read"));

    let settings = |ca: &str| {
        let properties = [("bootstrap.servers", "h"), ("security.protocol", "ssl"), ("ssl.ca.location", ca)];
        TransactionAdmin::new(Settings::from_properties(properties).expect("the settings are right"))
    };
    let none = settings(&stranger).expect_err("a key is no certificate").to_string();
    assert!(none.contains("ssl.ca.location: holds no PEM certificate"), "{none}");
}

#[test]
fn wrong_passwords_users_and_mechanisms_are_refused_at_once() {
    let broker = shared();
    let ca = broker.security("ca.pem");
    let refused = |mechanism, name, password, words: &[&str]| {
        check(&error(broker, sasl_port(broker), &user(&ca, mechanism, name, password)), false, words);
    };
    let advice = "check sasl.username, sasl.password and sasl.mechanism";
    refused("PLAIN", "plain-user", "wrong-secret", &["does not accept user 'plain-user' by PLAIN", advice]);
    refused("SCRAM-SHA-256", "scram-user", "wrong-secret", &["does not accept user 'scram-user' by SCRAM-SHA-256", advice]);
    refused("SCRAM-SHA-512", "nobody", "x", &["does not accept user 'nobody' by SCRAM-SHA-512", advice]);
    refused("SCRAM-SHA-512", "plain-user", "plain-secret", &["does not accept user 'plain-user'", advice]);
}

#[test]
fn certificates_that_are_not_trusted_are_refused_at_once() {
    let broker = shared();
    let other = broker.security("other-ca.pem");
    let properties = user(&other, "PLAIN", "plain-user", "plain-secret");
    check(&error(broker, sasl_port(broker), &properties), false, &["is not trusted", "ssl.ca.location"]);
    // By what the system trusts.
    check(
        &error(broker, sasl_port(broker), &properties[..1].iter().chain(&properties[2..]).copied().collect::<Vec<_>>()),
        false,
        &["is not trusted"],
    );
    // Unless nobody shall look.
    let careless: Properties = properties.iter().copied().chain([("enable.ssl.certificate.verification", "false")]).collect();
    commits(broker, "careless", sasl_port(broker), &careless);
}

#[test]
fn listeners_of_another_kind_are_recognised() {
    let broker = shared();
    let ca = broker.security("ca.pem");
    let tls: Properties = vec![("security.protocol", "ssl"), ("ssl.ca.location", &ca)];
    let sasl = user(&ca, "PLAIN", "plain-user", "plain-secret");
    let without_tls: Properties =
        std::iter::once(("security.protocol", "sasl_plaintext")).chain(sasl[2..].iter().copied()).collect();

    let plain_at_tls = error(broker, sasl_port(broker), &[]);
    assert!(plain_at_tls.to_string().contains("security.protocol"), "{plain_at_tls}");
    let tls_at_plain = error(broker, broker.port, &tls);
    assert!(tls_at_plain.to_string().contains("is it a listener without TLS"), "{tls_at_plain}");
    let no_sasl = error(broker, sasl_port(broker), &tls);
    assert!(no_sasl.to_string().contains("does this port ask for SASL (security.protocol)"), "{no_sasl}");
    let sasl_at_plain = error(broker, broker.port, &without_tls);
    check(&sasl_at_plain, false, &["this port asks for no SASL: set security.protocol to plaintext or ssl"]);
    let no_certificate = error(broker, mtls_port(broker), &tls);
    assert!(no_certificate.to_string().contains("ssl.certificate.location"), "{no_certificate}");
}

#[test]
fn a_user_without_rights_is_told_which_are_missing() {
    let broker = shared();
    let mut writer = broker.writer();
    writer.topic("guarded", 1);
    let handle = writer.prepare("guarded", "guarded", 60_000, &["a"]);
    let ca = broker.security("ca.pem");
    let mut admin = broker.admin_with(sasl_port(broker), &user(&ca, "PLAIN", "no-rights", "no-rights-secret"));
    match admin.end(&handle, End::Commit, soon()) {
        EndOutcome::Refused(error) => {
            check(&error, false, &["53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "DESCRIBE on this TransactionalId"])
        }
        other => panic!("{other:?}"),
    }
    check(&admin.fence("guarded", soon()).expect_err("no rights"), false, &["not allowed", "guarded"]);
    check(&admin.describe(&["guarded"], soon()).expect_err("no rights"), false, &["not allowed", "guarded"]);
    let config = admin.describe_broker_config("transaction.max.timeout.ms", soon()).expect_err("no rights");
    check(&config, false, &["31 CLUSTER_AUTHORIZATION_FAILED", "grant DESCRIBE_CONFIGS on the Cluster"]);
    let topics = admin.topics(&["guarded"], soon()).expect_err("no rights");
    check(&topics, false, &["29 TOPIC_AUTHORIZATION_FAILED", "grant DESCRIBE on the Topic"]);
    // The broker leaves out what the user may not see, and says nothing; that we can't check it is said.
    let listing = admin.list("guarded", soon()).expect("the broker answers");
    assert_eq!(listing.transactions, []);
    assert!(listing.unchecked.is_some_and(|why| why.contains("may not DESCRIBE the topic __transaction_state")));

    assert_eq!(broker.admin().end(&handle, End::Commit, soon()), EndOutcome::Committed, "nothing of that has touched it");
    let unknown = TransactionHandle { transactional_id: "guarded-unknown".to_owned(), ..handle };
    assert!(matches!(admin.end(&unknown, End::Commit, soon()), EndOutcome::Refused(_)), "rights are looked at first");
}
