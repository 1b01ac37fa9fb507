//! A real broker for the end-to-end tests, the orders job on it, and a judge of what a `read_committed` reader sees.

use crate::process::{Ended, Running};
use crate::scratch::Scratch;
use crate::{guest, repository};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Partitions of every topic.
pub const PARTITIONS: i32 = 4;
/// Enough for a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Slow enough that each life of the orders job has some checkpoints before it is killed, at short intervals.
pub const SLOW: &[(&str, &str)] =
    &[("interval = \"500ms\"", "interval = \"100ms\""), ("topic = \"${IN:-orders}\"", "topic = \"${IN:-orders}\"\nrate = 12000")];

/// A record with all that Kafka's can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaRecord {
    /// Where it lies.
    pub partition: i32,
    /// None: null.
    pub key: Option<String>,
    /// None: null.
    pub value: Option<String>,
    /// Its timestamp, ms since the Unix epoch.
    pub time: i64,
    /// Names and values; none: null.
    pub headers: Vec<(String, Option<String>)>,
}

impl KafkaRecord {
    /// The value of its first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name)?.1.as_deref()
    }
}

/// A broker of its own, which ends with this process, however it ends.
pub struct Broker {
    port: u16,
    guard: Option<Child>,
    state: PathBuf,
    properties: Vec<String>,
    environment: Option<(&'static str, &'static str)>,
}

/// The one that most tests share.
pub fn broker() -> &'static Broker {
    static SHARED: OnceLock<Broker> = OnceLock::new();
    SHARED.get_or_init(Broker::start)
}

impl Broker {
    /// Starts one with a fresh folder.
    pub fn start() -> Self {
        Self::start_with(None, &[])
    }

    /// The same with a variable for tests/kafka/up.sh, and with properties over those of tests/kafka/server.properties.
    pub fn start_with(environment: Option<(&'static str, &'static str)>, properties: &[&str]) -> Self {
        let state = tempfile::Builder::new().prefix("weir-kafka-").tempdir().expect("a folder can be made").keep();
        let scripts = repository().join("tests/kafka");
        // Not an end of this process that we are told of: it may be killed.
        let script = "trap '' INT TERM HUP; cat >/dev/null; \"$1\" \"$2\" KILL; rm -rf \"$2\"";
        let guard = Command::new("bash")
            .args(["-c", script, "guard"])
            .args([scripts.join("down.sh"), state.clone()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash can be started");
        // After a crash it waits until the cluster has given up its former self.
        let soon = ["broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"];
        let properties = soon.iter().chain(properties).map(ToString::to_string).collect();
        let mut broker = Broker { port: 0, guard: Some(guard), state, properties, environment };
        broker.up();
        let port = std::fs::read_to_string(broker.state.join("port")).expect("up.sh says which it chose");
        broker.port = port.trim().parse().expect("a number");
        broker
    }

    /// Starts it again with its data.
    pub fn up(&self) {
        let up = repository().join("tests/kafka/up.sh");
        let mut command = Command::new(up);
        command.arg(&self.state).arg("free").args(&self.properties).envs(self.environment);
        let run = command.stdin(Stdio::null()).output();
        let run = run.expect("up.sh can be started");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }

    /// Kills it.
    pub fn kill(&self) {
        let down = repository().join("tests/kafka/down.sh");
        assert!(Command::new(down).arg(&self.state).arg("KILL").status().expect("down.sh can be started").success());
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = std::fs::read_to_string(self.state.join("pid")).expect("it runs");
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("it is not zero");
        rustix::process::kill_process(pid, signal).expect("it is ours");
    }

    /// For `brokers`.
    pub fn address(&self) -> String {
        self.address_of(0)
    }

    /// Of another listener: 2 speaks SASL_SSL, 3 TLS, if it was started with `KAFKA_SASL`.
    pub fn address_of(&self, listener: u16) -> String {
        format!("127.0.0.1:{}", self.port + listener)
    }

    /// A file that tests/kafka/security.sh has made.
    pub fn security(&self, file: &str) -> String {
        self.state.join("security").join(file).display().to_string()
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.address());
        config
    }

    /// Makes a topic, and waits until each of its partitions has a leader.
    pub fn create(&self, topic: &str) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("the settings are right");
        let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
        let made = run(admin.create_topics([&new], &AdminOptions::new().request_timeout(Some(PATIENCE))));
        made.expect("the broker answers").remove(0).expect("the topic can be made");
    }

    /// Names of all topics.
    pub fn topics(&self) -> Vec<String> {
        let consumer: BaseConsumer = self.client().create().expect("the settings are right");
        let metadata = consumer.fetch_metadata(None, PATIENCE).expect("the broker answers");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// Adds partitions to a topic.
    pub fn grow(&self, topic: &str, partitions: usize) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("the settings are right");
        let more = rdkafka::admin::NewPartitions::new(topic, partitions);
        let made = run(admin.create_partitions([&more], &AdminOptions::new().request_timeout(Some(PATIENCE))));
        made.expect("the broker answers").remove(0).expect("the topic can grow");
    }

    /// Writes records of (partition, key, value, event time in ms since the Unix epoch), in small batches, so that a reader can take
    /// turns between partitions.
    pub fn write_at(&self, topic: &str, records: impl IntoIterator<Item = (i32, String, String, i64)>) {
        let producer: BaseProducer =
            self.client().set("acks", "all").set("batch.num.messages", "100").create().expect("the settings are right");
        for (partition, key, value, time) in records {
            let mut record = BaseRecord::to(topic).partition(partition).key(&key).payload(&value).timestamp(time);
            while let Err((_, back)) = producer.send(record) {
                record = back;
                producer.poll(Duration::from_millis(10));
            }
        }
        producer.flush(PATIENCE).expect("all is acknowledged");
    }

    /// Writes records of (partition, key, value).
    pub fn write(&self, topic: &str, records: impl IntoIterator<Item = (i32, String, String)>) {
        let producer: BaseProducer = self.client().set("acks", "all").create().expect("the settings are right");
        for (partition, key, value) in records {
            let mut record = BaseRecord::to(topic).partition(partition).key(&key).payload(&value);
            while let Err((_, back)) = producer.send(record) {
                record = back;
                producer.poll(Duration::from_millis(10));
            }
        }
        producer.flush(PATIENCE).expect("all is acknowledged");
    }

    /// Writes records, each with its timestamp.
    pub fn write_records(&self, topic: &str, records: &[KafkaRecord]) {
        let producer: BaseProducer = self.client().set("acks", "all").create().expect("the settings are right");
        for KafkaRecord { partition, key, value, time, headers } in records {
            let mut list = OwnedHeaders::new_with_capacity(headers.len());
            for (name, value) in headers {
                list = list.insert(Header { key: name, value: value.as_ref() });
            }
            let mut record: BaseRecord<'_, str, str> = BaseRecord::to(topic).partition(*partition).timestamp(*time).headers(list);
            record.key = key.as_deref();
            record.payload = value.as_deref();
            while let Err((_, back)) = producer.send(record) {
                record = back;
                producer.poll(Duration::from_millis(10));
            }
        }
        producer.flush(PATIENCE).expect("all is acknowledged");
    }

    /// Takes a transactional id: what is open under it is aborted, as the coordinator itself does once its time has passed.
    pub fn take_id(&self, id: &str) {
        let producer: BaseProducer = self.client().set("transactional.id", id).create().expect("the settings are right");
        producer.init_transactions(PATIENCE).expect("the id can be taken");
    }

    /// All records of a topic that are committed, as (partition, key, value), in the order of each partition.
    pub fn read(&self, topic: &str) -> Vec<(i32, String, String)> {
        let records = self.read_records(topic).into_iter();
        records.map(|record| (record.partition, record.key.unwrap_or_default(), record.value.unwrap_or_default())).collect()
    }

    /// The same with all that they have.
    pub fn read_records(&self, topic: &str) -> Vec<KafkaRecord> {
        let mut config = self.client();
        config.set("group.id", "judge").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = config.create().expect("the settings are right");
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("the broker answers");
        let partitions: Vec<i32> = metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect();
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            list.add_partition_offset(topic, *partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&list).expect("assigned");
        let (mut records, mut ended) = (Vec::new(), 0);
        let begun = Instant::now();
        while ended < partitions.len() {
            assert!(begun.elapsed() < PATIENCE, "{topic} is not read to its end: is a transaction open?");
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                // It gives up the connection that it began with, and says this where the next one takes long: a busy machine. It goes
                // on by itself, or PATIENCE ends.
                Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AllBrokersDown))) => {}
                Some(Err(error)) => panic!("{topic}: {error}"),
                Some(Ok(message)) => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                    let headers = message.headers().into_iter().flat_map(|all| all.iter());
                    records.push(KafkaRecord {
                        partition: message.partition(),
                        key: message.key().map(text),
                        value: message.payload().map(text),
                        time: message.timestamp().to_millis().expect("a record has a timestamp"),
                        headers: headers.map(|header| (header.key.to_owned(), header.value.map(text))).collect(),
                    });
                }
            }
        }
        records
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

/// Runs a future of librdkafka's, which is woken by threads of its own.
fn run<T>(future: impl Future<Output = T>) -> T {
    struct Wake(std::thread::Thread);
    impl std::task::Wake for Wake {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Wake(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(done) => return done,
            std::task::Poll::Pending => std::thread::park_timeout(Duration::from_millis(50)),
        }
    }
}

/// The orders job in a scratch folder, with topics of its own.
pub struct OrdersCase<'b> {
    /// Its folder.
    pub scratch: Scratch,
    /// Where its topics are.
    pub broker: &'b Broker,
    /// Its name, which names its topics.
    pub name: String,
}

impl<'b> OrdersCase<'b> {
    /// Makes topics and a job file from the example's, with these replacements.
    pub fn new(broker: &'b Broker, name: &str, replacements: &[(&str, &str)]) -> Self {
        let case = OrdersCase { scratch: Scratch::new(), broker, name: name.to_owned() };
        broker.create(&case.input());
        broker.create(&case.output());
        case.write_job("job.toml", replacements);
        case
    }

    /// Writes a job file from the example's.
    pub fn write_job(&self, file: &str, replacements: &[(&str, &str)]) {
        let example = repository().join("examples/orders/job.toml");
        let mut text = std::fs::read_to_string(example).expect("the example is there");
        let plugin = guest("running_balance").display().to_string();
        let named = format!("name = \"{}\"\nparallelism", self.name);
        let own =
            [("../../guests/out/running_balance.wasm", plugin.as_str()), ("name = \"orders\"\nparallelism", named.as_str())];
        for (old, new) in own.iter().chain(replacements) {
            assert!(text.contains(old), "the example has no {old}");
            text = text.replace(old, new);
        }
        self.scratch.write(file, text);
    }

    /// The topic that is read.
    pub fn input(&self) -> String {
        format!("in-{}", self.name)
    }

    /// The topic that is written.
    pub fn output(&self) -> String {
        format!("out-{}", self.name)
    }

    /// Writes orders `from..to` of 50 accounts.
    pub fn fill(&self, orders: std::ops::Range<u64>) {
        self.broker.write(
            &self.input(),
            orders.map(|id| {
                let (account, amount) = (id * 7919 % 50, (id * 31 % 2001) as i64 - 500);
                let value = format!(r#"{{"id":{id},"account":"a{account}","amount":{amount}}}"#);
                ((account % PARTITIONS as u64) as i32, format!("a{account}"), value)
            }),
        );
    }

    /// Starts a run to the end of the input.
    pub fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let arguments: Vec<&str> = ["run", "job.toml", "--data", "data"].iter().chain(arguments).copied().collect();
        self.start_weir(&arguments, variables)
    }

    /// Another command of weir's, to its end.
    pub fn weir(&self, arguments: &[&str]) -> Ended {
        self.start_weir(arguments, &[]).finish()
    }

    fn start_weir(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let (input, output, brokers) = (self.input(), self.output(), self.broker.address());
        let own = [("IN", input.as_str()), ("OUT", &output), ("BROKERS", &brokers), ("UNTIL", "end")];
        let variables: Vec<(&str, &str)> = own.iter().chain(variables).copied().collect();
        Running::start(self.scratch.folder(), arguments, &variables)
    }

    /// Holds the output against the input: for each account every order once, in order, with the running balance.
    pub fn judge(&self) -> Result<(), String> {
        self.judge_up_to(None)
    }

    /// The same for a job that was stopped before the end of its input: each account's first orders, without a gap.
    pub fn judge_prefix(&self) -> Result<(), String> {
        self.judge_up_to(Some(1))
    }

    /// `least`: accounts may have fewer bookings than orders; all of them together have so many at least.
    fn judge_up_to(&self, least: Option<usize>) -> Result<(), String> {
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut balances: BTreeMap<String, i64> = BTreeMap::new();
        for (_, key, value) in self.broker.read(&self.input()) {
            let order: serde_json::Value = serde_json::from_str(&value).map_err(|error| format!("{value}: {error}"))?;
            let balance = balances.entry(key.clone()).or_default();
            *balance += order["amount"].as_i64().ok_or("an order without an amount")?;
            let open = value.strip_suffix('}').ok_or("no object")?;
            wanted.entry(key).or_default().push(format!("{open},\"balance\":{balance}}}"));
        }
        let mut got: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, key, value) in self.broker.read(&self.output()) {
            got.entry(key).or_default().push(value);
        }
        if wanted.is_empty() {
            return Err("there is no input: nothing is proven".to_owned());
        }
        let mut booked = 0;
        for (account, wanted) in &wanted {
            let got = got.remove(account).unwrap_or_default();
            booked += got.len();
            let wanted = if least.is_some() { &wanted[..got.len().min(wanted.len())] } else { &wanted[..] };
            if let Some(at) = (0..wanted.len().max(got.len())).find(|at| wanted.get(*at) != got.get(*at)) {
                let (want, got) = (wanted.get(at), got.get(at));
                return Err(format!("account {account}, booking {at}: {want:?} is wanted, {got:?} is there"));
            }
        }
        if booked < least.unwrap_or(0) {
            return Err("nothing is booked: nothing is proven".to_owned());
        }
        if got.is_empty() { Ok(()) } else { Err(format!("accounts that nobody has ordered for: {:?}", got.keys())) }
    }
}
