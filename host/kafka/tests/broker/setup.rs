//! Brokers that start on free ports with fresh folders, and end with this process, however it ends.

use crate::writer::Writer;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use weir_kafka::{Settings, TransactionAdmin};

/// Enough for a machine that does other things too.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// A broker of its own.
pub struct Broker {
    /// Port of the plain listener; the one after the next speaks SASL_SSL, the one after that TLS with client certificates.
    pub port: u16,
    state: PathBuf,
    properties: Vec<String>,
    /// What up.sh is told by its environment.
    environment: (&'static str, String),
    /// Stops the broker when its standard input ends: with this process, or when this is dropped.
    guard: Option<Child>,
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kafka")
}

impl Broker {
    /// Starts one with properties over those of tests/kafka/server.properties.
    pub fn start(properties: &[&str]) -> Self {
        Self::start_in(("KAFKA_SASL", "1".to_owned()), properties)
    }

    /// Starts another one in the same cluster, with a plain listener only.
    pub fn join(&self, node: i32, properties: &[&str]) -> Self {
        let node = format!("node.id={node}");
        let properties: Vec<&str> = properties.iter().copied().chain([node.as_str()]).collect();
        Self::start_in(("KAFKA_JOIN", self.port.to_string()), &properties)
    }

    fn start_in(environment: (&'static str, String), properties: &[&str]) -> Self {
        let state = tempfile::Builder::new().prefix("weir-kafka-").tempdir().expect("a folder can be made").keep();
        let down = scripts().join("down.sh");
        // Not an end of this process that we are told of: it may be killed.
        let script = "trap '' INT TERM HUP; cat >/dev/null; \"$1\" \"$2\" KILL; rm -rf \"$2\"";
        let guard = Command::new("bash")
            .args(["-c", script, "guard"])
            .args([&down, &state])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash can be started");
        let properties = properties.iter().map(ToString::to_string).collect();
        let mut broker = Broker { port: 0, state, properties, environment, guard: Some(guard) };
        broker.up();
        let port = std::fs::read_to_string(broker.state.join("port")).expect("up.sh says which it chose");
        broker.port = port.trim().parse().expect("a number");
        broker
    }

    /// Starts it again with its data, or does nothing if it runs.
    pub fn up(&self) {
        let run = Command::new(scripts().join("up.sh"))
            .arg(&self.state)
            .arg("free")
            .args(&self.properties)
            .env(self.environment.0, &self.environment.1)
            .stdin(Stdio::null())
            .output()
            .expect("up.sh can be started");
        let log = std::fs::read_to_string(self.state.join("broker.log")).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(20).collect();
        assert!(run.status.success(), "{}\n{}", String::from_utf8_lossy(&run.stderr), end.join("\n"));
    }

    /// Stops it: TERM in order, KILL as a crash would.
    pub fn down(&self, signal: &str) {
        let run = Command::new(scripts().join("down.sh")).arg(&self.state).arg(signal).status().expect("down.sh can be started");
        assert!(run.success());
    }

    /// A client of the plain listener.
    pub fn admin(&self) -> TransactionAdmin {
        self.admin_with(self.port, &[])
    }

    /// A client with more properties.
    pub fn admin_with(&self, port: u16, more: &[(&str, &str)]) -> TransactionAdmin {
        TransactionAdmin::new(self.settings(port, more)).expect("the files are right")
    }

    pub fn settings(&self, port: u16, more: &[(&str, &str)]) -> Settings {
        let servers = format!("127.0.0.1:{port}");
        let properties = [("bootstrap.servers", servers.as_str())].into_iter().chain(more.iter().copied());
        Settings::from_properties(properties).expect("the settings are right")
    }

    /// A producer of the plain listener.
    pub fn writer(&self) -> Writer {
        Writer::connect(self.port)
    }

    /// A file of tests/kafka/security.sh.
    pub fn security(&self, file: &str) -> String {
        self.state.join("security").join(file).to_str().expect("the folder's name is UTF-8").to_owned()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            drop(guard.wait());
        }
    }
}

/// The broker that most tests share. Users without a rule may do nothing.
pub fn shared() -> &'static Broker {
    static SHARED: OnceLock<Broker> = OnceLock::new();
    SHARED.get_or_init(|| {
        Broker::start(&[
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS;User:plain-user;User:scram-user;User:CN=weir-client",
        ])
    })
}
