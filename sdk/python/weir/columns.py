"""Records as they cross the boundary: columns of packed bytes, see ``types.batch`` in the contract."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from struct import pack, unpack
from typing import Iterable, Iterator, Optional

from .errors import BadRecord

# Tags of blocks in ``aux``, and the bits of a mark.
MARKS = 1
HEADERS = 2
KEY_PRESENT = 1
VALUE_NULL = 2

# The length that says null.
_NULL = 0xFFFF_FFFF

Header = tuple[str, Optional[bytes]]
"""Name and value of a header; a value may be null."""


@dataclass(frozen=True)
class Columns:
    """A columnar batch, as in the contract."""

    count: int
    data: bytes
    index: bytes
    times: bytes
    aux: bytes


NOTHING = Columns(0, b"", b"", b"", b"")


class Record:
    """One record. Its bytes are its own: keep it as long as you like."""

    __slots__ = ("key", "value", "time")

    key: bytes | None
    """None is null, which is not the same as empty. State knows bytes only: there the two are the same key."""
    value: bytes | None
    """None is null, which is not the same as empty."""
    time: int
    """Event time in milliseconds since the Unix epoch."""

    # Most records come by the first input and have no headers: these need no room in them.
    port: int = 0
    """The input that it came from, in the order of the job file's ``from``."""
    _headers: bytes = b""

    def text(self) -> str:
        """The value as text. One that is null or no UTF-8 makes this a bad record."""
        try:
            return self.value.decode()  # type: ignore[union-attr]
        except UnicodeDecodeError as error:
            raise BadRecord(f"its value is no UTF-8: {error.reason} at byte {error.start}") from None
        except AttributeError:
            raise BadRecord("its value is null, not text") from None

    @property
    def headers(self) -> list[Header]:
        """Its headers in their order; names may repeat. ``out.forward`` keeps them."""
        return unpack_headers(self._headers)

    def __repr__(self) -> str:
        return f"Record(key={self.key!r}, value={self.value!r}, time={self.time}, port={self.port}, headers={self.headers!r})"


class _FullRecord(Record):
    """One that came by another input, or has headers."""

    __slots__ = ("port", "_headers")


class Batch:
    """Records in columns: iterate over them, or take whole columns."""

    __slots__ = ("_columns", "_port", "_index", "_marks", "_header_index", "_headers")

    def __init__(self, columns: Columns, port: int = 0) -> None:
        self._columns = columns
        self._port = port
        count = columns.count
        self._index = unpack(f"<{2 * count + 1}I", columns.index) if count else (0,)
        self._marks = self._header_index = None
        self._headers = b""
        for tag, block in _blocks(columns.aux):
            if tag == MARKS:
                self._marks = block
            elif tag == HEADERS:
                room = 4 * (count + 1)
                self._header_index, self._headers = unpack(f"<{count + 1}I", block[:room]), block[room:]

    def __len__(self) -> int:
        return self._columns.count

    def times(self) -> tuple[int, ...]:
        """The event times in milliseconds since the Unix epoch."""
        return unpack(f"<{len(self)}q", self._columns.times)

    def values(self) -> list[bytes | None]:
        """The values; None is null."""
        data, index = self._columns.data, self._index
        values: list[bytes | None] = [data[start:end] for start, end in zip(index[1::2], index[2::2])]
        if self._marks is not None:
            values = [None if mark & VALUE_NULL else value for mark, value in zip(self._marks, values)]
        return values

    def __iter__(self) -> Iterator[Record]:
        data, index, new = self._columns.data, self._index, Record.__new__
        rows = zip(index[0::2], index[1::2], index[2::2], self.times())
        if self._marks is None and self._header_index is None and self._port == 0:
            for start, middle, end, time in rows:
                record = new(Record)
                record.key = data[start:middle] or None
                record.value = data[middle:end]
                record.time = time
                yield record
            return
        for i, (start, middle, end, time) in enumerate(rows):
            mark = self._marks[i] if self._marks is not None else 0
            full = new(_FullRecord)
            full.key = data[start:middle] if start < middle or mark & KEY_PRESENT else None
            full.value = None if mark & VALUE_NULL else data[middle:end]
            full.time = time
            full.port = self._port
            full._headers = b""
            if self._header_index is not None:
                full._headers = self._headers[self._header_index[i] : self._header_index[i + 1]]
            yield full


def _blocks(aux: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(aux):
        tag, length = unpack("<HI", aux[at : at + 6])
        yield tag, aux[at + 6 : at + 6 + length]
        at += 6 + length


def pack_block(tag: int, block: bytes) -> bytes:
    """A block of ``aux``."""
    return pack("<HI", tag, len(block)) + block


def pack_offsets(parts: Iterable[bytes]) -> bytes:
    """Where each byte string begins once they stand one after the other, and where the last one ends."""
    offsets = list(accumulate(map(len, parts), initial=0))
    return pack(f"<{len(offsets)}I", *offsets)


def unpack_strings(data: bytes, index: bytes) -> list[bytes]:
    """The byte strings of a column."""
    offsets = unpack(f"<{len(index) // 4}I", index)
    return [data[start:end] for start, end in zip(offsets, offsets[1:])]


def unpack_headers(packed: bytes) -> list[Header]:
    """A record's headers. Names are text by custom: what is no UTF-8 in one survives as surrogates."""
    headers: list[Header] = []
    at = 0
    while at < len(packed):
        length = int.from_bytes(packed[at : at + 4], "little")
        name = packed[at + 4 : at + 4 + length].decode("utf-8", "surrogateescape")
        at += 4 + length
        length = int.from_bytes(packed[at : at + 4], "little")
        at += 4
        if length == _NULL:
            headers.append((name, None))
        else:
            headers.append((name, packed[at : at + length]))
            at += length
    return headers


def pack_headers(headers: Iterable[Header]) -> bytes:
    """A record's headers as the contract has them."""
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (pack("<I", len(encoded)), encoded)
        parts += (pack("<I", _NULL),) if value is None else (pack("<I", len(value)), bytes(memoryview(value)))
    return b"".join(parts)
