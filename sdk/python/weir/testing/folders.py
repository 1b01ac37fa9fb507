"""Granted folders in memory that can lose power: what was not synced is then gone.

Invariant: a crash keeps of a file the bytes at its last sync, and of a folder the entries at its last sync; a rename makes both folders
durable, and mkdir what it made, as the contract says.
"""

from __future__ import annotations

from typing import Iterator, Optional, Union

from ..errors import FilesError
from ..files import Files


class _File:
    def __init__(self) -> None:
        self.now = b""
        self.durable = b""

    def sync(self) -> None:
        self.durable = self.now

    def crash(self) -> None:
        self.now = self.durable


class _Folder:
    def __init__(self) -> None:
        self.now: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}

    def sync(self) -> None:
        self.durable = dict(self.now)

    def crash(self) -> None:
        self.now = dict(self.durable)


_Node = Union[_File, _Folder]


class MemoryFolders:
    """Every granted folder of a test."""

    def __init__(self, *grants: str) -> None:
        self._grants = {grant: _Folder() for grant in grants}
        self._nodes: list[_Node] = list(self._grants.values())
        self.writing = False
        """True while ``write`` runs: then only append and read are allowed."""
        self._left: Optional[int] = None

    def folder(self, grant: str) -> Files:
        """A folder, to look at from outside."""
        return Files(grant, self)

    def crash(self) -> None:
        """Loses power: what was not synced is gone. Calls work again if they failed before."""
        self._left = None
        for node in self._nodes:
            node.crash()

    def fail_after(self, calls: int) -> None:
        """Lets this many more calls succeed; then every call fails until :meth:`crash`. For tests that stop a sink at each step."""
        self._left = calls

    def files(self, grant: str) -> dict[str, bytes]:
        """Every file under a grant with its content, by path."""
        return dict(sorted(_files("", self._grants[grant])))

    def append(self, grant: str, path: str, data: bytes) -> None:
        self._enter("append", path, in_write=True)
        node = self._find(grant, path)
        if node is None:
            node = self._add(_File())
            folder, name = self._parent(grant, path)
            folder.now[name] = node
        if isinstance(node, _Folder):
            raise FilesError(f"append {path}: it is a folder")
        node.now += bytes(memoryview(data))

    def read(self, grant: str, path: str, offset: int, limit: int) -> bytes:
        self._enter("read", path, in_write=True)
        node = self._find(grant, path)
        if not isinstance(node, _File):
            raise FilesError(f"read {path}: " + ("there is no such file" if node is None else "it is a folder"))
        return node.now[offset : offset + limit]

    def sync(self, grant: str, path: str) -> None:
        self._enter("sync", path)
        node = self._find(grant, path)
        if node is None:
            raise FilesError(f"sync {path}: there is no such file or folder")
        node.sync()

    def mkdir(self, grant: str, path: str) -> None:
        self._enter("mkdir", path)
        names = [name for name in path.split("/") if name]
        for depth in range(1, len(names) + 1):
            part = "/".join(names[:depth])
            folder, name = self._parent(grant, part)
            if name not in folder.now:
                folder.now[name] = self._add(_Folder())
            folder.sync()

    def rename(self, grant: str, source: str, target: str) -> bool:
        self._enter("rename", source)
        node = self._find(grant, source)
        if node is None:
            raise FilesError(f"rename {source}: there is no such file")
        if self._find(grant, target) is not None:
            return False
        (old, old_name), (new, new_name) = self._parent(grant, source), self._parent(grant, target)
        new.now[new_name] = node
        del old.now[old_name]
        old.sync()
        new.sync()
        return True

    def remove(self, grant: str, path: str) -> bool:
        self._enter("remove", path)
        node = self._find(grant, path)
        if node is None:
            return False
        if isinstance(node, _Folder) and node.now:
            raise FilesError(f"remove {path}: the folder is not empty")
        folder, name = self._parent(grant, path)
        del folder.now[name]
        return True

    def exists(self, grant: str, path: str) -> bool:
        self._enter("exists", path)
        return self._find(grant, path) is not None

    def list(self, grant: str, path: str) -> list[str]:
        self._enter("list", path)
        node = self._find(grant, path)
        if isinstance(node, _File):
            raise FilesError(f"list {path}: it is a file")
        return sorted(node.now) if node is not None else []

    def _enter(self, what: str, path: str, in_write: bool = False) -> None:
        """Counts a call, and refuses what is not allowed now."""
        if self.writing and not in_write:
            raise FilesError(f"{what} {path}: only append and read may be called in write")
        if self._left == 0:
            raise FilesError(f"{what} {path}: the disk is gone")
        if self._left is not None:
            self._left -= 1
        if path.startswith("/") or ".." in path.split("/"):
            raise FilesError(f"{what} {path}: the path leaves the folder")

    def _add(self, node: _Node) -> _Node:
        self._nodes.append(node)
        return node

    def _find(self, grant: str, path: str) -> Optional[_Node]:
        if grant not in self._grants:
            raise FilesError(f"no folder is granted as '{grant}'")
        node: Optional[_Node] = self._grants[grant]
        for name in path.split("/"):
            if name:
                node = node.now.get(name) if isinstance(node, _Folder) else None
        return node

    def _parent(self, grant: str, path: str) -> tuple[_Folder, str]:
        folder, _, name = path.rpartition("/")
        node = self._find(grant, folder)
        if not isinstance(node, _Folder):
            raise FilesError(f"{path}: there is no folder '{folder}'")
        return node, name


def _files(path: str, folder: _Folder) -> Iterator[tuple[str, bytes]]:
    for name, node in folder.now.items():
        own = f"{path}/{name}" if path else name
        if isinstance(node, _File):
            yield own, node.now
        else:
            yield from _files(own, node)
