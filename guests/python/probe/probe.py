"""Does what a record's value says, and tells what it found: what a plugin in Python has of the contract, and of the world around it."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import time
from typing import Any

import weir


class Probe(weir.Operator):
    name, version = "probe", "0.1.0"
    side_outputs = ("side",)
    uses_files = True
    seen = weir.ValueState("seen", weir.JSON)

    def open(self, task: weir.Task, config: Any) -> None:
        self.given = config
        self.out = task.folder("out")

    def process(self, record: weir.Record, out: weir.Output) -> None:
        word = record.text()
        seen = self.seen.get() or []
        self.seen.set([*seen, word])
        answer = getattr(self, word)(record, out)
        if answer is not None:
            out.emit(record.key, f"{word}: {answer}".encode(), record.time)

    def on_timer(self, timer: weir.Timer, out: weir.Output) -> None:
        out.emit(timer.key, b"fired: %b at %d of %d" % (timer.payload, timer.time, self.timers.watermark()), timer.time)

    def on_end(self, port: int, out: weir.Output) -> None:
        out.emit(None, b"end of %d" % port, 0)

    def on_end_key(self, key: bytes, out: weir.Output) -> None:
        out.emit(key, f"seen: {self.seen.get()}".encode(), 0)

    def settings(self, record: weir.Record, out: weir.Output) -> str:
        return json.dumps(self.given)

    def bad(self, record: weir.Record, out: weir.Output) -> None:
        raise weir.BadRecord("told to")

    def bug(self, record: weir.Record, out: weir.Output) -> None:
        {}["missing"]

    def exit(self, record: weir.Record, out: weir.Output) -> None:
        sys.exit(3)

    def loop(self, record: weir.Record, out: weir.Output) -> None:
        while True:
            pass

    def memory(self, record: weir.Record, out: weir.Output) -> None:
        kept = []
        while True:
            kept.append(bytes(1 << 20))

    def recurse(self, record: weir.Record, out: weir.Output) -> None:
        self.recurse(record, out)

    def world(self, record: weir.Record, out: weir.Output) -> str:
        try:
            open("/etc/passwd")
            found = "a file"
        except OSError as error:
            found = type(error).__name__
        started = time.time()
        time.sleep(3600)
        return f"{found} {dict(os.environ)} {started} {time.time()} {random.SystemRandom().random() < 1} {len({'a', 'b'})}"

    def speak(self, record: weir.Record, out: weir.Output) -> None:
        print("seen on standard output")
        print("seen on standard error", file=sys.stderr)
        logging.getLogger("probe").warning("seen by %s", "logging")
        weir.log.info("seen by the host")

    def side(self, record: weir.Record, out: weir.Output) -> None:
        out.side("side").emit(b"", b"with headers", record.time, [("a", b"1"), ("b", None)])

    def chunks(self, record: weir.Record, out: weir.Output) -> None:
        for i in range(10):
            out.emit(record.key, b"%d" % i + b"x" * 100_000, record.time)

    def timer(self, record: weir.Record, out: weir.Output) -> None:
        for time_ms in (7, 5):
            self.timers.set_event_time(record.key, time_ms, b"payload")
        self.timers.delete(weir.TimerKind.EVENT_TIME, record.key, 7, b"payload")

    def files(self, record: weir.Record, out: weir.Output) -> str:
        self.out.mkdir("a")
        self.out.append("a/b", b"content")
        self.out.sync("a/b")
        moved = self.out.rename("a/b", "a/c")
        try:
            self.out.read("../x", 0, 1)
        except weir.FilesError as error:
            refused = str(error)
        else:
            refused = "nothing"
        return f"{moved} {self.out.list('a')} {self.out.read('a/c', 1, 3)!r} {refused}"
