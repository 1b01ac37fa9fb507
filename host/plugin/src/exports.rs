//! A plugin's exported functions: found once by name, type-checked once, called by index.

use crate::contract::{CHECKPOINTED, END_OF_INPUT, OPERATOR, PluginKind, SINK_COMMITTER, SINK_WRITER, TIMERS};
use crate::error::{CallError, Function};
use crate::store::{Guest, HostState};
use crate::wire::{
    AbortOutcome, BatchRef, CellsRef, ColumnRef, Committable, ErrorLift, OperatorDescriptorLift, Outcome, OutputLift, PartLift,
    PartRef, Prepared, SinkDescriptorLift, TaskInfo,
};
use wasmtime::component::{Component, ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower, TypedFunc};
use wasmtime::{Result as WasmResult, Store};

/// `result<_, error>`.
pub(crate) type Unit = (Result<(), ErrorLift>,);
/// `result<output, error>`.
pub(crate) type Processed = (Result<OutputLift, ErrorLift>,);

pub(crate) type OpenFn = TypedFunc<(TaskInfo, String), Unit>;
pub(crate) type CloseFn = TypedFunc<(), ()>;
/// Borrows its columns: the type is covariant in them, so the one bound for `'static` takes any.
pub(crate) type ProcessFn<'a> = TypedFunc<(u32, BatchRef<'a>, &'a [u8], &'a [CellsRef<'a>]), Processed>;
pub(crate) type OnEndFn = TypedFunc<(u32,), Processed>;
pub(crate) type OnEndKeysFn<'a> = TypedFunc<(ColumnRef<'a>, &'a [CellsRef<'a>]), Processed>;
pub(crate) type OnTimersFn<'a> = TypedFunc<(&'a str, BatchRef<'a>, &'a [u8], &'a [CellsRef<'a>]), Processed>;
pub(crate) type SnapshotFn = TypedFunc<(), (Result<Vec<PartLift>, ErrorLift>,)>;
pub(crate) type RestoreFn<'a> = TypedFunc<(&'a [PartRef<'a>],), Unit>;
pub(crate) type BeginFn = TypedFunc<(String,), Unit>;
pub(crate) type WriteFn<'a> = TypedFunc<(BatchRef<'a>,), Unit>;
pub(crate) type PrepareFn = TypedFunc<(String, bool), (Result<Option<Prepared>, ErrorLift>,)>;
pub(crate) type CommitterOpenFn = TypedFunc<(String, String, String), Unit>;
pub(crate) type CommitFn = TypedFunc<(Vec<Committable>,), (Vec<Outcome>,)>;
pub(crate) type AbortFn = TypedFunc<(Vec<String>,), (Vec<AbortOutcome>,)>;
pub(crate) type ListDanglingFn = TypedFunc<(), (Result<Vec<String>, ErrorLift>,)>;
pub(crate) type ForgetFn = TypedFunc<(Vec<String>,), Unit>;

/// Exports of a plugin, by its kind.
pub(crate) enum Exports {
    Operator(OperatorExports),
    Sink(SinkExports),
}

/// Where an operator's functions are.
pub(crate) struct OperatorExports {
    describe: ComponentExportIndex,
    open: ComponentExportIndex,
    process: ComponentExportIndex,
    close: ComponentExportIndex,
    end: Option<EndExports>,
    on_timers: Option<ComponentExportIndex>,
    own_state: Option<OwnStateExports>,
}

struct OwnStateExports {
    snapshot: ComponentExportIndex,
    restore: ComponentExportIndex,
}

struct EndExports {
    on_end: ComponentExportIndex,
    on_end_keys: ComponentExportIndex,
}

/// Where a sink's functions are.
pub(crate) struct SinkExports {
    describe: ComponentExportIndex,
    open: ComponentExportIndex,
    begin: ComponentExportIndex,
    write: ComponentExportIndex,
    prepare: ComponentExportIndex,
    close: ComponentExportIndex,
    committer_open: ComponentExportIndex,
    commit: ComponentExportIndex,
    status: ComponentExportIndex,
    abort: ComponentExportIndex,
    list_dangling: ComponentExportIndex,
    forget: ComponentExportIndex,
    committer_close: ComponentExportIndex,
}

/// Functions of an operator instance, ready to call.
#[derive(Clone, Copy)]
pub(crate) struct OperatorFunctions {
    pub(crate) open: OpenFn,
    pub(crate) process: ProcessFn<'static>,
    pub(crate) close: CloseFn,
    pub(crate) end: Option<EndFunctions>,
    pub(crate) on_timers: Option<OnTimersFn<'static>>,
    pub(crate) own_state: Option<OwnStateFunctions>,
}

/// What an operator with state of its own has.
#[derive(Clone, Copy)]
pub(crate) struct OwnStateFunctions {
    pub(crate) snapshot: SnapshotFn,
    pub(crate) restore: RestoreFn<'static>,
}

/// The optional functions of an operator instance.
#[derive(Clone, Copy)]
pub(crate) struct EndFunctions {
    pub(crate) on_end: OnEndFn,
    pub(crate) on_end_keys: OnEndKeysFn<'static>,
}

/// Functions of a writer instance, ready to call.
#[derive(Clone, Copy)]
pub(crate) struct WriterFunctions {
    pub(crate) open: OpenFn,
    pub(crate) begin: BeginFn,
    pub(crate) write: WriteFn<'static>,
    pub(crate) prepare: PrepareFn,
    pub(crate) close: CloseFn,
}

/// Functions of a committer instance, ready to call.
#[derive(Clone, Copy)]
pub(crate) struct CommitterFunctions {
    pub(crate) open: CommitterOpenFn,
    pub(crate) commit: CommitFn,
    pub(crate) status: CommitFn,
    pub(crate) abort: AbortFn,
    pub(crate) list_dangling: ListDanglingFn,
    pub(crate) forget: ForgetFn,
    pub(crate) close: CloseFn,
}

impl Exports {
    /// Finds the functions of every interface that the kind needs; names the first that is missing.
    pub(crate) fn find(component: &Component, kind: PluginKind) -> Result<Self, String> {
        match kind {
            PluginKind::Operator { end_of_input, timers } => {
                OperatorExports::find(component, end_of_input, timers).map(Exports::Operator)
            }
            PluginKind::Sink => SinkExports::find(component).map(Exports::Sink),
        }
    }

    /// Checks the signatures of all of them.
    pub(crate) fn check_types(&self, guest: &mut Guest) -> Result<(), String> {
        let (store, instance) = guest.parts();
        let checked = match self {
            Exports::Operator(exports) => {
                exports.describe_function(store, instance).and_then(|_| exports.functions(store, instance).map(drop))
            }
            Exports::Sink(exports) => exports
                .describe_function(store, instance)
                .and_then(|_| exports.writer(store, instance).and_then(|_| exports.committer(store, instance).map(drop))),
        };
        checked.map_err(|e| format!("{e:#}"))
    }
}

impl OperatorExports {
    fn find(component: &Component, end_of_input: bool, timers: bool) -> Result<Self, String> {
        let operator = Interface::find(component, OPERATOR)?;
        let end = match end_of_input {
            false => None,
            true => {
                let end = Interface::find(component, END_OF_INPUT)?;
                Some(EndExports { on_end: end.function("on-end")?, on_end_keys: end.function("on-end-keys")? })
            }
        };
        let on_timers = match timers {
            false => None,
            true => Some(Interface::find(component, TIMERS)?.function("on-timers")?),
        };
        let own_state = match component.get_export_index(None, CHECKPOINTED) {
            None => None,
            Some(_) => {
                let own = Interface::find(component, CHECKPOINTED)?;
                Some(OwnStateExports { snapshot: own.function("snapshot")?, restore: own.function("restore")? })
            }
        };
        Ok(OperatorExports {
            describe: operator.function("describe")?,
            open: operator.function("open")?,
            process: operator.function("process")?,
            close: operator.function("close")?,
            end,
            on_timers,
            own_state,
        })
    }

    /// Whether it has state of its own.
    pub(crate) fn is_checkpointed(&self) -> bool {
        self.own_state.is_some()
    }

    fn describe_function(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> WasmResult<TypedFunc<(), (OperatorDescriptorLift,)>> {
        bind(store, instance, &self.describe, "operator.describe")
    }

    pub(crate) fn describe(&self, guest: &mut Guest) -> Result<OperatorDescriptorLift, CallError> {
        let (store, instance) = guest.parts();
        let describe = self.describe_function(store, instance).expect("its type was checked at load");
        guest.call(Function::Describe, None, |store| describe.call(store, ())).map(|(descriptor,)| descriptor)
    }

    pub(crate) fn functions(&self, store: &mut Store<HostState>, instance: &Instance) -> WasmResult<OperatorFunctions> {
        let end = match &self.end {
            None => None,
            Some(end) => Some(EndFunctions {
                on_end: bind(store, instance, &end.on_end, "end-of-input.on-end")?,
                on_end_keys: bind(store, instance, &end.on_end_keys, "end-of-input.on-end-keys")?,
            }),
        };
        let on_timers = match &self.on_timers {
            None => None,
            Some(on_timers) => Some(bind(store, instance, on_timers, "timers.on-timers")?),
        };
        let own_state = match &self.own_state {
            None => None,
            Some(own) => Some(OwnStateFunctions {
                snapshot: bind(store, instance, &own.snapshot, "checkpointed.snapshot")?,
                restore: bind(store, instance, &own.restore, "checkpointed.restore")?,
            }),
        };
        Ok(OperatorFunctions {
            open: bind(store, instance, &self.open, "operator.open")?,
            process: bind(store, instance, &self.process, "operator.process")?,
            close: bind(store, instance, &self.close, "operator.close")?,
            end,
            on_timers,
            own_state,
        })
    }
}

impl SinkExports {
    fn find(component: &Component) -> Result<Self, String> {
        let writer = Interface::find(component, SINK_WRITER)?;
        let committer = Interface::find(component, SINK_COMMITTER)?;
        Ok(SinkExports {
            describe: writer.function("describe")?,
            open: writer.function("open")?,
            begin: writer.function("begin")?,
            write: writer.function("write")?,
            prepare: writer.function("prepare")?,
            close: writer.function("close")?,
            committer_open: committer.function("open")?,
            commit: committer.function("commit")?,
            status: committer.function("status")?,
            abort: committer.function("abort")?,
            list_dangling: committer.function("list-dangling")?,
            forget: committer.function("forget")?,
            committer_close: committer.function("close")?,
        })
    }

    fn describe_function(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> WasmResult<TypedFunc<(), (SinkDescriptorLift,)>> {
        bind(store, instance, &self.describe, "sink-writer.describe")
    }

    pub(crate) fn describe(&self, guest: &mut Guest) -> Result<SinkDescriptorLift, CallError> {
        let (store, instance) = guest.parts();
        let describe = self.describe_function(store, instance).expect("its type was checked at load");
        guest.call(Function::Describe, None, |store| describe.call(store, ())).map(|(descriptor,)| descriptor)
    }

    pub(crate) fn writer(&self, store: &mut Store<HostState>, instance: &Instance) -> WasmResult<WriterFunctions> {
        Ok(WriterFunctions {
            open: bind(store, instance, &self.open, "sink-writer.open")?,
            begin: bind(store, instance, &self.begin, "sink-writer.begin")?,
            write: bind(store, instance, &self.write, "sink-writer.write")?,
            prepare: bind(store, instance, &self.prepare, "sink-writer.prepare")?,
            close: bind(store, instance, &self.close, "sink-writer.close")?,
        })
    }

    pub(crate) fn committer(&self, store: &mut Store<HostState>, instance: &Instance) -> WasmResult<CommitterFunctions> {
        Ok(CommitterFunctions {
            open: bind(store, instance, &self.committer_open, "sink-committer.open")?,
            commit: bind(store, instance, &self.commit, "sink-committer.commit")?,
            status: bind(store, instance, &self.status, "sink-committer.status")?,
            abort: bind(store, instance, &self.abort, "sink-committer.abort")?,
            list_dangling: bind(store, instance, &self.list_dangling, "sink-committer.list-dangling")?,
            forget: bind(store, instance, &self.forget, "sink-committer.forget")?,
            close: bind(store, instance, &self.committer_close, "sink-committer.close")?,
        })
    }
}

/// An exported interface.
struct Interface<'c> {
    component: &'c Component,
    name: &'static str,
    index: ComponentExportIndex,
}

impl<'c> Interface<'c> {
    fn find(component: &'c Component, name: &'static str) -> Result<Self, String> {
        let index = component.get_export_index(None, name).ok_or_else(|| format!("it does not export {name}"))?;
        Ok(Interface { component, name, index })
    }

    fn function(&self, function: &str) -> Result<ComponentExportIndex, String> {
        let index = self.component.get_export_index(Some(&self.index), function);
        index.ok_or_else(|| format!("its {} has no function `{function}`", self.name))
    }
}

fn bind<P, R>(
    store: &mut Store<HostState>,
    instance: &Instance,
    index: &ComponentExportIndex,
    name: &'static str,
) -> WasmResult<TypedFunc<P, R>>
where
    P: ComponentNamedList + Lower,
    R: ComponentNamedList + Lift,
{
    instance.get_typed_func(store, index).map_err(|e| e.context(format!("its {name} has another signature than the contract's")))
}
