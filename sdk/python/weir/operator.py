"""What an operator's author writes."""

from __future__ import annotations

from typing import Any, ClassVar

from .columns import Record
from .files import Files, Folders
from .output import Output
from .state import State
from .timers import Timer, Timers


class Task:
    """Which part of the job an instance is."""

    def __init__(self, job: str, operator: str, subtask: int, parallelism: int, attempt: int, folders: Folders) -> None:
        self.job = job
        """The job's name."""
        self.operator = operator
        """The name of the operator or sink in the job file."""
        self.subtask = subtask
        """0 … parallelism - 1."""
        self.parallelism = parallelism
        """Number of instances that share the work."""
        self.attempt = attempt
        """Number of the job's attempt, from 1; a restart raises it."""
        self._folders = folders

    def folder(self, name: str) -> Files:
        """The folder that the job file grants under this name (``grants.folders``). That it is granted shows at the first use. An
        operator must say ``uses_files = True``."""
        return Files(name, self._folders)


class Operator:
    """An operator: derive a class from it, with a name, a version and ``process``.

    Attributes of it that are states (:class:`weir.ValueState`) make it keyed: its input is then partitioned by key. An operator that
    has ``on_timer`` gets timers; one that has ``on_end`` or ``on_end_key`` is called when its input has ended.

    It is made without arguments, then opened once. What must survive a crash belongs into state, never into other attributes: the
    host may drop an instance after any call, and calls again after a bad record.
    """

    name: ClassVar[str]
    """The plugin's own name."""
    version: ClassVar[str]
    """The plugin's own version."""
    side_outputs: ClassVar[tuple[str, ...]] = ()
    """Names of the side outputs; the job file wires them as ``operator.name``."""
    inputs: ClassVar[int] = 1
    """Number of inputs that it understands; 0 means any."""
    uses_files: ClassVar[bool] = False
    """Whether it uses folders that the job grants."""

    timers: Timers
    """Sets timers; there for an operator that has ``on_timer``."""

    def open(self, task: Task, config: Any) -> None:
        """Once, before all else. ``config``: the job file's ``config``, as the module ``json`` reads it; ``{}`` if there is none."""

    def process(self, record: Record, out: Output) -> None:
        """Processes one record."""
        raise NotImplementedError

    def on_timer(self, timer: Timer, out: Output) -> None:
        """A timer is due; state is that of its key. At the end of bounded input every timer of event time fires, those that are set
        meanwhile, too: one that always sets the next must look at :meth:`weir.Timers.watermark`. Timers of processing time are
        dropped then."""
        raise NotImplementedError

    def on_end(self, port: int, out: Output) -> None:
        """Input ``port`` has ended for good. Not called at a stop, failure or swap, and never twice for one input."""

    def on_end_key(self, key: bytes, out: Output) -> None:
        """After the last input has ended: once for every key of this subtask that holds a value in some state."""

    def close(self) -> None:
        """A clean end of this instance. Not called after a trap or a crash."""


def states_of(operator: type[Operator]) -> dict[str, State]:
    """An operator's states by the attributes that they are, in the order in which they are declared: the host counts them."""
    states: dict[str, State] = {}
    for base in reversed(operator.__mro__):
        states.update((attribute, state) for attribute, state in vars(base).items() if isinstance(state, State))
    return states


def has_timers(operator: type[Operator]) -> bool:
    """Whether it wants to hear of timers."""
    return operator.on_timer is not Operator.on_timer


def has_end(operator: type[Operator]) -> bool:
    """Whether it wants to hear of the end of its input."""
    return operator.on_end is not Operator.on_end or operator.on_end_key is not Operator.on_end_key
