//! Lines that the parser can't read: it names them, and the job's policy decides.

use base64::Engine as _;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::judge;

/// Broken lines, and what the parser says of each.
const BROKEN: &[(&str, &str)] = &[
    ("2013,1,1", "3 fields, a flight has 19"),
    ("2013,1,1,517,515,late,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z", "field 6 (dep_delay) is 'late'"),
    ("", "1 fields, a flight has 19"),
];

/// Whole lines between two broken ones.
const APART: usize = 700;

/// A flights job whose input has the broken lines in it, far apart, and where each begins.
fn with_broken_lines() -> (FlightsCase, Vec<usize>) {
    let case = FlightsCase::new(FlightsOptions { rows: 3_000, ..FlightsOptions::default() });
    let path = "in/flights-01.csv";
    let text = std::fs::read_to_string(case.scratch.path(path)).expect("the input can be read");
    let (mut broken, mut offsets) = (String::new(), Vec::new());
    for (i, line) in text.lines().enumerate() {
        broken += line;
        broken.push('\n');
        if i > 0 && i % APART == 0 && offsets.len() < BROKEN.len() {
            let at = broken.len();
            broken += BROKEN[offsets.len()].0;
            offsets.push(at);
            broken.push('\n');
        }
    }
    assert_eq!(offsets.len(), BROKEN.len());
    case.scratch.write(path, broken);
    (case, offsets)
}

/// Gives the parser a policy.
fn set_policy(case: &FlightsCase, policy: &str) {
    let mut job = case.job_file().replace("from = \"flights\"", &format!("from = \"flights\"\non_bad_record = \"{policy}\""));
    if policy == "dead-letter" {
        job = job.replace("name = \"flights\"\nparallelism", "name = \"flights\"\ndead_letter = \"dead\"\nparallelism");
        job += "\n[[sink]]\nname = \"dead\"\nconnector = \"file\"\npath = \"out/dead\"\n";
    }
    case.scratch.write("job.toml", job);
}

#[test]
fn fail_names_the_line_and_another_policy_goes_on_from_there() {
    let (case, offsets) = with_broken_lines();
    set_policy(&case, "fail");
    let path = case.scratch.path("in/flights-01.csv").display().to_string();
    let record = format!("source flights, {path}, offset {}", offsets[0]);
    case.run(&[], &[]).expect_code(1).expect_text(&["as `parse`, subtask 0, process", BROKEN[0].1, &record]);
    set_policy(&case, "drop");
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn dead_letters_hold_the_lines_and_their_places() {
    let (case, offsets) = with_broken_lines();
    set_policy(&case, "dead-letter");
    let killed = case.run(&[], &[("WEIR_CRASH_AT", "commit-sent:2")]);
    assert!(killed.was_killed(), "{killed:?}");
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
    let letters = judge::lines(&case.scratch.path("out/dead")).unwrap();
    let mut letters: Vec<serde_json::Value> = letters.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    letters.sort_by_key(|letter| letter["first"].as_u64());
    assert_eq!(letters.len(), BROKEN.len(), "{letters:?}");
    for ((letter, offset), (line, reason)) in letters.iter().zip(offsets).zip(BROKEN) {
        assert_eq!((letter["first"].as_u64(), letter["last"].as_u64()), (Some(offset as u64), Some(offset as u64)), "{letter}");
        assert!(letter["operator"] == "parse" && letter["reason"].as_str().is_some_and(|text| text.contains(reason)), "{letter}");
        assert_eq!(letter["value"], base64::engine::general_purpose::STANDARD.encode(line), "{letter}");
    }
}
