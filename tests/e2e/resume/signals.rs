//! SIGINT and SIGTERM: the first suspends with a final checkpoint, the second stops at once.

use super::end_exactly;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::guest;
use weir_tests::process::{Ended, Running, Stat};
use weir_tests::scratch::{Scratch, files_below};

/// What a user waits for at most after Ctrl-C.
const PROMPT: Duration = Duration::from_secs(2);

/// Starts a job and waits until this start has committed something: earlier a signal would meet no handler yet.
fn running(case: &FlightsCase) -> Running {
    let before = case.parts().len();
    let mut running = case.start(&[], &[]);
    running.wait_until("something is committed", || case.parts().len() > before);
    running
}

/// Suspends a job; answers the final checkpoint.
fn suspend(case: &FlightsCase, signal: Signal) -> String {
    let running = running(case);
    let sent = Instant::now();
    running.signal(signal);
    let ended = running.finish().expect_code(0).expect_text(&["is stopped", "the next run goes on from there"]);
    assert!(sent.elapsed() < PROMPT, "it took {:?} to stop", sent.elapsed());
    let newest = case.checkpoints().pop().expect("there is a checkpoint");
    assert!(ended.stdout.contains(&format!("checkpoint {newest} ")), "{newest} is not what it said: {}", ended.stdout);
    newest
}

fn suspended_and_resumed(signal: Signal) {
    let options = FlightsOptions { parallelism: 2, files: 6, rate: Some(4_000), ..FlightsOptions::default() };
    let case = FlightsCase::new(options);
    let mut finals = Vec::new();
    for _ in 0..2 {
        finals.push(suspend(&case, signal));
        // Markers of what the newest checkpoint contains stay: the next start may have to commit it again.
        let staged =
            files_below(&case.scratch.path("out")).into_iter().filter(|path| path.contains("/.") && !path.ends_with(".prepared"));
        let staged: Vec<String> = staged.collect();
        assert!(staged.is_empty(), "staged files are left after a suspension: {staged:?}");
        assert!(case.judge().is_err(), "everything was done before the signal came");
        case.expect_exact_storage();
    }
    assert_ne!(finals[0], finals[1], "each suspension takes a checkpoint of its own");
    end_exactly(&case);
}

#[test]
fn ctrl_c_suspends() {
    suspended_and_resumed(Signal::INT);
}

#[test]
fn sigterm_suspends() {
    suspended_and_resumed(Signal::TERM);
}

#[test]
fn two_signals_in_a_row_lose_nothing() {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, ..FlightsOptions::default() });
    let mut running = running(&case);
    running.signal(Signal::INT);
    // Long enough to be heard as two, mostly; the outcome must be right in any case.
    running.wait_for(Duration::from_millis(5));
    running.signal(Signal::INT);
    let ended = running.finish();
    assert!(matches!(ended.code(), Some(0 | 130)), "{ended:?}");
    end_exactly(&case);
}

/// A job whose plugin never returns from its first call: no checkpoint ever completes.
fn stuck_job() -> Scratch {
    let scratch = Scratch::new();
    let plugin = guest("misbehave");
    scratch.write("in/lines.txt", "first\nlast\n");
    scratch.write(
        "job.toml",
        format!(
            r#"
[job]
name = "stuck"

[[source]]
name = "lines"
connector = "file"
path = "in/lines.txt"

[[operator]]
name = "spin"
plugin = "{}"
from = "lines"
config = {{ on = "first", do = "loop" }}
limits = {{ call = "1h" }}

[[sink]]
name = "out"
connector = "file"
from = "spin"
path = "out"
"#,
            plugin.display()
        ),
    );
    scratch
}

/// Sends a second signal to a process that hangs in its suspension.
fn stop_at_once(scratch: &Scratch) -> Ended {
    let mut running = Running::start(scratch.folder(), &["run", "job.toml", "--data", "data"], &[]);
    let threads = format!("/proc/{}/task", running.pid());
    running.wait_until("the plugin spins", || {
        let mut tasks = std::fs::read_dir(&threads).into_iter().flatten().flatten();
        // A subtask's thread is named for its chain; until the first record it uses next to no CPU time.
        tasks.any(|task| Stat::of(&task.path()).is_some_and(|stat| stat.name.starts_with("lines") && stat.user_ticks >= 10))
    });
    running.signal(Signal::INT);
    assert!(running.wait_for(Duration::from_millis(300)).is_none(), "the plugin is stuck, so there is no final checkpoint");
    let sent = Instant::now();
    running.signal(Signal::INT);
    let ended = running.finish();
    assert!(sent.elapsed() < PROMPT, "it took {:?} to stop at once", sent.elapsed());
    ended
}

#[test]
fn a_second_signal_stops_at_once_what_can_not_be_suspended() {
    let scratch = stuck_job();
    stop_at_once(&scratch).expect_code(130).expect_text(&["stopped at once"]);
    assert!(files_below(&scratch.path("out")).iter().all(|path| path.starts_with('.')), "nothing was committed");
}
