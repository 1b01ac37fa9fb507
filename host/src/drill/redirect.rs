//! A job with outputs of its own, so that a drill writes nowhere where others read.

use crate::graph::{JobGraph, Problem, SinkConnectorSpec, SourceConnectorSpec};
use serde_json::json;
use std::path::Path;

/// Folder of the outputs within a run's own folder.
const OUT: &str = "out";

/// Changes a job to one that reads the same up to where it ends now, and writes below `folder`, or to topics that end with the
/// folder's name. Its job name and its transactions are others, too.
pub fn redirect(graph: &mut JobGraph, folder: &Path) {
    let label = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    graph.name = format!("{}-{label}", graph.name);
    graph.checkpoint.storage = None;
    for source in &mut graph.sources {
        if let SourceConnectorSpec::Kafka(kafka) = &mut source.connector {
            kafka.until_end = true;
            kafka.commit_offsets = false;
        }
    }
    for sink in &mut graph.sinks {
        match &mut sink.connector {
            SinkConnectorSpec::File { path } => {
                *path = folder.join(OUT).join(&sink.name);
                sink.section["path"] = json!(path.to_string_lossy().replace("${", "$${"));
            }
            SinkConnectorSpec::Kafka(kafka) => {
                // All of it goes to one topic: those that headers name are others'.
                if kafka.topic_header.take().is_some()
                    && let Some(section) = sink.section.as_object_mut()
                {
                    section.remove("topic_header");
                }
                kafka.topic = kafka.topic.as_ref().map(|topic| format!("{topic}.{label}"));
                kafka.prefix = format!("{}.{label}", kafka.prefix);
                sink.section["topic"] = json!(kafka.topic);
                sink.section["transaction_prefix"] = json!(kafka.prefix);
            }
            SinkConnectorSpec::Discard | SinkConnectorSpec::Plugin { .. } => {}
        }
    }
}

/// What keeps a job from being drilled.
pub fn refusals(graph: &JobGraph) -> Vec<Problem> {
    let plugins = graph.sinks.iter().filter(|sink| matches!(sink.connector, SinkConnectorSpec::Plugin { .. }));
    let mut problems: Vec<Problem> = plugins
        .map(|sink| {
            let what = "it is a plugin: a drill can neither make it write elsewhere nor read what it has committed";
            Problem::new(format!("sink {}", sink.name), what, "drill the job with a file or Kafka sink in its place")
        })
        .collect();
    problems.extend(graph.sinks.iter().filter(|sink| names_no_topic(&sink.connector)).map(|sink| {
        let what = "its records name their topics, and a drill writes to none of those";
        let next = "give it a 'topic', too: in a drill, all of its records go to one like that";
        Problem::new(format!("sink {}", sink.name), what, next)
    }));
    let compared =
        |connector: &SinkConnectorSpec| matches!(connector, SinkConnectorSpec::File { .. } | SinkConnectorSpec::Kafka(_));
    if problems.is_empty() && !graph.sinks.iter().any(|sink| compared(&sink.connector)) {
        let next = "give it a file or Kafka sink";
        problems.push(Problem::new(format!("job '{}'", graph.name), "it has no output that could be compared", next));
    }
    problems
}

fn names_no_topic(connector: &SinkConnectorSpec) -> bool {
    matches!(connector, SinkConnectorSpec::Kafka(kafka) if kafka.topic.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::job_file;

    fn graph(sink: &str) -> JobGraph {
        let text = format!(
            "[job]\nname = \"j\"\n[checkpoint]\nstorage = \"/elsewhere\"\n[[source]]\nname = \"in\"\nconnector = \"kafka\"\n\
             brokers = \"b:1\"\ntopic = \"t\"\ncommit_offsets = true\n[[sink]]\nname = \"out\"\nfrom = [\"in\"]\n{sink}\n"
        );
        job_file::parse(&text, Path::new("job.toml"), Path::new("/jobs"), &|_| None).expect("a good job")
    }

    #[test]
    fn nothing_of_the_job_s_own_is_written() {
        let mut files = graph("connector = \"file\"\npath = \"out\"");
        redirect(&mut files, Path::new("/drill/ab-round-1"));
        assert_eq!((files.name.as_str(), files.checkpoint.storage), ("j-ab-round-1", None));
        let SinkConnectorSpec::File { path } = &files.sinks[0].connector else { panic!("a file sink") };
        assert_eq!(path, Path::new("/drill/ab-round-1/out/out"));
        assert_eq!(files.sinks[0].section["path"], "/drill/ab-round-1/out/out");
        let SourceConnectorSpec::Kafka(kafka) = &files.sources[0].connector else { panic!("a Kafka source") };
        assert!(kafka.until_end && !kafka.commit_offsets);

        let mut topics = graph("connector = \"kafka\"\nbrokers = \"b:1\"\ntopic = \"results\"");
        redirect(&mut topics, Path::new("/drill/ab-oracle"));
        let SinkConnectorSpec::Kafka(kafka) = &topics.sinks[0].connector else { panic!("a Kafka sink") };
        assert_eq!((kafka.topic.as_deref(), kafka.prefix.as_str()), (Some("results.ab-oracle"), "weir-j-out.ab-oracle"));
        let section = &topics.sinks[0].section;
        assert_eq!((&section["topic"], &section["transaction_prefix"]), (&json!(kafka.topic), &json!(kafka.prefix)));
        assert_eq!(refusals(&topics), []);

        let mut named = graph("connector = \"kafka\"\nbrokers = \"b:1\"\ntopic = \"results\"\ntopic_header = \"to\"");
        redirect(&mut named, Path::new("/drill/ab-oracle"));
        let SinkConnectorSpec::Kafka(kafka) = &named.sinks[0].connector else { panic!("a Kafka sink") };
        assert_eq!((kafka.topic.as_deref(), &kafka.topic_header), (Some("results.ab-oracle"), &None));
        assert_eq!(named.sinks[0].section.get("topic_header"), None);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let discarded = refusals(&graph("connector = \"discard\""));
        assert!(discarded[0].what.contains("no output that could be compared"), "{discarded:?}");
        let named = refusals(&graph("connector = \"kafka\"\nbrokers = \"b:1\"\ntopic_header = \"to\""));
        assert!(named[0].place == "sink out" && named[0].what.contains("name their topics"), "{named:?}");
        let plugin = refusals(&graph("connector = \"plugin\"\nplugin = \"x.wasm\""));
        assert!(plugin[0].place == "sink out" && plugin[0].what.contains("it is a plugin"), "{plugin:?}");
    }
}
