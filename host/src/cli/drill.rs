//! `weir drill`: kills a job again and again, and compares what it has committed.

use super::args::{Common, DrillArgs, JobArgs};
use super::exit::Exit;
use super::main::{load, refuse};
use super::output::Output;
use crate::crash;
use crate::drill::{self, Wish};
use crate::graph::Problem;
use std::io::{self, IsTerminal};

/// Runs the command.
pub(super) fn drill(args: &DrillArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    if args.list {
        for (point, meaning) in crash::POINTS {
            output.result(format!("{point:20} {meaning}"));
        }
        return Exit::Success;
    }
    let (wish, graph) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(problems) => return refuse(&problems, common, output),
    };
    let quiet = common.quiet;
    // Who sees both streams has seen most of the report already.
    let has_seen = !quiet && io::stdout().is_terminal() && io::stderr().is_terminal();
    let report = drill::drill(&wish, &graph, &mut |line| {
        if !quiet {
            output.say(line);
        }
    });
    let report = match report {
        Ok(report) => report,
        Err(problems) => return refuse(&problems, common, output),
    };
    if common.json {
        output.json(&serde_json::to_value(&report).expect("a report is plain data with text keys"));
    } else {
        let lines = if has_seen { report.rest() } else { report.lines() };
        lines.into_iter().for_each(|line| output.result(line));
        output.result(format!("report: {}", wish.folder.join("report.txt").display()));
    }
    if report.is_passed() { Exit::Success } else { Exit::Failed }
}

fn prepare(args: &DrillArgs) -> Result<(Wish, crate::graph::JobGraph), Vec<Problem>> {
    let job = args.job.clone().ok_or_else(|| vec![Problem::new("weir drill", "no job file is given", "weir drill job.toml")])?;
    let graph = load(&JobArgs { job: job.clone(), data: None, drill: None })?;
    let folder = args.dir.clone().unwrap_or_else(|| graph.folder.join(".weir").join(format!("{}-drill", graph.name)));
    let absolute = |path: &std::path::Path| {
        std::path::absolute(path).map_err(|error| vec![Problem::new(path.display().to_string(), error.to_string(), "")])
    };
    let (file, folder) = (absolute(&job)?, absolute(&folder)?);
    Ok((Wish { file, kills: args.kills, seed: args.seed, folder, keep: args.keep }, graph))
}
