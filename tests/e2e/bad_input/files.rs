//! Source files that vanish or are cut: exit 1 with file and place; once they are back the job goes on, and nothing is lost.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use weir_tests::flights::{FlightsCase, FlightsOptions};

/// Longer than what a reader takes at once: half of it is never in its buffer while the first lines are processed.
const LONG: usize = 27_004;

fn file(case: &FlightsCase, number: usize) -> PathBuf {
    case.scratch.path(&format!("in/flights-{number:02}.csv"))
}

/// Harms a file, gives its content back.
fn harm(path: &Path, harm: impl FnOnce(&Path)) -> Vec<u8> {
    let content = fs::read(path).expect("a source file can be read");
    harm(path);
    content
}

fn cut_in_half(path: &Path) {
    let file = File::options().write(true).open(path).expect("a source file can be opened");
    let length = file.metadata().expect("it has a length").len();
    file.set_len(length / 2).expect("it can be cut");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("a source file can be removed");
}

/// With the file as it was, the job goes on to the exact end.
fn mend(case: &FlightsCase, path: &Path, content: &[u8]) {
    fs::write(path, content).expect("a source file can be put back");
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

/// Crashes, harms the only file, and expects the restart to say `said` and where it would have gone on.
fn between_runs(how: impl FnOnce(&Path), said: &[&str]) {
    let case = FlightsCase::new(FlightsOptions::default());
    let killed = case.run(&[], &[("WEIR_CRASH_AT", "committed:2")]);
    assert!(killed.was_killed(), "{killed:?}");
    let path = file(&case, 1);
    let content = harm(&path, how);
    let failed = case.run(&[], &[]).expect_code(1).expect_text(&[&path.display().to_string()]).expect_text(said);
    let last = failed.stderr.lines().last().unwrap_or_default();
    let offset = last.split("up to byte ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let offset: usize = offset.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no offset: {last}"));
    assert!(offset > 0 && content[offset - 1] == b'\n', "byte {offset} is not the begin of a line");
    mend(&case, &path, &content);
}

#[test]
fn one_that_vanishes_between_runs() {
    between_runs(remove, &["source flights", "is gone", "Put it back"]);
}

#[test]
fn one_that_is_cut_between_runs() {
    between_runs(cut_in_half, &["source flights", "changed", "at the first start", "put the old file back"]);
}

#[test]
fn one_that_is_replaced_between_runs() {
    between_runs(
        |path| {
            let text = fs::read_to_string(path).expect("a source file is text");
            fs::write(path, text.replacen("UA", "XX", 1)).expect("it can be written");
        },
        &["source flights", "changed", "its first bytes are not those", "put the old file back"],
    );
}

#[test]
fn one_that_is_cut_while_it_is_read() {
    let options = FlightsOptions { rows: LONG, rate: Some(20_000), ..FlightsOptions::default() };
    let case = FlightsCase::new(options);
    let path = file(&case, 1);
    let mut running = case.start(&[], &[("WEIR_STOP_AT", "committed:1")]);
    let mut content = Vec::new();
    running.change_while_stopped(|| content = harm(&path, cut_in_half));
    let failed = running.finish().expect_code(1);
    // All whole lines before the cut were records; the cut one was never taken for one.
    let cut = content.len() / 2;
    let begin = content[..cut].iter().rposition(|byte| *byte == b'\n').expect("there are lines") + 1;
    failed.expect_text(&["not what it was", &path.display().to_string(), &format!("at byte {begin}")]);
    mend(&case, &path, &content);
}

#[test]
fn one_that_vanishes_before_its_turn() {
    let case = FlightsCase::new(FlightsOptions { files: 3, ..FlightsOptions::default() });
    let path = file(&case, 3);
    let mut running = case.start(&[], &[("WEIR_STOP_AT", "committed:1")]);
    let mut content = Vec::new();
    running.change_while_stopped(|| content = harm(&path, remove));
    running.finish().expect_code(1).expect_text(&[&path.display().to_string(), "is gone", "Put it back"]);
    mend(&case, &path, &content);
}
