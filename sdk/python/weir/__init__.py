"""Write Weir operators and sinks in Python.

A plugin is a module with one class derived from :class:`Operator`, or with a :class:`SinkWriter` and a :class:`SinkCommitter`::

    import weir

    class Count(weir.Operator):
        name, version = "count", "0.1.0"
        seen = weir.ValueState("seen", weir.INT)

        def process(self, record, out):
            total = (self.seen.get() or 0) + 1
            self.seen.set(total)
            out.emit(record.key, b"%d" % total, record.time)

``python -m weir.build count -o count.wasm`` makes a component of it; :mod:`weir.testing` runs it natively, without a host.
"""

from . import log
from .columns import Batch, Header, Record
from .errors import BadRecord, Fatal, FilesError, Retry, WeirError
from .files import Files
from .operator import Operator, Task
from .output import CHUNK_BYTES, Output, Port
from .sink import AbortOutcome, Committable, Outcome, Prepared, SinkCommitter, SinkWriter
from .state import BYTES, INT, JSON, TEXT, Codec, State, Struct, ValueState
from .timers import END_OF_TIME, NO_WATERMARK, Timer, TimerKind, Timers

__all__ = [
    "BYTES",
    "CHUNK_BYTES",
    "END_OF_TIME",
    "INT",
    "JSON",
    "NO_WATERMARK",
    "TEXT",
    "AbortOutcome",
    "BadRecord",
    "Batch",
    "Codec",
    "Committable",
    "Fatal",
    "Files",
    "FilesError",
    "Header",
    "Operator",
    "Outcome",
    "Output",
    "Port",
    "Prepared",
    "Record",
    "Retry",
    "SinkCommitter",
    "SinkWriter",
    "State",
    "Struct",
    "Task",
    "Timer",
    "TimerKind",
    "Timers",
    "ValueState",
    "WeirError",
    "log",
]
