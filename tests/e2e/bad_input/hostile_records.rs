//! A record that makes a plugin trap, loop, take all memory or refuse: it is found, named by file and offset, and dealt with
//! as the job says; the host and every other record live on.

use base64::Engine as _;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use weir_tests::flights::{FLIGHTS, example_lines};
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::Scratch;
use weir_tests::{guest, judge};

/// Input lines: half a second at the rate.
const ROWS: usize = 3_000;

/// How often the text stands in the input that makes a plugin go wrong.
const BAD: usize = 3;

/// What a plugin does with a bad record, the limits that it runs with, and what is said about it.
struct Action {
    name: &'static str,
    limits: &'static str,
    said: &'static [&'static str],
}

/// A limit on time that only an endless loop passes, however busy the machine is.
const PATIENT: &str = "call = \"60s\"";

const ACTIONS: &[Action] = &[
    Action { name: "trap", limits: PATIENT, said: &["trapped", "trap, as configured"] },
    Action { name: "loop", limits: "call = \"200ms\"", said: &["computed longer than its limit, 200ms", "`limits.call`"] },
    Action { name: "memory", limits: PATIENT, said: &["more memory than its limit, 64MiB", "`limits.memory`"] },
    Action { name: "recurse", limits: PATIENT, said: &["trapped", "call stack exhausted"] },
    Action { name: "flood", limits: "call = \"60s\", emit = \"4MiB\"", said: &["more bytes than its limit, 4MiB", "`limits.emit`"] },
    Action { name: "bad-record", limits: PATIENT, said: &["bad, as configured"] },
];

fn action(name: &str) -> &'static Action {
    ACTIONS.iter().find(|action| action.name == name).expect("a known action")
}

/// Flights through a plugin that goes wrong at some of them.
struct Case {
    scratch: Scratch,
    lines: Vec<String>,
    /// What stands in the bad lines.
    on: String,
}

/// A bad line, and the byte at which it begins in its file.
struct Bad<'a> {
    file: String,
    offset: u64,
    line: &'a str,
}

impl Case {
    fn new(files: usize) -> Self {
        let mut lines = example_lines(FLIGHTS);
        lines.truncate(ROWS);
        let scratch = Scratch::new();
        for (i, part) in lines.chunks(ROWS.div_ceil(files)).enumerate() {
            scratch.write(&format!("in/flights-{}.csv", i + 1), format!("a header\n{}\n", part.join("\n")));
        }
        let times = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        // A plane that flew a few times, not before the second half: something is committed by then.
        let planes = lines[ROWS / 2..].iter().map(|line| line.split(',').nth(11).expect("a flight has 19 fields"));
        let seldom = |plane: &&str| times(plane) == BAD && !lines[..ROWS / 2].iter().any(|line| line.contains(*plane));
        let on = planes.filter(|plane| *plane != "NA").find(seldom).expect("such a plane is in the data").to_owned();
        Case { scratch, lines, on }
    }

    /// Writes a job of the operator `suspect`: the stateless plugin, reading from the source.
    fn stateless(&self, action: &Action, on: &str, policy: &str) {
        let operators = self.suspect("misbehave", "flights", action, on, policy);
        self.write(1, &operators, policy);
    }

    /// The same with the keyed plugin, behind an exchange.
    fn keyed(&self, action: &Action, policy: &str) {
        let parse = format!("[[operator]]\nname = \"parse\"\nplugin = \"{}\"\nfrom = \"flights\"\n", guest("parse_flights").display());
        let operators = parse + &self.suspect("misbehave_keyed", "parse", action, &self.on, policy);
        self.write(2, &operators, policy);
    }

    fn suspect(&self, plugin: &str, from: &str, action: &Action, on: &str, policy: &str) -> String {
        let (plugin, Action { name, limits, .. }) = (guest(plugin), action);
        format!(
            "[[operator]]\nname = \"suspect\"\nplugin = \"{}\"\nfrom = \"{from}\"\nconfig = {{ on = \"{on}\", do = \"{name}\" }}\n\
             limits = {{ {limits} }}\non_bad_record = \"{policy}\"\n",
            plugin.display()
        )
    }

    fn write(&self, parallelism: u32, operators: &str, policy: &str) {
        let (key, sink) = match policy {
            "dead-letter" => ("dead_letter = \"dead\"", "[[sink]]\nname = \"dead\"\nconnector = \"file\"\npath = \"dead\"\n"),
            _ => ("", ""),
        };
        let job = format!(
            r#"
[job]
name = "hostile"
parallelism = {parallelism}
{key}

[checkpoint]
interval = "100ms"

[restart]
strategy = "none"

[[source]]
name = "flights"
connector = "file"
path = "in/*.csv"
header = "skip"
rate = 6000

{operators}
[[sink]]
name = "out"
connector = "file"
from = "suspect"
path = "out"

{sink}"#
        );
        self.scratch.write("job.toml", job);
    }

    fn run(&self, variables: &[(&str, &str)]) -> Ended {
        Running::start(self.scratch.folder(), &["run", "job.toml", "--data", "data"], variables).finish()
    }

    fn is_bad(&self, line: &str) -> bool {
        line.contains(&self.on)
    }

    fn good(&self) -> impl Iterator<Item = &String> {
        self.lines.iter().filter(|line| !self.is_bad(line))
    }

    fn bad(&self, files: usize) -> Vec<Bad<'_>> {
        let mut bad = Vec::new();
        for (i, part) in self.lines.chunks(ROWS.div_ceil(files)).enumerate() {
            let file = self.scratch.path(&format!("in/flights-{}.csv", i + 1)).display().to_string();
            let mut offset = "a header\n".len() as u64;
            for line in part {
                if self.is_bad(line) {
                    bad.push(Bad { file: file.clone(), offset, line });
                }
                offset += line.len() as u64 + 1;
            }
        }
        assert_eq!(bad.len(), BAD);
        bad
    }

    fn judge<'a>(&self, expected: impl Iterator<Item = &'a String>) {
        let got = judge::lines(&self.scratch.path("out")).unwrap();
        judge::same("out", &judge::counted(expected.cloned()), &judge::counted(got)).unwrap();
    }

    /// The dead letters, each with the bad line that it is about. Every bad line has exactly one.
    fn dead_letters<'a>(&self, bad: &'a [Bad<'a>], plugin: &str, said: &[&str]) -> Vec<(Value, &'a Bad<'a>)> {
        let digest: String = Sha256::digest(std::fs::read(guest(plugin)).expect("a guest can be read")).iter().map(|b| format!("{b:02x}")).collect();
        let letters = judge::lines(&self.scratch.path("dead")).unwrap();
        assert_eq!(letters.len(), bad.len(), "{letters:?}");
        let mut missing: Vec<&Bad<'_>> = bad.iter().collect();
        let mut found = Vec::new();
        for letter in letters {
            let letter: Value = serde_json::from_str(&letter).expect("a dead letter is JSON");
            let fields = (&letter["job"], &letter["operator"], &letter["plugin"], &letter["source"]);
            assert!(fields.0 == "hostile" && fields.1 == "suspect" && fields.2 == &*digest && fields.3 == "flights", "{letter}");
            let reason = letter["reason"].as_str().expect("a reason");
            assert!(said.iter().all(|text| reason.contains(text)), "{reason}");
            let value = letter["value"].as_str().expect("a value");
            let value = base64::engine::general_purpose::STANDARD.decode(value).expect("base64");
            let at = missing.iter().position(|bad| bad.line.as_bytes() == value).expect("a bad line, once");
            found.push((letter, missing.remove(at)));
        }
        found
    }
}

#[test]
fn fail_stops_the_job_and_names_the_record() {
    for action in ACTIONS {
        let case = Case::new(1);
        case.stateless(action, &case.on, "fail");
        let first = &case.bad(1)[0];
        let record = format!("source flights, {}, offset {}", first.file, first.offset);
        let said = ["job 'hostile' failed for good", "plugin `misbehave` as `suspect`, subtask 0, process", &record, "run the job again"];
        case.run(&[]).expect_code(1).expect_text(&said).expect_text(action.said);
        // A config that takes no offence goes on where the job stopped.
        case.stateless(action, "in no line", "fail");
        case.run(&[]).expect_code(0);
        case.judge(case.lines.iter());
    }
}

#[test]
fn drop_leaves_the_record_out() {
    for name in ["trap", "bad-record"] {
        let case = Case::new(1);
        case.stateless(action(name), &case.on, "drop");
        case.run(&[]).expect_code(0);
        case.judge(case.good());
    }
}

#[test]
fn dead_letters_have_the_exact_place_and_survive_a_crash() {
    for action in ACTIONS {
        let case = Case::new(1);
        case.stateless(action, &case.on, "dead-letter");
        let killed = case.run(&[("WEIR_CRASH_AT", "manifest-published:3")]);
        assert!(killed.was_killed(), "{}: {killed:?}", action.name);
        case.run(&[]).expect_code(0);
        case.judge(case.good());
        for (letter, bad) in case.dead_letters(&case.bad(1), "misbehave", action.said) {
            assert_eq!((letter["split"].as_str(), letter["key"].as_str()), (Some(&*bad.file), Some("")), "{letter}");
            assert_eq!((letter["first"].as_u64(), letter["last"].as_u64()), (Some(bad.offset), Some(bad.offset)), "{letter}");
        }
    }
}

/// Whether one of a letter's ranges covers the line.
fn covers(letter: &Value, bad: &Bad<'_>) -> bool {
    let covered = |place: &Value| {
        let (first, last) = (place["first"].as_u64().expect("a position"), place["last"].as_u64().expect("a position"));
        place["split"] == *bad.file && (first..=last).contains(&bad.offset)
    };
    covered(letter) || letter["or"].as_array().is_some_and(|or| or.iter().any(covered))
}

/// Key of a flight, as the parser sets it; none for one without a delay, which it sends elsewhere.
fn key(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split(',').collect();
    (fields[5] != "NA").then(|| format!("{},{}", fields[9], fields[12]))
}

/// Every good line once, as `line:count`, and for each key the counts 1 … n: no state of a bad call was kept.
fn judge_counts<'a>(good: impl Iterator<Item = &'a String>, out: &Path) {
    let mut seen: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in judge::lines(out).unwrap() {
        let (line, count) = line.rsplit_once(':').expect("line:count");
        seen.entry(key(line).expect("only flights with a delay come here")).or_default().push(count.parse().expect("a count"));
        lines.push(line.to_owned());
    }
    judge::same("out", &judge::counted(good.filter(|line| key(line).is_some()).cloned()), &judge::counted(lines)).unwrap();
    for (key, mut counts) in seen {
        counts.sort_unstable();
        assert!(counts.iter().copied().eq(1..=counts.len()), "{key}: {counts:?}");
    }
}

#[test]
fn behind_an_exchange_state_stays_exact_and_letters_have_a_range() {
    for name in ["trap", "loop", "bad-record"] {
        let (case, action) = (Case::new(2), action(name));
        case.keyed(action, "dead-letter");
        let killed = case.run(&[("WEIR_CRASH_AT", "manifest-published:3")]);
        assert!(killed.was_killed(), "{name}: {killed:?}");
        case.run(&[]).expect_code(0);
        judge_counts(case.good(), &case.scratch.path("out"));
        for (letter, bad) in case.dead_letters(&case.bad(2), "misbehave_keyed", action.said) {
            assert!(covers(&letter, bad), "{letter} does not cover {} {}", bad.file, bad.offset);
            assert_eq!(base64::engine::general_purpose::STANDARD.decode(letter["key"].as_str().unwrap()).ok(), key(bad.line).map(String::into_bytes));
        }
    }
}

#[test]
fn a_plugin_that_goes_wrong_at_open_fails_the_job_before_the_first_record() {
    for (name, limits, said) in [
        ("trap-at-open", PATIENT, &["trapped", "trap at open, as configured"][..]),
        ("fatal-at-open", PATIENT, &["gives up: fatal at open, as configured"]),
        ("loop-at-open", "call = \"200ms\"", &["computed longer than its limit, 200ms"]),
    ] {
        let case = Case::new(1);
        case.stateless(&Action { name, limits, said }, "in no line", "fail");
        case.run(&[]).expect_code(1).expect_text(&["plugin `misbehave` as `suspect`, subtask 0, open"]).expect_text(said);
        assert!(judge::lines(&case.scratch.path("out")).unwrap().is_empty());
        case.stateless(action("trap"), "in no line", "fail");
        case.run(&[]).expect_code(0);
        case.judge(case.lines.iter());
    }
}
