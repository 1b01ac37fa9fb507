//! `weir test`: the conformance kit.

use super::args::{Common, TestArgs};
use super::exit::Exit;
use super::main::refuse;
use super::output::Output;
use crate::coordinator::prepare::default_cache;
use crate::graph::Problem;
use crate::graph::units::{counted, show_size};
use crate::kit::{self, Report, Verdict, Wish};
use serde_json::{Value, json};

/// Runs the command.
pub(super) fn test(args: &TestArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let tested = wish(args).and_then(|wish| {
        kit::test(&wish, &mut |group| {
            if !common.quiet && common.verbose > 0 {
                output.say(format!("{group} …"));
            }
        })
    });
    let report = match tested {
        Ok(report) => report,
        Err(problem) => return refuse(&[problem], common, output),
    };
    let exit = if report.is_passed() { Exit::Success } else { Exit::Failed };
    if common.json {
        let mut document = serde_json::to_value(&report).expect("a report is plain data with text keys");
        document["outcome"] = json!(if report.is_passed() { "passed" } else { "failed" });
        document["exit"] = json!(exit.code());
        output.json(&document);
    } else {
        lines(&report).into_iter().for_each(|line| output.result(line));
    }
    exit
}

fn wish(args: &TestArgs) -> Result<Wish, Problem> {
    Ok(Wish {
        plugin: args.plugin.clone(),
        config: config(args.config.as_deref())?,
        input: args.input.clone(),
        seed: args.seed,
        memory: args.memory,
        folders: args.folder.clone(),
        cache: default_cache(),
    })
}

/// `--config`: a document, or `@` and a file.
fn config(given: Option<&str>) -> Result<Value, Problem> {
    let Some(given) = given else { return Ok(json!({})) };
    let problem = |what: String| Problem::new(format!("--config {given}"), what, "write '{\"key\": \"value\"}', or @FILE");
    let text = match given.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| problem(error.to_string()))?,
        None => given.to_owned(),
    };
    let config: Value = serde_json::from_str(&text).map_err(|error| problem(format!("it is not JSON: {error}")))?;
    match config.is_object() {
        true => Ok(config),
        false => Err(problem("it is no object, and a job file's config is one".to_owned())),
    }
}

/// What a component is: name, size, digest, imports. Also what `weir build` tells.
pub(super) fn facts(report: &Report) -> Vec<String> {
    let size = match report.bytes {
        bytes if bytes >= 10 << 20 => show_size(bytes >> 20 << 20),
        bytes if bytes >= 10 << 10 => show_size(bytes >> 10 << 10),
        bytes => show_size(bytes),
    };
    let mut lines =
        vec![format!("{}, {size}, sha256 {}", report.plugin, report.sha256), format!("  {}", report.facts.join("; "))];
    match &report.imports[..] {
        [] => lines.push("  imports nothing beside the contract".to_owned()),
        imports => lines.extend(by_what_they_give(imports).into_iter().map(|import| format!("  imports {import}"))),
    }
    lines
}

/// Imports that give the same as one line, without their versions: runtimes of languages have dozens.
fn by_what_they_give(imports: &[String]) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for import in imports {
        // The package's own colon has no blank after it.
        let (name, gives) = import.split_once(": ").expect("an import says what it gives");
        let name = name.split('@').next().unwrap_or(name);
        match lines.iter_mut().find(|(_, given)| *given == gives) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], gives)),
        }
    }
    lines.into_iter().map(|(names, gives)| format!("{}: {gives}", names.join(", "))).collect()
}

fn lines(report: &Report) -> Vec<String> {
    let mut lines = facts(report);
    let mut group = "";
    for check in &report.checks {
        if check.group != group {
            group = check.group;
            lines.extend([String::new(), group.to_owned()]);
        }
        let name = &check.name;
        match &check.verdict {
            Verdict::Holds(done) if done.is_empty() => lines.push(format!("  ok    {name}")),
            Verdict::Holds(done) => lines.push(format!("  ok    {name} ({done})")),
            Verdict::LeftOut(why) => lines.push(format!("  --    {name}: {why}")),
            Verdict::Fails(seen) => {
                lines.push(format!("  FAIL  {name}"));
                lines.extend(seen.lines().map(|line| format!("        {line}")));
            }
        }
    }
    let all = counted(report.checks.len() as u64, "check", "checks");
    let end = match report.failed() {
        0 => format!("passed: {all} made (seed {})", report.seed),
        failed => format!("failed: {failed} of {all} (seed {})", report.seed),
    };
    lines.extend([String::new(), end]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_that_give_the_same_stand_in_one_line() {
        let imports =
            ["files: what a job grants", "wasi:io/poll@0.2.9: ease", "wasi:cli/exit@0.2.9: a trap", "wasi:io/error@0.2.9: ease"];
        let lines = by_what_they_give(&imports.map(str::to_owned));
        assert_eq!(lines, ["files: what a job grants", "wasi:io/poll, wasi:io/error: ease", "wasi:cli/exit: a trap"]);
    }

    #[test]
    fn a_config_is_an_object_here_or_in_a_file() {
        assert_eq!(config(None).expect("none is empty"), json!({}));
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), r#"{"a":1}"#).expect("written");
        assert_eq!(config(Some(&format!("@{}", file.path().display()))).expect("a file"), json!({ "a": 1 }));
        for wrong in ["[]", "{", "@/no/such/file"] {
            assert!(config(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
