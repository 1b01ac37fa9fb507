//! Why a plugin could not be loaded or a call failed: whose fault, where, and what next.

use crate::batch::Malformed;
use crate::limits::LimitBreach;
use crate::state::StateError;
use std::fmt;
use std::io;

/// What is being called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The component's own start code.
    Instantiate,
    /// `describe`.
    Describe,
    /// `open`.
    Open,
    /// `operator.process`.
    Process,
    /// `end-of-input.on-end`.
    OnEnd,
    /// `end-of-input.on-end-keys`.
    OnEndKeys,
    /// `timers.on-timers`.
    OnTimers,
    /// `checkpointed.snapshot`.
    Snapshot,
    /// `checkpointed.restore`.
    Restore,
    /// `sink-writer.begin`.
    Begin,
    /// `sink-writer.write`.
    Write,
    /// `sink-writer.prepare`.
    Prepare,
    /// `sink-committer.commit`.
    Commit,
    /// `sink-committer.status`.
    Status,
    /// `sink-committer.abort`.
    Abort,
    /// `sink-committer.list-dangling`.
    ListDangling,
    /// `sink-committer.forget`.
    Forget,
    /// `close`.
    Close,
}

impl Function {
    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Function::Instantiate => "start",
            Function::Describe => "describe",
            Function::Open => "open",
            Function::Process => "process",
            Function::OnEnd => "on-end",
            Function::OnEndKeys => "on-end-keys",
            Function::OnTimers => "on-timers",
            Function::Snapshot => "snapshot",
            Function::Restore => "restore",
            Function::Begin => "begin",
            Function::Write => "write",
            Function::Prepare => "prepare",
            Function::Commit => "commit",
            Function::Status => "status",
            Function::Abort => "abort",
            Function::ListDangling => "list-dangling",
            Function::Forget => "forget",
            Function::Close => "close",
        }
    }

    /// Whether the function processes records of an operator: only then may it emit and touch keyed state.
    pub(crate) fn processes(self) -> bool {
        match self {
            Function::Process | Function::OnEnd | Function::OnEndKeys | Function::OnTimers => true,
            Function::Instantiate
            | Function::Describe
            | Function::Open
            | Function::Snapshot
            | Function::Restore
            | Function::Begin
            | Function::Write
            | Function::Prepare
            | Function::Commit
            | Function::Status
            | Function::Abort
            | Function::ListDangling
            | Function::Forget
            | Function::Close => false,
        }
    }
}

/// Where a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The plugin's own name, or its file's before it said one.
    pub plugin: String,
    /// Operator or sink in the job file.
    pub operator: String,
    /// Index of the instance; none for a committer or a load.
    pub subtask: Option<u32>,
    /// The function.
    pub function: Function,
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin `{}`", self.plugin)?;
        if !self.operator.is_empty() {
            write!(f, " as `{}`", self.operator)?;
        }
        if let Some(subtask) = self.subtask {
            write!(f, ", subtask {subtask}")?;
        }
        write!(f, ", {}", self.function.name())
    }
}

/// A call that failed. Nothing of what it did was applied, unless the kind is `State` or `Environment`. Whether the instance
/// can be called again, it says itself (`is_poisoned`).
#[derive(Debug)]
pub struct CallError {
    /// Where.
    pub site: Box<CallSite>,
    /// Why.
    pub kind: CallErrorKind,
}

/// Why a call failed.
#[derive(Debug)]
pub enum CallErrorKind {
    /// The plugin says: transient, call again with the same input.
    Retry(String),
    /// The plugin says: these records (index in the batch, reason) can't be processed. Never empty, each index once and
    /// inside the batch.
    BadInput(Vec<(u32, String)>),
    /// The plugin says: the attempt fails.
    Fatal(String),
    /// The plugin's code trapped.
    Trap {
        /// What the trap was.
        reason: String,
        /// Frames of the guest, one a line; empty if there are none.
        backtrace: String,
    },
    /// The plugin passed a limit.
    Limit(LimitBreach),
    /// The plugin's answer breaks the contract (columns that don't fit, an unknown port): its author's fault.
    Malformed(String),
    /// Keyed state could not be read or written: the environment's fault. The attempt must end.
    State(StateError),
    /// A granted folder could not be used: the environment's fault. The attempt must end.
    Environment {
        /// What was tried, with the path.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl From<Malformed> for CallErrorKind {
    fn from(malformed: Malformed) -> Self {
        CallErrorKind::Malformed(malformed.0)
    }
}

impl From<StateError> for CallErrorKind {
    fn from(error: StateError) -> Self {
        CallErrorKind::State(error)
    }
}

impl fmt::Display for CallErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallErrorKind::Retry(why) => write!(f, "asks to try again: {why}"),
            CallErrorKind::BadInput(records) => {
                let (index, reason) = records.first().map_or((0, ""), |(i, r)| (*i, r.as_str()));
                write!(f, "{} bad records, the first is record {index} of the batch: {reason}", records.len())
            }
            CallErrorKind::Fatal(why) => write!(f, "gives up: {why}"),
            CallErrorKind::Trap { reason, backtrace } if backtrace.is_empty() => write!(f, "trapped: {reason}"),
            CallErrorKind::Trap { reason, backtrace } => write!(f, "trapped: {reason}\n{backtrace}"),
            CallErrorKind::Limit(breach) => write!(f, "stopped: {breach}"),
            CallErrorKind::Malformed(why) => write!(f, "breaks the contract: {why}"),
            CallErrorKind::State(error) => write!(f, "keyed state failed: {error}"),
            CallErrorKind::Environment { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.site, self.kind)
    }
}

impl std::error::Error for CallError {}

/// Why the engine could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The Wasm engine does not run here.
    #[error("the Wasm engine can't be set up on this machine: {0}")]
    Engine(String),
    /// No thread for the clock of the call limit.
    #[error("the thread that watches the call limit can't be started: {0}")]
    Ticker(io::Error),
    /// The compile cache's folder is unusable or not private.
    #[error("compile cache {path}: {reason}")]
    Cache {
        /// The folder.
        path: String,
        /// Why, and what to do.
        reason: String,
    },
}

/// Why a plugin was refused. The text names the file or the plugin, and what its author or user can do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("plugin {name}: can't be read: {source}")]
    Read {
        /// The file.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// Larger than the host takes.
    #[error("plugin {name}: {bytes} bytes, but at most {limit} are taken")]
    TooLarge {
        /// The file.
        name: String,
        /// Its size; for a file that grew while it was read, what was read so far.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Its digest is not the pinned one.
    #[error("plugin {name}: its sha256 is {actual}, but the job pins {expected}: another build, or a damaged file")]
    Digest {
        /// The file.
        name: String,
        /// What the job says.
        expected: String,
        /// What it is.
        actual: String,
    },
    /// Not a component.
    #[error("plugin {name}: {reason}")]
    NotAComponent {
        /// The file.
        name: String,
        /// What it is instead, and what to do.
        reason: String,
    },
    /// A component, but not one that the compiler takes.
    #[error("plugin {name}: does not compile: {reason}")]
    Invalid {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
    /// A component of another world.
    #[error("plugin {name}: {reason}")]
    World {
        /// The file.
        name: String,
        /// What is missing or too much.
        reason: String,
    },
    /// It traps, passes a limit or gives nonsense before it is even opened.
    #[error("{0}")]
    Call(#[from] CallError),
    /// What `describe` says is refused.
    #[error("plugin {name}: describe: {reason}")]
    Descriptor {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
}
