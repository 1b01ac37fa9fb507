//! `weir submit`, `list`, `status`, `stop` and `remove`: what a daemon is asked over HTTP.

use super::args::{Common, DaemonArgs, NamedJobArgs, StopArgs, SubmitArgs};
use super::exit::Exit;
use super::main::refuse;
use super::output::Output;
use super::serve::{StopWish, Submission, home_folder, read};
use crate::graph::Problem;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;

/// To reach a daemon of this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For an answer: a submission waits for the job's plugins to be compiled, a stop for its end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// A daemon.
struct Daemon {
    address: String,
    token: String,
    agent: Agent,
}

/// What is asked.
enum Question<'q> {
    Get,
    Delete,
    Post(&'q Value),
}

impl Daemon {
    fn find(args: &DaemonArgs) -> Result<Self, Vec<Problem>> {
        let (address, token) = home_folder(args.home.as_ref()).and_then(|home| read(&home)).map_err(|problem| vec![problem])?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            // It listens on this machine: what the environment says of proxies is not for it.
            .proxy(None)
            .build();
        Ok(Daemon { address, token, agent: config.into() })
    }

    /// The answer's document, or the problems that it names.
    fn ask(&self, question: &Question<'_>, path: &str) -> Result<Value, Vec<Problem>> {
        let url = format!("{}/v1/jobs{path}", self.address);
        let bearer = format!("Bearer {}", self.token);
        let answer = match question {
            Question::Get => self.agent.get(&url).header("Authorization", &bearer).call(),
            Question::Delete => self.agent.delete(&url).header("Authorization", &bearer).call(),
            Question::Post(body) => {
                let request = self.agent.post(&url).header("Authorization", &bearer).header("Content-Type", "application/json");
                request.send(body.to_string())
            }
        };
        let place = || format!("daemon at {}", self.address);
        let text = answer.and_then(|answer| {
            let is_success = answer.status().is_success();
            Ok((is_success, answer.into_body().read_to_string()?))
        });
        let (is_success, text) = text.map_err(|error| {
            vec![Problem::new(place(), error.to_string(), "it may have ended: start it again with 'weir serve'")]
        })?;
        let document: Value = serde_json::from_str(&text).map_err(|error| {
            vec![Problem::new(place(), format!("gives no JSON: {error}"), "is another program listening there?")]
        })?;
        if is_success { Ok(document) } else { Err(problems(&document)) }
    }
}

/// The problems that an answer or an outcome names.
pub(super) fn problems(document: &Value) -> Vec<Problem> {
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    items(&document["problems"])
        .iter()
        .map(|problem| Problem::new(text(problem, "where"), text(problem, "what"), text(problem, "next")))
        .collect()
}

/// `/<name>…` of a job; a name that no job can have is not asked for.
fn path_of(name: &str, rest: &str) -> Result<String, Vec<Problem>> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !name.is_empty();
    if is_name {
        return Ok(format!("/{name}{rest}"));
    }
    let next = "give the name, as 'weir list' shows it, not the job file";
    Err(vec![Problem::new(format!("job '{name}'"), "is no name of a job", next)])
}

/// Shows what came of it: `told` on success, else the problems. `ends_as`: the exit code of what is told.
fn answer(
    result: Result<Value, Vec<Problem>>,
    common: &Common,
    output: &mut Output<'_>,
    ends_as: fn(&Value) -> Exit,
    told: impl FnOnce(&Value, &mut Output<'_>),
) -> Exit {
    match result {
        Err(problems) => refuse(&problems, common, output),
        Ok(document) => {
            match common.json {
                true => output.json(&document),
                false => told(&document, output),
            }
            ends_as(&document)
        }
    }
}

/// `weir submit`.
pub(super) fn submit(args: &SubmitArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let result = submission(args).and_then(|wish| Daemon::find(&args.daemon)?.ask(&Question::Post(&json!(wish)), ""));
    answer(result, common, output, exit_of, |status, output| {
        let name = text(status, "name");
        match status["phase"].as_str() {
            Some("ended") => tell_end(status, output),
            phase => {
                output.result(format!("job '{name}' is {}; 'weir status {name}' tells how it does", phase.unwrap_or("there")))
            }
        }
    })
}

fn submission(args: &SubmitArgs) -> Result<Submission, Vec<Problem>> {
    let absolute = |path: &Path| -> Result<PathBuf, Vec<Problem>> {
        std::path::absolute(path)
            .map_err(|error| vec![Problem::new(path.display().to_string(), error.to_string(), "give a path that there can be")])
    };
    Ok(Submission {
        job_file: absolute(&args.job)?,
        data: args.data.as_deref().map(absolute).transpose()?,
        fresh: args.start.fresh,
        from: args.start.from.map(|checkpoint| checkpoint.to_string()),
        allow_duplicates: args.start.allow_duplicates,
        take_over: args.start.take_over,
    })
}

/// `weir list`.
pub(super) fn list(args: &DaemonArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let result = Daemon::find(args).and_then(|daemon| daemon.ask(&Question::Get, ""));
    answer(
        result,
        common,
        output,
        |_| Exit::Success,
        |jobs, output| {
            let jobs = items(jobs);
            if jobs.is_empty() {
                return output.result("no jobs; 'weir submit job.toml' starts one");
            }
            let width = jobs.iter().map(|job| text(job, "name").len()).max().unwrap_or(0).max(4);
            output.result(format!("{:width$}  {:<15} {:>14}  {:<12} committed", "name", "is", "records", "checkpoint"));
            for job in jobs {
                let progress = &job["progress"];
                let records = progress["stages"][0]["records_in"].as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string());
                let (checkpoint, committed) = (or_dash(&progress["checkpoint"]["id"]), or_dash(&progress["committed"]));
                output.result(format!(
                    "{:width$}  {:<15} {records:>14}  {checkpoint:<12} {committed}",
                    text(job, "name"),
                    is(job)
                ));
            }
        },
    )
}

/// `weir status`.
pub(super) fn status(args: &NamedJobArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let result = path_of(&args.name, "").and_then(|path| Daemon::find(&args.daemon)?.ask(&Question::Get, &path));
    answer(
        result,
        common,
        output,
        |_| Exit::Success,
        |job, output| {
            output.result(format!("job '{}' is {}", text(job, "name"), is(job)));
            output.result(format!("  job file     {}", text(job, "job_file")));
            output.result(format!("  data folder  {}", text(job, "data")));
            let progress = &job["progress"];
            for stage in items(&progress["stages"]) {
                let (name, records) = (text(stage, "name"), &stage["records_in"]);
                output.result(format!("  {name} ×{}: {records} records in, {} out", stage["subtasks"], stage["records_out"]));
            }
            if let Some(checkpoint) = progress["checkpoint"]["id"].as_str() {
                output.result(format!("  checkpoint   {checkpoint}, committed up to {}", or_dash(&progress["committed"])));
            }
            for event in items(&job["events"]).iter().filter(|one| one["level"] != "debug") {
                output.result(format!("  {:>5}  {}", text(event, "level"), text(event, "text")));
            }
            if let Some(message) = job["message"].as_str() {
                message.lines().for_each(|line| output.result(format!("  {line}")));
            }
        },
    )
}

/// `weir stop`.
pub(super) fn stop(args: &StopArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let stopped = || {
        let daemon = Daemon::find(&args.job.daemon)?;
        let wish = json!(StopWish { now: args.now });
        daemon.ask(&Question::Post(&wish), &path_of(&args.job.name, "/stop")?)?;
        loop {
            let status = daemon.ask(&Question::Get, &path_of(&args.job.name, "/end")?)?;
            if status["phase"] == "ended" {
                return Ok(status);
            }
        }
    };
    answer(stopped(), common, output, exit_of, tell_end)
}

/// `weir remove`.
pub(super) fn remove(args: &NamedJobArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let result = path_of(&args.name, "").and_then(|path| Daemon::find(&args.daemon)?.ask(&Question::Delete, &path));
    answer(
        result,
        common,
        output,
        |_| Exit::Success,
        |job, output| {
            let (name, data) = (text(job, "name"), text(job, "data"));
            output.result(format!("job '{name}' is forgotten; its data folder stays: {data}"));
        },
    )
}

fn text<'v>(document: &'v Value, key: &str) -> &'v str {
    document[key].as_str().unwrap_or_default()
}

/// What a list holds; of anything else nothing.
fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn or_dash(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// Its phase, or how it ended.
fn is(job: &Value) -> &str {
    match (job["phase"].as_str(), job["outcome"]["outcome"].as_str()) {
        (Some("ended"), Some(outcome)) => outcome,
        (Some("ended"), None) => "not started",
        (phase, _) => phase.unwrap_or("-"),
    }
}

/// The code that `weir run` would have ended with; a job that runs, and one that was asked to stop and did, are no failure.
fn exit_of(status: &Value) -> Exit {
    let outcome = status.get("outcome").and_then(|outcome| outcome["outcome"].as_str());
    match outcome {
        Some("failed") => Exit::Failed,
        Some("refused") => Exit::Refused,
        Some("commit-lost") => Exit::CommitLost,
        Some("cannot-restore") => Exit::CannotRestore,
        Some("fenced") => Exit::Fenced,
        _ => Exit::Success,
    }
}

fn tell_end(status: &Value, output: &mut Output<'_>) {
    let message = status["message"].as_str().unwrap_or_default();
    message.lines().for_each(|line| output.result(line));
}
