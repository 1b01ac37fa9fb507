//! `--profile`: the table, the flame graph and the JSON say where the time went, and they say the same.

use serde_json::Value;
use std::collections::BTreeSet;
use weir_tests::flights::{FlightsCase, FlightsOptions};

/// Names of the document's nodes with their stages, after looking at each task's sums.
fn checked_stages(profile: &Value) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for task in profile.as_array().expect("a profile is a list of tasks") {
        let whole = task["thread_ns"].as_u64().expect("a task has its threads' time");
        let (mut ns, mut share) = (0, 0.0);
        for node in task["nodes"].as_array().expect("a task has nodes") {
            for stage in node["stages"].as_array().expect("a node has stages") {
                ns += stage["ns"].as_u64().expect("a stage has a time");
                share += stage["share"].as_f64().expect("a stage has a share");
                found.insert((text(&node["node"]), text(&stage["stage"])));
            }
        }
        assert!(ns > 0 && ns <= whole, "{ns} ns of {whole} in {task}");
        assert!((0.99..1.000_001).contains(&share), "the shares make {share} in {task}");
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// A stage's counts in the document.
fn counts(profile: &Value, node: &str, stage: &str) -> Value {
    let nodes = profile.as_array().into_iter().flatten().filter_map(|task| task["nodes"].as_array()).flatten();
    let stages = nodes.filter(|found| found["node"] == node).filter_map(|found| found["stages"].as_array()).flatten();
    stages.into_iter().find(|found| found["stage"] == stage).map_or(Value::Null, |found| found["counts"].clone())
}

/// Asserts that an XML document has one root and closes what it opens, in order.
fn assert_well_formed(xml: &str) {
    let (mut open, mut rest, mut roots) = (Vec::new(), xml, 0);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let skipped = [("<?", "?>"), ("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">")];
        if let Some((_, end)) = skipped.iter().find(|(begin, _)| rest.starts_with(begin)) {
            rest = &rest[rest.find(end).unwrap_or_else(|| panic!("no {end} in {rest}")) + end.len()..];
            continue;
        }
        let end = rest.find('>').unwrap_or_else(|| panic!("a tag has no end: {rest}"));
        let tag = &rest[1..end];
        let name = |tag: &str| tag.split([' ', '\n', '/']).next().unwrap_or_default().to_owned();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(name(closed)), "closed in another order"),
            None => {
                roots += usize::from(open.is_empty());
                if !tag.ends_with('/') {
                    open.push(name(tag));
                }
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && roots == 1, "{roots} roots, left open: {open:?}");
}

#[test]
fn table_flame_graph_and_json_say_the_same() {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 4, rate: None, ..FlightsOptions::default() });
    let ended = case.run(&["--profile", "--json"], &[]).expect_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).expect("--json gives JSON");
    let profile = &document["profile"];

    let found = checked_stages(profile);
    for (node, stages) in [
        ("flights", &["source poll", "waiting for input"][..]),
        ("parse", &["guest call", "taking the output", "exchange"]),
        ("stats", &["grouping by key", "state look-up", "guest call", "taking the output", "state apply", "sweep", "snapshot"]),
        ("stats-out", &["sink write", "snapshot"]),
    ] {
        for stage in stages {
            assert!(found.contains(&(node.to_owned(), (*stage).to_owned())), "{node} has no {stage}: {profile:#}");
        }
    }
    let looked_up = counts(profile, "stats", "state look-up");
    let keys = looked_up["hits"].as_u64().unwrap() + looked_up["misses"].as_u64().unwrap();
    assert!(looked_up["misses"].as_u64().unwrap() > 0 && keys > 0, "{looked_up}");
    assert!(counts(profile, "parse", "guest call")["calls"].as_u64().unwrap() > 0);
    // The figures of the whole run, not of the last tick.
    assert_eq!(document["progress"]["stages"][0]["records_in"], case.lines.len());

    // The table has a line for each of them, with the same seconds and share.
    for task in profile.as_array().unwrap() {
        for node in task["nodes"].as_array().unwrap() {
            for stage in node["stages"].as_array().unwrap() {
                let seconds = stage["ns"].as_u64().unwrap() as f64 / 1e9;
                let share = stage["share"].as_f64().unwrap() * 100.0;
                let line = format!("{:17}  {seconds:>10.3}  {share:>5.1} %", text(&stage["stage"]));
                assert!(ended.stderr.contains(&line), "'{line}' is not in\n{}", ended.stderr);
            }
        }
    }

    let svg = std::fs::read_to_string(case.scratch.path("data/profile.svg")).expect("the flame graph is there");
    assert_well_formed(&svg);
    for name in ["guest call", "state look-up", "stats"] {
        assert!(svg.contains(name), "{name} is not drawn");
    }
    assert!(ended.stderr.contains("data/profile.svg"), "nobody says where it lies:\n{}", ended.stderr);
    case.judge().unwrap();
}

#[test]
fn a_failed_run_tells_where_its_time_went_too() {
    let case = FlightsCase::new(FlightsOptions { rate: None, ..FlightsOptions::default() });
    let mut broken = case.lines.clone();
    broken[5_000] = "2013,1,1".to_owned();
    case.scratch.write("in/flights-01.csv", format!("header\n{}\n", broken.join("\n")));
    case.run(&["--profile"], &[]).expect_code(1).expect_text(&["guest call", "source poll", "flame graph: "]);
    assert_well_formed(&std::fs::read_to_string(case.scratch.path("data/profile.svg")).expect("the flame graph is there"));
}

#[test]
fn a_stopped_run_tells_where_its_time_went_too() {
    let case = FlightsCase::new(FlightsOptions { rate: Some(2_000), ..FlightsOptions::default() });
    let mut running = case.start(&["--profile", "--json"], &[]);
    running.wait_until("a checkpoint is complete", || !case.parts().is_empty());
    running.signal(rustix::process::Signal::INT);
    let ended = running.finish().expect_code(0).expect_text(&["guest call", "flame graph: "]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("--json gives JSON");
    assert_eq!(document["outcome"], "suspended");
    checked_stages(&document["profile"]);
}

#[test]
fn without_the_option_nothing_is_told() {
    let case = FlightsCase::new(FlightsOptions { rate: None, ..FlightsOptions::default() });
    let ended = case.run(&["--json"], &[]).expect_code(0);
    assert!(!ended.stderr.contains("where the time"), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).expect("--json gives JSON");
    assert!(document.get("profile").is_none() && !case.scratch.path("data/profile.svg").exists());
}
