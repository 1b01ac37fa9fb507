//! The exchange of RFC 7677, and servers that cheat.

use super::scram::{Begun, Digest, Refusal};

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const SERVER_LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn begun() -> Begun {
    Begun::with_nonce(Digest::Sha256, "user", NONCE.to_owned())
}

#[test]
fn the_exchange_of_the_rfc_is_spoken() {
    let begun = begun();
    assert_eq!(begun.message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let (proven, message) = begun.prove("pencil", SERVER_FIRST.as_bytes()).expect("an honest server");
    assert_eq!(
        message,
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    assert_eq!(proven.verify(SERVER_LAST.as_bytes()), Ok(()));
}

#[test]
fn names_are_escaped_and_nonces_differ() {
    let tricky = Begun::with_nonce(Digest::Sha512, "a=b,c", "n".to_owned());
    assert_eq!(tricky.message(), "n,,n=a=3Db=2Cc,r=n");
    let one = Begun::new(Digest::Sha256, "u").expect("random numbers");
    let other = Begun::new(Digest::Sha256, "u").expect("random numbers");
    assert_ne!(one.message(), other.message());
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_trusted() {
    let (proven, _) = begun().prove("pencil", SERVER_FIRST.as_bytes()).expect("an honest challenge");
    for last in ["v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "v=AAAA", "v=", "v=?", "", "x", "\u{ff}"] {
        assert!(matches!(proven.verify(last.as_bytes()), Err(Refusal::NotTrusted(_))), "{last}");
    }
    assert_eq!(proven.verify(b"e=other-error"), Err(Refusal::Denied("other-error".to_owned())));
}

#[test]
fn a_challenge_that_cheats_is_refused() {
    let cases = [
        ("r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue our nonce"),
        ("r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue our nonce"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "asks for '1' iterations"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4294967295", "asks for '4294967295' iterations"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1", "asks for '-1' iterations"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "salt is not base64"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096", "salt is not base64"),
        ("m=x,r=rOprNGfwEbeRWgbNEkqOx,s=aaaa,i=4096", "lacks r="),
        ("r=rOprNGfwEbeRWgbNEkqOx,i=4096", "lacks s="),
        ("", "lacks r="),
    ];
    for (challenge, why) in cases {
        match begun().prove("pencil", challenge.as_bytes()) {
            Err(Refusal::NotTrusted(message)) => assert!(message.contains(why), "{challenge}: {message}"),
            Err(other) => panic!("{challenge}: {other:?}"),
            Ok(_) => panic!("{challenge} was answered"),
        }
    }
}
