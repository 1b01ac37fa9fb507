//! `--profile`: where the time of the threads went, as a table, as JSON and as a flame graph.

use super::output::Output;
use crate::job::{NodeProfile, Progress, StageProfile, StageProgress};
use inferno::flamegraph;
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The flame graph's file in the data folder.
const FLAME_GRAPH: &str = "profile.svg";

/// Prints the table, draws the flame graph and says where it lies. `last`: the last figures; none if nothing ran.
pub(super) fn tell(job: &str, data: &Path, last: Option<&Progress>, output: &mut Output<'_>) {
    let Some(last) = last else {
        output.say("profile: nothing ran");
        return;
    };
    table(&last.stages).iter().for_each(|line| output.say(line));
    let path = data.join(FLAME_GRAPH);
    let drawn = flame_graph(job, &last.stages).and_then(|svg| std::fs::write(&path, svg));
    output.say(match drawn {
        Ok(()) => format!("flame graph: {}", path.display()),
        Err(error) => format!("the flame graph could not be written to {}: {error}", path.display()),
    });
}

/// Time that a task's shares are of. A run that was stopped at once leaves threads behind whose last turn is not counted.
fn whole(task: &StageProgress) -> Duration {
    let stages = task.nodes.iter().flat_map(|node| &node.stages);
    task.thread.max(stages.map(|stage| stage.time).sum())
}

fn share(time: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { time.as_secs_f64() / whole.as_secs_f64() }
}

/// Nanoseconds of a stage for each record that its node got; none if it got no records.
fn per_record(stage: &StageProfile, node: &NodeProfile) -> Option<f64> {
    (node.records > 0).then(|| stage.time.as_nanos() as f64 / node.records as f64)
}

/// One line for each task, node and stage.
fn table(tasks: &[StageProgress]) -> Vec<String> {
    let nodes = tasks.iter().flat_map(|task| &task.nodes);
    let width = nodes.map(|node| node.name.chars().count()).max().unwrap_or(0);
    let mut lines = vec![
        "where the time of the threads went".to_owned(),
        format!("  {:width$}  {:17}  {:>10}  {:>7}  {:>9}", "", "", "seconds", "share", "ns/record"),
    ];
    for task in tasks {
        lines.push(format!("{} ×{}: {:.3} s", task.name, task.subtasks, whole(task).as_secs_f64()));
        for node in &task.nodes {
            let mut name = node.name.as_str();
            for stage in &node.stages {
                let per_record = per_record(stage, node).map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"));
                let (seconds, share) = (stage.time.as_secs_f64(), 100.0 * share(stage.time, whole(task)));
                let counts = counts_text(&stage.counts);
                let line =
                    format!("  {name:width$}  {:17}  {seconds:>10.3}  {share:>5.1} %  {per_record:>9}  {counts}", stage.stage);
                lines.push(line.trim_end().to_owned());
                // It stands at its first stage only.
                name = "";
            }
        }
    }
    lines
}

fn counts_text(counts: &[(&str, u64)]) -> String {
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// What the table says, for scripts.
pub(super) fn document(tasks: &[StageProgress]) -> Value {
    let task = |task: &StageProgress| {
        let whole = whole(task);
        json!({
            "task": task.name,
            "subtasks": task.subtasks,
            "thread_ns": whole.as_nanos() as u64,
            "nodes": task.nodes.iter().map(|node| node_document(node, whole)).collect::<Vec<_>>(),
        })
    };
    tasks.iter().map(task).collect()
}

fn node_document(node: &NodeProfile, whole: Duration) -> Value {
    let stage = |stage: &StageProfile| {
        let counts: Map<String, Value> = stage.counts.iter().map(|(what, count)| ((*what).to_owned(), json!(count))).collect();
        json!({
            "stage": stage.stage,
            "ns": stage.time.as_nanos() as u64,
            "share": share(stage.time, whole),
            "ns_per_record": per_record(stage, node),
            "counts": counts,
        })
    };
    json!({ "node": node.name, "records": node.records, "stages": node.stages.iter().map(stage).collect::<Vec<_>>() })
}

/// One line for each stage that took time: `job;task;node;stage nanoseconds`.
fn folded(job: &str, tasks: &[StageProgress]) -> Vec<String> {
    let frame = |name: &str| name.replace(';', ",");
    let mut lines = Vec::new();
    for task in tasks {
        for node in &task.nodes {
            for stage in node.stages.iter().filter(|stage| !stage.time.is_zero()) {
                let frames = [job, &task.name, &node.name, stage.stage].map(frame).join(";");
                lines.push(format!("{frames} {}", stage.time.as_nanos()));
            }
        }
    }
    lines
}

fn flame_graph(job: &str, tasks: &[StageProgress]) -> io::Result<Vec<u8>> {
    let mut options = flamegraph::Options::default();
    options.title = format!("{job}: where the time of the threads went");
    options.count_name = "ns".to_owned();
    options.deterministic = true;
    let (lines, mut svg) = (folded(job, tasks), Vec::new());
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).map_err(io::Error::other)?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(stage: &'static str, ms: u64, counts: &[(&'static str, u64)]) -> StageProfile {
        StageProfile { stage, time: Duration::from_millis(ms), counts: counts.to_vec() }
    }

    fn tasks() -> Vec<StageProgress> {
        let counts = [("hits", 1_900), ("misses", 100), ("store reads", 7)];
        let stats = vec![
            stage("waiting for input", 600, &[]),
            stage("state look-up", 100, &counts),
            stage("guest call", 300, &[("calls", 2)]),
        ];
        let out = vec![stage("sink write", 0, &[]), stage("snapshot", 250, &[])];
        vec![StageProgress {
            name: "stats → out".to_owned(),
            subtasks: 2,
            records_in: 2_000,
            records_out: 2_000,
            backlog_bytes: 0,
            busy: 0.0,
            backpressured: 0.0,
            idle: 1.0,
            thread: Duration::from_millis(1_250),
            nodes: vec![
                NodeProfile { name: "stats".to_owned(), records: 2_000, is_sink: false, stages: stats, event_time: None },
                NodeProfile { name: "out".to_owned(), records: 0, is_sink: true, stages: out, event_time: None },
            ],
        }]
    }

    #[test]
    fn the_table_stands_in_columns() {
        assert_eq!(
            table(&tasks()),
            [
                "where the time of the threads went",
                "                               seconds    share  ns/record",
                "stats → out ×2: 1.250 s",
                "  stats  waiting for input       0.600   48.0 %   300000.0",
                "         state look-up           0.100    8.0 %    50000.0  1900 hits, 100 misses, 7 store reads",
                "         guest call              0.300   24.0 %   150000.0  2 calls",
                "  out    sink write              0.000    0.0 %          -",
                "         snapshot                0.250   20.0 %          -",
            ]
        );
    }

    #[test]
    fn stacks_are_folded_and_drawn() {
        let tasks = tasks();
        let lines = folded("a;b", &tasks);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[1], "a,b;stats → out;stats;state look-up 100000000");
        let svg = String::from_utf8(flame_graph("a;b", &tasks).expect("it is drawn")).expect("it is text");
        assert!(svg.contains("state look-up (100,000,000 ns, 8.00%)"), "{svg}");
    }

    #[test]
    fn shares_are_of_the_threads_time_and_never_more_than_all_of_it() {
        let mut tasks = tasks();
        assert_eq!(document(&tasks)[0]["nodes"][0]["stages"][1]["share"], json!(0.08));
        // Stopped at once: a thread's last turn is missing.
        tasks[0].thread = Duration::from_millis(10);
        assert_eq!(document(&tasks)[0]["thread_ns"], json!(1_250_000_000_u64));
    }

    #[test]
    fn a_flame_graph_of_nothing_is_an_error_and_no_panic() {
        assert!(flame_graph("j", &[]).is_err());
        assert_eq!(document(&[]), json!([]));
    }
}
