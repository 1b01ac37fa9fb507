//! JavaScript: npm, and the project's own script `build`.

use crate::graph::Problem;
use crate::scaffold::build::{OUT, Project};
use crate::scaffold::create::snake;
use crate::scaffold::toolchain::Step;
use serde_json::Value;
use std::path::PathBuf;

const INSTALL: &str = "install Node.js 20 or newer with npm: https://nodejs.org, or on Debian apt-get install nodejs npm";

pub(in crate::scaffold) fn build(project: &mut Project<'_>) -> Result<PathBuf, Problem> {
    project.tools.need("node", INSTALL)?;
    let npm = project.tools.need("npm", INSTALL)?;
    let package: Value = serde_json::from_str(&project.read("package.json")?)
        .map_err(|error| project.problem(format!("its package.json is no JSON: {error}"), ""))?;
    let name = package["name"].as_str().ok_or_else(|| project.problem("its package.json has no name", "the plugin's name"))?;
    if !package["scripts"]["build"].is_string() {
        return Err(
            project.problem("its package.json has no script `build`", format!("one that makes {OUT}/{}.wasm", snake(name)))
        );
    }
    let name = snake(name.rsplit('/').next().unwrap_or(name));
    if !project.folder.join("node_modules").is_dir() {
        let step = Step::new(&npm, &["install", "--no-fund", "--no-audit"], &project.folder);
        (project.say)(step.words());
        step.run()?;
    }
    let step = Step::new(&npm, &["run", "build"], &project.folder);
    (project.say)(step.words());
    step.run()?;
    let component = project.component(&name);
    match component.is_file() {
        true => Ok(component),
        false => Err(project.problem(format!("its script `build` made no {OUT}/{name}.wasm"), "")),
    }
}
