//! The keys of connector `kafka`: what they become, what is refused, and that no secret is shown.

use super::job_file::{self, sink_from_section};
use super::*;
use std::path::Path;
use std::time::Duration;
use weir_protocol::watermark::WatermarkBound;

const JOB: &str = r#"
[job]
name = "orders"

[[source]]
name = "in"
connector = "kafka"
brokers = "a:9092,b:9093"
topic = ["x", "y", "x"]

[[sink]]
name = "out"
connector = "kafka"
from = "in"
brokers = "${BROKERS}"
topic = "z"
"#;

fn environment(name: &str) -> Option<String> {
    match name {
        "BROKERS" => Some("c:1".to_owned()),
        "PASSWORD" => Some("hunter2".to_owned()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<JobGraph, String> {
    job_file::parse(text, Path::new("job.toml"), Path::new("/jobs/a"), &environment)
        .map_err(|problems| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))
}

/// The job with lines after the source's or the sink's topic.
fn with(after: &str, lines: &str) -> String {
    assert!(JOB.contains(after));
    JOB.replace(after, &format!("{after}\n{lines}"))
}

const SOURCE: &str = r#"topic = ["x", "y", "x"]"#;
const SINK: &str = r#"topic = "z""#;

fn source(text: &str) -> KafkaSourceSpec {
    let graph = parse(text).unwrap_or_else(|problems| panic!("{problems}"));
    let SourceConnectorSpec::Kafka(source) = &graph.sources[0].connector else { panic!("it is kafka") };
    (**source).clone()
}

fn sink(text: &str) -> KafkaSinkSpec {
    let graph = parse(text).unwrap_or_else(|problems| panic!("{problems}"));
    let SinkConnectorSpec::Kafka(sink) = &graph.sinks[0].connector else { panic!("it is kafka") };
    (**sink).clone()
}

#[test]
fn what_is_left_out_has_a_default() {
    let source = source(JOB);
    assert_eq!(source.topics, KafkaTopics::Names(vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!((source.start, source.until_end, source.read_uncommitted), (KafkaStart::Earliest, false, false));
    assert_eq!((source.discovery, source.on_lost_offsets), (Some(Duration::from_secs(30)), LostOffsets::Fail));
    assert_eq!((source.group.as_str(), source.commit_offsets), ("weir-orders-in", false));
    let sink = sink(JOB);
    assert_eq!(
        (sink.cluster.brokers.as_str(), sink.topic.as_deref(), sink.prefix.as_str()),
        ("c:1", Some("z"), "weir-orders-out")
    );
    // 1 s of interval, 2 min of checkpoint, 5 min of restart, 30 s.
    assert_eq!(sink.needs.lifetime(), Duration::from_secs(451));
}

#[test]
fn a_start_may_be_a_time_or_offsets() {
    assert_eq!(source(&with(SOURCE, "start = { timestamp_ms = 17 }")).start, KafkaStart::Timestamp(17));
    let offsets = source(&with(SOURCE, "start = { offsets = { \"x/0\" = 5 } }")).start;
    assert_eq!(offsets, KafkaStart::Offsets([("x/0".to_owned(), 5)].into()));
    let pattern = source(&JOB.replace(SOURCE, "topic_pattern = \"x-.*\"")).topics;
    assert_eq!(pattern, KafkaTopics::Pattern("x-.*".to_owned()));
}

#[test]
fn a_header_may_name_the_topic() {
    let both = sink(&with(SINK, "topic_header = \"to\""));
    assert_eq!((both.topic.as_deref(), both.topic_header.as_deref()), (Some("z"), Some("to")));
    let text = JOB.replace(SINK, "topic_header = \"$${to}\"");
    let header = sink(&text);
    assert_eq!((header.topic, header.topic_header.as_deref()), (None, Some("${to}")));
    // As a manifest keeps it.
    let section = parse(&text).expect("a good job").sinks[0].section.clone();
    let again = sink_from_section(&section, &environment).expect("its own section");
    let SinkConnectorSpec::Kafka(again) = again.connector else { panic!("it is kafka") };
    assert_eq!((again.topic, again.topic_header.as_deref()), (None, Some("${to}")));
}

#[test]
fn what_cannot_be_is_refused_with_its_cure() {
    let cases = [
        (with(SOURCE, "watermark = \"5s\""), "'watermark' is a string, not a table; write watermark = { delay = \"5s\", idle"),
        (with(SOURCE, "start = {}"), "'timestamp_ms' or 'offsets'"),
        (with(SOURCE, "start = { offsets = { x = 5 } }"), "\"orders/0\" = 17"),
        (with(SOURCE, "start = \"first\""), "it can be 'earliest'"),
        (with(SOURCE, "topic_pattern = \"x\""), "set one of them"),
        (JOB.replace(SOURCE, "topic_pattern = \"x(\""), "no regular expression"),
        (JOB.replace(SOURCE, "topic = []"), "at least one topic"),
        (JOB.replace(SOURCE, "topic = \"a b\""), "can't be a topic"),
        (JOB.replace("a:9092,b:9093", "a:port"), "write host:port"),
        (JOB.replace("b:9093", "b"), "job.toml:8:11: [[source]] in: 'brokers' can't be \"a:9092,b\""),
        (with(SOURCE, "options = { \"isolation.level\" = \"x\" }"), "set 'isolation'"),
        (with(SOURCE, "options = { \"sasl.password\" = \"x\" }"), "set 'sasl'"),
        (with(SINK, "options = { \"acks\" = 1 }"), "weir needs all"),
        (with(SINK, "topic_header = \"\""), "'topic_header' is empty"),
        (JOB.replace(SINK, ""), "or the header that names it"),
        (with(SINK, "transaction_prefix = \"a b\""), "use up to 150"),
        (with(SINK, "transaction_timeout = \"1ms\""), "below a second"),
        (with(SINK, "tls = { key = \"k.pem\" }"), "go together"),
        (with(SINK, "sasl = { mechanism = \"GSSAPI\", username = \"u\", password = \"${PASSWORD}\" }"), "not in this version"),
        (with(SINK, "bootstrap = \"a\""), "unknown key 'bootstrap'"),
        (
            format!(
                "{JOB}\n[[sink]]\nname = \"more\"\nconnector = \"kafka\"\nbrokers = \"d:1\"\ntopic = \"z\"\nfrom = [\"in\"]\ntransaction_prefix = \"weir-orders-out\""
            ),
            "has the transaction_prefix 'weir-orders-out' of the sink 'out'",
        ),
    ];
    for (text, want) in cases {
        let problems = parse(&text).expect_err(&text);
        assert!(problems.contains(want), "{want}: {problems}\n{text}");
    }
}

#[test]
fn a_password_comes_from_the_environment_and_goes_nowhere() {
    let sasl = |password: &str| {
        with(SINK, &format!("tls = {{}}\nsasl = {{ mechanism = \"PLAIN\", username = \"u\", password = \"{password}\" }}"))
    };
    for literal in ["hunter2", "${PASSWORD:-hunter2}", "x${PASSWORD}"] {
        let problems = parse(&sasl(literal)).expect_err("it stands in the job file");
        assert!(problems.contains("give it by the environment") && !problems.contains("hunter2"), "{problems}");
    }
    let graph = parse(&sasl("${PASSWORD}")).expect("a reference");
    let shown = format!("{graph:?}");
    assert!(!shown.contains("hunter2") && shown.contains("${PASSWORD}"), "{shown}");
    let section = &graph.sinks[0].section;
    assert!(!section.to_string().contains("hunter2"), "{section}");
    // What a manifest keeps is enough to commit by, with the password of that day.
    let again = sink_from_section(section, &environment).expect("its own section");
    let (SinkConnectorSpec::Kafka(first), SinkConnectorSpec::Kafka(again)) = (&graph.sinks[0].connector, &again.connector) else {
        panic!("it is kafka")
    };
    assert_eq!((&first.cluster, &first.topic, &first.prefix), (&again.cluster, &again.topic, &again.prefix));
    assert_eq!(again.cluster.sasl.as_ref().expect("kept").password.expose(), "hunter2");
}

#[test]
fn a_source_may_have_a_watermark_and_is_warned_of_silent_partitions() {
    let text = with(SOURCE, "watermark = { delay = \"2s\" }");
    let graph = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(graph.sources[0].watermark, Some(WatermarkBound { delay_ms: 2_000, idle: None }));
    let execution = ExecutionGraph::derive(&graph, &Default::default()).expect("it fits");
    assert_eq!(
        execution.notes,
        ["source 'in': watermark without 'idle': a partition without records holds event time back for all"]
    );
}

#[test]
fn a_job_that_reads_its_own_output_is_noted() {
    let notes = |text: &str| {
        let graph = parse(text).unwrap_or_else(|problems| panic!("{problems}"));
        ExecutionGraph::derive(&graph, &Default::default()).expect("it fits").notes
    };
    let same = JOB.replace("${BROKERS}", "b:9093").replace(SINK, "topic = \"y\"");
    assert_eq!(
        notes(&same),
        [
            "sink 'out' writes topic y, which source 'in' reads, on the same brokers: what is written is read and written again, without end"
        ]
    );
    assert_eq!(notes(&same.replace(SOURCE, "topic_pattern = \"[xy]\"")).len(), 1);
    let apart = format!(
        "{same}\n[[source]]\nname = \"more\"\nconnector = \"sequence\"\ncount = 1\n\n[[sink]]\nname = \"kept\"\nconnector = \"discard\"\nfrom = \"in\"\n"
    );
    for without in [
        JOB.replace("${BROKERS}", "b:9093"),
        JOB.replace(SINK, "topic = \"y\""),
        same.replace(SOURCE, "topic_pattern = \"y.\""),
        same.replace(SOURCE, &format!("{SOURCE}\nuntil = \"end\"")),
        apart.replacen("from = \"in\"", "from = \"more\"", 1),
    ] {
        assert!(notes(&without).iter().all(|note| !note.contains("without end")), "{without}");
    }
}
