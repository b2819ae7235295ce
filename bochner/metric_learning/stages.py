"""The sizes of a search."""

from __future__ import annotations

from dataclasses import dataclass

CLEARLY_WORSE = 1.5
"""A candidate whose error is this many times that of the best one goes no further."""
ALIKE = 0.02
"""Metrics of one family and kind that grew from two starts to errors that differ by this part or less are one."""


@dataclass(frozen=True)
class Stage:
    """One size: rows, centres among them, most steps of each candidate, how many candidates stay.

    One whose error is ``worse`` times that of the best goes no further. The best width is searched for starts that have
    hope, or for ``every`` one.
    """

    n_rows: int
    n_centres: int
    steps: int
    keep: int
    worse: float = CLEARLY_WORSE
    every: bool = False
