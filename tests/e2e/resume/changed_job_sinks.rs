//! Sinks changed in the job file while transactions wait for their commit: what was prepared is committed where it was prepared,
//! the rest goes to the new place, or the start is refused.

use super::{crash, crashed, end_exactly};
use std::fs;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::scratch::Scratch;
use weir_tests::{guest, judge};

/// Decided, and no commit sent: both sinks' transactions wait.
const PENDING: &str = "manifest-published:3";
const STATS_OUT: &str = "name = \"stats-out\"\nconnector = \"file\"\nfrom = \"stats\"\npath = \"out/stats\"";
const REJECTED_OUT: &str = "name = \"rejected-out\"\nconnector = \"file\"\nfrom = \"parse.rejected\"\npath = \"out/rejected\"";

fn stats_at(path: &str) -> String {
    STATS_OUT.replace("out/stats", path)
}

/// The stock sink plugin, in Rust and in Go.
const STOCK_SINKS: [&str; 2] = ["file_sink", "file_sink_go"];

/// Stats to a stock sink plugin, granted `folder`; `more`: further grants.
fn stats_to_plugin(sink: &str, folder: &str, more: &str) -> String {
    let plugin = guest(sink);
    format!(
        "name = \"stats-out\"\nconnector = \"plugin\"\nplugin = \"{}\"\nfrom = \"stats\"\ngrants = {{ folders = {{ out = \"{folder}\"{more} }} }}",
        plugin.display()
    )
}

/// Two writers, so that a recovery has several lanes; slow, so that a busy machine still has checkpoints left after each crash.
fn pending() -> FlightsCase {
    let options = FlightsOptions { parallelism: 2, files: 6, rate: Some(2_500), ..FlightsOptions::default() };
    crashed(options, PENDING)
}

/// Committed files of one folder below `out`, not of those in it.
fn parts_in<'a>(parts: &'a [String], folder: &str) -> Vec<&'a String> {
    let prefix = format!("{folder}/part-");
    parts.iter().filter(|part| part.starts_with(&prefix)).collect()
}

/// Resumes after an edit. The old place, `out/stats`, gets what waited there and no more; then all is judged. `before`: what
/// was committed when it was edited.
fn moved_exactly(case: &FlightsCase, before: &[String]) {
    end_exactly(case);
    let after = case.parts();
    let (old, new) = (parts_in(before, "stats"), parts_in(&after, "stats"));
    assert!(new.len() > old.len(), "what was prepared at the old place is not committed there: {after:?}");
    assert!(new.iter().all(|part| part.contains("-1-")), "the second run wrote to the old place: {new:?}");
}

#[test]
fn another_path_gets_the_new_records_and_the_old_one_what_was_prepared() {
    let case = pending();
    let before = case.parts();
    case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
    moved_exactly(&case, &before);
    assert!(!parts_in(&case.parts(), "stats/new").is_empty());
}

#[test]
fn another_path_survives_a_second_crash_anywhere() {
    for point in ["recover-committed", "recover-aborted", "all-acked", "manifest-published", "committed", "manifest-published:2"]
    {
        let case = pending();
        let before = case.parts();
        case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
        crash(&case, &[], point);
        moved_exactly(&case, &before);
    }
}

#[test]
fn a_path_may_change_there_and_back_again() {
    let case = pending();
    case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
    crash(&case, &[], "manifest-published:2");
    case.edit(&[]);
    crash(&case, &[], "manifest-published");
    case.edit(&[(STATS_OUT, &stats_at("out/stats/newer"))]);
    end_exactly(&case);
}

#[test]
fn a_path_that_changed_under_another_name_is_the_same_place() {
    let case = pending();
    std::os::unix::fs::symlink(case.scratch.path("out/stats"), case.scratch.path("alias")).unwrap();
    case.edit(&[(STATS_OUT, &stats_at("alias"))]);
    crash(&case, &[], "commit-partial");
    case.edit(&[]);
    end_exactly(&case);
}

#[test]
fn two_sinks_may_swap_their_paths() {
    let case = pending();
    let rejected = REJECTED_OUT.replace("out/rejected", "out/stats");
    case.edit(&[(STATS_OUT, &stats_at("out/rejected")), (REJECTED_OUT, &rejected)]);
    case.run(&[], &[]).expect_code(0);
    // Generation 1 wrote to the places of before, generation 2 the other way round.
    let sorted = Scratch::new();
    for part in case.parts() {
        let (folder, name) = part.split_once('/').unwrap();
        let (_, generation, _) = split_name(name);
        let kind = if (folder == "stats") == (generation == 1) { "stats" } else { "rejected" };
        sorted.write(&format!("{kind}/{folder}-{name}"), fs::read(case.scratch.path("out").join(&part)).unwrap());
    }
    judge::flights(&case.lines, &sorted.path("stats"), &sorted.path("rejected")).unwrap();
    case.expect_clean();
}

/// `part-<subtask>-<generation>-<sequence>`.
fn split_name(name: &str) -> (u32, u32, u32) {
    let numbers: Vec<u32> = name.split('-').skip(1).map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[1], numbers[2])
}

#[test]
fn a_sink_that_becomes_another_connector_commits_what_it_had_prepared() {
    let case = pending();
    let before = case.parts();
    case.edit(&[(STATS_OUT, "name = \"stats-out\"\nconnector = \"discard\"\nfrom = \"stats\"")]);
    case.run(&[], &[]).expect_code(0);
    let after = case.parts();
    assert!(parts_in(&after, "stats").len() > parts_in(&before, "stats").len(), "{after:?}");
    case.expect_clean();
}

#[test]
fn a_file_sink_may_become_a_plugin_and_a_plugin_a_file_sink() {
    for sink in STOCK_SINKS {
        let case = pending();
        let folder = case.scratch.path("out/stats/plugin");
        case.edit(&[(STATS_OUT, &stats_to_plugin(sink, folder.to_str().unwrap(), ""))]);
        crash(&case, &[], "manifest-published:2");
        case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
        case.run(&[], &[]).expect_code(0);
        case.judge().unwrap();
    }
}

#[test]
fn a_plugin_sink_with_other_grants_commits_what_it_had_prepared() {
    for sink in STOCK_SINKS {
        let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, ..FlightsOptions::default() });
        let folder = case.scratch.path("out/stats");
        let folder = folder.to_str().unwrap();
        case.edit(&[(STATS_OUT, &stats_to_plugin(sink, folder, ""))]);
        crash(&case, &[], PENDING);
        case.edit(&[(STATS_OUT, &stats_to_plugin(sink, folder, ", more = \"more\""))]);
        crash(&case, &[], "manifest-published:2");
        case.run(&[], &[]).expect_code(0);
        case.judge().unwrap();
    }
}

#[test]
fn a_renamed_sink_goes_on_in_the_same_folder() {
    let case = pending();
    case.edit(&[("name = \"stats-out\"", "name = \"stats-again\"")]);
    moved_exactly_by_name(&case);
}

/// As a renamed sink writes to the same folder, all generations' files lie there.
fn moved_exactly_by_name(case: &FlightsCase) {
    end_exactly(case);
    let parts = case.parts();
    assert!(parts_in(&parts, "stats").iter().any(|part| part.contains("-2-")), "{parts:?}");
}

#[test]
fn a_new_sink_may_take_the_path_that_another_one_left() {
    let case = pending();
    let added = "[[sink]]\nname = \"more\"\nconnector = \"file\"\nfrom = \"stats\"\npath = \"out/stats\"\n";
    let stats = format!("{}\n\n{added}", stats_at("elsewhere"));
    case.edit(&[(STATS_OUT, &stats)]);
    end_exactly(&case);
    let generation_2 = |folder: &str| judge::lines(&case.scratch.path(folder)).unwrap().len();
    assert!(generation_2("elsewhere") > 0 && generation_2("elsewhere") < generation_2("out/stats"));
}

#[test]
fn a_removed_sink_leaves_nothing_but_what_is_committed() {
    let case = pending();
    let before = case.parts();
    let also_stats = REJECTED_OUT.replace("\"parse.rejected\"", "[\"parse.rejected\", \"stats\"]");
    case.edit(&[(&format!("[[sink]]\n{STATS_OUT}"), ""), (REJECTED_OUT, &also_stats)]);
    // The second crash comes when no manifest but older ones names the sink.
    crash(&case, &[], "committed:1");
    case.run(&[], &[]).expect_code(0);
    assert!(parts_in(&case.parts(), "stats").len() > parts_in(&before, "stats").len());
    case.judge().unwrap_err();
    let mixed = judge::lines(&case.scratch.path("out")).unwrap();
    let (stats, rejected): (Vec<String>, Vec<String>) = mixed.into_iter().partition(|line| line.split(',').count() == 5);
    let sorted = Scratch::new();
    sorted.write("stats/part", stats.join("\n") + "\n");
    sorted.write("rejected/part", rejected.join("\n") + "\n");
    judge::flights(&case.lines, &sorted.path("stats"), &sorted.path("rejected")).unwrap();
    case.expect_clean();
}

#[test]
fn a_removed_plugin_sink_needs_no_plugin_file() {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, ..FlightsOptions::default() });
    let folder = case.scratch.path("out/stats");
    let plugin = case.scratch.write("sink.wasm", fs::read(guest("file_sink")).unwrap());
    let sink = stats_to_plugin("file_sink", folder.to_str().unwrap(), "");
    let sink = sink.replace(guest("file_sink").to_str().unwrap(), plugin.to_str().unwrap());
    case.edit(&[(STATS_OUT, &sink)]);
    crash(&case, &[], PENDING);
    let before = case.parts();
    fs::remove_file(plugin).unwrap();
    case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
    case.run(&[], &[]).expect_code(0);
    assert!(parts_in(&case.parts(), "stats").len() > parts_in(&before, "stats").len());
    case.judge().unwrap();
}

#[test]
fn a_folder_that_was_moved_with_all_that_is_staged_goes_on_there() {
    let case = pending();
    fs::rename(case.scratch.path("out/stats"), case.scratch.path("out/moved")).unwrap();
    case.edit(&[(STATS_OUT, &stats_at("out/moved"))]);
    case.run(&[], &[]).expect_code(0);
    judge::flights(&case.lines, &case.scratch.path("out/moved"), &case.scratch.path("out/rejected")).unwrap();
    case.expect_clean();
}

#[test]
fn an_old_place_that_is_gone_is_a_lost_commit() {
    let case = pending();
    let (old, away) = (case.scratch.path("out/stats"), case.scratch.path("away"));
    fs::rename(&old, &away).unwrap();
    case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
    // Its new path lies in the old one, which the start makes anew.
    let lost = case.run(&[], &[]).expect_code(3);
    lost.expect_text(&["sink 'stats-out'", "records of source 'flights'", old.to_str().unwrap()]);
    fs::remove_dir_all(&old).unwrap();
    fs::rename(&away, &old).unwrap();
    end_exactly(&case);
}

#[test]
fn an_old_place_that_can_not_be_used_is_a_commit_of_unknown_fate() {
    let case = pending();
    let (old, away) = (case.scratch.path("out/stats"), case.scratch.path("away"));
    fs::rename(&old, &away).unwrap();
    fs::write(&old, "a file").unwrap();
    case.edit(&[(STATS_OUT, &stats_at("out/new"))]);
    let unknown = case.run(&[], &[]).expect_code(3);
    unknown.expect_text(&[
        "sink 'stats-out'",
        "has an unknown fate",
        "where the sink stood at checkpoint 1-3",
        "records of source",
    ]);
    fs::remove_file(&old).unwrap();
    fs::rename(&away, &old).unwrap();
    case.edit(&[(STATS_OUT, &stats_at("out/stats/new"))]);
    end_exactly(&case);
}

#[test]
fn an_old_place_where_nothing_waits_does_not_hold_the_job_up() {
    let case = pending();
    case.edit(&[(STATS_OUT, &stats_at("out/new"))]);
    crash(&case, &[], "committed:1");
    let old = case.scratch.path("out/stats");
    fs::rename(&old, case.scratch.path("out/new/old")).unwrap();
    fs::write(&old, "a file").unwrap();
    case.run(&[], &[]).expect_code(0).expect_text(&["sink stats-out: what it staged", "could not be tidied up"]);
    judge::flights(&case.lines, &case.scratch.path("out/new"), &case.scratch.path("out/rejected")).unwrap();
}

#[test]
fn names_that_others_have_used_at_the_new_path_are_left_alone() {
    let case = pending();
    // As this job's second generation would name its first file.
    let foreign = ["part-0-2-1", "part-1-2-1", "part-0-7-1"];
    for name in foreign {
        case.scratch.write(&format!("other/{name}"), "of another job\n");
    }
    case.edit(&[(STATS_OUT, &stats_at("other"))]);
    case.run(&[], &[]).expect_code(0).expect_text(&["output that this job has not written", "generation 8"]);
    for name in foreign {
        let path = case.scratch.path("other").join(name);
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another job\n");
        fs::remove_file(path).unwrap();
    }
    fs::rename(case.scratch.path("other"), case.scratch.path("out/stats/other")).unwrap();
    case.judge().unwrap();
}
