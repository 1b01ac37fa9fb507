"""Writes each value and a newline to files that appear whole: the built-in file sink's rules, as a plugin. It needs the folder grant
``out``, and takes no config. Names and bytes are those of guests/file-sink: either commits what the other has prepared.

Invariants of the granted folder:

- ``part-<subtask>-<checkpoint>`` is a committed file: it appears by one rename that never replaces, and never changes;
- ``.weir-staging/<lineage>/<sink>/<identity>`` holds what a transaction has written. It is appended to until prepare;
- ``.weir-staging/<lineage>/<sink>/<identity>.prepared``, an empty marker, is made durable by prepare, after the content of the staged
  file. Hence: staged and marker = prepared; marker alone = committed (even if a consumer has taken the file); neither = lost; staged
  alone = never prepared, or a half-done abort.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

import weir

GRANT = "out"
VERSION = 1
# Where everything lies that is not committed. Readers ignore names that begin with a dot.
STAGING = ".weir-staging"
PREPARED = ".prepared"


def check_config(config: Any) -> None:
    """Refuses any setting: the sink has none."""
    if config != {}:
        raise weir.Fatal(f"config: this sink has no settings, but got {config!r}")


def folder_of(lineage: str, sink: str) -> str:
    """Where the transactions of one lineage and sink lie."""
    return f"{STAGING}/{lineage}/{sink}"


class Staged(NamedTuple):
    """Where a transaction's files lie."""

    folder: str
    file: str
    marker: str
    subtask: int

    @staticmethod
    def of(identity: str) -> Staged:
        """Of an identity ``<lineage>.<generation>.<sink>.<subtask>.<number>``."""
        parts = identity.split(".")
        if len(parts) != 5:
            raise weir.Fatal(f"'{identity}' is no identity: it has {len(parts)} parts, not five")
        lineage, _, sink, subtask, _ = parts
        if not subtask.isdecimal():
            raise weir.Fatal(f"'{identity}' is no identity: subtask '{subtask}' is not a number")
        folder = folder_of(lineage, sink)
        return Staged(folder, f"{folder}/{identity}", f"{folder}/{identity}{PREPARED}", int(subtask))


class Target(NamedTuple):
    """What a transaction becomes. As a committable's bytes: ``<bytes> <name>``, in ASCII."""

    name: str
    size: int

    def encode(self) -> bytes:
        return f"{self.size} {self.name}".encode()

    @staticmethod
    def decode(data: bytes) -> Target | None:
        """None if the bytes are no target."""
        size, _, name = data.decode(errors="replace").partition(" ")
        if not size.isdecimal() or int(size) == 0 or not name.startswith("part-"):
            return None
        return Target(name, int(size))


class Writer(weir.SinkWriter):
    """Appends to the staged file of the open transaction."""

    name, version = "file-sink", "0.1.0"
    committable_versions = (VERSION,)

    def __init__(self) -> None:
        self.staged: Staged | None = None
        # Bytes appended; an empty transaction leaves no file.
        self.size = 0

    def open(self, task: weir.Task, config: Any) -> None:
        check_config(config)
        self.out = task.folder(GRANT)

    def begin(self, transaction: str) -> None:
        staged = Staged.of(transaction)
        self.out.mkdir(staged.folder)
        # An identity is never used twice, so nothing can lie there. If something does, it is not ours to append to.
        if self.out.exists(staged.file):
            raise weir.Fatal(f"{staged.file} is there already: is another job using this folder?")
        self.staged, self.size = staged, 0

    def write(self, batch: weir.Batch) -> None:
        if not len(batch):
            return
        if self.staged is None:
            raise weir.Fatal("write without begin")
        values = batch.values()
        if None in values:
            raise weir.Fatal("a record's value is null, which a line can't say")
        values.append(b"")
        lines = b"\n".join(values)  # type: ignore[arg-type]
        self.out.append(self.staged.file, lines)
        self.size += len(lines)

    def prepare(self, checkpoint: str, end_of_input: bool) -> weir.Prepared | None:
        staged, size = self.staged, self.size
        if staged is None:
            raise weir.Fatal("prepare without begin")
        self.staged = None
        if size == 0:
            return None
        # Content first, then the marker that vouches for it, then the names of both. The folders were made durable by mkdir.
        self.out.sync(staged.file)
        self.out.append(staged.marker, b"")
        self.out.sync(staged.marker)
        self.out.sync(staged.folder)
        # A newer generation may have aborted this transaction meanwhile. It removes the marker again after the staged file, so one of the
        # two sees the other.
        if not self.out.exists(staged.file):
            raise weir.Fatal(f"{staged.file} was aborted by somebody else")
        return weir.Prepared(VERSION, Target(f"part-{staged.subtask}-{checkpoint}", size).encode())


class Found(Enum):
    """What lies there of a transaction."""

    PREPARED = auto()
    """It can be committed."""
    STAGED_ALONE = auto()
    """It was never prepared, or its abort has begun."""
    MARKER_ALONE = auto()
    """It is committed."""
    NOTHING = auto()
    """It is not there."""


class Committer(weir.SinkCommitter):
    """Looks at two names and renames one: commits and aborts what any writer of this sink has staged, in whatever lineage."""

    def open(self, task: weir.Task, config: Any) -> None:
        check_config(config)
        self.out = task.folder(GRANT)
        self.sink = task.operator

    def commit(self, what: weir.Committable) -> weir.Outcome:
        try:
            names = committable_names(what)
            return names if isinstance(names, weir.Outcome) else self.try_commit(*names)
        except weir.FilesError as error:
            return weir.Outcome.retry(str(error))

    def status(self, what: weir.Committable) -> weir.Outcome:
        try:
            names = committable_names(what)
            return names if isinstance(names, weir.Outcome) else self.judge(*names)
        except weir.FilesError as error:
            return weir.Outcome.unknown(str(error))

    def abort(self, transaction: str) -> weir.AbortOutcome:
        # The marker goes first, and durably: alone it would say committed. Then the staged file, then the marker once more: a writer of an
        # older generation may have made it meanwhile.
        try:
            staged = Staged.of(transaction)
            found = self.look(staged)
            if found is Found.MARKER_ALONE:
                return weir.AbortOutcome.COMMITTED
            if found is Found.NOTHING:
                return weir.AbortOutcome.ABORTED
            if found is Found.PREPARED:
                self.out.remove(staged.marker)
                self.out.sync(staged.folder)
            self.out.remove(staged.file)
            self.out.remove(staged.marker)
            self.out.sync(staged.folder)
            return weir.AbortOutcome.ABORTED
        except weir.WeirError as error:
            return weir.AbortOutcome.retry(str(error))

    def list_dangling(self) -> list[str]:
        found = set()
        try:
            for lineage in self.out.list(STAGING):
                for name in self.out.list(folder_of(lineage, self.sink)):
                    found.add(name.removesuffix(PREPARED))
        except weir.FilesError as error:
            raise weir.Retry(str(error)) from error
        return sorted(found)

    def forget(self, transaction: str) -> None:
        staged = Staged.of(transaction)
        try:
            found = self.look(staged)
            if found in (Found.PREPARED, Found.STAGED_ALONE):
                raise weir.Fatal(f"{staged.file} is to be forgotten, but it is not committed")
            if found is Found.MARKER_ALONE:
                self.out.remove(staged.marker)
                self.out.sync(staged.folder)
        except weir.FilesError as error:
            raise weir.Retry(str(error)) from error

    def look(self, staged: Staged) -> Found:
        # The staged file first: a rename between the two looks must not seem like nothing at all.
        file = self.out.exists(staged.file)
        marker = self.out.exists(staged.marker)
        if file:
            return Found.PREPARED if marker else Found.STAGED_ALONE
        return Found.MARKER_ALONE if marker else Found.NOTHING

    def judge(self, staged: Staged, target: Target) -> weir.Outcome:
        """What would become of a commit; ``retry`` if it can be made."""
        found = self.look(staged)
        file = staged.file
        if found is Found.MARKER_ALONE:
            return weir.Outcome.ALREADY_COMMITTED
        if found is Found.NOTHING:
            return weir.Outcome.lost(f"neither {file} nor its marker is there: somebody removed them")
        if found is Found.STAGED_ALONE:
            return weir.Outcome.lost(
                f"{file} has no marker any more: its abort was begun, or somebody removed it. The file is left where it is"
            )
        # The last byte is where it should be, and none behind it.
        if len(self.out.read(file, target.size - 1, 2)) != 1:
            return weir.Outcome.lost(f"{file} has not the {target.size} bytes that were prepared; it is left where it is")
        if self.out.exists(target.name):
            return taken(staged, target)
        return weir.Outcome.retry("prepared, not committed yet")

    def try_commit(self, staged: Staged, target: Target) -> weir.Outcome:
        outcome = self.judge(staged, target)
        if outcome.kind == "retry":
            return weir.Outcome.COMMITTED if self.out.rename(staged.file, target.name) else taken(staged, target)
        if outcome == weir.Outcome.ALREADY_COMMITTED:
            # Who renamed it may have died before the folders were durable.
            self.out.sync("")
            self.out.sync(staged.folder)
        return outcome


def committable_names(what: weir.Committable) -> tuple[Staged, Target] | weir.Outcome:
    """Where a committable is staged, and what it becomes; unknown if this build can't read it."""
    if what.version != VERSION:
        return weir.Outcome.unknown(f"{what.id} has version {what.version}, this build reads {VERSION}")
    target = Target.decode(what.data)
    if target is None:
        return weir.Outcome.unknown(f"{what.id}: its bytes name no file")
    try:
        return Staged.of(what.id), target
    except weir.Fatal as error:
        return weir.Outcome.unknown(str(error))


def taken(staged: Staged, target: Target) -> weir.Outcome:
    return weir.Outcome.lost(
        f"{target.name} is there already and is another file; this transaction's records are kept in {staged.file}"
    )
