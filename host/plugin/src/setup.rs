//! What every instance of an operator and every sink writer goes through, from its setup to its close.

use crate::error::{CallError, CallErrorKind, Function};
use crate::exports::{CloseFn, OpenFn};
use crate::grants::{Grants, Reach};
use crate::host_calls::{tell_dropped, tell_unended_lines};
use crate::limits::Limits;
use crate::load::Plugin;
use crate::store::{Guest, Who};
use crate::wire::TaskInfo;

/// Which part of the job an instance is, and what it may use.
#[derive(Clone, Debug)]
pub struct TaskSetup {
    /// Told to the plugin.
    pub task: TaskInfo,
    /// The job file's `config` as one JSON document, "{}" if there is none.
    pub config: String,
    /// What it may use up.
    pub limits: Limits,
    /// What it may reach.
    pub grants: Grants,
}

impl TaskSetup {
    /// Instantiates a plugin, which must describe itself as it did at load. `describe`: asks it; none: its answer is no
    /// descriptor.
    pub(crate) fn instantiate<D: PartialEq>(
        &self,
        plugin: &Plugin,
        at_load: Option<&D>,
        describe: impl FnOnce(&mut Guest) -> Result<Option<D>, CallError>,
    ) -> Result<Guest, CallError> {
        let who = Who {
            plugin: plugin.describe().plugin_name().into(),
            operator: self.task.operator.clone(),
            subtask: Some(self.task.subtask),
        };
        let reach = Reach::open(&self.grants).map_err(|kind| who.error(Function::Instantiate, kind))?;
        let mut guest = plugin.instantiate(who, self.limits, reach)?;
        if describe(&mut guest)?.as_ref() != at_load {
            let why = "describe gave another answer than at load; it must be pure".into();
            return Err(guest.error(Function::Describe, CallErrorKind::Malformed(why)));
        }
        Ok(guest)
    }

    /// The first call.
    pub(crate) fn open(&self, guest: &mut Guest, open: OpenFn) -> Result<(), CallError> {
        let arguments = (self.task.clone(), self.config.clone());
        let opened = guest.call(Function::Open, None, |store| open.call(store, arguments))?;
        opened.0.map_err(|error| guest.error(Function::Open, error.check(0)))
    }
}

/// The last call. The instance is of no use afterwards, whatever it answers.
pub(crate) fn close(guest: &mut Guest, close: CloseFn) -> Result<(), CallError> {
    let closed = guest.call(Function::Close, None, |store| close.call(store, ()));
    let state = guest.state();
    tell_unended_lines(state);
    tell_dropped(&state.who, state.log.take_dropped());
    closed
}
