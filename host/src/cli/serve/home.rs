//! The daemon's folder: its lock, its token, its address, and which jobs it was given.

use crate::disk::{DiskTrouble, sync_parent};
use crate::graph::Problem;
use crate::store::lock::{DataLock, LockError, described, running_holder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;

const TOKEN: &str = "token";
const ADDRESS: &str = "address";
const JOBS: &str = "jobs";

/// Where it lies if no option says so: `$WEIR_HOME`, else `$XDG_STATE_HOME/weir`, else `~/.local/state/weir`. None without a home.
pub(super) fn default_home() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
    let base = || absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    path("WEIR_HOME").or_else(|| Some(base()?.join("weir")))
}

/// What a daemon was given, as it stands in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The job file, absolute.
    pub job_file: PathBuf,
    /// The data folder, absolute.
    pub data: PathBuf,
    /// Whether it is to run: then a daemon's start resumes it.
    pub wanted: bool,
    /// How it ended last, as `weir run --json` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Value>,
}

/// A daemon's folder, held by one process.
#[derive(Debug)]
pub(super) struct Home {
    folder: PathBuf,
    token: String,
    _lock: DataLock,
}

impl Home {
    /// Opens the folder, which may be new, and takes its lock. The token is made at the first time, and stays.
    pub fn open(folder: &Path) -> Result<Self, Problem> {
        let place = || format!("--home {}", folder.display());
        let failed = |error: io::Error| trouble(&place(), &error);
        // For its owner only: who reads the token may run plugins in that user's name.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(JOBS)).map_err(failed)?;
        let lock = DataLock::acquire(folder, "weir serve").map_err(|error| match error {
            LockError::Held { holder, .. } => Problem::new(
                place(),
                format!("is in use by {}", described(holder.as_ref())),
                "one daemon serves many jobs: submit them to that one, or give this one another --home",
            ),
            LockError::Io { .. } => Problem::new(place(), error.to_string(), ""),
        })?;
        let token = match std::fs::read_to_string(folder.join(TOKEN)) {
            Ok(token) if !token.trim().is_empty() => token.trim().to_owned(),
            Ok(_) => new_token(folder).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_token(folder).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        };
        Ok(Home { folder: folder.to_owned(), token, _lock: lock })
    }

    /// What a client must show.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Tells clients of this machine where the daemon listens.
    pub fn publish(&self, address: SocketAddr) -> Result<(), Problem> {
        let path = self.folder.join(ADDRESS);
        replace(&path, format!("http://{address}\n").as_bytes()).map_err(|error| trouble(&path.to_string_lossy(), &error))
    }

    /// Every job that was given and not removed, by name.
    /// One that can't be read is a problem of its own, and keeps no other.
    pub fn records(&self) -> Result<(Vec<(String, Record)>, Vec<Problem>), Problem> {
        let folder = self.folder.join(JOBS);
        let failed = |error: io::Error| trouble(&folder.to_string_lossy(), &error);
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_file = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
            let text = match is_file {
                true => std::fs::read(&path).map_err(|error| error.to_string()),
                false => Err("it is no file".to_owned()),
            };
            match text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string())) {
                Ok(record) => records.push((name, record)),
                Err(why) => {
                    let next = "mend it, or remove it and submit the job again: its data folder is not touched";
                    problems.push(Problem::new(path.to_string_lossy(), format!("is no record of a job: {why}"), next));
                }
            }
        }
        records.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((records, problems))
    }

    /// Keeps what a job's record says, durably.
    pub fn keep(&self, name: &str, record: &Record) -> Result<(), Problem> {
        let path = self.record_path(name);
        let text = serde_json::to_vec_pretty(record).expect("texts and paths from texts always have a JSON form");
        replace(&path, &text).map_err(|error| trouble(&path.to_string_lossy(), &error))
    }

    /// Forgets a job.
    pub fn forget(&self, name: &str) -> Result<(), Problem> {
        let path = self.record_path(name);
        std::fs::remove_file(&path).and_then(|()| sync_parent(&path)).map_err(|error| trouble(&path.to_string_lossy(), &error))
    }

    fn record_path(&self, name: &str) -> PathBuf {
        self.folder.join(JOBS).join(format!("{name}.json"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A client that finds it would only be told later that nobody listens.
        let _ = std::fs::remove_file(self.folder.join(ADDRESS));
    }
}

/// Where a daemon of this folder listens, and what it wants to see.
pub(in crate::cli) fn read(folder: &Path) -> Result<(String, String), Problem> {
    // One that was killed has left its address: whoever listens there now must not hear the token.
    if running_holder(folder).is_none() {
        let place = format!("--home {}", folder.display());
        return Err(Problem::new(place, "no daemon runs there", "start one with: weir serve"));
    }
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).map(|text| text.trim().to_owned());
    match (read(ADDRESS), read(TOKEN)) {
        (Ok(address), Ok(token)) => Ok((address, token)),
        (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(Problem::new(format!("--home {}", folder.display()), "no daemon runs there", "start one with: weir serve"))
        }
        (Err(error), _) | (_, Err(error)) => Err(trouble(&format!("--home {}", folder.display()), &error)),
    }
}

fn trouble(place: &str, error: &io::Error) -> Problem {
    let advice = match DiskTrouble::of(error) {
        DiskTrouble::Other => "give the user that runs weir read and write access there",
        trouble => trouble.advice(),
    };
    Problem::new(place, error.to_string(), advice)
}

fn new_token(folder: &Path) -> io::Result<String> {
    let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    replace(&folder.join(TOKEN), format!("{token}\n").as_bytes())?;
    Ok(token)
}

/// Writes a file that is there whole or as it was before, for its owner only.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_parent(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_is_its_owners() {
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let folder = scratch.path().join("home");
        let first = Home::open(&folder).expect("it opens").token().to_owned();
        assert_eq!(first.len(), 64);
        assert_eq!(Home::open(&folder).expect("again").token(), first);
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(TOKEN))), (0o700, 0o600));
    }

    #[test]
    fn one_daemon_has_the_folder_and_clients_find_it() {
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let home = Home::open(scratch.path()).expect("it opens");
        let second = Home::open(scratch.path()).expect_err("it is held");
        assert!(second.what.contains(&format!("process {}", std::process::id())), "{second:?}");
        assert!(read(scratch.path()).expect_err("it does not listen yet").what.contains("no daemon runs"));
        home.publish("127.0.0.1:7117".parse().expect("an address")).expect("it is written");
        let (address, token) = read(scratch.path()).expect("it listens");
        assert_eq!((address.as_str(), token.as_str()), ("http://127.0.0.1:7117", home.token()));
        drop(home);
        assert!(read(scratch.path()).is_err(), "its address goes with it");
    }

    #[test]
    fn records_come_back_as_they_were_kept() {
        let scratch = tempfile::tempdir().expect("a scratch folder can be made");
        let home = Home::open(scratch.path()).expect("it opens");
        let record = |wanted| Record { job_file: "/a/job.toml".into(), data: "/a/.weir/job".into(), wanted, ended: None };
        home.keep("b", &record(true)).expect("kept");
        home.keep("a", &record(true)).expect("kept");
        home.keep("a", &record(false)).expect("kept");
        let both = vec![("a".to_owned(), record(false)), ("b".to_owned(), record(true))];
        assert_eq!(home.records().expect("read"), (both, Vec::new()));
        home.forget("a").expect("forgotten");
        std::fs::write(scratch.path().join("jobs/c.json"), b"\xff").expect("written");
        std::fs::create_dir(scratch.path().join("jobs/d.json")).expect("made");
        let (records, problems) = home.records().expect("read");
        assert_eq!((records.len(), problems.len()), (1, 2), "{problems:?}");
    }
}
