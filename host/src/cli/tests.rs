//! The command line against a runtime of straw: arguments in; exit code, stdout and stderr out.

use super::args::Args;
use super::exit::Exit;
use super::main::dispatch;
use super::output::Output;
use super::run::{shell_word, tell};
use crate::graph::{JobGraph, PluginFacts, Problem, job_file};
use crate::job::*;
use crate::store::manifest::StateManifest;
use crate::transactions::{SinkTransactions, TransactionPlace, TransactionReport, TransactionWish};
use clap::{CommandFactory, Parser};
use indicatif::MultiProgress;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_protocol::{CheckpointId, Generation, TransactionId};

/// Finishes every job at once, and remembers how it was asked to run it.
#[derive(Default)]
struct Straw {
    asked: RefCell<Option<(String, RunOptions)>>,
    problem: Option<Problem>,
    wished: RefCell<Option<(TransactionPlace, TransactionWish)>>,
    failure: Option<String>,
}

impl Runtime for Straw {
    fn plugin_facts(&self, graph: &JobGraph) -> Result<BTreeMap<String, PluginFacts>, Vec<Problem>> {
        if let Some(problem) = &self.problem {
            return Err(vec![problem.clone()]);
        }
        let facts = PluginFacts {
            digest: "ab".repeat(32),
            version: "straw 0.1.0".to_owned(),
            states: vec![StateManifest { name: "count".to_owned(), kind: "value".to_owned(), schema_version: 1 }],
            side_outputs: vec!["late".to_owned()],
            inputs: 1,
            ends: true,
            timers: false,
            checkpointed: true,
            wasi: vec!["wasi:cli/exit@0.2.0: a trap".to_owned()],
        };
        Ok(graph.operators.iter().map(|operator| (operator.name.clone(), facts.clone())).collect())
    }

    fn transactions(&self, place: &TransactionPlace, wish: &TransactionWish) -> Result<TransactionReport, Vec<Problem>> {
        *self.wished.borrow_mut() = Some((place.clone(), wish.clone()));
        let sink = SinkTransactions { sink: "out".to_owned(), failure: self.failure.clone(), ..SinkTransactions::default() };
        Ok(TransactionReport { job: "flights".to_owned(), sinks: vec![sink], ..TransactionReport::default() })
    }

    fn another(&self) -> Result<Arc<dyn Runtime + Send + Sync>, Vec<Problem>> {
        Err(vec![Problem::new("this runtime", "is of straw", "")])
    }

    fn run(&self, graph: JobGraph, options: RunOptions, stop: StopSignal, _events: EventListener) -> JobOutcome {
        assert_eq!(stop.requested(), StopRequest::None);
        *self.asked.borrow_mut() = Some((graph.name, options));
        JobOutcome::Finished { checkpoint: checkpoint(1) }
    }
}

fn checkpoint(sequence: u32) -> CheckpointId {
    CheckpointId::new(Generation(3), sequence)
}

/// Exit code, stdout, stderr.
fn weir(runtime: &Straw, words: &[&str]) -> (Exit, String, String) {
    let args = Args::try_parse_from(["weir"].iter().chain(words)).unwrap_or_else(|error| panic!("{error}"));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let exit = dispatch(args, runtime, &MultiProgress::new(), &mut Output::new(&mut stdout, &mut stderr));
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    (exit, text(stdout), text(stderr))
}

/// A folder with a job file.
fn job() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let file = dir.path().join("job.toml");
    let text = r#"
[job]
name = "flights"
[[source]]
name = "in"
connector = "file"
path = "*.csv"
[[operator]]
name = "stats"
plugin = "stats.wasm"
from = "in"
config = { token = "${WEIR_TEST_UNSET:-x}", list = [1, { a-b = "c d" }] }
grants = { folders = { out = "some/path" } }
[[sink]]
name = "out"
connector = "file"
from = ["stats"]
path = "out"
"#;
    std::fs::write(&file, text).expect("the folder is ours");
    let file = file.to_str().expect("the path is text").to_owned();
    (dir, file)
}

#[test]
fn the_command_line_is_consistent() {
    Args::command().debug_assert();
}

#[test]
fn commands_of_later_versions_are_refused_by_name_and_unknown_ones_with_the_nearest() {
    for word in super::args::LATER_COMMANDS {
        let (exit, stdout, stderr) = weir(&Straw::default(), &[word, "--anything", "x"]);
        assert_eq!((exit, stdout.as_str()), (Exit::Refused, ""));
        assert!(stderr.contains(&format!("weir {word}: not in this version")), "{stderr}");
    }
    let (exit, _, stderr) = weir(&Straw::default(), &["chekc", "job.toml"]);
    assert_eq!(exit, Exit::Refused);
    assert!(stderr.contains("there is no such command") && stderr.contains("did you mean 'check'?"), "{stderr}");
}

#[test]
fn a_swap_needs_a_job_that_listens() {
    let (_folder, file) = job();
    let (exit, stdout, stderr) = weir(&Straw::default(), &["swap", &file, "count", "x.wasm"]);
    assert_eq!((exit, stdout.as_str()), (Exit::Refused, ""));
    assert!(stderr.contains("no job runs there with --control") && stderr.contains("weir run JOB --control"), "{stderr}");
}

#[test]
fn usage_errors_exit_as_refused_before_start() {
    for words in
        [&["run"][..], &["run", "x", "--fresh", "--from", "1-1"], &["run", "x", "--from", "17"], &["check", "x", "-q", "-v"], &[]]
    {
        let error = Args::try_parse_from(["weir"].iter().chain(words)).expect_err("it is wrong");
        assert_eq!(error.exit_code(), i32::from(Exit::Refused.code()), "{words:?}: {error}");
    }
}

#[test]
fn run_asks_for_what_the_command_line_says() {
    let (dir, file) = job();
    let beside = dir.path().canonicalize().expect("it exists").join(".weir/flights");
    let cwd = std::env::current_dir().expect("there is one");
    let resume =
        RunOptions { data: beside.clone(), mode: StartMode::Resume, allow_duplicates: false, take_over: false, control: false };
    for (words, want) in [
        (vec![], resume.clone()),
        (vec!["--data", "/fast/x"], RunOptions { data: PathBuf::from("/fast/x"), ..resume.clone() }),
        (vec!["--data", "x"], RunOptions { data: cwd.join("x"), ..resume.clone() }),
        (vec!["--fresh", "--allow-duplicates"], RunOptions { mode: StartMode::Fresh, allow_duplicates: true, ..resume.clone() }),
        (vec!["--from", "3-17"], RunOptions { mode: StartMode::From(checkpoint(17)), ..resume.clone() }),
    ] {
        let straw = Straw::default();
        let words: Vec<&str> = ["run", &file].into_iter().chain(words).collect();
        let (exit, stdout, stderr) = weir(&straw, &words);
        assert_eq!((exit, stderr.as_str()), (Exit::Success, ""));
        assert_eq!(stdout, "job 'flights' has finished: all input is processed and committed, final checkpoint 3-1\n");
        assert_eq!(straw.asked.take(), Some(("flights".to_owned(), want)));
    }
    let (_, stdout, _) = weir(&Straw::default(), &["run", &file, "--json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
    assert_eq!(document, serde_json::json!({ "job": "flights", "outcome": "finished", "checkpoint": "3-1", "exit": 0 }));
}

#[test]
fn every_outcome_has_its_exit_code_and_says_what_to_do() {
    let lost = LostTransaction {
        id: TransactionId {
            lineage: weir_protocol::Lineage(7),
            generation: Generation(2),
            sink: "out".to_owned(),
            writer: 1,
            number: 9,
        },
        checkpoint: checkpoint(4),
        certain: true,
        why: "the staged file is gone".to_owned(),
        sources: vec![LostRange { source: "in".to_owned(), split: "a.csv".to_owned(), first: 10, last: 99 }],
    };
    let failure =
        Failure { why: "disk full".to_owned(), place: "sink 'out', subtask 0".to_owned(), next: "free some space".to_owned() };
    let sentence = Failure { why: "a plugin said no.".to_owned(), ..failure.clone() };
    let trapped = Failure { why: "it trapped\n  0: frame\n  record: 81".to_owned(), ..failure.clone() };
    for (outcome, code, said) in [
        (JobOutcome::Finished { checkpoint: checkpoint(1) }, 0, "has finished"),
        (JobOutcome::AlreadyFinished { checkpoint: checkpoint(1) }, 0, "had finished before, with checkpoint 3-1: nothing to do"),
        (JobOutcome::Suspended { checkpoint: checkpoint(1) }, 0, "is stopped: all output up to checkpoint 3-1 is committed"),
        (JobOutcome::Stopped { resumes_from: None }, 130, "the next run goes on from the beginning"),
        (JobOutcome::Stopped { resumes_from: Some(checkpoint(1)) }, 130, "the next run goes on from checkpoint 3-1"),
        (JobOutcome::Failed(failure), 1, "failed for good: sink 'out', subtask 0: disk full; free some space"),
        (JobOutcome::Failed(sentence), 1, "subtask 0: a plugin said no; free some space"),
        (
            JobOutcome::Failed(trapped),
            1,
            "it trapped\n  0: frame\n  record: 81\nerror: job 'j' failed for good: sink 'out', subtask 0: it trapped … record: 81; free",
        ),
        (
            JobOutcome::Refused { problems: vec![Problem::new("x", "y", "z")] },
            2,
            "error: x: y\n       z\nrefused: 1 problem; nothing was started",
        ),
        (
            JobOutcome::CommitLost { transactions: vec![lost] },
            3,
            "error: transaction 00000000000000000000000000000007.2.out.1.9 of sink 'out' is lost: the staged file is gone\n       \
             records of source 'in', a.csv, positions 10 to 99\n",
        ),
        (
            JobOutcome::CannotRestore {
                checkpoint: Some(checkpoint(5)),
                why: "file x is gone".to_owned(),
                older: Some(checkpoint(4)),
            },
            4,
            "checkpoint 3-5 of job 'j' can't be restored here: file x is gone\ncheckpoint 3-4 can be, and what was \
             committed since is then written again: weir run j.toml --from 3-4 --allow-duplicates\n",
        ),
        (
            JobOutcome::CannotRestore { checkpoint: None, why: "no".to_owned(), older: None },
            4,
            "no older checkpoint can be restored either: mend the cause, or start over, which writes everything again: \
             weir run j.toml --fresh --allow-duplicates\n",
        ),
        (JobOutcome::Fenced { by: "generation 9".to_owned() }, 5, "another process has taken job 'j' over (generation 9)"),
    ] {
        assert_eq!(Exit::of(&outcome).code(), code, "{outcome:?}");
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        tell("j", "weir run j.toml", &outcome, false, &mut Output::new(&mut stdout, &mut stderr));
        let (stdout, stderr) = (String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"));
        let (told, silent) = if code == 0 { (&stdout, &stderr) } else { (&stderr, &stdout) };
        assert!(told.contains(said), "{told}");
        assert!(silent.is_empty(), "{silent}");
        let document = super::json::outcome("j", &outcome, None);
        assert_eq!((document["exit"].as_u64(), document["job"].as_str()), (Some(u64::from(code)), Some("j")));
    }
}

#[test]
fn a_path_in_advice_is_one_word_of_a_shell() {
    assert_eq!(shell_word("/data/job-1.toml"), "/data/job-1.toml");
    assert_eq!(shell_word("my job's.toml"), r"'my job'\''s.toml'");
    assert_eq!(shell_word("$HOME"), "'$HOME'");
    assert_eq!(shell_word(""), "''");
}

#[test]
fn a_wrong_job_file_or_plugin_is_refused_with_every_problem() {
    let (dir, file) = job();
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, text.replace("from = \"in\"", "from = \"inn\"").replace("path = \"out\"", "pth = \"out\""))
        .expect("ours");
    for command in ["run", "check"] {
        let (exit, stdout, stderr) = weir(&Straw::default(), &[command, &file]);
        assert_eq!((exit, stdout.as_str()), (Exit::Refused, ""));
        assert!(stderr.contains("did you mean 'in'?") && stderr.contains("'path' is missing"), "{stderr}");
        assert!(stderr.ends_with("refused: 3 problems; nothing was started\n"), "{stderr}");
        let (_, stdout, _) = weir(&Straw::default(), &[command, &file, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
        assert_eq!((document["exit"].as_u64(), document["problems"].as_array().map(Vec::len)), (Some(2), Some(3)));
    }
    drop(dir);
    let (_dir, file) = job();
    let straw = Straw { problem: Some(Problem::new("stats.wasm", "it is no component", "build it")), ..Straw::default() };
    let (exit, _, stderr) = weir(&straw, &["check", &file]);
    assert_eq!(exit, Exit::Refused);
    assert!(stderr.starts_with("error: stats.wasm: it is no component\n       build it\n"), "{stderr}");
}

#[test]
fn check_prints_a_job_file_that_says_the_same() {
    let (dir, file) = job();
    let (exit, stdout, stderr) = weir(&Straw::default(), &["check", &file]);
    assert_eq!((exit, stderr.as_str()), (Exit::Success, ""));
    for line in [
        "# rate: no limit: as fast as the job takes the records",
        "config = { list = [1, { a-b = \"c d\" }], token = \"${WEIR_TEST_UNSET:-x}\" }",
        "#   in → stats   key        the plugin declares keyed state",
        "#   in → stats → out: exactly-once",
        "#     'in' replays its files from the offset in the checkpoint",
        "#   operator 'stats': nothing reads its side output 'stats.late'; what it emits there is dropped",
    ] {
        assert!(stdout.lines().any(|found| found == line), "no line '{line}' in:\n{stdout}");
    }
    assert!(stdout.lines().any(|line| line.starts_with("interval = \"1s\"  ") && line.contains("# default: ")), "{stdout}");

    let again = job_file::parse(&stdout, Path::new("job.toml"), dir.path(), &|_| None);
    let again = again.unwrap_or_else(|problems| panic!("{problems:?}\n{stdout}"));
    let first = job_file::load(Path::new(&file), &|_| None).expect("it is right");
    let values = |graph: &JobGraph| -> Vec<(String, String, String)> {
        let valued = graph.settings.iter().filter(|setting| !setting.value.is_empty());
        valued.map(|setting| (setting.section.clone(), setting.key.clone(), setting.value.clone())).collect()
    };
    assert_eq!(values(&again), values(&first));

    let (_, stdout, _) = weir(&Straw::default(), &["check", &file, "--json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
    assert_eq!(document["paths"][0]["guarantee"], "exactly-once");
    assert_eq!(document["plugins"][0]["sha256"], "ab".repeat(32));
}

#[test]
fn checkpoints_of_a_job_that_never_ran_are_refused_and_nothing_is_made() {
    let (dir, file) = job();
    for words in [vec!["list"], vec!["show"], vec!["show", "3-17"], vec!["fsck"], vec!["gc"]] {
        let words: Vec<&str> = ["checkpoint"].into_iter().chain(words).chain([file.as_str()]).collect();
        let (exit, stdout, stderr) = weir(&Straw::default(), &words);
        assert_eq!((exit, stdout.as_str()), (Exit::Refused, ""), "{words:?}: {stderr}");
        assert!(stderr.contains("has the job been run"), "{stderr}");
    }
    assert!(!dir.path().join(".weir").exists());
}

#[test]
fn a_stop_only_ever_gets_stronger() {
    let (handle, signal) = stop_pair();
    assert_eq!((handle.requested(), signal.requested()), (StopRequest::None, StopRequest::None));
    assert_eq!(handle.escalate(), StopRequest::Suspend);
    assert_eq!(signal.requested(), StopRequest::Suspend);
    assert_eq!(handle.escalate(), StopRequest::Now);
    assert_eq!(handle.ask(StopRequest::Suspend), StopRequest::Now);
    assert_eq!(handle.escalate(), StopRequest::Now);
    drop(handle);
    assert_eq!(signal.requested(), StopRequest::Now);
}

#[test]
fn transactions_are_asked_for_by_job_file_or_data_folder() {
    let (dir, file) = job();
    let straw = Straw::default();
    let (exit, stdout, _) = weir(&straw, &["txn", "list", &file]);
    assert_eq!(exit, Exit::Success);
    assert!(stdout.contains("job 'flights', newest checkpoint none") && stdout.contains("nothing dangling"), "{stdout}");
    let (place, wish) = straw.wished.take().expect("the runtime was asked");
    assert_eq!((place.job.as_deref(), wish), (Some("flights"), TransactionWish::List));
    assert_eq!((place.storage, place.sinks.len()), (place.data.join("checkpoints"), 1));
    // The job file is gone, its data folder is there.
    let folder = dir.path().to_str().expect("the path is text");
    let (exit, ..) = weir(&straw, &["txn", "abort", folder, "a", "b", "--lose-output"]);
    assert_eq!(exit, Exit::Success);
    let (place, wish) = straw.wished.take().expect("the runtime was asked");
    assert_eq!((place.job, place.storage), (None, dir.path().join("checkpoints")));
    assert_eq!(wish, TransactionWish::Abort { names: vec!["a".into(), "b".into()], lose_output: true });
    let (exit, _, stderr) = weir(&straw, &["txn", "commit", folder, "--data", "x"]);
    assert_eq!(exit, Exit::Refused);
    assert!(stderr.contains("it is a data folder, and --data names another one"), "{stderr}");
    let refused = Args::try_parse_from(["weir", "txn", "abort", folder]);
    assert!(refused.is_err(), "what is to be aborted must be said");
    let failing = Straw { failure: Some("no broker answers".to_owned()), ..Straw::default() };
    let (exit, stdout, _) = weir(&failing, &["txn", "commit", &file]);
    assert_eq!(exit, Exit::Failed);
    assert!(stdout.contains("error: no broker answers"), "{stdout}");
}
