"""Files that are whole whenever the program that writes them is killed: a log of records, files replaced as a whole."""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bochner.errors import BochnerError, FileAccessError, MissingFileError

try:
    import fcntl
except ImportError:  # Windows, where two programs with one log are not told apart
    fcntl = None  # type: ignore[assignment]

SYNC_SECONDS = 1.0
"""Shortest time between two waits for a log to be on disk. A killed program loses nothing by it, a power cut may."""
PARTIAL = ".part"
"""The suffix of a file that is not complete."""
NAME_KEPT = 50
"""Characters of a file's name that begin the name of its incomplete one, which file systems allow 255 bytes."""
SYSTEM = {
    errno.ENOSPC: "the disk is full, and nothing was written. Make room, or write elsewhere.",
    errno.EFBIG: "the file is larger than it may be here, and nothing was written. Raise the limit, or write elsewhere.",
    errno.EDQUOT: "the quota of the disk is used up, and nothing was written. Make room, or write elsewhere.",
    errno.EACCES: "there is no permission for that. Choose another place, or change the permissions.",
    errno.EPERM: "there is no permission for that. Choose another place, or change the permissions.",
    errno.EROFS: "this file system is read-only. Write elsewhere.",
    errno.EISDIR: "this is a folder. Give the name of a file.",
    errno.EEXIST: "a part of this path is a file, not a folder. Give another path.",
    errno.ENOTDIR: "a part of this path is a file, not a folder. Give another path.",
    errno.ENOENT: "there is no such file or folder. Check the path.",
}
"""What the system's errors mean, and what to do."""


class Log:
    """Records in a file, one a line, each with a checksum: what comes after a line that is torn does not count.

    The file is locked for as long as it is open, so that only one program at a time writes to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.exists = True
        self.records: list[dict[str, Any]] = []
        self._ends = [0]
        """Where each record ends, after the beginning of the first."""
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115, closed by close()
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BaseException:
            self._file.close()
            raise
        self._synced = time.monotonic()

    def add(self, record: dict[str, Any]) -> None:
        """One more record, as a whole or not at all."""
        text = json.dumps(record).encode()
        try:
            write_all(self._file, b"%08x %s\n" % (zlib.crc32(text), text))
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError:
            suppressed(self._file.truncate, self._ends[-1])
            raise
        self.records.append(record)
        self._ends.append(self._file.seek(0, os.SEEK_END))

    def cut(self, n_records: int) -> None:
        """Drop all but the first records."""
        self.records, self._ends = self.records[:n_records], self._ends[: n_records + 1]
        self._file.truncate(self._ends[-1])

    def close(self) -> None:
        """Close the file, which unlocks it."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, while it is locked where that can be."""
        self.exists = False
        if fcntl is None:  # Windows, where nothing that is open can be removed
            self._file.close()
        suppressed(self.path.unlink)

    def _read(self) -> None:
        self._file.seek(0)
        for line in self._file.readall().splitlines(keepends=True):
            checksum, _, text = line[:-1].partition(b" ")
            if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
                break
            self.records.append(json.loads(text))
            self._ends.append(self._ends[-1] + len(line))
        self._file.truncate(self._ends[-1])


def replace_file(path: Path, write: Callable[[Any], None]) -> None:
    """Write a file that is there as a whole or not at all; of several writers at a time the last one to end has it."""
    partial = path.with_name(f"{path.name[:NAME_KEPT]}.{secrets.token_hex(4)}{PARTIAL}")
    with writing(path):
        opened = open(partial, "xb")  # noqa: SIM115, outside of try: where it fails, nothing here is to be removed
        try:
            with opened as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            suppressed(partial.unlink)
            raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A context in which the system's errors name the file that was to be written, and say what to do."""
    with _told(path, "written"):
        if path.is_dir():
            raise FileAccessError(errno.EISDIR, f"{path} cannot be written: {SYSTEM[errno.EISDIR]}", str(path))
        yield


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """The same for a file that was to be read."""
    with _told(path, "read"):
        yield


@contextmanager
def _told(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except BochnerError:
        raise
    except OSError as error:
        why = SYSTEM.get(error.errno or 0, f"{error.strerror or error}. Choose another place.")
        if error.errno == errno.ENOENT and done == "written":
            why = f"there is no folder {path.absolute().parent}. Make it first."
        if error.errno == errno.ENOENT:
            raise MissingFileError(error.errno, f"{path} cannot be {done}: {why}", str(path)) from error
        raise FileAccessError(error.errno, f"{path} cannot be {done}: {why}", str(path)) from error


def write_all(file: Any, data: bytes) -> None:
    """Write bytes to a file that may take fewer at a time."""
    while data:
        data = data[file.write(data) :]


def suppressed(action: Callable[..., Any], *args: Any) -> None:
    """Do something with a file that may not work, as it was only to tidy up."""
    with suppress(OSError):
        action(*args)
