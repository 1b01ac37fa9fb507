//! The host's functions, and their stand-ins where there is no host (native tests).

use crate::bindings::types;
use crate::files::Files;
use crate::http::Origin;

/// Handle to the host of this plugin.
#[cfg(target_family = "wasm")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

#[cfg(target_family = "wasm")]
impl Host {
    /// Hands a chunk over; see `host.emit` in the contract.
    pub(crate) fn emit(&self, port: u32, batch: &types::Batch) {
        crate::bindings::host::emit(port, batch);
    }
}

/// Stand-in that keeps what it was given.
#[cfg(not(target_family = "wasm"))]
#[derive(Clone, Debug, Default)]
pub struct Host(std::rc::Rc<std::cell::RefCell<Vec<(u32, types::Batch)>>>);

#[cfg(not(target_family = "wasm"))]
impl Host {
    /// A stand-in without anything yet.
    pub(crate) fn recording() -> Self {
        Host::default()
    }

    /// Keeps a chunk.
    pub(crate) fn emit(&self, port: u32, batch: &types::Batch) {
        self.0.borrow_mut().push((port, batch.clone()));
    }

    /// What was handed over since the last time.
    pub(crate) fn take_emitted(&self) -> Vec<(u32, types::Batch)> {
        self.0.take()
    }
}

/// How urgent a log message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For whoever follows single records.
    Trace,
    /// For the plugin's author.
    Debug,
    /// For the job's owner.
    Info,
    /// Something to look at.
    Warn,
    /// Something is broken.
    Error,
}

impl Level {
    /// As the contract names it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// Writes to the host's log, which drops messages above a rate and says how many. Without a host the message is kept for
/// the test: [`crate::testing::take_log`].
pub fn log(level: Level, message: &str) {
    #[cfg(target_family = "wasm")]
    crate::bindings::host::log(level.name(), message);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::keep_log(level, message);
}

/// Which part of the job an instance is.
#[derive(Clone, Debug)]
pub struct Task {
    /// The job's name.
    pub job: String,
    /// The name of the operator or sink in the job file.
    pub operator: String,
    /// 0 … parallelism - 1.
    pub subtask: u32,
    /// Number of instances that share the work.
    pub parallelism: u32,
    /// Number of the job's attempt, from 1; a restart raises it.
    pub attempt: u32,
    /// What the job granted to this plugin.
    pub grants: Grants,
}

impl Task {
    /// From the contract's form.
    pub(crate) fn new(info: types::TaskInfo, grants: Grants) -> Self {
        let types::TaskInfo { job, operator_name, subtask, parallelism, attempt } = info;
        Task { job, operator: operator_name, subtask, parallelism, attempt, grants }
    }
}

/// What the job granted to this plugin, beyond what every plugin has.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    #[cfg(not(target_family = "wasm"))]
    pub(crate) folders: crate::testing::MemoryFolders,
    #[cfg(not(target_family = "wasm"))]
    pub(crate) http: crate::testing::FakeHttp,
}

impl Grants {
    /// The folder that the job file grants under this name (`grants.folders`). That it is granted shows at the first use.
    pub fn folder(&self, name: &str) -> Files {
        #[cfg(target_family = "wasm")]
        return Files::new(name, std::rc::Rc::new(crate::files::HostFolders));
        #[cfg(not(target_family = "wasm"))]
        return Files::new(name, std::rc::Rc::new(self.folders.clone()));
    }

    /// The origin that the job file grants under this name (`grants.http`). That it is granted shows at the first use.
    pub fn origin(&self, name: &str) -> Origin {
        #[cfg(target_family = "wasm")]
        return Origin::new(name, std::rc::Rc::new(crate::http::HostClient));
        #[cfg(not(target_family = "wasm"))]
        return Origin::new(name, std::rc::Rc::new(self.http.clone()));
    }
}
