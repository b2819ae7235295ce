"""A process that counts its calls that change files below a folder, and gives itself SIGKILL at one of them."""

from __future__ import annotations

import builtins
import io
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OF_THE_SYSTEM = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")


@dataclass(frozen=True)
class Calls:
    """The calls of an undisturbed run, by name, in order."""

    names: list[str]


class Counter:
    """Counts calls, and kills at one of them; ``torn`` does half of it before."""

    def __init__(self, at: int | None = None) -> None:
        self.names: list[str] = []
        self.at = at

    def __call__(self, name: str, torn: Callable[[], Any] | None = None) -> None:
        self.names.append(name)
        if len(self.names) == self.at:
            if torn is not None:
                torn()
            os.kill(os.getpid(), signal.SIGKILL)


def watched(folder: Path, counter: Counter) -> None:
    """From now on, calls of this process that change files below ``folder`` are told to ``counter``."""
    plain_open = builtins.open

    class Counted(io.FileIO):
        """A file without a buffer, so that every write is one of the system."""

        def write(self, data: Any) -> int:
            view = memoryview(data).cast("B")
            counter("write", lambda: io.FileIO.write(self, view[: len(view) // 2]))
            written = 0
            while written < len(view):
                written += io.FileIO.write(self, view[written:]) or 0
            return written

        def truncate(self, size: int | None = None) -> int:
            counter("truncate")
            return super().truncate(size)

    def counted_open(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        inside = isinstance(file, str | os.PathLike) and Path(file).absolute().is_relative_to(folder)
        if not inside or "b" not in mode or not set(mode) & set("wax"):
            return plain_open(file, mode, *args, **options)
        counter("open")
        return Counted(file, mode.replace("b", ""))

    builtins.open = counted_open  # type: ignore[assignment]
    for name in OF_THE_SYSTEM:
        setattr(os, name, _counted(name, getattr(os, name), counter, folder))


def _counted(name: str, call: Callable[..., Any], counter: Counter, folder: Path) -> Callable[..., Any]:
    def each(first: Any, *args: Any, **options: Any) -> Any:
        if isinstance(first, int) or Path(first).absolute().is_relative_to(folder):
            counter(name)
        return call(first, *args, **options)

    return each


def count_calls(folder: Path, told: Path, work: Callable[[], Any]) -> None:
    """Do some work, and write the names of its calls to a file."""
    counter = Counter()
    watched(folder, counter)
    work()
    told.write_text(json.dumps(counter.names))


def die_at(folder: Path, number: int, work: Callable[[], Any]) -> None:
    """Do some work as far as the call of a number."""
    watched(folder, Counter(number))
    work()
