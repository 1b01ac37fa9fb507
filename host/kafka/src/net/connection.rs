//! One connection to one broker: greeted, authenticated, one request at a time.

use super::diagnosis::{self, Spoken};
use super::sasl;
use super::socket::Socket;
use super::tls::Tls;
use crate::bounds::{LONGEST_IDLE, MAX_GREETING_BYTES, MAX_RESPONSE_BYTES};
use crate::clock::{at_most, monotonic};
use crate::code;
use crate::error::{CallError, KafkaError};
use crate::settings::{Address, Settings};
use crate::wire::{Ask, frame};
use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::protocol::Request;
use openssl::ssl::SslStream;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

enum Stream {
    Plain(Socket),
    Tls(Box<SslStream<Socket>>),
}

impl Stream {
    fn set_deadline(&mut self, deadline: Instant) {
        match self {
            Stream::Plain(socket) => socket.set_deadline(deadline),
            Stream::Tls(stream) => stream.get_mut().set_deadline(deadline),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// A connection that has been greeted. After an error it must be dropped: an answer may still be under way.
pub(crate) struct Connection {
    stream: Stream,
    address: Address,
    spoken: Spoken,
    client_id: String,
    answer_timeout: Duration,
    /// Lowest and highest version of each request that the broker has; empty before it was asked.
    offered: BTreeMap<i16, (i16, i16)>,
    correlation: i32,
    /// Answers so far.
    answers: u32,
    /// Bytes that an answer may have.
    limit: usize,
    /// When the broker asks for a new authentication.
    until: Option<Instant>,
    /// When the last answer came.
    used: Instant,
}

impl Connection {
    /// Connects, greets and authenticates.
    ///
    /// # Errors
    /// Never `sent`: nothing has been asked yet.
    pub(crate) fn open(
        settings: &Settings,
        tls: Option<&Tls>,
        address: &Address,
        deadline: Instant,
    ) -> Result<Connection, KafkaError> {
        let deadline = at_most(deadline, settings.connect_timeout);
        let socket = Socket::connect(address, settings.family, deadline)
            .map_err(|why| KafkaError::Unreachable { broker: address.to_string(), why })?;
        let stream = match tls {
            None => Stream::Plain(socket),
            Some(tls) => {
                let stream = tls.greet(&address.host, socket).map_err(|refused| diagnosis::handshake(address, refused))?;
                Stream::Tls(Box::new(stream))
            }
        };
        let mut connection = Connection {
            stream,
            address: address.clone(),
            spoken: Spoken { tls: tls.is_some(), sasl: settings.sasl.is_some() },
            client_id: settings.client_id.clone(),
            answer_timeout: settings.answer_timeout,
            offered: BTreeMap::new(),
            correlation: 0,
            answers: 0,
            limit: MAX_GREETING_BYTES,
            until: None,
            used: monotonic(),
        };
        connection.ask_versions(deadline)?;
        if let Some(sasl) = &settings.sasl {
            let lifetime = sasl::authenticate(&mut connection, sasl, deadline)?;
            // Early enough that no request meets the end.
            connection.until = lifetime.and_then(|lifetime| monotonic().checked_add(lifetime / 10 * 8));
        }
        connection.limit = MAX_RESPONSE_BYTES;
        Ok(connection)
    }

    /// Address, for messages.
    pub(crate) fn broker(&self) -> String {
        self.address.to_string()
    }

    /// Whether the broker probably still has this connection, and accepts its authentication.
    pub(crate) fn is_fresh(&self) -> bool {
        let now = monotonic();
        now.saturating_duration_since(self.used) < LONGEST_IDLE && self.until.is_none_or(|until| now < until)
    }

    /// Asks, and waits for the answer until the deadline or the time set for one answer. `make` is given the version.
    ///
    /// # Errors
    /// `sent` says whether the broker may have carried out the request.
    pub(crate) fn call<R: Ask>(&mut self, deadline: Instant, make: impl FnOnce(i16) -> R) -> Result<R::Response, CallError> {
        let version = self.version_of::<R>().map_err(CallError::unsent)?;
        self.call_by(version, deadline, make(version))
    }

    /// The highest version of a request that both sides speak.
    pub(crate) fn version_of<R: Ask>(&self) -> Result<i16, KafkaError> {
        let (low, high) = R::SPOKEN;
        let offered = self.offered.get(&<R as Request>::KEY);
        match offered {
            Some((from, to)) if *from <= high && *to >= low => Ok(high.min(*to)),
            _ => Err(KafkaError::Unsupported {
                broker: self.broker(),
                api: R::NAME,
                offered: offered.map_or("no version".to_owned(), |(from, to)| format!("versions {from} to {to}")),
                needed: R::SPOKEN,
                since: R::SINCE,
            }),
        }
    }

    fn ask_versions(&mut self, deadline: Instant) -> Result<(), KafkaError> {
        // Every broker since 0.10 knows 0, and any that doesn't know a version answers by 0.
        let answer = self.call_by(0, deadline, ApiVersionsRequest::default())?;
        if answer.error_code != code::NONE {
            return Err(KafkaError::answered(&self.address, ApiVersionsRequest::NAME, "the broker", answer.error_code));
        }
        self.offered = answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        Ok(())
    }

    fn call_by<R: Ask>(&mut self, version: i16, deadline: Instant, request: R) -> Result<R::Response, CallError> {
        self.correlation = self.correlation.wrapping_add(1);
        let bytes = frame::encode(&request, version, self.correlation, &self.client_id)
            .map_err(|why| CallError::unsent(KafkaError::Request(why)))?;
        self.stream.set_deadline(at_most(deadline, self.answer_timeout));
        let written = self.stream.write_all(&bytes).and_then(|()| self.stream.flush());
        written.map_err(|error| CallError::sent(self.lost(error)))?;
        let answer = self.receive().map_err(CallError::sent)?;
        let answer = frame::decode::<R>(answer, version, self.correlation)
            .map_err(|why| CallError::sent(KafkaError::Garbled { broker: self.broker(), why }))?;
        self.answers = self.answers.saturating_add(1);
        self.used = monotonic();
        Ok(answer)
    }

    /// One frame, without its length.
    fn receive(&mut self) -> Result<Vec<u8>, KafkaError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(|error| self.lost(error))?;
        if self.answers == 0 && !self.spoken.tls && diagnosis::is_tls(length) {
            return Err(diagnosis::unexpected_tls(&self.address));
        }
        let length = usize::try_from(i32::from_be_bytes(length)).ok().filter(|length| *length <= self.limit);
        let length = length.ok_or_else(|| {
            let why = format!("what came is no answer of a Kafka broker, or has more than {} bytes", self.limit);
            KafkaError::Garbled { broker: self.broker(), why }
        })?;
        // Memory grows with what comes, not with what is claimed.
        let mut frame = Vec::new();
        let read = (&mut self.stream).take(length as u64).read_to_end(&mut frame);
        match read {
            Ok(count) if count == length => Ok(frame),
            Ok(_) => Err(self.lost(ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: io::Error) -> KafkaError {
        diagnosis::stream(&self.address, self.spoken, self.answers, error)
    }
}
