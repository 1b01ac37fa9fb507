//! Sources and edges changed in the job file between two runs: nothing is left out or repeated without a word.

use super::{crash, crashed, end_exactly};
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::judge;

const PARSE_FROM: &str = "from = \"flights\"";
const SOURCES: &str = "[[source]]\nname = \"flights\"";

/// A second, slow source with a sink of its own, so that the job goes on after the flights have ended.
const TICKS: &str = r#"[restart]
strategy = "none"

[[source]]
name = "ticks"
connector = "sequence"
count = 30
rate = 10

[[sink]]
name = "ticks-out"
connector = "discard"
from = "ticks"
"#;

/// Killed after the flights have ended, while the job goes on.
fn ended() -> FlightsCase {
    crashed(FlightsOptions { rows: 1_000, rate: None, restart: TICKS, ..FlightsOptions::default() }, "committed:6")
}

/// Another source of flights, above the first one.
fn more(path: &str) -> String {
    format!("[[source]]\nname = \"more\"\nconnector = \"file\"\npath = \"{path}\"\nheader = \"skip\"\n\n{SOURCES}")
}

#[test]
fn an_operator_whose_last_results_are_out_gets_no_new_input() {
    let case = ended();
    case.edit(&[
        (SOURCES, &more("in/*.csv")),
        (PARSE_FROM, "from = \"more\""),
        ("from = \"ticks\"", "from = [\"ticks\", \"flights\"]"),
    ]);
    let before = case.parts();
    case.run(&[], &[]).expect_code(4).expect_text(&["operator parse", "gives it more", "put 'from' back"]);
    assert_eq!(case.parts(), before, "a refusal changes nothing");
    case.edit(&[]);
    end_exactly(&case);
}

#[test]
fn a_new_source_with_an_operator_of_its_own_is_read_beside_one_that_has_ended() {
    let case = ended();
    let parse = weir_tests::guest("parse_flights");
    let added = format!(
        "{}\n\n[[operator]]\nname = \"parse-more\"\nplugin = \"{}\"\nfrom = \"more\"\n\n[[sink]]\nname = \"more-out\"\nconnector = \"file\"\nfrom = \"parse-more.rejected\"\npath = \"more\"\n\n{SOURCES}",
        more("in/*.csv").trim_end_matches(SOURCES),
        parse.display()
    );
    case.edit(&[(SOURCES, &added)]);
    case.run(&[], &[]).expect_code(0).expect_text(&["source more is new", "operator parse-more is new"]);
    case.judge().unwrap();
    let rejected = |folder: &str| judge::counted(judge::lines(&case.scratch.path(folder)).unwrap());
    judge::same("the new source", &rejected("out/rejected"), &rejected("more")).unwrap();
}

#[test]
fn a_source_with_another_path_reads_on_what_it_had_begun_and_says_what_it_does_not_read() {
    // Long enough for input to be left at that checkpoint, also on a busy machine.
    let case = crashed(FlightsOptions { files: 6, rows: 18_000, ..FlightsOptions::default() }, "committed:2");
    let late = case.scratch.write("late/late.csv", "header\nlate\n");
    case.edit(&[("path = \"in/*.csv\"", "path = \"late/*.csv\"")]);
    let first = case.scratch.path("in/flights-06.csv");
    let ended = case.run(&[], &[]).expect_code(0);
    let ended = ended.expect_text(&["source flights: 1 file(s) that match", late.to_str().unwrap(), "are not read"]);
    ended.expect_text(&["of the first start are read to their end", "in/flights-0"]);
    assert!(first.exists());
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn files_that_came_after_the_first_start_are_named() {
    let case = crashed(FlightsOptions { files: 6, ..FlightsOptions::default() }, "committed:2");
    let late = case.scratch.write("in/late.csv", "header\nlate\n");
    let ended = case.run(&[], &[]).expect_code(0).expect_text(&["1 file(s) that match", late.to_str().unwrap()]);
    assert!(!ended.stderr.contains("of the first start are read"), "{}", ended.stderr);
    case.judge().unwrap();
}

#[test]
fn a_new_source_at_the_end_of_the_job_is_said_not_to_be_read() {
    let case = FlightsCase::new(FlightsOptions { rows: 500, rate: None, interval: "10s", ..FlightsOptions::default() });
    crash(&case, &[], "manifest-published");
    case.edit(&[(SOURCES, &more("in/*.csv")), ("from = \"parse.rejected\"", "from = [\"parse.rejected\", \"more\"]")]);
    let ended = case.run(&[], &[]).expect_code(0);
    ended.expect_text(&["source more is new, but all input of the job had ended", "it is not read"]);
    case.judge().unwrap();
    case.expect_clean();
}

/// A job that copies two files by a source each.
fn halves(first: &str, second: &str) -> String {
    let half = |name: &str, path: &str| {
        format!("[[source]]\nname = \"{name}\"\nconnector = \"file\"\npath = \"{path}\"\nheader = \"skip\"\nrate = 2000\n\n")
    };
    let sink = "[[sink]]\nname = \"out\"\nconnector = \"file\"\nfrom = [\"left\", \"right\"]\npath = \"out\"\n";
    let job = "[job]\nname = \"halves\"\n\n[checkpoint]\ninterval = \"200ms\"\n\n";
    [job, &half(first, "in/flights-01.csv"), &half(second, "in/flights-02.csv"), sink].concat()
}

#[test]
fn sources_that_swap_their_names_read_on_what_they_had_begun_and_say_so() {
    let case = FlightsCase::new(FlightsOptions { files: 2, ..FlightsOptions::default() });
    case.scratch.write("job.toml", halves("left", "right"));
    crash(&case, &[], "manifest-published:3");
    case.scratch.write("job.toml", halves("right", "left"));
    case.run(&[], &[])
        .expect_code(0)
        .expect_text(&["source left: 1 file(s) of the first start", "source right: 1 file(s) that match"]);
    let copied = judge::lines(&case.scratch.path("out")).unwrap();
    judge::same("copies", &judge::counted(case.lines.clone()), &judge::counted(copied)).unwrap();
    case.expect_clean();
}

#[test]
fn another_partition_of_what_has_no_state_is_taken() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 6, ..FlightsOptions::default() }, "manifest-published:3");
    for partition in ["rebalance", "key", "forward"] {
        case.edit(&[
            (PARSE_FROM, &format!("{PARSE_FROM}\npartition = \"{partition}\"")),
            ("from = \"parse.rejected\"", &format!("from = \"parse.rejected\"\npartition = \"{partition}\"")),
        ]);
        if partition != "forward" {
            crash(&case, &[], "commit-partial");
        }
    }
    end_exactly(&case);
}
