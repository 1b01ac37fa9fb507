"""State of keys: declared as attributes of an operator's class, read by the host before a call, written back with its result."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar, overload

from .columns import pack_offsets
from .errors import Fatal

T = TypeVar("T")


class Codec(Protocol[T]):
    """How values become bytes. It is part of what a checkpoint stores: another one means another version of the state."""

    def encode(self, value: T) -> bytes:
        """The bytes of a value."""

    def decode(self, stored: bytes) -> T:
        """The value; an exception if the bytes are none."""


class _Bytes:
    def encode(self, value: bytes) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"a state without a codec holds bytes, not {type(value).__name__}")
        return bytes(value)

    def decode(self, stored: bytes) -> bytes:
        return stored


class _Text:
    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, stored: bytes) -> str:
        return stored.decode()


class _Int:
    def encode(self, value: int) -> bytes:
        return value.to_bytes(8, "little", signed=True)

    def decode(self, stored: bytes) -> int:
        if len(stored) != 8:
            raise ValueError("an integer has 8 bytes")
        return int.from_bytes(stored, "little", signed=True)


class _Json:
    def encode(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def decode(self, stored: bytes) -> Any:
        return json.loads(stored)


BYTES: Codec[bytes] = _Bytes()
"""Bytes as they are."""
TEXT: Codec[str] = _Text()
"""Text as UTF-8."""
INT: Codec[int] = _Int()
"""An integer of 64 bits, with sign: the same bytes as an ``i64`` of the Rust SDK."""
JSON: Codec[Any] = _Json()
"""What JSON can say."""


class Struct(Generic[T]):
    """Fields by a format of the module ``struct``: ``Struct("<Qqq")`` holds tuples of three, ``Struct("<Qqq", Stats)`` what a
    ``NamedTuple`` of three fields is. Numbers lie as the Rust SDK's ``state_value!`` lays them out, if the format begins with ``<``."""

    @overload
    def __init__(self: Struct[tuple[Any, ...]], format: str) -> None: ...
    @overload
    def __init__(self, format: str, into: Callable[..., T]) -> None: ...
    def __init__(self, format: str, into: Optional[Callable[..., Any]] = None) -> None:
        layout = struct.Struct(format)
        self._pack = layout.pack
        self._unpack = layout.unpack
        self._into = into

    def encode(self, value: T) -> bytes:
        return self._pack(*value)  # type: ignore[misc]

    def decode(self, stored: bytes) -> T:
        fields = self._unpack(stored)
        return fields if self._into is None else self._into(*fields)  # type: ignore[return-value]


@dataclass(frozen=True)
class Cells:
    """Values of one state, one for each distinct key of a call, as in the contract."""

    ops: bytes
    data: bytes
    index: bytes


KEEP, PUT, DELETE = 0, 1, 2


class Cursor:
    """Which of a call's keys the operator is at; none outside of calls with keys."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None


class State:
    """A declared state of any kind. Each kind says how it is loaded before a call, and what became of it."""

    kind: str
    """As the contract names it."""
    prefetch: bool = True
    """Whether the host reads it before a call, and takes updates back with the result."""

    def __init__(self, name: str, version: int = 1) -> None:
        self.name = name
        """What a checkpoint finds it by, ``[a-z][a-z0-9-]*``. Renaming it is a migration."""
        self.version = version
        """Version of the value's encoding, from 1: raise it when the encoding changes."""

    def _bind(self, cursor: Cursor) -> State:
        """This state for one instance of the operator."""
        raise NotImplementedError

    def _load(self, cells: Cells) -> None:
        """Takes the values of a call's keys."""
        raise NotImplementedError

    def _updates(self) -> Optional[Cells]:
        """What became of them; none if nothing changed."""
        raise NotImplementedError

    def _kept(self) -> Cells:
        """What says that nothing changed."""
        raise NotImplementedError


# A value that was not decoded yet.
_UNREAD: Any = object()


class ValueState(State, Generic[T]):
    """One value for each key::

        class Count(weir.Operator):
            seen = weir.ValueState("seen", weir.INT)

            def process(self, record, out):
                self.seen.set((self.seen.get() or 0) + 1)

    In ``process``, ``on_timer`` and ``on_end_key`` it is the value of the key at hand. The host has read it already, and takes what
    changes back with the result: neither ``get`` nor ``set`` calls it.
    """

    kind = "value"

    def __init__(self, name: str, codec: Codec[T] = BYTES, version: int = 1) -> None:  # type: ignore[assignment]
        super().__init__(name, version)
        self.codec = codec
        self._cursor = Cursor()
        # By the call's keys: what the host gave, decoded when it is asked for, and what became of it.
        self._stored: Cells
        self._values: list[Any] = []
        self._changes = bytearray()

    def get(self) -> Optional[T]:
        """The value; None if there is none."""
        key = self._cursor.key
        if key is None:
            raise self._no_key()
        value = self._values[key]
        return self._decode(key) if value is _UNREAD else value

    def set(self, value: T) -> None:
        """Sets the value. It is encoded at the end of the call."""
        key = self._cursor.key
        if key is None:
            raise self._no_key()
        if value is None:
            raise TypeError(f"state {self.name!r} can't hold None: delete() takes a value away")
        self._values[key] = value
        self._changes[key] = PUT

    def delete(self) -> None:
        """Deletes the value; an absent one is no error."""
        key = self._cursor.key
        if key is None:
            raise self._no_key()
        if self._values[key] is not None:
            self._values[key] = None
            self._changes[key] = DELETE

    def _no_key(self) -> Exception:
        return RuntimeError(f"state {self.name!r} belongs to keys: use it in process, on_timer and on_end_key")

    def _bind(self, cursor: Cursor) -> ValueState[T]:
        bound = type(self)(self.name, self.codec, self.version)
        bound._cursor = cursor
        return bound

    def _load(self, cells: Cells) -> None:
        self._stored = cells
        self._values = [_UNREAD if op else None for op in cells.ops]
        self._changes = bytearray(len(cells.ops))

    def _decode(self, key: int) -> T:
        start, end = struct.unpack_from("<2I", self._stored.index, 4 * key)
        try:
            value = self._values[key] = self.codec.decode(self._stored.data[start:end])
        except Exception as error:
            raise Fatal(f"state {self.name!r} holds {end - start} bytes that its codec can't read: {error}") from error
        return value

    def _updates(self) -> Optional[Cells]:
        changes = self._changes
        if not any(changes):
            return None
        encode = self.codec.encode
        parts = [encode(value) if change == PUT else b"" for value, change in zip(self._values, changes)]
        return Cells(bytes(changes), b"".join(parts), pack_offsets(parts))

    def _kept(self) -> Cells:
        keys = len(self._changes)
        return Cells(bytes(keys), b"", bytes(4 * (keys + 1)))
