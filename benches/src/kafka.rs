//! Kafka to Kafka on a real broker: Weir's jobs, and a bare loop over the same client library that does nothing else.
//!
//! The broker is another process, so that the CPU time of this one is the client's.

use crate::flink::{self, NotRun};
use crate::{Cost, Flavor, cpu_now, guest, job_in, run_to_end, runtime};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_host::connectors::sequence::{key_number, write_value};
use weir_host::job::{JobOutcome, Runtime, StopRequest, stop_pair};
use weir_tests::kafka::Broker;

/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two commits of the bare loop, and of Weir's jobs.
const INTERVAL: Duration = Duration::from_secs(1);

/// A broker with a topic of records like connector `sequence`'s.
pub struct Bench {
    broker: Broker,
    records: u64,
    /// Numbers output topics.
    topics: std::cell::Cell<u32>,
}

/// What a Weir job does between its topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Source to sink, without an operator.
    Copy {
        /// Of the sink.
        exactly_once: bool,
    },
    /// Counts by key over RocksDB, exactly once.
    Count(Flavor),
}

impl Job {
    fn is_exactly_once(self) -> bool {
        match self {
            Job::Copy { exactly_once } => exactly_once,
            Job::Count(_) => true,
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_millis() as u64
}

fn client(broker: &Broker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address());
    config
}

/// As Weir's own producers are set, but for what makes transactions end.
fn producer(broker: &Broker, transactional_id: Option<&str>) -> BaseProducer {
    let mut config = client(broker);
    config.set("acks", "all").set("enable.idempotence", "true").set("compression.type", "lz4").set("linger.ms", "5");
    config.set("batch.size", "1000000").set("batch.num.messages", "10000");
    config.set("queue.buffering.max.messages", "500000").set("queue.buffering.max.kbytes", "65536");
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    let producer: BaseProducer = config.create().expect("the settings are right");
    if transactional_id.is_some() {
        producer.init_transactions(PATIENCE).expect("the broker answers");
        producer.begin_transaction().expect("it is initialised");
    }
    producer
}

fn send(producer: &BaseProducer, topic: &str, partition: Option<i32>, key: &[u8], value: &[u8]) {
    let mut record = BaseRecord::to(topic).key(key).payload(value);
    record.partition = partition;
    while let Err((_, back)) = producer.send(record) {
        record = back;
        producer.poll(Duration::from_millis(5));
    }
}

impl Bench {
    /// Starts a broker and fills a topic of four partitions with so many records of two million keys.
    pub fn start(records: u64) -> Self {
        let bench = Bench { broker: Broker::start(), records, topics: std::cell::Cell::new(0) };
        bench.broker.create("in");
        let producer = producer(&bench.broker, None);
        let mut value = [0; VALUE_BYTES];
        for i in 0..records {
            write_value(&mut value, i);
            send(&producer, "in", Some((i % 4) as i32), &key_number(7, 2_000_000, i).to_le_bytes(), &value);
            if i.is_multiple_of(1024) {
                producer.poll(Duration::ZERO);
            }
        }
        producer.flush(PATIENCE).expect("all is acknowledged");
        bench
    }

    fn output(&self) -> String {
        self.topics.set(self.topics.get() + 1);
        let topic = format!("out-{}", self.topics.get());
        self.broker.create(&topic);
        topic
    }

    fn reader(&self, topic: &str, isolation: &str, from: Offset) -> BaseConsumer {
        let mut config = client(&self.broker);
        config.set("group.id", "bench").set("enable.auto.commit", "false").set("isolation.level", isolation);
        let consumer: BaseConsumer = config.create().expect("the settings are right");
        let mut list = TopicPartitionList::new();
        for partition in 0..weir_tests::kafka::PARTITIONS {
            list.add_partition_offset(topic, partition, from).expect("an offset");
        }
        consumer.assign(&list).expect("assigned");
        consumer
    }

    /// Reads the topic and writes each record to another one: what any program on this library costs at least.
    ///
    /// # Panics
    /// If the broker does not answer.
    pub fn bare_loop(&self, transactions: bool) -> Cost {
        let output = self.output();
        let (wall, cpu) = (Instant::now(), cpu_now());
        let consumer = self.reader("in", "read_committed", Offset::Beginning);
        let id = format!("bare-{output}");
        let producer = producer(&self.broker, transactions.then_some(id.as_str()));
        let group = consumer.group_metadata().expect("it has a group");
        let mut left = self.records;
        let mut begun = Instant::now();
        while left > 0 {
            let record = consumer.poll(PATIENCE).expect("there is a record").expect("it can be read");
            send(&producer, &output, None, record.key().unwrap_or_default(), record.payload().unwrap_or_default());
            left -= 1;
            if left.is_multiple_of(1024) {
                producer.poll(Duration::ZERO);
            }
            if transactions && (left == 0 || left.is_multiple_of(1024) && begun.elapsed() >= INTERVAL) {
                let positions = consumer.position().expect("it is assigned");
                producer.send_offsets_to_transaction(&positions, &group, PATIENCE).expect("the group is there");
                producer.commit_transaction(PATIENCE).expect("it can be committed");
                if left > 0 {
                    producer.begin_transaction().expect("the one before has ended");
                }
                begun = Instant::now();
            }
        }
        producer.flush(PATIENCE).expect("all is acknowledged");
        Cost { records: self.records, wall: wall.elapsed(), cpu: cpu_now() - cpu }
    }

    fn job_text(&self, job: Job, output: &str, until: &str, interval_ms: u64) -> String {
        let brokers = self.broker.address();
        let (operator, from) = match job {
            Job::Copy { .. } => (String::new(), "in"),
            Job::Count(_) => {
                let plugin = guest("keyed_count.wasm");
                (format!("[[operator]]\nname = \"work\"\nplugin = \"{}\"\nfrom = \"in\"\n", plugin.display()), "work")
            }
        };
        let guarantee = if job.is_exactly_once() { "exactly-once" } else { "at-least-once" };
        format!(
            "[job]\nname = \"{output}\"\nparallelism = 1\n[checkpoint]\ninterval = \"{interval_ms}ms\"\n\
             [[source]]\nname = \"in\"\nconnector = \"kafka\"\nbrokers = \"{brokers}\"\ntopic = \"in\"\nuntil = \"{until}\"\n\
             start = \"{}\"\n{operator}\
             [[sink]]\nname = \"out\"\nconnector = \"kafka\"\nbrokers = \"{brokers}\"\nfrom = \"{from}\"\ntopic = \"{output}\"\n\
             time = \"now\"\nguarantee = \"{guarantee}\"\n",
            if until == "end" { "earliest" } else { "latest" }
        )
    }

    /// Runs a job over the whole topic, with a checkpoint each second.
    ///
    /// # Panics
    /// If it does not finish.
    pub fn run(&self, job: Job) -> Cost {
        let output = self.output();
        let text = self.job_text(job, &output, "end", INTERVAL.as_millis() as u64);
        let flavor = match job {
            Job::Copy { .. } => Flavor::Wasm,
            Job::Count(flavor) => flavor,
        };
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let folder = scratch.path().canonicalize().expect("it exists");
        run_to_end(flavor, &text, &folder, self.records)
    }

    /// The same by Flink.
    ///
    /// # Errors
    /// If the machine has no Maven.
    pub fn flink(&self, job: Job) -> Result<Cost, NotRun> {
        let exactly_once = job.is_exactly_once();
        let (brokers, output, counts) = (self.broker.address(), self.output(), matches!(job, Job::Count(_)));
        flink::run(&flink::Workload::Kafka { brokers, output, exactly_once, counts }).map(|report| report.cost)
    }

    /// From the moment at which a record is written until a `read_committed` reader of the copy has it, in ascending order.
    ///
    /// # Panics
    /// If the job ends by itself, or copies no record.
    pub fn latencies(&self, interval: Duration, length: Duration) -> Vec<Duration> {
        let output = self.output();
        let text = self.job_text(Job::Copy { exactly_once: true }, &output, "never", interval.as_millis() as u64);
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let folder = scratch.path().canonicalize().expect("it exists");
        let (graph, options) = job_in(&folder, &text);
        let (stop, signal) = stop_pair();
        let host = runtime(Flavor::Wasm);
        let job = std::thread::spawn(move || host.run(graph, options, signal, Arc::new(|_| {})));
        let consumer = self.reader(&output, "read_committed", Offset::Beginning);
        let mut config = client(&self.broker);
        config.set("linger.ms", "0");
        let producer: BaseProducer = config.create().expect("the settings are right");
        let (begun, mut latencies) = (Instant::now(), Vec::new());
        // The first transactions are made ready meanwhile.
        let warm = Duration::from_secs(3);
        while begun.elapsed() < warm + length {
            let now = now_ms().to_le_bytes();
            send(&producer, "in", None, &now, &now);
            producer.poll(Duration::ZERO);
            // A record every few milliseconds.
            while let Some(record) = consumer.poll(Duration::from_millis(2)) {
                let record = record.expect("it can be read");
                let written = u64::from_le_bytes(record.payload().expect("it has a value").try_into().expect("eight bytes"));
                if begun.elapsed() > warm {
                    latencies.push(Duration::from_millis(now_ms().saturating_sub(written)));
                }
            }
        }
        stop.ask(StopRequest::Now);
        let outcome = job.join().expect("the job does not panic");
        assert!(matches!(outcome, JobOutcome::Stopped { .. }), "the job ended otherwise: {outcome:?}");
        assert!(!latencies.is_empty(), "nothing came through");
        latencies.sort();
        latencies
    }
}
