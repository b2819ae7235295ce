"""One line that says how far a fit is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from bochner.descent import Level

WIDTH = 20


class ProgressLine:
    """A callback of :func:`bochner.descent.descend` that rewrites one line of a terminal, or prints a line for each level.

    The bar fills with the levels of the schedule; how many steps a level takes is not known before it ends. ``then`` is a
    callback that gets the records too.
    """

    def __init__(
        self,
        levels: tuple[Level, ...],
        then: Callable[[dict[str, Any]], None] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self.then = then
        self.n_levels = len(levels)
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.last: dict[str, Any] | None = None

    def __call__(self, record: dict[str, Any]) -> None:
        if self.live:
            self.stream.write(f"\r{self._line(record)}\x1b[K")
            self.stream.flush()
        elif self.last is not None and self.last["level"] != record["level"]:
            self.stream.write(self._line(self.last) + "\n")
        self.last = record
        if self.then is not None:
            self.then(record)

    def close(self) -> None:
        """End the line."""
        if self.last is not None:
            self.stream.write("\n" if self.live else self._line(self.last) + "\n")
            self.stream.flush()

    def _line(self, record: dict[str, Any]) -> str:
        filled = WIDTH * record["level"] // self.n_levels
        size = (
            f"{record['n_features']} features, {record['n_rows']} rows"
            if "n_features" in record
            else f"{record['n_rows']} rows"
        )
        bar = "#" * filled + "." * (WIDTH - filled)
        return (
            f"[{bar}] {record['seconds']:6.1f} s  level {record['level']} of {self.n_levels} "
            f"({size})  {record['kernel']}: held-out error {record['criterion']:.4g}"
        )
