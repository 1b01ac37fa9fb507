//! Granted origins: the host asks, with credentials that the plugin never sees, and nothing else can be reached.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use weir_tests::guest;
use weir_tests::judge;
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::{Scratch, picture};

/// Answers each request by what a function gives for its path: status, further headers, body.
struct Server {
    address: SocketAddr,
    /// First line and headers of each request.
    seen: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Server {
    fn start(answer: impl Fn(&str) -> (u16, String, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&seen);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client connects");
                let lines = BufReader::new(stream.try_clone().expect("a socket can be shared")).lines();
                let head: Vec<String> = lines.map(|line| line.expect("it is text")).take_while(|line| !line.is_empty()).collect();
                let path = head[0].split(' ').nth(1).expect("a path").to_owned();
                keeps.lock().expect("nobody panics with it").push(head);
                let (status, headers, body) = answer(&path);
                let length = body.len();
                // A client that has gone wants no answer.
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} Said\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            }
        });
        Server { address, seen }
    }

    fn seen(&self) -> Vec<Vec<String>> {
        self.seen.lock().expect("nobody panics with it").clone()
    }
}

/// A job that asks about the lines `1` to `3`. `grants`: of its operator.
fn ask(grants: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("in.txt", "1\n2\n3\n");
    let plugin = guest("ask_origin").display().to_string();
    scratch.write(
        "job.toml",
        format!(
            r#"
[job]
name = "ask"
[restart]
strategy = "none"
[[source]]
name = "in"
connector = "file"
path = "in.txt"
[[operator]]
name = "ask"
plugin = "{plugin}"
from = "in"
config = {{ grant = "names", path = "/of/" }}
grants = {{ {grants} }}
on_bad_record = "drop"
[[sink]]
name = "out"
connector = "file"
from = "ask"
path = "out"
"#
        ),
    );
    scratch
}

fn weir(scratch: &Scratch, arguments: &[&str]) -> Ended {
    Running::start(scratch.folder(), arguments, &[("TOKEN", "hunter2")]).finish()
}

fn run(scratch: &Scratch) -> Ended {
    weir(scratch, &["run", "job.toml", "--data", "data"])
}

#[test]
fn the_host_asks_with_credentials_that_are_shown_nowhere() {
    let server = Server::start(|path| match path {
        "/of/2" => (404, String::new(), String::new()),
        _ => (200, String::new(), format!("name{}", path.replace('/', "-"))),
    });
    let address = server.address;
    let scratch = ask(&format!(
        "http = {{ names = {{ origin = \"http://{address}\", headers = {{ Authorization = \"Bearer ${{TOKEN}}\" }} }} }}"
    ));
    let checked = weir(&scratch, &["check", "job.toml"]).expect_code(0);
    let permission = format!("may      send HTTP requests to http://{address} (as 'names'); the host adds Authorization");
    assert!(checked.stdout.contains(&permission), "{}", checked.stdout);
    assert!(checked.stdout.contains("may not  files, environment, time, random numbers, other programs"), "{}", checked.stdout);
    let ran = run(&scratch).expect_code(0);
    assert_eq!(judge::lines(&scratch.path("out")).expect("output"), ["name-of-1", "name-of-3"]);
    let seen = server.seen();
    assert!(seen.len() >= 3, "{seen:?}");
    for head in &seen {
        assert!(head.iter().any(|line| line.eq_ignore_ascii_case("authorization: bearer hunter2")), "{head:?}");
    }
    let told = [checked.stdout, checked.stderr, ran.stdout, ran.stderr].concat();
    assert!(!told.contains("hunter2"), "{told}");
    for (path, bytes) in picture(&scratch.path("data")) {
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"), "{path}");
    }
}

#[test]
fn a_redirection_does_not_lead_to_another_origin() {
    let other = Server::start(|_| (200, String::new(), "stolen".to_owned()));
    let elsewhere = format!("Location: http://{}/\r\n", other.address);
    let server = Server::start(move |_| (302, elsewhere.clone(), String::new()));
    let scratch = ask(&format!("http = {{ names = \"http://{}\" }}", server.address));
    run(&scratch).expect_code(1).expect_text(&["the origin answers 302"]);
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

#[test]
fn what_is_not_granted_is_not_asked() {
    let server = Server::start(|_| (200, String::new(), "an answer".to_owned()));
    for grants in ["".to_owned(), format!("http = {{ others = \"http://{}\" }}", server.address)] {
        run(&ask(&grants)).expect_code(1).expect_text(&["no origin `names` is granted", "grants.http"]);
    }
    assert!(server.seen().is_empty(), "{:?}", server.seen());
}

#[test]
fn an_origin_that_is_silent_is_given_up() {
    // It accepts, and answers nothing.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    let scratch = ask(&format!("http = {{ names = {{ origin = \"http://{address}\", timeout = \"200ms\" }} }}"));
    run(&scratch).expect_code(1).expect_text(&[&format!("http://{address}: "), "timeout"]);
}
