//! The job file changed between two runs: what fits goes on exactly, what does not is refused and named.

use super::{crash, crashed, end_exactly};
use weir_tests::flights::{FlightsCase, FlightsOptions};

const SOURCE: &str = "name = \"flights\"\nconnector";
const STATS: &str = "name = \"stats\"\nplugin";
const PARSE: &str = "name = \"parse\"\nplugin";
const STATS_OUT: &str = "name = \"stats-out\"";
const REJECTED_OUT: &str = "name = \"rejected-out\"";

/// A section with a parallelism of its own.
fn with(section: &str, parallelism: u32) -> String {
    section.replacen('\n', &format!("\nparallelism = {parallelism}\n"), 1)
}

fn many_files() -> FlightsOptions {
    FlightsOptions { files: 12, ..FlightsOptions::default() }
}

/// Refuses the job as it is now, then takes the old one back up.
fn refused_then_exact(case: &FlightsCase, texts: &[&str]) {
    let before = case.parts();
    case.run(&[], &[]).expect_code(4).expect_text(texts);
    assert_eq!(case.parts(), before, "a refusal changes nothing");
    case.edit(&[]);
    end_exactly(case);
}

#[test]
fn another_parallelism_of_a_stateful_stage_is_refused() {
    let case = crashed(FlightsOptions { parallelism: 3, ..many_files() }, "committed:2");
    case.edit(&[(STATS, &with(STATS, 2))]);
    refused_then_exact(&case, &["stats", "parallelism 3", "now says 2", "set it back to 3"]);
}

/// Changes the parallelism of all that has no state, twice.
fn resized(at: &str) {
    let case = crashed(FlightsOptions { parallelism: 2, ..many_files() }, at);
    let sinks = |n| (format!("{STATS_OUT}\nparallelism = {n}"), format!("{REJECTED_OUT}\nparallelism = {n}"));
    for (source, parse, sink) in [(3, 1, 1), (1, 2, 4)] {
        let (stats_out, rejected_out) = sinks(sink);
        case.edit(&[
            (SOURCE, &with(SOURCE, source)),
            (PARSE, &with(PARSE, parse)),
            (STATS_OUT, &stats_out),
            (REJECTED_OUT, &rejected_out),
        ]);
        if source == 3 && !at.starts_with("final") {
            crash(&case, &[], "committed:2");
        }
    }
    end_exactly(&case);
}

#[test]
fn sources_and_sinks_may_change_their_parallelism() {
    resized("committed:2");
}

#[test]
fn sources_and_sinks_may_change_their_parallelism_when_the_input_has_ended() {
    resized("final-checkpoint");
}

#[test]
fn a_source_alone_may_change_its_parallelism() {
    let case = crashed(many_files(), "manifest-published:3");
    case.edit(&[(SOURCE, &with(SOURCE, 4))]);
    end_exactly(&case);
}

#[test]
fn a_sink_alone_may_change_its_parallelism() {
    let case = crashed(FlightsOptions { parallelism: 3, ..many_files() }, "manifest-published:2");
    case.edit(&[(STATS_OUT, &format!("{STATS_OUT}\nparallelism = 1"))]);
    end_exactly(&case);
}

#[test]
fn another_backend_takes_the_state_over() {
    let case = crashed(many_files(), "committed:2");
    case.edit(&[("backend = \"rocksdb\"", "backend = \"memory\"")]);
    crash(&case, &[], "committed:2");
    case.edit(&[]);
    end_exactly(&case);
}

#[test]
fn a_removed_stateful_operator_is_refused() {
    let case = crashed(FlightsOptions::default(), "committed:2");
    let text = case.job_file();
    let section = &text[text.find("[[operator]]\nname = \"stats\"").unwrap()..text.find("[[sink]]").unwrap()];
    case.edit(&[(section, ""), ("from = \"stats\"", "from = \"parse\"")]);
    refused_then_exact(&case, &["operator stats", "delays", "put it back"]);
}

#[test]
fn a_sink_that_left_the_job_still_commits_what_it_had_prepared() {
    let case = crashed(FlightsOptions::default(), "manifest-published:3");
    let before = case.parts();
    let text = case.job_file();
    let sink = &text[text.rfind("[[sink]]").unwrap()..];
    case.edit(&[(sink, "")]);
    case.run(&[], &[]).expect_code(0);
    let rejected = |parts: &[String]| parts.iter().filter(|part| part.starts_with("rejected/")).count();
    assert!(
        rejected(&case.parts()) > rejected(&before),
        "what checkpoint 1-3 held of rejected-out was not committed: {before:?}"
    );
}
