"""How much memory this machine has."""

from __future__ import annotations

import os


def machine_bytes() -> float:
    """Bytes of main memory; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def readable(n_bytes: float) -> str:
    """A number of bytes in the largest unit that it fills, such as "1.2 GB"."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = 0
    while n_bytes >= 1000 ** (power + 1) and power < len(units) - 1:
        power += 1
    return f"{n_bytes / 1000**power:.3g} {units[power]}"
