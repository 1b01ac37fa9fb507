//! `weir swap`: exchanges the plugin of an operator in a running job.

use super::args::{Common, JobArgs, SwapArgs};
use super::exit::Exit;
use super::main::{data_folder, load, refuse};
use super::output::Output;
use crate::control::{SwapReply, SwapWish, ask};
use crate::graph::Problem;
use crate::graph::units::counted;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Runs the command.
pub(super) fn swap(args: &SwapArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let (data, wish) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(problems) => return refuse(&problems, common, output),
    };
    let mut heard = Vec::new();
    let (quiet, json) = (common.quiet, common.json);
    let asked = ask(&data, &wish, &mut |reply| {
        // What ends it is the result.
        if !quiet && !json && !is_result(&reply, args, &wish) {
            lines(&reply).into_iter().for_each(|line| output.say(line));
        }
        let goes_on = !is_result(&reply, args, &wish);
        heard.push(reply);
        goes_on
    });
    if let Err(error) = asked {
        let next = "start it with: weir run JOB --control";
        return refuse(&[Problem::new(format!("data folder {}", data.display()), error.to_string(), next)], common, output);
    }
    if heard.last().is_none_or(|reply| !is_result(reply, args, &wish)) {
        // Its process is gone.
        heard.push(SwapReply::Ended);
    }
    let last = heard.last().cloned().expect("the conversation has an end");
    let exit = exit_of(&last);
    if json {
        output.json(&document(&args.operator, &heard, exit));
    }
    match (&last, exit) {
        (SwapReply::Refused { what, next }, _) => {
            output.say(format!("error: {what}"));
            if !next.is_empty() {
                output.say(format!("       {next}"));
            }
            output.say("refused: what runs goes on undisturbed");
        }
        (_, Exit::Success) if !json => lines(&last).into_iter().for_each(|line| output.result(line)),
        (_, Exit::Success) => {}
        _ => lines(&last).into_iter().for_each(|line| output.say(format!("error: {line}"))),
    }
    exit
}

/// Whether the client waits for nothing more.
fn is_result(reply: &SwapReply, args: &SwapArgs, wish: &SwapWish) -> bool {
    reply.is_last(wish) || args.no_wait && matches!(reply, SwapReply::Exchanged { .. })
}

fn prepare(args: &SwapArgs) -> Result<(PathBuf, SwapWish), Vec<Problem>> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| vec![Problem::new(path.display().to_string(), error.to_string(), "")])
    };
    let wish = SwapWish {
        operator: args.operator.clone(),
        plugin: absolute(&args.plugin)?,
        probation: args.probation,
        again: args.again,
        dry_run: args.dry_run,
    };
    // A folder in the job file's place is the data folder.
    if args.job.is_dir() {
        if args.data.is_some() {
            let what = "it is a data folder, and --data names another one";
            return Err(vec![Problem::new(args.job.display().to_string(), what, "leave one of them out")]);
        }
        return Ok((absolute(&args.job)?, wish));
    }
    let job = JobArgs { job: args.job.clone(), data: args.data.clone(), drill: None };
    let graph = load(&job)?;
    Ok((data_folder(&job, &graph)?, wish))
}

fn exit_of(last: &SwapReply) -> Exit {
    match last {
        SwapReply::Staged { .. } | SwapReply::Exchanged { .. } | SwapReply::Passed { .. } => Exit::Success,
        SwapReply::Refused { .. } => Exit::Refused,
        SwapReply::Undone { .. } | SwapReply::RolledBack { .. } | SwapReply::Ended => Exit::Failed,
    }
}

/// Times of a pause, for people.
fn pause(us: u64) -> String {
    if us < 1_000 { format!("{us} µs") } else { format!("{:.1} ms", us as f64 / 1_000.0) }
}

fn lines(reply: &SwapReply) -> Vec<String> {
    match reply {
        SwapReply::Staged { old, new, subtasks, state, notes } => {
            let mut lines = vec![
                format!("runs:  {}, sha256 {}", old.version, old.sha256),
                format!("fits:  {}, sha256 {}", new.version, new.sha256),
                format!("state: {state}; opened for {subtasks} subtask(s), to be exchanged at the barrier of one checkpoint"),
            ];
            lines.extend(notes.iter().map(|note| format!("note:  {note}")));
            lines
        }
        SwapReply::Exchanged { checkpoint, checkpoint_ms, pause_us, barrier_us, probation } => vec![format!(
            "exchanged at checkpoint {checkpoint} ({checkpoint_ms} ms): paused for {}, {} with the snapshot; {}",
            pause(*pause_us),
            pause(*barrier_us),
            match probation {
                0 => "no probation".to_owned(),
                n => format!("on probation for {}", counted((*n).into(), "checkpoint", "checkpoints")),
            }
        )],
        SwapReply::Passed { checkpoint } => vec![format!("passed its probation with checkpoint {checkpoint}")],
        SwapReply::Refused { what, next: _ } => vec![what.clone()],
        SwapReply::Undone { why } => vec![format!("not swapped, the old build goes on: {why}")],
        SwapReply::RolledBack { why, old } => vec![format!("taken back, build {old} runs again: {why}")],
        SwapReply::Ended => {
            vec!["the job ended before it was clear what becomes of the swap; its next start says which build runs".to_owned()]
        }
    }
}

fn document(operator: &str, heard: &[SwapReply], exit: Exit) -> Value {
    let mut document = Map::new();
    document.insert("operator".to_owned(), json!(operator));
    let mut outcome = json!("ended");
    for reply in heard {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(reply) else { continue };
        if let Some(event) = fields.remove("event") {
            document.insert(event.as_str().unwrap_or_default().replace('-', "_"), Value::Object(fields));
            outcome = event;
        }
    }
    document.insert("outcome".to_owned(), outcome);
    document.insert("exit".to_owned(), json!(exit.code()));
    Value::Object(document)
}
