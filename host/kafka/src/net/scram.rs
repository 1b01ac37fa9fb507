//! SCRAM (RFC 5802, 7677) without channel binding, as Kafka speaks it; both sides prove that they know the password.

use crate::bounds::{MAX_SCRAM_ITERATIONS, MIN_SCRAM_ITERATIONS};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::sign::Signer;

/// "n,,": no channel binding, nobody else's name.
const GS2_HEADER: &str = "n,,";

/// Why the exchange ended; never holds the password or what can be computed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The broker says that the user isn't accepted.
    Denied(String),
    /// The broker breaks the rules, or doesn't know the password.
    NotTrusted(String),
}

fn not_trusted(why: impl Into<String>) -> Refusal {
    Refusal::NotTrusted(why.into())
}

/// The digest of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    Sha256,
    Sha512,
}

impl Digest {
    fn openssl(self) -> MessageDigest {
        match self {
            Digest::Sha256 => MessageDigest::sha256(),
            Digest::Sha512 => MessageDigest::sha512(),
        }
    }
}

/// Step 1: the client's first message is sent, the server's first awaited.
pub(super) struct Begun {
    digest: Digest,
    nonce: String,
    first_bare: String,
}

/// Step 2: the client's proof is sent, the server's awaited.
pub(super) struct Proven {
    server_signature: Vec<u8>,
}

impl Begun {
    /// Begins with a nonce of 144 random bits.
    pub(super) fn new(digest: Digest, username: &str) -> Result<Self, Refusal> {
        let mut random = [0; 18];
        openssl::rand::rand_bytes(&mut random).map_err(|error| not_trusted(format!("no random numbers: {error}")))?;
        Ok(Self::with_nonce(digest, username, STANDARD.encode(random)))
    }

    /// Begins with this nonce.
    pub(super) fn with_nonce(digest: Digest, username: &str, nonce: String) -> Self {
        // Both characters have a meaning in messages.
        let username = username.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={username},r={nonce}");
        Begun { digest, nonce, first_bare }
    }

    /// What to send first.
    pub(super) fn message(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare)
    }

    /// Answers the server's first message: what to send next.
    pub(super) fn prove(self, password: &str, server_first: &[u8]) -> Result<(Proven, String), Refusal> {
        let server_first = std::str::from_utf8(server_first).map_err(|_| not_trusted("its challenge is not UTF-8"))?;
        let challenge = Challenge::read(server_first, &self.nonce)?;
        let computed = self.compute(password, server_first, &challenge);
        computed.map_err(|error| not_trusted(format!("OpenSSL can't compute the proof: {error}")))
    }

    fn compute(&self, password: &str, server_first: &str, challenge: &Challenge<'_>) -> Result<(Proven, String), ErrorStack> {
        let digest = self.digest.openssl();
        let mut salted = vec![0; digest.size()];
        pbkdf2_hmac(password.as_bytes(), &challenge.salt, challenge.iterations as usize, digest, &mut salted)?;
        let client_key = hmac(digest, &salted, b"Client Key")?;
        let stored_key = hash(digest, &client_key)?;
        let without_proof = format!("c={},r={}", STANDARD.encode(GS2_HEADER), challenge.nonce);
        let signed = format!("{},{server_first},{without_proof}", self.first_bare);
        let client_signature = hmac(digest, &stored_key, signed.as_bytes())?;
        let proof: Vec<u8> = client_key.iter().zip(&client_signature).map(|(a, b)| a ^ b).collect();
        let server_key = hmac(digest, &salted, b"Server Key")?;
        let server_signature = hmac(digest, &server_key, signed.as_bytes())?;
        Ok((Proven { server_signature }, format!("{without_proof},p={}", STANDARD.encode(proof))))
    }
}

impl Proven {
    /// Checks the server's last message.
    pub(super) fn verify(&self, server_last: &[u8]) -> Result<(), Refusal> {
        let text = std::str::from_utf8(server_last).map_err(|_| not_trusted("its last message is not UTF-8"))?;
        if let Some(error) = text.strip_prefix("e=") {
            return Err(Refusal::Denied(error.to_owned()));
        }
        let signature = text.strip_prefix("v=").and_then(|rest| STANDARD.decode(rest.split(',').next()?).ok());
        let signature = signature.ok_or_else(|| not_trusted("its last message holds no signature"))?;
        // The lengths are no secret.
        if signature.len() != self.server_signature.len() || !openssl::memcmp::eq(&signature, &self.server_signature) {
            return Err(not_trusted("it has not proven that it knows the password: it may be somebody else"));
        }
        Ok(())
    }
}

/// The server's first message: `r=…,s=…,i=…`.
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn read(text: &'a str, own_nonce: &str) -> Result<Self, Refusal> {
        if let Some(error) = text.strip_prefix("e=") {
            return Err(Refusal::Denied(error.to_owned()));
        }
        let mut fields = text.split(',');
        let mut field = |name: &str| {
            let value = fields.next().and_then(|field| field.strip_prefix(name));
            value.ok_or_else(|| not_trusted(format!("its challenge lacks {name} in its place")))
        };
        let nonce = field("r=")?;
        let salt = field("s=")?;
        let iterations = field("i=")?;
        // Else an old challenge could be played again.
        if !nonce.starts_with(own_nonce) || nonce.len() == own_nonce.len() {
            return Err(not_trusted("its challenge does not continue our nonce"));
        }
        let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty());
        let salt = salt.ok_or_else(|| not_trusted("its salt is not base64"))?;
        let allowed = MIN_SCRAM_ITERATIONS..=MAX_SCRAM_ITERATIONS;
        let iterations = iterations.parse().ok().filter(|count| allowed.contains(count)).ok_or_else(|| {
            not_trusted(format!("it asks for '{}' iterations, not {} to {}", shorten(iterations), allowed.start(), allowed.end()))
        })?;
        Ok(Challenge { nonce, salt, iterations })
    }
}

/// For messages: what came from outside may be long.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(20).collect()
}

fn hmac(digest: MessageDigest, key: &[u8], message: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(key)?;
    let mut signer = Signer::new(digest, &key)?;
    signer.update(message)?;
    signer.sign_to_vec()
}
