//! Whether the clusters of a job answer at all: each is asked once, however many nodes use it, and all at the same time.

use super::client::{self, LOOK_TIMEOUT, NO_BROKER};
use crate::clock;
use crate::graph::{JobGraph, KafkaCluster, Problem, SinkConnectorSpec, SourceConnectorSpec};
use weir_kafka::KafkaError;

/// A cluster that can't be asked.
pub(crate) struct Unreached {
    /// Sources and sinks that use it, by name.
    pub(crate) nodes: Vec<String>,
    /// Why, said once for all of them.
    pub(crate) problem: Problem,
}

/// A cluster and who uses it.
struct Use<'g> {
    cluster: &'g KafkaCluster,
    /// Names.
    nodes: Vec<String>,
    /// For messages: `source in`.
    places: Vec<String>,
}

/// The clusters of a job that can't be asked. Takes as long as the slowest of them, [`LOOK_TIMEOUT`] at most.
pub(crate) fn unreached(graph: &JobGraph) -> Vec<Unreached> {
    let uses = uses(graph);
    let deadline = clock::monotonic() + LOOK_TIMEOUT;
    let asked: Vec<Option<KafkaError>> = std::thread::scope(|scope| {
        let asking: Vec<_> = uses.iter().map(|one| scope.spawn(|| ask(one.cluster, deadline))).collect();
        asking.into_iter().map(|one| one.join().expect("asking a cluster does not panic")).collect()
    });
    let failed = uses.into_iter().zip(asked).filter_map(|(one, error)| Some((one, error?)));
    failed.map(|(Use { nodes, places, .. }, error)| Unreached { nodes, problem: problem(&places, &error) }).collect()
}

fn uses(graph: &JobGraph) -> Vec<Use<'_>> {
    let sources = graph.sources.iter().filter_map(|spec| match &spec.connector {
        SourceConnectorSpec::Kafka(kafka) => Some(("source", &spec.name, &kafka.cluster)),
        SourceConnectorSpec::File { .. } | SourceConnectorSpec::Sequence { .. } => None,
    });
    let sinks = graph.sinks.iter().filter_map(|spec| match &spec.connector {
        SinkConnectorSpec::Kafka(kafka) => Some(("sink", &spec.name, &kafka.cluster)),
        SinkConnectorSpec::File { .. } | SinkConnectorSpec::Discard | SinkConnectorSpec::Plugin { .. } => None,
    });
    let mut uses: Vec<Use<'_>> = Vec::new();
    for (kind, name, cluster) in sources.chain(sinks) {
        let (node, place) = (name.clone(), format!("{kind} {name}"));
        match uses.iter_mut().find(|one| one.cluster == cluster) {
            Some(one) => {
                one.nodes.push(node);
                one.places.push(place);
            }
            None => uses.push(Use { cluster, nodes: vec![node], places: vec![place] }),
        }
    }
    uses
}

/// What keeps a cluster from being asked anything. Other errors are told of where they matter: by the node that they hinder.
fn ask(cluster: &KafkaCluster, deadline: std::time::Instant) -> Option<KafkaError> {
    let error = client::admin(cluster, "weir-check").ok()?.topics(&[], deadline).err()?;
    match error {
        KafkaError::Unreachable { .. }
        | KafkaError::TimedOut { .. }
        | KafkaError::Tls { .. }
        | KafkaError::Authentication { .. } => Some(error),
        KafkaError::Settings(_)
        | KafkaError::NotAuthorized { .. }
        | KafkaError::Unsupported { .. }
        | KafkaError::Rejected { .. }
        | KafkaError::Garbled { .. }
        | KafkaError::Request(_) => None,
    }
}

fn problem(places: &[String], error: &KafkaError) -> Problem {
    let place = places.join(", ");
    match error {
        KafkaError::TimedOut { last, .. } => Problem::new(place, format!("no broker answers: {last}"), NO_BROKER),
        KafkaError::Unreachable { .. } => Problem::new(place, format!("no broker answers: {error}"), NO_BROKER),
        // It says itself what to look at.
        error => Problem::new(place, error.to_string(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::job_file;
    use std::path::Path;

    #[test]
    fn a_cluster_is_asked_once_for_all_that_use_it() {
        // A port that nobody has: bound, and given back.
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it has one").port();
        let kafka = |section: &str, name: &str, broker: &str, rest: &str| {
            format!("[[{section}]]\nname = \"{name}\"\nconnector = \"kafka\"\nbrokers = \"{broker}\"\n{rest}\n")
        };
        let (one, other) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
        let text = [
            "[job]\nname = \"j\"\n".to_owned(),
            kafka("source", "in", &one, "topic = \"a\""),
            kafka("source", "more", &other, "topic = \"a\""),
            kafka("sink", "out", &one, "topic = \"b\"\nfrom = [\"in\", \"more\"]"),
        ]
        .concat();
        let graph = job_file::parse(&text, Path::new("job.toml"), Path::new("/jobs"), &|_| None).expect("a good job");
        let begun = clock::monotonic();
        let told = unreached(&graph);
        // In turn it would be twice as long.
        assert!(begun.elapsed() < LOOK_TIMEOUT * 3 / 2, "{:?}", begun.elapsed());
        let nodes: Vec<&[String]> = told.iter().map(|one| one.nodes.as_slice()).collect();
        assert_eq!(nodes, [&["in".to_owned(), "out".to_owned()][..], &["more".to_owned()]]);
        let problem = told[0].problem.to_string();
        assert!(problem.starts_with(&format!("source in, sink out: no broker answers: {one}: ")), "{problem}");
        assert!(problem.contains("efused") && problem.ends_with(NO_BROKER), "{problem}");
    }
}
