"""Runs the two halves of a sink on folders in memory."""

from __future__ import annotations

import json
from typing import Any, Iterable, Optional

from ..columns import Batch
from ..operator import Task
from ..sink import AbortOutcome, Committable, Outcome, SinkCommitter, SinkWriter, abort_all, commit_all, status_all
from .folders import MemoryFolders
from .harness import Input, pack_batch


class SinkHarness:
    """A sink in a test: one open writer, and a fresh committer for every call, as after a restart."""

    def __init__(
        self,
        writer: type[SinkWriter],
        committer: type[SinkCommitter],
        folders: MemoryFolders,
        sink: str = "out",
        config: Any = None,
    ) -> None:
        self._writer_kind = writer
        self._committer_kind = committer
        self._folders = folders
        self._task = Task("test", sink, 0, 1, 1, folders)
        self._config = json.dumps({} if config is None else config)
        self._open: Optional[str] = None
        self.writer = writer()
        """The writer itself."""
        self.writer.open(self._task, json.loads(self._config))

    def begin(self, transaction: str) -> None:
        """Opens a transaction."""
        self._open = transaction
        self.writer.begin(transaction)

    def write(self, records: Iterable[Input]) -> None:
        """Writes one batch of (key, value, event time in ms)."""
        self._folders.writing = True
        try:
            self.writer.write(Batch(pack_batch(records)[0]))
        finally:
            self._folders.writing = False

    def prepare(self, checkpoint: str, end_of_input: bool = False) -> Optional[Committable]:
        """Prepares the open transaction."""
        assert self._open is not None, "no transaction is open"
        transaction, self._open = self._open, None
        prepared = self.writer.prepare(checkpoint, end_of_input)
        if prepared is None:
            return None
        assert prepared.version in self._writer_kind.committable_versions, f"version {prepared.version} is not declared"
        return Committable(transaction, checkpoint, prepared.version, prepared.data)

    def commit(self, *what: Committable) -> list[Outcome]:
        """Commits in order, as the component does."""
        return commit_all(self._committer(), list(what))

    def status(self, what: Committable) -> Outcome:
        """Asks what became of one."""
        return status_all(self._committer(), [what])[0]

    def abort(self, transaction: str) -> AbortOutcome:
        """Aborts one."""
        return abort_all(self._committer(), [transaction])[0]

    def list_dangling(self) -> list[str]:
        """Lists what exists outside."""
        return self._committer().list_dangling()

    def forget(self, transaction: str) -> None:
        """Forgets one."""
        self._committer().forget(transaction)

    def _committer(self) -> SinkCommitter:
        committer = self._committer_kind()
        committer.open(self._task, json.loads(self._config))
        return committer
