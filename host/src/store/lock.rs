//! The lock of a data folder: one process at a time.
//!
//! It spares users a mistake; the fence is the claim in the job's log. The kernel holds the lock (`flock`) and drops it with
//! the process, however it ends, so a stale one is taken over without asking. The file itself stays: to remove it would let
//! two processes lock two files of one name.

use crate::clock::wall_ms;
use crate::disk::DiskTrouble;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Who holds a data folder, as written into its lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// The job, or the command that holds it.
    pub job: String,
    /// When it took the lock, ms since the Unix epoch: for people only.
    pub since_ms: u64,
}

/// The folder can't be locked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "{folder} is in use by {}: stop that process first, or give this one another --data folder",
        described(holder.as_ref())
    )]
    Held {
        /// The data folder.
        folder: PathBuf,
        /// Who; none if it is only just writing its name.
        holder: Option<Holder>,
    },
    /// The system refused.
    #[error("can't lock {path}: {why}; {next}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// In the system's words.
        why: String,
        /// What to do about it.
        next: &'static str,
    },
}

fn next_step(error: &io::Error) -> &'static str {
    match DiskTrouble::of(error) {
        DiskTrouble::Other => "give the user that runs weir read and write access there, on a file system with locks",
        trouble => trouble.advice(),
    }
}

/// A holder, for people.
pub fn described(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder { pid, host, job, since_ms }) => {
            let minutes = wall_ms().saturating_sub(*since_ms) / 60_000;
            format!("process {pid} on {host} (job '{job}', for {minutes} min)")
        }
        None => "another process that has just started".to_owned(),
    }
}

/// Who seems to use a data folder now, by what the lock's file says; to look takes nothing from anybody.
pub fn running_holder(data: &Path) -> Option<String> {
    let mut file = File::open(data.join("lock")).ok()?;
    let holder = read_holder(&mut file)?;
    // One that was killed has left its name.
    let is_alive = holder.host != host_name() || Path::new("/proc").join(holder.pid.to_string()).exists();
    is_alive.then(|| described(Some(&holder)))
}

/// The right to use a data folder, for as long as it lives.
#[derive(Debug)]
pub struct DataLock {
    file: File,
}

impl DataLock {
    /// Locks `<data>/lock`, creating folder and file. `job` is what a second process is told.
    pub fn acquire(data: &Path, job: &str) -> Result<Self, LockError> {
        let path = data.join("lock");
        let failed = |error: io::Error| LockError::Io { path: path.clone(), why: error.to_string(), next: next_step(&error) };
        std::fs::create_dir_all(data).map_err(failed)?;
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held { folder: data.to_owned(), holder: read_holder(&mut file) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let holder = Holder { pid: std::process::id(), host: host_name(), job: job.to_owned(), since_ms: wall_ms() };
        write_holder(&mut file, Some(&holder)).map_err(failed)?;
        Ok(DataLock { file })
    }
}

impl Drop for DataLock {
    fn drop(&mut self) {
        // A name that stays would only mislead a reader of the file: the kernel's lock is what counts.
        let _ = write_holder(&mut self.file, None);
    }
}

fn write_holder(file: &mut File, holder: Option<&Holder>) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    if let Some(holder) = holder {
        let text = serde_json::to_string(holder).expect("numbers and texts always have a JSON form");
        writeln!(file, "{text}")?;
    }
    Ok(())
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "this host".to_owned(), |name| name.trim().to_owned())
}
