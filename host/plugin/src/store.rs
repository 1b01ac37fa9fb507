//! One instance in its store: host data, limits armed before every call, and every failure named.

use crate::batch::{Malformed, RecordBatch};
use crate::clock;
use crate::engine::{TICK, Ticks, ticks_in};
use crate::error::{CallError, CallErrorKind, CallSite, Function};
use crate::grants::Reach;
use crate::limits::{LimitBreach, LimitKind, Limiter, Limits};
use crate::loan::{Loan, lend};
use crate::log_budget::LogBudget;
use crate::scope::CallScope;
use crate::state::StateError;
use crate::timers::{TimerChange, TimerClocks};
use crate::times::HostTimes;
use crate::wasi::{Surroundings, Wasi};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Store, StoreContextMut, Trap, UpdateDeadline, WasmBacktrace};

/// Bytes of a backtrace that an error keeps: a stack overflow has thousands of frames.
const MAX_BACKTRACE: usize = 4 << 10;

/// Who an instance is, in errors and log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    pub(crate) plugin: String,
    /// Operator or sink in the job file; empty before there is one.
    pub(crate) operator: String,
    pub(crate) subtask: Option<u32>,
}

impl Who {
    pub(crate) fn error(&self, function: Function, kind: CallErrorKind) -> CallError {
        let site = CallSite { plugin: self.plugin.clone(), operator: self.operator.clone(), subtask: self.subtask, function };
        CallError { site: Box::new(site), kind }
    }
}

/// What the host keeps for one instance.
pub(crate) struct HostState {
    pub(crate) who: Who,
    pub(crate) limits: Limits,
    pub(crate) reach: Reach,
    /// Side outputs that the plugin declares: bound of `emit`'s port.
    pub(crate) side_outputs: usize,
    pub(crate) log: LogBudget,
    /// What timers wait for, as the running call sees it.
    pub(crate) clocks: TimerClocks,
    pub(crate) loan: Loan,
    pub(crate) running: Running,
    /// Of the running call, or the last one.
    pub(crate) host_times: HostTimes,
    pub(crate) wasi: Wasi,
    /// Host calls that it may still make before it dies as in a crash; only in tests of plugins.
    pub(crate) crash_after: Option<u32>,
    limiter: Limiter,
    ticks: Arc<Ticks>,
    /// Tick at which the running call is looked at.
    deadline: u64,
    /// CPU time of its thread when the running call began.
    cpu_begun: Duration,
}

/// What the running call has done so far; nothing of it is applied yet.
pub(crate) struct Running {
    pub(crate) function: Function,
    /// Chunks for the main output (port 0) and side outputs (port k is side output k - 1), in order.
    pub(crate) emitted: Vec<(u32, RecordBatch)>,
    /// Timers that it sets and takes away, in order.
    pub(crate) timers: Vec<TimerChange>,
    /// Appends of a sink's `write`, in order.
    pub(crate) appends: Vec<StagedAppend>,
    /// The last line that the guest logged as an error: a panic message, most likely.
    pub(crate) last_error: Option<String>,
    /// What it wrote to standard error first.
    pub(crate) stderr: Vec<u8>,
    /// A failure of the backend inside a host call, on its way past the guest.
    pub(crate) state_error: Option<StateError>,
    host_calls: u32,
    staged_bytes: usize,
}

/// An append to a granted file, to be done when the call has succeeded.
pub(crate) struct StagedAppend {
    pub(crate) grant: String,
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl Running {
    fn new(function: Function) -> Self {
        Running {
            function,
            emitted: Vec::new(),
            timers: Vec::new(),
            appends: Vec::new(),
            last_error: None,
            stderr: Vec::new(),
            state_error: None,
            host_calls: 0,
            staged_bytes: 0,
        }
    }
}

impl HostState {
    pub(crate) fn new(
        who: Who,
        limits: Limits,
        reach: Reach,
        side_outputs: usize,
        ticks: Arc<Ticks>,
        surroundings: Surroundings,
    ) -> Self {
        HostState {
            who,
            limits,
            wasi: Wasi::new(surroundings, reach.wasi.clone()),
            reach,
            side_outputs,
            log: LogBudget::new(ticks.now()),
            clocks: TimerClocks::default(),
            loan: Loan::default(),
            running: Running::new(Function::Instantiate),
            host_times: HostTimes::default(),
            crash_after: None,
            limiter: Limiter::new(limits),
            ticks,
            deadline: 0,
            cpu_begun: Duration::ZERO,
        }
    }

    /// Counts a host call of the running call.
    pub(crate) fn count_host_call(&mut self) -> Result<(), LimitBreach> {
        if let Some(left) = &mut self.crash_after {
            *left = left.checked_sub(1).ok_or_else(|| LimitKind::HostCalls.breach(&self.limits))?;
        }
        self.running.host_calls += 1;
        match self.running.host_calls > self.limits.host_calls {
            true => Err(LimitKind::HostCalls.breach(&self.limits)),
            false => Ok(()),
        }
    }

    /// Counts bytes that the running call wants staged.
    pub(crate) fn count_staged(&mut self, bytes: usize) -> Result<(), LimitBreach> {
        self.running.staged_bytes = self.running.staged_bytes.saturating_add(bytes);
        match self.running.staged_bytes > self.limits.emit {
            true => Err(LimitKind::Emit.breach(&self.limits)),
            false => Ok(()),
        }
    }

    /// Bytes that the running call may still want staged.
    pub(crate) fn stageable(&self) -> usize {
        self.limits.emit.saturating_sub(self.running.staged_bytes)
    }

    pub(crate) fn now(&self) -> u64 {
        self.ticks.now()
    }
}

/// Does host work whose time does not count against the guest: the deadline moves by what it took.
pub(crate) fn untimed<R>(store: &mut StoreContextMut<'_, HostState>, work: impl FnOnce(&mut HostState) -> R) -> R {
    let before = store.data().now();
    let done = work(store.data_mut());
    let now = store.data().now();
    if now > before {
        let data = store.data_mut();
        data.deadline += now - before;
        let left = data.deadline.saturating_sub(now);
        store.set_epoch_deadline(left);
    }
    done
}

/// An instance that can be called.
pub(crate) struct Guest {
    store: Store<HostState>,
    instance: Instance,
    /// Set by a trap: the engine refuses to enter it again, and so do we.
    poisoned: bool,
}

impl Guest {
    /// Instantiates: runs the component's start code under the same limits as any call.
    pub(crate) fn instantiate(pre: &InstancePre<HostState>, state: HostState) -> Result<Self, CallError> {
        let mut store = Store::new(pre.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(store.data().limits.transfer);
        store.epoch_deadline_callback(at_deadline);
        arm(&mut store, Function::Instantiate);
        match pre.instantiate(&mut store) {
            Ok(instance) => Ok(Guest { store, instance, poisoned: false }),
            Err(e) => {
                let kind = failure(store.data_mut(), &e);
                Err(store.data().who.error(Function::Instantiate, kind))
            }
        }
    }

    /// The store and the instance, to look exports up.
    pub(crate) fn parts(&mut self) -> (&mut Store<HostState>, &Instance) {
        (&mut self.store, &self.instance)
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.store.data().limiter.memory_bytes()
    }

    /// What the last call staged.
    pub(crate) fn running(&mut self) -> &mut Running {
        &mut self.store.data_mut().running
    }

    pub(crate) fn state(&mut self) -> &mut HostState {
        self.store.data_mut()
    }

    /// An error of this instance.
    pub(crate) fn error(&self, function: Function, kind: CallErrorKind) -> CallError {
        self.store.data().who.error(function, kind)
    }

    /// Calls an export. After an error nothing is staged, and the instance can't be called again.
    pub(crate) fn call<R>(
        &mut self,
        function: Function,
        scope: Option<&mut CallScope<'_>>,
        call: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        if self.poisoned {
            let reason = "the instance trapped before and can't be entered again".into();
            return Err(self.error(function, CallErrorKind::Trap { reason, backtrace: String::new() }));
        }
        arm(&mut self.store, function);
        match lend(&mut self.store, scope, call) {
            Ok(value) => Ok(value),
            Err(e) => {
                self.poisoned = true;
                let kind = failure(self.store.data_mut(), &e);
                *self.running() = Running::new(function);
                Err(self.error(function, kind))
            }
        }
    }
}

/// Fresh budgets and a fresh deadline for the call that follows.
fn arm(store: &mut Store<HostState>, function: Function) {
    let data = store.data_mut();
    data.running = Running::new(function);
    data.host_times = HostTimes::default();
    let ticks = ticks_in(data.limits.call);
    data.deadline = data.now() + ticks;
    data.cpu_begun = clock::cpu_of_this_thread();
    store.set_epoch_deadline(ticks);
}

/// The time of the running call is over by the clock. On a busy machine that says little: what counts is how long it has
/// computed, so a call that had to wait for a processor gets the rest of its time.
fn at_deadline(mut store: StoreContextMut<'_, HostState>) -> wasmtime::Result<UpdateDeadline> {
    let data = store.data_mut();
    match left(data.limits.call, clock::cpu_of_this_thread().saturating_sub(data.cpu_begun)) {
        None => Err(Trap::Interrupt.into()),
        Some(left) => {
            let ticks = ticks_in(left);
            data.deadline = data.now() + ticks;
            Ok(UpdateDeadline::Continue(ticks))
        }
    }
}

/// What is left of a limit. None: nothing that the ticks could tell from nothing.
fn left(limit: Duration, used: Duration) -> Option<Duration> {
    limit.checked_sub(used).filter(|left| *left >= TICK)
}

/// Names a failure that came out of the engine: a limit, the backend, the guest's columns, or a trap.
fn failure(state: &mut HostState, error: &wasmtime::Error) -> CallErrorKind {
    if let Some(error) = state.running.state_error.take() {
        return CallErrorKind::State(error);
    }
    if let Some(breach) = error.downcast_ref::<LimitBreach>() {
        return CallErrorKind::Limit(breach.clone());
    }
    if let Some(malformed) = error.downcast_ref::<Malformed>() {
        return CallErrorKind::Malformed(malformed.0.clone());
    }
    if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
        return CallErrorKind::Limit(LimitKind::Call.breach(&state.limits));
    }
    let reason = error.root_cause().to_string();
    // The engine's type for it is private; a test holds the text.
    if reason.contains("fuel allocated for hostcalls has been exhausted") {
        return CallErrorKind::Limit(LimitKind::Transfer.breach(&state.limits));
    }
    let reason = match state.running.last_error.take() {
        Some(line) => format!("{reason} (it logged: {line})"),
        None => match first_paragraph(&state.running.stderr) {
            Some(words) => format!("{reason} (it wrote to standard error: {words})"),
            None => reason,
        },
    };
    CallErrorKind::Trap { reason, backtrace: backtrace(error) }
}

/// What a runtime says before its stack traces.
fn first_paragraph(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let words = text.trim_start().split("\n\n").next().unwrap_or_default().trim_end();
    (!words.is_empty()).then(|| words.replace('\n', " | "))
}

/// The guest's frames, innermost first, cut to a bound.
fn backtrace(error: &wasmtime::Error) -> String {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let mut text = String::new();
    for (i, frame) in trace.frames().iter().enumerate() {
        let line = match frame.func_name() {
            Some(name) => format!("  {i}: {name}\n"),
            None => format!("  {i}: function {} (the module has no names)\n", frame.func_index()),
        };
        if text.len() + line.len() > MAX_BACKTRACE {
            text.push_str("  …\n");
            break;
        }
        text.push_str(&line);
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_computing_uses_a_limit_up() {
        let ms = Duration::from_millis;
        assert_eq!(left(ms(200), ms(0)), Some(ms(200)), "it got no processor at all");
        assert_eq!(left(ms(200), ms(150)), Some(ms(50)));
        assert_eq!(left(ms(200), ms(195)), None, "less than a tick is nothing");
        assert_eq!(left(ms(200), ms(300)), None);
    }
}
