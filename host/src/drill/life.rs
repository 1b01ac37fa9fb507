//! One life of the drilled job: a process of its own, ended by itself or by SIGKILL.

use super::plan::Kill;
use crate::clock;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What is started.
#[derive(Clone, Debug)]
pub struct Job {
    /// The `weir` binary.
    pub weir: PathBuf,
    /// The job file.
    pub file: PathBuf,
    /// Folder of this run: `data` and outputs lie in it.
    pub folder: PathBuf,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exit(i32),
    /// By SIGKILL, at its point or when it was time.
    Killed,
    /// By SIGKILL when it was time, before it had passed its point that often.
    KilledLate,
}

impl Job {
    /// A command of weir's about this job.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.weir);
        command.args(words).arg(&self.file).arg("--data").arg(self.folder.join("data")).arg("--drill").arg(&self.folder);
        command.stdin(Stdio::null());
        command
    }

    /// Runs the job until it ends, or is killed. What it says goes to `log`, and its result as JSON to a file beside it.
    pub fn live(&self, kill: Option<&Kill>, log: &Path) -> io::Result<(Ended, Duration)> {
        let mut command = self.command(&["run", "--json"]);
        command.stdout(File::create(result(log))?).stderr(File::create(log)?);
        if let Some(Kill::Point { point, passage, .. }) = kill {
            command.env("WEIR_CRASH_AT", format!("{point}:{passage}"));
        }
        let begun = clock::monotonic();
        let mut child = command.spawn()?;
        let pid = rustix::process::Pid::from_child(&child);
        let (ended, end) = channel();
        // Who waits reaps it, and until then its number is nobody else's.
        let waits = std::thread::Builder::new().name("drilled".to_owned()).spawn(move || {
            let _ = ended.send(child.wait());
        })?;
        let mut is_late = false;
        let status = match kill.map(Kill::limit) {
            None => end.recv().map_err(io::Error::other)??,
            Some(limit) => match end.recv_timeout(limit) {
                Ok(status) => status?,
                Err(RecvTimeoutError::Timeout) => {
                    is_late = matches!(kill, Some(Kill::Point { .. }));
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
                    end.recv().map_err(io::Error::other)??
                }
                Err(error @ RecvTimeoutError::Disconnected) => return Err(io::Error::other(error)),
            },
        };
        let _ = waits.join();
        let ended = match ended_by(status) {
            Ended::Killed if is_late => Ended::KilledLate,
            ended => ended,
        };
        Ok((ended, clock::monotonic() - begun))
    }
}

/// Where the result of the run lies that has this log.
pub fn result(log: &Path) -> PathBuf {
    log.with_extension("json")
}

fn ended_by(status: ExitStatus) -> Ended {
    match status.code() {
        Some(code) => Ended::Exit(code),
        None if status.signal() == Some(9) => Ended::Killed,
        // As shells count.
        None => Ended::Exit(128 + status.signal().unwrap_or(0)),
    }
}
