//! C: make, with the rules of the SDK's weir.mk.

use crate::graph::Problem;
use crate::scaffold::build::{OUT, Project};
use crate::scaffold::toolchain::{Step, Tools};
use std::path::PathBuf;

const INSTALL: &str =
    "clang and lld (Debian: apt-get install clang lld; Fedora: dnf install clang lld), or zig (pip install ziglang)";

/// Versions by which distributions name LLVM's tools; weir.mk looks for the same ones.
const LLVM: [&str; 10] = ["", "-22", "-21", "-20", "-19", "-18", "-17", "-16", "-15", "-14"];

pub(in crate::scaffold) fn build(project: &mut Project<'_>) -> Result<PathBuf, Problem> {
    let make = project.tools.need("make", "Debian: apt-get install make; Fedora: dnf install make")?;
    if !has_compiler(&project.tools) {
        return Err(Problem::new("c", "no compiler for Wasm is on PATH", INSTALL));
    }
    let makefile = project.read("Makefile")?;
    let name = makefile.lines().find_map(|line| line.strip_prefix("NAME := ")).map(str::trim);
    let name = name.ok_or_else(|| project.problem("its Makefile sets no NAME", "write: NAME := my_plugin"))?;
    let (component, out) = (project.component(name), format!("OUT={OUT}"));
    let weir = std::env::current_exe().map_err(|error| Problem::new("weir", format!("it can't find itself: {error}"), ""))?;
    let target = format!("{OUT}/{name}.wasm");
    let step = Step::new(&make, &["--no-print-directory", &out, &target], &project.folder);
    (project.say)(step.words());
    // The one that runs here, so that the two agree.
    step.env("COMPONENTIZE", format!("'{}' componentize", weir.display())).run()?;
    Ok(component)
}

fn has_compiler(tools: &Tools) -> bool {
    let has = |name: &str| tools.find(name).is_some();
    has("zig")
        || has("python-zig")
        || LLVM.iter().any(|version| has(&format!("clang{version}")) && has(&format!("wasm-ld{version}")))
}
