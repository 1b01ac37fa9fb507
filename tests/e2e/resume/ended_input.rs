//! A resume opens no input file that was read to its end.

use super::{crashed, end_exactly};
use serde_json::Value;
use std::path::PathBuf;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::process::Running;

/// Input files that the newest checkpoint says have ended, and those that have not.
fn input_files(case: &FlightsCase) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let show = ["checkpoint", "show", "job.toml", "--data", "data", "--json"];
    let shown = Running::start(case.scratch.folder(), &show, &[]).finish().expect_code(0);
    let detail: Value = serde_json::from_str(&shown.stdout).expect("--json gives JSON");
    let splits = detail["sources"][0]["splits"].as_array().expect("the source has splits").clone();
    let path = |split: &Value| PathBuf::from(split["split"].as_str().expect("a split of a file source is its path"));
    let (ended, open): (Vec<_>, Vec<_>) = splits.into_iter().partition(|split| split["ended"] == true);
    (ended.iter().map(path).collect(), open.iter().map(path).collect())
}

fn crashed_among_many_files() -> FlightsCase {
    crashed(FlightsOptions { files: 12, ..FlightsOptions::default() }, "committed:3")
}

#[test]
fn input_that_has_ended_may_be_removed() {
    let case = crashed_among_many_files();
    let (ended, open) = input_files(&case);
    assert!(!ended.is_empty() && !open.is_empty(), "ended: {ended:?}, not: {open:?}");
    for file in ended {
        std::fs::remove_file(file).unwrap();
    }
    end_exactly(&case);
}

#[test]
fn input_that_has_not_ended_is_missed_by_name() {
    let case = crashed_among_many_files();
    let (_, open) = input_files(&case);
    let (file, away) = (&open[0], case.scratch.path("away.csv"));
    std::fs::rename(file, &away).unwrap();
    case.run(&[], &[]).expect_code(1).expect_text(&[&file.display().to_string()]);
    std::fs::rename(&away, file).unwrap();
    end_exactly(&case);
}
