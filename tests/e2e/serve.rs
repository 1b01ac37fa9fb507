//! The daemon: jobs side by side in one process, asked by its clients and over HTTP, resumed after its end and after a kill.

use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::guest;
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::Scratch;

/// A daemon on a free port, with a home of its own.
struct Daemon {
    scratch: Scratch,
    running: Option<Running>,
}

impl Daemon {
    fn start() -> Self {
        let mut daemon = Daemon { scratch: Scratch::new(), running: None };
        daemon.again();
        daemon
    }

    /// Starts it on the same home.
    fn again(&mut self) {
        let home = self.home();
        let arguments = ["serve", "--home", &home, "--listen", "127.0.0.1:0"];
        let mut running = Running::start(self.scratch.folder(), &arguments, &[]);
        // What a killed one has left names another port.
        let pid = running.pid().to_string();
        let holder = self.scratch.path("home/lock");
        running.wait_until("it has its home", || std::fs::read_to_string(&holder).is_ok_and(|text| text.contains(&pid)));
        running.wait_until("it answers", || self.get("/openapi.json").is_some());
        self.running = Some(running);
    }

    fn home(&self) -> String {
        self.scratch.path("home").display().to_string()
    }

    fn token(&self) -> String {
        std::fs::read_to_string(self.scratch.path("home/token")).expect("it has one").trim().to_owned()
    }

    /// Asks it as a user does.
    fn weir(&self, arguments: &[&str]) -> Ended {
        let home = self.home();
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--home", &home]).collect();
        Running::start(self.scratch.folder(), &arguments, &[]).finish()
    }

    fn submit(&self, case: &FlightsCase) -> Ended {
        let (job, data) = (case.scratch.path("job.toml"), case.scratch.path("data"));
        self.weir(&["submit", &job.display().to_string(), "--data", &data.display().to_string()])
    }

    fn status(&self, name: &str) -> serde_json::Value {
        let shown = self.weir(&["status", name, "--json"]).expect_code(0);
        serde_json::from_str(&shown.stdout).expect("it is JSON")
    }

    fn wait_until(&mut self, what: &str, happened: impl Fn(&Self) -> bool) {
        let mut running = self.running.take().expect("it runs");
        running.wait_until(what, || happened(self));
        self.running = Some(running);
    }

    fn get(&self, path: &str) -> Option<String> {
        self.http(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// The whole answer to a request; none: nobody listens.
    fn http(&self, request: &str) -> Option<String> {
        let address = std::fs::read_to_string(self.scratch.path("home/address")).ok()?;
        let mut stream = TcpStream::connect(address.trim().strip_prefix("http://")?).ok()?;
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers with text");
        Some(answer)
    }

    fn request(&self, method: &str, path: &str, token: &str, body: &str) -> String {
        let length = body.len();
        self.http(&format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .expect("it listens")
    }

    fn signal(&mut self, signal: Signal) -> Ended {
        let running = self.running.take().expect("it runs");
        running.signal(signal);
        running.finish()
    }
}

fn named(name: &str, options: FlightsOptions) -> FlightsCase {
    let case = FlightsCase::new(options);
    case.edit(&[("[job]\nname = \"flights\"", &format!("[job]\nname = \"{name}\""))]);
    case
}

fn short() -> FlightsOptions {
    FlightsOptions { rows: 3_000, rate: Some(3_000), ..FlightsOptions::default() }
}

#[test]
fn jobs_run_side_by_side_and_a_plugin_that_goes_wrong_ends_its_own_job_only() {
    let mut daemon = Daemon::start();
    let (one, two) = (named("one", short()), named("two", FlightsOptions { parallelism: 2, ..short() }));
    // An operator of the same name as that of its neighbours, from another file.
    let bad = Scratch::new();
    let job = |action: &str| {
        let plugin = guest("misbehave").display().to_string();
        bad.write(
            "job.toml",
            format!(
                "[job]\nname = \"bad\"\n[restart]\nstrategy = \"none\"\n[[source]]\nname = \"in\"\nconnector = \"sequence\"\ncount = 1000000\nrate = 1000\n\
                 [[operator]]\nname = \"parse\"\nplugin = \"{plugin}\"\nfrom = \"in\"\nconfig = {{ on = \"1\", do = \"{action}\" }}\n\
                 limits = {{ call = \"100ms\" }}\n[[sink]]\nname = \"out\"\nconnector = \"discard\"\nfrom = \"parse\"\n"
            ),
        )
    };
    daemon.submit(&one).expect_code(0).expect_text(&["job 'one' is running"]);
    daemon.submit(&two).expect_code(0);
    for (action, why) in [
        ("trap", "trap, as configured"),
        ("loop", "limits.call"),
        ("memory", "limits.memory"),
        ("recurse", "out of bounds memory access"),
    ] {
        let path = job(action).display().to_string();
        daemon.weir(&["submit", &path]);
        daemon.wait_until("the bad one has failed", |daemon| daemon.status("bad")["phase"] == "ended");
        let status = daemon.status("bad");
        assert_eq!(status["outcome"]["outcome"], "failed", "{status}");
        assert!(status["message"].as_str().is_some_and(|message| message.contains(why)), "{status}");
    }
    for case in [("one", &one), ("two", &two)] {
        daemon.wait_until("it has finished", |daemon| daemon.status(case.0)["phase"] == "ended");
        assert_eq!(daemon.status(case.0)["outcome"]["outcome"], "finished");
        case.1.judge().expect("its output is exact");
    }
    let list = daemon.weir(&["list"]).expect_code(0);
    for line in ["bad   failed", "one   finished", "two   finished"] {
        assert!(list.stdout.contains(line), "'{line}' is missing:\n{}", list.stdout);
    }
    daemon.weir(&["remove", "bad"]).expect_code(0).expect_text(&["forgotten"]);
    daemon.weir(&["status", "bad"]).expect_code(2).expect_text(&["job 'bad'", "none of that name"]);
    daemon.signal(Signal::TERM).expect_code(0);
}

#[test]
fn a_daemon_that_ends_or_is_killed_resumes_its_jobs() {
    let mut daemon = Daemon::start();
    let case = named("long", FlightsOptions { rows: 9_000, rate: Some(3_000), ..FlightsOptions::default() });
    daemon.submit(&case).expect_code(0);
    daemon.wait_until("something is committed", |_| !case.parts().is_empty());
    daemon.signal(Signal::TERM).expect_code(0).expect_text(&["job 'long' is stopped"]);
    daemon.again();
    let parts = case.parts().len();
    daemon.wait_until("more is committed", |_| case.parts().len() > parts);
    daemon.signal(Signal::KILL);
    daemon.again();
    daemon.wait_until("it has finished", |daemon| daemon.status("long")["phase"] == "ended");
    assert_eq!(daemon.status("long")["outcome"]["outcome"], "finished");
    case.judge().expect("its output is exact");
    // What has ended by itself is not started again, and how it ended is known.
    daemon.signal(Signal::INT).expect_code(0);
    daemon.again();
    let status = daemon.status("long");
    assert_eq!(
        (&status["phase"], &status["wanted"], &status["outcome"]["outcome"]),
        (&"ended".into(), &false.into(), &"finished".into())
    );
}

#[test]
fn a_stopped_job_goes_on_when_it_is_submitted_again() {
    let mut daemon = Daemon::start();
    let case = named("paused", FlightsOptions { rows: 6_000, rate: Some(3_000), ..FlightsOptions::default() });
    daemon.submit(&case).expect_code(0);
    daemon.submit(&case).expect_code(2).expect_text(&["a job of that name runs here", "weir stop paused"]);
    daemon.weir(&["remove", "paused"]).expect_code(2).expect_text(&["stop it first"]);
    daemon.wait_until("something is committed", |_| !case.parts().is_empty());
    daemon.weir(&["stop", "paused"]).expect_code(0).expect_text(&["is stopped: all output up to checkpoint"]);
    daemon.weir(&["stop", "paused"]).expect_code(2).expect_text(&["does not run"]);
    daemon.submit(&case).expect_code(0);
    daemon.weir(&["stop", "paused", "--now"]).expect_code(0).expect_text(&["was stopped at once"]);
    daemon.submit(&case).expect_code(0);
    daemon.wait_until("it has finished", |daemon| daemon.status("paused")["phase"] == "ended");
    case.judge().expect("its output is exact");
    daemon.submit(&case).expect_code(0).expect_text(&["had finished before"]);
}

#[test]
fn what_a_daemon_does_not_take_it_refuses_with_its_reason() {
    let daemon = Daemon::start();
    let home = daemon.home();
    let second = Running::start(daemon.scratch.folder(), &["serve", "--home", &home, "--listen", "127.0.0.1:0"], &[]).finish();
    let pid = daemon.running.as_ref().expect("it runs").pid();
    second.expect_code(2).expect_text(&["is in use by", &pid.to_string(), "another --home"]);
    let outside = Running::start(daemon.scratch.folder(), &["serve", "--home", "other", "--listen", "0.0.0.0:0"], &[]).finish();
    outside.expect_code(2).expect_text(&["no address of this machine alone", "TLS"]);

    let broken = daemon.scratch.write("broken.toml", "[job]\nname = \"broken\"\nparalellism = 2\n");
    daemon.weir(&["submit", &broken.display().to_string()]).expect_code(2).expect_text(&["paralellism", "parallelism"]);
    let plugin = daemon.scratch.write("bad.wasm", "no component");
    let text = format!(
        "[job]\nname = \"bad\"\n[[source]]\nname = \"in\"\nconnector = \"sequence\"\ncount = 10\n[[operator]]\nname = \"op\"\nplugin = \"{}\"\nfrom = \"in\"\n\
         [[sink]]\nname = \"out\"\nconnector = \"discard\"\nfrom = \"op\"\n",
        plugin.display()
    );
    let bad = daemon.scratch.write("bad.toml", text);
    daemon.weir(&["submit", &bad.display().to_string()]).expect_code(2).expect_text(&["bad.wasm", "refused: 1 problem"]);
    daemon.weir(&["submit", "missing.toml"]).expect_code(2).expect_text(&["missing.toml"]);
    daemon.weir(&["stop", "job.toml"]).expect_code(2).expect_text(&["no name of a job"]);

    let starts = |answer: &str, status: &str, text: &str| {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(text), "{answer}");
    };
    starts(&daemon.get("/v1/jobs").expect("it answers"), "401", "token");
    starts(&daemon.request("GET", "/v1/jobs", "0000", ""), "401", "token");
    let token = daemon.token();
    starts(&daemon.request("GET", "/v1/jobs", &token, ""), "200", "bad");
    starts(&daemon.request("GET", "/v1/jops", &token, ""), "404", "openapi.json");
    starts(&daemon.request("PUT", "/v1/jobs", &token, "{}"), "404", "there is no PUT");
    starts(&daemon.request("POST", "/v1/jobs", &token, "{"), "400", "request body");
    starts(&daemon.request("POST", "/v1/jobs", &token, "{\"job\": \"x\"}"), "422", "unknown field");
    starts(&daemon.request("POST", "/v1/jobs", &token, "{\"job_file\": \"x.toml\"}"), "422", "no absolute path");

    let document = daemon.get("/openapi.json").expect("it answers");
    let (_, body) = document.split_once("\r\n\r\n").expect("a body follows");
    let document: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
    let paths: Vec<&String> = document["paths"].as_object().expect("it has paths").keys().collect();
    assert_eq!(paths, ["/v1/jobs", "/v1/jobs/{name}", "/v1/jobs/{name}/end", "/v1/jobs/{name}/stop", "/v1/jobs/{name}/swap"]);
    assert!(document["components"]["schemas"]["JobStatus"]["properties"]["phase"].is_object(), "{document}");

    let nobody = Running::start(daemon.scratch.folder(), &["list", "--home", "nowhere"], &[]).finish();
    nobody.expect_code(2).expect_text(&["no daemon runs there", "weir serve"]);
}

#[test]
fn a_client_of_a_killed_daemon_hears_that_it_is_gone() {
    let mut daemon = Daemon::start();
    daemon.signal(Signal::KILL);
    daemon.weir(&["list"]).expect_code(2).expect_text(&["no daemon runs there", "weir serve"]);
}

/// Two builds of one operator: in Rust and in C, on the same state.
#[test]
fn a_plugin_is_exchanged_in_a_job_of_the_daemon() {
    let mut daemon = Daemon::start();
    let case = named("swapped", FlightsOptions { rows: 9_000, rate: Some(3_000), ..FlightsOptions::default() });
    daemon.submit(&case).expect_code(0);
    daemon.wait_until("something is committed", |_| !case.parts().is_empty());
    let token = daemon.token();
    let body = |plugin: &str| format!("{{\"operator\": \"stats\", \"plugin\": \"{}\", \"wait\": true}}", guest(plugin).display());
    let refused = daemon.request("POST", "/v1/jobs/swapped/swap", &token, &body("file_sink"));
    assert!(refused.starts_with("HTTP/1.1 422 ") && refused.contains("operator 'stats'"), "{refused}");
    let swapped = daemon.request("POST", "/v1/jobs/swapped/swap", &token, &body("carrier_stats_c"));
    let said = ["staged", "exchanged", "passed"].map(|event| swapped.find(&format!("\"event\":\"{event}\"")));
    assert!(swapped.starts_with("HTTP/1.1 200 ") && said.is_sorted() && said[0].is_some(), "{swapped}");
    daemon.wait_until("it has finished", |daemon| daemon.status("swapped")["phase"] == "ended");
    case.judge().expect("its output is exact");
    let ended = daemon.request("POST", "/v1/jobs/swapped/swap", &token, &body("carrier_stats"));
    assert!(ended.starts_with("HTTP/1.1 409 ") && ended.contains("does not run"), "{ended}");
}

/// Neither half a request, nor a job file without an end, keeps a daemon from ending.
#[test]
fn a_daemon_ends_whatever_its_clients_do() {
    let mut daemon = Daemon::start();
    let address = std::fs::read_to_string(daemon.scratch.path("home/address")).expect("it listens");
    let mut half = TcpStream::connect(address.trim().strip_prefix("http://").expect("an address")).expect("it listens");
    half.write_all(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n").expect("it reads");
    let endless = daemon.scratch.path("endless.toml");
    let made = std::process::Command::new("mkfifo").arg(&endless).status().expect("mkfifo is there");
    assert!(made.success());
    let body = format!("{{\"job_file\": \"{}\"}}", endless.display());
    let request = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        daemon.token(),
        body.len()
    );
    let mut waits = TcpStream::connect(address.trim().strip_prefix("http://").expect("an address")).expect("it listens");
    waits.write_all(request.as_bytes()).expect("it reads");
    daemon.wait_until("it has heard both", |daemon| daemon.get("/openapi.json").is_some());
    daemon.signal(Signal::TERM).expect_code(0);
    drop((half, waits));
}

/// What can't be read among its records keeps no other job from being resumed.
#[test]
fn a_damaged_record_is_told_and_keeps_no_other_job() {
    let mut daemon = Daemon::start();
    let case = named("long", FlightsOptions { rows: 6_000, rate: Some(3_000), ..FlightsOptions::default() });
    daemon.submit(&case).expect_code(0);
    daemon.wait_until("something is committed", |_| !case.parts().is_empty());
    daemon.signal(Signal::KILL);
    daemon.scratch.write("home/jobs/bad.json", [0xff, 0]);
    daemon.again();
    daemon.wait_until("it has finished", |daemon| daemon.status("long")["phase"] == "ended");
    case.judge().expect("its output is exact");
    daemon.signal(Signal::TERM).expect_code(0).expect_text(&["bad.json", "is no record of a job"]);
}
