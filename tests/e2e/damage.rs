//! Damage to what a checkpoint needs is found before a record is read, and named with an older checkpoint that helps out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use weir_tests::flights::{FlightsCase, FlightsOptions, collect_names};
use weir_tests::judge;
use weir_tests::process::{Ended, Running};
use weir_tests::scratch::{Scratch, files_below, picture};

/// A completed checkpoint, as it is stored.
struct Stored {
    /// File name of its manifest in the log.
    slot: String,
    id: String,
    /// State files that it needs.
    files: BTreeSet<String>,
}

/// Completed checkpoints of a case, newest first.
fn checkpoints(case: &FlightsCase) -> Vec<Stored> {
    let log = case.storage().join("log");
    let mut found = Vec::new();
    for slot in files_below(&log) {
        let text = fs::read_to_string(log.join(&slot)).expect("an entry can be read");
        let entry: serde_json::Value = serde_json::from_str(&text).expect("an entry is JSON");
        if entry["kind"] == "checkpoint" {
            let mut files = BTreeSet::new();
            collect_names(&entry, &mut files);
            let id = entry["manifest"]["id"].as_str().expect("a manifest has an id").to_owned();
            found.push(Stored { slot, id, files });
        }
    }
    found.reverse();
    found
}

/// A flights job that was killed when its fourth checkpoint was committed: three are kept, each adds state files.
fn crashed() -> (FlightsCase, Vec<Stored>) {
    let case = FlightsCase::new(FlightsOptions { rate: Some(4_000), ..FlightsOptions::default() });
    let killed = case.run(&[], &[("WEIR_CRASH_AT", "committed:4")]);
    assert!(killed.was_killed(), "{killed:?}");
    let stored = checkpoints(&case);
    assert!(stored.len() >= 2, "only {} checkpoints are there", stored.len());
    (case, stored)
}

/// Committed files with their content. What is staged may be given up at every start.
fn committed(case: &FlightsCase) -> BTreeMap<String, Vec<u8>> {
    let mut files = picture(&case.scratch.path("out"));
    files.retain(|name, _| !name.contains(".weir-staging"));
    files
}

/// A state file that the newest checkpoint needs and the one before does not.
fn only_in_newest(stored: &[Stored]) -> &str {
    stored[0].files.difference(&stored[1].files).next().expect("each checkpoint adds a state file")
}

fn flip_a_byte(content: &[u8]) -> Option<Vec<u8>> {
    let mut damaged = content.to_vec();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    Some(damaged)
}

/// What damage makes of a content; none: the file is gone.
type Damage = fn(&[u8]) -> Option<Vec<u8>>;

const GONE: Damage = |_| None;
const CUT: Damage = |content| Some(content[..content.len() / 2].to_vec());
const EMPTY: Damage = |_| Some(Vec::new());

/// Damages a file for as long as this lives. A new file takes its place: a working copy may be a link to the old one.
struct Damaged {
    path: PathBuf,
    content: Vec<u8>,
}

impl Damaged {
    fn new(path: PathBuf, damage: Damage) -> Self {
        let content = fs::read(&path).expect("what is to be damaged can be read");
        let damaged = Damaged { path, content };
        damaged.replace(damage(&damaged.content).as_deref());
        damaged
    }

    fn replace(&self, content: Option<&[u8]>) {
        let _ = fs::remove_file(&self.path);
        if let Some(content) = content {
            fs::write(&self.path, content).expect("a file of the storage can be written");
        }
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        self.replace(Some(&self.content));
    }
}

#[test]
fn a_damaged_state_file_is_named_with_an_older_checkpoint_and_its_repair_goes_on() {
    let (case, stored) = crashed();
    let out = committed(&case);
    let file = only_in_newest(&stored);
    let from_older = format!("--from {}", stored[1].id);
    let damages: [(Damage, &str); 4] = [
        (flip_a_byte, "is damaged"),
        (CUT, "is damaged"),
        (EMPTY, "is damaged"),
        (GONE, "is missing from the checkpoint storage"),
    ];
    for (damage, said) in damages {
        let _damaged = Damaged::new(case.storage().join("shared").join(file), damage);
        let refused = case.run(&[], &[]).expect_code(4);
        refused.expect_text(&[
            &format!("checkpoint {} of job 'flights' can't be restored", stored[0].id),
            file,
            said,
            &from_older,
        ]);
        assert!(committed(&case) == out, "{said}: output was changed");
    }
    // Nothing was thrown away meanwhile.
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

/// Damages a state file of each checkpoint; some may share it.
fn damage_every_checkpoint(case: &FlightsCase, stored: &[Stored]) -> Vec<Damaged> {
    let files: BTreeSet<&String> = stored.iter().filter_map(|checkpoint| checkpoint.files.first()).collect();
    files.into_iter().map(|file| Damaged::new(case.storage().join("shared").join(file), flip_a_byte)).collect()
}

#[test]
fn damage_to_every_checkpoint_leaves_no_older_one() {
    let (case, stored) = crashed();
    {
        let _damaged = damage_every_checkpoint(&case, &stored);
        let file = stored[0].files.first().expect("a checkpoint has state files");
        case.run(&[], &[]).expect_code(4).expect_text(&[file, "is damaged", "no older checkpoint can be restored either"]);
    }
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
}

/// The command that a refusal tells to type: it is the end of its last line.
fn advised(refused: &Ended) -> Vec<String> {
    let last = refused.stderr.lines().last().expect("a refusal says something");
    let (_, command) = last.rsplit_once(": weir ").unwrap_or_else(|| panic!("no command is advised: {last}"));
    command.split(' ').map(str::to_owned).collect()
}

/// Types what a refusal tells to type: nothing is missing or wrong, and only output of the time since `start` is there
/// twice. Answers how many lines are.
fn follow_advice(case: &FlightsCase, refused: &Ended, start: &[&str]) -> usize {
    let command = advised(refused);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let expected = [&["run", "job.toml", "--data", "data"], start, &["--allow-duplicates"]].concat();
    assert_eq!(words, expected, "{refused:?}");
    Running::start(case.scratch.folder(), &words, &[]).finish().expect_code(0);
    let once = Scratch::new();
    let mut repeated = 0;
    for sink in ["stats", "rejected"] {
        let lines = judge::counted(judge::lines(&case.scratch.path("out").join(sink)).unwrap());
        repeated += lines.values().map(|times| times - 1).sum::<i64>();
        once.write(&format!("{sink}/part"), lines.into_keys().map(|line| line + "\n").collect::<String>());
    }
    judge::flights(&case.lines, &once.path("stats"), &once.path("rejected")).unwrap();
    usize::try_from(repeated).expect("each line is there once or more")
}

/// Starts at an older checkpoint, as a refusal tells to.
fn start_from_older(case: &FlightsCase, refused: &Ended, older: &str) {
    let before = judge::lines(&case.scratch.path("out/stats")).unwrap().len();
    let repeated = follow_advice(case, refused, &["--from", older]);
    assert!(repeated > 0 && repeated < before, "{repeated} lines are there twice, {before} were committed before");
}

#[test]
fn an_older_checkpoint_goes_on_without_the_damaged_state_file() {
    let (case, stored) = crashed();
    let path = case.storage().join("shared").join(only_in_newest(&stored));
    let _damaged = Damaged::new(path, flip_a_byte);
    let older = &stored[1].id;
    let refused = case.run(&[], &[]).expect_code(4);
    case.run(&["--from", older], &[]).expect_code(2).expect_text(&["would be written again", "stats-out", "--allow-duplicates"]);
    start_from_older(&case, &refused, older);
}

#[test]
fn a_damaged_newest_manifest_is_named_with_an_older_checkpoint() {
    let (case, stored) = crashed();
    let (path, older) = (case.storage().join("log").join(&stored[0].slot), &stored[1].id);
    let before = committed(&case);
    for damage in [flip_a_byte as Damage, CUT, EMPTY] {
        let _damaged = Damaged::new(path.clone(), damage);
        let slots = files_below(&case.storage().join("log"));
        let refused = case.run(&[], &[]).expect_code(4);
        refused.expect_text(&[&stored[0].slot, "can't be read", &format!("--from {older}")]);
        assert_eq!(files_below(&case.storage().join("log")), slots, "a refused start has claimed the job");
        assert!(committed(&case) == before, "output was changed");
    }
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn an_older_checkpoint_goes_on_without_the_damaged_manifest() {
    let (case, stored) = crashed();
    let _damaged = Damaged::new(case.storage().join("log").join(&stored[0].slot), flip_a_byte);
    let older = &stored[1].id;
    // What the newest one holds is not known, so it can't be said what would be repeated: the user has to allow it.
    let refused = case.run(&[], &[]).expect_code(4);
    case.run(&["--from", older], &[]).expect_code(4).expect_text(&[&stored[0].slot]);
    start_from_older(&case, &refused, older);
}

#[test]
fn without_any_checkpoint_that_is_whole_the_job_starts_over_as_advised() {
    let (case, stored) = crashed();
    let _damaged = damage_every_checkpoint(&case, &stored);
    for slot in [None, Some(&stored[0].slot)] {
        // The same with the newest manifest damaged: the ones below it can be read, but not restored.
        let _unreadable = slot.map(|slot| Damaged::new(case.storage().join("log").join(slot), flip_a_byte));
        let refused = case.run(&[], &[]).expect_code(4);
        assert_eq!(advised(&refused), ["run", "job.toml", "--data", "data", "--fresh", "--allow-duplicates"]);
    }
    let refused = case.run(&[], &[]).expect_code(4);
    assert!(follow_advice(&case, &refused, &["--fresh"]) > 0, "all that was committed is there twice");
}
