"""Runs one operator over records."""

from __future__ import annotations

import json
from struct import pack
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Union

from ..columns import Batch, Columns, Header, pack_offsets
from ..driver import Driver, Result
from ..operator import Operator, Task, states_of
from ..output import Port
from ..state import DELETE, PUT, Cells, State
from ..timers import END_OF_TIME, NO_WATERMARK, TimerKind
from .folders import MemoryFolders

# Keys or timers of one call: few, so that tests meet a second call.
_AT_ONCE = 3

Part = Union[bytes, str, None]


class Emitted(NamedTuple):
    """A record that came out, or one that goes in. Texts go in as UTF-8."""

    key: Part
    """None is null."""
    value: Part
    """None is null."""
    time: int
    """Event time in milliseconds since the Unix epoch."""
    headers: Sequence[Header] = ()


Input = Union[Emitted, tuple[Part, Part, int]]


class _Timers:
    """Timers that are set, and what the clocks say."""

    def __init__(self) -> None:
        self.set: set[tuple[str, int, bytes, bytes]] = set()
        self.clocks = {TimerKind.EVENT_TIME.value: NO_WATERMARK, TimerKind.PROCESSING_TIME.value: 0}
        self.pending: list[tuple[bool, str, Columns]] = []

    def change(self, sets: bool, kind: str, timers: Columns) -> None:
        self.pending.append((sets, kind, timers))

    def current(self, kind: str) -> int:
        return self.clocks[kind]

    def apply(self, keys: Sequence[bytes]) -> None:
        for sets, kind, timers in self.pending:
            for record in Batch(timers):
                key = record.key or b""
                if key not in keys:
                    raise AssertionError(f"a timer for key {key!r}, which is none of the running call's: the host would trap")
                timer = (kind, record.time, key, record.value or b"")
                (self.set.add if sets else self.set.discard)(timer)
        self.pending = []

    def take_due(self, kind: str) -> list[tuple[str, int, bytes, bytes]]:
        due = sorted(timer for timer in self.set if timer[0] == kind and timer[1] <= self.clocks[kind])[:_AT_ONCE]
        self.set.difference_update(due)
        return due


class Harness:
    """An open operator with its state in memory::

        harness = Harness(Count)
        harness.send([("ann", "to be", 1), ("bob", "or not", 2)])
        assert harness.take() == [Emitted(b"ann", b"1", 1), Emitted(b"bob", b"1", 2)]

    A call that fails raises :class:`weir.testing.CallFailed`: ``BadInput`` with the bad records, ``RetryCall`` or ``FatalCall``.
    """

    def __init__(self, operator: type[Operator], config: Any = None, folders: Optional[MemoryFolders] = None) -> None:
        self._kind = operator
        self._config = {} if config is None else config
        self._folders = folders or MemoryFolders()
        self._states: list[State] = list(states_of(operator).values())
        self._stored: list[dict[bytes, bytes]] = [{} for _ in self._states]
        self._timers = _Timers()
        self._pending: list[list[Emitted]] = []
        self._outputs: list[list[Emitted]] = [[] for _ in range(1 + len(operator.side_outputs))]
        self.reopen()

    @property
    def operator(self) -> Operator:
        """The operator itself."""
        return self._driver.operator

    def reopen(self, operator: Optional[type[Operator]] = None) -> None:
        """Opens another instance on the same state, of another class if one is given: what a restart does."""
        self._kind = operator or self._kind
        self._driver = Driver(self._kind, self._emit, self._timers)
        # As JSON, so that the operator gets just what the host would give it.
        config = json.loads(json.dumps(self._config))
        self._driver.open(Task("test", "operator", 0, 1, 1, self._folders), config)

    def send(self, records: Iterable[Input], port: int = 0, size: Optional[int] = None) -> None:
        """Sends records to an input, as one batch or in batches of ``size``, and fires what is due. Of a batch that fails nothing is
        applied."""
        all_records = list(records)
        for at in range(0, len(all_records), size or max(len(all_records), 1)):
            columns, key_of, keys = pack_batch(all_records[at : at + (size or len(all_records))])
            self._apply(keys, lambda: self._driver.process(port, columns, key_of if self._states else b"", self._cells(keys)))
            self._fire()

    def advance_watermark(self, to: int) -> None:
        """Event time has come so far: fires what is due, some timers a call."""
        self._timers.clocks[TimerKind.EVENT_TIME.value] = to
        self._fire()

    def advance_processing_time(self, to: int) -> None:
        """The clock on the wall shows this: fires what is due, some timers a call."""
        self._timers.clocks[TimerKind.PROCESSING_TIME.value] = to
        self._fire()

    @property
    def timers(self) -> int:
        """Number of timers that are set."""
        return len(self._timers.set)

    def end(self) -> None:
        """Fires every timer of event time, ends all inputs in order, then every key that holds state, some keys a call."""
        self.advance_watermark(END_OF_TIME)
        for port in range(self._kind.inputs or 1):
            self._apply([], lambda: self._driver.on_end(port))
        keys = sorted({key for stored in self._stored for key in stored})
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            self._apply(some, lambda: self._driver.on_end_keys(b"".join(some), pack_offsets(some), self._cells(some)))

    def take(self, side: Optional[str] = None) -> list[Emitted]:
        """What came out of the main output, or of a side output, since it was last asked."""
        port = 0 if side is None else 1 + self._kind.side_outputs.index(side)
        taken, self._outputs[port] = self._outputs[port], []
        return taken

    def state(self, name: str, key: Part) -> Any:
        """The stored value of a key; None if there is none."""
        for declared, stored in zip(self._states, self._stored):
            if declared.name == name:
                value = stored.get(_bytes(key) or b"")
                return None if value is None else declared.codec.decode(value)  # type: ignore[attr-defined]
        raise KeyError(f"{self._kind.__name__} has no state {name!r}")

    def stored(self, name: str) -> dict[bytes, bytes]:
        """The bytes of a state, by key."""
        return dict(self._stored[[state.name for state in self._states].index(name)])

    def close(self) -> None:
        """Closes the operator."""
        self._driver.close()

    def _emit(self, port: int, columns: Columns) -> None:
        self._pending[port] += _records(columns)

    def _fire(self) -> None:
        for kind in TimerKind:
            while due := self._timers.take_due(kind.value):
                columns, key_of, keys = pack_batch([(key, payload, time) for _, time, key, payload in due])
                self._apply(keys, lambda: self._driver.on_timers(kind.value, columns, key_of, self._cells(keys)))

    def _cells(self, keys: Sequence[bytes]) -> list[Cells]:
        cells = []
        for stored in self._stored:
            values = [stored.get(key) for key in keys]
            parts = [value or b"" for value in values]
            cells.append(Cells(bytes(value is not None for value in values), b"".join(parts), pack_offsets(parts)))
        return cells

    def _apply(self, keys: Sequence[bytes], call: Any) -> None:
        self._pending = [[] for _ in self._outputs]
        self._timers.pending = []
        result: Result = call()
        self._pending[0] += _records(result.main)
        for side, columns in result.sides:
            self._pending[1 + side] += _records(columns)
        for output, pending in zip(self._outputs, self._pending):
            output += pending
        for stored, cells in zip(self._stored, result.updates):
            for i, key in enumerate(keys):
                start, end = (int.from_bytes(cells.index[4 * at : 4 * at + 4], "little") for at in (i, i + 1))
                if cells.ops[i] == PUT:
                    stored[key] = cells.data[start:end]
                elif cells.ops[i] == DELETE:
                    stored.pop(key, None)
        self._timers.apply(keys)


def pack_batch(records: Iterable[Input]) -> tuple[Columns, bytes, list[bytes]]:
    """A batch as the host makes it: its columns, the distinct key of each record, and the distinct keys."""
    chunks: list[Columns] = []
    port = Port(0, lambda _, columns: chunks.append(columns))
    # All in one.
    port._room = 1 << 62
    keys: dict[bytes, int] = {}
    key_of = []
    for record in map(lambda record: Emitted(*record), records):
        # An empty key that nobody calls one is none.
        key = _bytes(record.key)
        if key == b"" and not isinstance(record.key, bytes):
            key = None
        port.emit(key, _bytes(record.value), record.time, record.headers)
        key_of.append(keys.setdefault(key or b"", len(keys)))
    return port._finish(), pack(f"<{len(key_of)}I", *key_of), list(keys)


def _bytes(part: Part) -> Optional[bytes]:
    return part.encode() if isinstance(part, str) else part


def _records(columns: Columns) -> list[Emitted]:
    return [Emitted(record.key, record.value, record.time, tuple(record.headers)) for record in Batch(columns)]
