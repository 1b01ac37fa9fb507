"""What a component exports, over the bindings that componentize-py makes of the contract. Only importable in a component.

:mod:`weir.build` writes a module that calls :func:`operator` or :func:`sink` and takes the classes from it that componentize-py looks
for. One operator, writer and committer is open in an instance.
"""

from __future__ import annotations

import gc
import json
import linecache
import logging
import sys
from typing import Any, Callable, Optional

from componentize_py_types import Err
from wit_world.imports import host, types

from . import log
from .columns import Batch, Columns
from .driver import BadInput, CallFailed, Driver, Result, RetryCall, failed
from .errors import FilesError
from .operator import Operator, Task, states_of
from .sink import AbortOutcome, Committable, Outcome, SinkCommitter, SinkWriter, abort_all, commit_all, status_all
from .state import State

try:
    from wit_world.imports import files as _files
except ImportError:
    _files = None  # type: ignore[assignment]
try:
    from wit_world.imports import timer_service as _timer_service
except ImportError:
    _timer_service = None  # type: ignore[assignment]


class _Folders:
    """The host's files."""

    def append(self, grant: str, path: str, data: bytes) -> None:
        _file(_files.append, grant, path, data)

    def read(self, grant: str, path: str, offset: int, limit: int) -> bytes:
        return _file(_files.read, grant, path, offset, limit)

    def sync(self, grant: str, path: str) -> None:
        _file(_files.sync, grant, path)

    def mkdir(self, grant: str, path: str) -> None:
        _file(_files.mkdir, grant, path)

    def rename(self, grant: str, source: str, target: str) -> bool:
        return _file(_files.rename, grant, source, target)

    def remove(self, grant: str, path: str) -> bool:
        return _file(_files.remove, grant, path)

    def exists(self, grant: str, path: str) -> bool:
        return _file(_files.exists, grant, path)

    def list(self, grant: str, path: str) -> list[str]:
        return _file(_files.list, grant, path)


class _NoFolders:
    def __getattr__(self, name: str) -> Any:
        raise FilesError("this plugin was built without files: say uses_files = True in its class")


def _file(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Err as error:
        raise FilesError(error.value) from None


_FOLDERS: Any = _Folders() if _files is not None else _NoFolders()


def _batch(columns: Columns) -> types.Batch:
    return types.Batch(columns.count, columns.data, columns.index, columns.times, columns.aux)


class _TimerHost:
    def change(self, sets: bool, kind: str, timers: Columns) -> None:
        (_timer_service.register_many if sets else _timer_service.delete_many)(kind, _batch(timers))

    def current(self, kind: str) -> int:
        return _timer_service.current(kind)


def _error(error: CallFailed) -> Err:
    if isinstance(error, BadInput):
        return Err(types.Error_BadInput(error.records))
    return Err((types.Error_Retry if isinstance(error, RetryCall) else types.Error_Fatal)(str(error)))


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls what may fail in the author's hands."""
    try:
        return function(*arguments)
    except CallFailed as error:
        raise _error(error) from None
    except BaseException as error:
        # Also `sys.exit`: there is nothing to exit from.
        raise _error(failed(error)) from None


def _output(result: Result) -> types.Output:
    sides = [types.SideOutput(side, _batch(columns)) for side, columns in result.sides]
    return types.Output(_batch(result.main), sides, [types.Cells(cells.ops, cells.data, cells.index) for cells in result.updates])


def _task(info: types.TaskInfo) -> Task:
    return Task(info.job, info.operator_name, info.subtask, info.parallelism, info.attempt, _FOLDERS)


def operator(kind: type[Operator]) -> dict[str, type]:
    """The classes that export an operator, by name."""
    from wit_world.exports import operator as exported

    driver: Optional[Driver] = None

    def state_desc(state: State) -> Any:
        return exported.StateDesc(state.name, state.kind, state.version, state.prefetch)

    def call(function: Callable[..., Result], *arguments: Any) -> types.Output:
        return _output(_guarded(function, *arguments))

    class Exports:
        def describe(self) -> Any:
            states = [state_desc(state) for state in states_of(kind).values()]
            return exported.Descriptor(kind.name, kind.version, states, list(kind.side_outputs), kind.inputs)

        def open(self, task: types.TaskInfo, config: str) -> None:
            def start() -> None:
                nonlocal driver
                driver = Driver(kind, lambda port, columns: host.emit(port, _batch(columns)), _TimerHost())
                driver.open(_task(task), json.loads(config))

            _guarded(start)

        def process(self, port: int, input: types.Batch, key_of: bytes, states: list[types.Cells]) -> types.Output:
            return call(driver.process, port, input, key_of, states)  # type: ignore[union-attr]

        def close(self) -> None:
            if driver is not None:
                driver.close()

    class Timers:
        def on_timers(self, kind: str, due: types.Batch, key_of: bytes, states: list[types.Cells]) -> types.Output:
            return call(driver.on_timers, kind, due, key_of, states)  # type: ignore[union-attr]

    class EndOfInput:
        def on_end(self, port: int) -> types.Output:
            return call(driver.on_end, port)  # type: ignore[union-attr]

        def on_end_keys(self, keys: types.Column, states: list[types.Cells]) -> types.Output:
            return call(driver.on_end_keys, keys.data, keys.index, states)  # type: ignore[union-attr]

    _settle(kind)
    return {"Operator": Exports, "Timers": Timers, "EndOfInput": EndOfInput}


def sink(writer_kind: type[SinkWriter], committer_kind: type[SinkCommitter]) -> dict[str, type]:
    """The classes that export a sink, by name."""
    from wit_world.exports import sink_committer, sink_writer

    writer: Any = None
    committer: Any = None

    class Writer:
        def describe(self) -> Any:
            return sink_writer.Descriptor(writer_kind.name, writer_kind.version, list(writer_kind.committable_versions))

        def open(self, task: types.TaskInfo, config: str) -> None:
            def start() -> None:
                nonlocal writer
                writer = writer_kind()
                writer.open(_task(task), json.loads(config))

            _guarded(start)

        def begin(self, transaction: str) -> None:
            _guarded(writer.begin, transaction)

        def write(self, input: types.Batch) -> None:
            _guarded(lambda: writer.write(Batch(input)))

        def prepare(self, checkpoint: str, end_of_input: bool) -> Any:
            prepared = _guarded(writer.prepare, checkpoint, end_of_input)
            return None if prepared is None else sink_writer.Prepared(prepared.version, prepared.data)

        def close(self) -> None:
            if writer is not None:
                writer.close()

    outcomes = {
        "committed": lambda _: sink_committer.Outcome_Committed(),
        "already-committed": lambda _: sink_committer.Outcome_AlreadyCommitted(),
        "retry": sink_committer.Outcome_Retry,
        "unknown": sink_committer.Outcome_Unknown,
        "lost": sink_committer.Outcome_Lost,
    }
    abort_outcomes = {
        "aborted": lambda _: sink_committer.AbortOutcome_Aborted(),
        "committed": lambda _: sink_committer.AbortOutcome_Committed(),
        "retry": sink_committer.AbortOutcome_Retry,
    }

    def own(what: list[Any]) -> list[Committable]:
        return [Committable(one.id, one.checkpoint, one.version, one.bytes) for one in what]

    def answer(given: list[Outcome]) -> list[Any]:
        return [outcomes[outcome.kind](outcome.reason) for outcome in given]

    class Committer:
        def open(self, job: str, sink: str, config: str) -> None:
            def start() -> None:
                nonlocal committer
                committer = committer_kind()
                committer.open(Task(job, sink, 0, 1, 1, _FOLDERS), json.loads(config))

            _guarded(start)

        def commit(self, what: list[Any]) -> list[Any]:
            return answer(commit_all(committer, own(what)))

        def status(self, what: list[Any]) -> list[Any]:
            return answer(status_all(committer, own(what)))

        def abort(self, what: list[str]) -> list[Any]:
            given: list[AbortOutcome] = abort_all(committer, what)
            return [abort_outcomes[outcome.kind](outcome.reason) for outcome in given]

        def list_dangling(self) -> list[str]:
            return _guarded(committer.list_dangling)

        def forget(self, what: list[str]) -> None:
            for transaction in what:
                _guarded(committer.forget, transaction)

        def close(self) -> None:
            if committer is not None:
                committer.close()

    _settle(writer_kind)
    return {"SinkWriter": Writer, "SinkCommitter": Committer}


def _settle(plugin: type) -> None:
    """The last thing before the interpreter's memory becomes the component."""
    log.write = host.log
    logging.basicConfig(level=1, handlers=[log.Handler()], format="%(name)s: %(message)s")
    # There are no files later: what a traceback quotes is read now. Without a time of change nobody looks for it again.
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path.endswith(".py") and (lines := linecache.getlines(path)):
            linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
    # What is there now stays: the collector need not look at it.
    gc.collect()
    gc.freeze()
