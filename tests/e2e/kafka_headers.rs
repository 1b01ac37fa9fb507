//! Null keys, null values and headers from one topic to several, each record's topic named by a header: record by record the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};
use weir_tests::guest;
use weir_tests::kafka::{KafkaRecord, broker};
use weir_tests::process::Running;
use weir_tests::scratch::Scratch;

/// A job that numbers the records of each key, two subtasks behind an exchange.
struct Case {
    scratch: Scratch,
    name: &'static str,
}

impl Case {
    /// `topic`: the sink's own, if it has one.
    fn new(name: &'static str, topic: &str) -> Self {
        let case = Case { scratch: Scratch::new(), name };
        broker().create(&case.input());
        let (input, brokers, plugin) = (case.input(), broker().address(), guest("number_records"));
        let plugin = plugin.display();
        let job = format!(
            r#"
[job]
name = "{name}"
parallelism = 2
[checkpoint]
interval = "100ms"
[[source]]
name = "records"
connector = "kafka"
brokers = "{brokers}"
topic = "{input}"
until = "end"
rate = 6000
[[operator]]
name = "number"
plugin = "{plugin}"
from = "records"
[[sink]]
name = "out"
connector = "kafka"
from = "number"
brokers = "{brokers}"
topic_header = "to"
{topic}
"#
        );
        case.scratch.write("job.toml", job);
        case
    }

    /// With records in its input that go to the topic `<name>-a`, where a header names it, or to `<name>-rest`. `settings`: more of
    /// the sink's.
    fn filled(name: &'static str, records: u64, settings: &str) -> (Self, Vec<KafkaRecord>) {
        let (named, rest) = (format!("{name}-a"), format!("{name}-rest"));
        broker().create(&named);
        broker().create(&rest);
        let case = Case::new(name, &format!("topic = \"{rest}\"\n{settings}"));
        let input: Vec<KafkaRecord> = (0..records).map(|id| record(id, [&named, &named], now_ms())).collect();
        broker().write_records(&case.input(), &input);
        (case, input)
    }

    fn input(&self) -> String {
        format!("headers-in-{}", self.name)
    }

    fn start(&self, variables: &[(&str, &str)]) -> Running {
        Running::start(self.scratch.folder(), &["run", "job.toml", "--data", "data"], variables)
    }
}

/// Brokers delete what is old.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn header(name: &str, value: Option<&str>) -> (String, Option<String>) {
    (name.to_owned(), value.map(str::to_owned))
}

/// Record `id`: each kind of key, value and header, in each combination. Keys that are the same bytes lie in one partition.
fn record(id: u64, topics: [&str; 2], now_ms: i64) -> KafkaRecord {
    let key = match id % 7 {
        0 => None,
        1 => Some(String::new()),
        _ => Some(format!("k{}", id % 20)),
    };
    let value = match id % 5 {
        0 => None,
        1 => Some(String::new()),
        _ => Some(format!("value {id}")),
    };
    let mut headers = vec![header("id", Some(&id.to_string()))];
    match id % 4 {
        0 => headers.push(header("to", Some(topics[0]))),
        // The last one counts.
        1 => headers.extend([header("to", Some(topics[0])), header("to", Some(topics[1]))]),
        2 => headers.push(header("to", None)),
        _ => {}
    }
    if id.is_multiple_of(3) {
        headers.extend([header("", Some("")), header("trace", None), header("trace", Some("x"))]);
    }
    let partition = key.as_deref().filter(|key| !key.is_empty()).map_or(0, |_| (id % 4) as i32);
    KafkaRecord { partition, key, value, time: now_ms + id as i64, headers }
}

#[test]
fn records_keep_what_they_have_and_go_where_their_header_says() {
    let topics = ["headers-a", "headers-b", "headers-rest"];
    topics.iter().for_each(|topic| broker().create(topic));
    let case = Case::new("headers", r#"topic = "headers-rest""#);
    let now = now_ms();
    let input: Vec<KafkaRecord> = (0..12_000).map(|id| record(id, ["headers-a", "headers-b"], now)).collect();
    broker().write_records(&case.input(), &input);
    let killed = case.start(&[("WEIR_CRASH_AT", "manifest-published:3")]).finish();
    assert!(killed.was_killed(), "{killed:?}");
    let killed = case.start(&[]).kill_after(Duration::from_millis(700));
    assert!(killed.was_killed(), "the input is too short: {killed:?}");
    case.start(&[]).finish().expect_code(0);

    // A key's records lie in one partition, so that their numbers are known; a null key is the empty one to state.
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut wanted: BTreeMap<String, (&str, KafkaRecord)> = BTreeMap::new();
    for record in &input {
        let count = counts.entry(record.key.as_deref().unwrap_or_default()).or_default();
        *count += 1;
        let id = record.header("id").expect("each has one");
        let topic = topics[match id.parse::<u64>().expect("a number") % 4 {
            rest @ (0 | 1) => rest as usize,
            _ => 2,
        }];
        let mut record = record.clone();
        record.headers.push(header("number", Some(&count.to_string())));
        wanted.insert(id.to_owned(), (topic, record));
    }
    let mut partitions_of_null = BTreeSet::new();
    let mut partitions_of_key: BTreeMap<(&str, String), BTreeSet<i32>> = BTreeMap::new();
    for topic in topics {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for got in broker().read_records(topic) {
            let id = got.header("id").expect("each has one").to_owned();
            let (place, record) = wanted.remove(&id).unwrap_or_else(|| panic!("{topic}: record {id} is there twice"));
            assert_eq!((place, &KafkaRecord { partition: record.partition, ..got.clone() }), (topic, &record));
            let Some(key) = got.key.clone() else {
                partitions_of_null.insert(got.partition);
                continue;
            };
            partitions_of_key.entry((topic, key.clone())).or_default().insert(got.partition);
            let number = got.header("number").expect("compared").parse().expect("a number");
            let before = last.insert(key, number).unwrap_or(0);
            assert!(before < number, "{topic}: record {id}: a key's records keep their order");
        }
    }
    assert!(wanted.is_empty(), "{} records are missing, such as {:?}", wanted.len(), wanted.values().next());
    assert!(partitions_of_null.len() > 1, "null keys are spread");
    assert!(partitions_of_key.values().all(|partitions| partitions.len() == 1), "a key has one partition: {partitions_of_key:?}");
    assert!(partitions_of_key.contains_key(&("headers-a", String::new())), "the empty key is a key");
}

/// Records that have no headers and no timestamps of their own are handed to the client many at a time.
#[test]
fn null_is_not_empty_without_headers() {
    broker().create("bare-out");
    let case = Case::new("bare", "topic = \"bare-out\"\ntime = \"now\"");
    let job = std::fs::read_to_string(case.scratch.path("job.toml")).expect("it was written");
    let (before, rest) = job.split_once("[[operator]]").expect("it has one");
    let sink = rest.split_once("[[sink]]").expect("it has one").1.replace("from = \"number\"", "from = \"records\"");
    case.scratch.write("job.toml", format!("{before}[[sink]]{sink}"));
    let input: Vec<KafkaRecord> =
        (0..350).map(|id| KafkaRecord { headers: Vec::new(), ..record(id, ["", ""], now_ms()) }).collect();
    broker().write_records(&case.input(), &input);
    case.start(&[]).finish().expect_code(0);
    let counted = |records: &[KafkaRecord]| {
        let mut counts: BTreeMap<(Option<String>, Option<String>), usize> = BTreeMap::new();
        records.iter().for_each(|one| *counts.entry((one.key.clone(), one.value.clone())).or_default() += 1);
        counts
    };
    let output = broker().read_records("bare-out");
    assert_eq!(counted(&output), counted(&input));
    assert!(output.iter().all(|record| record.headers.is_empty()));
}

#[test]
fn a_dead_letter_keeps_headers_and_what_is_null() {
    let case = Case::new("letters", "topic = \"unused\"");
    broker().create("unused");
    let (input, brokers, plugin) = (case.input(), broker().address(), guest("running_balance"));
    let plugin = plugin.display();
    let job = format!(
        r#"
[job]
name = "letters"
dead_letter = "letters"
[[source]]
name = "records"
connector = "kafka"
brokers = "{brokers}"
topic = "{input}"
until = "end"
[[operator]]
name = "balance"
plugin = "{plugin}"
from = "records"
on_bad_record = "dead-letter"
[[sink]]
name = "out"
connector = "discard"
from = "balance"
[[sink]]
name = "letters"
connector = "file"
path = "letters"
"#
    );
    case.scratch.write("job.toml", job);
    let headers = vec![header("trace", Some("7")), header("none", None)];
    broker().write_records(&input, &[KafkaRecord { key: Some("a".to_owned()), headers, ..KafkaRecord::default() }]);
    case.start(&[]).finish().expect_code(0);
    let files = std::fs::read_dir(case.scratch.path("letters")).expect("there is a letter");
    let paths = files.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file());
    let text: String = paths.map(|path| std::fs::read_to_string(path).expect("UTF-8")).collect();
    assert!(text.ends_with("\"key\":\"YQ==\",\"value\":null,\"headers\":[[\"trace\",\"Nw==\"],[\"none\",null]]}\n"), "{text}");
}

/// Without transactions, and with the brokers' own time: another way into the client.
#[test]
fn headers_are_written_without_transactions_too() {
    let (case, input) = Case::filled("plain", 500, "guarantee = \"at-least-once\"\ntime = \"now\"");
    case.start(&[]).finish().expect_code(0);
    let of = |topic: &str| -> Vec<KafkaRecord> { broker().read_records(topic) };
    let plain = |record: &KafkaRecord| {
        let headers = record.headers.iter().filter(|(name, _)| name != "number").cloned().collect();
        (record.header("id").map(str::to_owned), record.key.clone(), record.value.clone(), headers)
    };
    type Plain = (Option<String>, Option<String>, Option<String>, Vec<(String, Option<String>)>);
    let (named, rest): (Vec<&KafkaRecord>, Vec<&KafkaRecord>) =
        input.iter().partition(|record| record.headers.iter().any(|(name, to)| name == "to" && to.is_some()));
    for (topic, wanted) in [("plain-a", named), ("plain-rest", rest)] {
        let got: BTreeSet<Plain> = of(topic).iter().map(plain).collect();
        assert_eq!(got, wanted.into_iter().map(plain).collect::<BTreeSet<Plain>>(), "{topic}");
    }
}

/// What goes to several topics goes to one of the drill's own, and nothing to those.
#[test]
fn a_drill_writes_to_a_topic_of_its_own() {
    let (case, _) = Case::filled("drilled", 6_000, "");
    let drill = Running::start(case.scratch.folder(), &["drill", "job.toml", "--kills", "1", "--dir", "drill"], &[]);
    drill.finish().expect_code(0).expect_text(&["6000"]);
    assert_eq!(["drilled-a", "drilled-rest"].map(|topic| broker().read_records(topic).len()), [0, 0]);
    let refused = Case::new("undrilled", "");
    let ended = Running::start(refused.scratch.folder(), &["drill", "job.toml", "--kills", "1", "--dir", "drill"], &[]).finish();
    ended.expect_code(2).expect_text(&["its records name their topics", "give it a 'topic', too"]);
    let checked = Running::start(refused.scratch.folder(), &["check", "job.toml", "--data", "data"], &[]).finish();
    checked.expect_code(0).expect_text(&["header 'to' of a record names its topic"]);
}

#[test]
fn a_topic_that_is_not_there_and_a_record_that_names_none_stop_the_job() {
    let case = Case::new("named", "");
    let to = |topic: &str| KafkaRecord {
        key: Some("k".to_owned()),
        headers: vec![header("to", Some(topic))],
        ..KafkaRecord::default()
    };
    broker().create("named-out");
    broker().write_records(&case.input(), &[to("named-out"), to("named-nowhere")]);
    let ended = case.start(&[]).finish();
    ended.expect_code(1).expect_text(&["there is no topic named-nowhere", "header 'to'", "create it first"]);
    assert!(!broker().topics().iter().any(|topic| topic == "named-nowhere"), "nobody has created it");
    assert_eq!(broker().read_records("named-out"), [], "nothing of a failed attempt is visible");
    broker().create("named-nowhere");
    case.start(&[]).finish().expect_code(0);
    assert_eq!(["named-out", "named-nowhere"].map(|topic| broker().read_records(topic).len()), [1, 1]);

    let case = Case::new("unnamed", "");
    broker().write_records(&case.input(), &[KafkaRecord { key: Some("k".to_owned()), ..KafkaRecord::default() }]);
    case.start(&[]).finish().expect_code(1).expect_text(&["with the key 'k' has no header 'to'", "set 'topic'"]);
}
