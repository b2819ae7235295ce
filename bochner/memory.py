"""How much memory there is, and how much of it a fit may hold."""

from __future__ import annotations

import math
import numbers
import os
import re
from pathlib import Path
from typing import Any

from bochner.errors import InputError

SHARE = 0.5
"""The part of what is free that a fit may hold where nobody says how much."""
MATRIX_SHARE = 0.5
"""The part of ``max_memory`` that matrices of all pairs of features may take, where nobody says how many features."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
CGROUP = Path("/sys/fs/cgroup")
GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Limit and use of a control group of Linux, versions 2 and 1, and where it says how much of that is cached files."""


def machine_bytes() -> float:
    """Bytes of main memory; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def free_bytes() -> float:
    """Bytes that programs can still have, on this machine and in this container; all of the memory where nobody says."""
    return min(_available(), _left_in_container())


def as_bytes(max_memory: Any) -> float:
    """The bytes that ``max_memory`` stands for: a number, text such as "2GB", or None for SHARE of what is free.

    Examples
    --------
    >>> from bochner.memory import as_bytes
    >>> as_bytes("1.5GB"), as_bytes("512 MiB"), as_bytes(8e9)
    (1500000000.0, 536870912.0, 8000000000.0)
    """
    if max_memory is None:
        return SHARE * free_bytes()
    if isinstance(max_memory, numbers.Real) and not isinstance(max_memory, bool) and 0 < float(max_memory) < math.inf:
        return float(max_memory)
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", max_memory.lower()) if isinstance(max_memory, str) else None
    try:
        value = float(found[1]) * UNITS[found[2]] if found else 0.0
    except (ValueError, KeyError):
        value = 0.0
    if value <= 0:
        raise InputError(
            f"max_memory must be a positive number of bytes, text such as '2GB' or '500MB', or None (half of what is free), "
            f"got {max_memory!r}."
        )
    return value


def readable(n_bytes: float) -> str:
    """A number of bytes in the largest unit that it fills, such as "1.2 GB"."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = 0
    while n_bytes >= 1000 ** (power + 1) and power < len(units) - 1:
        power += 1
    return f"{n_bytes / 1000**power:.3g} {units[power]}"


def _available() -> float:
    """What Linux says is available, or else all of the memory."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable")))
    except (OSError, StopIteration, ValueError):
        return machine_bytes()


def _left_in_container() -> float:
    """What the limit of a control group leaves; infinite where there is none. Files that it has cached can be let go of."""
    for limit, used, statistics, cached in GROUP_FILES:
        try:
            left = float((CGROUP / limit).read_text()) - float((CGROUP / used).read_text())
            return max(0.0, left + _entry(CGROUP / statistics, cached))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return float("inf")


def _entry(path: Path, name: str) -> float:
    """A number out of a file of names and numbers; zero where it is not there."""
    try:
        return next(float(line.split()[1]) for line in path.read_text().splitlines() if line.split()[:1] == [name])
    except (OSError, StopIteration, ValueError, IndexError):
        return 0.0
