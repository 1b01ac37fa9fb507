//! The job's end of the socket: threads of its own, as clients may be slow.

use super::messages::{SwapReply, SwapRequest, SwapWish};
use super::place::{Address, socket};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// Clients at a time; one more is not answered.
const CLIENTS: usize = 16;

/// A request that is longer is none.
const REQUEST_BYTES: u64 = 64 << 10;

/// How long a client may take to say what it wants, and to take a reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// The socket of this job. Removed when it is closed.
pub struct ControlSocket {
    data: PathBuf,
    closing: Arc<AtomicBool>,
    accepting: JoinHandle<Vec<Client>>,
}

struct Client {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl ControlSocket {
    /// Opens it in a data folder whose lock is held, so that a socket that lies there is one of a process that is gone.
    /// `requests`: where the wishes go.
    pub fn open(data: &Path, requests: UnboundedSender<SwapRequest>) -> io::Result<Self> {
        // Made in a folder that only its owner may enter, so that there is no moment at which others could connect.
        let private = data.join("control.new");
        let _ = fs::remove_dir_all(&private);
        DirBuilder::new().mode(0o700).create(&private)?;
        let address = Address::of(&private, "s")?;
        let listener = UnixListener::bind(&address.path)?;
        let made = private.join("s");
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        fs::rename(&made, socket(data))?;
        fs::remove_dir(&private)?;
        let closing = Arc::new(AtomicBool::new(false));
        let is_closing = Arc::clone(&closing);
        let accept = move || accept(&listener, &requests, &is_closing);
        let accepting = std::thread::Builder::new().name("control socket".to_owned()).spawn(accept)?;
        Ok(ControlSocket { data: data.to_owned(), closing, accepting })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        socket(&self.data)
    }

    /// Says the last to every client and removes the socket. To be called when nobody can answer a request any more. Blocks.
    pub fn close(self) {
        self.closing.store(true, Ordering::Release);
        // A client that comes now only wakes the thread.
        let woken = Address::of_socket(&self.data).and_then(|address| UnixStream::connect(&address.path));
        let _ = fs::remove_file(self.path());
        if let Err(error) = woken {
            // Somebody has removed the socket: its thread waits for ever, and ends with the process.
            return tracing::debug!(%error, "the control socket could not be reached");
        }
        for client in self.accepting.join().unwrap_or_default() {
            // One that has not said what it wants yet never will.
            let _ = client.stream.shutdown(Shutdown::Read);
            let _ = client.thread.join();
        }
    }
}

fn accept(listener: &UnixListener, requests: &UnboundedSender<SwapRequest>, closing: &AtomicBool) -> Vec<Client> {
    let mut clients: Vec<Client> = Vec::new();
    for stream in listener.incoming() {
        if closing.load(Ordering::Acquire) {
            break;
        }
        clients.retain(|client| !client.thread.is_finished());
        let begun = stream.and_then(|stream| {
            let (own, requests) = (stream.try_clone()?, requests.clone());
            if clients.len() >= CLIENTS {
                return Err(io::Error::other("too many clients"));
            }
            let thread = std::thread::Builder::new().name("control client".to_owned()).spawn(move || {
                if let Err(error) = serve(&own, &requests) {
                    tracing::debug!(%error, "a client of the control socket went away");
                }
                let _ = own.shutdown(Shutdown::Both);
            })?;
            Ok(Client { stream, thread })
        });
        match begun {
            Ok(client) => clients.push(client),
            Err(error) => tracing::warn!(%error, "a client of the control socket is not answered"),
        }
    }
    clients
}

fn serve(stream: &UnixStream, requests: &UnboundedSender<SwapRequest>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES)).read_line(&mut line)?;
    let wish: SwapWish = match serde_json::from_str(&line) {
        Ok(wish) => wish,
        Err(error) => {
            let next = "use the weir that runs the job".to_owned();
            return say(stream, &SwapReply::Refused { what: format!("the request can't be read: {error}"), next });
        }
    };
    let (replies, heard) = channel();
    // A run that has ended drops it: then nothing is heard below.
    let _ = requests.send(SwapRequest { wish: wish.clone(), replies });
    let mut is_done = false;
    for reply in heard {
        is_done = reply.is_last(&wish);
        say(stream, &reply)?;
    }
    if is_done { Ok(()) } else { say(stream, &SwapReply::Ended) }
}

fn say(mut stream: &UnixStream, reply: &SwapReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::super::ask;
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;

    fn wish() -> SwapWish {
        SwapWish { operator: "stats".into(), plugin: "/x.wasm".into(), probation: 3, again: false, dry_run: false }
    }

    /// Also in a folder whose path is longer than an address may be.
    #[test]
    fn a_client_is_answered_and_nobody_else_may_connect() {
        for name in ["data".to_owned(), "d".repeat(200)] {
            let scratch = tempfile::tempdir().unwrap();
            let data = scratch.path().join(name);
            fs::create_dir(&data).unwrap();
            // What a process that is gone has left.
            drop(UnixListener::bind(Address::of_socket(&data).unwrap().path).unwrap());
            let (sender, mut requests) = unbounded_channel();
            let socket = ControlSocket::open(&data, sender).unwrap();
            let path = socket.path();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let answering = std::thread::spawn(move || {
                let request: SwapRequest = requests.blocking_recv().unwrap();
                assert_eq!(request.wish, wish());
                request.reply(SwapReply::Undone { why: "no".into() });
                requests
            });
            let mut heard = Vec::new();
            ask(&data, &wish(), &mut |reply| {
                heard.push(reply);
                true
            })
            .unwrap();
            assert_eq!(heard, [SwapReply::Undone { why: "no".into() }]);
            // The run ends.
            drop(answering.join().unwrap());
            ask(&data, &wish(), &mut |reply| {
                heard.push(reply);
                true
            })
            .unwrap();
            assert_eq!(heard.pop(), Some(SwapReply::Ended));
            let idle = UnixStream::connect(Address::of_socket(&data).unwrap().path).unwrap();
            socket.close();
            drop(idle);
            assert!(!path.exists());
            assert!(ask(&data, &wish(), &mut |_| true).is_err());
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let (sender, _requests) = unbounded_channel();
        let socket = ControlSocket::open(scratch.path(), sender).unwrap();
        let mut stream = UnixStream::connect(socket.path()).unwrap();
        stream.write_all(b"{\"operator\": 5}\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("refused") && answer.contains("can't be read"), "{answer}");
        socket.close();
    }
}
