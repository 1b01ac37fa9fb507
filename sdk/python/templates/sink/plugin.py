"""Writes each value and a newline to files that appear whole, in the folder that the job grants as `out`.

What a transaction has written lies in `.staged/`, where readers do not look. Prepare makes it durable, and then a marker beside it; commit
moves it to its place by one rename that never replaces. The marker alone says: committed, even if a reader has taken the file away.
"""

import weir

STAGED = ".staged"
MARKER = ".prepared"


class Writer(weir.SinkWriter):
    name, version = "{{name}}", "0.1.0"
    # Raise it when the bytes of a committable change, and keep the old one as long as such committables may exist.
    committable_versions = (1,)

    def open(self, task: weir.Task, config) -> None:
        self.out = task.folder("out")

    def begin(self, transaction: str) -> None:
        self.file = f"{STAGED}/{transaction}"
        self.written = False
        self.out.mkdir(STAGED)

    def write(self, batch: weir.Batch) -> None:
        values = batch.values()
        if None in values:
            raise weir.Fatal("a record's value is null, which a line can't say")
        lines = b"".join(value + b"\n" for value in values)
        self.out.append(self.file, lines)
        self.written = self.written or bool(lines)

    def prepare(self, checkpoint: str, end_of_input: bool) -> weir.Prepared | None:
        if not self.written:
            return None
        # The content, the marker that vouches for it, the names of both: after that a crash loses nothing.
        self.out.sync(self.file)
        self.out.append(self.file + MARKER, b"")
        self.out.sync(self.file + MARKER)
        self.out.sync(STAGED)
        # A newer attempt of the job may have aborted it meanwhile: it removes the marker after the file, so one of the two sees the other.
        if not self.out.exists(self.file):
            raise weir.Fatal(f"{self.file} was aborted by somebody else")
        return weir.Prepared(1, b"")


class Committer(weir.SinkCommitter):
    def open(self, task: weir.Task, config) -> None:
        self.out = task.folder("out")
        self.sink = task.operator

    def look(self, transaction: str) -> tuple[bool, bool]:
        """Whether the staged file is there, and the marker. The file first: a rename between the two must not seem like a loss."""
        file = f"{STAGED}/{transaction}"
        return self.out.exists(file), self.out.exists(file + MARKER)

    def commit(self, what: weir.Committable) -> weir.Outcome:
        try:
            outcome = self.status(what)
            if outcome.kind == "retry":
                if self.out.rename(f"{STAGED}/{what.id}", what.id):
                    return weir.Outcome.COMMITTED
                return weir.Outcome.lost(f"{what.id} is there already and is another file")
            if outcome == weir.Outcome.ALREADY_COMMITTED:
                # Who renamed it may have died before that was durable.
                self.out.sync("")
                self.out.sync(STAGED)
            return outcome
        except weir.FilesError as error:
            return weir.Outcome.retry(str(error))

    def status(self, what: weir.Committable) -> weir.Outcome:
        match self.look(what.id):
            case True, True:
                return weir.Outcome.retry("prepared, not committed yet")
            case False, True:
                return weir.Outcome.ALREADY_COMMITTED
            case _:
                return weir.Outcome.lost(f"{STAGED}/{what.id}{MARKER} is gone: an abort was begun, or somebody removed it")

    def abort(self, transaction: str) -> weir.AbortOutcome:
        try:
            file, marker = self.look(transaction)
            if marker and not file:
                return weir.AbortOutcome.COMMITTED
            # The marker goes first, and durably: alone it would say committed.
            if marker:
                self.out.remove(f"{STAGED}/{transaction}{MARKER}")
                self.out.sync(STAGED)
            if file:
                self.out.remove(f"{STAGED}/{transaction}")
                # An older attempt may have made it again.
                self.out.remove(f"{STAGED}/{transaction}{MARKER}")
                self.out.sync(STAGED)
            return weir.AbortOutcome.ABORTED
        except weir.FilesError as error:
            return weir.AbortOutcome.retry(str(error))

    def list_dangling(self) -> list[str]:
        # <lineage>.<generation>.<sink>.<subtask>.<number>; other sinks may use the folder, too.
        found = {name.removesuffix(MARKER) for name in self.out.list(STAGED)}
        return sorted(name for name in found if name.split(".")[2] == self.sink)

    def forget(self, transaction: str) -> None:
        file, marker = self.look(transaction)
        if file:
            raise weir.Fatal(f"{transaction} is to be forgotten, but it is not committed")
        if marker:
            self.out.remove(f"{STAGED}/{transaction}{MARKER}")
            self.out.sync(STAGED)
