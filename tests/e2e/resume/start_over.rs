//! `--fresh`, `--from` and a first start beside old output: committed output is written again only when the user says so.

use super::{crash, crashed, end_exactly};
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::judge;

/// Judges some of the committed files, as if there were no others.
fn judge_only(case: &FlightsCase, parts: &[String]) -> Result<(), String> {
    let folder = tempfile::tempdir_in(case.scratch.folder()).expect("a folder can be made");
    for kind in ["stats", "rejected"] {
        std::fs::create_dir(folder.path().join(kind)).expect("a folder can be made");
    }
    for part in parts {
        std::fs::copy(case.scratch.path("out").join(part), folder.path().join(part)).expect("a part can be copied");
    }
    judge::flights(&case.lines, &folder.path().join("stats"), &folder.path().join("rejected"))
}

/// The committed files that were not there before.
fn new_parts(case: &FlightsCase, before: &[String]) -> Vec<String> {
    let now = case.parts();
    assert!(before.iter().all(|part| now.contains(part)), "committed files are gone: before {before:?}, now {now:?}");
    now.into_iter().filter(|part| !before.contains(part)).collect()
}

/// The checkpoint at which a file was prepared, `stats/part-0-1-7` → (1, 7).
fn checkpoint_of(part: &str) -> (u32, u32) {
    let mut numbers = part.rsplit('-').map(|number| number.parse().expect("a part's name ends in its checkpoint"));
    let (sequence, generation) = (numbers.next().expect("a sequence"), numbers.next().expect("a generation"));
    (generation, sequence)
}

fn refused(case: &FlightsCase, arguments: &[&str]) {
    let before = case.parts();
    let texts = ["committed output would be written again", "stats-out", "rejected-out", "--allow-duplicates"];
    case.run(arguments, &[]).expect_code(2).expect_text(&texts).expect_text(&arguments[..1]);
    assert_eq!(case.parts(), before, "a refusal changes nothing");
}

#[test]
fn fresh_after_a_finished_run_repeats_everything_if_that_is_allowed() {
    let case =
        FlightsCase::new(FlightsOptions { parallelism: 2, files: 3, rows: 3_000, rate: None, ..FlightsOptions::default() });
    case.run(&[], &[]).expect_code(0);
    refused(&case, &["--fresh"]);
    case.judge().unwrap();
    let first = case.parts();
    case.run(&["--fresh", "--allow-duplicates"], &[]).expect_code(0);
    judge_only(&case, &first).unwrap();
    judge_only(&case, &new_parts(&case, &first)).unwrap();
    assert!(case.judge().is_err(), "everything stands there twice");
    case.expect_clean();
}

#[test]
fn a_refused_fresh_does_not_disturb_the_resume() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() }, "manifest-published:3");
    refused(&case, &["--fresh"]);
    end_exactly(&case);
}

#[test]
fn fresh_commits_first_what_the_newest_checkpoint_holds() {
    let case = crashed(FlightsOptions::default(), "manifest-published:3");
    let before = case.parts();
    crash(&case, &["--fresh", "--allow-duplicates"], "recover-aborted");
    let owed = new_parts(&case, &before);
    assert!(!owed.is_empty() && owed.iter().all(|part| checkpoint_of(part) == (1, 3)), "{owed:?}");
}

#[test]
fn a_crash_during_a_fresh_run_resumes_the_fresh_run() {
    let case = crashed(FlightsOptions::default(), "committed:3");
    let old = case.parts();
    crash(&case, &["--fresh", "--allow-duplicates"], "recover-aborted");
    crash(&case, &[], "committed:2");
    case.run(&[], &[]).expect_code(0);
    judge_only(&case, &new_parts(&case, &old)).unwrap();
    case.expect_clean();
}

#[test]
fn fresh_before_anything_was_committed_needs_no_leave() {
    let case = crashed(FlightsOptions { rows: 3_000, ..FlightsOptions::default() }, "all-acked:1");
    case.run(&["--fresh"], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn from_an_older_checkpoint_repeats_what_came_after_it_if_that_is_allowed() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() }, "manifest-published:4");
    let before = case.parts();
    let checkpoints = case.checkpoints();
    assert_eq!(checkpoints.last().map(String::as_str), Some("1-4"), "{checkpoints:?}");
    let from = &checkpoints[checkpoints.len() - 2];
    let (_, sequence) = checkpoint_of(from);
    case.run(&["--from", from], &[]).expect_code(2).expect_text(&["--from", from, "1-4", "stats-out", "--allow-duplicates"]);
    case.run(&["--from", "1-99"], &[]).expect_code(2).expect_text(&["no such checkpoint", from, "1-4"]);
    assert_eq!(case.parts(), before, "a refusal changes nothing");
    case.run(&["--from", from, "--allow-duplicates"], &[]).expect_code(0);
    let (first, again): (Vec<String>, Vec<String>) = case.parts().into_iter().partition(|part| checkpoint_of(part).0 == 1);
    assert!(
        first.iter().any(|part| checkpoint_of(part) == (1, 4)),
        "what the newest checkpoint held was not committed: {first:?}"
    );
    let up_to = first.iter().filter(|part| checkpoint_of(part).1 <= sequence);
    judge_only(&case, &up_to.chain(&again).cloned().collect::<Vec<_>>()).unwrap();
    assert!(case.judge().is_err(), "the interval of the newest checkpoint stands there twice");
    case.expect_clean();
}

#[test]
fn a_first_start_beside_old_output_is_refused() {
    let case = FlightsCase::new(FlightsOptions { rows: 3_000, rate: None, ..FlightsOptions::default() });
    let old = ["stats/part-0-1-1", "stats/part-0-2-1", "rejected/part-0-1-1"];
    for part in old {
        case.scratch.write(&format!("out/{part}"), "what an earlier job wrote\n");
    }
    let target = case.scratch.path("out/stats").display().to_string();
    case.run(&[], &[]).expect_code(2).expect_text(&[&target, "--allow-duplicates"]);
    assert_eq!(case.parts().len(), old.len(), "a refusal changes nothing");
    case.run(&["--allow-duplicates"], &[]).expect_code(0);
    for part in old {
        assert_eq!(std::fs::read_to_string(case.scratch.path("out").join(part)).unwrap(), "what an earlier job wrote\n");
    }
    judge_only(&case, &new_parts(&case, &old.map(str::to_owned))).unwrap();
    case.expect_clean();
}

#[test]
fn a_first_start_goes_on_when_the_old_output_is_moved_away() {
    let case = FlightsCase::new(FlightsOptions { rows: 3_000, rate: None, ..FlightsOptions::default() });
    let part = case.scratch.write("out/rejected/part-0-1-1", "what an earlier job wrote\n");
    case.run(&[], &[]).expect_code(2).expect_text(&["rejected-out"]);
    std::fs::remove_file(part).unwrap();
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
}

/// A backup that was brought back: the log in it knows nothing of what was committed since.
#[test]
fn an_older_copy_of_the_data_folder_is_refused_beside_newer_output() {
    let options = FlightsOptions { parallelism: 2, files: 6, rate: Some(2_500), ..FlightsOptions::default() };
    let case = crashed(options, "committed:2");
    let (data, copy) = (case.scratch.path("data"), case.scratch.path("copy"));
    let copied = std::process::Command::new("cp").arg("-a").args([&data, &copy]).status().unwrap();
    assert!(copied.success());
    crash(&case, &[], "committed:2");
    let newer = case.parts();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    case.run(&[], &[]).expect_code(2).expect_text(&["output of generation 2", "older copy", "--allow-duplicates"]);
    assert_eq!(case.parts(), newer, "nothing was written");
    case.run(&["--allow-duplicates"], &[]).expect_code(0).expect_text(&["begin with generation 3"]);
    assert!(case.judge().is_err(), "the user has allowed duplicates, and there are some");
}
