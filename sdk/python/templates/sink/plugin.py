"""Writes each value and a newline to files that appear whole, in the folder that the job grants as `out`.

What a transaction has written lies in `.staged/`, where readers do not look. Prepare makes it durable; commit moves it to its place by one
rename that never replaces.
"""

import weir

STAGED = ".staged"


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
        # The content, then its name: after that a crash loses nothing of it.
        self.out.sync(self.file)
        self.out.sync(STAGED)
        return weir.Prepared(1, b"")


class Committer(weir.SinkCommitter):
    def open(self, task: weir.Task, config) -> None:
        self.out = task.folder("out")
        self.sink = task.operator

    def commit(self, what: weir.Committable) -> weir.Outcome:
        try:
            outcome = self.status(what)
            if outcome.kind == "retry" and self.out.rename(f"{STAGED}/{what.id}", what.id):
                return weir.Outcome.COMMITTED
            if outcome == weir.Outcome.ALREADY_COMMITTED:
                # Who renamed it may have died before that was durable.
                self.out.sync("")
                self.out.sync(STAGED)
            return outcome
        except weir.FilesError as error:
            return weir.Outcome.retry(str(error))

    def status(self, what: weir.Committable) -> weir.Outcome:
        # The staged file first: a rename between the two looks must not seem like a loss.
        staged = self.out.exists(f"{STAGED}/{what.id}")
        if self.out.exists(what.id):
            return weir.Outcome.ALREADY_COMMITTED
        if staged:
            return weir.Outcome.retry("prepared, not committed yet")
        return weir.Outcome.lost(f"neither {STAGED}/{what.id} nor {what.id} is there: somebody removed them")

    def abort(self, transaction: str) -> weir.AbortOutcome:
        try:
            if self.out.exists(transaction):
                return weir.AbortOutcome.COMMITTED
            self.out.remove(f"{STAGED}/{transaction}")
            return weir.AbortOutcome.ABORTED
        except weir.FilesError as error:
            return weir.AbortOutcome.retry(str(error))

    def list_dangling(self) -> list[str]:
        # <lineage>.<generation>.<sink>.<subtask>.<number>; other sinks may use the folder, too.
        return [name for name in self.out.list(STAGED) if name.split(".")[2] == self.sink]

    def forget(self, transaction: str) -> None:
        """The committed file itself is the answer to a repeated commit: nothing else is kept."""
