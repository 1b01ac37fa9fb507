//! `weir run`: runs a job in this process and tells how it ended.

use super::args::{Common, RunArgs};
use super::exit::Exit;
use super::main::{load, refuse, usable_data_folder};
use super::output::Output;
use super::progress::{Display, Reporter};
use super::{json, logging, profile, signals};
use crate::crash;
use crate::graph::{JobGraph, Problem};
use crate::job::{Failure, JobOutcome, LostTransaction, RunOptions, Runtime, StartMode, stop_pair};
use indicatif::MultiProgress;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the command.
pub(super) fn run(args: &RunArgs, common: &Common, runtime: &dyn Runtime, live: &MultiProgress, output: &mut Output<'_>) -> Exit {
    let (graph, options) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(problems) => return refuse(&problems, common, output),
    };
    let (job, data) = (graph.name.clone(), options.data.clone());
    let (handle, signal) = stop_pair();
    if let Err(error) = signals::listen(handle) {
        let next = "without them Ctrl-C could not stop the job cleanly; raise the limit on threads or open files";
        return refuse(&[Problem::new("signals", format!("can't listen for SIGINT and SIGTERM: {error}"), next)], common, output);
    }
    let reporter = Arc::new(Mutex::new(Reporter::new(display(common), live.clone())));
    let hears = Arc::clone(&reporter);
    // A listener that panicked has shown less than it should: no reason to stop a job.
    let listener = Arc::new(move |event| hears.lock().unwrap_or_else(PoisonError::into_inner).hear(event));
    let outcome = runtime.run(graph, options, signal, listener);

    let mut reporter = reporter.lock().unwrap_or_else(PoisonError::into_inner);
    reporter.finish();
    let last = reporter.last();
    if common.json {
        let mut document = json::outcome(&job, &outcome, last);
        if args.profile {
            document["profile"] = profile::document(last.map_or(&[], |last| &last.stages));
        }
        output.json(&document);
    }
    if args.profile {
        profile::tell(&job, &data, last, output);
    }
    tell(&job, &command_of(args), &outcome, common.json, output);
    Exit::of(&outcome)
}

/// The command as it was typed, without what says where to start: advice can be copied from the screen into the shell.
fn command_of(args: &RunArgs) -> String {
    let mut command = format!("weir run {}", shell_word(&args.job.job.to_string_lossy()));
    if let Some(data) = &args.job.data {
        command.push_str(" --data ");
        command.push_str(&shell_word(&data.to_string_lossy()));
    }
    command
}

/// One word of a POSIX shell.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:=@%,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn prepare(args: &RunArgs) -> Result<(JobGraph, RunOptions), Vec<Problem>> {
    crash::arm_from_env().map_err(|error| vec![Problem::new("environment", error, "unset it to run undisturbed")])?;
    let graph = load(&args.job)?;
    let data = usable_data_folder(&args.job, &graph)?;
    let start = &args.start;
    let mode = match (start.fresh, start.from) {
        (true, _) => StartMode::Fresh,
        (false, Some(checkpoint)) => StartMode::From(checkpoint),
        (false, None) => StartMode::Resume,
    };
    let options =
        RunOptions { data, mode, allow_duplicates: start.allow_duplicates, take_over: start.take_over, control: args.control };
    Ok((graph, options))
}

fn display(common: &Common) -> Display {
    match (common.quiet, io::stderr().is_terminal()) {
        (true, _) => Display::Silent,
        (false, true) => Display::Live { colours: logging::colours() },
        (false, false) => Display::Log,
    }
}

/// Says how it ended: success on stdout (unless JSON stands there), everything else on stderr, its last line the most
/// useful one. `command`: what advice to start otherwise begins with.
pub(super) fn tell(job: &str, command: &str, outcome: &JobOutcome, json: bool, output: &mut Output<'_>) {
    let mut success = |line: String| if json { output.say(line) } else { output.result(line) };
    match outcome {
        JobOutcome::Finished { checkpoint } => {
            success(format!("job '{job}' has finished: all input is processed and committed, final checkpoint {checkpoint}"));
        }
        JobOutcome::AlreadyFinished { checkpoint } => success(format!(
            "job '{job}' had finished before, with checkpoint {checkpoint}: nothing to do, whatever the job file says now (--fresh --allow-duplicates starts over, another --data starts apart)"
        )),
        JobOutcome::Suspended { checkpoint } => {
            success(format!("job '{job}' is stopped: all output up to checkpoint {checkpoint} is committed; the next run goes on from there"));
        }
        JobOutcome::Stopped { resumes_from } => {
            let from = resumes_from.map_or_else(|| "the beginning".to_owned(), |checkpoint| format!("checkpoint {checkpoint}"));
            output.say(format!("job '{job}' was stopped at once, without a final checkpoint; the next run goes on from {from}"));
        }
        JobOutcome::Failed(failure) => tell_failed(job, failure, output),
        JobOutcome::Refused { problems } => output.problems(problems),
        JobOutcome::CommitLost { transactions } => tell_lost(job, transactions, output),
        JobOutcome::CannotRestore { checkpoint, why, older } => {
            let which = checkpoint.map_or_else(|| "the job's log".to_owned(), |checkpoint| format!("checkpoint {checkpoint}"));
            output.say(format!("error: {which} of job '{job}' can't be restored here: {why}"));
            output.say(match older {
                // Both start before output that is, or may be, committed: neither is allowed unasked.
                Some(older) => format!(
                    "checkpoint {older} can be, and what was committed since is then written again: {command} --from {older} --allow-duplicates"
                ),
                None => format!(
                    "no older checkpoint can be restored either: mend the cause, or start over, which writes everything again: {command} --fresh --allow-duplicates"
                ),
            });
        }
        JobOutcome::Fenced { by } => output.say(format!(
            "error: another process has taken job '{job}' over ({by}); this one committed nothing after that. Let only one of them run"
        )),
    }
}

/// The last line must say it all: a reason of several lines (a plugin's backtrace) is told before it, and summed up there by
/// its first line (what) and its last (which record).
fn tell_failed(job: &str, failure: &Failure, output: &mut Output<'_>) {
    let why = match failure.why.lines().collect::<Vec<_>>()[..] {
        [first, .., last] => {
            output.say(&failure.why);
            format!("{first} … {}", last.trim_start())
        }
        [] | [_] => failure.why.clone(),
    };
    // One sentence: a reason that was written as one of its own gives up its full stop.
    let why = why.trim_end().trim_end_matches('.');
    output.say(format!("error: job '{job}' failed for good: {}: {why}; {}", failure.place, failure.next));
}

fn tell_lost(job: &str, transactions: &[LostTransaction], output: &mut Output<'_>) {
    for lost in transactions {
        let fate = if lost.certain { "is lost" } else { "has an unknown fate" };
        output.say(format!("error: transaction {} of sink '{}' {fate}: {}", lost.id, lost.id.sink, lost.why));
        for range in &lost.sources {
            output.say(format!(
                "       records of source '{}', {}, positions {} to {}",
                range.source, range.split, range.first, range.last
            ));
        }
    }
    output.say(format!(
        "error: job '{job}' stopped: {} transaction(s) were prepared and are not known to be committed. Nothing was skipped \
         silently: mend the cause and run again, or write the ranges above anew",
        transactions.len()
    ));
}
