"""Running departure delays of each carrier and origin: for every flight one line
carrier,origin,count,sum_dep_delay,max_dep_delay, after this flight. Delays are whole minutes. The same as guests/carrier-stats, down to
the state that it keeps.

Input: lines of the flights file, keyed carrier,origin, as parse-flights gives them.
"""

from __future__ import annotations

import weir

# Where the delay stands in a line, and how many fields a line has.
DEP_DELAY = 5
FIELDS = 19

QUOTE = ord('"')

# Above it a float no longer tells whole numbers apart.
EXACT = 1 << 53

# Python reads no longer integers.
DIGITS = 4_000


class CarrierStats(weir.Operator):
    name, version = "carrier-stats", "0.1.0"
    delays = weir.ValueState("delays", weir.Struct("<Qqq"))

    def process(self, record: weir.Record, out: weir.Output) -> None:
        delay = dep_delay(record.value or b"")
        stats = self.delays.get()
        if stats is None:
            count, total, highest = 1, delay, delay
        else:
            count, total, highest = stats[0] + 1, stats[1] + delay, delay if delay > stats[2] else stats[2]
        self.delays.set((count, total, highest))
        out.emit(record.key, b"%b,%d,%d,%d" % (record.key or b"", count, total, highest), record.time)


def dep_delay(line: bytes) -> int:
    """The delay of a flight's line."""
    # As a number: a byte string that is looked for in another one is tried as a number first, which costs more than the search.
    if QUOTE in line:
        fields = quoted_fields(line)
        count = len(fields)
    else:
        fields = line.split(b",", DEP_DELAY + 1)
        count = line.count(b",") + 1
    if count != FIELDS:
        raise weir.BadRecord(f"{count} fields, a flight has {FIELDS}")
    field = fields[DEP_DELAY]
    number = whole(field[1:-1].replace(b'""', b'"') if field.startswith(b'"') else field)
    if number is None:
        raise weir.BadRecord(f"dep_delay '{field.decode(errors='replace')}' is not a number")
    return number


def quoted_fields(line: bytes) -> list[bytes]:
    """The fields of a line, quotes and all."""
    fields = []
    at = 0
    while True:
        end = at
        if line[at : at + 1] == b'"':
            end = at + 1
            while True:
                end = line.find(b'"', end) + 1
                if end == 0:
                    raise weir.BadRecord("a quoted field does not end with its quote")
                if line[end : end + 1] in (b",", b""):
                    break
                if line[end : end + 1] != b'"':
                    raise weir.BadRecord("a quoted field does not end with its quote")
                end += 1
        else:
            end = line.find(b",", at)
            end = len(line) if end < 0 else end
        fields.append(line[at:end])
        if end == len(line):
            return fields
        at = end + 1


def whole(text: bytes) -> int | None:
    """A number as a whole one; None if it is none."""
    if (text.isdigit() or (text[1:].isdigit() and text[0] in b"+-")) and len(text) < DIGITS:
        number = int(text)
        if -(1 << 63) <= number < 1 << 63:
            return number
    # Python takes more for a number than the other languages do: blanks around it, underscores in it.
    if text.strip() != text or b"_" in text:
        return None
    try:
        floating = float(text)
    except ValueError:
        return None
    return int(floating) if abs(floating) < EXACT else None
