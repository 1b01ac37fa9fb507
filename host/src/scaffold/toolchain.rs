//! Finds tools on PATH and runs them; what is missing is named with the package that has it.

use crate::graph::Problem;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tools by name, as a shell would find them.
pub(super) struct Tools {
    path: OsString,
}

impl Tools {
    /// Those on this process's PATH.
    pub fn on_path() -> Self {
        Tools { path: std::env::var_os("PATH").unwrap_or_default() }
    }

    /// Where a tool lies.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path).map(|folder| folder.join(name)).find(|path| is_executable(path))
    }

    /// Where a tool lies; else what to install.
    pub fn need(&self, name: &str, install: &str) -> Result<PathBuf, Problem> {
        self.find(name).ok_or_else(|| Problem::new(name, "it is not on PATH", install))
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// A command of a build, run in the project's folder.
pub(super) struct Step {
    command: Command,
    words: String,
}

impl Step {
    pub fn new(tool: &Path, arguments: &[&str], folder: &Path) -> Self {
        let mut command = Command::new(tool);
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        let name = tool.file_name().unwrap_or(tool.as_os_str()).to_string_lossy().into_owned();
        Step { command, words: [&[name.as_str()], arguments].concat().join(" ") }
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// As a user would type it.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Runs it with its words on this process's stderr, and gives what it wrote to stdout.
    pub fn output(mut self) -> Result<String, Problem> {
        let done = self.command.stderr(Stdio::inherit()).output();
        let done = done.map_err(|error| Problem::new(self.words.as_str(), format!("it can't be started: {error}"), ""))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(Problem::new(self.words, format!("it failed with {}", done.status), "what it says stands above")),
        }
    }

    /// Runs it with all its words on this process's stderr.
    pub fn run(mut self) -> Result<(), Problem> {
        let stderr = rustix::io::dup(rustix::stdio::stderr()).map(std::process::Stdio::from);
        // Without a stderr there is nobody to tell.
        self.command.stdout(stderr.unwrap_or_else(|_| Stdio::null()));
        let status = self.command.stderr(Stdio::inherit()).status();
        let status = status.map_err(|error| Problem::new(self.words.as_str(), format!("it can't be started: {error}"), ""))?;
        match status.success() {
            true => Ok(()),
            false => Err(Problem::new(self.words, format!("it failed with {status}"), "what it says stands above")),
        }
    }

    /// Whether it succeeds, and what it says, in silence.
    pub fn ask(mut self) -> Option<String> {
        let done = self.command.stderr(Stdio::null()).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }
}
