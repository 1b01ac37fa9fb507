//! A broker in this process whose answers a test writes: also such as no broker gives.

use crate::wire::Ask;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a request says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub key: i16,
    pub version: i16,
    pub correlation: i32,
    /// How many requests came before it, over all connections.
    pub nth: usize,
    /// Where the broker listens.
    pub port: u16,
}

impl Asked {
    pub(crate) fn is<R: Request>(&self) -> bool {
        self.key == R::KEY
    }
}

/// What to do about it.
pub(crate) enum Reply {
    /// A frame with these bytes.
    Frame(Vec<u8>),
    /// These bytes, as they are.
    Raw(Vec<u8>),
    /// Close the connection.
    Close,
    /// Say nothing.
    Silence,
}

/// A right answer.
pub(crate) fn answer<R: Ask>(asked: &Asked, response: &R::Response) -> Reply {
    let mut bytes = BytesMut::new();
    bytes.put_i32(asked.correlation);
    if R::Response::header_version(asked.version) >= 1 {
        bytes.put_u8(0);
    }
    response.encode(&mut bytes, asked.version).expect("the test's answer is right in this version");
    Reply::Frame(bytes.to_vec())
}

/// The answer to ApiVersions of a broker that has these: (key, lowest, highest).
pub(crate) fn versions(asked: &Asked, offered: &[(i16, i16, i16)]) -> Reply {
    let keys = offered
        .iter()
        .map(|(key, low, high)| ApiVersion::default().with_api_key(*key).with_min_version(*low).with_max_version(*high));
    answer::<ApiVersionsRequest>(asked, &ApiVersionsResponse::default().with_api_keys(keys.collect()))
}

/// All that this client asks for, as Kafka 3.9 has it.
const MODERN: &[(i16, i16, i16)] =
    &[(3, 0, 12), (10, 0, 3), (17, 0, 1), (18, 0, 4), (22, 0, 5), (26, 0, 4), (32, 1, 4), (36, 0, 2), (65, 0, 0), (66, 0, 1)];

/// Answers the greeting and names itself the coordinator; none for any other request.
pub(crate) fn greet(asked: &Asked) -> Option<Reply> {
    if asked.is::<ApiVersionsRequest>() {
        return Some(versions(asked, MODERN));
    }
    asked.is::<FindCoordinatorRequest>().then(|| {
        let found =
            FindCoordinatorResponse::default().with_host(StrBytes::from_static_str("127.0.0.1")).with_port(asked.port.into());
        answer::<FindCoordinatorRequest>(asked, &found)
    })
}

/// Listens on a free port until it is dropped; one connection after the other.
pub(crate) struct FakeBroker {
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FakeBroker {
    pub(crate) fn start(mut script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let (asked, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, stop) = (asked.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                serve(stream.expect("accepted"), port, &log, &mut script);
            }
        });
        FakeBroker { port, asked, over, thread: Some(thread) }
    }

    /// Requests of one kind so far.
    pub(crate) fn count<R: Request>(&self) -> usize {
        self.asked.lock().expect("no test panics with it").iter().filter(|asked| asked.is::<R>()).count()
    }

    /// Versions of the requests of one kind so far.
    pub(crate) fn versions_of<R: Request>(&self) -> Vec<i16> {
        self.asked
            .lock()
            .expect("no test panics with it")
            .iter()
            .filter(|asked| asked.is::<R>())
            .map(|asked| asked.version)
            .collect()
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves one connection until either side closes it.
fn serve(mut stream: TcpStream, port: u16, log: &Mutex<Vec<Asked>>, script: &mut impl FnMut(&Asked) -> Reply) {
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let Ok(length @ 10..1_000_000) = usize::try_from(i32::from_be_bytes(length)) else { return };
        let mut frame = vec![0; length];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        let mut header = Bytes::from(frame);
        let mut log = log.lock().expect("no test panics with it");
        let (key, version) = (header.get_i16(), header.get_i16());
        let asked = Asked { key, version, correlation: header.get_i32(), nth: log.len(), port };
        log.push(asked);
        drop(log);
        let bytes = match script(&asked) {
            Reply::Frame(bytes) => [&(bytes.len() as i32).to_be_bytes()[..], &bytes].concat(),
            Reply::Raw(bytes) => bytes,
            Reply::Close => return,
            Reply::Silence => continue,
        };
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}
