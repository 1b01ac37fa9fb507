"""Files of a folder that the job granted."""

from __future__ import annotations

from typing import Protocol


class Folders(Protocol):
    """The contract's ``files`` interface, or what stands in for it. Errors are :class:`weir.FilesError`."""

    def append(self, grant: str, path: str, data: bytes) -> None: ...
    def read(self, grant: str, path: str, offset: int, limit: int) -> bytes: ...
    def sync(self, grant: str, path: str) -> None: ...
    def mkdir(self, grant: str, path: str) -> None: ...
    def rename(self, grant: str, source: str, target: str) -> bool: ...
    def remove(self, grant: str, path: str) -> bool: ...
    def exists(self, grant: str, path: str) -> bool: ...
    def list(self, grant: str, path: str) -> list[str]: ...


class Files:
    """A granted folder. Paths are relative, with ``/``; the empty one is the folder itself. They can't leave the folder: no ``..``, no
    absolute path, no symbolic link. The host owns the durability rules. What fails raises :class:`weir.FilesError`, whose text says
    what and why.

    In ``SinkWriter.write`` only ``append`` and ``read`` may be called, and an append is applied when the call returns without error.
    """

    def __init__(self, grant: str, folders: Folders) -> None:
        self._grant = grant
        self._folders = folders

    def append(self, path: str, data: bytes) -> None:
        """Appends to a file, which is made if it does not exist (its folder must)."""
        self._folders.append(self._grant, path, data)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """At most ``limit`` bytes from ``offset``; fewer at the end of the file."""
        return self._folders.read(self._grant, path, offset, limit)

    def sync(self, path: str) -> None:
        """Makes a file's content, or a folder's entries, durable. Returns when it is."""
        self._folders.sync(self._grant, path)

    def mkdir(self, path: str) -> None:
        """Makes a folder and its parents, durably. An existing one is no error."""
        self._folders.mkdir(self._grant, path)

    def rename(self, source: str, target: str) -> bool:
        """Moves a file in one atomic step that never replaces: False, and nothing done, if the target exists. Both folders are durable
        when it returns True."""
        return self._folders.rename(self._grant, source, target)

    def remove(self, path: str) -> bool:
        """Removes a file or an empty folder; False if there was none."""
        return self._folders.remove(self._grant, path)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return self._folders.exists(self._grant, path)

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder."""
        return self._folders.list(self._grant, path)
