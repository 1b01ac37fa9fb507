//! Entry: reads the command line, sends it to its command, answers with an exit code.

use super::args::{Args, COMMANDS, CheckpointCommand, Command, Common, JobArgs, LATER_COMMANDS, TxnCommand};
use super::exit::Exit;
use super::output::Output;
use super::{check, checkpoint, daemon, drill, json, logging, plugin_project, run, serve, swap, test, txn};
use crate::coordinator::working_state;
use crate::graph::{JobGraph, Problem, folders, job_file, suggestion};
use crate::job::Runtime;
use clap::Parser;
use indicatif::MultiProgress;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the `weir` command of this process. `runtime`: what runs jobs.
pub fn main(runtime: &dyn Runtime) -> ExitCode {
    // Usage errors exit with 2, which is what "refused before start" means; help and version with 0.
    let args = Args::parse();
    let live = MultiProgress::new();
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    let mut output = Output::new(&mut stdout, &mut stderr);
    // A plugin is made to fail on purpose: what it says of that is in the report where it matters.
    let is_test = matches!(args.command, Command::Test(_));
    if let Err(error) = logging::init(args.common.quiet, args.common.verbose, is_test, &live) {
        output.say(format!("error: {error}"));
        return Exit::Refused.into();
    }
    let is_run = matches!(args.command, Command::Run(_));
    let exit = dispatch(args, runtime, &live, &mut output);
    // What a job did stands in its exit code, whoever reads the rest; of the other commands nothing is left but the result.
    match (output.tell_lost(), is_run, exit) {
        (true, false, Exit::Success) => Exit::Failed.into(),
        (true | false, _, exit) => exit.into(),
    }
}

/// Sends a command to its place.
pub(super) fn dispatch(args: Args, runtime: &dyn Runtime, live: &MultiProgress, output: &mut Output<'_>) -> Exit {
    let common = &args.common;
    match args.command {
        Command::Run(args) => run::run(&args, common, runtime, live, output),
        Command::Check(args) => check::check(&args, common, runtime, output),
        Command::Checkpoint(CheckpointCommand::List(args)) => checkpoint::list(&args, common, output),
        Command::Checkpoint(CheckpointCommand::Show(args)) => checkpoint::show(&args, common, output),
        Command::Checkpoint(CheckpointCommand::Fsck(args)) => checkpoint::fsck(&args, common, output),
        Command::Checkpoint(CheckpointCommand::Gc(args)) => checkpoint::gc(&args, common, output),
        Command::Swap(args) => swap::swap(&args, common, output),
        Command::New(args) => plugin_project::new(&args, common, output),
        Command::Build(args) => plugin_project::build(&args, common, output),
        Command::Componentize(args) => plugin_project::componentize(&args, common, output),
        Command::Test(args) => test::test(&args, common, output),
        Command::Drill(args) => drill::drill(&args, common, output),
        Command::Txn(TxnCommand::List(args)) => txn::list(&args, common, runtime, output),
        Command::Txn(TxnCommand::Commit(args)) => txn::commit(&args, common, runtime, output),
        Command::Txn(TxnCommand::Abort(args)) => txn::abort(&args, common, runtime, output),
        Command::Serve(args) => serve::serve(&args, common, runtime, output),
        Command::Submit(args) => daemon::submit(&args, common, output),
        Command::List(args) => daemon::list(&args, common, output),
        Command::Status(args) => daemon::status(&args, common, output),
        Command::Stop(args) => daemon::stop(&args, common, output),
        Command::Remove(args) => daemon::remove(&args, common, output),
        Command::Other(words) => other(&words, common, output),
    }
}

fn other(words: &[OsString], common: &Common, output: &mut Output<'_>) -> Exit {
    let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let problem = if LATER_COMMANDS.contains(&word.as_str()) {
        Problem::new(format!("weir {word}"), "not in this version", "'weir --help' lists what is")
    } else {
        Problem::new(format!("weir {word}"), "there is no such command", suggestion(&word, COMMANDS))
    };
    refuse(&[problem], common, output)
}

/// Tells what keeps the command from starting.
pub(super) fn refuse(problems: &[Problem], common: &Common, output: &mut Output<'_>) -> Exit {
    if common.json {
        output.json(&json::refused(problems));
    }
    output.problems(problems);
    Exit::Refused
}

/// Reads and checks the job file, with this process's environment.
pub(super) fn load(args: &JobArgs) -> Result<JobGraph, Vec<Problem>> {
    let mut graph = job_file::load(&args.job, &|name| std::env::var(name).ok())?;
    if let Some(folder) = &args.drill {
        crate::drill::redirect(&mut graph, folder);
    }
    Ok(graph)
}

/// The data folder, absolute, for a job none of whose own folders lies where Weir removes files.
pub(super) fn usable_data_folder(args: &JobArgs, graph: &JobGraph) -> Result<PathBuf, Vec<Problem>> {
    let data = data_folder(args, graph)?;
    let conflicts = folders::conflicts(graph, &data, working_state::FOLDER);
    if conflicts.is_empty() { Ok(data) } else { Err(conflicts) }
}

/// The data folder, absolute.
pub(super) fn data_folder(args: &JobArgs, graph: &JobGraph) -> Result<PathBuf, Vec<Problem>> {
    match &args.data {
        None => Ok(graph.default_data_folder()),
        Some(data) => std::path::absolute(data).map_err(|error| {
            vec![Problem::new(
                format!("--data {}", data.display()),
                error.to_string(),
                "give the path of a folder, which may be new",
            )]
        }),
    }
}
