"""Runs an author's operator over the contract's batches, in a component as in a test."""

from __future__ import annotations

from struct import unpack
from typing import Any, Callable, Iterable, NamedTuple, Optional

from .columns import Batch, Columns, unpack_strings
from .errors import BadRecord, Retry, describe
from .operator import Operator, Task, has_timers, states_of
from .output import Emit, Output
from .state import Cells, Cursor, State
from .timers import Timer, TimerHost, TimerKind, Timers

# Bytes of a key that an error quotes.
_QUOTED = 60


class CallFailed(Exception):
    """A call's failure as the contract says it."""


class BadInput(CallFailed):
    """These records can't be processed: their index in the batch, and why."""

    def __init__(self, records: list[tuple[int, str]]) -> None:
        super().__init__(f"{len(records)} bad records: {records}")
        self.records = records


class RetryCall(CallFailed):
    """The host is to call again."""


class FatalCall(CallFailed):
    """The attempt is to fail."""


class Result(NamedTuple):
    """What a call gives."""

    main: Columns
    sides: list[tuple[int, Columns]]
    """By index of ``side_outputs``; those that got something."""
    updates: list[Cells]
    """One for each state; none if nothing changed."""


def failed(error: BaseException, where: str = "") -> CallFailed:
    """The failure of a call that an exception ended, where no record can be blamed."""
    text = describe(error, where)
    return RetryCall(text) if isinstance(error, Retry) else FatalCall(text)


class Driver:
    """A running operator."""

    def __init__(self, kind: type[Operator], emit: Emit, timers: TimerHost) -> None:
        self._cursor = Cursor()
        self._out = Output(tuple(kind.side_outputs), emit)
        self._timers = Timers(timers)
        self.operator = kind()
        # In the order in which the host gives their values.
        self._prefetched: list[State] = []
        for attribute, declared in states_of(kind).items():
            state = declared._bind(self._cursor)
            setattr(self.operator, attribute, state)
            if state.prefetch:
                self._prefetched.append(state)
        self._keyed = bool(states_of(kind))
        if has_timers(kind):
            self.operator.timers = self._timers

    def open(self, task: Task, config: Any) -> None:
        """See ``operator.open`` in the contract."""
        try:
            self.operator.open(task, config)
        except Exception as error:
            raise failed(error) from error

    def close(self) -> None:
        """See ``operator.close``."""
        self.operator.close()

    def process(self, port: int, columns: Columns, key_of: bytes, states: list[Cells]) -> Result:
        """See ``operator.process``."""
        self._begin(states)
        keys: Iterable[Optional[int]]
        keys = unpack(f"<{columns.count}I", key_of) if self._keyed else (None,) * columns.count
        process, out, cursor = self.operator.process, self._out, self._cursor
        bad: list[tuple[int, str]] = []
        i = 0
        for record, cursor.key in zip(Batch(columns, port), keys):
            try:
                process(record, out)
            except BadRecord as error:
                # The rest is looked at, too, so that the host hears of all bad ones at once; what it gives would be thrown away.
                bad.append((i, str(error)))
                out._discard_all()
            except Exception as error:
                raise failed(error, f"record {i} of the batch, key {_quoted(record.key)}") from error
            i += 1
        if bad:
            raise BadInput(bad)
        return self._finish()

    def on_timers(self, kind: str, columns: Columns, key_of: bytes, states: list[Cells]) -> Result:
        """See ``timers.on-timers``."""
        self._begin(states)
        try:
            waited_for = TimerKind(kind)
        except ValueError:
            raise FatalCall(f"the host fires timers of kind {kind!r}, which this SDK does not know") from None
        for record, self._cursor.key in zip(Batch(columns), unpack(f"<{columns.count}I", key_of)):
            timer = Timer(waited_for, record.key or b"", record.time, record.value or b"")
            self._call(self.operator.on_timer, timer, f"timer {timer.time} of key {_quoted(timer.key)}")
        return self._finish()

    def on_end(self, port: int) -> Result:
        """See ``end-of-input.on-end``."""
        self._begin([])
        self._call(self.operator.on_end, port, f"end of input {port}")
        return self._finish()

    def on_end_keys(self, keys: bytes, index: bytes, states: list[Cells]) -> Result:
        """See ``end-of-input.on-end-keys``."""
        self._begin(states)
        for self._cursor.key, key in enumerate(unpack_strings(keys, index)):
            self._call(self.operator.on_end_key, key, f"end of key {_quoted(key)}")
        return self._finish()

    def _call(self, function: Callable[[Any, Output], None], what: Any, where: str) -> None:
        try:
            function(what, self._out)
        except Exception as error:
            raise failed(error, where) from error

    def _begin(self, states: list[Cells]) -> None:
        """Forgets the call before, which may have failed anywhere."""
        self._out._clear()
        self._timers._clear()
        self._cursor.key = None
        for state, cells in zip(self._prefetched, states):
            state._load(cells)
        self._loaded = bool(states)

    def _finish(self) -> Result:
        self._cursor.key = None
        try:
            updates = self._updates() if self._loaded else []
            main = self._out._finish()
            sides = [(port._number - 1, port._finish()) for port in self._out._sides.values()]
            self._timers._finish()
        except Exception as error:
            raise failed(error) from error
        return Result(main, [(side, columns) for side, columns in sides if columns.count], updates)

    def _updates(self) -> list[Cells]:
        updates = [state._updates() for state in self._prefetched]
        if not any(updates):
            return []
        return [state._kept() if cells is None else cells for state, cells in zip(self._prefetched, updates)]


def _quoted(key: Optional[bytes]) -> str:
    if key is None:
        return "null"
    text = key[:_QUOTED].decode("utf-8", "backslashreplace")
    return f"{text!r}…" if len(key) > _QUOTED else repr(text)

