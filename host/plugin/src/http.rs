//! Requests to granted origins, with the credentials that only the host knows.

use crate::grants::HttpGrant;
use std::collections::BTreeMap;
use std::io::Read;
use ureq::http::{HeaderName, HeaderValue, Method, Request, Uri};
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

/// What a plugin may ask for.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Of the connection: set by the client.
const CONNECTION_HEADERS: [&str; 9] =
    ["connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "te", "transfer-encoding", "upgrade"];

/// A request as the contract has it.
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer as the contract has it.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The granted origins of one instance, and a client for each.
#[derive(Debug, Default)]
pub(crate) struct Origins(BTreeMap<String, (HttpGrant, Agent)>);

impl Origins {
    pub(crate) fn new(grants: &BTreeMap<String, HttpGrant>) -> Self {
        // The certificates that this machine trusts.
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(RootCerts::PlatformVerifier).build();
        let client = |grant: &HttpGrant| -> Agent {
            Agent::config_builder()
                .http_status_as_error(false)
                // Another origin is not granted, and must not see the credentials of this one.
                .max_redirects(0)
                .max_redirects_will_error(false)
                // What the environment says of proxies was granted to nobody.
                .proxy(None)
                .timeout_global(Some(grant.timeout))
                .tls_config(tls.clone())
                .user_agent("weir")
                .build()
                .into()
        };
        Origins(grants.iter().map(|(name, grant)| (name.clone(), (grant.clone(), client(grant)))).collect())
    }

    /// Sends a request. `limit`: bytes that the answer's body may have.
    pub(crate) fn send(&self, name: &str, ask: Ask, limit: usize) -> Result<Answer, String> {
        let (grant, agent) =
            self.0.get(name).ok_or_else(|| format!("no origin `{name}` is granted; `grants.http` in the job file does"))?;
        let request = build(grant, ask)?;
        let failed = |error: ureq::Error| format!("{}: {error}", grant.origin);
        let (head, body) = agent.run(request).map_err(failed)?.into_parts();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: read(body, limit).map_err(|why| format!("{}: {why}", grant.origin))?,
        })
    }
}

/// The request with what the grant adds; the error says what a plugin may not ask.
fn build(grant: &HttpGrant, ask: Ask) -> Result<Request<Vec<u8>>, String> {
    let Ask { method, path, headers, body } = ask;
    if !METHODS.contains(&method.as_str()) {
        return Err(format!("there is no method `{method}`; there are {}", METHODS.join(", ")));
    }
    if !path.starts_with('/') {
        return Err(format!("`{path}` does not begin with `/`: the origin belongs to the grant"));
    }
    let uri: Uri = format!("{}{path}", grant.origin).parse().map_err(|error| format!("`{path}` is no path: {error}"))?;
    let method = Method::from_bytes(method.as_bytes()).expect("it is in the list");
    let mut request = Request::builder().method(method).uri(uri).body(body).map_err(|error| error.to_string())?;
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        if CONNECTION_HEADERS.contains(&lower.as_str()) {
            return Err(format!("the header `{name}` belongs to the connection: the host sets it"));
        }
        if grant.headers.iter().any(|(granted, _)| granted.eq_ignore_ascii_case(&name)) {
            return Err(format!("the header `{name}` is set by the job file"));
        }
        let name = HeaderName::try_from(lower).map_err(|error| format!("`{name}` is no name of a header: {error}"))?;
        let value =
            HeaderValue::try_from(value).map_err(|error| format!("the value of `{name}` is none of a header: {error}"))?;
        request.headers_mut().append(name, value);
    }
    for (name, value) in &grant.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(|error| format!("`{name}` of the job file: {error}"))?;
        // Its text is a secret: it is not told.
        let value =
            HeaderValue::try_from(value.as_str()).map_err(|_| format!("`{name}` of the job file has no value of a header"))?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut reader = body.as_reader().take(limit as u64 + 1);
    reader.read_to_end(&mut bytes).map_err(|error| format!("its answer broke off: {error}"))?;
    match bytes.len() > limit {
        true => Err(format!("its answer has more than {limit} bytes, which is what may cross at once")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::Hidden;
    use std::time::Duration;

    fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> Ask {
        let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ask { method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() }
    }

    fn grant() -> HttpGrant {
        let headers = vec![("Authorization".to_owned(), Hidden::new("Bearer hunter2"))];
        HttpGrant { origin: "http://127.0.0.1:1".to_owned(), headers, timeout: Duration::from_secs(1) }
    }

    #[test]
    fn what_a_plugin_may_not_ask_is_refused_with_its_reason() {
        for (asked, why) in [
            (ask("CONNECT", "/", &[]), "no method `CONNECT`"),
            (ask("get", "/", &[]), "no method `get`"),
            (ask("GET", "", &[]), "does not begin with `/`"),
            (ask("GET", "@evil.example/", &[]), "does not begin with `/`"),
            (ask("GET", "/a b", &[]), "is no path"),
            (ask("GET", "/", &[("Host", "evil.example")]), "belongs to the connection"),
            (ask("GET", "/", &[("authorization", "mine")]), "is set by the job file"),
            (ask("GET", "/", &[("x y", "1")]), "no name of a header"),
            (ask("GET", "/", &[("x", "1\r\ny: 2")]), "none of a header"),
        ] {
            let error = build(&grant(), asked).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let request = build(&grant(), ask("GET", "//evil.example/?q=1", &[("accept", "*/*")])).expect("it stays at its origin");
        assert_eq!(request.uri().authority().map(|authority| authority.as_str()), Some("127.0.0.1:1"));
        assert_eq!(request.headers()["authorization"], "Bearer hunter2");
    }

    #[test]
    fn no_error_tells_a_secret() {
        let origins = Origins::new(&BTreeMap::from([("api".to_owned(), grant())]));
        let Err(error) = origins.send("api", ask("GET", "/", &[]), 10) else { panic!("nobody listens on port 1") };
        assert!(error.starts_with("http://127.0.0.1:1: ") && !error.contains("hunter2"), "{error}");
        assert!(!format!("{origins:?}").contains("hunter2"));
        let Err(error) = origins.send("other", ask("GET", "/", &[]), 10) else { panic!("it is not granted") };
        assert!(error.contains("no origin `other` is granted"), "{error}");
        let broken = HttpGrant { headers: vec![("x".to_owned(), Hidden::new("hunter2\n"))], ..grant() };
        let error = build(&broken, ask("GET", "/", &[])).expect_err("a line feed is in it");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
