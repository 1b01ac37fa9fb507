//! `weir build`: finds out what a project is written in, and has its own tools build it.

use super::languages::{Language, c, go, javascript, python, rust};
use super::toolchain::Tools;
use crate::graph::Problem;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a project's component goes.
pub(super) const OUT: &str = "build";

/// What came of a build.
#[derive(Clone, Debug)]
pub struct Built {
    /// The component.
    pub component: PathBuf,
    /// The language.
    pub language: &'static str,
}

/// A project's folder, and what its build may use.
pub(super) struct Project<'a> {
    /// Absolute.
    pub folder: PathBuf,
    pub is_release: bool,
    pub tools: Tools,
    /// Takes each command before it runs.
    pub say: &'a mut dyn FnMut(&str),
}

impl Project<'_> {
    /// A text file of the project.
    pub fn read(&self, name: &str) -> Result<String, Problem> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(|error| Problem::new(path.display().to_string(), error.to_string(), ""))
    }

    pub fn problem(&self, what: impl Into<String>, next: impl Into<String>) -> Problem {
        Problem::new(self.folder.display().to_string(), what, next)
    }

    /// Where the component of this name goes.
    pub fn component(&self, snake: &str) -> PathBuf {
        self.folder.join(OUT).join(format!("{snake}.wasm"))
    }
}

/// Builds a project to a component. `say`: takes each command before it runs.
///
/// # Errors
/// If the folder is no project, a tool is missing (with what to install), or a command fails.
pub fn build(folder: &Path, is_release: bool, say: &mut dyn FnMut(&str)) -> Result<Built, Problem> {
    let absolute = folder.canonicalize().map_err(|error| {
        Problem::new(folder.display().to_string(), error.to_string(), "give a project's folder; weir new makes one")
    })?;
    let mut project = Project { folder: absolute, is_release, tools: Tools::on_path(), say };
    let language = language_of(&project)?;
    let component = match language {
        Language::Rust => rust::build(&mut project),
        Language::Go => go::build(&mut project),
        Language::JavaScript => javascript::build(&mut project),
        Language::Python => python::build(&mut project),
        Language::C => c::build(&mut project),
    }?;
    Ok(Built { component, language: language.name() })
}

/// The first of these files that lies there says it.
fn language_of(project: &Project<'_>) -> Result<Language, Problem> {
    let has = |name: &str| project.folder.join(name).is_file();
    let found = [
        ("Cargo.toml", "weir-sdk", Language::Rust),
        ("go.mod", "weir", Language::Go),
        ("package.json", "weir", Language::JavaScript),
        ("pyproject.toml", "", Language::Python),
        ("Makefile", "weir.mk", Language::C),
    ];
    for (file, word, language) in found {
        if !has(file) {
            continue;
        }
        return match project.read(file)?.contains(word) {
            true => Ok(language),
            false => Err(project.problem(
                format!("its {file} does not name {word}, so it is no plugin's project"),
                "weir new shows what one looks like",
            )),
        };
    }
    Err(project.problem(
        "it is no project: there is none of Cargo.toml, go.mod, package.json, pyproject.toml, and no Makefile that includes weir.mk",
        "weir new makes one",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_project_is_told_why() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let build = || build(scratch.path(), true, &mut |_| {}).expect_err("it is none").to_string();
        assert!(build().contains("there is none of Cargo.toml"), "{}", build());
        fs::write(scratch.path().join("Cargo.toml"), "[package]\nname = \"x\"\n").expect("written");
        assert!(build().contains("does not name weir-sdk"), "{}", build());
        let gone = super::build(Path::new("/no/such/folder"), true, &mut |_| {}).expect_err("it is not there");
        assert!(gone.to_string().contains("weir new"), "{gone}");
    }
}
