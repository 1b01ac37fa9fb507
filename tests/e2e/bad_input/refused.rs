//! What is wrong before anything runs is refused with exit 2, and leaves no trace.

use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::guest;
use weir_tests::scratch::picture;

/// A job file made wrong: what is replaced, by what, and what is said about it.
struct Mistake {
    right: String,
    wrong: String,
    said: &'static [&'static str],
}

fn mistake(right: impl Into<String>, wrong: impl Into<String>, said: &'static [&'static str]) -> Mistake {
    Mistake { right: right.into(), wrong: wrong.into(), said }
}

/// A mistake in the plugin of the operator `stats`.
fn plugin(wrong: impl std::fmt::Display, said: &'static [&'static str]) -> Mistake {
    mistake(guest("carrier_stats").display().to_string(), wrong.to_string(), said)
}

fn mistakes() -> Vec<Mistake> {
    let stats = guest("carrier_stats");
    let pinned = format!("plugin = \"{}\"", stats.display());
    let sink = "connector = \"file\"\nfrom = \"stats\"\npath = \"out/stats\"";
    let operator_as_sink = format!("connector = \"plugin\"\nfrom = \"stats\"\n{pinned}");
    vec![
        mistake("interval = ", "intervall = ", &["job.toml:7", "[checkpoint]", "unknown key 'intervall'", "'interval'"]),
        mistake(
            "from = \"stats\"",
            "from = \"statts\"",
            &["[[sink]] stats-out", "\"statts\" names no source and no operator", "'stats'"],
        ),
        mistake("from = \"parse\"", "from = [\"parse\", \"stats\"]", &["form a cycle", "stats → stats"]),
        mistake("from = \"flights\"", "from = \"stats\"", &["form a cycle", "parse → stats → parse"]),
        plugin(
            "plugins/core.wasm",
            &["operator stats", "plugins/core.wasm", "a core module, not a component", "weir-componentize"],
        ),
        plugin("plugins/text.wasm", &["operator stats", "plugins/text.wasm", "this is Wasm text"]),
        plugin("in/flights-01.csv", &["operator stats", "in/flights-01.csv", "this is not Wasm"]),
        plugin("plugins/cut.wasm", &["operator stats", "plugins/cut.wasm", "does not compile"]),
        plugin("plugins/none.wasm", &["operator stats", "plugins/none.wasm", "can't be read", "build it, or correct `plugin`"]),
        plugin(guest("file_sink").display(), &["operator stats", "file_sink.wasm is a sink, where an operator is needed"]),
        plugin(guest("trap_at_describe").display(), &["operator stats", "trap_at_describe.wasm", "describe", "trapped"]),
        mistake(sink, operator_as_sink, &["sink stats-out", "carrier_stats.wasm is an operator, where a sink is needed"]),
        mistake(
            &pinned,
            format!("{pinned}\nsha256 = \"{}\"", "0f".repeat(32)),
            &["operator stats", "sha256", "0f0f0f", "another build"],
        ),
        plugin("/dev/zero", &["operator stats", "/dev/zero", "not a regular file"]),
        mistake(
            "path = \"out/stats\"",
            "path = \"data/state/out\"",
            &["sink stats-out", "data/state/out", "folder of working state"],
        ),
        mistake("path = \"out/stats\"", "path = \"data/checkpoints\"", &["sink stats-out", "the checkpoint storage"]),
        mistake("interval = ", "storage = \"state\"\ninterval = ", &["[checkpoint].storage", "folder of working state"]),
        mistake(&pinned, format!("{pinned}\ngrants = {{ sockets = [] }}"), &["'grants.sockets'"]),
        mistake(&pinned, format!("{pinned}\non_bad_record = \"dead-letter\""), &["[[operator]] stats", "dead_letter"]),
    ]
}

#[test]
fn a_wrong_job_leaves_no_trace_and_a_right_one_goes_on() {
    let case = FlightsCase::new(FlightsOptions::default());
    case.scratch.write("plugins/core.wasm", wat::parse_str("(module)").expect("a module"));
    case.scratch.write("plugins/text.wasm", "(component)");
    let whole = std::fs::read(guest("carrier_stats")).expect("a guest can be read");
    case.scratch.write("plugins/cut.wasm", &whole[..whole.len() / 2]);
    let killed = case.run(&[], &[("WEIR_CRASH_AT", "committed:2")]);
    assert!(killed.was_killed(), "{killed:?}");
    let before = picture(case.scratch.folder());

    let job = case.job_file();
    for Mistake { right, wrong, said } in mistakes() {
        assert!(job.contains(&right), "'{right}' does not stand in the job file");
        case.scratch.write("job.toml", job.replacen(&right, &wrong, 1));
        case.run(&[], &[]).expect_code(2).expect_text(said).expect_text(&["refused: ", "nothing was started"]);
        case.scratch.write("job.toml", &job);
        assert!(picture(case.scratch.folder()) == before, "{wrong}: a refused start has changed a file");
    }

    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}

#[test]
fn a_glob_without_a_file_is_refused() {
    let case = FlightsCase::new(FlightsOptions { rate: None, rows: 500, ..FlightsOptions::default() });
    let job = case.job_file();
    case.scratch.write("job.toml", job.replace("in/*.csv", "in/*.tsv"));
    case.run(&[], &[]).expect_code(2).expect_text(&["source flights", "no file matches", "in/*.tsv"]);
    assert!(picture(&case.storage()).is_empty(), "a refused start has written to the checkpoint storage");

    case.scratch.write("job.toml", job);
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}
