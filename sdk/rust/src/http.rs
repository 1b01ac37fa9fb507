//! Requests to an origin that the job granted.

use std::fmt;
use std::rc::Rc;

/// A granted origin. The host sends the requests and adds the credentials that the job file names: they are never seen here.
///
/// A request can't be taken back: after a failure it may be sent again. Not in `SinkWriter::write`.
#[derive(Clone)]
pub struct Origin {
    grant: String,
    client: Rc<dyn Client>,
}

/// The contract's `http` interface, or what stands in for it.
pub(crate) trait Client {
    fn send(&self, grant: &str, request: &Request) -> Result<Response, String>;
}

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`.
    pub method: String,
    /// Path and query, from `/` on.
    pub path: String,
    /// Name and value; not those of the connection, and not those that the grant sets.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Request { method: method.to_owned(), path: path.into(), ..Request::default() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// The answer, whatever its status; a redirection is not followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// As 200.
    pub status: u16,
    /// Name, in lower case, and value, in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Origin {
    pub(crate) fn new(grant: &str, client: Rc<dyn Client>) -> Self {
        Origin { grant: grant.to_owned(), client }
    }

    /// Sends a request and waits for its answer. An error says why there is none: the request may have arrived all the same,
    /// unless it was refused by the host.
    pub fn send(&self, request: &Request) -> Result<Response, String> {
        self.client.send(&self.grant, request)
    }

    /// Asks for a path.
    pub fn get(&self, path: &str) -> Result<Response, String> {
        self.send(&Request::new("GET", path))
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("grant", &self.grant).finish_non_exhaustive()
    }
}

/// The host's own.
#[cfg(target_family = "wasm")]
pub(crate) struct HostClient;

#[cfg(target_family = "wasm")]
impl Client for HostClient {
    fn send(&self, grant: &str, request: &Request) -> Result<Response, String> {
        use crate::bindings::http;
        let Request { method, path, headers, body } = request.clone();
        let http::Response { status, headers, body } = http::send(grant, &http::Request { method, path, headers, body })?;
        Ok(Response { status, headers, body })
    }
}
