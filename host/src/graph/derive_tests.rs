//! Execution graphs as data: a short job and its plugins in, tasks as text out.

use super::execution::{OutputName, Target};
use super::*;
use crate::store::manifest::StateManifest;
use std::collections::BTreeMap;
use std::path::Path;

/// A job of `name: from …` lines: `s` sources, `o` operators, `k` sinks, each `kind name[*parallelism] from… [key = value…]`.
fn job(lines: &str) -> JobGraph {
    let mut text = String::from("[job]\nname = \"j\"\n");
    if lines.contains("k dead") {
        text.push_str("dead_letter = \"dead\"\n");
    }
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let kind = words.next().expect("a kind");
        let (name, parallelism) = words.next().and_then(|name| name.split_once('*')).expect("name*parallelism");
        let rest = words.next().unwrap_or("").replace("; ", "\n");
        let fixed = match kind {
            "s" => "[[source]]\nconnector = \"sequence\"\ncount = 1\n",
            "f" => "[[source]]\nconnector = \"file\"\npath = \"x\"\n",
            "o" => "[[operator]]\nplugin = \"x.wasm\"\n",
            "k" => "[[sink]]\nconnector = \"discard\"\n",
            other => panic!("{other}"),
        };
        text.push_str(&format!("{fixed}name = \"{name}\"\nparallelism = {parallelism}\n{rest}\n"));
    }
    job_file::parse(&text, Path::new("job.toml"), Path::new("/"), &|_| None)
        .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

fn keyed() -> PluginFacts {
    PluginFacts {
        states: vec![StateManifest { name: "n".to_owned(), kind: "value".to_owned(), schema_version: 1 }],
        ..PluginFacts::default()
    }
}

fn sides(names: &[&str]) -> PluginFacts {
    PluginFacts { side_outputs: names.iter().map(|name| (*name).to_owned()).collect(), ..PluginFacts::default() }
}

/// Facts of every operator; those not given are stateless.
fn facts_of(graph: &JobGraph, given: &[(&str, PluginFacts)]) -> BTreeMap<String, PluginFacts> {
    let mut facts: BTreeMap<String, PluginFacts> =
        graph.operators.iter().map(|operator| (operator.name.clone(), PluginFacts::default())).collect();
    facts.extend(given.iter().map(|(name, fact)| ((*name).to_owned(), fact.clone())));
    facts
}

fn derive(lines: &str, given: &[(&str, PluginFacts)]) -> Result<ExecutionGraph, Vec<String>> {
    let graph = job(lines);
    ExecutionGraph::derive(&graph, &facts_of(&graph, given)).map_err(|problems| problems.iter().map(Problem::to_string).collect())
}

/// One line a task, then its inputs, then every output that has readers.
fn show(graph: &ExecutionGraph) -> String {
    let mut out = String::new();
    for (index, task) in graph.tasks.iter().enumerate() {
        out.push_str(&format!(
            "{index}: {} *{} first {} channels {}\n",
            task.name, task.parallelism, task.first_subtask.0, task.channels
        ));
        for edge in &task.inputs {
            let from = &graph.tasks[edge.task.0];
            let (node, first) = (&from.nodes[edge.node], edge.first_channel.0);
            let output = output_name(&node.outputs[edge.output].output);
            out.push_str(&format!(
                "   in {} {}{output} -> port {} from channel {first}, {}\n",
                edge.partition.word(),
                node.name,
                edge.port,
                edge.channels
            ));
        }
        for node in &task.nodes {
            for output in &node.outputs {
                for target in &output.targets {
                    let to = match target {
                        Target::Chained { node, port } => format!("{} port {port}", task.nodes[*node].name),
                        Target::Exchange { task, edge } => format!("task {} edge {edge}", task.0),
                    };
                    out.push_str(&format!("   {}{} -> {to}\n", node.name, output_name(&output.output)));
                }
            }
        }
    }
    out
}

fn output_name(output: &OutputName) -> String {
    match output {
        OutputName::Main => String::new(),
        OutputName::Side(name) => format!(".{name}"),
        OutputName::DeadLetter => "!".to_owned(),
    }
}

#[track_caller]
fn check(lines: &str, given: &[(&str, PluginFacts)], want: &str) {
    let graph = derive(lines, given).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    check_invariants(&graph);
    let want: String = want
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("{}\n", line.strip_prefix("        ").unwrap_or(line)))
        .collect();
    assert_eq!(show(&graph), want);
}

/// The invariants that the module states.
fn check_invariants(graph: &ExecutionGraph) {
    let mut subtask = 0;
    for (index, task) in graph.tasks.iter().enumerate() {
        assert_eq!(task.first_subtask.0, subtask, "subtasks are dense");
        subtask += task.parallelism;
        assert_eq!(
            graph.locate(task.subtask(task.parallelism - 1)).map(|(task, within)| (task.0, within)),
            Some((index, task.parallelism - 1))
        );
        let mut channel = 0;
        for (at, edge) in task.inputs.iter().enumerate() {
            assert!(edge.task.0 < index, "upstream before downstream");
            assert_eq!(edge.first_channel.0, channel, "channels are dense");
            channel += edge.channels;
            let targets = &graph.tasks[edge.task.0].nodes[edge.node].outputs[edge.output].targets;
            let back = Target::Exchange { task: super::execution::TaskIndex(index), edge: at };
            assert_eq!(targets.iter().filter(|target| **target == back).count(), 1, "both ends know the edge");
            for writer in 0..graph.tasks[edge.task.0].parallelism {
                for reader in edge.readers(writer, task.parallelism) {
                    assert!(reader < task.parallelism && edge.channel_from(writer).0 < channel);
                }
            }
        }
        assert_eq!(task.channels, channel);
        let mut chained = vec![0; task.nodes.len()];
        for (at, node) in task.nodes.iter().enumerate() {
            for target in node.outputs.iter().flat_map(|output| &output.targets) {
                if let Target::Chained { node, .. } = target {
                    assert!(*node > at, "a chain goes forward");
                    chained[*node] += 1;
                }
            }
        }
        assert_eq!(chained[0], 0, "nothing in the chain feeds the root");
        assert!(chained[1..].iter().all(|&inputs| inputs == 1), "a chain is a tree");
    }
    assert_eq!(graph.subtasks(), subtask);
    assert_eq!(graph.locate(weir_protocol::SubtaskIndex(subtask)), None);
}

#[test]
fn the_flights_job() {
    check(
        "s in*1
         o parse*1 from = \"in\"
         o stats*2 from = \"parse\"
         k out*2 from = \"stats\"
         k rejected*1 from = \"parse.rejected\"",
        &[("parse", sides(&["rejected"])), ("stats", keyed())],
        "
        0: in → parse → rejected *1 first 0 channels 0
           in -> parse port 0
           parse -> task 1 edge 0
           parse.rejected -> rejected port 0
        1: stats → out *2 first 1 channels 1
           in key parse -> port 0 from channel 0, 1
           stats -> out port 0
        ",
    );
}

#[test]
fn chains_split_where_parallelism_differs_or_the_user_says_so() {
    check(
        "s in*2
         o a*2 from = \"in\"
         o b*3 from = \"a\"
         o c*3 from = \"b\"; partition = \"rebalance\"
         o d*3 from = \"c\"; partition = \"forward\"
         o e*3 from = \"d\"; partition = \"key\"
         k out*1 from = \"e\"",
        &[],
        "
        0: in → a *2 first 0 channels 0
           in -> a port 0
           a -> task 1 edge 0
        1: b *3 first 2 channels 2
           in rebalance a -> port 0 from channel 0, 2
           b -> task 2 edge 0
        2: c → d *3 first 5 channels 3
           in rebalance b -> port 0 from channel 0, 3
           c -> d port 0
           d -> task 3 edge 0
        3: e *3 first 8 channels 3
           in key d -> port 0 from channel 0, 3
           e -> task 4 edge 0
        4: out *1 first 11 channels 3
           in rebalance e -> port 0 from channel 0, 3
        ",
    );
}

#[test]
fn a_chain_is_a_tree_and_several_inputs_end_it() {
    check(
        "s x*2
         s y*2
         o left*2 from = \"x\"
         o right*2 from = \"x\"
         o join*2 from = [\"left\", { name = \"y\", partition = \"broadcast\" }, \"right\"]
         k out*2 from = [\"join\", \"left\"]
         k also*2 from = \"join\"",
        &[],
        "
        0: x → left → right *2 first 0 channels 0
           x -> left port 0
           x -> right port 0
           left -> task 2 edge 0
           left -> task 3 edge 1
           right -> task 2 edge 2
        1: y *2 first 2 channels 0
           y -> task 2 edge 1
        2: join → also *2 first 4 channels 4
           in forward left -> port 0 from channel 0, 1
           in broadcast y -> port 1 from channel 1, 2
           in forward right -> port 2 from channel 3, 1
           join -> task 3 edge 0
           join -> also port 0
        3: out *2 first 6 channels 2
           in forward join -> port 0 from channel 0, 1
           in forward left -> port 1 from channel 1, 1
        ",
    );
}

#[test]
fn a_keyed_join_has_both_inputs_by_key() {
    check(
        "s x*1
         s y*2
         o join*2 from = [\"x\", \"y\"]
         k out*1 from = \"join\"
         k alone*2 from = \"join.unmatched\"",
        &[("join", PluginFacts { inputs: 2, ends: true, side_outputs: vec!["unmatched".to_owned()], ..keyed() })],
        "
        0: x *1 first 0 channels 0
           x -> task 2 edge 0
        1: y *2 first 1 channels 0
           y -> task 2 edge 1
        2: join → alone *2 first 3 channels 3
           in key x -> port 0 from channel 0, 1
           in key y -> port 1 from channel 1, 2
           join -> task 3 edge 0
           join.unmatched -> alone port 0
        3: out *1 first 5 channels 2
           in rebalance join -> port 0 from channel 0, 2
        ",
    );
}

#[test]
fn dead_letters_flow_after_the_declared_outputs() {
    check(
        "s in*2
         o a*2 from = \"in\"; on_bad_record = \"dead-letter\"
         o b*1 from = \"a\"; on_bad_record = \"dead-letter\"
         k out*1 from = [\"b\", \"a.late\"]
         k dead*1",
        &[("a", sides(&["late"]))],
        "
        0: in → a *2 first 0 channels 0
           in -> a port 0
           a -> task 1 edge 0
           a.late -> task 2 edge 1
           a! -> task 3 edge 0
        1: b *1 first 2 channels 2
           in rebalance a -> port 0 from channel 0, 2
           b -> task 2 edge 0
           b! -> task 3 edge 1
        2: out *1 first 3 channels 3
           in forward b -> port 0 from channel 0, 1
           in rebalance a.late -> port 1 from channel 1, 2
        3: dead *1 first 4 channels 3
           in rebalance a! -> port 0 from channel 0, 2
           in forward b! -> port 1 from channel 2, 1
        ",
    );
    // One writer of the same parallelism: chained, behind the sink's own input.
    check(
        "s in*1
         o a*1 from = \"in\"; on_bad_record = \"dead-letter\"
         k dead*1 ",
        &[],
        "
        0: in → a → dead *1 first 0 channels 0
           in -> a port 0
           a! -> dead port 0
        ",
    );
    check(
        "s in*1
         o a*1 from = \"in\"; on_bad_record = \"dead-letter\"
         k dead*1 from = \"a\"",
        &[],
        "
        0: in → a *1 first 0 channels 0
           in -> a port 0
           a -> task 1 edge 0
           a! -> task 1 edge 1
        1: dead *1 first 1 channels 2
           in forward a -> port 0 from channel 0, 1
           in forward a! -> port 1 from channel 1, 1
        ",
    );
}

#[test]
fn operators_may_stand_in_any_order_in_the_file() {
    check(
        "o last*1 from = \"mid\"
         o mid*1 from = \"first\"
         o first*1 from = \"in\"
         k out*1 from = \"last\"
         s in*1",
        &[],
        "
        0: in → first → mid → last → out *1 first 0 channels 0
           in -> first port 0
           first -> mid port 0
           mid -> last port 0
           last -> out port 0
        ",
    );
}

#[test]
fn what_does_not_fit_the_plugin_is_refused_all_at_once() {
    let lines = "s in*1
         o a*1 from = \"in\"
         o b*2 from = [\"a.rejectd\", \"a\"]; partition = \"rebalance\"
         o c*2 from = \"a\"; partition = \"forward\"
         o d*2 from = [\"b\", { name = \"a\", partition = \"broadcast\" }]
         k out*1 from = [\"b.none\", \"c\", \"d\"]";
    let given = [("a", sides(&["rejected"])), ("b", keyed()), ("d", PluginFacts { inputs: 1, ..keyed() })];
    let problems = derive(lines, &given).expect_err("nothing fits");
    let keyed_next =
        "use partition = \"key\", or leave it out: each key's state lives in one subtask, which must see all records of the key";
    assert_eq!(
        problems,
        [
            "job.toml: [[operator]] b: 'from' reads a.rejectd, which the plugin of 'a' does not declare; did you mean 'rejected'?".to_owned(),
            format!("job.toml: [[operator]] b: partition = \"rebalance\" into a plugin with keyed state; {keyed_next}"),
            "job.toml: [[operator]] c: partition = \"forward\" from 'a' with 1 subtask(s) to 2; give both the same parallelism, or use rebalance".to_owned(),
            "job.toml: [[operator]] d: the plugin has 1 input(s), 'from' gives it 2; list exactly its inputs in 'from', in the order of its ports".to_owned(),
            format!("job.toml: [[operator]] d: partition = \"broadcast\" into a plugin with keyed state; {keyed_next}"),
            "job.toml: [[sink]] out: 'from' reads b.none, which the plugin of 'b' does not declare; the plugin declares no side output".to_owned(),
        ]
    );
}

#[test]
fn outputs_that_nothing_reads_are_said_aloud() {
    let lines = "s in*1
         o a*1 from = \"in\"; on_bad_record = \"drop\"
         k out*2 from = \"a.late\"; partition = \"broadcast\"";
    let graph = derive(lines, &[("a", sides(&["late", "odd"]))]).expect("it fits");
    assert_eq!(
        graph.notes,
        [
            "operator 'a': nothing reads its main output; what it emits there is dropped",
            "operator 'a': nothing reads its side output 'a.odd'; what it emits there is dropped",
            "operator 'a': on_bad_record = \"drop\" leaves bad records out without a trace",
            "'a' → 'out': broadcast writes each record 2 times, once in each writer",
        ]
    );
    let graph = derive("f in*1\no a*2 from = \"in\"\nk out*2 from = \"a\"", &[("a", keyed())]).expect("it fits");
    assert_eq!(graph.notes, ["'in' → 'a': records of a file source have no key, so that all go to one of 2 subtasks"]);
}

#[test]
fn more_threads_or_channels_than_a_process_bears_are_refused() {
    let many: String = (0..17).map(|i| format!("o x{i}*1024 from = \"in\"\n")).collect();
    let problems = derive(&format!("s in*1\n{many}k out*1 from = \"x0\""), &[]).expect_err("too many");
    assert_eq!(
        problems,
        ["job.toml: the job has 17410 subtasks, more than 16384; lower a parallelism: each subtask is a thread"]
    );

    let inputs: Vec<String> = (0..65).map(|i| format!("\"in{i}\"")).collect();
    let sources: String = (0..65).map(|i| format!("s in{i}*1024\n")).collect();
    let problems = derive(&format!("{sources}k out*1 from = [{}]", inputs.join(", ")), &[]).expect_err("too many");
    assert_eq!(
        problems[1],
        "job.toml: [[sink]] out: it has 66560 input channels a subtask, more than 65535; lower the parallelism of what it reads, or read fewer"
    );
}

#[test]
fn what_holds_event_time_back_is_noted() {
    let notes = |lines: &str| derive(lines, &[]).expect("it fits").notes;
    let timed = "watermark = { delay = \"1s\", idle = \"1s\" }";
    let joined = format!(
        "s a*1\ns b*1\no x*1 from = \"a\"; {timed}\no y*1 from = \"b\"\no z*1 from = [\"x\", \"y\"]\nk out*1 from = \"z\""
    );
    assert_eq!(
        notes(&joined),
        ["operator 'z': its input 'y' has no watermark: event time stands still there until that input has ended"]
    );
    let complete = joined.replace("from = \"b\"", &format!("from = \"b\"; {timed}"));
    assert!(notes(&complete).is_empty());
    // One that sets its own needs none.
    let own = joined.replace("from = [\"x\", \"y\"]", &format!("from = [\"x\", \"y\"]; {timed}"));
    assert!(notes(&own).is_empty());
    let patient = "s a*1\no x*1 from = \"a\"; watermark = { delay = \"1s\" }\nk out*1 from = \"x\"";
    assert_eq!(
        notes(patient),
        ["operator 'x': watermark without 'idle': a subtask that emits nothing holds event time back for all"]
    );
}

#[test]
fn timers_without_event_time_are_noted() {
    let timed = || [("x", PluginFacts { timers: true, ..keyed() })];
    let notes = |lines: &str| derive(lines, &timed()).expect("it fits").notes;
    let plain = "s a*1\no m*1 from = \"a\"\no x*1 from = \"m\"\nk out*1 from = \"x\"";
    let note = "operator 'x' has timers and no watermark reaches it: those of event time fire when its input has ended";
    assert_eq!(notes(plain), [note]);
    let with = plain.replace("from = \"a\"", "from = \"a\"; watermark = { delay = \"1s\", idle = \"1s\" }");
    assert!(notes(&with).is_empty());
}

#[test]
fn every_path_says_what_it_guarantees_and_why() {
    let text = r#"
        [job]
        name = "j"
        [[source]]
        name = "in"
        connector = "file"
        path = "x"
        [[source]]
        name = "gen"
        connector = "sequence"
        count = 1
        [[operator]]
        name = "a"
        plugin = "a.wasm"
        from = "in"
        on_bad_record = "drop"
        grants = { folders = { out = "x" } }
        [[operator]]
        name = "b"
        plugin = "b.wasm"
        from = ["a", "gen"]
        [[sink]]
        name = "files"
        connector = "file"
        path = "out"
        from = "b"
        guarantee = "at-least-once"
        [[sink]]
        name = "gone"
        connector = "discard"
        from = "a.late"
        [[sink]]
        name = "plug"
        connector = "plugin"
        plugin = "s.wasm"
        from = "gen"
    "#;
    let graph = job_file::parse(text, Path::new("job.toml"), Path::new("/"), &|_| None).expect("it is right");
    let facts = facts_of(&graph, &[("a", sides(&["late"])), ("b", keyed())]);
    let execution = ExecutionGraph::derive(&graph, &facts).expect("it fits");
    let described = describe::Description::of(&graph, &facts, &execution);
    let shown: Vec<String> = described
        .paths
        .iter()
        .map(|path| {
            format!(
                "{} > {} > {}: {:?}: {}",
                path.source,
                path.operators.join(","),
                path.sink,
                path.guarantee,
                path.why.join(" | ")
            )
        })
        .collect();
    let from_files = "'in' replays its files from the offset in the checkpoint | what 'a' writes to its folder 'out' is outside the checkpoint: after a restart it may be written again | records that 'a' calls bad are dropped";
    let from_numbers = "'gen' makes the same records again from the number in the checkpoint";
    let files = "the state of 'b' is in the checkpoint | 'files' commits staged files by a rename once the checkpoint is complete; at-least-once was asked for, and this sink gives more at no cost";
    assert_eq!(
        shown,
        [
            format!("in > a,b > files: ExactlyOnce: {from_files} | {files}"),
            format!("in > a > gone: None: {from_files} | 'gone' throws its records away: there is nothing to guarantee"),
            format!("gen > b > files: ExactlyOnce: {from_numbers} | {files}"),
            format!(
                "gen >  > plug: ExactlyOnce: {from_numbers} | 'plug' commits prepared transactions, if the plugin keeps its contract, once the checkpoint is complete"
            ),
        ]
    );
    let edges: Vec<String> =
        described.edges.iter().map(|edge| format!("{} -> {}: {}: {}", edge.from, edge.to, edge.partition, edge.why)).collect();
    assert_eq!(
        edges,
        [
            "in -> a: forward: same parallelism, 1, and no keyed state",
            "a -> b: key: the plugin declares keyed state",
            "gen -> b: key: the plugin declares keyed state",
            "b -> files: forward: same parallelism, 1, and no keyed state",
            "a.late -> gone: forward: same parallelism, 1, and no keyed state",
            "gen -> plug: forward: same parallelism, 1, and no keyed state",
        ]
    );
}

#[test]
fn the_examples_are_right() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for (name, plugins, stages) in [
        (
            "flights",
            vec![("parse", sides(&["rejected"])), ("stats", keyed())],
            ["flights → parse → rejected-out ×1", "stats → stats-out ×2"].as_slice(),
        ),
        (
            "flights-weather",
            vec![("join", PluginFacts { inputs: 2, ends: true, side_outputs: vec!["unmatched".to_owned()], ..keyed() })],
            &["flights → key-flights ×1", "weather → key-weather ×1", "join → matched-out → unmatched-out ×2"],
        ),
    ] {
        let graph =
            job_file::load(&examples.join(name).join("job.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems:?}"));
        for source in &graph.sources {
            let SourceConnectorSpec::File { path, skip_header: true, .. } = &source.connector else { panic!("{source:?}") };
            assert!(Path::new(path).is_file(), "{path}");
        }
        let execution =
            ExecutionGraph::derive(&graph, &facts_of(&graph, &plugins)).unwrap_or_else(|problems| panic!("{problems:?}"));
        let shown: Vec<String> = execution.tasks.iter().map(|task| format!("{} ×{}", task.name, task.parallelism)).collect();
        assert_eq!(shown, stages);
        assert!(execution.notes.is_empty(), "{:?}", execution.notes);
    }
}
