"""What an operator emits."""

from __future__ import annotations

from struct import pack
from typing import Callable, Iterable

from .columns import HEADERS, KEY_PRESENT, MARKS, NOTHING, VALUE_NULL, Columns, Header, Record, pack_block, pack_headers, pack_offsets

CHUNK_BYTES = 256 << 10
"""Bytes of keys, values and headers at which a batch is handed over in the middle of a call."""

Emit = Callable[[int, Columns], None]

_UNCHANGED = object()


class Port:
    """One output: a batch under construction."""

    def __init__(self, number: int, emit: Emit) -> None:
        self._number = number
        self._emit = emit
        self._discard = False
        self._reset()

    def _reset(self) -> None:
        # Keys and values in turn.
        self._parts: list[bytes] = []
        self._times: list[int] = []
        # By record; empty for most.
        self._marks: dict[int, int] = {}
        self._headers: dict[int, bytes] = {}
        self._room = CHUNK_BYTES

    def emit(self, key: bytes | None, value: bytes | None, time: int, headers: Iterable[Header] = ()) -> None:
        """Emits a record. None is null. ``time``: event time in milliseconds since the Unix epoch."""
        if type(key) is not bytes or not key:
            key = self._unusual(key, "key", KEY_PRESENT if key is not None else 0)
        if type(value) is not bytes:
            value = self._unusual(value, "value", VALUE_NULL if value is None else 0)
        if headers:
            # Those of a record that is forwarded are packed already.
            packed = headers if isinstance(headers, bytes) else pack_headers(headers)
            self._headers[len(self._times)] = packed
            self._room -= len(packed)
        self._parts += (key, value)
        self._times.append(time)
        self._room -= len(key) + len(value)
        if self._room < 0:
            self._hand_over()

    def forward(self, record: Record, value: object = _UNCHANGED) -> None:
        """Passes a record on as it is, headers and all; or with another value."""
        self.emit(record.key, record.value if value is _UNCHANGED else value, record.time, record._headers)  # type: ignore[arg-type]

    def _unusual(self, part: object, what: str, mark: int) -> bytes:
        """Bytes of a key or value that is null, empty, or of another type than bytes. Only an empty key takes its mark."""
        if isinstance(part, (bytearray, memoryview)):
            part = bytes(part)
        if part is not None and not isinstance(part, bytes):
            raise TypeError(f"the {what} of an emitted record must be bytes or None, not {type(part).__name__}")
        if mark and not part:
            record = len(self._times)
            self._marks[record] = self._marks.get(record, 0) | mark
        return part or b""

    def _hand_over(self) -> None:
        columns = self._finish()
        if columns.count and not self._discard:
            self._emit(self._number, columns)

    def _finish(self) -> Columns:
        """What was not handed over yet; the next batch begins."""
        parts, times, marks, headers = self._parts, self._times, self._marks, self._headers
        self._reset()
        count = len(times)
        if not count or self._discard:
            return NOTHING
        try:
            packed_times = pack(f"<{count}q", *times)
        except Exception as error:
            raise TypeError(f"the time of an emitted record must be an int of 64 bits: {error}") from None
        aux = b""
        if marks:
            aux += pack_block(MARKS, bytes(marks.get(record, 0) for record in range(count)))
        if headers:
            own = [headers.get(record, b"") for record in range(count)]
            aux += pack_block(HEADERS, pack_offsets(own) + b"".join(own))
        return Columns(count, b"".join(parts), pack_offsets(parts), packed_times, aux)


class Output(Port):
    """Where records go: the main output, and side outputs."""

    def __init__(self, side_outputs: tuple[str, ...], emit: Emit) -> None:
        super().__init__(0, emit)
        self._sides = {name: Port(number, emit) for number, name in enumerate(side_outputs, 1)}

    def side(self, name: str) -> Port:
        """The side output of this name; one that the operator declares in ``side_outputs``."""
        try:
            return self._sides[name]
        except KeyError:
            raise KeyError(f"there is no side output {name!r}; side_outputs has {list(self._sides)}") from None

    def _discard_all(self) -> None:
        for port in (self, *self._sides.values()):
            port._discard = True

    def _clear(self) -> None:
        for port in (self, *self._sides.values()):
            port._discard = False
            port._reset()
