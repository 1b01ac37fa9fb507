//! One sink's committing half: it survives its own traps, since a commit that trapped may have happened.

use crate::error::{CallError, CallErrorKind, Function};
use crate::exports::CommitterFunctions;
use crate::grants::{Grants, Reach};
use crate::limits::Limits;
use crate::load::Plugin;
use crate::store::{Guest, Who};
use crate::wire::{AbortOutcome, Committable, Outcome};
use std::sync::Arc;

/// Which sink it commits for, and what it may use.
#[derive(Clone, Debug)]
pub struct CommitterSetup {
    /// The job's name.
    pub job: String,
    /// The sink's name in the job file.
    pub sink: String,
    /// The job file's `config` as one JSON document, "{}" if there is none.
    pub config: String,
    /// What it may use up.
    pub limits: Limits,
    /// What it may reach.
    pub grants: Grants,
}

/// A sink's committer. Holds an open instance; after a trap the next call opens a fresh one.
pub struct CommitterInstance {
    plugin: Arc<Plugin>,
    setup: CommitterSetup,
    open: Option<Open>,
}

struct Open {
    guest: Guest,
    functions: CommitterFunctions,
}

impl CommitterInstance {
    /// Instantiates and opens, so that a committer that can't be opened is found before the job runs.
    ///
    /// # Panics
    /// If the plugin is an operator; its kind is known since it was loaded.
    pub fn new(plugin: &Arc<Plugin>, setup: CommitterSetup) -> Result<Self, CallError> {
        let open = Some(Open::new(plugin, &setup)?);
        Ok(CommitterInstance { plugin: plugin.clone(), setup, open })
    }

    /// Commits in order; idempotent. One outcome for each.
    ///
    /// Whatever goes wrong on the way (a trap, a limit, no fresh instance, a wrong number of outcomes) is `Unknown` for all:
    /// nobody can say how far it came, in this call or in one before.
    pub fn commit(&mut self, what: &[Committable]) -> Vec<Outcome> {
        self.ask(Function::Commit, what)
    }

    /// What became of them, by asking the outside. Failures are `Unknown`, as for [`Self::commit`].
    pub fn status(&mut self, what: &[Committable]) -> Vec<Outcome> {
        self.ask(Function::Status, what)
    }

    /// Gives up what was staged under these identities; idempotent. Failures are `Retry` for all: to abort again is safe.
    pub fn abort(&mut self, what: &[String]) -> Vec<AbortOutcome> {
        let aborted = self.call(Function::Abort, |open| {
            let abort = open.functions.abort;
            let (outcomes,) = open.guest.call(Function::Abort, None, |store| abort.call(store, (what.to_vec(),)))?;
            open.check_count(Function::Abort, outcomes, what.len())
        });
        aborted.unwrap_or_else(|e| what.iter().map(|_| AbortOutcome::Retry(e.to_string())).collect())
    }

    /// Every identity of this job and sink that exists outside.
    pub fn list_dangling(&mut self) -> Result<Vec<String>, CallError> {
        self.call(Function::ListDangling, |open| {
            let list = open.functions.list_dangling;
            let (listed,) = open.guest.call(Function::ListDangling, None, |store| list.call(store, ()))?;
            listed.map_err(|error| open.guest.error(Function::ListDangling, error.check(0)))
        })
    }

    /// What was kept to answer "already committed" for these may go.
    pub fn forget(&mut self, what: &[String]) -> Result<(), CallError> {
        self.call(Function::Forget, |open| {
            let forget = open.functions.forget;
            let (forgotten,) = open.guest.call(Function::Forget, None, |store| forget.call(store, (what.to_vec(),)))?;
            forgotten.map_err(|error| open.guest.error(Function::Forget, error.check(0)))
        })
    }

    /// For tests of plugins: the open instance dies at the host call that comes after so many from now on. The call after that
    /// opens a fresh one, as a restarted process would.
    ///
    /// # Panics
    /// If the last call trapped: there is no open instance.
    pub fn crash_after(&mut self, host_calls: u32) {
        self.open.as_mut().expect("an open instance").guest.state().crash_after = Some(host_calls);
    }

    /// A clean end. Nothing if there is no open instance.
    pub fn close(mut self) -> Result<(), CallError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let close = open.functions.close;
        open.guest.call(Function::Close, None, |store| close.call(store, ()))
    }

    /// The plugin that it is an instance of.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    fn ask(&mut self, function: Function, what: &[Committable]) -> Vec<Outcome> {
        let answered = self.call(function, |open| {
            let ask = match function {
                Function::Status => open.functions.status,
                _ => open.functions.commit,
            };
            let (outcomes,) = open.guest.call(function, None, |store| ask.call(store, (what.to_vec(),)))?;
            open.check_count(function, outcomes, what.len())
        });
        answered.unwrap_or_else(|e| what.iter().map(|_| Outcome::Unknown(e.to_string())).collect())
    }

    /// Calls an open instance, making one if the last one is gone.
    fn call<R>(&mut self, function: Function, call: impl FnOnce(&mut Open) -> Result<R, CallError>) -> Result<R, CallError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(Open::new(&self.plugin, &self.setup)?),
        };
        let answer = call(open);
        if let Err(e) = &answer {
            tracing::warn!(sink = self.setup.sink, function = function.name(), "{e}");
        }
        if open.guest.is_poisoned() {
            self.open = None;
        }
        answer
    }
}

impl Open {
    fn new(plugin: &Arc<Plugin>, setup: &CommitterSetup) -> Result<Self, CallError> {
        let exports = plugin.sink_exports().expect("a committer is made from a sink");
        let who = Who { plugin: plugin.describe().plugin_name().into(), operator: setup.sink.clone(), subtask: None };
        let reach = Reach::open(&setup.grants).map_err(|kind| who.error(Function::Instantiate, kind))?;
        let mut guest = plugin.instantiate(who, setup.limits, reach)?;
        let (store, instance) = guest.parts();
        let functions = exports.committer(store, instance).expect("types were checked at load");
        let arguments = (setup.job.clone(), setup.sink.clone(), setup.config.clone());
        let opened = guest.call(Function::Open, None, |store| functions.open.call(store, arguments))?;
        opened.0.map_err(|error| guest.error(Function::Open, error.check(0)))?;
        Ok(Open { guest, functions })
    }

    fn check_count<T>(&self, function: Function, outcomes: Vec<T>, asked: usize) -> Result<Vec<T>, CallError> {
        match outcomes.len() == asked {
            true => Ok(outcomes),
            false => {
                let why = format!("{} outcomes for {asked} transactions", outcomes.len());
                Err(self.guest.error(function, CallErrorKind::Malformed(why)))
            }
        }
    }
}
