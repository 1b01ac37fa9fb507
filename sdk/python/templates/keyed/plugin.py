"""Counts the words of each key: after every record the key's total so far."""

import weir


class {{Name}}(weir.Operator):
    name, version = "{{name}}", "0.1.0"
    # State for each key. It survives crashes and restarts; a checkpoint finds it by its name.
    words = weir.ValueState("words", weir.INT)

    def process(self, record: weir.Record, out: weir.Output) -> None:
        total = (self.words.get() or 0) + len(record.text().split())
        self.words.set(total)
        out.emit(record.key, b"%d" % total, record.time)
