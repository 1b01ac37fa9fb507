"""What a transactional sink's author writes: a writer for each subtask, and one committer for the job.

The two never share memory: the committer lives in another instance, maybe in another process years later. What it needs stands in the
committable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Optional

from .columns import Batch
from .errors import describe
from .operator import Task


class Prepared(NamedTuple):
    """What :meth:`SinkWriter.prepare` hands over."""

    version: int
    """Version of ``data``; one of ``committable_versions``."""
    data: bytes
    """What the committer needs."""


class Committable(NamedTuple):
    """A prepared transaction, as the committer gets it."""

    id: str
    """The identity that ``begin`` was given."""
    checkpoint: str
    """The checkpoint at which it was prepared, such as ``3-17``."""
    version: int
    """Version of ``data``, chosen by the author."""
    data: bytes
    """What the author needs to commit or abort."""


@dataclass(frozen=True)
class Outcome:
    """What became of one committable: ``COMMITTED`` (now), ``ALREADY_COMMITTED`` (before), or one of the functions here."""

    kind: str
    reason: str = ""

    COMMITTED: ClassVar[Outcome]
    ALREADY_COMMITTED: ClassVar[Outcome]

    @classmethod
    def retry(cls, reason: str) -> Outcome:
        """Certainly not done; try again."""
        return cls("retry", reason)

    @classmethod
    def unknown(cls, reason: str) -> Outcome:
        """Nobody can say; ``status`` is asked before the next try."""
        return cls("unknown", reason)

    @classmethod
    def lost(cls, reason: str) -> Outcome:
        """Certainly not committed, and never will be."""
        return cls("lost", reason)


Outcome.COMMITTED = Outcome("committed")
Outcome.ALREADY_COMMITTED = Outcome("already-committed")


@dataclass(frozen=True)
class AbortOutcome:
    """What became of an abort: ``ABORTED`` (now or before), ``COMMITTED`` (it is, and stays so), or ``retry``."""

    kind: str
    reason: str = ""

    ABORTED: ClassVar[AbortOutcome]
    COMMITTED: ClassVar[AbortOutcome]

    @classmethod
    def retry(cls, reason: str) -> AbortOutcome:
        """Try again."""
        return cls("retry", reason)


AbortOutcome.ABORTED = AbortOutcome("aborted")
AbortOutcome.COMMITTED = AbortOutcome("committed")


class SinkWriter:
    """The writing half: ``open`` → ( ``begin`` → ``write``* → ``prepare`` )* → ``close``. It is made without arguments."""

    name: ClassVar[str]
    """The plugin's own name."""
    version: ClassVar[str]
    """The plugin's own version."""
    committable_versions: ClassVar[tuple[int, ...]]
    """Versions of committables that this build can commit and abort."""
    uses_files: ClassVar[bool] = True
    """Whether the sink uses folders that the job grants."""

    def open(self, task: Task, config: Any) -> None:
        """Once, before all else. ``config``: as in :meth:`weir.Operator.open`."""

    def begin(self, transaction: str) -> None:
        """Opens the transaction that the following writes belong to. ``transaction``:
        ``<lineage>.<generation>.<sink>.<subtask>.<number>``, never used twice, safe in file names."""
        raise NotImplementedError

    def write(self, batch: Batch) -> None:
        """Writes records into the open transaction."""
        raise NotImplementedError

    def prepare(self, checkpoint: str, end_of_input: bool) -> Optional[Prepared]:
        """A barrier: flush, stage durably, and say what to commit; None if nothing was written. Nothing may be visible outside yet. When
        it returns, a crash of this process must not lose what was written."""
        raise NotImplementedError

    def close(self) -> None:
        """A clean end. What is neither prepared nor committed is given up."""


class SinkCommitter:
    """The committing half, one for each sink and job: it never meets a record. It is made without arguments."""

    def open(self, task: Task, config: Any) -> None:
        """Once, before all else. Of ``task`` only ``job``, ``operator`` (the sink) and ``folder`` mean something."""

    def commit(self, what: Committable) -> Outcome:
        """Idempotent. Called one by one, in order; after the first that is not committed the rest is not tried. An exception counts as
        :meth:`Outcome.unknown`."""
        raise NotImplementedError

    def status(self, what: Committable) -> Outcome:
        """What became of it, by asking the outside; changes nothing. :meth:`Outcome.retry`: not committed yet, can be. An exception
        counts as :meth:`Outcome.unknown`."""
        raise NotImplementedError

    def abort(self, transaction: str) -> AbortOutcome:
        """Idempotent. Gives up what was staged under this identity. An exception counts as :meth:`AbortOutcome.retry`."""
        raise NotImplementedError

    def list_dangling(self) -> list[str]:
        """Every identity of this job and sink that exists outside, whatever its lineage, generation and subtask."""
        raise NotImplementedError

    def forget(self, transaction: str) -> None:
        """A later completed checkpoint no longer contains it: what was kept to answer "already committed" may go."""
        raise NotImplementedError

    def close(self) -> None:
        """A clean end."""


def commit_all(committer: SinkCommitter, what: list[Committable]) -> list[Outcome]:
    """Commits in order and stops trying at the first that is not done."""
    outcomes: list[Outcome] = []
    stopped_at = None
    for committable in what:
        if stopped_at is not None:
            outcomes.append(Outcome.retry(f"not tried: {stopped_at} before it is not committed"))
            continue
        outcome = _ask(committer.commit, committable, Outcome)
        if outcome not in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED):
            stopped_at = committable.id
        outcomes.append(outcome)
    return outcomes


def status_all(committer: SinkCommitter, what: list[Committable]) -> list[Outcome]:
    """What became of each."""
    return [_ask(committer.status, committable, Outcome) for committable in what]


def abort_all(committer: SinkCommitter, what: list[str]) -> list[AbortOutcome]:
    """Aborts each."""
    return [_ask(committer.abort, transaction, AbortOutcome) for transaction in what]


def _ask(function: Any, what: Any, answer: type) -> Any:
    """One answer. There is no way to say that the call failed: an exception, too, becomes an answer."""
    try:
        outcome = function(what)
        if not isinstance(outcome, answer):
            raise TypeError(f"{function.__qualname__} gave {outcome!r}, not a weir.{answer.__name__}")
    except Exception as error:
        return Outcome.unknown(describe(error)) if answer is Outcome else AbortOutcome.retry(describe(error))
    return outcome
