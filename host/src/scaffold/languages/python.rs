//! Python: a virtual environment `.venv` with what requirements.txt names, and the SDK's builder. The module is `[tool.weir] plugin`
//! of pyproject.toml, else the one named like the project.

use crate::graph::Problem;
use crate::scaffold::build::{OUT, Project};
use crate::scaffold::create::{SDK, snake};
use crate::scaffold::toolchain::Step;
use std::fs;
use std::path::PathBuf;

const INSTALL: &str = "install Python 3.10 or newer: https://python.org, or on Debian apt-get install python3 python3-venv";

/// What the environment was filled from.
const INSTALLED: &str = ".venv/weir-installed.txt";

pub(in crate::scaffold) fn build(project: &mut Project<'_>) -> Result<PathBuf, Problem> {
    let manifest = project.read("pyproject.toml")?;
    let manifest: toml::Table =
        manifest.parse().map_err(|error| project.problem(format!("its pyproject.toml is no TOML: {error}"), ""))?;
    let text = |table: &str, key: &str| manifest.get(table)?.get(key)?.as_str().map(str::to_owned);
    let name = text("project", "name").ok_or_else(|| project.problem("its pyproject.toml has no [project] name", ""))?;
    let name = snake(&name);
    let weir = manifest.get("tool").and_then(|tool| tool.get("weir"));
    let module = weir.and_then(|weir| weir.get("plugin")).and_then(|module| module.as_str()).unwrap_or(&name).to_owned();
    let python = environment(project)?;
    let component = project.component(&name);
    let output = format!("{OUT}/{name}.wasm");
    let arguments = ["-m", "weir.build", &module, "-o", &output, "-p", "."];
    let step = Step::new(&python, &arguments, &project.folder);
    (project.say)(&format!("PYTHONPATH={SDK} {}", step.words()));
    step.env("PYTHONPATH", project.folder.join(SDK)).run()?;
    Ok(component)
}

/// The environment's interpreter; made and filled if that is not done, or if what is required has changed.
fn environment(project: &mut Project<'_>) -> Result<PathBuf, Problem> {
    let python = project.folder.join(".venv/bin/python");
    let required = project.read("requirements.txt")?;
    if fs::read_to_string(project.folder.join(INSTALLED)).is_ok_and(|installed| installed == required) {
        return Ok(python);
    }
    let native = project.tools.need("python3", INSTALL)?;
    for (tool, arguments) in [
        (&native, &["-m", "venv", ".venv"][..]),
        (&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"]),
    ] {
        let step = Step::new(tool, arguments, &project.folder);
        (project.say)(step.words());
        step.run().map_err(|problem| Problem { next: format!("{}; {INSTALL}", problem.next), ..problem })?;
    }
    fs::write(project.folder.join(INSTALLED), required)
        .map_err(|error| project.problem(format!("{INSTALLED} can't be written: {error}"), ""))?;
    Ok(python)
}
