"""Timers of keys: set while records are processed, fired when event time or the clock on the wall has passed them."""

from __future__ import annotations

from enum import Enum
from struct import pack
from typing import Any, NamedTuple, Protocol

from .columns import Columns, pack_offsets

NO_WATERMARK = -(1 << 63)
"""What :meth:`Timers.watermark` says before there is one."""
END_OF_TIME = (1 << 63) - 1
"""What :meth:`Timers.watermark` says once all input has ended."""


class TimerKind(Enum):
    """What a timer waits for."""

    EVENT_TIME = "event-time"
    """The watermark of the operator's input."""
    PROCESSING_TIME = "processing-time"
    """The clock on the wall."""


class Timer(NamedTuple):
    """A timer that is due. It is gone already: to hear of it again, set it again."""

    kind: TimerKind
    """What it waited for."""
    key: bytes
    """Whose it is."""
    time: int
    """When it was to fire, in milliseconds since the Unix epoch."""
    payload: bytes
    """What it was set with."""


class TimerHost(Protocol):
    """The contract's ``timer-service``, or what stands in for it."""

    def change(self, sets: bool, kind: str, timers: Columns) -> None:
        """Sets timers, or takes them away."""

    def current(self, kind: str) -> int:
        """What that kind of timer waits for."""


class Timers:
    """Sets timers and takes them away. Nothing of it counts if the call fails.

    A timer is (kind, key, time, payload): set twice, it fires once. Keys must be of the running call: the record's, or the timer's
    that fires. Times are milliseconds since the Unix epoch, a payload has 64 KiB at most.
    """

    def __init__(self, host: TimerHost) -> None:
        self._host = host
        self._clear()

    def _clear(self) -> None:
        # Runs of (sets or not, kind), each with its timers.
        self._runs: list[tuple[bool, TimerKind, list[bytes], list[int]]] = []
        self._clocks: dict[TimerKind, int] = {}

    def set_event_time(self, key: bytes | None, time: int, payload: bytes = b"") -> None:
        """Sets a timer for when the watermark has passed ``time``."""
        self._change(True, TimerKind.EVENT_TIME, key, time, payload)

    def set_processing_time(self, key: bytes | None, time: int, payload: bytes = b"") -> None:
        """Sets a timer for when the clock on the wall has passed ``time``."""
        self._change(True, TimerKind.PROCESSING_TIME, key, time, payload)

    def delete(self, kind: TimerKind, key: bytes | None, time: int, payload: bytes = b"") -> None:
        """Takes a timer away that was set with the same values; if there is none, nothing happens."""
        self._change(False, kind, key, time, payload)

    def watermark(self) -> int:
        """How far event time has come: no record of this time or less is expected any more. :data:`NO_WATERMARK` before that is
        known, :data:`END_OF_TIME` once all input has ended. The same during a call."""
        return self._current(TimerKind.EVENT_TIME)

    def processing_time(self) -> int:
        """The clock on the wall, in milliseconds since the Unix epoch. The same during a call."""
        return self._current(TimerKind.PROCESSING_TIME)

    def _current(self, kind: TimerKind) -> int:
        if kind not in self._clocks:
            self._clocks[kind] = self._host.current(kind.value)
        return self._clocks[kind]

    def _change(self, sets: bool, kind: TimerKind, key: Any, time: int, payload: bytes) -> None:
        if not self._runs or self._runs[-1][:2] != (sets, kind):
            self._runs.append((sets, kind, [], []))
        _, _, parts, times = self._runs[-1]
        parts += (bytes(memoryview(key or b"")), bytes(memoryview(payload)))
        times.append(int(time))

    def _finish(self) -> None:
        """The call has gone well: hands over what is to change, one host call for each run of the same."""
        runs = self._runs
        self._clear()
        for sets, kind, parts, times in runs:
            columns = Columns(len(times), b"".join(parts), pack_offsets(parts), pack(f"<{len(times)}q", *times), b"")
            self._host.change(sets, kind.value, columns)
