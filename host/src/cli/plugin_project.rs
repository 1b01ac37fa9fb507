//! `weir new`, `weir build` and `weir componentize`: a plugin's project, from nothing to a component.

use super::args::{BuildArgs, Common, ComponentizeArgs, NewArgs};
use super::exit::Exit;
use super::main::refuse;
use super::output::Output;
use super::test::facts;
use crate::coordinator::prepare::default_cache;
use crate::graph::Problem;
use crate::kit::{self, Report};
use crate::scaffold::{self, New};
use serde_json::json;
use std::path::Path;

/// Memory that the look after a build allows: how much a plugin may have is the job's affair.
const MEMORY: u64 = 1 << 30;

/// Runs `weir new`.
pub(super) fn new(args: &NewArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let new = New { folder: args.folder.clone(), language: args.lang.clone(), kind: args.kind.clone() };
    let created = match scaffold::create(&new) {
        Ok(created) => created,
        Err(problem) => return refuse(&[problem], common, output),
    };
    let folder = args.folder.display().to_string();
    if common.json {
        output.json(&json!({ "name": created.name, "folder": folder, "files": created.files, "exit": 0 }));
        return Exit::Success;
    }
    output.result(format!("{folder}: {}, a plugin of kind {} in {}", created.name, args.kind, args.lang));
    created.files.iter().for_each(|file| output.result(format!("  {file}")));
    output.result("  weir-sdk/    a copy of the SDK, so that it builds anywhere");
    output.result(format!("next: weir build {folder} --release; README.md says how its own tests are run"));
    Exit::Success
}

/// Runs `weir build`.
pub(super) fn build(args: &BuildArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let is_quiet = common.quiet;
    let built = scaffold::build(&args.folder, args.release, &mut |command| {
        if !is_quiet {
            output.say(format!("$ {command}"));
        }
    });
    let looked = built.and_then(|built| Ok((kit::look_at(&built.component, Some(MEMORY), default_cache())?, built)));
    let (report, built) = match looked {
        Ok(done) => done,
        Err(problem) => return failed(&problem, common, output),
    };
    if common.json {
        let document = json!({
            "component": built.component.display().to_string(),
            "language": built.language,
            "plugin": report.plugin,
            "sha256": report.sha256,
            "bytes": report.bytes,
            "facts": report.facts,
            "imports": report.imports,
            "exit": 0,
        });
        output.json(&document);
    } else {
        told(&built.component, &report, output);
    }
    Exit::Success
}

/// Runs `weir componentize`.
pub(super) fn componentize(args: &ComponentizeArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    match scaffold::componentize_file(&args.module, &args.component) {
        Ok(()) => Exit::Success,
        Err(problem) => failed(&problem, common, output),
    }
}

fn told(component: &Path, report: &Report, output: &mut Output<'_>) {
    output.result(component.display().to_string());
    facts(report).into_iter().for_each(|line| output.result(format!("  {line}")));
}

/// A build that failed has been started, unlike a job that is refused.
fn failed(problem: &Problem, common: &Common, output: &mut Output<'_>) -> Exit {
    if common.json {
        return refuse(std::slice::from_ref(problem), common, output);
    }
    output.say(format!("error: {}: {}", problem.place, problem.what));
    if !problem.next.is_empty() {
        output.say(format!("       {}", problem.next));
    }
    Exit::Refused
}
