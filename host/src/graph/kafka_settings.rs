//! The keys of connector `kafka`, of a source and of a sink.

use super::document::{Section, Text, quote};
use super::kafka_spec::*;
use super::paths;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// Settings of librdkafka that the promise rests on, or that have a key of their own here: (name or beginning, what to say).
const OWN_OPTIONS: &[(&str, &str)] = &[
    ("bootstrap.servers", "set 'brokers'"),
    ("metadata.broker.list", "set 'brokers'"),
    ("security.protocol", "set 'tls' or 'sasl'"),
    ("ssl.", "set 'tls'"),
    ("enable.ssl.", "set 'tls'"),
    ("sasl.", "set 'sasl'"),
    ("group.", "set 'group'"),
    ("auto.offset.reset", "set 'start' and 'on_lost_offsets'"),
    ("isolation.level", "set 'isolation'"),
    ("transactional.id", "set 'transaction_prefix'"),
    ("transaction.timeout.ms", "set 'transaction_timeout'"),
    ("enable.auto.", "positions come from the checkpoint alone"),
    ("auto.commit.", "positions come from the checkpoint alone"),
    ("enable.partition.eof", "weir needs it as it is"),
    ("enable.idempotence", "weir needs it on"),
    ("acks", "weir needs all"),
    ("request.required.acks", "weir needs all"),
    ("max.in.flight", "weir needs it as it is"),
    ("message.timeout.ms", "it follows from the transaction and checkpoint timeouts"),
    ("delivery.timeout.ms", "it follows from the transaction and checkpoint timeouts"),
    ("delivery.report.only.error", "weir needs it as it is"),
    ("statistics.interval.ms", "weir needs it as it is"),
    ("partitioner", "records are spread as Java clients do it"),
    ("log_level", "use RUST_LOG"),
    ("debug", "use RUST_LOG"),
];

/// Mechanisms that both clients speak.
const MECHANISMS: &[(&str, &str)] = &[("PLAIN", "PLAIN"), ("SCRAM-SHA-256", "SCRAM-SHA-256"), ("SCRAM-SHA-512", "SCRAM-SHA-512")];

/// Longest name of a topic and, with room for what follows it, of a prefix.
const NAME_MAX: usize = 249;
const PREFIX_MAX: usize = 150;

/// Reads the keys of a source. `default_group`: its consumer group.
pub(super) fn source(section: &mut Section<'_, '_>, folder: &Path, default_group: &str) -> KafkaSourceSpec {
    let cluster = cluster(section, folder);
    let topics = topics(section);
    let start = start(section);
    let until = [("never", false), ("end", true)];
    let until_end = section.choice("until", &until, &[], Some(("never", "the source has no end"))).unwrap_or(false);
    let levels = [("read_committed", false), ("read_uncommitted", true)];
    let why = "what a transaction has written counts once it is committed";
    let read_uncommitted = section.choice("isolation", &levels, &[], Some(("read_committed", why))).unwrap_or(false);
    let lost = [("fail", LostOffsets::Fail), ("skip", LostOffsets::Skip)];
    let why = "records that are gone before they were read stop the job";
    let on_lost_offsets = section.choice("on_lost_offsets", &lost, &[], Some(("fail", why))).unwrap_or(LostOffsets::Fail);
    let discovery = section.duration("discovery", Duration::from_secs(30), "new partitions are found; 0s: never looked for");
    let group = match section.text("group") {
        Some(text) => text.resolved,
        None => {
            if !section.has("group") {
                section.note("group", quote(default_group), Some("a name for the brokers: nobody joins it"));
            }
            default_group.to_owned()
        }
    };
    let commit_offsets = section.boolean("commit_offsets").unwrap_or(false);
    if !section.has("commit_offsets") {
        section.note("commit_offsets", "false", Some("positions lie in the checkpoints; lag tools see none"));
    }
    let discovery = (!discovery.is_zero()).then_some(discovery);
    KafkaSourceSpec { cluster, topics, start, until_end, read_uncommitted, discovery, on_lost_offsets, group, commit_offsets }
}

/// Reads the keys of a sink. `default_prefix`: how its transactions' names begin.
pub(super) fn sink(section: &mut Section<'_, '_>, folder: &Path, default_prefix: &str, needs: TransactionNeeds) -> KafkaSinkSpec {
    let cluster = cluster(section, folder);
    let (topic, topic_header) = sink_topic(section);
    let prefix = match section.text("transaction_prefix") {
        Some(text) => {
            let fits = !text.resolved.is_empty() && text.resolved.len() <= PREFIX_MAX && text.resolved.bytes().all(is_name_byte);
            if !fits {
                let what = format!("'transaction_prefix' can't be {}", quote(&text.raw));
                section.problem(text.span, what, format!("use up to {PREFIX_MAX} of a-z, A-Z, 0-9, '.', '_' and '-'"));
            }
            text.resolved
        }
        None => {
            if !section.has("transaction_prefix") {
                section.note("transaction_prefix", quote(default_prefix), Some("the job's name and the sink's"));
            }
            default_prefix.to_owned()
        }
    };
    let transaction_timeout = match section.has("transaction_timeout") {
        true => Some(section.duration("transaction_timeout", Duration::ZERO, "")),
        false => {
            let why = "derived: the brokers' limit up to 15 minutes, if the job needs no more";
            section.note("transaction_timeout", "", Some(why));
            section.get("transaction_timeout");
            None
        }
    };
    if transaction_timeout.is_some_and(|timeout| timeout < Duration::from_secs(1)) {
        let what = "'transaction_timeout' is below a second";
        section.problem(section.span_of("transaction_timeout"), what, "leave it out: it is derived");
    }
    let times = [("record", true), ("now", false)];
    let why = "a record's event time becomes its timestamp";
    let keep_time = section.choice("time", &times, &[], Some(("record", why))).unwrap_or(true);
    KafkaSinkSpec { cluster, topic, topic_header, prefix, transaction_timeout, keep_time, needs }
}

fn cluster(section: &mut Section<'_, '_>, folder: &Path) -> KafkaCluster {
    let brokers = section.required_text("brokers", "give one broker or more, as in brokers = \"host:9092,other:9092\"");
    if let Some(text) = &brokers {
        let well_formed = |broker: &str| {
            let Some((host, port)) = broker.trim().rsplit_once(':') else { return false };
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        if !text.resolved.split(',').all(well_formed) {
            let what = format!("'brokers' can't be {}", quote(&text.raw));
            section.problem(text.span.clone(), what, "write host:port, as in \"host:9092\", several with commas");
        }
    }
    let brokers = brokers.map(|text| text.resolved).unwrap_or_default();
    KafkaCluster { brokers, tls: tls(section, folder), sasl: sasl(section), options: options(section) }
}

fn tls(section: &mut Section<'_, '_>, folder: &Path) -> Option<KafkaTls> {
    let Some(mut table) = section.table("tls") else {
        if !section.has("tls") {
            section.note("tls", "", Some("no encryption; tls = {} uses the machine's certificates"));
        }
        return None;
    };
    let path = |text: Option<Text>| -> Option<PathBuf> { text.map(|text| paths::absolute(folder, &text.resolved)) };
    let spec = KafkaTls {
        ca: path(table.text("ca")),
        certificate: path(table.text("certificate")),
        key: path(table.text("key")),
        key_password: secret(&mut table, "key_password", false),
    };
    if spec.certificate.is_some() != spec.key.is_some() {
        table.problem(table.span.clone(), "'tls.certificate' and 'tls.key' go together", "give both or none");
    }
    table.finish();
    Some(spec)
}

fn sasl(section: &mut Section<'_, '_>) -> Option<KafkaSasl> {
    let mut table = section.table("sasl")?;
    if !table.has("mechanism") {
        table.missing("mechanism", "it can be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512");
    }
    let mechanism = table.choice("mechanism", MECHANISMS, &["GSSAPI", "OAUTHBEARER"], None).unwrap_or("PLAIN");
    let username = table.required_text("username", "say who the brokers shall see");
    let password = secret(&mut table, "password", true);
    table.finish();
    Some(KafkaSasl {
        mechanism: mechanism.to_owned(),
        username: username.map(|text| text.resolved).unwrap_or_default(),
        password: password.unwrap_or_else(|| Secret::new(String::new(), String::new())),
    })
}

/// A value that only the environment may hold: what stands in a job file is copied, mailed and committed.
fn secret(table: &mut Section<'_, '_>, key: &'static str, required: bool) -> Option<Secret> {
    let next = format!("give it by the environment: {key} = \"${{KAFKA_PASSWORD}}\"");
    if required && !table.has(key) {
        table.get(key);
        table.missing(key, &next);
        return None;
    }
    let is_reference = |raw: &str| {
        let name = raw.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        name.is_some_and(|name| !name.contains([':', '}', '$']))
    };
    // Looked at before it is noted: a secret that stands here must not be shown.
    if let Some(value) = table.get(key)
        && !value.get_ref().as_str().is_some_and(is_reference)
    {
        table.problem(value.span(), format!("'{key}' stands in the job file"), next);
        return None;
    }
    let text = table.text(key)?;
    Some(Secret::new(text.resolved, text.raw))
}

/// `options`: librdkafka's own settings, strings or numbers.
fn options(section: &mut Section<'_, '_>) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let Some(table) = section.table("options") else { return options };
    for (name, span, value) in table.entries() {
        if let Some((_, next)) = OWN_OPTIONS.iter().find(|(own, _)| is_or_below(name, own)) {
            table.problem(span, format!("'options.\"{name}\"' is weir's own"), *next);
            continue;
        }
        if let Some(text) = scalar(&table, name, value) {
            options.insert(name.to_owned(), text);
        }
    }
    options
}

/// Whether a setting is this one or, for one that ends with a dot, begins with it.
fn is_or_below(name: &str, own: &str) -> bool {
    name == own || (own.ends_with('.') || own == "max.in.flight") && name.starts_with(own)
}

fn scalar(table: &Section<'_, '_>, name: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
    let text = match value.get_ref() {
        DeValue::String(raw) => {
            table.note(name, quote(raw), None);
            return table.document.resolve(raw, value.span(), &table.title).map(|text| text.resolved);
        }
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        DeValue::Boolean(boolean) => boolean.to_string(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            let what = format!("'options.\"{name}\"' is {}", super::document::kind(value));
            table.problem(value.span(), what, "write a string, a number, true or false");
            return None;
        }
    };
    table.note(name, text.clone(), None);
    Some(text)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// Whether brokers would take it as the name of a topic.
pub(crate) fn is_topic(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_MAX && name != "." && name != ".." && name.bytes().all(is_name_byte)
}

fn check_topic(section: &Section<'_, '_>, text: &Text) {
    if !is_topic(&text.resolved) {
        let what = format!("{} can't be a topic", quote(&text.raw));
        section.problem(text.span.clone(), what, format!("use up to {NAME_MAX} of a-z, A-Z, 0-9, '.', '_' and '-'"));
    }
}

/// `topic`: a name or a list of names; or `topic_pattern`.
fn topics(section: &mut Section<'_, '_>) -> KafkaTopics {
    if section.has("topic_pattern") {
        let text = section.text("topic_pattern");
        if section.get("topic").is_some() {
            section.problem(section.span_of("topic_pattern"), "both 'topic' and 'topic_pattern' are set", "set one of them");
        }
        if let Some(text) = &text
            && let Err(error) = regex::Regex::new(&text.resolved)
        {
            let what = format!("'topic_pattern' is no regular expression: {error}");
            section.problem(text.span.clone(), what, "it must match a topic's whole name, as in \"orders-.*\"");
        }
        return KafkaTopics::Pattern(text.map(|text| text.resolved).unwrap_or_default());
    }
    let mut names: Vec<Text> = Vec::new();
    match section.get("topic").map(|value| (value.span(), value.get_ref())) {
        None => section.missing("topic", "name a topic, as in topic = \"orders\", or a list of topics, or set 'topic_pattern'"),
        Some((_, DeValue::Array(items))) => {
            for item in items {
                match item.get_ref() {
                    DeValue::String(raw) => names.extend(section.document.resolve(raw, item.span(), &section.title)),
                    _ => section.problem(item.span(), format!("a topic is {}", super::document::kind(item)), "write a string"),
                }
            }
            let shown: Vec<String> = names.iter().map(|text| quote(&text.raw)).collect();
            section.note("topic", format!("[{}]", shown.join(", ")), None);
            if names.is_empty() {
                section.problem(section.span_of("topic"), "'topic' is an empty list", "name at least one topic");
            }
        }
        Some(_) => names.extend(section.text("topic")),
    }
    names.iter().for_each(|text| check_topic(section, text));
    let mut names: Vec<String> = names.into_iter().map(|text| text.resolved).collect();
    names.sort();
    names.dedup();
    KafkaTopics::Names(names)
}

/// `topic`, `topic_header`: at least one of them.
fn sink_topic(section: &mut Section<'_, '_>) -> (Option<String>, Option<String>) {
    let header = section.text("topic_header");
    if let Some(text) = header.as_ref().filter(|text| text.resolved.is_empty()) {
        section.problem(text.span.clone(), "'topic_header' is empty", "name the header that holds a record's topic");
    }
    let next = "name the topic, as in topic = \"balances\", or the header that names it, as in topic_header = \"topic\"";
    let topic = match &header {
        None => section.required_text("topic", next),
        Some(_) if section.has("topic") => section.text("topic"),
        Some(_) => {
            section.get("topic");
            section.note("topic", "", Some("a record without the header stops the job"));
            None
        }
    };
    if let Some(text) = &topic {
        check_topic(section, text);
    }
    (topic.map(|text| text.resolved), header.map(|text| text.resolved))
}

/// `start`: a word, `{ timestamp_ms = N }`, or `{ offsets = { "topic/partition" = N } }`.
fn start(section: &mut Section<'_, '_>) -> KafkaStart {
    let is_table = section.get("start").is_some_and(|value| value.get_ref().is_table());
    if !is_table {
        let words = [("earliest", Start::Earliest), ("latest", Start::Latest), ("committed", Start::Committed)];
        let why = "nothing is left out unasked; a resume goes on from the checkpoint";
        return match section.choice("start", &words, &[], Some(("earliest", why))) {
            Some(Start::Latest) => KafkaStart::Latest,
            Some(Start::Committed) => KafkaStart::Committed,
            Some(Start::Earliest) | None => KafkaStart::Earliest,
        };
    }
    let Some(mut table) = section.table("start") else { return KafkaStart::Earliest };
    let timestamp = table.optional_whole("timestamp_ms", 0..=i64::MAX as u64);
    let mut offsets = BTreeMap::new();
    if let Some(by_partition) = table.table("offsets") {
        for (name, span, value) in by_partition.entries() {
            match offset(name, value.get_ref()) {
                Some(offset) => {
                    offsets.insert(name.to_owned(), offset);
                    by_partition.note(name, offset.to_string(), None);
                }
                None => bad_offset(&by_partition, span, name),
            }
        }
    }
    if timestamp.is_some() != offsets.is_empty() {
        table.problem(table.span.clone(), "'start' needs 'timestamp_ms' or 'offsets'", "set one of them");
    }
    table.finish();
    timestamp.map_or(KafkaStart::Offsets(offsets), |ms| KafkaStart::Timestamp(ms as i64))
}

/// The words of `start`.
#[derive(Clone, Copy)]
enum Start {
    Earliest,
    Latest,
    Committed,
}

fn offset(name: &str, value: &DeValue<'_>) -> Option<i64> {
    let (topic, partition) = name.rsplit_once('/')?;
    let well_named = is_topic(topic) && partition.parse::<i32>().is_ok_and(|number| number >= 0);
    let DeValue::Integer(integer) = value else { return None };
    let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    (well_named && number >= 0).then_some(number)
}

fn bad_offset(section: &Section<'_, '_>, span: Range<usize>, name: &str) {
    let what = format!("'start.offsets.\"{name}\"' is no partition with an offset");
    section.problem(span, what, "write \"orders/0\" = 17: topic, partition, and the offset of the first record to read");
}
